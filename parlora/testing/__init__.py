"""Tools for testing agents built on Parlora; import what you need from the module that holds it.

* `parlora.testing.leftovers`: did this piece of work leave a process, descriptor, thread or file behind?
"""

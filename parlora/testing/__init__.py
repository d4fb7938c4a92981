"""Tools for testing agents built on Parlora; import what you need from the module that holds it.

* `parlora.testing.leftovers`: did this piece of work leave a process, descriptor, thread or file behind?
* `parlora.testing.session_model`: a session's brain with virtual time and scripted adapters, without any process.
* `parlora.testing.clock`: that virtual time alone.
* `parlora.testing.providers`: local stand-ins for the cloud services.
"""

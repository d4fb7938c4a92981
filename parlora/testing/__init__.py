"""Tools for testing agents built on Parlora; import what you need from the module that holds it.

* `parlora.testing.scripted`, `parlora.testing.script`: strict fakes of the adapters that do what a script says.
* `parlora.testing.session_events`: what a session told, with bounded waits.
* `parlora.testing.fixtures`: the leftovers check as a fixture for pytest.
* `parlora.testing.leftovers`: did this piece of work leave a process, descriptor, thread or file behind?
* `parlora.testing.session_model`: a session's brain with virtual time and scripted adapters, without any process.
* `parlora.testing.clock`: that virtual time alone.
* `parlora.testing.providers`: local stand-ins for the cloud services.
"""

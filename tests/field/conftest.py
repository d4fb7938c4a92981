from tests.sessions import call, host  # noqa: F401

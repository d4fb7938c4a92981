"""What the public API must not offer: storage of sessions, and judgement of the application's business."""

import importlib
import inspect
import re

import pytest

import parlora
from parlora.session.calls import _OPERATIONS

STORAGE = {
    "save",
    "load",
    "store",
    "restore",
    "persist",
    "migrate",
    "serialize",
    "deserialize",
    "dump",
    "dumps",
    "loads",
}
BUSINESS = {"authorize", "authorise", "confirm", "approve", "permit", "grant", "commit", "pay", "book", "ledger"}

STARTS_NO_SESSION_AGAIN = {"Component.load"}
"""Names that have one of the words and mean something else: it imports the code that an import path names."""


def words(name: str) -> set[str]:
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z]+", name)}


def public_functions() -> list[str]:
    """Every public function, class and public method of the names in `parlora.__all__`."""
    found = []
    for name in parlora.__all__:
        value = getattr(parlora, name)
        found.append(name)
        if inspect.isclass(value):
            found += [f"{name}.{each}" for each, _ in inspect.getmembers(value, callable) if not each.startswith("_")]
    return found


@pytest.mark.row("TY-26")
def test_nothing_public_stores_or_restores_a_session() -> None:
    offered = [name for name in public_functions() if words(name) & STORAGE]
    assert set(offered) <= STARTS_NO_SESSION_AGAIN
    assert not {"wire", "pack", "unpack", "to_data", "from_data"} & set(parlora.__all__)
    signature = inspect.signature(parlora.ActorHost.start_session)
    assert not {"snapshot", "state", "resume", "restore", "tasks", "jobs"} & set(signature.parameters)


@pytest.mark.row("SL-53")
def test_nothing_public_judges_or_records_business() -> None:
    """Neither a function of the API nor an operation of a session; what a snapshot has for it is never set by us."""
    assert [name for name in public_functions() if words(name) & BUSINESS] == []
    assert [name for name in _OPERATIONS if words(name) & BUSINESS] == []
    source = inspect.getsource(importlib.import_module("parlora.session.projection"))
    assert source.count("confirmation") == 1
    assert '"confirmation": None' in source

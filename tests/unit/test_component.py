from collections import OrderedDict
from pathlib import Path

import pytest

from parlora.component import Component
from parlora.errors import InvalidArgument


def module_level() -> str:
    return "here"


def refused(value: object, field: str = "channel") -> InvalidArgument:
    with pytest.raises(InvalidArgument) as caught:
        Component.parse(value, field)
    return caught.value


@pytest.mark.row("SL-01")
def test_a_component_is_an_implementation_and_options() -> None:
    assert Component.parse(("collections:OrderedDict", {"a": 1}), "channel") == Component(
        "collections:OrderedDict", {"a": 1}
    )
    assert Component.parse(OrderedDict, "channel").path == "collections:OrderedDict"
    assert Component.parse([module_level, {}], "channel").path.endswith(":module_level")


@pytest.mark.parametrize(
    "value", [lambda: 0, OrderedDict().keys, 5, None, "no_colon", "a:b c", "a.b:", ("a:b",), "1:b"]
)
def test_what_another_process_cannot_import_is_refused_by_name(value: object) -> None:
    assert refused(value).details["field"] == "channel"


def test_a_function_defined_inside_another_is_refused() -> None:
    def inner() -> None: ...

    assert "importable" in refused(inner).message


@pytest.mark.parametrize("options", [{"a": object()}, {1: 2}, "text", {"a": {1, 2}}])
def test_options_that_do_not_serialize_are_refused(options: object) -> None:
    assert refused(("a:b", options)).details["field"] == "channel.options"


def test_options_show_in_no_repr() -> None:
    assert "hunter2" not in repr(Component("a:b", {"key": "hunter2"}))


def test_an_import_path_that_fails_names_the_field() -> None:
    for path in ("no_such_module_at_all:X", "collections:NoSuch"):
        with pytest.raises(InvalidArgument) as caught:
            Component(path).build("provider")
        assert caught.value.details["field"] == "provider"
        assert path in caught.value.message


def test_an_unknown_option_names_the_options() -> None:
    with pytest.raises(InvalidArgument) as caught:
        Component("fractions:Fraction", {"wrong": 1}).build("backend")
    assert caught.value.details["field"] == "backend.options"
    assert "allowed are numerator, denominator" in caught.value.message


def test_an_import_that_exits_is_a_failed_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "module_that_exits.py").write_text("raise SystemExit(3)")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(InvalidArgument, match="cannot import module_that_exits:X: SystemExit: 3"):
        Component("module_that_exits:X").build("backend")


def test_an_option_the_component_refuses_is_named_in_full() -> None:
    with pytest.raises(InvalidArgument) as caught:
        Component(f"{__name__}:picky", {"caller": 3}).build("channel")
    assert caught.value.details["field"] == "channel.options.caller"


def picky(caller: object) -> None:
    raise InvalidArgument("caller must be a path", field="caller")

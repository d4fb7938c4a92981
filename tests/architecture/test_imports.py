"""Imports run one way, `parlora_actors` -> `parlora` -> `parlora._native`, and pure code stays pure."""

import ast
import re
import sys

import pytest

from tests.architecture.sources import Import, closure, imports_of, modules

ARROWS_BACK = {
    # It hands out the host API by name, on first use only, so that people write `import parlora` and nothing more.
    "parlora": "lazily",
    # The example application is run as `python -m parlora.orderdesk`.
    "parlora.orderdesk.__main__": "always",
}

ACTORS_MODULE = re.compile(r"^parlora_actors([.:][\w.:]*)?$")

DEPENDENCIES = {
    "thespian",
    "msgpack",
    "cattrs",
    "attrs",
    "cffi",
    "numpy",
    "psutil",
    "websocket",
    "typer",
    "rich",
    "click",
}

FOR_PYTEST = {"parlora.testing.fixtures"}
"""Modules that only a test run of pytest imports."""

PURE = ("parlora.session", "parlora.turns", "parlora.context", "parlora.contract", "parlora.errors", "parlora.events")
PURE_FILES = "codec"  # Codecs of adapters, wherever they are, have it in their name.

MIXED = {"parlora.ids": "new_id"}
"""Modules with a pure part for everyone and one impure function, which pure code does not take."""

IMPURE = {
    "asyncio", "concurrent", "ctypes", "datetime", "fcntl", "io", "logging", "mmap", "multiprocessing", "os", "pathlib",
    "queue", "random", "secrets", "select", "selectors", "shutil", "signal", "socket", "subprocess", "tempfile",
    "thespian", "threading", "time", "uuid", "websocket", "parlora._native",
}  # fmt: skip


def package_of(name: str) -> str:
    return name.partition(".")[0]


def is_pure(module: str) -> bool:
    inside = any(module == pure or module.startswith(f"{pure}.") for pure in PURE)
    return inside or PURE_FILES in module.rpartition(".")[2].split("_")


def all_imports() -> list[tuple[str, Import]]:
    return [(module, found) for module in modules() for found in imports_of(module)]


def test_parlora_never_imports_the_actors_but_where_it_is_listed() -> None:
    wrong = [
        str(found)
        for module, found in all_imports()
        if package_of(module) == "parlora" and package_of(found.target) == "parlora_actors"
        if not (ARROWS_BACK.get(module) == "always" or (ARROWS_BACK.get(module) == "lazily" and found.is_lazy))
    ]
    assert wrong == []


def test_parlora_names_the_actors_in_no_text_that_could_be_imported() -> None:
    """An import by name is an import: such a text may stand only where the import is listed."""
    wrong = [
        f"{path}:{node.lineno} {node.value!r}"
        for module, path in modules().items()
        if package_of(module) == "parlora" and module not in ARROWS_BACK
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if ACTORS_MODULE.match(node.value)
    ]
    assert wrong == []


def test_the_actor_library_is_used_by_the_actors_only() -> None:
    wrong = [
        str(found)
        for module, found in all_imports()
        if package_of(module) == "parlora" and package_of(found.target) == "thespian"
    ]
    assert wrong == []


def test_the_native_part_is_reached_through_parlora_only() -> None:
    wrong = [
        str(found)
        for module, found in all_imports()
        if package_of(module) == "parlora_actors" and found.target.startswith("parlora._native")
    ]
    assert wrong == []


def test_tests_and_benchmarks_are_imported_by_nothing_that_ships() -> None:
    wrong = [str(found) for _, found in all_imports() if package_of(found.target) in {"tests", "benchmarks", "native"}]
    assert wrong == []


def test_what_is_imported_with_a_module_is_a_dependency_and_no_extra() -> None:
    """An extra is imported when it is used, inside a function, so that its absence is one clear error."""
    allowed = DEPENDENCIES | sys.stdlib_module_names | {"parlora", "parlora_actors"}
    wrong = [
        str(found)
        for module, found in all_imports()
        if not found.is_lazy
        and package_of(found.target) not in allowed
        and not (module in FOR_PYTEST and package_of(found.target) == "pytest")
    ]
    assert wrong == []


@pytest.mark.parametrize("module", sorted(filter(is_pure, modules())))
def test_pure_code_reaches_no_clock_socket_thread_or_chance(module: str) -> None:
    """Neither itself nor through a module of ours that comes with it."""
    wrong = [
        str(found)
        for reached in closure(module, with_packages=True)
        for found in imports_of(reached)
        if found.name == MIXED.get(found.target)
        or (reached not in MIXED and (found.target in IMPURE or package_of(found.target) in IMPURE))
    ]
    assert wrong == []


def test_no_module_imports_itself_through_others() -> None:
    """What is imported on loading has no cycle, so the order of imports never matters."""
    cycles = [
        f"{module} -> {found.target} -> ... -> {module}"
        for module in modules()
        for found in imports_of(module)
        if not found.is_lazy and found.target in modules() and module in closure(found.target)
    ]
    assert cycles == []

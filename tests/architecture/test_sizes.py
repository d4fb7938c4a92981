"""A file has one idea and at most 400 lines; a function fits on one screen, 50 lines without its docstring."""

import ast
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.architecture.sources import ROOT

FILE_LINES = 400
FUNCTION_LINES = 50
FOLDERS = ("parlora", "actors", "native", "benchmarks", "tests")
GENERATED = {"_native.c"}


def files(*suffixes: str) -> list[Path]:
    found = (path for folder in FOLDERS for path in (ROOT / folder).rglob("*"))
    return sorted(path for path in found if path.suffix in suffixes and path.name not in GENERATED)


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def python_functions(path: Path) -> Iterator[tuple[str, int]]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            first = node.body[0]
            has_docstring = ast.get_docstring(node) is not None
            docstring = (first.end_lineno or first.lineno) - first.lineno + 1 if has_docstring else 0
            yield node.name, node.end_lineno - node.lineno + 1 - docstring


def c_functions(path: Path) -> Iterator[tuple[str, int]]:
    """Bodies whose last brace stands alone in the first column, as our C is written; the name is the line before."""
    lines = path.read_text().splitlines()
    start = 0
    for number, line in enumerate(lines):
        if (line and line[0] not in " \t}#/*" and line.rstrip().endswith("{")) or line == "{":
            start = number
        elif line == "}":
            yield lines[start], number - start + 1


def too_long(functions: Callable[[Path], Iterator[tuple[str, int]]], *suffixes: str) -> dict[str, int]:
    return {
        f"{name(path)}: {function}": lines
        for path in files(*suffixes)
        for function, lines in functions(path)
        if lines > FUNCTION_LINES
    }


def test_no_file_is_too_long() -> None:
    lengths = {name(path): len(path.read_text().splitlines()) for path in files(".py", ".c", ".h")}
    assert {path: lines for path, lines in lengths.items() if lines > FILE_LINES} == {}


def test_no_python_function_is_too_long() -> None:
    assert too_long(python_functions, ".py") == {}


def test_no_c_function_is_too_long() -> None:
    assert too_long(c_functions, ".c", ".h") == {}

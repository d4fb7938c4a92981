"""A file has one idea and at most 400 lines; a function fits on one screen, 50 lines without its docstring."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

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


@pytest.mark.parametrize("path", files(".py", ".c", ".h"), ids=name)
def test_no_file_is_too_long(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= FILE_LINES


@pytest.mark.parametrize("path", files(".py"), ids=name)
def test_no_python_function_is_too_long(path: Path) -> None:
    assert [(function, lines) for function, lines in python_functions(path) if lines > FUNCTION_LINES] == []


@pytest.mark.parametrize("path", files(".c", ".h"), ids=name)
def test_no_c_function_is_too_long(path: Path) -> None:
    assert [(function, lines) for function, lines in c_functions(path) if lines > FUNCTION_LINES] == []

"""The public names: committed in a file, the same for the type checker and at run time, and free until used."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import parlora
from tests.architecture.sources import ROOT

COMMITTED = Path(__file__).with_name("exports.txt")


def names_for_the_type_checker() -> dict[str, str]:
    """The module of each name that `parlora/__init__.py` imports for the type checker."""
    tree = ast.parse((ROOT / "parlora" / "__init__.py").read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    return {str(alias.asname): str(node.module) for node in imports for alias in node.names}


def test_the_public_names_are_those_of_the_committed_list() -> None:
    """A name that comes or goes is a decision: change the list with it, and the changelog."""
    assert sorted(parlora.__all__) == COMMITTED.read_text().split()


def test_the_type_checker_sees_the_names_that_exist() -> None:
    typed = names_for_the_type_checker()
    assert sorted(typed) == sorted(parlora.__all__)
    assert [
        name for name in typed if getattr(parlora, name) is not getattr(importlib.import_module(typed[name]), name)
    ] == []


def test_every_public_name_says_what_it_is() -> None:
    assert [name for name in parlora.__all__ if not (getattr(parlora, name).__doc__ or "").strip()] == []


def test_importing_parlora_imports_no_library() -> None:
    program = "import sys; before = set(sys.modules); import parlora; print(*sorted(set(sys.modules) - before))"
    result = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    outside = {name.partition(".")[0] for name in result.stdout.split()} - sys.stdlib_module_names
    assert outside == {"parlora"}

"""`import parlora` gives every public name, and costs nothing until one is used."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import parlora


def test_every_public_name_is_the_one_of_its_home() -> None:
    for name in parlora.__all__:
        assert getattr(parlora, name) is getattr(import_module(parlora._HOME_OF[name]), name)


def test_type_checkers_see_the_same_names_as_the_program() -> None:
    tree = ast.parse(Path(str(parlora.__file__)).read_text())
    seen = {
        alias.name: node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    del seen["import_module"], seen["TYPE_CHECKING"], seen["Any"]
    assert seen == parlora._HOME_OF


def test_importing_parlora_imports_no_other_module_of_it() -> None:
    code = "import sys, parlora; print(sorted(name for name in sys.modules if name.startswith('parlora')))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert run.stdout.strip() == "['parlora']"


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(parlora, "Nonsense")

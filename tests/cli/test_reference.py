"""docs/reference says what the code does."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from parlora_actors.config import parse_config

from . import reference


@pytest.mark.parametrize("name", list(reference.pages()))
def test_a_reference_page_is_as_the_code_makes_it(name: str) -> None:
    written = (reference.FOLDER / name).read_text()
    assert written == reference.pages()[name], "python -m tests.cli.reference writes the pages anew"


def test_every_page_is_made_from_the_code() -> None:
    assert {path.name for path in reference.FOLDER.glob("*.md")} == set(reference.pages())


def test_the_example_of_the_configuration_page_is_a_valid_configuration() -> None:
    found = re.search(r"```toml\n(.*?)```", reference.configuration(), re.S)
    assert found is not None
    parse_config(tomllib.loads(found[1]), str(Path.cwd()))

"""What the pages say is run: every command and program, every file they link to."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, TESTED_LANGUAGES, Block, blocks, commands, links, pages, shows

COMMAND_TIMEOUT_S = 90


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def environment() -> dict[str, str]:
    """The commands of this interpreter's environment come first, as after activating it."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    python_path = f"{ROOT}:{ROOT / 'actors'}"
    return os.environ | {"PATH": path, "PYTHONPATH": python_path}


def run(arguments: list[str], directory: Path, block: Block) -> str:
    result = subprocess.run(
        arguments,
        cwd=directory,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=COMMAND_TIMEOUT_S,
        check=False,
    )
    assert result.returncode == 0, f"{block}: {arguments[-1]} ended with {result.returncode}:\n{result.stdout}"
    return result.stdout


def run_block(block: Block, directory: Path) -> None:
    if block.language == "python":
        program = directory / "block.py"
        program.write_text(block.text)
        run([sys.executable, str(program)], directory, block)
        return
    for command in commands(block):
        output = run(["sh", "-c", command.line], directory, block)
        assert shows(command.output, output), f"{block}: {command.line} printed\n{output}"


def check_make(block: Block) -> None:
    makefile = (ROOT / "Makefile").read_text()
    for command in commands(block):
        program, target, *_ = command.line.split()
        assert program == "make", str(block)
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), f"{block}: no target {target}"


def check_other_test(block: Block, test: str) -> None:
    path, _, function = test.partition("::")
    assert f"def {function}(" in (ROOT / path).read_text(), f"{block}: there is no test {test}"


@pytest.mark.parametrize("page", pages(), ids=name)
def test_every_command_and_program_of_the_page_works(page: Path, tmp_path: Path) -> None:
    for block in blocks(page):
        what, _, argument = block.directive.partition(" ")
        match what:
            case "run":
                run_block(block, tmp_path)
            case "file":
                (tmp_path / argument).write_text(block.text)
            case "make":
                check_make(block)
            case "by":
                check_other_test(block, argument)
            case _:
                assert block.language not in TESTED_LANGUAGES, f"{block}: no test"
                assert not block.directive, f"{block}: unknown test {block.directive!r}"


@pytest.mark.parametrize("page", pages(), ids=name)
def test_every_link_to_a_file_leads_to_one(page: Path) -> None:
    assert [target for target in links(page) if not (page.parent / target).exists()] == []


def test_blocks_are_read_with_the_comment_before_them(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- test: run -->\n\n```console\n$ echo a\na\n\n$ true\n```\n\ntext\n```python\npass\n```\n")
    first, second = blocks(page)

    assert (first.language, first.directive, first.line) == ("console", "run", 3)
    assert [(command.line, command.output) for command in commands(first)] == [("echo a", ("a",)), ("true", ())]
    assert (second.language, second.directive, second.text) == ("python", "", "pass\n")


@pytest.mark.parametrize(
    ("expected", "is_shown"),
    [
        ((), True),
        (("a", "b", "c"), True),
        (("a", "c"), False),
        (("a", "...", "c"), True),
        (("...", "b", "..."), True),
        (("a",), False),
        (("...", "d"), False),
    ],
)
def test_shown_output_is_compared_line_by_line(expected: tuple[str, ...], is_shown: bool) -> None:
    assert shows(expected, "a\nb\nc\n") is is_shown

"""The project's pages as data: their fenced blocks, what a test is to do with each, and their links.

The line before a block says, in a comment that readers do not see, how the block is tested:

* `<!-- test: run -->`: a console block, each `$ ` line of which is run in turn and must succeed; the lines below it
  must come out, in order (`...` stands for any lines). A python block is run as a program;
* `<!-- test: file NAME -->`: the block is written to NAME, for later blocks of the same page;
* `<!-- test: make -->`: console lines `$ make TARGET ...` whose targets exist; the test run itself calls them;
* `<!-- test: by tests/x/test_y.py::test_z -->`: that test does what the block says.

Every console and python block of every page has one.
"""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
TESTED_LANGUAGES = {"console", "python"}

_DIRECTIVE = re.compile(r"^\s*<!-- test: (?P<what>.+?) -->\s*$")
_FENCE = re.compile(r"^(?P<indent>\s*)```(?P<language>\w*)\s*$")
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\((?P<target>[^)\s]+)\)")


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block: `directive` is what its comment says, empty without one."""

    page: Path
    line: int
    language: str
    text: str
    directive: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


@dataclass(frozen=True, slots=True)
class Command:
    """One `$ ` line of a console block and the output shown below it."""

    line: str
    output: tuple[str, ...]


def pages() -> list[Path]:
    return [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: Path) -> list[Block]:
    found = []
    lines = iter(enumerate(page.read_text().splitlines(), start=1))
    directive = ""
    for number, line in lines:
        fence = _FENCE.match(line)
        if fence:
            text = []
            for _, inner in lines:
                if inner.strip() == "```":
                    break
                text.append(inner.removeprefix(fence["indent"]))
            found.append(Block(page, number, fence["language"], "\n".join(text) + "\n", directive))
        said = _DIRECTIVE.match(line)
        if said or line.strip():
            directive = said["what"] if said else ""
    return found


def commands(block: Block) -> list[Command]:
    """The commands of a console block, each with the output that the page shows for it."""
    found: list[tuple[str, list[str]]] = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        elif found and line.strip():
            found[-1][1].append(line.rstrip())
    return [Command(line, tuple(output)) for line, output in found]


def links(page: Path) -> list[str]:
    """The targets of the page's links to other files of the project, without the part of the page they name."""
    targets = [match["target"] for match in _LINK.finditer(page.read_text())]
    return [target.partition("#")[0] for target in targets if "://" not in target and not target.startswith("#")]


def shows(expected: tuple[str, ...], output: str) -> bool:
    """Whether the output has the expected lines in order and without others between them, but where `...` stands."""
    lines = [line.rstrip() for line in output.splitlines() if line.strip()]
    position, may_skip = 0, False
    for want in expected:
        if want.strip() == "...":
            may_skip = True
            continue
        if may_skip:
            while position < len(lines) and lines[position] != want:
                position += 1
        if position == len(lines) or lines[position] != want:
            return False
        position, may_skip = position + 1, False
    return may_skip or position == len(lines) or not expected

"""`__main__:Name` in another process: loaded under another name, only when asked for, and never run as main."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

MAIN = """
from dataclasses import dataclass
print("loaded as", __name__)

@dataclass
class Thing:
    size: int = 3

if __name__ == "__main__":
    raise SystemExit("ran as main")
"""


def in_a_node(code: str, main: Path) -> str:
    program = (
        f"import sys; from parlora_actors.user_code import install; install(sys.path, '.', {json.dumps(str(main))})\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", program + code], capture_output=True, text=True, timeout=60,
        cwd=Path(__file__).parents[2], env={"PYTHONPATH": ".:actors"},
    )  # fmt: skip
    return run.stdout + run.stderr


def test_the_main_file_is_loaded_once_and_under_another_name(tmp_path: Path) -> None:
    main = tmp_path / "app.py"
    main.write_text(MAIN)
    code = """
from parlora.component import Component
print("asked")
print([Component("__main__:Thing").build("channel").size for _ in range(2)])
"""
    assert in_a_node(code, main).splitlines() == ["asked", "loaded as __parlora_main__", "[3, 3]"]


def test_a_main_file_that_fails_is_an_error_naming_the_field(tmp_path: Path) -> None:
    main = tmp_path / "app.py"
    main.write_text("import no_such_module\n")
    code = """
from parlora.component import Component
from parlora.errors import InvalidArgument
try:
    Component("__main__:Thing").load("backend")
except InvalidArgument as error:
    print(error.details["field"], error.message)
"""
    told = in_a_node(code, main)
    assert told.startswith("backend backend: cannot import __main__:Thing: ModuleNotFoundError")


def test_a_main_file_that_starts_a_host_without_a_guard_is_refused(tmp_path: Path) -> None:
    main = tmp_path / "app.py"
    main.write_text("from parlora import ActorHost\nActorHost().start()\n")
    code = """
from parlora.component import Component
try:
    Component("__main__:Thing").load("backend")
except Exception as error:
    print(error)
"""
    assert "if __name__ == '__main__'" in in_a_node(code, main)

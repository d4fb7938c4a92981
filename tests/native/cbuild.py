"""Compiles the C test programs beside this file together with the native sources, or says what is missing."""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

HERE = Path(__file__).parent
NATIVE = HERE.parent.parent / "native"
SOURCES = sorted(path for path in NATIVE.glob("*.c") if path.name != "python_frames.c")
WARNINGS = ["-std=gnu11", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror"]


@cache
def compiler() -> str:
    found = shutil.which(os.environ.get("CC", "cc"))
    if found is None:
        pytest.skip("no C compiler: apt install gcc")
    return found


def build(program: str, directory: Path, *flags: str) -> Path:
    """The program's path; a compiler's refusal of our code is a failure with its words."""
    target = directory / program
    sources = [str(HERE / f"{program}.c"), *map(str, SOURCES)]
    done = subprocess.run(
        [compiler(), *WARNINGS, *flags, *sources, "-o", str(target), "-lm", "-pthread", "-Wl,-z,now"],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return target


def supports(flag: str, directory: Path) -> bool:
    """Whether the compiler can build and run an empty program with `flag` (a sanitizer's library may be missing)."""
    source, target = directory / "empty.c", directory / "empty"
    source.write_text("int main(void) { return 0; }\n", encoding="utf-8")
    built = subprocess.run([compiler(), flag, str(source), "-o", str(target)], capture_output=True, check=False)
    return built.returncode == 0 and subprocess.run([target], capture_output=True, check=False).returncode == 0


def run(path: Path, *arguments: str, timeout: float = 100) -> subprocess.CompletedProcess[str]:
    return subprocess.run([path, *arguments], capture_output=True, text=True, timeout=timeout, check=False)

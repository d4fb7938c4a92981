"""The C programs under AddressSanitizer and UndefinedBehaviorSanitizer."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.native.cbuild import build, run, supports

SANITIZERS = {"address": "libasan", "undefined": "libubsan"}
PROGRAMS = {"native_exercise": [()], "ring_stress": [("50000", "0"), ("50000", "1")]}


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_native_part_runs_clean(tmp_path: Path, program: str) -> None:
    missing = [library for name, library in SANITIZERS.items() if not supports(f"-fsanitize={name}", tmp_path)]
    if missing:
        pytest.skip(f"the compiler lacks {' and '.join(missing)}: apt install libgcc-12-dev, or your compiler's")
    path = build(
        program,
        tmp_path,
        "-O1",
        "-g",
        "-fsanitize=address,undefined",
        "-fno-sanitize-recover=all",
        "-fno-omit-frame-pointer",
    )
    for arguments in PROGRAMS[program]:
        done = run(path, *arguments)
        assert done.returncode == 0, done.stderr[-4_000:] + done.stdout

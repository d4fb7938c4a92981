"""The wheel: one file for every CPython from 3.11, complete, and usable where nothing else of the project is."""

import json
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = ("parlora", "actors", "native", "pyproject.toml", "setup.cfg", "setup.py", "LICENSE", "README.md")


def run(*arguments: object, cwd: Path) -> str:
    result = subprocess.run(
        [str(argument) for argument in arguments],
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout
    return result.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy of the sources, so that nothing of this work tree can slip in."""
    directory = tmp_path_factory.mktemp("wheel")
    for source in SOURCES:
        if (ROOT / source).is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "*.so", "*.egg-info", "build")
            shutil.copytree(ROOT / source, directory / "source" / source, ignore=ignored)
        else:
            shutil.copy(ROOT / source, directory / "source" / source)
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-cache-dir")
    build = ("wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", directory)
    run(*pip, *build, directory / "source", cwd=directory)
    (found,) = directory.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with the wheel alone; the dependencies are those of this interpreter, by a path file."""
    environment = tmp_path_factory.mktemp("environment")
    run(sys.executable, "-m", "venv", "--without-pip", environment, cwd=environment)
    python = environment / "bin" / "python"
    site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=environment).strip())
    # A path file that is found by way of a path file is not read, so an editable Parlora stays out of sight.
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python)
    run(*pip, "install", "--quiet", "--no-deps", "--no-index", wheel, cwd=environment)
    return environment


def test_the_wheel_uses_the_stable_abi_and_names_its_licence(wheel: Path) -> None:
    version, python, abi, platform = wheel.stem.split("-")[1:]
    assert (python, abi) == ("cp311", "abi3")
    assert platform.startswith("linux_")
    with zipfile.ZipFile(wheel) as archive:
        metadata = archive.read(f"parlora-{version}.dist-info/METADATA").decode()
    assert "License-Expression: MIT" in metadata
    assert "Provides-Extra: offline" in metadata


def test_the_wheel_holds_both_packages_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    expected = {
        str(path.relative_to(root))
        for root, package in ((ROOT, "parlora"), (ROOT / "actors", "parlora_actors"))
        for path in (root / package).rglob("*.py")
    }
    outside = {name for name in names if ".dist-info/" not in name} - expected
    assert expected - names == set()
    assert {
        "parlora/py.typed",
        "parlora_actors/py.typed",
        "parlora/_native.abi3.so",
        "parlora/_native_frames.abi3.so",
    } <= outside
    assert {Path(name).suffix for name in outside} <= {".so", ".pyi", ".typed", ".toml", ".json", ".wav", ".txt"}


def test_the_installed_wheel_loads_its_own_native_part(installed: Path) -> None:
    program = "import parlora, parlora_actors, parlora._native as n; print(parlora.__file__); print(n.__file__)"
    files = run(installed / "bin" / "python", "-c", program, cwd=installed).split()
    assert all(Path(file).is_relative_to(installed) for file in files)


def test_the_installed_command_runs(installed: Path) -> None:
    command = installed / "bin" / "parlora-actor"
    assert "Usage: parlora-actor" in run(command, "--help", cwd=installed)
    version = json.loads(run(command, "version", "--json", cwd=installed))
    assert version["parlora"] == metadata.version("parlora")

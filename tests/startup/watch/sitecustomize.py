"""Loaded by every interpreter that starts with this folder in PYTHONPATH: writes down what it reaches for.

One line for each device that is opened, each environment variable with the name of a credential that is read, and each
extra that is imported (a library in C opens devices without a word to Python).
Processes forked from it inherit the watch.
"""

import os
import re
import sys

_PATH = os.environ["PARLORA_WATCH"]
_DEVICE = re.compile(r"^/dev/(?!null|urandom|random|tty|pts|fd|shm|stdin|stdout|stderr)")
_CREDENTIAL = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL", re.IGNORECASE)
_EXTRAS = {"pyaudio", "sounddevice", "pocketsphinx", "espeakng_loader", "aiortc"}
_read = type(os.environ).__getitem__


def _note(text: str) -> None:
    # The report is opened anew each time: an actor closes the descriptors that are not its own.
    report = os.open(_PATH, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(report, f"{os.getpid()} {text}\n".encode())
    os.close(report)


def _on_audit(event: str, arguments: tuple[object, ...]) -> None:
    if event == "open" and isinstance(arguments[0], str) and _DEVICE.match(arguments[0]):
        _note(f"opened {arguments[0]}")
    elif event == "import" and str(arguments[0]).partition(".")[0] in _EXTRAS:
        _note(f"imported {arguments[0]}")


def _getitem(environment: "os._Environ[str]", name: str) -> str:
    if isinstance(name, str) and _CREDENTIAL.search(name):
        _note(f"read {name}")
    return _read(environment, name)


type(os.environ).__getitem__ = _getitem  # type: ignore[method-assign]
sys.addaudithook(_on_audit)
_note("watched")

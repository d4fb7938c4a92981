"""Run in a fresh interpreter: import every module that ships, and report what that reached for, as one JSON object.

`python -m tests.architecture.watch_process` prints `{"reached": [...], "read": [...], "modules": [...]}`: audit events
for devices, sockets, processes and files outside the interpreter's and ours; the names of environment variables read;
the modules loaded.
"""

import importlib
import json
import os
import sys
from collections.abc import Iterator, MutableMapping
from types import ModuleType

from tests.architecture.sources import ROOT, modules

WATCHED = ("socket.connect", "socket.bind", "subprocess.Popen", "os.fork", "os.posix_spawn", "os.exec")


class RecordingEnvironment(MutableMapping[str, str]):
    """Stands in for `os.environ` and remembers which names were asked for; `*` stands for all of them."""

    def __init__(self) -> None:
        self._values = dict(os.environ)
        self.asked: set[str] = set()

    def __getitem__(self, name: str) -> str:
        self.asked.add(name)
        return self._values[name]

    def __setitem__(self, name: str, value: str) -> None:
        self._values[name] = value

    def __delitem__(self, name: str) -> None:
        del self._values[name]

    def __iter__(self) -> Iterator[str]:
        self.asked.add("*")
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def copy(self) -> dict[str, str]:
        return dict(self)


def main() -> None:
    names = [name for name in modules() if not name.endswith("__main__")]
    ours = tuple(str(ROOT / folder) for folder in ("parlora", "actors", "tests"))
    libraries = (path for path in sys.path if path not in {"", str(ROOT)})
    harmless = (*ours, *libraries, sys.prefix, sys.base_prefix, "/usr/", "/proc/self")
    reached: list[str] = []  # A number that is opened is a descriptor, whose own opening was seen before.

    def watch(event: str, arguments: tuple[object, ...]) -> None:
        if event in WATCHED:
            reached.append(f"{event} {arguments!r}")
        elif event == "open" and isinstance(arguments[0], str) and not arguments[0].startswith(harmless):
            reached.append(f"open {arguments[0]}")

    environment = RecordingEnvironment()
    os.environ = environment  # type: ignore[assignment]  # noqa: B003 - what is asked for matters, not the values
    os.getenv = environment.get  # type: ignore[assignment]
    sys.addaudithook(watch)
    loaded: list[ModuleType] = [importlib.import_module(name) for name in names]
    report = {"reached": list(reached), "read": sorted(environment.asked), "modules": sorted(sys.modules)}
    assert loaded
    print(json.dumps(report))


if __name__ == "__main__":
    main()

"""Tiny actors, most of them misbehaving, each in one way. They tell what they do in the node's log."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
import time
from typing import Any, NoReturn

from parlora_actors.actor import ParloraActor


class Quiet(ParloraActor):
    """Does nothing, and stops when asked."""

    def on_init(self, init: dict[str, Any]) -> None:
        self.log.write("info", "up", incarnation=self.incarnation)

    def on_stop(self, deadline_us: int | None) -> None:
        self.log.write("info", "stopping")
        self.finish()


class CrashOnStart(ParloraActor):
    def on_init(self, init: dict[str, Any]) -> None:
        raise RuntimeError("a secret that must not leave the process")


class CrashSoon(Quiet):
    def on_init(self, init: dict[str, Any]) -> None:
        super().on_init(init)
        self.after(init.get("after_us", 1_000), self._crash_now)

    def _crash_now(self) -> None:
        raise ValueError("a secret that must not leave the process")


class FinishSoon(Quiet):
    def on_init(self, init: dict[str, Any]) -> None:
        super().on_init(init)
        self.after(init.get("after_us", 1_000), self.finish)


class NeverHello(ParloraActor):
    says_hello_itself = True


class IgnoreStop(Quiet):
    def on_stop(self, deadline_us: int | None) -> None:
        self.log.write("info", "ignoring_stop")


def block_in_c() -> None:
    """Hold the interpreter's lock in C for ever: no Python signal handler runs any more."""
    ctypes.PyDLL(None).usleep(1_000_000_000)


class BlockInC(Quiet):
    def on_init(self, init: dict[str, Any]) -> None:
        super().on_init(init)
        self.after(1_000, block_in_c)


class Segfault(Quiet):
    def on_init(self, init: dict[str, Any]) -> None:
        super().on_init(init)
        self.after(init.get("after_us", 1_000), lambda: ctypes.string_at(0))


def stubborn() -> NoReturn:
    """Ignore what can be ignored, for ever."""
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    while True:
        time.sleep(60)


def fork_away(count: int) -> list[int]:
    """Leave daemons: forked twice, with a session and no parent of their own."""
    pids = []
    for _ in range(count):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.setsid()
            daemon = os.fork()
            if daemon == 0:
                os.closerange(3, 256)
                stubborn()
            os.write(writer, daemon.to_bytes(4, "little"))
            os._exit(0)
        os.waitpid(child, 0)
        pids.append(int.from_bytes(os.read(reader, 4), "little"))
        os.close(reader)
        os.close(writer)
    return pids


class ForkAway(Quiet):
    """Leaves daemons and plain children behind, none of which wants to go."""

    def on_init(self, init: dict[str, Any]) -> None:
        super().on_init(init)
        children = []
        for _ in range(2):
            child = os.fork()
            if child == 0:
                stubborn()
            children.append(child)
        self.log.write("info", "forked", children=children, daemons=fork_away(3))


class Descriptors(Quiet):
    """Tells which descriptors it has."""

    def on_init(self, init: dict[str, Any]) -> None:
        super().on_init(init)
        found = {int(fd): os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if _is_open(fd)}
        self.log.write("info", "descriptors", open=found)


def _is_open(fd: str) -> bool:
    return os.path.lexists(f"/proc/self/fd/{fd}")


class Surroundings(Quiet):
    """Tells what it inherited."""

    def on_init(self, init: dict[str, Any]) -> None:
        super().on_init(init)
        environment = {name: os.environ[name] for name in init.get("names", ()) if name in os.environ}
        module = sys.modules.get(init.get("module", ""))
        self.log.write(
            "info",
            "surroundings",
            cwd=os.getcwd(),
            environment=environment,
            session=os.getsid(0),
            soft_limit=resource.getrlimit(resource.RLIMIT_NOFILE)[0],
            has_attribute=hasattr(module, init.get("attribute", "")),
        )


class WriteToNobody(Quiet):
    """Writes to a pipe and a socket that nobody reads any more, as any adapter may."""

    def on_init(self, init: dict[str, Any]) -> None:
        super().on_init(init)
        self.after(1_000, self._write)

    def _write(self) -> None:
        reader, writer = os.pipe()
        os.close(reader)
        try:
            os.write(writer, b"unheard")
        except BrokenPipeError:
            self.log.write("info", "nobody_reads")

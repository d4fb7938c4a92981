"""The host's side of its node: start the keeper with its launcher, watch it, stop it, and see that it is gone.

The keeper is executed, never forked, so the host's threads, locks and start method do not matter. It watches the
host by itself: nothing here has to run for a node to end with its host. The host's signal handlers and other children
are left alone: only this one child is waited for, by its pid.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from typing import Any, Final

from parlora.errors import AdapterFailed, Timeout, error_from_data
from parlora_actors.host_timing import NODE_KILL_TIMEOUT_MS, now_us, until_s
from parlora_actors.link import Link
from parlora_actors.messages.launch import (
    FROM_LAUNCHER,
    TO_LAUNCHER,
    Launch,
    NodeFailed,
    NodeGone,
    NodePlaced,
    NodeReady,
    StopNode,
)

_BOOT: Final = (
    "import json, runpy, sys; sys.path[:] = json.loads(sys.argv.pop(1)); "
    "runpy.run_module('parlora_actors.keeper', run_name='__main__', alter_sys=True)"
)
"""The keeper and the launcher must find the same packages as the host, also from a tree that is not installed."""


class NodeProcess:
    """The keeper of one node, and through it the launcher: our only child. Owned by one thread at a time."""

    def __init__(self) -> None:
        """Start the launcher process; it waits for its configuration."""
        self._inbox: list[Any] = []
        self.run_dir: str | None = None
        """The node's directory, as soon as it has one."""
        self.gone: NodeGone | None = None
        """The launcher's last word, once it has been heard."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        fd = theirs.fileno()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _BOOT, json.dumps(sys.path), "--fd", str(fd), "--host", str(os.getpid())],
                stdin=subprocess.DEVNULL,
                close_fds=True,
                pass_fds=(fd,),
                start_new_session=True,
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        self._link = Link(ours, FROM_LAUNCHER, TO_LAUNCHER)
        self._pidfd = os.pidfd_open(self._process.pid)

    @property
    def pid(self) -> int:
        """The keeper's process id."""
        return self._process.pid

    @property
    def pidfd(self) -> int:
        """Readable once the keeper has ended: after everything else."""
        return self._pidfd

    def configure(self, launch: Launch, deadline_us: int) -> str:
        """Send the configuration; returns the run directory once the node is up.

        Raises the node's own error, `Timeout` at `deadline_us`, or `AdapterFailed` if the launcher ended.
        """
        self._link.send(launch)
        answer = self._await((NodeReady, NodeFailed), deadline_us, "the node did not start")
        if isinstance(answer, NodeFailed):
            raise error_from_data(answer.error)
        return str(answer.run_dir)

    def stop(self, deadline_us: int) -> bool:
        """Ask the node to stop; True if the launcher said that nothing is left, and ended, before `deadline_us`."""
        self._inbox += self._link.receive()  # it may have ended by itself: a failed send would hide its last word
        self._link.send(StopNode(deadline_us))
        try:
            gone = self._await((NodeGone,), deadline_us, "the node did not stop")
        except (Timeout, AdapterFailed):
            return False
        self.gone = gone
        return self._reap(deadline_us) and not gone.left

    def kill(self) -> bool:
        """The last step: have the keeper kill everything below it at once. True if it is gone.

        A keeper that does not is killed itself, and the launcher sees that.
        """
        for number in (signal.SIGUSR1, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, number)
            if self._reap(now_us() + NODE_KILL_TIMEOUT_MS * 1_000):
                return True
        return False

    def abandon(self) -> None:
        """In a forked child: the launcher is none of its children, and the copies of our descriptors are closed."""
        self._process.returncode = 0
        self.release()

    def release(self) -> None:
        """Close our descriptors."""
        self._link.close()
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1

    def _reap(self, deadline_us: int) -> bool:
        try:
            self._process.wait(until_s(deadline_us))
        except subprocess.TimeoutExpired:
            return False
        return True

    def _await(self, kinds: tuple[type, ...], deadline_us: int, what: str) -> Any:
        while True:
            while self._inbox:
                message = self._inbox.pop(0)
                if isinstance(message, NodePlaced):
                    self.run_dir = message.run_dir
                if isinstance(message, kinds):
                    return message
            if self._link.closed:
                raise AdapterFailed(f"{what}: its launcher ended")
            if not self._link.wait_readable(until_s(deadline_us)):
                raise Timeout(f"{what} in time")
            self._inbox += self._link.receive()

"""The process between a host and its launcher: it outlives a launcher that dies, and takes what was left with it.

    python -m parlora_actors.keeper --fd N --host PID

The host executes it with one end of a socket pair (`messages.launch`). It becomes a subreaper, forks the launcher while
it is still small and alone, and from then on only waits: keeper, launcher and host watch each other's pidfds, so
whichever one of them dies, another sees it and kills everything below. It runs nobody's code, holds no socket, and has
one thread. SIGTERM is passed on to the launcher, which stops in order; SIGUSR1 kills everything at once.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import select
import signal
import sys
from typing import Final

from parlora._process import close_descriptors_except, set_child_subreaper
from parlora_actors import guardian, procfs
from parlora_actors.timing import FINAL_KILL_US, HEARTBEAT_US, KEEPER_PATIENCE_US, UNRESPONSIVE_MS, now_us

EXIT_KILLED: Final = 1
"""Exit code of a keeper that had to kill; otherwise the launcher's own."""

_MAX_PATH_BYTES: Final = 4_096


class Keeper:
    """host, launcher: pidfds. run_dir: a pipe in which the launcher says where its files are."""

    def __init__(self, host: int, launcher_pid: int, launcher: int, run_dir: int, wakeup: int) -> None:
        self._host = host
        self._launcher_pid = launcher_pid
        self._launcher = launcher
        self._run_dir = run_dir
        self._wakeup = wakeup
        self._deadline_us: int | None = None
        """When the launcher must be gone, once its host is."""
        self._stopped_us: int | None = None

    def run(self) -> int:
        """Wait for the launcher's end, leave nothing behind, and return its exit code."""
        poller = select.poll()
        for fd in (self._launcher, self._wakeup, self._host):
            poller.register(fd, select.POLLIN)
        while True:
            ready = {fd for fd, _ in poller.poll(HEARTBEAT_US // 1_000)}
            if self._launcher in ready:
                return self._end()
            if self._host in ready:
                poller.unregister(self._host)
                self._deadline_us = now_us() + KEEPER_PATIENCE_US
            if self._wakeup in ready and self._must_kill(os.read(self._wakeup, 64)):
                return self._end()
            if self._is_stopped_for_good() or (self._deadline_us is not None and now_us() >= self._deadline_us):
                return self._end()

    def _must_kill(self, signals: bytes) -> bool:
        if signal.SIGTERM in signals:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._launcher, signal.SIGTERM)
        return signal.SIGUSR1 in signals

    def _is_stopped_for_good(self) -> bool:
        """A stopped launcher does nothing any more for those that it should watch."""
        stat = procfs.read_stat(self._launcher_pid)
        if stat is None or stat.state not in "Tt":
            self._stopped_us = None
            return False
        if self._stopped_us is None:
            self._stopped_us = now_us()
        return now_us() - self._stopped_us >= UNRESPONSIVE_MS * 1_000

    def _end(self) -> int:
        report = guardian.kill_below(os.getpid(), now_us() + FINAL_KILL_US)
        code = EXIT_KILLED
        for pid in procfs.children(os.getpid()):
            with contextlib.suppress(ChildProcessError):
                buried, status = os.waitpid(pid, os.WNOHANG)
                if buried == self._launcher_pid:
                    code = os.waitstatus_to_exitcode(status)
        if code != 0:
            self._remove_run_dir()
        return EXIT_KILLED if code < 0 or report.left else code

    def _remove_run_dir(self) -> None:
        with contextlib.suppress(Exception):  # the next node that starts removes it too
            path = os.read(self._run_dir, _MAX_PATH_BYTES).decode()
            from parlora_actors.run_directory import remove_dead  # only for those who need it: see `_launch`

            remove_dead(path)


def _detach(control: int) -> None:
    """Leave the host's session, its standard streams but for its stderr, and every descriptor but the control socket.

    What a component prints goes to stderr: the host's stdout is the host's own.
    """
    if os.getsid(0) != os.getpid():
        os.setsid()
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(2, 1)
    close_descriptors_except({0, 1, 2, control})


def _listen_to_signals() -> int:
    """A descriptor at which the numbers of signals arrive."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGUSR1):
        signal.signal(number, lambda *_: None)
    return reader


def _launch(control: int, host: int) -> int:
    """Fork the launcher and keep it; returns this process's exit code. The launcher returns its own."""
    keeper = os.pidfd_open(os.getpid())
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        from parlora_actors import launcher  # much larger than all that a keeper needs

        return launcher.run(control, host, keeper, writer)
    for fd in (control, keeper, writer):
        os.close(fd)
    procfs.name_process("keeper")
    return Keeper(host, pid, os.pidfd_open(pid), reader, _listen_to_signals()).run()


def main(arguments: list[str] | None = None) -> int:
    """Run a keeper, and in its child a launcher; returns the exit code of either."""
    parser = argparse.ArgumentParser(prog="parlora_actors.keeper", description="Started by a host, not by people.")
    parser.add_argument("--fd", type=int, required=True, help="the control socket, inherited")
    parser.add_argument("--host", type=int, required=True, help="the host's pid")
    options = parser.parse_args(arguments)
    _detach(options.fd)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    set_child_subreaper()
    try:
        host = os.pidfd_open(options.host)
    except ProcessLookupError:
        return EXIT_KILLED
    if os.getppid() != options.host:  # it died, and somebody else may have its pid by now
        return EXIT_KILLED
    return _launch(options.fd, host)


if __name__ == "__main__":
    sys.exit(main())

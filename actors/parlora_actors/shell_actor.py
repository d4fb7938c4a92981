"""The actor around a shell: it gives a plain object on a loop the life of an actor.

Thespian's own loop makes a selector, and walks all its lists, for every wake-up: about a tenth of a millisecond each,
and pages of memory that a process touches for nothing else. So a shell's process stays in its own loop, which watches
Thespian's mailbox as one descriptor among others, and returns to Thespian when there is mail.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

from thespian.actors import ActorAddress, ThespianWatch

from parlora_actors.actor import ParloraActor
from parlora_actors.loop import Loop
from parlora_actors.thespian_books import mailbox_descriptor
from parlora_actors.timers import Timer


class ShellActor(ParloraActor):
    """Runs one shell: the process ends when the shell stops its loop. Subclasses override `make_shell`."""

    loop: Loop

    def make_shell(self, init: dict[str, Any], loop: Loop) -> Any:
        """Build the shell; what it watches is served from then on."""
        raise NotImplementedError

    def on_init(self, init: dict[str, Any]) -> None:
        """Build the shell."""
        # Nothing that a shell's process holds has to be given back, and its supervisor kills what it leaves.
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        self.shell = self.make_shell(init, self.loop)

    def watch(self, fd: int, callback: Callable[[], None]) -> None:
        """Call `callback` whenever the descriptor is readable, until `unwatch`."""
        if not hasattr(self, "loop"):
            self.loop = Loop()
            self._has_mail = False
        self.loop.watch(fd, callback)

    def unwatch(self, fd: int) -> None:
        """Forget the descriptor; unknown numbers are fine."""
        self.loop.unwatch(fd)

    def at(self, due_us: int, callback: Callable[[], None]) -> Timer:
        """Call `callback` once at the monotonic time `due_us`."""
        return self.loop.at(due_us, callback)

    def receiveMessage(self, message: Any, sender: ActorAddress) -> ThespianWatch:
        """Handle one message of Thespian, then serve the loop until the next one comes."""
        answer = super().receiveMessage(message, sender)
        try:
            self._serve_until_mail()
        except BaseException as error:  # the outermost loop: whatever it is, it ends the process
            self._crash(error)
        return answer

    def _serve_until_mail(self) -> None:
        mailbox = mailbox_descriptor(self)
        self._has_mail = False
        self.loop.watch(mailbox, self._on_mail)
        while not self._has_mail:
            code = self.loop.exit_code
            if code is not None:
                self.leave(code, "normal" if code == 0 else f"exit_{code}")
            self.loop.run_ready(-1)
        self.loop.unwatch(mailbox)

    def _on_mail(self) -> None:
        self._has_mail = True

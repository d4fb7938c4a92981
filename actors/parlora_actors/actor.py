"""What every actor of a node is, whatever its role.

An actor is one process with one loop. Its life:

1. It is forked by its supervisor and finds its first message in inherited memory (`birth`): `on_init` gets it.
2. It says `hello` to its supervisor; a supervisor counts it as started from then on.
3. It runs callbacks: mail (`on_message`), watched descriptors (`watch`), timers (`after`).
4. Asked to stop, it gets `on_stop` with a deadline, and calls `finish` by then, or is killed.

An exception that leaves any callback ends the process: it reports `crash` and exits; what follows is the supervisor's
decision. Nothing is retried inside. (Thespian would run the handler a second time and go on.)
"""

from __future__ import annotations

import importlib
import logging
import os
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final, NoReturn

from thespian.actors import Actor, ActorAddress, ActorExitRequest, ThespianWatch, WatchMessage

from parlora._process import reset_fault_signals
from parlora.errors import InvalidArgument
from parlora.wire import pack, unpack
from parlora_actors import birth, cgroup
from parlora_actors.crash_report import describe_crash
from parlora_actors.node_log import NodeLog, NodeLogHandler
from parlora_actors.procfs import name_process, start_ticks
from parlora_actors.supervision_link import Life, Packet, SupervisionLink
from parlora_actors.timers import Timer, TimerQueue
from parlora_actors.timing import SHOW_LIFE_US, now_us

EXIT_CRASHED: Final = 70
EXIT_ABANDONED: Final = 71
"""The supervisor's end of the link is gone."""

_plain_root: Final = logging.root
_plain_manager: Final = logging.Logger.manager


class ParloraActor(Actor):  # type: ignore[misc]
    """Base of all actors. Subclasses override `on_init`, `on_message` and `on_stop`; they have no `__init__`.

    The methods below `on_*` may be called from callbacks only, on the actor's one thread.

    role: what the process is, in hello, reports and logs. session_id: its session, empty for the node's own.
    incarnation: how often its supervisor has started this child, from 1. supervisor: the supervisor's address.
    """

    role: str = "actor"
    session_id: str = ""
    incarnation: int = 0
    supervisor: ActorAddress
    log: NodeLog

    says_hello_itself: ClassVar[bool] = False
    """Whether the end of `on_init` is not yet the end of starting: the subclass calls `say_hello` then."""

    def __init__(self) -> None:
        super().__init__()
        self._watched: dict[int, Callable[[], None]] = {}
        self._link: SupervisionLink | None = None
        self._timers: TimerQueue | None = None
        self._shown_life_us = 0
        self.ignored_messages = 0
        """Mail that was not understood and dropped."""

    # What a subclass may override

    def on_init(self, init: dict[str, Any]) -> None:
        """Start working. `init` is the child spec's init and what the supervisor added. Do not block here."""

    def on_message(self, kind: str, body: dict[str, Any], sender: ActorAddress) -> None:
        """Take mail from another actor, or a note from the supervisor.

        Descriptors that came with a note are in `body["descriptors"]` and belong to this process.
        """
        self.ignored_messages += 1

    def on_stop(self, deadline_us: int | None) -> None:
        """Stop by the monotonic time `deadline_us`: call `finish`, now or later.

        `None` leaves the time to this process. It comes again if the deadline is moved nearer.
        """
        self.finish()

    def before_exit(self) -> None:
        """Last act before this process ends by itself, also after a crash; bounded, and not called when killed."""

    # What a subclass may call

    def watch(self, fd: int, callback: Callable[[], None]) -> None:
        """Call `callback` whenever the descriptor is readable, until `unwatch`. Unwatch before you close it."""
        self._watched[fd] = callback

    def unwatch(self, fd: int) -> None:
        """Forget the descriptor; unknown numbers are fine."""
        self._watched.pop(fd, None)

    def after(self, delay_us: int, callback: Callable[[], None]) -> Timer:
        """Call `callback` once, `delay_us` from now, unless the returned timer is cancelled before."""
        return self.at(now_us() + delay_us, callback)

    def at(self, due_us: int, callback: Callable[[], None]) -> Timer:
        """Call `callback` once at the monotonic time `due_us`."""
        if self._timers is None:
            self._timers = TimerQueue()
            self.watch(self._timers.fileno(), self._timers.run_due)
        return self._timers.at(due_us, callback)

    def send_kind(self, address: ActorAddress, kind: str, **body: Any) -> None:
        """Mail to another actor. It leaves when the callback returns, about a millisecond later."""
        self.send(address, pack([kind, body]))

    def tell_supervisor(self, kind: str, descriptors: Sequence[int] = (), **body: Any) -> bool:
        """A note to the supervisor (`on_child_message` there), with copies of descriptors; returns whether it left.

        It leaves at once and arrives even if this process ends right after.
        """
        return self._report(Life.NOTE, {"kind": kind, "body": body}, descriptors)

    def show_life(self) -> None:
        """Tell the supervisor that this process lives although it answers nothing just now: for what takes long."""
        if now_us() - self._shown_life_us >= SHOW_LIFE_US:
            self._shown_life_us = now_us()
            self._report(Life.PONG, {})

    def say_hello(self) -> None:
        """Tell the supervisor that this process is started; only where `says_hello_itself`."""
        self._report(Life.HELLO, _own_identity() | {"role": self.role, "incarnation": self.incarnation})

    def finish(self, reason: str = "normal", **details: Any) -> NoReturn:
        """End this process with success, after telling the supervisor why."""
        self.leave(0, reason, **details)

    def leave(self, exit_code: int, reason: str, **details: Any) -> NoReturn:
        """End this process with an exit code, after telling the supervisor why."""
        self.before_exit()
        self._report(Life.EXIT, {"reason": reason, "details": details})
        os._exit(exit_code)

    # Thespian's side

    def receiveMessage(self, message: Any, sender: ActorAddress) -> ThespianWatch:
        """Handle one message of Thespian; the answer repeats all watches, for Thespian remembers none."""
        try:
            self._handle(message, sender)
        except BaseException as error:  # the outermost loop: whatever it is, it ends the process
            self._crash(error)
        return ThespianWatch(list(self._watched))

    def _handle(self, message: Any, sender: ActorAddress) -> None:
        if isinstance(message, WatchMessage):
            # A callback may close a descriptor of this batch and open another of the same number, which is not ready.
            batch = [(fd, self._watched.get(fd)) for fd in message.ready]
            for fd, callback in batch:
                if callback is not None and self._watched.get(fd) is callback:
                    callback()
        elif isinstance(message, bytes):
            if self._link is None:
                self._begin(message, sender)
            else:
                self._receive_mail(message, sender)
        elif isinstance(message, ActorExitRequest):
            # A SIGTERM, or Thespian's own shutdown. Thespian's way out waits for children without an end.
            self.finish("asked_by_system")
        else:
            self.ignored_messages += 1

    def _begin(self, first_message: bytes, sender: ActorAddress) -> None:
        given = birth.current()
        if given is None or first_message is not given.first_message:
            raise InvalidArgument("this actor was not started by a supervisor")
        reset_fault_signals()
        if given.cgroup is not None:
            cgroup.enter(given.cgroup)
        self._link = SupervisionLink(given.link)
        self._report(Life.BORN, _own_identity())
        self.watch(given.link, self._on_link)
        init = unpack(first_message)
        self.role, self.incarnation = init["role"], init["incarnation"]
        name_process(self.role)
        self.session_id = init["init"].get("session_id", "")
        self.supervisor = sender
        self.log = NodeLog(given.log, role=self.role, session_id=self.session_id)
        _use_own_logging(self.log)
        self.on_init(init["init"])
        if not self.says_hello_itself:
            self.say_hello()

    def _receive_mail(self, message: bytes, sender: ActorAddress) -> None:
        try:
            mail = unpack(message)
        except InvalidArgument:
            mail = None
        if isinstance(mail, list) and len(mail) == 2 and isinstance(mail[0], str) and isinstance(mail[1], dict):
            self.on_message(mail[0], mail[1], sender)
        else:
            self.ignored_messages += 1

    def _on_link(self) -> None:
        assert self._link is not None
        for packet in self._link.receive():
            self._on_packet(packet)
        if not self._link.is_open:
            self.before_exit()
            os._exit(EXIT_ABANDONED)

    def _on_packet(self, packet: Packet) -> None:
        if packet.life == Life.PING:
            self._report(Life.PONG, {})
        elif packet.life == Life.STOP:
            self.on_stop(packet.body["deadline_us"])
        elif packet.life == Life.NOTE:
            body = packet.body["body"]
            if packet.descriptors:
                body["descriptors"] = list(packet.descriptors)
            self.on_message(packet.body["kind"], body, self.supervisor)
        else:
            self.ignored_messages += 1

    def _report(self, life: Life, body: dict[str, Any], descriptors: Sequence[int] = ()) -> bool:
        return self._link is not None and self._link.send(life, body, descriptors)

    def _crash(self, error: BaseException) -> NoReturn:
        # Whatever fails from here on must not keep the process alive.
        try:
            description = describe_crash(error)
            self._report(Life.CRASH, description)
            if self._link is not None:
                self.log.write("error", "crash", **description)
            self.before_exit()
        finally:
            os._exit(EXIT_CRASHED)


def _own_identity() -> dict[str, int]:
    return {"pid": os.getpid(), "start_ticks": start_ticks(os.getpid())}


def _use_own_logging(log: NodeLog) -> None:
    """Undo Thespian's rebuilding of `logging`: its way costs 341 us a record and reaches nobody here."""
    logging.root = _plain_root
    logging.Logger.root = _plain_root
    logging.Logger.manager = _plain_manager
    handler = next((each for each in _plain_root.handlers if isinstance(each, NodeLogHandler)), None)
    if handler is None:
        _plain_root.handlers[:] = [NodeLogHandler(log)]
    else:  # inherited from the supervisor
        handler.log = log


def load_actor(path: str) -> type[ParloraActor]:
    """The actor class named `module.Class`; raises `InvalidArgument` if there is none."""
    module_name, _, class_name = path.rpartition(".")
    try:
        cls = getattr(importlib.import_module(module_name), class_name)
    except Exception as error:  # importing runs application code: anything may come
        raise InvalidArgument(f"cannot import the actor {path}", field="actor") from error
    if not (isinstance(cls, type) and issubclass(cls, ParloraActor)):
        raise InvalidArgument(f"{path} is no ParloraActor", field="actor")
    return cls

"""The application's handle on one running session (spec 000 §9)."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from parlora.context.snapshot import ContextSnapshot
from parlora.contract.adapter import ClosePolicy
from parlora.contract.channel import SuppressOutput
from parlora.contract.provider import ContextUpdate, MuteInput
from parlora.errors import Closed, InvalidArgument, ParloraError
from parlora.ids import check_id, new_id
from parlora.limits import Limits
from parlora.session.expectation import check_expectation, check_outcome
from parlora.wire import from_data
from parlora_actors.host_connection import Connection
from parlora_actors.host_request import (
    close_policy,
    context_update,
    control_command,
    plain_map,
    whole_number,
)
from parlora_actors.host_timing import LAST_WORDS_TIMEOUT_MS, SESSION_CALL_TIMEOUT_MS, now_us
from parlora_actors.messages.host import FROM_SESSION, TO_SESSION, CallSession, EventSent, Unsubscribed
from parlora_actors.session_life import COORDINATOR_DOWN, SessionLife, obituary
from parlora_actors.subscriber import Subscriber, Subscription

if TYPE_CHECKING:
    from parlora_actors.host_reactor import Reactor

DETACHED = "detached"
"""Why a subscription ends when its host detaches from the node."""

ContextUpdateLike = ContextUpdate | Mapping[str, Any]
ControlLike = SuppressOutput | MuteInput | tuple[str, Any]


class Facts(Protocol):
    """What a handle has to know of its session."""

    @property
    def session_id(self) -> str:
        """The session's id."""

    @property
    def limits(self) -> Limits:
        """Its bounds."""

    @property
    def deadline_us(self) -> int:
        """When its startup must be over, local monotonic."""


class Session:
    """A session of an `ActorHost` or of a node that it is attached to. Every method may be called from any thread.

    Methods raise `Closed` when the session has ended (or in a forked copy of the process), `Timeout` when the
    coordinator does not answer within 5 s, and the error of the answer otherwise. `details["execution"]` of a `Closed`
    or `Timeout` says `never_submitted` or `unknown`.
    """

    def __init__(self, spec: Facts, on_gone: Callable[[Session], None]) -> None:
        """Made by a host's `start_session` or `session`."""
        self._id = spec.session_id
        self._limits = spec.limits
        self._pid = os.getpid()
        self._on_gone = on_gone
        self._life = SessionLife(spec.session_id, spec.limits, spec.deadline_us)
        self._lock = threading.Lock()
        self._subscriptions: dict[str, Subscription] = {}
        self._connection: Connection | None = None
        self._close_asked: str | None = None
        self._obituary: dict[str, Any] | None = None

    @property
    def id(self) -> str:
        """The session's id."""
        return self._id

    def __repr__(self) -> str:
        return f"<Session {self._id}>"

    # ---- observe

    def subscribe(self, subscriber: Subscriber | None = None) -> Subscription:
        """Receive every event of the session from now on, up to and with its one `closed`.

        Without `subscriber` a new one is made. At most `max_subscribers` live subscriptions (`Backpressure`).
        """
        if subscriber is not None and not isinstance(subscriber, Subscriber):
            raise InvalidArgument("subscriber must be a Subscriber or None", field="subscriber")
        subscription_id = new_id()
        subscription = Subscription(
            subscriber or Subscriber(),
            self._id,
            self._limits.subscriber_mailbox_threshold,
            lambda: self._leave(subscription_id),
        )
        with self._lock:
            self._subscriptions[subscription_id] = subscription
        try:
            self._call("subscribe", {"subscription_id": subscription_id})
        except BaseException:
            with self._lock:
                self._subscriptions.pop(subscription_id, None)
            subscription._end("refused")
            raise
        return subscription

    def snapshot(self) -> ContextSnapshot:
        """The conversation as the context policy sees it now."""
        return from_data(self._call("snapshot", {}), ContextSnapshot)

    def status(self) -> dict[str, Any]:
        """A current map, without transcripts, task inputs and results (spec 000 §10, §14).

        `status` in it is `starting`, `ready` or `closing`; a stopped session raises `Closed`.
        """
        value: dict[str, Any] = self._call("status", {})
        return value

    # ---- steer

    def update_context(self, context: Mapping[str, Any]) -> None:
        """Replace the application context and have the policy interpret."""
        self._call("update_context", {"context": plain_map(context, "context")})

    def append_context(self, update: ContextUpdateLike, command_id: str | None = None) -> str:
        """Give the provider a text; returns the command id under which acknowledgment or rejection will be reported.

        Returning means that the provider's adapter admitted it, no more.
        """
        arguments: dict[str, Any] = {"update": context_update(update)}
        if command_id is not None:
            arguments["command_id"] = check_id(command_id, "command_id")
        value = self._call("append_context", arguments)
        return str(value["command_id"])

    def control(self, command: ControlLike, command_id: str) -> None:
        """Admit `("clear_output", "next")`, `("suppress_output", bool)` or `("mute_input", bool)`.

        The outcome follows as `control_completed` or `control_failed`; a repeated id has no second effect.
        """
        arguments = {"command": control_command(command), "command_id": check_id(command_id, "command_id")}
        self._call("control", arguments)

    def cancel(self, request_id: str, expected_task_revision: int, command_id: str) -> None:
        """Cancel a queued request, or ask the backend to cancel a submitted one, which is advice and no outcome."""
        arguments = {
            "request_id": check_id(request_id, "request_id"),
            "expected_task_revision": whole_number(expected_task_revision, "expected_task_revision"),
            "command_id": check_id(command_id, "command_id"),
        }
        self._call("cancel", arguments)

    def expect_progress(
        self, expectation_id: str, timeout_ms: int, until: str | None = None, on_timeout: str | None = None
    ) -> None:
        """Arm the session's one progress deadline (spec 000 §10)."""
        options = {"timeout_ms": timeout_ms, "until": until, "on_timeout": on_timeout}
        given = {name: value for name, value in options.items() if value is not None}
        check_expectation(given)
        self._call("expect_progress", {"id": check_id(expectation_id, "expectation_id"), **given})

    def resolve_progress(self, expectation_id: str, outcome: str) -> None:
        """Settle the progress deadline: `completed` or `cancelled`."""
        arguments = {"id": check_id(expectation_id, "expectation_id"), "outcome": check_outcome(outcome)}
        self._call("resolve_progress", arguments)

    # ---- end

    def close(self, policy: str = ClosePolicy.FINISH) -> None:
        """Begin to close: `finish` lets running jobs end, `cancel` does not. Closing twice is fine."""
        policy = close_policy(policy)
        self._check_process()
        self._life.closing()
        with self._lock:
            if self._connection is None:  # another thread is still starting it
                self._close_asked = self._close_asked or policy
                return
        self._send_close(policy)

    def wait_ready(self, timeout: float | None = None) -> None:
        """Wait until every adapter is ready and the initial capture was drained.

        Raises the error of the session's `failed` event (`details["field"]` names the option at fault where one is), or
        `Closed` if it was closed first. `timeout` is in seconds; the default is the startup deadline and a margin.
        """
        self._check_process()
        self._life.wait_ready(timeout)

    def wait_closed(self, timeout: float | None = None) -> dict[str, Any]:
        """Wait until nothing of the session is left, and return the payload of its `closed` event.

        `timeout` is in seconds and raises `Timeout`. Without one it waits as long as the session lives, but at most the
        shutdown deadline and a margin from the moment its end has begun.
        """
        self._check_process()
        return self._life.wait_closed(timeout)

    # ---- the library's side

    def _open(self, path: str, reactor: Reactor) -> None:
        """Connect to the session's own socket."""
        try:
            connection = Connection(path, FROM_SESSION, TO_SESSION, reactor, self._on_message, self._on_end)
        except ParloraError:
            if self._life.is_gone:  # it ended before we came: its obituary says why
                return
            raise
        with self._lock:
            self._connection = connection
            ended_meanwhile, close_asked = self._life.is_gone, self._close_asked
        if ended_meanwhile:
            connection.close()
        elif close_asked is not None:
            self._send_close(close_asked)

    def _send_close(self, policy: str) -> None:
        try:
            self._call("close", {"policy": policy})
        except Closed:  # it has ended already
            self._check_process()

    @property
    def _is_connected(self) -> bool:
        return self._connection is not None

    def _detach(self) -> None:
        """The host leaves the session as it is."""
        with self._lock:
            subscriptions, self._subscriptions = list(self._subscriptions.values()), {}
            connection = self._connection
        for subscription in subscriptions:
            subscription._detach(DETACHED)
        if connection is not None:
            connection.close()
        self._life.detach()
        self._on_gone(self)

    def _abandon(self) -> None:
        if self._connection is not None:
            self._connection.abandon()

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise Closed("this handle belongs to the process that started the session, not to its forked copy")

    def _call(self, operation: str, arguments: dict[str, Any]) -> Any:
        self._check_process()
        connection = self._connection
        if connection is None or self._life.is_gone:
            raise Closed(
                f"{operation}: the session has ended",
                details={"session_id": self._id, "execution": "never_submitted"},
            )
        deadline_us = now_us() + SESSION_CALL_TIMEOUT_MS * 1_000
        return connection.call(CallSession(new_id(), operation, arguments), operation, deadline_us)

    def _leave(self, subscription_id: str) -> None:
        with self._lock:
            self._subscriptions.pop(subscription_id, None)
        connection = self._connection
        if connection is not None and os.getpid() == self._pid:
            connection.send(CallSession(new_id(), "unsubscribe", {"subscription_id": subscription_id}))

    def _on_message(self, message: Any) -> None:
        if isinstance(message, EventSent):
            self._life.observe(message.event)
            if message.subscription_id is not None:
                subscription = self._subscriptions.get(message.subscription_id)
                if subscription is not None:
                    subscription._deliver(message.event)
        elif isinstance(message, Unsubscribed):
            with self._lock:
                subscription = self._subscriptions.pop(message.subscription_id, None)
            if subscription is not None:
                subscription._detach(message.reason)

    def _on_end(self) -> None:
        """The session's own socket ended: the coordinator is gone; the gateway's word is due."""
        self._life.closing()
        if self._obituary is not None:
            self._finish()

    def _tell_gone(self, payload: dict[str, Any], reactor: Reactor) -> None:
        """Nothing of the session is alive. What its socket still holds is read first."""
        if self._life.is_gone or self._obituary is not None:
            return
        self._obituary = payload
        if self._connection is None or not self._connection.is_open:
            self._finish()
        else:
            reactor.call_at(now_us() + LAST_WORDS_TIMEOUT_MS * 1_000, self._finish)

    def _bury(self, payload: dict[str, Any]) -> None:
        """The whole node is gone, and so is the session, whatever its socket still holds."""
        if self._obituary is None:
            self._obituary = payload
        self._finish()

    def _finish(self) -> None:
        if self._life.is_gone:
            return
        closed = self._life.end(self._obituary or obituary(COORDINATOR_DOWN))
        with self._lock:
            subscriptions, self._subscriptions = list(self._subscriptions.values()), {}
            connection = self._connection
        for subscription in subscriptions:
            subscription._deliver(closed)
        self._life.gone()
        if connection is not None:
            connection.close()
        self._on_gone(self)

"""A local Grok Voice: JSON both ways, answers in bursts, function calls, interruptions, and no last word.

    >>> from parlora.testing.providers.grok import FakeGrok
    >>> with FakeGrok() as fake:
    ...     fake.url.startswith("ws://127.0.0.1:")
    True

It is strict where the service is documented to be, and does what was seen of the service where nothing is documented.
It understands no speech: what callers and the model say is a script.
"""

from __future__ import annotations

import ssl
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final

from parlora.testing.providers.faults import Fault, FaultKind
from parlora.testing.providers.grok_session import FakeGrokSession, Step
from parlora.testing.providers.websocket import Peer, PeerGone, Request, WebSocketServer

PATH: Final = "/v1/realtime"
_DEMO_ROUNDS: Final = 240  # two hours
_KEPT: Final = 20_000  # messages kept of each connection: a test that needs more counts them itself


@dataclass(slots=True)
class Recording:
    """What passed on one connection, oldest first; audio is counted, not kept. `close_code`: the client's, if any."""

    received: list[dict[str, Any]] = field(default_factory=list)
    sent: list[str] = field(default_factory=list)
    query: str = ""
    audio_bytes: int = 0
    audio_messages: int = 0
    loud_bytes: int = 0
    early_audio: int = 0
    """Audio messages before the configuration was confirmed."""
    close_code: int | None = None
    ended: bool = False

    def of(self, type: str) -> list[dict[str, Any]]:
        """The received messages of a type."""
        return [message for message in list(self.received) if message.get("type") == type]


class FakeGrok:
    """Serves `url` until the end of the `with` block.

    script: what happens on the timeline of each session. faults: misbehaviours. api_key: the one key that is let in,
    None for any. speaks: whether a continuation is then spoken, as the model would. greets: what is sent before the
    client has said anything, which differed over time. answers: whether a continuation creates a response at all.
    """

    def __init__(
        self,
        script: Sequence[Step] = (),
        faults: Sequence[Fault] = (),
        *,
        api_key: str | None = None,
        speaks: bool = False,
        greets: Sequence[str] = ("session.created", "conversation.created"),
        answers: bool = True,
        port: int = 0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.script, self.faults = tuple(script), tuple(faults)
        self.speaks, self.greets, self.answers = speaks, tuple(greets), answers
        self._api_key = api_key
        self._changed = threading.Condition()
        self._connections = 0
        self.refused: list[int] = []
        """HTTP statuses of refused upgrades."""
        self.sessions: list[Recording] = []
        """One for each connection that was let in."""
        self._server = WebSocketServer(self._serve, self._admit, port=port, tls=tls)
        self.port = self._server.port
        self.url = f"{'ws' if tls is None else 'wss'}://127.0.0.1:{self.port}{PATH}"

    @classmethod
    def demo(cls, port: int = 0) -> FakeGrok:
        """One that lets any key in and whose caller asks for an order every half minute, for trying by hand."""
        script = []
        for round in range(_DEMO_ROUNDS):
            at_ms = 2_000 + round * 30_000
            script += [
                Step(at_ms, "user", "what items are in order one two four"),
                Step(at_ms + 2_500, "call", f"call_{round + 1}"),
            ]
        return cls(script, speaks=True, port=port)

    def __enter__(self) -> FakeGrok:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Begin to serve."""
        self._server.start()

    def stop(self) -> None:
        """End every connection and wait for the threads."""
        self._server.stop()

    def note(self, recording: Recording, message: dict[str, Any]) -> None:
        """Keep a received message."""
        with self._changed:
            if len(recording.received) < _KEPT:
                recording.received.append(message)
            self._changed.notify_all()

    def wait_for(self, type: str, *, session: int = 1, nth: int = 1, timeout_s: float = 10.0) -> dict[str, Any]:
        """The `nth` message of a type received in a session, counted from 1; raises `TimeoutError`."""

        def found() -> bool:
            return len(self.sessions) >= session and len(self.sessions[session - 1].of(type)) >= nth

        with self._changed:
            if not self._changed.wait_for(found, timeout_s):
                raise TimeoutError(f"no {type} number {nth} in session {session}")
            return self.sessions[session - 1].of(type)[nth - 1]

    def _admit(self, request: Request) -> int | None:
        with self._changed:
            self._connections += 1
            number = self._connections
        status = None
        for fault in self.faults:
            if fault.kind is FaultKind.REFUSED and fault.hits(number):
                status = fault.code
        if request.path != PATH:
            status = 404
        elif "origin" in request.headers:
            status = 400  # an Origin is what a browser sends
        elif not self._lets_in(request.headers.get("authorization", "")):
            status = 401
        if status is not None:
            self.refused.append(status)
        return status

    def _lets_in(self, authorization: str) -> bool:
        scheme, _, key = authorization.partition(" ")
        return scheme == "Bearer" and bool(key) and self._api_key in (None, key)

    def _serve(self, peer: Peer) -> None:
        recording = Recording(query=peer.request.query)
        with self._changed:
            self.sessions.append(recording)
            number = self._connections
        faults = [fault for fault in self.faults if fault.hits(number)]
        try:
            FakeGrokSession(self, peer, recording, faults, lambda: self._server.stopping).run()
        except PeerGone as gone:
            recording.close_code = gone.code
        finally:
            with self._changed:
                recording.ended = True
                self._changed.notify_all()

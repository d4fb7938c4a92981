"""A local Gemini Live: binary frames of JSON, answers in bursts, function calls, interruptions and resumption.

    >>> from parlora.testing.providers.gemini import FakeGemini
    >>> with FakeGemini() as fake:
    ...     fake.url.startswith("ws://127.0.0.1:")
    True

It is strict where the service is documented to be, and does what was measured of the service where nothing is
documented. It understands no speech: what callers and the model say is a script.
"""

from __future__ import annotations

import ssl
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final
from urllib.parse import parse_qs

from parlora.testing.providers.faults import Fault, FaultKind
from parlora.testing.providers.gemini_session import FakeGeminiSession, Step
from parlora.testing.providers.websocket import Peer, PeerGone, Request, WebSocketServer

PATHS: Final = tuple(
    f"/ws/google.ai.generativelanguage.{version}.GenerativeService.BidiGenerateContent"
    for version in ("v1beta", "v1alpha")
)
_DEMO_ROUNDS: Final = 240  # two hours
_KEPT: Final = 20_000  # messages kept of each connection: a test that needs more counts them itself


@dataclass(slots=True)
class Recording:
    """What passed on one connection, oldest first, in camel case; audio is counted, not kept.

    close_code: the client's, if it sent one.
    """

    received: list[dict[str, Any]] = field(default_factory=list)
    sent: list[str] = field(default_factory=list)
    path: str = ""
    audio_bytes: int = 0
    audio_messages: int = 0
    loud_bytes: int = 0
    rate: int = 0
    close_code: int | None = None
    ended: bool = False

    def of(self, kind: str) -> list[dict[str, Any]]:
        """What came under this top-level name."""
        return [message[kind] for message in list(self.received) if kind in message]


class FakeGemini:
    """Serves `url` until the end of the `with` block.

    script: what happens on the timeline of each session that is not a resumed one. faults: misbehaviours. api_key: the
    one key that is let in, None for any. speaks: whether texts that call for it are then spoken, as the model would.
    refuse_resume_ms: how long after a connection ended its session cannot be resumed. resumable: whether handles are
    given out.
    """

    def __init__(
        self,
        script: Sequence[Step] = (),
        faults: Sequence[Fault] = (),
        *,
        api_key: str | None = None,
        speaks: bool = False,
        resumable: bool = True,
        refuse_resume_ms: int = 0,
        port: int = 0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.script, self.faults = tuple(script), tuple(faults)
        self.speaks, self.resumable, self.refuse_resume_ms = speaks, resumable, refuse_resume_ms
        self._api_key = api_key
        self._changed = threading.Condition()
        self._connections = 0
        self._handles: dict[str, float] = {}  # handle -> from when it is taken
        self.refused: list[int] = []
        """HTTP statuses of refused upgrades."""
        self.sessions: list[Recording] = []
        """One for each connection that was let in."""
        self._server = WebSocketServer(self._serve, self._admit, port=port, tls=tls)
        self.port = self._server.port
        self.url = f"{'ws' if tls is None else 'wss'}://127.0.0.1:{self.port}{PATHS[0]}"

    @classmethod
    def demo(cls, port: int = 0) -> FakeGemini:
        """One that lets any key in and whose caller asks for an order every half minute, for trying by hand."""
        script = []
        for round in range(_DEMO_ROUNDS):
            at_ms = 2_000 + round * 30_000
            script += [
                Step(at_ms, "user", "what items are in order one two four"),
                Step(at_ms + 2_500, "call", f"call_{round + 1}"),
            ]
        return cls(script, speaks=True, port=port)

    def __enter__(self) -> FakeGemini:
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

    def wait_for(self, kind: str, *, session: int = 1, nth: int = 1, timeout_s: float = 10.0) -> dict[str, Any]:
        """The `nth` message of a kind on a connection, counted from 1; raises `TimeoutError`."""

        def found() -> bool:
            return len(self.sessions) >= session and len(self.sessions[session - 1].of(kind)) >= nth

        with self._changed:
            if not self._changed.wait_for(found, timeout_s):
                raise TimeoutError(f"no {kind} number {nth} on connection {session}")
            return self.sessions[session - 1].of(kind)[nth - 1]

    def lets_in(self, request: Request) -> bool:
        """Whether the request carries the key, in a header or in the query."""
        key = request.headers.get("x-goog-api-key") or "".join(parse_qs(request.query).get("key", []))
        return bool(key) and self._api_key in (None, key)

    def give(self, handle: str) -> None:
        """A handle was given out."""
        self._handles[handle] = float("inf")

    def takes(self, handle: str) -> bool | None:
        """Whether a session can be resumed by now; None if it is not known."""
        from_s = self._handles.get(handle)
        return None if from_s is None else time.monotonic() >= from_s

    def ended(self, handle: str | None) -> None:
        """A connection with this handle is over."""
        if handle is not None:
            self._handles[handle] = time.monotonic() + self.refuse_resume_ms / 1_000

    def _admit(self, request: Request) -> int | None:
        with self._changed:
            self._connections += 1
            number = self._connections
        status = None
        for fault in self.faults:
            if fault.kind is FaultKind.REFUSED and fault.hits(number):
                status = fault.code
        if request.path not in PATHS:
            status = 404
        elif "origin" in request.headers:
            status = 400  # an Origin is what a browser sends
        if status is not None:
            self.refused.append(status)
        return status

    def _serve(self, peer: Peer) -> None:
        recording = Recording(path=peer.request.path)
        with self._changed:
            self.sessions.append(recording)
            number = self._connections
        session = FakeGeminiSession(self, peer, recording, number, lambda: self._server.stopping)
        try:
            session.run()
        except PeerGone as gone:
            recording.close_code = gone.code
        finally:
            self.ended(session.handle)
            with self._changed:
                recording.ended = True
                self._changed.notify_all()

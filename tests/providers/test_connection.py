"""The one connection under every cloud provider: TLS, proxies, bounds, the watchdog and its end."""

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from parlora.errors import Backpressure, Closed
from parlora.providers.cloud.connection import Connection, End, Endpoint, EndReason, Timing
from parlora.testing.providers.websocket import TEXT, Peer, WebSocketServer
from tests.providers.openai_calls import until

CERTIFICATE = Path(__file__).parent / "certificate"
QUICK = Timing(ping_ms=100, silent_ms=400, stall_ms=300, finish_ms=300)


def in_us(seconds: float) -> int:
    return time.monotonic_ns() // 1_000 + int(seconds * 1_000_000)


class Client:
    """A connection and what it told."""

    def __init__(self, url: str, *, timing: Timing = QUICK, deadline_s: float = 5.0, **endpoint: str) -> None:
        self.messages: list[bytes] = []
        self.opened, self.ended = threading.Event(), threading.Event()
        self.end: End | None = None
        self.connection = Connection(
            Endpoint(url, {"Authorization": "Bearer sk-secret"}, **endpoint),
            in_us(deadline_s),
            on_open=self.opened.set,
            on_message=self.messages.append,
            on_end=self._over,
            timing=timing,
        )
        self.connection.start()

    def _over(self, end: End) -> None:
        self.end = end
        self.ended.set()

    def over(self, timeout_s: float = 5.0) -> End:
        assert self.ended.wait(timeout_s)
        assert self.connection.join(in_us(timeout_s))
        assert self.end is not None
        return self.end


@contextmanager
def client(url: str, **more: object) -> Iterator[Client]:
    made = Client(url, **more)  # type: ignore[arg-type]
    try:
        yield made
    finally:
        made.connection.abort()
        made.over()


def echo(peer: Peer) -> None:
    while True:
        received = peer.receive(5)
        if received is None:
            return
        peer.send(received[1], received[0])


def serving(serve: Callable[[Peer], None], **more: ssl.SSLContext) -> WebSocketServer:
    return WebSocketServer(serve, **more)


def _wait(release: threading.Event) -> None:
    release.wait(10)


def url_of(server: WebSocketServer, scheme: str = "ws") -> str:
    return f"{scheme}://127.0.0.1:{server.port}/x"


def tls() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE / "certificate.pem", CERTIFICATE / "key.pem")
    return context


def test_messages_pass_both_ways_in_order_over_tls_with_a_certificate_that_is_trusted() -> None:
    with (
        serving(echo, tls=tls()) as server,
        client(url_of(server, "wss"), ca_file=str(CERTIFICATE / "certificate.pem")) as one,
    ):
        assert one.opened.wait(5)
        for number in range(200):
            one.connection.send(f"{number} " + "x" * (number * 50))
        one.connection.send(b"\0\1\2")
        until("the echo", lambda: len(one.messages) == 201)
        assert [int(message.split()[0]) for message in one.messages[:200]] == list(range(200))
        assert one.messages[-1] == b"\0\1\2"


def test_a_certificate_that_nobody_vouches_for_is_refused() -> None:
    with serving(echo, tls=tls()) as server, client(url_of(server, "wss")) as one:
        end = one.over()
        assert end.reason is EndReason.UNREACHABLE
        assert "certificate" in end.detail
        assert not one.opened.is_set()


def test_a_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bytes] = []
    with serving(echo) as server, closing(socket.create_server(("127.0.0.1", 0))) as proxy:
        proxy.settimeout(5)

        def tunnel() -> None:
            inside, _ = proxy.accept()
            with closing(inside), closing(socket.create_connection(("127.0.0.1", server.port))) as outside:
                asked.append(inside.recv(4_096))
                inside.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
                pump = threading.Thread(target=_copy, args=(outside, inside))
                pump.start()
                _copy(inside, outside)
                pump.join()

        thread = threading.Thread(target=tunnel)
        thread.start()
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.getsockname()[1]}")
        monkeypatch.setenv("no_proxy", "")
        monkeypatch.setenv("NO_PROXY", "")
        with client(url_of(server)) as one:
            assert one.opened.wait(5)
            one.connection.send("through")
            until("the echo", lambda: one.messages == [b"through"])
        thread.join(5)
    assert asked[0].startswith(f"CONNECT 127.0.0.1:{server.port} ".encode())
    assert b"sk-secret" not in asked[0]


def _copy(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(4_096):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass


def test_a_redirect_is_not_followed_for_the_key_would_go_along() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        server.settimeout(5)
        target = f"ws://127.0.0.1:{server.getsockname()[1]}/there"

        def answer() -> None:
            peer, _ = server.accept()
            with closing(peer):
                peer.recv(4_096)
                peer.sendall(f"HTTP/1.1 302 Found\r\nLocation: {target}\r\nContent-Length: 0\r\n\r\n".encode())

        thread = threading.Thread(target=answer)
        thread.start()
        with client(target.replace("/there", "/here")) as one:
            assert one.over().reason is EndReason.UNREACHABLE
        thread.join(5)
        server.settimeout(0.05)
        with pytest.raises(TimeoutError):
            server.accept()


def test_a_peer_that_accepts_and_says_nothing_ends_at_the_deadline() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        began = time.monotonic()
        with client(f"ws://127.0.0.1:{server.getsockname()[1]}/", deadline_s=0.3) as one:
            assert one.over().reason is EndReason.TIMEOUT
        assert time.monotonic() - began < 4 * 0.3 + 1


def test_a_silent_peer_is_pinged_and_then_given_up_and_an_answering_one_is_kept() -> None:
    def silent(peer: Peer) -> None:
        peer.answers_pings = False
        peer.receive(5)

    with serving(silent) as server, client(url_of(server)) as one:
        assert one.over().reason is EndReason.SILENT

    with serving(echo) as server, client(url_of(server)) as one:
        assert one.opened.wait(5)
        assert not one.ended.wait(1.2)  # three times what a silent one is given


def test_a_peer_that_reads_nothing_meets_a_bound_and_then_the_end() -> None:
    release = threading.Event()
    patient = Timing(ping_ms=5_000, silent_ms=10_000, stall_ms=300, finish_ms=300)

    with serving(lambda peer: _wait(release)) as server, client(url_of(server), timing=patient) as one:
        assert one.opened.wait(5)
        most = 0
        while not one.ended.wait(0.001):  # the system's own buffers take megabytes before the peer is felt
            try:
                one.connection.send("x" * 100_000)
            except Backpressure as refused:
                most = max(most, refused.details["queued_bytes"])
            except Closed:
                break
        assert 0 < most <= 1024 * 1024
        assert one.over().reason is EndReason.STALLED
        with pytest.raises(Closed):
            one.connection.send("late")
        release.set()


def test_finish_sends_what_waits_and_a_close_frame_and_does_not_wait_for_a_peer_that_never_answers() -> None:
    got: list[tuple[int, bytes]] = []
    release = threading.Event()

    def deaf_to_the_end(peer: Peer) -> None:
        for _ in range(50):
            received = peer.receive(5)
            assert received is not None
            got.append(received)
        release.wait(5)

    with serving(deaf_to_the_end) as server, client(url_of(server)) as one:
        assert one.opened.wait(5)
        for number in range(50):
            one.connection.send(str(number))
        began = time.monotonic()
        one.connection.finish()
        assert one.over().reason is EndReason.FINISHED
        assert time.monotonic() - began < 2
        release.set()
    assert got == [(TEXT, str(number).encode()) for number in range(50)]


def test_the_end_is_told_once_whoever_asks_for_it() -> None:
    with serving(echo) as server:
        ends: list[End] = []
        for _ in range(10):
            one = Client(url_of(server))
            assert one.opened.wait(5)
            threads = [threading.Thread(target=one.connection.abort) for _ in range(3)]
            threads += [threading.Thread(target=one.connection.finish) for _ in range(3)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            ends.append(one.over())
        assert {end.reason for end in ends} == {EndReason.FINISHED}

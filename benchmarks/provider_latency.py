"""What the GPT-Live adapter adds to a message on its way, in both directions.

`python benchmarks/provider_latency.py [--json]`: a server process sends a 20 ms audio message every 20 ms and notes the
ones it gets. First a bare websocket-client takes and sends messages of the same size, without looking into them; then
the adapter, from the server's send to the frame in the provider's ring and from the frame in the uplink ring to the
server's receipt. Every message carries the time it left. The ratios are the promise; the times are the machine's.
"""

from __future__ import annotations

import base64
import json
import os
import statistics
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))  # works from a checkout, installed or not
sys.path.insert(1, str(Path(__file__).parent.parent / "actors"))

import websocket

from benchmarks._report import Report
from parlora.audio.format import AudioFormat
from parlora.audio.ring import Ring, RingSpec
from parlora.contract.adapter import AdapterInit
from parlora.limits import Limits
from parlora.providers.openai import OpenAI
from parlora.testing.adapters import RecordingSink
from parlora.testing.providers.websocket import Peer, PeerGone, WebSocketServer
from parlora_actors.ports import RingSink, RingSource

SECONDS = 12
PERIOD_NS = 20_000_000
RATIO = 1.5
FORMAT = AudioFormat.pcm16()
FRAME = FORMAT.bytes_for_us(20_000)
PREFIX = '{"type":"session.output_audio.delta","delta":"'


def stamped() -> bytes:
    """A frame that begins with the time it leaves at; the rest is not silence, as speech is not."""
    return struct.pack("<Q", time.monotonic_ns()) + b"\1" * (FRAME - 8)


def age_us(data: bytes) -> float:
    return (time.monotonic_ns() - struct.unpack_from("<Q", data)[0]) / 1_000


# ---- the server process


def serve_peer(peer: Peer, ages: list[float]) -> None:
    """Sends on absolute time and takes what comes in between; the first message decides who the client is."""
    first = peer.receive(10)
    assert first is not None
    bare = first[1] == b"bare"
    if not bare:
        session = {"id": "live_1", "model": "gpt-live-1", "expires_at": 1, "status": "active"}
        peer.send(json.dumps({"type": "session.started", "event_id": "e", "session": session}))
    due = time.monotonic_ns()
    while True:
        rest_s = (due - time.monotonic_ns()) / 1e9
        received = peer.receive(rest_s) if rest_s > 0 else None
        if received is not None:
            take(peer, received[1], ages)
        elif time.monotonic_ns() >= due:
            peer.send(PREFIX + base64.b64encode(stamped()).decode() + '"}')
            due += PERIOD_NS


def take(peer: Peer, data: bytes, ages: list[float]) -> None:
    at = data.find(b'"audio":"')
    if at >= 0:
        frame = base64.b64decode(data[at + 9 : at + 9 + 16])
        if struct.unpack_from("<Q", frame)[0]:  # silence carries no time
            ages.append(age_us(frame))
    elif b"session.close" in data:
        closed = {"type": "session.closed", "event_id": "e", "reason": "close_requested", "session": {}, "usage": {}}
        peer.send(json.dumps(closed))


def serve() -> None:
    def handle(peer: Peer) -> None:
        ages: list[float] = []
        try:
            serve_peer(peer, ages)
        except PeerGone:
            print(json.dumps(ages), flush=True)

    with WebSocketServer(handle) as server:
        print(f"ws://127.0.0.1:{server.port}/v1/live/sessions", flush=True)
        sys.stdin.read()


# ---- the two clients


def every_20_ms(do: Callable[[], Any]) -> None:
    due = time.monotonic_ns()
    for _ in range(SECONDS * 50):
        do()
        due += PERIOD_NS
        time.sleep(max(0.0, (due - time.monotonic_ns()) / 1e9))


def bare(url: str) -> list[float]:
    """A thread that receives, another that sends."""
    client = websocket.create_connection(url, suppress_origin=True, skip_utf8_validation=True, enable_multithread=True)
    client.send("bare")
    ages: list[float] = []

    def receive() -> None:
        try:
            while True:
                text = client.recv()
                ages.append(age_us(base64.b64decode(text[len(PREFIX) : len(PREFIX) + 16])))
        except (websocket.WebSocketException, OSError, struct.error):
            return

    thread = threading.Thread(target=receive)
    thread.start()
    every_20_ms(
        lambda: client.send(
            '{"type":"session.input_audio.append","audio":"' + base64.b64encode(stamped()).decode() + '"}'
        )
    )
    client.close(timeout=1)
    thread.join(5)
    return ages


def adapter(url: str) -> list[float]:
    """The provider on real rings, as in its owner; a thread reads what it generated."""
    os.environ["PARLORA_BENCH_KEY"] = "none"
    limits = Limits().resolve(FORMAT, OpenAI.audio_limits(FORMAT))
    assert limits.max_frame_bytes is not None
    spec = RingSpec(FORMAT.bytes_for_us(2_000_000), 0, limits.max_frame_bytes)
    uplink, generated = Ring.create(spec), Ring.create(spec)
    writer, reader = uplink.writer(), generated.reader()
    events = RecordingSink("provider", "s", "provider-1")
    provider = OpenAI(api_key_env="PARLORA_BENCH_KEY", url=url)
    ages: list[float] = []
    stopping = threading.Event()

    def read() -> None:
        while not stopping.is_set():
            for _, data in reader.receive(spec.max_bytes, time.monotonic_ns() // 1_000 + 50_000):
                ages.append(age_us(data))

    deadline_us = time.monotonic_ns() // 1_000 + 10_000_000
    provider.start(
        AdapterInit(
            "s", "provider-1", 0, events, FORMAT, limits, RingSource(uplink, FORMAT), RingSink(generated, FORMAT),
            None, (), deadline_us,
        )
    )  # fmt: skip
    thread = threading.Thread(target=read)
    thread.start()
    every_20_ms(lambda: writer.write(stamped(), duration_us=20_000))
    provider.close("finish", "close")  # type: ignore[arg-type]
    events.wait_for("closed")
    stopping.set()
    thread.join()
    return ages


def p(values: list[float], percent: int) -> float:
    return statistics.quantiles(values, n=100)[percent - 1]


def main() -> int:
    report = Report("provider_latency")
    server = subprocess.Popen(
        [sys.executable, __file__, "--serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert server.stdin is not None
    assert server.stdout is not None
    url = server.stdout.readline().strip()
    measured = {}
    for name, client in (("bare", bare), ("adapter", adapter)):
        received = client(url)
        sent = json.loads(server.stdout.readline())
        measured[name] = {"in": received[50:], "out": sent[50:]}  # the first second warms up
    server.stdin.close()
    server.wait(10)
    for way in ("in", "out"):
        for percent in (50, 99):
            floor, ours = p(measured["bare"][way], percent), p(measured["adapter"][way], percent)
            report.figure(f"{way}_p{percent}_us", ours, f"bare websocket-client: {floor:.0f}")
            report.at_most(f"{way}_p{percent}_vs_bare", ours / floor, RATIO)
    return report.finish()


if __name__ == "__main__":
    if "--serve" in sys.argv:
        serve()
    else:
        sys.exit(main())

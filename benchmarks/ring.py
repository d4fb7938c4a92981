"""The frame ring against what Python offers between two processes: multiprocessing.Queue, Pipe and a socket pair.

960-byte frames (20 ms of PCM16 at 24 kHz) from one process to another. Throughput is unpaced, the median of three
interleaved repeats; "single" is one frame per call on both sides, "batch" packets of 16 frames in and up to 64 out.
Latency is paced: a frame every 20 ms over the ring and, 10 ms later, one over the socket pair, by the same two
processes; p50 and p99 are ratios of each of five repeats, of which the median counts. At this pace wake-ups are all
that is measured, so the ring does not beat a socket pair here; it must only stay close.
"""

from __future__ import annotations

import multiprocessing
import os
import socket
import statistics
import sys
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Protocol

sys.path.insert(0, str(Path(__file__).parent.parent))  # works from a checkout, installed or not

from benchmarks._report import Report
from parlora.audio.ring import Ring, RingSpec, Verdict, now_us

FRAME = bytes(960)
QUEUED = 64
BATCH = 16
REPEATS = 3
PACED_REPEATS = 5
PACED_FRAMES = 250
PERIOD_US = 20_000
PATIENCE_US = 10_000_000
SPEC = RingSpec(max_bytes=QUEUED * len(FRAME), max_age_ms=0, max_frame_bytes=len(FRAME))


class Mechanism(Protocol):
    frames: int

    def send(self) -> None: ...

    def receive(self) -> None: ...

    def close(self) -> None: ...


class RingSingle:
    frames = 150_000

    def __init__(self) -> None:
        self.ring = Ring.create(SPEC)

    def send(self) -> None:
        writer = self.ring.writer()
        for _ in range(self.frames):
            while writer.write(FRAME, None, 0, 20_000) is not Verdict.OK:
                writer.wait(len(FRAME) * QUEUED // 4, now_us() + PATIENCE_US)

    def receive(self) -> None:
        reader, left = self.ring.reader(), self.frames
        while left:
            left -= len(reader.read(960, 1)) or len(reader.receive(960, now_us() + PATIENCE_US, 1))

    def close(self) -> None:
        self.ring.close()


class RingBatch(RingSingle):
    frames = 640_000

    def send(self) -> None:
        writer, packet, sent = self.ring.writer(), FRAME * BATCH, 0
        while sent < self.frames:
            taken, _ = writer.write_packet(packet, len(FRAME), None, 0, 20_000, whole=True)
            sent += taken
            if not taken:
                writer.wait(len(FRAME) * QUEUED // 2, now_us() + PATIENCE_US)

    def receive(self) -> None:
        reader, left = self.ring.reader(), self.frames
        while left:
            packet = reader.read_packet(SPEC.max_bytes)
            if packet is None:
                reader.wait(now_us() + PATIENCE_US)
            else:
                left -= packet[1]


class Pipe:
    frames = 100_000

    def __init__(self) -> None:
        ends: tuple[Connection, Connection] = multiprocessing.Pipe(duplex=False)
        self.reader, self.writer = ends

    def send(self) -> None:
        for _ in range(self.frames):
            self.writer.send_bytes(FRAME)

    def receive(self) -> None:
        for _ in range(self.frames):
            self.reader.recv_bytes()

    def close(self) -> None:
        self.reader.close()
        self.writer.close()


class Queue:
    frames = 30_000

    def __init__(self) -> None:
        self.queue: Any = multiprocessing.get_context("fork").Queue(QUEUED)

    def send(self) -> None:
        for _ in range(self.frames):
            self.queue.put(FRAME)
        self.queue.close()
        self.queue.join_thread()

    def receive(self) -> None:
        for _ in range(self.frames):
            self.queue.get()

    def close(self) -> None:
        self.queue.close()
        self.queue.join_thread()


def in_child(work: Callable[[], None]) -> Callable[[], None]:
    """Start `work` in a forked child; returns what waits for its good end."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)

    def join() -> None:
        if os.waitpid(pid, 0)[1]:
            raise SystemExit("the sending process failed")

    return join


def frames_per_second(make: Callable[[], Mechanism]) -> float:
    mechanism = make()
    started = time.perf_counter()
    join = in_child(mechanism.send)
    mechanism.receive()
    took = time.perf_counter() - started
    join()
    mechanism.close()
    return mechanism.frames / took


def throughput(report: Report) -> None:
    kinds: dict[str, Callable[[], Mechanism]] = {"single": RingSingle, "batch": RingBatch, "pipe": Pipe, "queue": Queue}
    runs: dict[str, list[float]] = {name: [] for name in kinds}
    for _ in range(REPEATS):
        for name, make in kinds.items():
            runs[name].append(frames_per_second(make))
    rate = {name: statistics.median(got) for name, got in runs.items()}
    for name, value in rate.items():
        report.figure(f"{name}_frames_per_s", round(value))
    report.at_least("single_vs_queue", rate["single"] / rate["queue"], 5)
    report.at_least("single_vs_pipe", rate["single"] / rate["pipe"], 1.5)
    report.at_least("batch_vs_pipe", rate["batch"] / rate["pipe"], 8)


def sleep_until(due_us: int) -> None:
    left = due_us - now_us()
    if left > 0:
        time.sleep(left / 1e6)


def paced_repeat(ring: Ring) -> dict[str, list[int]]:
    """One-way times in microseconds of frames that carry their sending time."""
    left, right = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pad = FRAME[8:]

    def send() -> None:
        writer, start = ring.writer(), now_us() + PERIOD_US
        for number in range(PACED_FRAMES):
            sleep_until(start + number * PERIOD_US)
            writer.write(now_us().to_bytes(8, "little") + pad)
            sleep_until(start + number * PERIOD_US + PERIOD_US // 2)
            left.send(now_us().to_bytes(8, "little") + pad)

    join = in_child(send)
    times: dict[str, list[int]] = {"ring": [], "socketpair": []}
    reader = ring.reader()
    for _ in range(PACED_FRAMES):
        ((_, data),) = reader.receive(960, now_us() + PATIENCE_US)
        times["ring"].append(now_us() - int.from_bytes(data[:8], "little"))
        data = right.recv(1024)
        times["socketpair"].append(now_us() - int.from_bytes(data[:8], "little"))
    join()
    left.close()
    right.close()
    return times


def percentile(values: list[int], share: float) -> int:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def latency(report: Report) -> None:
    ratios: dict[float, list[float]] = {0.5: [], 0.99: []}
    absolute: dict[str, list[int]] = {"ring": [], "socketpair": []}
    for _ in range(PACED_REPEATS):
        with Ring.create(SPEC) as ring:
            times = paced_repeat(ring)
        for share, got in ratios.items():
            got.append(percentile(times["ring"], share) / percentile(times["socketpair"], share))
        for name, values in times.items():
            absolute[name].append(percentile(values, 0.5))
    for name, medians in absolute.items():
        report.figure(f"{name}_one_way_p50_us", statistics.median(medians))
    report.at_most("paced_p50_vs_socketpair", statistics.median(ratios[0.5]), 1.5)
    report.at_most("paced_p99_vs_socketpair", statistics.median(ratios[0.99]), 2)


def main() -> int:
    report = Report("ring")
    throughput(report)
    latency(report)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())

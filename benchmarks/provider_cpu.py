"""What a second of full-duplex GPT-Live costs, beside the vendor's own client.

`python benchmarks/provider_cpu.py [--json]`: against the same local fake, each in a process of its own: the adapter on
real rings, with 20 ms frames in and out, and the vendor's client (`openai`), which sends the same 20 ms pieces and
decodes what comes. CPU time of the process after the first second, per second of call. The ratio is the promise; the
times are the machine's. The vendor's client only moves bytes: it has no queue bounds, no trace and no events.
"""

from __future__ import annotations

import base64
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))  # works from a checkout, installed or not
sys.path.insert(1, str(Path(__file__).parent.parent / "actors"))

from benchmarks._report import Report
from parlora.audio.format import AudioFormat
from parlora.audio.ring import Ring, RingSpec
from parlora.contract.adapter import AdapterInit, ClosePolicy
from parlora.limits import Limits
from parlora.providers.openai import OpenAI
from parlora.testing.adapters import RecordingSink
from parlora.testing.providers.openai import FakeOpenAI
from parlora_actors.ports import RingSink, RingSource

SECONDS = 8
ROUNDS = 3
RATIO = 0.5
FORMAT = AudioFormat.pcm16()
FRAME = b"\1\0" * (FORMAT.bytes_for_us(20_000) // 2)


def in_real_time(send: Callable[[], Any]) -> float:
    """CPU seconds of this process for a second of call, without the first."""
    due = time.monotonic()
    began = 0.0
    for number in range((SECONDS + 1) * 50):
        if number == 50:
            began = time.process_time()
        send()
        due += 0.02
        time.sleep(max(0.0, due - time.monotonic()))
    return (time.process_time() - began) / SECONDS


def adapter(url: str) -> float:
    os.environ["PARLORA_BENCH_KEY"] = "none"
    limits = Limits().resolve(FORMAT, OpenAI.audio_limits(FORMAT))
    assert limits.max_frame_bytes is not None
    spec = RingSpec(FORMAT.bytes_for_us(2_000_000), 0, limits.max_frame_bytes)
    uplink, generated = Ring.create(spec), Ring.create(spec)
    writer, reader = uplink.writer(), generated.reader()
    events = RecordingSink("provider", "s", "provider-1")
    provider = OpenAI(api_key_env="PARLORA_BENCH_KEY", url=url)
    provider.start(
        AdapterInit(
            "s", "provider-1", 0, events, FORMAT, limits, RingSource(uplink, FORMAT), RingSink(generated, FORMAT),
            None, (), time.monotonic_ns() // 1_000 + 10_000_000,
        )
    )  # fmt: skip

    def turn() -> None:
        writer.write(FRAME, duration_us=20_000)
        reader.read_packet(spec.max_bytes)

    cost = in_real_time(turn)
    provider.close(ClosePolicy.FINISH, "close")
    events.wait_for("closed")
    return cost


def vendor(url: str) -> float:
    import openai

    base = url.replace("ws://", "http://").removesuffix("/live/sessions")
    client = openai.OpenAI(api_key="none", base_url=base)
    with client.live.connect() as connection:
        connection.session.start(session={"model": "gpt-live-1"})
        heard = bytearray()

        def receive() -> None:
            while (event := connection.recv()).type != "session.closed":
                if event.type == "session.output_audio.delta":
                    heard[:] = base64.b64decode(event.delta)

        thread = threading.Thread(target=receive)
        thread.start()
        cost = in_real_time(
            lambda: connection.session.input_audio.append(audio=base64.b64encode(FRAME).decode("ascii"))
        )
        connection.session.close()
        thread.join()
    return cost


CLIENTS = {"adapter": adapter, "vendor": vendor}


def main() -> int:
    report = Report("provider_cpu")
    costs: dict[str, list[float]] = {name: [] for name in CLIENTS}
    with FakeOpenAI() as fake:
        for _ in range(ROUNDS):
            for name in CLIENTS:
                told = subprocess.run(
                    [sys.executable, __file__, "--client", name, fake.url],
                    check=True,
                    stdout=subprocess.PIPE,
                    text=True,
                )
                costs[name].append(float(told.stdout))
    ours, theirs = (statistics.median(costs[name]) for name in CLIENTS)
    report.figure("adapter_ms_per_s", ours * 1_000)
    report.figure("vendor_ms_per_s", theirs * 1_000)
    report.at_most("adapter_vs_vendor", ours / theirs, RATIO)
    return report.finish()


if __name__ == "__main__":
    if "--client" in sys.argv:
        print(CLIENTS[sys.argv[-2]](sys.argv[-1]))
    else:
        sys.exit(main())

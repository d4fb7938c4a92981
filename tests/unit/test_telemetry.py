"""Telemetry: handlers get what is measured, and can hurt nobody."""

import inspect
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from parlora import telemetry
from parlora.audio.format import AudioFormat
from parlora.errors import InvalidArgument
from parlora.providers.cloud.output import Output
from parlora.providers.cloud.shell import CloudProvider
from parlora.providers.gemini import Gemini
from parlora.providers.grok import Grok
from parlora.providers.openai import OpenAI
from parlora.telemetry import MAX_WAITING, PIPELINE_TICK, PROVIDER_AUDIO_RECEIVED, Telemetry
from parlora.testing.ports import MemoryPort

PCM = AudioFormat.pcm16()
WHO = {"session_id": "s", "adapter_id": "provider-1", "generation": 0}


class Heard:
    def __init__(self) -> None:
        self.measured: list[dict[str, int]] = []
        self.told: list[dict[str, Any]] = []

    def __call__(self, event: str, measurements: Any, metadata: Any) -> None:
        self.measured.append(dict(measurements))
        self.told.append(dict(metadata))


@pytest.fixture
def heard() -> Iterator[Heard]:
    handler = Heard()
    telemetry.attach(PROVIDER_AUDIO_RECEIVED, handler)
    yield handler
    telemetry.detach(PROVIDER_AUDIO_RECEIVED, handler)


def output(capacity_ms: int = 100) -> tuple[Output, MemoryPort]:
    sink = MemoryPort(PCM, PCM.bytes_for_us(capacity_ms * 1_000), PCM.bytes_for_us(20_000))
    return Output(sink, PCM, PCM.bytes_for_us(20_000), PCM, WHO), sink


def packet(ms: int, level: bytes = b"\1\0") -> bytes:
    return level * (24 * ms)


@pytest.mark.row("TM-02", "TM-07")
def test_each_decoded_packet_is_measured_once_before_it_is_cut(heard: Heard) -> None:
    out, _ = output()
    before_us = time.monotonic_ns() // 1_000
    out.offer(packet(60))
    out.offer(packet(20))
    assert telemetry.flush(5)
    first, second = heard.measured
    at_us = first.pop("at_us")
    assert before_us <= at_us <= second.pop("at_us") <= time.monotonic_ns() // 1_000
    assert first == {
        "bytes": 2_880, "duration_us": 60_000, "queue_before_bytes": 0, "queue_bytes": 2_880, "dropped_bytes": 0,
    }  # fmt: skip
    assert (second["queue_before_bytes"], second["queue_bytes"]) == (2_880, 3_840)
    assert heard.told == [{**WHO, "outcome": "accepted"}] * 2


@pytest.mark.row("TM-01")
@pytest.mark.parametrize("provider", [OpenAI, Gemini, Grok])
def test_all_three_providers_pass_each_packet_through_the_one_place_that_measures(provider: type) -> None:
    """That it is once, and before the cut, is proven above; here, that there is no other way for a packet."""
    assert provider.start is CloudProvider.start  # type: ignore[attr-defined]
    folder = Path(inspect.getfile(CloudProvider)).parents[1]
    names = ("cloud", inspect.getfile(provider).rsplit("/", 2)[1])
    sources = {path.name: path.read_text() for name in names for path in (folder / name).glob("*.py")}
    assert [name for name, text in sources.items() if "write_packet(" in text or "audio_out.write" in text] == [
        "output.py"
    ]
    assert sum(text.count("_output.offer(") for text in sources.values()) == 1
    assert sources["output.py"].count("telemetry.PROVIDER_AUDIO_RECEIVED") == 1


@pytest.mark.row("TM-03")
def test_dropped_bytes_are_those_of_a_refused_packet_and_not_what_a_clear_removes(heard: Heard) -> None:
    out, sink = output()
    out.offer(packet(80))
    sink.read(960)  # somebody listens, so a full queue is an overload
    out.offer(packet(80))
    out.hold()
    sink.clear(1)
    out.offer(packet(20))
    out.discard()
    out.offer(packet(20))
    assert telemetry.flush(5)
    assert [each["dropped_bytes"] for each in heard.measured] == [0, 3_840, 0, 960]
    assert [each["outcome"] for each in heard.told] == ["accepted", "backpressure", "accepted", "discarded"]


@pytest.mark.row("TM-08")
def test_silence_counts_like_any_other_audio(heard: Heard) -> None:
    out, _ = output()
    out.offer(packet(40, b"\0\0"))
    out.offer(packet(40))
    assert telemetry.flush(5)
    assert sum(each["duration_us"] for each in heard.measured) == 80_000


@pytest.mark.row("TM-06")
def test_nothing_is_measured_or_kept_without_a_handler_and_no_audio_travels(heard: Heard) -> None:
    out, _ = output()
    out.offer(packet(20, b"\7\7"))
    assert telemetry.flush(5)
    assert all(type(value) is int for each in heard.measured for value in each.values())
    assert {key for each in heard.told for key in each} == {*WHO, "outcome"}

    telemetry.detach(PROVIDER_AUDIO_RECEIVED, heard)
    out.offer(packet(20))
    late = Heard()
    telemetry.attach(PROVIDER_AUDIO_RECEIVED, late)
    assert telemetry.flush(5)
    telemetry.detach(PROVIDER_AUDIO_RECEIVED, late)
    assert (len(heard.measured), late.measured) == (1, [])


@pytest.mark.row("TM-06")
def test_what_is_told_to_nobody_is_not_kept_for_later() -> None:
    hooks, late = Telemetry(), Heard()
    hooks.emit(PIPELINE_TICK, {"at_us": 1}, {})
    hooks.attach(PIPELINE_TICK, late)
    hooks.emit(PIPELINE_TICK, {"at_us": 2}, {})
    assert hooks.flush(5)
    hooks.detach(PIPELINE_TICK, late)
    assert late.measured == [{"at_us": 2}]


def test_a_slow_handler_holds_up_nobody_and_what_it_misses_is_counted() -> None:
    hooks, go = Telemetry(), threading.Event()
    seen: list[int] = []

    def slow(event: str, measurements: Any, metadata: Any) -> None:
        go.wait(10)
        seen.append(measurements["at_us"])

    hooks.attach(PIPELINE_TICK, slow)
    begin = time.monotonic()
    for number in range(MAX_WAITING + 10):
        hooks.emit(PIPELINE_TICK, {"at_us": number}, {})
    assert time.monotonic() - begin < 5
    assert 9 <= hooks.lost <= 10  # one may be with the handler already
    go.set()
    assert hooks.flush(10)
    assert seen == list(range(MAX_WAITING + 10 - hooks.lost))
    hooks.detach(PIPELINE_TICK, slow)


def test_a_handler_that_raises_is_counted_and_called_again() -> None:
    hooks, heard = Telemetry(), Heard()

    def raises(event: str, measurements: Any, metadata: Any) -> None:
        raise ValueError

    hooks.attach(PIPELINE_TICK, raises)
    hooks.attach(PIPELINE_TICK, heard)
    hooks.attach(PIPELINE_TICK, heard)  # a no-op
    for number in range(3):
        hooks.emit(PIPELINE_TICK, {"at_us": number}, {})
    assert hooks.flush(5)
    assert (hooks.raised, len(heard.measured)) == (3, 3)
    hooks.detach(PIPELINE_TICK, raises)
    hooks.detach(PIPELINE_TICK, heard)
    assert not hooks.active


@pytest.mark.parametrize(("event", "handler", "field"), [("tick", print, "event"), (PIPELINE_TICK, 3, "handler")])
def test_what_is_no_event_or_no_function_is_refused(event: str, handler: Any, field: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        Telemetry().attach(event, handler)
    assert caught.value.details["field"] == field

"""The trivial provider keeps the provider contract."""

import time

import pytest

from parlora.contract.provider import ContextKind, ContextUpdate, MuteInput
from parlora.errors import InvalidArgument
from parlora.providers.trivial import TrivialProvider
from parlora.testing.adapters import AdapterHarness

SAID = {"speaker": "user", "delta": "hello", "start_ms": 0, "end_ms": 100}


def soon_us() -> int:
    return time.monotonic_ns() // 1_000 + 5_000_000


def test_it_echoes_the_caller_and_accounts_for_the_seconds_heard() -> None:
    with AdapterHarness(TrivialProvider(echo=True)) as harness:
        harness.start()
        harness.audio_in.write(b"\x01\x02" * 480)
        assert harness.audio_out.wait(soon_us())
        echoed = harness.audio_out.read(48_000)
        harness.close_adapter()

    assert [frame.data for frame in echoed] == [b"\x01\x02" * 480]
    assert harness.sink.events("usage_final")[0].payload == {"seconds": 0.02, "final": True}


def test_muted_audio_is_neither_echoed_nor_heard() -> None:
    with AdapterHarness(TrivialProvider(echo=True)) as harness:
        harness.start()
        harness.call("control", MuteInput(True), "c1")
        harness.wait_for("control_completed", command_id="c1")
        harness.audio_in.write(bytes(960))
        assert harness.audio_in.wait_space(harness.audio_in.status().capacity_bytes, soon_us())
        harness.close_adapter()

        assert harness.audio_out.status().queued_bytes == 0
        assert harness.sink.events("usage_final")[0].payload["seconds"] == 0


def test_the_script_is_emitted_in_the_order_of_its_times() -> None:
    script = [
        {"at_ms": 20, "emit": "delegation_requested", "payload": {"delegation_id": "d1"}},
        {"at_ms": 0, "emit": "transcript_delta", "payload": SAID},
    ]
    with AdapterHarness(TrivialProvider(script=script)) as harness:
        harness.start()
        harness.wait_for("delegation_requested")

        assert [event.type for event in harness.sink.events()] == ["ready", "transcript_delta", "delegation_requested"]


def test_an_update_is_acknowledged_once_and_captioned_on_request() -> None:
    with AdapterHarness(TrivialProvider(captions=True)) as harness:
        harness.start()
        update = ContextUpdate(ContextKind.SPEAKABLE, "it has shipped")
        harness.call("append_context", update, "c1")
        harness.call("append_context", update, "c1")
        harness.call("append_context", ContextUpdate(ContextKind.QUIET, "for you only"), "c2")

        assert [e.command_id for e in harness.sink.events("context_acknowledged")] == ["c1", "c2"]
        assert [e.payload["delta"] for e in harness.sink.events("transcript_delta")] == ["it has shipped"]


@pytest.mark.parametrize("step", [{"emit": "ready"}, {"at_ms": -1, "emit": "x"}, {"at_ms": 1, "emit": "x", "if": 1}, 7])
def test_a_bad_step_is_named(step: object) -> None:
    with pytest.raises(InvalidArgument, match=r"script\[0\]"):
        TrivialProvider(script=[step])  # type: ignore[list-item]

"""One short call to the service itself, only when asked for: `PARLORA_LIVE_OPENAI=1` and a key in `OPENAI_API_KEY`."""

import os

import pytest

from parlora.contract.provider import ContextKind, ContextUpdate
from parlora.providers.openai import OpenAI
from parlora.testing.adapters import AdapterHarness
from tests.providers.openai_calls import Drain


@pytest.mark.skipif(
    os.environ.get("PARLORA_LIVE_OPENAI") != "1" or not os.environ.get("OPENAI_API_KEY"),
    reason="calls the service, which costs money: set PARLORA_LIVE_OPENAI=1 and OPENAI_API_KEY",
)
def test_the_service_itself_starts_acknowledges_and_closes() -> None:
    with AdapterHarness(OpenAI(), instructions="Answer in one short sentence.") as harness:
        ready = harness.start(20_000)
        assert ready.payload["configuration"]["id"]
        drain = Drain(harness.audio_out)
        try:
            harness.call("append_context", ContextUpdate(ContextKind.SPEAKABLE, "Say: good morning."), "greeting")
            harness.wait_for("context_acknowledged", command_id="greeting", timeout_ms=15_000)
            harness.wait_for("transcript_delta", timeout_ms=15_000)
            closed = harness.close_adapter(timeout_ms=10_000).payload
        finally:
            drain.stop()
    assert closed["finalization_observed"] is True
    assert drain.data.strip(b"\0")

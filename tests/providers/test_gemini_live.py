"""One short call to the service itself, only when asked for: `PARLORA_LIVE_GEMINI=1` and a key in `GEMINI_API_KEY`."""

import os

import pytest

from parlora.contract.provider import ContextKind, ContextUpdate
from parlora.providers.gemini import Gemini
from parlora.testing.adapters import AdapterHarness
from tests.providers.openai_calls import Drain


@pytest.mark.skipif(
    os.environ.get("PARLORA_LIVE_GEMINI") != "1" or not os.environ.get("GEMINI_API_KEY"),
    reason="calls the service, which costs money: set PARLORA_LIVE_GEMINI=1 and GEMINI_API_KEY",
)
def test_the_service_itself_starts_speaks_and_closes() -> None:
    with AdapterHarness(Gemini(), instructions="Answer in one short sentence.") as harness:
        ready = harness.start(20_000)
        assert ready.payload["configuration"]["model"] == "gemini-3.8-live"
        drain = Drain(harness.audio_out)
        try:
            harness.call("append_context", ContextUpdate(ContextKind.SPEAKABLE, "good morning"), "greeting")
            harness.wait_for("context_submitted", command_id="greeting")
            harness.wait_for("transcript_delta", timeout_ms=15_000)
            harness.wait_for("usage_updated", timeout_ms=15_000)
            harness.close_adapter(timeout_ms=10_000)
        finally:
            drain.stop()
    assert drain.data.strip(b"\0")

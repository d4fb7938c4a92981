"""What the Grok adapter takes, refuses and declares."""

from typing import Any

import pytest

from parlora.audio.format import AudioFormat
from parlora.contract.provider import ContextKind
from parlora.errors import InvalidArgument
from parlora.limits import AudioLimits
from parlora.providers.cloud.credentials import Credential
from parlora.providers.grok import Grok


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"model": "grok-voice-2.0"}, "model"),
        ({"voice": ""}, "voice"),
        ({"url": "ws://example.org/x"}, "url"),
        ({"url": "wss://example.org/x?model=other"}, "url"),
        ({"reasoning_effort": "low"}, "reasoning_effort"),
        ({"threshold": 0.95}, "threshold"),
        ({"threshold": True}, "threshold"),
        ({"silence_duration_ms": -1}, "silence_duration_ms"),
        ({"functions": []}, "functions"),
        ({"functions": [{"name": "a", "description": "x"}] * 2}, "functions"),
        ({"api_key_env": "A", "api_key_file": "b"}, "api_key_file"),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        Grok(**options)
    assert refused.value.details["field"] == field


def test_the_model_is_in_the_url_and_the_key_in_a_header_only() -> None:
    endpoint = Grok().endpoint(Credential("secret-key"))
    assert endpoint.url == "wss://api.x.ai/v1/realtime?model=grok-voice-3.0"
    assert endpoint.headers == {"Authorization": "Bearer secret-key"}
    assert "secret-key" not in repr(endpoint)


@pytest.mark.row("LM-08")
def test_the_store_holds_twenty_seconds_and_nothing_older_than_twenty_one() -> None:
    for format, size in ((AudioFormat.pcm16(), 960_000), (AudioFormat.pcmu(), 160_000)):
        assert Grok.audio_limits(format) == AudioLimits(size, 21_000)


@pytest.mark.row("GK-04")
def test_nothing_is_claimed_that_the_service_does_not_give() -> None:
    capabilities = Grok.capabilities
    assert capabilities.context_update_kinds == (ContextKind.SPEAKABLE,)
    assert capabilities.usage is False
    assert capabilities.context_acknowledgment is False
    assert Grok().next_codec(None, None) is None  # type: ignore[arg-type]
    assert Grok.recovers_output is False

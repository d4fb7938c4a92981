"""What the Gemini adapter takes and refuses, and which ends it resumes from."""

from typing import Any

import pytest

from parlora.audio.format import AudioFormat
from parlora.errors import InvalidArgument
from parlora.limits import AudioLimits
from parlora.providers.cloud.connection import End, EndReason
from parlora.providers.cloud.credentials import Credential
from parlora.providers.gemini import Gemini
from parlora.providers.gemini.calls import Ledger
from parlora.providers.gemini.codec import CodecOptions, GeminiCodec


@pytest.mark.parametrize(
    ("end", "resumable"),
    [
        (End(EndReason.LOST, ""), True),
        (End(EndReason.SILENT, ""), True),
        (End(EndReason.CLOSED_BY_SERVICE, "", 1000), True),
        (End(EndReason.CLOSED_BY_SERVICE, "", 1011), True),
        (End(EndReason.CLOSED_BY_SERVICE, "", 1007), False),
        (End(EndReason.CLOSED_BY_SERVICE, "", 1008), False),
        (End(EndReason.REFUSED, "", 503), True),
        (End(EndReason.REFUSED, "", 429), True),
        (End(EndReason.REFUSED, "", 401), False),
        (End(EndReason.TOO_LARGE, ""), False),
        (End(EndReason.PROTOCOL, ""), False),
    ],
)
def test_an_end_that_would_come_again_is_not_resumed_from(end: End, resumable: bool) -> None:
    assert Gemini().is_resumable(end) is resumable


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"model": "gemini-3.8-live-extended-thinking"}, "model"),
        ({"api_version": "v1"}, "api_version"),
        ({"voice": ""}, "voice"),
        ({"url": "ws://example.org/x"}, "url"),
        ({"start_sensitivity": "loud"}, "start_sensitivity"),
        ({"silence_duration_ms": -1}, "silence_duration_ms"),
        ({"usage_adds": "yes"}, "usage_adds"),
        ({"functions": []}, "functions"),
        ({"functions": [{"name": "9", "description": "x"}]}, "functions[0].name"),
        ({"functions": [{"name": "a", "description": " "}]}, "functions[0].description"),
        ({"functions": [{"name": "a", "description": "x", "zzz": 1}]}, "functions[0]"),
        ({"functions": [{"name": "a", "description": "x", "parameters": {"x": {1}}}]}, "functions[0].parameters"),
        ({"functions": [{"name": "a", "description": "x"}] * 2}, "functions"),
        ({"api_key_env": "A", "api_key_file": "b"}, "api_key_file"),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        Gemini(**options)
    assert refused.value.details["field"] == field


@pytest.mark.parametrize("entry", [{"speaker": "developer", "text": "x"}, {"speaker": "user", "text": ""}])
def test_a_history_the_service_would_refuse_is_refused_here(entry: dict[str, str]) -> None:
    with pytest.raises(InvalidArgument) as refused:
        GeminiCodec(CodecOptions(), None, [entry], Ledger())
    assert refused.value.details["field"] == "history[0]"


@pytest.mark.row("LX-04")
@pytest.mark.parametrize("option", ["thinking_level", "thinking_config"])
def test_there_are_no_thinking_options(option: str) -> None:
    with pytest.raises(TypeError, match=option):
        Gemini(**{option: "low"})


@pytest.mark.row("LX-03")
def test_both_versions_of_the_api_have_their_own_url_and_the_key_is_in_a_header_only() -> None:
    key = Credential("secret-key")
    for version, options in (("v1beta", {}), ("v1alpha", {"api_version": "v1alpha"})):
        endpoint = Gemini(model="gemini-3.8-live", **options).endpoint(key)
        assert endpoint.url == (
            "wss://generativelanguage.googleapis.com/ws/"
            f"google.ai.generativelanguage.{version}.GenerativeService.BidiGenerateContent"
        )
        assert endpoint.headers == {"x-goog-api-key": "secret-key"}
        assert "secret-key" not in repr(endpoint)


@pytest.mark.row("LM-07")
def test_the_store_holds_ten_seconds_and_nothing_older_than_eleven() -> None:
    for format, size in ((AudioFormat.pcm16(), 480_000), (AudioFormat.pcmu(), 80_000)):
        assert Gemini.audio_limits(format) == AudioLimits(size, 11_000)

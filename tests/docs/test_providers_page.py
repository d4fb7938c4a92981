"""The table of capabilities in docs/providers.md says what the adapters announce."""

import inspect
from pathlib import Path

import pytest

from parlora.audio.format import AudioFormat
from parlora.contract.provider import ProviderCapabilities
from parlora.limits import PROVIDER_AGE_MS, PROVIDER_QUEUE_MS
from parlora.providers.gemini import Gemini
from parlora.providers.openai import OpenAI

PAGE = Path(__file__).parents[2] / "docs" / "providers.md"
FORMATS = {"PCM16 24 kHz": AudioFormat.pcm16(), "mu-law 8 kHz": AudioFormat.pcmu()}


def table() -> dict[str, dict[str, str]]:
    """Cells by provider and capability."""
    lines = PAGE.read_text().splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("| Capability |"))
    names = [cell.strip() for cell in lines[first].strip("|").split("|")][1:]
    cells: dict[str, dict[str, str]] = {name: {} for name in names}
    for line in lines[first + 2 :]:
        if not line.startswith("|"):
            break
        capability, *values = [cell.strip() for cell in line.strip("|").split("|")]
        for name, value in zip(names, values, strict=True):
            cells[name][capability] = value
    return cells


def offline() -> ProviderCapabilities:
    pytest.importorskip("pocketsphinx", reason="needs the extra offline")
    from parlora.providers.offline.adapter import CAPABILITIES

    return CAPABILITIES


@pytest.mark.row("PC-28")
@pytest.mark.parametrize("provider", ["GPT-Live", "Gemini", "Offline"])
def test_the_page_says_what_the_adapter_announces(provider: str) -> None:
    said = table()[provider]
    announced = {"GPT-Live": lambda: OpenAI.capabilities, "Gemini": lambda: Gemini.capabilities, "Offline": offline}[
        provider
    ]()
    assert {FORMATS[name] for name in said["Formats"].split(", ")} == set(announced.audio_formats)
    assert said["Context updates"].split(", ") == [str(kind) for kind in announced.context_update_kinds]
    assert said["Updates are acknowledged"].startswith("yes") is announced.context_acknowledgment
    assert (said["Input mute"] != "no") is announced.input_mute
    assert said["Usage"].startswith(("seconds", "tokens")) is announced.usage
    speakers = {"user": "caller", "assistant": "model"}
    for speaker in announced.transcripts:
        assert speakers[str(speaker)] in said["Captions"]


@pytest.mark.row("PC-28")
def test_the_page_says_how_much_generated_audio_is_kept() -> None:
    for name, provider in (("GPT-Live", OpenAI), ("Gemini", Gemini)):
        limits = provider.audio_limits(AudioFormat.pcm16())
        kept_s = limits.queue_bytes / AudioFormat.pcm16().bytes_per_second
        kept = f"{kept_s:.0f} s, none older than {limits.max_age_ms // 1_000} s"
        assert table()[name]["Generated audio kept"] == kept
    assert table()["Offline"]["Generated audio kept"] == f"{PROVIDER_QUEUE_MS} ms"
    assert PROVIDER_AGE_MS > PROVIDER_QUEUE_MS


@pytest.mark.parametrize(("heading", "provider"), [("## GPT-Live", OpenAI), ("## Gemini", Gemini)])
def test_the_page_names_every_option_of_an_adapter(heading: str, provider: type) -> None:
    section = PAGE.read_text().split(f"{heading}\n")[1].split("\n## ")[0]
    options = section.split("| Option |")[1].split("\n\n")[0]
    named = {name for line in options.splitlines()[2:] for name in line.split("|")[1].replace("`", "").split(", ")}
    assert {name.strip() for name in named} == set(inspect.signature(provider).parameters)

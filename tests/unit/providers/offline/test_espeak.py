"""eSpeak as the synthesizer: voices are checked, words are marked, the extra is named."""

import re
import sys
import threading

import numpy as np
import pytest

pytest.importorskip("espeakng_loader", reason="needs the extra offline")

from parlora.errors import InvalidArgument, Unsupported
from parlora.providers.offline.espeak import ESpeak
from parlora.providers.offline.extras import load_extra
from parlora.providers.offline.synthesizer import Speech


@pytest.mark.parametrize("voice", ["en-us+nosuch", "en-us+../../etc", "no-such-language", "", 3])
def test_an_unknown_voice_or_variant_is_refused_by_name(voice: object) -> None:
    with pytest.raises(InvalidArgument, match="voice") as caught:
        ESpeak(voice)

    assert caught.value.details["field"] == "voice"


@pytest.mark.parametrize("speed", [0, 79, 1_000, "fast", True, 170.0])
def test_a_speed_out_of_range_is_refused(speed: object) -> None:
    with pytest.raises(InvalidArgument, match="80 to 350"):
        ESpeak(speed=speed)


def test_words_are_marked_in_order_and_speech_starts_soon() -> None:
    text = "Order one two three has shipped."
    speech = ESpeak().speak(text)

    assert 1.0 < len(speech.audio) / 24_000 < 4.0
    assert int(np.flatnonzero(np.abs(speech.audio) > 300)[0]) < 24 * 60
    assert [text[: mark.characters].split()[-1] for mark in speech.marks] == text.rstrip(".").split()
    samples = [mark.sample for mark in speech.marks]
    assert samples == sorted(samples)


def test_two_threads_with_two_voices_get_their_own_speech() -> None:
    slow, fast = ESpeak(speed=100), ESpeak(speed=300)
    alone = [len(voice.speak("one two three four").audio) for voice in (slow, fast)]
    lengths: dict[int, list[int]] = {0: [], 1: []}

    def speak(index: int, voice: ESpeak) -> None:
        for _ in range(4):
            result: Speech = voice.speak("one two three four")
            lengths[index].append(len(result.audio))

    threads = [threading.Thread(target=speak, args=pair) for pair in enumerate((slow, fast))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=20)

    for index in (0, 1):
        assert len(lengths[index]) == 4
        assert all(abs(length - alone[index]) < 2_400 for length in lengths[index])


def test_a_missing_extra_gives_the_install_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "espeakng_loader", None)

    with pytest.raises(Unsupported, match=re.escape("pip install 'parlora[offline]'")):
        load_extra("espeakng_loader")

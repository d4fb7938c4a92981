"""The agent of docs/first-agent.md, taken from the page as it is: short, and it says the right thing."""

import os
import subprocess
import sys
import wave
from pathlib import Path

import pytest

pytest.importorskip("pocketsphinx", reason="needs the extra offline")
pytest.importorskip("espeakng_loader", reason="needs the extra offline")

from parlora.providers.offline.grammar import Grammar
from parlora.providers.offline.happenings import CallerSaid
from parlora.providers.offline.listener import Listener
from parlora.providers.offline.recognizer import GrammarRecognizer
from parlora.providers.offline.samples import FRAME_BYTES
from parlora.providers.offline.vad import WebRtcVoiceActivity
from parlora.testing.caller import CallerVoice, write_wav
from tests.docs.pages import ROOT, blocks

CALL_TIMEOUT_S = 60
MOST_LINES = 40

ANSWERS = """
<bread> = rye | wheat;
<price> = three dollars | four dollars;
<user> = a <bread> loaf is <price> | we open at seven in the morning | sorry i did not understand that;
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    (source,) = [each.text for each in blocks(ROOT / "docs/first-agent.md") if each.directive == "file bakery.py"]
    path = tmp_path_factory.mktemp("bakery") / "bakery.py"
    path.write_text(source)
    return path


def heard(path: Path) -> list[str]:
    listener = Listener(GrammarRecognizer(Grammar.parse(ANSWERS), reject_below=None), WebRtcVoiceActivity())
    with wave.open(str(path)) as file:
        audio = file.readframes(file.getnframes()) + bytes(48_000)  # the last word is over when silence follows
    happened = [
        item
        for start in range(0, len(audio) - FRAME_BYTES + 1, FRAME_BYTES)
        for item in listener.feed(audio[start : start + FRAME_BYTES])
    ]
    return [item.text for item in [*happened, *listener.finish()] if isinstance(item, CallerSaid)]


def test_it_is_short(program: Path) -> None:
    code = [line for line in program.read_text().splitlines() if line.strip()]

    assert len(code) < MOST_LINES


def test_it_hears_the_question_and_speaks_the_answer(program: Path, tmp_path: Path) -> None:
    question, answer = "when do you open", "we open at seven in the morning"
    write_wav(tmp_path / "caller.wav", CallerVoice().say(question))
    done = subprocess.run(
        [sys.executable, str(program), "caller.wav", "heard.wav"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "actors")])},
        capture_output=True,
        text=True,
        timeout=CALL_TIMEOUT_S,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert heard(tmp_path / "heard.wav") == [answer]

"""What every provider must do in one session, whatever it is made of (acceptance PC-02, PC-27)."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

import numpy as np
import pytest

from parlora.audio.format import AudioFormat
from parlora.contract.provider import ContextKind, ContextUpdate, MuteInput, Provider
from parlora.errors import Closed, ParloraError, Unsupported
from parlora.providers.gemini import Gemini
from parlora.providers.grok import Grok
from parlora.providers.openai import OpenAI
from parlora.testing.adapters import AdapterHarness
from parlora.testing.providers.gemini import FakeGemini
from parlora.testing.providers.gemini_session import Step as GeminiStep
from parlora.testing.providers.grok import FakeGrok
from parlora.testing.providers.grok_session import Step as GrokStep
from parlora.testing.providers.openai import FakeOpenAI
from parlora.testing.providers.openai_session import Step
from tests.providers.openai_calls import Drain, until

FRAME = AudioFormat.pcm16().bytes_for_us(20_000)
ANSWER = "your order has left"


@dataclass
class Stage:
    """A provider to test, and the caller's words; None where the other side plays the caller.

    has_last_word: whether the service confirms the end.
    """

    provider: Provider
    words: bytes | None = None
    has_last_word: bool = True


@contextmanager
def offline() -> Iterator[Stage]:
    pytest.importorskip("pocketsphinx", reason="needs the extra offline")
    pytest.importorskip("espeakng_loader", reason="needs the extra offline")
    from parlora.providers.offline import Offline
    from parlora.testing.caller import CallerVoice

    yield Stage(Offline("<user> = check order one two three;"), CallerVoice().say("check order one two three"))


@contextmanager
def openai() -> Iterator[Stage]:
    script = (Step(1_000, "user", "check order one two three"), Step(2_500, "delegation", "item_1"))
    with pytest.MonkeyPatch.context() as patch, FakeOpenAI(script, speaks_commentary=True) as fake:
        patch.setenv("PARLORA_TEST_CONTRACT_KEY", "sk-contract")
        yield Stage(OpenAI(api_key_env="PARLORA_TEST_CONTRACT_KEY", url=fake.url))


@contextmanager
def gemini() -> Iterator[Stage]:
    script = (GeminiStep(1_000, "user", "check order one two three"), GeminiStep(2_500, "call", "fc-1"))
    with pytest.MonkeyPatch.context() as patch, FakeGemini(script, speaks=True) as fake:
        patch.setenv("PARLORA_TEST_CONTRACT_KEY", "sk-contract")
        yield Stage(Gemini(api_key_env="PARLORA_TEST_CONTRACT_KEY", url=fake.url), has_last_word=False)


@contextmanager
def grok() -> Iterator[Stage]:
    script = (GrokStep(1_000, "user", "check order one two three"), GrokStep(2_500, "call", "call-1"))
    with pytest.MonkeyPatch.context() as patch, FakeGrok(script, speaks=True) as fake:
        patch.setenv("PARLORA_TEST_CONTRACT_KEY", "sk-contract")
        yield Stage(Grok(api_key_env="PARLORA_TEST_CONTRACT_KEY", url=fake.url), has_last_word=False)


STAGES: dict[str, Callable[[], AbstractContextManager[Stage]]] = {
    "offline": offline,
    "openai": openai,
    "gemini": gemini,
    "grok": grok,
}
BOTH = pytest.mark.parametrize("stage", STAGES)


class Caller:
    """Sends 20 ms frames at media rate: words when there are some, the noise of a quiet line otherwise."""

    def __init__(self, harness: AdapterHarness) -> None:
        self._harness = harness
        noise = np.random.default_rng(1).normal(0, 30, FRAME * 25)
        self._noise = noise.astype(np.int16).tobytes()
        self._words = bytearray()
        self._stopping = threading.Event()
        self.sent_at: list[float] = []
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def say(self, words: bytes) -> None:
        self._words += words + bytes(-len(words) % FRAME)

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(5)

    def _run(self) -> None:
        due, at = time.monotonic(), 0
        while not self._stopping.is_set():
            frame = bytes(self._words[:FRAME]) or self._noise[at : at + FRAME]
            del self._words[:FRAME]
            at = (at + FRAME) % len(self._noise)
            self._harness.audio_in.write(frame)
            self.sent_at.append(time.monotonic())
            due += 0.02
            self._stopping.wait(max(0.0, due - time.monotonic()))


@contextmanager
def on(stage: Stage) -> Iterator[tuple[AdapterHarness, Caller, Drain]]:
    with AdapterHarness(stage.provider) as harness:
        harness.start(20_000)
        caller, drain = Caller(harness), Drain(harness.audio_out)
        try:
            yield harness, caller, drain
        finally:
            caller.stop()
            drain.stop()


@pytest.mark.row("PC-02", "PC-04", "PC-27")
@BOTH
def test_a_session_hears_speaks_delegates_and_takes_the_answer_without_turns(stage: str) -> None:
    with STAGES[stage]() as set_up, on(set_up) as (harness, caller, drain):
        capabilities = harness.wait_for("ready").payload["capabilities"]
        assert set(capabilities) == {
            "audio_formats", "same_format_both_directions", "full_duplex", "transcripts", "delegation_modes",
            "context_update_kinds", "input_mute", "usage", "context_acknowledgment",
        }  # fmt: skip
        assert capabilities["full_duplex"] is True
        assert "client" in capabilities["delegation_modes"]
        assert "speakable" in capabilities["context_update_kinds"]
        if set_up.words is not None:
            caller.say(set_up.words)
        delegation = harness.wait_for("delegation_requested", timeout_ms=20_000).payload
        assert delegation["delegation_id"]
        assert delegation["target"] == "client"
        assert not {"text", "input", "arguments", "task"} & set(delegation)
        before = len(drain.data)
        harness.call("append_context", ContextUpdate(ContextKind.SPEAKABLE, ANSWER, delegation["delegation_id"]), "a")
        outcome = "context_acknowledged" if capabilities["context_acknowledgment"] else "context_submitted"
        harness.wait_for(outcome, command_id="a", timeout_ms=10_000)
        began = time.monotonic()
        until("the answer", lambda: np.abs(np.frombuffer(drain.data[before:], np.int16)).max(initial=0) > 1_000)
        spoken_by = time.monotonic()
        until("the caller's audio beside it", lambda: any(began < at for at in caller.sent_at))
        assert [at for at in caller.sent_at if at < spoken_by]
        until("its caption", lambda: ANSWER.split()[-1] in said_by(harness, "assistant"))
        if capabilities["usage"] and not set_up.has_last_word:
            harness.wait_for("usage_updated")
        closed = harness.close_adapter(timeout_ms=10_000).payload
        assert closed["finalization_observed"] is set_up.has_last_word
        assert bool(harness.sink.events("usage_final")) is (capabilities["usage"] and set_up.has_last_word)


def said_by(harness: AdapterHarness, speaker: str) -> str:
    captions = [event.payload for event in harness.sink.events("transcript_delta")]
    return "".join(caption["delta"] for caption in captions if caption["speaker"] == speaker)


@pytest.mark.row("PC-05", "SD-02", "SD-03")
@BOTH
def test_only_what_is_announced_is_taken_and_nothing_after_the_end(stage: str) -> None:
    with STAGES[stage]() as set_up, on(set_up) as (harness, _, _):
        capabilities = harness.wait_for("ready").payload["capabilities"]
        assert capabilities["delegation_modes"] == ["client"]
        for kind in ContextKind:
            name = f"kind-{kind}"
            if str(kind) in capabilities["context_update_kinds"]:
                harness.call("append_context", ContextUpdate(kind, "good to know"), name)
            else:
                with pytest.raises(Unsupported):
                    harness.call("append_context", ContextUpdate(kind, "good to know"), name)
        if capabilities["input_mute"]:
            harness.call("control", MuteInput(True), "mute")
            harness.wait_for("control_completed", command_id="mute")
        else:
            with pytest.raises(ParloraError):
                harness.call("control", MuteInput(True), "mute")
        harness.close_adapter(timeout_ms=10_000)
        with pytest.raises(Closed):
            harness.call("append_context", ContextUpdate(ContextKind.SPEAKABLE, "late"), "late")
        assert len(harness.sink.events("closed")) == 1

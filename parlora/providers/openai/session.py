"""One connection of the Live API as the shell drives it, and what a fresh connection is told of the call so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from parlora.audio.format import AudioFormat
from parlora.contract.provider import ContextUpdate
from parlora.providers.cloud.codec import CloudCodec
from parlora.providers.cloud.said import Message, Said
from parlora.providers.openai import commands
from parlora.providers.openai.codec import LiveCodec

HISTORY_TOKENS: Final = 7_000
"""What a recovery tells of the call so far, in estimated tokens: the service takes 8,192, and the estimate is rough."""

_ASCII_PER_TOKEN: Final = 3  # English has about 4 characters a token, so 3 errs on the safe side


class LiveSession(CloudCodec):
    """The opening message beside a `LiveCodec`."""

    def __init__(
        self,
        options: commands.StartOptions,
        format: AudioFormat,
        instructions: str | None,
        history: Sequence[Mapping[str, Any]],
        event_id: str,
        earlier_seconds: float = 0.0,
    ) -> None:
        self._start = commands.start(options, format, instructions, history, event_id)
        self._codec = LiveCodec(event_id, earlier_seconds)

    @property
    def pending(self) -> tuple[str, ...]:
        """Command ids sent and not yet acknowledged."""
        return self._codec.pending

    @property
    def seconds(self) -> float:
        """Usage so far, that of earlier connections included."""
        return self._codec.seconds

    def opening(self) -> Sequence[Message]:
        """`session.start`."""
        return (self._start,)

    def audio(self, data: bytes) -> Message:
        """`session.input_audio.append`."""
        return commands.audio(data)

    def append(self, update: ContextUpdate, command_id: str) -> Sequence[Message]:
        """One of the three appends."""
        return (self._codec.append(update, command_id),)

    def mute(self, on: bool, command_id: str) -> Sequence[Message]:
        """`session.input_audio.mute` or `.unmute`."""
        return (self._codec.mute(on, command_id),)

    def close(self, command_id: str) -> Sequence[Message]:
        """`session.close`."""
        return (self._codec.close(command_id),)

    def receive(self, message: bytes) -> list[Said]:
        """What one message says."""
        return self._codec.receive(message)


def history_of(earlier: Sequence[Mapping[str, Any]], transcripts: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """The startup history and a snapshot's captions (newest first) as a startup history, oldest first.

    Captions of one speaker that follow each other are one message. What the service would refuse is left out from the
    beginning: the newest 128 messages and about `HISTORY_TOKENS` tokens stay.
    """
    messages = [{"speaker": str(entry["speaker"]), "text": str(entry["text"])} for entry in earlier]
    spoken: list[dict[str, str]] = []
    for caption in reversed(transcripts):
        speaker, delta = str(caption["speaker"]), str(caption["delta"])
        if spoken and spoken[-1]["speaker"] == speaker:
            spoken[-1]["text"] += delta
        else:
            spoken.append({"speaker": speaker, "text": delta})
    messages += [message for message in spoken if message["text"].strip()]
    kept: list[dict[str, str]] = []
    tokens = 0.0
    for message in reversed(messages[-commands.MAX_HISTORY_MESSAGES :]):
        tokens += _estimated_tokens(message["text"])
        if tokens > HISTORY_TOKENS:
            break
        kept.append(message)
    return kept[::-1]


def _estimated_tokens(text: str) -> float:
    ascii_count = sum(character < "\x80" for character in text)
    return ascii_count / _ASCII_PER_TOKEN + (len(text) - ascii_count)

"""The shell of the cloud providers on a toy service: interruptions, replaced connections, deadlines, in any order."""

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from parlora.audio.format import AudioFormat
from parlora.context.snapshot import ContextSnapshot
from parlora.contract.adapter import AdapterInit
from parlora.contract.provider import (
    ContextKind,
    ContextUpdate,
    DelegationOutcome,
    MuteInput,
    ProviderCapabilities,
)
from parlora.errors import Conflict
from parlora.providers.cloud import said
from parlora.providers.cloud.codec import CloudCodec
from parlora.providers.cloud.connection import Endpoint, Timing
from parlora.providers.cloud.credentials import Credential, CredentialSource
from parlora.providers.cloud.said import Said
from parlora.providers.cloud.shell import CloudProvider
from parlora.testing.adapters import AdapterHarness
from parlora.testing.providers.websocket import BINARY, Peer, PeerGone, WebSocketServer
from tests.providers.openai_calls import until

PCM = AudioFormat.pcm16()
PACKET = PCM.bytes_for_us(100_000)


class ToyCodec(CloudCodec):
    """Says what the server writes: one letter, and a number for the loudness of a packet of audio."""

    def __init__(self, resumed: bool) -> None:
        self._resumed = resumed
        self.due_at_us: int | None = None

    @property
    def pending(self) -> tuple[str, ...]:
        return ()

    def opening(self) -> Sequence[str]:
        return ("resume" if self._resumed else "hello",)

    def audio(self, data: bytes) -> bytes:
        return data

    def append(self, update: ContextUpdate, command_id: str) -> Sequence[str]:
        return (f"one {update.text}", f"two {update.text}")

    def resolve(self, delegation_id: str, outcome: DelegationOutcome) -> Sequence[str]:
        return (f"resolve {delegation_id} {outcome}",)

    def receive(self, message: bytes) -> list[Said]:
        letter, _, rest = message.decode().partition(" ")
        if letter == "a":
            return [said.Audio(bytes([int(rest)]) * PACKET)]
        if letter == "w":
            self.due_at_us = 0
            return []
        plain: dict[str, Said] = {
            "s": said.Started({"toy": True}),
            "i": said.Interrupted(),
            "r": said.Replace("soon"),
            "p": said.Send(("pong",)),
            "e": said.Ended("done", confirmed=True),
        }
        return [plain.get(letter, said.Ignored(letter))]

    def due(self, now_us: int) -> list[Said]:
        if self.due_at_us is None:
            return []
        self.due_at_us = None
        return [said.Refused("late", "the continuation never came")]


class Toy(CloudProvider):
    capabilities = ProviderCapabilities(audio_formats=(PCM,), input_mute=True)
    timing = Timing(finish_ms=200)
    resumes = True

    def __init__(self, url: str) -> None:
        super().__init__(CredentialSource("PARLORA_TEST_TOY_KEY", None, "X"))
        self._url = url

    def endpoint(self, credential: Credential) -> Endpoint:
        return Endpoint(self._url, {"X-Key": credential.reveal()})

    def wire_formats(self, format: AudioFormat) -> tuple[AudioFormat, AudioFormat]:
        return format, format

    def new_codec(self, init: AdapterInit) -> CloudCodec:
        return ToyCodec(resumed=False)

    def next_codec(self, previous: CloudCodec, snapshot: ContextSnapshot | None) -> CloudCodec | None:
        return ToyCodec(resumed=True) if self.resumes else None


class Service:
    """The toy's server: `say` speaks on the newest connection; each is confirmed unless `confirms` is off."""

    def __init__(self) -> None:
        self.peers: list[Peer] = []
        self.heard: list[str] = []
        self.confirms = True
        self._server = WebSocketServer(self._serve)
        self.url = f"ws://127.0.0.1:{self._server.port}/toy"

    def say(self, *messages: str) -> None:
        for message in messages:
            self.peers[-1].send(message)

    def __enter__(self) -> "Service":
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop()

    def _serve(self, peer: Peer) -> None:
        self.peers.append(peer)
        while not self._server.stopping:
            try:
                received = peer.receive(0.05)
            except PeerGone:
                return
            if received is not None and received[0] != BINARY:
                self.heard.append(received[1].decode())
                if self.confirms and received[1] in (b"hello", b"resume"):
                    peer.send("s")


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    monkeypatch.setenv("PARLORA_TEST_TOY_KEY", "toy")
    with Service() as made:
        yield made


@contextmanager
def calling(service: Service, **attributes: Any) -> Iterator[AdapterHarness]:
    toy = Toy(service.url)
    for name, value in attributes.items():
        setattr(toy, name, value)
    with AdapterHarness(toy) as harness:
        harness.start()
        service.say("a 1")
        heard(harness, 1)  # the session has begun
        yield harness


def heard(harness: AdapterHarness, *loudness: int) -> None:
    """These packets come next, and nothing else."""
    data = b""

    def enough() -> bool:
        nonlocal data
        data += b"".join(frame.data for frame in harness.audio_out.read(1_000_000))
        return len(data) >= PACKET * len(loudness)

    until(f"packets {loudness}", enough)
    assert data == b"".join(bytes([level]) * PACKET for level in loudness)


def test_what_comes_after_an_interruption_waits_for_the_newest_token(service: Service) -> None:
    with calling(service) as call:
        service.say("a 2", "i", "a 3")
        first = call.wait_for("output_interrupted").payload["token"]
        service.say("i", "a 4")
        second = call.wait_for("output_interrupted", nth=2).payload["token"]
        call.audio_out.clear(1)
        call.call("clear_output", 1)
        call.call("resume_output", first)  # of an interruption that another one has overtaken
        service.say("p")
        until("the answer", lambda: "pong" in service.heard)
        assert call.audio_out.status().queued_bytes == 0
        call.call("resume_output", second)
        heard(call, 4)
        dropped = call.wait_for("audio_discontinuity").payload
        assert (dropped["cause"], dropped["dropped_bytes"]) == ("output_interrupted", PACKET)


@pytest.mark.parametrize("how", ["announced", "lost"])
def test_a_connection_is_taken_over_by_another_without_a_second_ready(service: Service, how: str) -> None:
    with calling(service) as call:
        call.call("control", MuteInput(True), "mute")
        assert call.wait_for("control_completed", command_id="mute").payload["scope"] == "local"
        if how == "announced":
            service.say("r")
        else:
            service.peers[-1].drop()
        assert call.wait_for("provider_connection").payload["status"] == "reconnecting"
        assert call.wait_for("provider_connection", nth=2).payload == {"status": "resumed"}
        assert "resume" in service.heard
        service.say("a 5")
        heard(call, 5)
        assert len(call.sink.events("ready")) == 1
        assert not call.sink.events("failed")


def test_an_interruption_that_a_reconnection_falls_into_still_resumes(service: Service) -> None:
    with calling(service) as call:
        service.confirms = False
        service.say("i", "a 6", "r")
        token = call.wait_for("output_interrupted").payload["token"]
        until("the next connection", lambda: "resume" in service.heard)
        call.audio_out.clear(1)
        call.call("resume_output", token)
        heard(call, 6)
        service.say("s")
        call.wait_for("provider_connection", nth=2)


def test_a_connection_that_nothing_can_take_over_from_fails_the_call(service: Service) -> None:
    with calling(service, resumes=False) as call:
        service.peers[-1].reset()
        assert call.wait_for("failed").payload["error"]["details"]["reason"] == "lost"


def test_an_append_without_acknowledgment_is_submitted_once_it_was_written(service: Service) -> None:
    with calling(service) as call:
        call.call("append_context", ContextUpdate(ContextKind.SPEAKABLE, "hi"), "c")
        assert call.wait_for("context_submitted", command_id="c").payload == {"evidence": "socket_write"}
        until("both messages", lambda: service.heard[-2:] == ["one hi", "two hi"])
        call.call("append_context", ContextUpdate(ContextKind.SPEAKABLE, "hi"), "c")
        with pytest.raises(Conflict):
            call.call("append_context", ContextUpdate(ContextKind.SPEAKABLE, "no"), "c")
        call.call("resolve_delegation", "d1", DelegationOutcome.FAILED)
        until("the resolution", lambda: service.heard[-1] == "resolve d1 failed")
        assert len(call.sink.events("context_submitted")) == 1


def test_a_deadline_of_the_service_is_noticed_without_a_message(service: Service) -> None:
    with calling(service) as call:
        service.say("w")
        error = call.wait_for("failed").payload["error"]
        assert error["details"] == {"provider_code": "late"}


def test_an_overload_without_recovery_is_told_and_the_call_goes_on(service: Service) -> None:
    with calling(service) as call:
        service.say(*["a 7"] * 40)
        first = call.wait_for("audio_discontinuity").payload
        assert first["cause"] == "provider_overload"
        assert first["diagnostics"]["discarded_bytes"] == PACKET
        until("the rest of the burst", lambda: sum(_dropped(call)) == 33 * PACKET)
        assert len(_dropped(call)) < 10
        call.audio_out.read(1_000_000)
        service.say("a 8")
        heard(call, 8)


def _dropped(call: AdapterHarness) -> list[int]:
    return [event.payload["dropped_bytes"] for event in call.sink.events("audio_discontinuity")]


def test_commands_from_several_threads_each_go_out_whole_and_once(service: Service) -> None:
    with calling(service) as call:
        provider = call.adapter
        assert isinstance(provider, Toy)

        def append(number: int) -> None:
            provider.append_context(ContextUpdate(ContextKind.SPEAKABLE, str(number)), f"c{number}")

        threads = [threading.Thread(target=append, args=(number,)) for number in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        until("all of them", lambda: len([text for text in service.heard if text.startswith("two ")]) == 20)
        told = [text for text in service.heard if text[:4] in ("one ", "two ")]
        assert [text[4:] for text in told[::2]] == [text[4:] for text in told[1::2]]
        json.dumps([event.payload for event in call.sink.events()])


def test_a_service_that_ends_the_session_closes_the_provider(service: Service) -> None:
    with calling(service) as call:
        service.say("e")
        closed = call.wait_for("closed").payload
        assert (closed["reason"], closed["finalization_observed"]) == ("done", True)

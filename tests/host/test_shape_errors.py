"""Whatever is wrong in the shape of the arguments raises at once, names the field, and starts nothing."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

from parlora import (
    ActorHost,
    AudioFormat,
    Closed,
    Encoding,
    InvalidArgument,
    ParloraError,
    Session,
    Subscriber,
    Unsupported,
)
from parlora_actors.host_request import SessionOptions, build_spec, context_update, control_command, plain_map

GOOD: dict[str, Any] = {
    "channel": ("a.b:C", {}),
    "provider": ("a.b:P", {}),
    "backend": ("a.b:B", {}),
    "context_policy": ("a.b:D", {}),
    "instructions": None,
    "history": (),
    "context": None,
    "audio_format": None,
    "limits": None,
    "session_id": None,
}


def spec(**changes: Any) -> Any:
    return build_spec(SessionOptions(**{**GOOD, **changes}))


class Adapter:
    def method(self) -> None: ...


def main_thing() -> None: ...


@pytest.mark.row("SL-02")
@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"channel": None}, "channel"),
        ({"provider": "no path"}, "provider"),
        ({"backend": ("a:B", {}, 3)}, "backend"),
        ({"backend": ("a:B", {"x": object()})}, "backend.options"),
        ({"backend": ("a:B", [])}, "backend.options"),
        ({"context_policy": lambda snapshot, trigger, options: []}, "context_policy"),
        ({"context_policy": Adapter().method}, "context_policy"),
        ({"context_policy": functools.partial(main_thing)}, "context_policy"),
        ({"instructions": 3}, "instructions"),
        ({"history": "hello"}, "history"),
        ({"history": [{"speaker": "user"}]}, "history[0]"),
        ({"history": [{"speaker": "nobody", "text": ""}]}, "history[0].speaker"),
        ({"history": [{"speaker": "user", "text": 3}]}, "history[0].text"),
        ({"context": []}, "context"),
        ({"context": {1: 2}}, "context"),
        ({"context": {"x": object()}}, "context"),
        ({"context": {"x": "y" * 5_000_000}}, "context"),
        ({"audio_format": "mp3"}, "audio_format"),
        ({"limits": {"max_job": 1}}, "limits.max_job"),
        ({"limits": {"max_jobs": 0}}, "limits.max_jobs"),
        ({"limits": {"audio_queue_bytes": 1}}, "limits.audio_queue_bytes"),
        ({"session_id": ""}, "session_id"),
        ({"session_id": "x" * 129}, "session_id"),
        ({"session_id": "\ud800"}, "session_id"),
        ({"instructions": "\ud800"}, "instructions"),
        ({"history": [{"speaker": "user", "text": "\ud800"}]}, "history[0].text"),
    ],
)
def test_a_wrong_argument_names_its_field(change: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        spec(**change)
    assert caught.value.details["field"] == field


def test_an_unsupported_format_is_unsupported() -> None:
    with pytest.raises(Unsupported):
        spec(audio_format=AudioFormat(Encoding.PCM16LE, 48_000))


@pytest.mark.row("SL-04")
def test_the_default_format_is_pcm16_at_24_khz_and_a_phone_asks_for_mu_law() -> None:
    assert spec().audio_format == AudioFormat(Encoding.PCM16LE, 24_000, 1)
    assert spec(audio_format="pcmu").audio_format == AudioFormat.pcmu()


@pytest.mark.row("SL-05")
def test_byte_bounds_follow_the_format_and_given_ones_win() -> None:
    assert spec().limits.audio_queue_bytes == 9_600
    assert spec(audio_format="pcmu").limits.audio_queue_bytes == 1_600
    assert spec(audio_format="pcmu", limits={"audio_queue_bytes": 800}).limits.audio_queue_bytes == 800
    assert spec().limits.provider_audio_queue_bytes is None  # completed by the provider's owner from its profile


@pytest.mark.parametrize(
    "command", ["clear_output", ("clear_output", 3), ("mute_input", 1), ("dance", True), None, ("suppress_output",)]
)
def test_a_control_of_no_known_form_is_refused(command: object) -> None:
    with pytest.raises(InvalidArgument) as caught:
        control_command(command)
    assert caught.value.details["field"] == "command"


@pytest.mark.parametrize(
    ("update", "field"),
    [
        ({"kind": "loud", "text": "x"}, "update.kind"),
        ({"kind": "quiet", "text": ""}, "update.text"),
        ({"kind": "quiet"}, "update"),
        ({"kind": "quiet", "text": "x", "delegation_id": ""}, "update.delegation_id"),
        ({"kind": "quiet", "text": "\ud800"}, "update.text"),
        ({"kind": "quiet", "text": "x" * 9_000_000}, "update.text"),
        ("hello", "update"),
    ],
)
def test_a_malformed_context_update_is_refused(update: object, field: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        context_update(update)
    assert caught.value.details["field"] == field


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"preload": "json"}, "preload"),
        ({"env_drop": [3]}, "env_drop"),
        ({"max_sessions": 0}, "max_sessions"),
        ({"log": 3}, "log"),
        ({"startup_timeout_ms": 1.5}, "startup_timeout_ms"),
    ],
)
def test_wrong_options_of_the_host_name_their_field(options: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        ActorHost(**options)
    assert caught.value.details["field"] == field


def test_a_shape_error_comes_before_the_host_is_even_asked() -> None:
    host = ActorHost()  # never started: a good spec would be refused as closed
    with pytest.raises(InvalidArgument):
        host.start_session(channel=3, provider="a:b", backend="a:b", context_policy="a:b")
    with pytest.raises(Closed):
        host.start_session(channel="a:b", provider="a:b", backend="a:b", context_policy="a:b")


@pytest.mark.parametrize("sink", [3, "print", object()])
def test_an_event_sink_that_cannot_be_called_is_refused(sink: Any) -> None:
    with pytest.raises(ParloraError, match="event_sink"):
        ActorHost().start_session(channel="a:b", provider="a:b", backend="a:b", context_policy="a:b", event_sink=sink)


def test_a_context_that_no_message_can_carry_is_refused_by_its_size() -> None:
    with pytest.raises(InvalidArgument, match="at most 4,194,304 bytes") as caught:
        plain_map({"x": "y" * 9_000_000}, "context")
    assert caught.value.details["field"] == "context"


@pytest.mark.parametrize("timeout", [-1, float("nan"), "soon", True, [], {}])
def test_a_wait_that_is_no_time_is_refused_wherever_one_can_wait(start: Callable[..., Session], timeout: Any) -> None:
    session = start()
    waits = (session.wait_ready, session.wait_closed, Subscriber().get, ActorHost().close, ActorHost().drain)
    for wait in waits:
        with pytest.raises(InvalidArgument) as caught:
            wait(timeout)
        assert caught.value.details["field"] == "timeout"


def test_a_wait_longer_than_a_thread_can_wait_is_only_long(start: Callable[..., Session]) -> None:
    session = start()
    session.close()
    assert session.wait_closed(float("inf"))["reason"] == "finish"
    assert session.wait_closed(10**30)["reason"] == "finish"


@pytest.mark.parametrize("policy", [None, "later", [], 1])
def test_a_close_policy_is_checked_before_anything_is_closed(start: Callable[..., Session], policy: Any) -> None:
    session = start()
    for close in (session.close, lambda value: ActorHost().close(policy=value)):
        with pytest.raises(InvalidArgument) as caught:
            close(policy)
        assert caught.value.details["field"] == "policy"
    assert session.status()["status"] == "ready"


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda session, bad: session.expect_progress("e", bad), "timeout_ms"),
        (lambda session, bad: session.expect_progress("e", 10, until=bad), "until"),
        (lambda session, bad: session.expect_progress("e", 10, on_timeout=bad), "on_timeout"),
        (lambda session, bad: session.resolve_progress("e", bad), "outcome"),
        (lambda session, bad: session.cancel("r", bad, "c"), "expected_task_revision"),
        (lambda session, bad: session.cancel(bad, 1, "c"), "request_id"),
        (lambda session, bad: session.control(("mute_input", True), bad), "command_id"),
    ],
)
@pytest.mark.parametrize("bad", [10**30, object(), [[]], {"x": 1}, "\ud800"])
def test_a_call_with_a_misfit_argument_names_it_and_sends_nothing(
    start: Callable[..., Session], call: Callable[[Session, Any], None], field: str, bad: Any
) -> None:
    with pytest.raises(InvalidArgument) as caught:
        call(start(), bad)
    assert caught.value.details["field"] == field

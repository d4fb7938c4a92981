"""What can be observed: status, snapshot, health, subscriptions, passed-on events."""

import json
from typing import Any

import pytest

from parlora.context.decision import ContextDecision, DecisionKind
from parlora.limits import Limits
from parlora.session import effects, inputs
from parlora.session.roles import Role
from parlora.testing.session_model import SessionModel, session_spec

from .helpers import error_code, on_task, only_task, start, started

KEYS = {"session_id", "status", "observed_at_us", "interpretation", "health", "delegations", "jobs", "playback"}


@pytest.mark.row("ST-01", "ST-02", "ST-03", "ST-09", "ST-10", "TY-25")
def test_status_has_its_eight_keys_and_no_words_inputs_or_results() -> None:
    model = started(order="secret-input")
    model.say("secret-words")
    model.settle()
    model.complete(model.request(), summary="secret-summary", facts={"x": "secret-fact"})
    status = model.status()

    assert set(status) >= KEYS
    assert "secret" not in json.dumps(status)
    (job,) = status["jobs"].values()
    assert set(job) >= {"status", "task_id", "task_revision", "delegation_id", "deadline_at_us", "current"}
    assert status["delegations"]["d1"] == {
        "status": "claimed",
        "received_at_us": model.snapshot()["pending_delegations"]["d1"]["received_at_us"],
        "task_id": job["task_id"],
        "task_revision": 1,
    }


@pytest.mark.row("ST-20", "PC-23")
def test_status_shows_whether_the_provider_acknowledges() -> None:
    assert SessionModel().status()["context_acknowledgment"] is False
    assert SessionModel().ready().status()["context_acknowledgment"] is True


@pytest.mark.row("ST-04", "ST-19")
def test_a_current_job_shows_its_tasks_wait_and_question() -> None:
    model = started()
    model.say("hm")
    task = only_task(model)
    model.decide(
        on_task(DecisionKind.WAIT_FOR_CONTEXT, task, recheck_after_ms=50, recheck_key="k"),
        on_task(DecisionKind.REQUEST_CLARIFICATION, task, message="Which?", input={"missing": "order"}),
    )
    (job,) = model.status()["jobs"].values()

    assert job["context_wait"]["recheck_key"] == "k"
    assert (job["clarification"]["message"], job["clarification"]["input"]) == ("Which?", {"missing": "order"})


@pytest.mark.row("ST-16", "ST-17", "ST-18", "HP-02")
def test_only_the_latest_playback_observation_of_each_stage_is_kept() -> None:
    model = SessionModel().ready()
    for sequence in range(50):
        for stage in ("queued", "handed_off"):
            model.advance(1)
            model.event(Role.CHANNEL, "playback_observed", {"stage": stage, "sequence": sequence, "epoch": 0})
    model.event(Role.CHANNEL, "playback_observed", {"stage": "heard"})
    playback = model.status()["playback"]

    assert playback == {
        "queued": {"stage": "queued", "sequence": 49, "epoch": 0, "observed_at_us": model.clock.now_us - 1_000},
        "handed_off": {"stage": "handed_off", "sequence": 49, "epoch": 0, "observed_at_us": model.clock.now_us},
    }
    assert model.status()["health"]["observations"]["channel_playback"]["count"] == 100
    assert model.told("event_rejected").payload["type"] == "playback_observed"


@pytest.mark.row("TY-01", "TY-02", "TY-03", "TY-04", "TY-05", "TY-06", "TY-21", "TY-33")
def test_captions_are_kept_as_they_came_newest_first_and_bounded() -> None:
    model = SessionModel(session_spec(Limits(max_transcripts=16))).ready()
    for number in range(20):
        payload = {"speaker": "user", "delta": f"  word {number} ", "start_ms": 5.5, "end_ms": None, "item": number}
        model.event(Role.PROVIDER, "transcript_delta", payload)
    transcripts = model.snapshot()["transcripts"]

    assert len(transcripts) == 16
    assert [entry["item"] for entry in transcripts] == list(range(19, 3, -1))
    assert transcripts[0] == {
        "speaker": "user",
        "delta": "  word 19 ",
        "start_ms": 5.5,
        "end_ms": None,
        "item": 19,
        "provider_generation": 0,
        "arrival_order": model.snapshot()["revision"],
    }
    transcripts.clear()
    assert len(model.snapshot()["transcripts"]) == 16


@pytest.mark.parametrize(
    "payload",
    [
        {"delta": "x"},
        {"speaker": "dog", "delta": "x"},
        {"speaker": "user"},
        {"speaker": "user", "delta": "x", "end_ms": "1"},
    ],
)
def test_a_malformed_caption_is_refused_and_changes_nothing(payload: dict[str, Any]) -> None:
    model = SessionModel().ready()
    before = model.snapshot()
    model.event(Role.PROVIDER, "transcript_delta", payload)

    assert model.snapshot() == before
    assert model.told("event_rejected").payload["error"]["code"] == "invalid_argument"


@pytest.mark.row("TY-07", "TY-08", "EV-10")
def test_pending_delegations_hold_pending_claimed_and_cancelled_ones() -> None:
    model = started()
    for name in ("d2", "d3"):
        model.delegate(name)
        model.settle()
    model.event(Role.PROVIDER, "delegation_cancelled", {"delegation_id": "d3"})
    entries = model.snapshot()["pending_delegations"]

    assert {name: entry["status"] for name, entry in entries.items()} == {
        "d1": "claimed",
        "d2": "pending",
        "d3": "cancelled",
    }
    assert set(entries["d2"]) == {"id", "target", "offset_ms", "provider_generation", "status", "received_at_us"}
    assert [event.payload["delegation_id"] for event in model.events("delegation_pending")] == ["d1", "d2", "d3"]


def test_a_repeated_delegation_is_the_same_call() -> None:
    model = started()
    model.delegate("d1")

    assert model.snapshot()["pending_delegations"]["d1"]["status"] == "claimed"
    assert model.status()["interpretation"] == "settled"


@pytest.mark.row("TY-10", "TY-14", "TY-33")
def test_a_task_has_exactly_its_keys() -> None:
    assert set(only_task(started())) == {
        "id",
        "revision",
        "input",
        "status",
        "request_ids",
        "delegation_id",
        "confirmation",
    }


@pytest.mark.row("TY-20")
def test_times_may_be_below_zero() -> None:
    model = started()

    assert model.clock.now_us < 0
    assert model.status()["observed_at_us"] == model.clock.now_us


@pytest.mark.row("HP-01", "HP-02", "HP-03", "HP-04", "HP-05")
def test_health_counts_what_was_observed_without_its_content() -> None:
    model = SessionModel().ready()
    model.say("  ")
    model.say("secret")
    model.say("secret", speaker="assistant")
    model.delegate("d1")
    counters = inputs.AudioCounters(inputs.Forwarded(3, 2_880, 9), inputs.Forwarded())
    model.feed(inputs.Called, caller="a", call_id="x", operation="status", arguments={}, counters=counters)
    answer = model.answer("x")
    assert answer is not None
    health = answer.value["health"]

    assert health["input_forwarded"] == {"frames": 3, "bytes": 2_880, "last_at_us": 9}
    assert health["output_forwarded"] == {"frames": 0, "bytes": 0, "last_at_us": None}
    assert {name: seen["count"] for name, seen in health["observations"].items()} == {
        "provider_events": 5,
        "user_caption": 1,
        "assistant_caption": 1,
        "delegation": 1,
        "channel_playback": 0,
    }
    assert health["expectation"] is None
    assert "secret" not in json.dumps(health)


@pytest.mark.row("EV-01")
def test_subscriptions_are_bounded_over_all_connections_and_end_with_them() -> None:
    model = SessionModel(session_spec(Limits(max_subscribers=2)))
    assert error_code(model.call("subscribe", caller="a", subscription_id="s1")) is None
    assert error_code(model.call("subscribe", caller="b", subscription_id="s2")) is None
    refused = model.call("subscribe", caller="c", subscription_id="s3")
    assert error_code(refused) == "backpressure"
    assert error_code(model.call("subscribe", caller="b", subscription_id="s1")) == "conflict"
    assert error_code(model.call("subscribe", caller="a", subscription_id="s1")) is None
    assert model.of(effects.Attach) == [effects.Attach("a", "s1"), effects.Attach("b", "s2")]
    model.feed(inputs.CallerGone, caller="a")
    assert error_code(model.call("subscribe", caller="c", subscription_id="s3")) is None
    assert error_code(model.call("unsubscribe", caller="c", subscription_id="s2")) == "not_found"
    assert error_code(model.call("unsubscribe", caller="b", subscription_id="s2")) is None

    assert model.of(effects.Detach) == [effects.Detach("b", "s2")]


def test_a_subscription_without_an_id_gets_one() -> None:
    answer = SessionModel().call("subscribe")

    assert answer is not None
    assert answer.value["subscription_id"]


@pytest.mark.row("CM-15", "EV-05", "EV-06", "EV-13", "EV-14", "CM-20")
def test_events_of_adapters_are_passed_on_unchanged_each_with_an_id_of_its_own() -> None:
    model = started()
    event = model.adapter_event(Role.PROVIDER, "usage_updated", {"seconds": 3, "final": False, "vendor": {"a": 1}})
    model.feed(inputs.AdapterEvent, role=Role.PROVIDER, event=event)
    model.event(Role.PROVIDER, "context_rejected", {"error": None})
    told = [effect.event for effect in model.of(effects.Emit)]

    assert event in told
    assert len({each.id for each in told}) == len(told)
    assert model.told("context_rejected", "provider").command_id is None


def test_a_loss_of_a_pipeline_is_one_discontinuity() -> None:
    model = SessionModel().ready()
    loss = inputs.Loss(2, 1_920, 40_000)
    model.feed(inputs.PipelineLost, role=Role.INPUT_PIPELINE, stream="capture", cause="overflow", loss=loss)

    payload = model.told("audio_discontinuity").payload
    assert (payload["stream"], payload["cause"], payload["dropped_frames"]) == ("capture", "overflow", 2)


@pytest.mark.row("SL-47", "TY-23")
def test_the_application_context_is_replaced_as_given() -> None:
    model = SessionModel().ready()
    model.call("update_context", context={"a": {"deep": [1]}})
    model.call("update_context", context={"b": None})

    assert model.snapshot()["application_context"] == {"b": None}
    assert error_code(model.call("update_context", context=[])) == "invalid_argument"


def test_a_wait_on_a_delegation_shows_in_status() -> None:
    model = SessionModel().ready()
    model.delegate("d1")
    model.decide(ContextDecision(DecisionKind.WAIT_FOR_CONTEXT, delegation_id="d1", recheck_after_ms=50))

    assert model.status()["delegations"]["d1"]["context_wait"]["expired"] is False


@pytest.mark.row("ST-11", "ST-12")
def test_a_request_is_queued_submitted_uncertain_or_ended() -> None:
    model = SessionModel(session_spec(Limits(max_jobs=1)))
    started(model)
    request = model.request()
    seen = [model.status()["jobs"][request["id"]]["status"]]
    model.delegate("d2")
    model.decide(start("d2"))
    seen += [job["status"] for key, job in model.status()["jobs"].items() if key != request["id"]]
    model.event(Role.BACKEND, "request_uncertain", {"reason": "lost"}, request_id=request["id"])
    seen.append(model.status()["jobs"][request["id"]]["status"])
    for status in ("completed", "failed"):
        model.complete(model.request(), status)
        seen.append(status)
    model.delegate("d3")
    model.decide(start("d3"))
    model.complete(model.request(), "cancelled")
    seen.append(list(model.status()["jobs"].values())[-1]["status"])

    assert seen == ["submitted", "queued", "uncertain", "completed", "failed", "cancelled"]


@pytest.mark.row("TY-18", "TY-28", "TY-22")
def test_what_was_not_observed_is_none_or_absent() -> None:
    model = SessionModel().ready()
    snapshot = model.snapshot()
    assert snapshot["provider_speech"] == "unknown"
    model.say("hello")
    model.delegate("d1")
    snapshot = model.snapshot()
    (caption,) = snapshot["transcripts"]
    assert (caption["start_ms"], caption["end_ms"]) == (None, None)
    assert snapshot["pending_delegations"]["d1"]["offset_ms"] is None
    assert not {"task_id", "context_wait", "clarification"} & set(snapshot["pending_delegations"]["d1"])
    model.event(Role.CHANNEL, "playback_observed", {"stage": "handed_off"})

    assert model.snapshot()["provider_speech"] == "unknown"
    assert model.status()["playback"]["handed_off"].keys() == {"stage", "observed_at_us"}


@pytest.mark.row("CM-09", "TY-27")
def test_a_fresh_session_remembers_nothing_of_another() -> None:
    first = started()
    answer = first.call("append_context", update={"kind": "quiet", "text": "x"}, command_id="c1")
    assert error_code(answer) is None
    second = SessionModel(session_spec(context={"known": 1})).ready()

    assert second.snapshot()["tasks"] == {}
    assert second.snapshot()["application_context"] == {"known": 1}
    assert error_code(second.call("append_context", update={"kind": "quiet", "text": "y"}, command_id="c1")) is None

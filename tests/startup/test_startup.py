"""How a session comes up: one budget, isolated owners, nothing forwarded before everybody is ready."""

import time
from collections.abc import Callable

import pytest

from parlora.errors import AdapterFailed, Closed, InvalidArgument, ParloraError, Timeout, Unsupported
from parlora_actors import procfs
from tests.sessions import MISBEHAVING, Call, wait_for

Start = Callable[..., Call]

REPORTING = {
    "channel": f"{MISBEHAVING}:ReportingChannel",
    "provider": f"{MISBEHAVING}:ReportingProvider",
    "backend": f"{MISBEHAVING}:ReportingBackend",
}


@pytest.mark.row("SL-07", "SL-18")
def test_every_role_is_a_process_of_its_own_under_the_sessions_supervisor(call: Start) -> None:
    session = call(**REPORTING).ready()
    processes = session.processes()
    assert len(set(processes.values())) == 7
    for role in ("channel", "provider", "backend"):
        told = session.event("extension", role).payload
        assert (told["pid"], told["parent"]) == (processes[role], session.supervisor)
        assert told["thread"] == f"parlora-{role}"
    session.end()
    assert not any(procfs.is_alive(pid) for pid in processes.values())


@pytest.mark.row("SL-10", "SL-11", "SL-12", "SL-13", "SL-42")
def test_every_adapter_gets_its_init_record(call: Start) -> None:
    session = call(
        **REPORTING,
        instructions="be brief",
        history=[{"speaker": "user", "text": "hello"}],
        context={"tenant": 7},
        limits={"job_timeout_ms": 7_000},
    ).ready()
    told = {role: session.event("extension", role).payload for role in ("channel", "provider", "backend")}
    for role, record in told.items():
        assert record["session_id"] == session.session.id
        assert record["adapter_id"] == session.event("extension", role).adapter_id
        assert record["generation"] == 0
        limits = record["limits"]
        assert limits["job_timeout_ms"] == 7_000
        assert limits["audio_queue_bytes"] == 9_600
        assert limits["max_frame_bytes"] == 4_800
        assert limits["provider_audio_queue_bytes"] > 0
    pcm16 = {"encoding": "pcm16le", "sample_rate": 24_000, "channels": 1}
    assert [told[role]["audio_format"] for role in told] == [pcm16, pcm16, None]
    assert [told[role]["has_ports"] for role in told] == [True, True, False]
    assert [told[role]["instructions"] for role in told] == [None, "be brief", None]
    assert [told[role]["history"] for role in told] == [[], [{"speaker": "user", "text": "hello"}], []]
    assert session.session.snapshot().application_context == {"tenant": 7}


@pytest.mark.row("SL-15")
def test_ready_states_capabilities_and_format(call: Start) -> None:
    session = call(audio_format="pcmu").ready()
    payload = session.event("ready", "session").payload
    pcmu = {"encoding": "pcmu", "sample_rate": 8_000, "channels": 1}
    assert payload["audio_format"] == pcmu
    assert payload["capabilities"]["provider"]["full_duplex"] is True
    assert payload["capabilities"]["channel"]["input_formats"] == [pcmu]
    for role in ("channel", "provider"):
        assert session.event("ready", role).payload["audio_format"] == pcmu


@pytest.mark.row("SL-16", "SL-20", "SL-35", "SL-36", "SL-37")
def test_what_was_said_before_readiness_is_dropped_counted_and_never_heard(call: Start) -> None:
    session = call(
        channel=("parlora.channels.trivial:TrivialChannel", {"send": "counter"}),
        provider=(f"{MISBEHAVING}:CountingProvider", {}),
        backend=(f"{MISBEHAVING}:SlowBackend", {"delay_ms": 300}),
    ).ready()
    discard = session.event("audio_discontinuity", "session", cause="startup_buffer_discard")
    assert discard.payload["dropped_frames"] > 5
    assert discard.payload["dropped_duration_us"] == discard.payload["dropped_frames"] * 20_000
    heard = session.event("extension", "provider").payload["numbers"]
    # What was dropped and what did not fit before came first; nothing of it is ever heard.
    assert heard[0] >= discard.payload["dropped_frames"]
    assert heard == list(range(heard[0], heard[0] + len(heard)))
    order = [(event.source, event.type) for event in session.events]
    first_heard = order.index(("provider", "extension"))
    assert order.index(("session", "audio_discontinuity")) < order.index(("session", "ready")) < first_heard


@pytest.mark.row("SL-17")
def test_capture_before_readiness_stays_within_its_bound(call: Start) -> None:
    session = call(channel=f"{MISBEHAVING}:FillingChannel").ready()
    told = session.event("extension", "channel").payload
    assert told["results"] == ["ok"] * 10 + ["backpressure"] * 20
    assert told["queued"] == told["capacity"] == 9_600
    assert session.event("audio_discontinuity", "session").payload["dropped_frames"] == 10


@pytest.mark.row("SL-03", "SL-21", "SL-45")
def test_status_and_close_are_served_while_a_start_blocks(call: Start) -> None:
    session = call(provider=f"{MISBEHAVING}:HangsInStart")
    session.event("extension", "provider")
    assert session.session.status()["status"] == "starting"
    began = time.monotonic()
    session.session.close()
    payload = session.closed()
    assert time.monotonic() - began < 4
    assert payload["reason"] == "requested"
    assert not session.of("ready", "session")
    with pytest.raises(Closed):
        session.session.wait_ready(0)


@pytest.mark.row("SL-19", "SL-22")
def test_one_budget_for_everything_and_then_everything_is_killed(call: Start) -> None:
    began = time.monotonic()
    session = call(
        channel=(f"{MISBEHAVING}:SlowChannel", {"delay_ms": 1_800}),
        provider=f"{MISBEHAVING}:HangsInStart",
        limits={"startup_timeout_ms": 3_000},
    )
    session.event("extension", "provider")
    wait_for("the child and the daemon", lambda: len(session.below()) == 9)
    with pytest.raises(Timeout) as caught:
        session.session.wait_ready(20)
    # A budget for each adapter would have ended 1,800 ms later.
    assert time.monotonic() - began < 4.8
    assert caught.value.details["missing"] == ["provider"]
    payload = session.closed()
    assert payload["killed"] >= 3  # the deaf owner, its child and its daemon
    assert payload["left"] == []
    assert not session.of("closed", "channel")


@pytest.mark.row("SL-23", "SL-25", "SL-27", "SL-28")
def test_a_failed_start_ends_the_others_and_says_why_without_secrets(call: Start) -> None:
    session = call(backend=f"{MISBEHAVING}:FailsLate", channel=f"{MISBEHAVING}:ReportingChannel")
    session.event("ready", "channel")
    with pytest.raises(AdapterFailed, match=r"backend\.start raised RuntimeError"):
        session.session.wait_ready(20)
    session.closed()
    failed = session.event("failed", "session")
    assert failed.payload["error"]["details"]["frames"]
    told = repr([event.payload for event in session.events])
    assert "hunter2" not in told
    assert "rolled back" not in told


@pytest.mark.row("SL-26")
def test_who_starts_after_the_abort_makes_nothing_ready(call: Start) -> None:
    session = call(backend=f"{MISBEHAVING}:FailsInStart", provider=(f"{MISBEHAVING}:SlowProvider", {"delay_ms": 200}))
    session.closed()
    time.sleep(0.3)
    assert not session.of("ready", "session")


def test_an_owner_that_dies_in_its_start_is_a_failed_start(call: Start) -> None:
    session = call(backend=f"{MISBEHAVING}:DiesInStart")
    with pytest.raises(AdapterFailed, match="backend"):
        session.session.wait_ready(20)
    session.closed()


def test_a_policy_that_kills_its_process_at_import_fails_the_start_at_once(call: Start) -> None:
    began = time.monotonic()
    session = call(context_policy="tests.fatal_policy:policy")
    with pytest.raises(AdapterFailed, match="policy worker died") as caught:
        session.session.wait_ready(20)
    assert time.monotonic() - began < 8
    assert caught.value.details["field"] == "context_policy"
    session.closed()


@pytest.mark.row("SL-14")
def test_a_format_that_the_device_refuses_fails_and_does_not_fall_back(call: Start) -> None:
    session = call(channel=f"{MISBEHAVING}:RefusesFormat", audio_format="pcmu")
    with pytest.raises(Unsupported) as caught:
        session.session.wait_ready(20)
    assert caught.value.details["field"] == "audio_format"
    session.closed()


@pytest.mark.row("SL-29", "SL-30")
@pytest.mark.parametrize("lacks", ["full_duplex", "audio_formats", "delegation_modes", "context_update_kinds"])
def test_a_provider_without_what_a_session_needs_is_unsupported(call: Start, lacks: str) -> None:
    session = call(provider=(f"{MISBEHAVING}:IncapableProvider", {"lacks": lacks}))
    with pytest.raises(Unsupported) as caught:
        session.session.wait_ready(20)
    assert caught.value.details["field"] == f"provider.{lacks}"
    session.closed()
    assert session.event("failed", "session").payload["error"]["code"] == "unsupported"
    assert not session.of("ready", "session")


@pytest.mark.parametrize(
    ("part", "value", "field"),
    [
        ("channel", "no_such_module_anywhere:X", "channel"),
        ("provider", ("parlora.providers.trivial:TrivialProvider", {"wrong": 1}), "provider.options"),
        ("channel", ("parlora.channels.trivial:TrivialChannel", {"send": "noise"}), "channel.options.send"),
        ("backend", "collections:NoSuchName", "backend"),
        ("context_policy", "no_such_module_anywhere:policy", "context_policy"),
    ],
)
def test_what_only_an_owner_can_know_names_its_field(call: Start, part: str, value: object, field: str) -> None:
    session = call(**{part: value})
    with pytest.raises(InvalidArgument) as caught:
        session.session.wait_ready(20)
    assert caught.value.details["field"] == field
    session.closed()
    assert session.event("failed", "session").payload["error"]["details"]["field"] == field


@pytest.mark.row("SL-44")
def test_a_stopped_session_has_no_status(call: Start) -> None:
    session = call().ready()
    session.end()
    with pytest.raises(Closed):
        session.session.status()


def test_the_session_is_refused_beyond_the_nodes_bound() -> None:
    from parlora_actors.host import ActorHost

    with ActorHost(max_sessions=1) as node:
        first = Call(node).ready()
        with pytest.raises(ParloraError) as caught:
            Call(node)
        assert caught.value.code == "backpressure"
        assert (caught.value.details["sessions"], caught.value.details["max_sessions"]) == (1, 1)
        first.end()

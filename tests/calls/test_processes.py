"""What travels between a session's processes, and what never does."""

import os
import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from parlora.errors import AdapterFailed
from parlora_actors.host import ActorHost
from tests.sessions import MISBEHAVING, Call, wait_for

Start = Callable[..., Call]

ECHOING = {
    "channel": ("parlora.channels.trivial:TrivialChannel", {"send": "counter"}),
    "provider": ("parlora.providers.trivial:TrivialProvider", {"echo": True}),
}


def ring_holders() -> dict[int, int]:
    """How many ends of frame rings each process holds: a ring's writer and its reader each lock one byte of it."""
    holders: dict[int, int] = {}
    for line in Path("/proc/locks").read_text().splitlines():
        fields = line.split()
        if fields[1] == "POSIX" and fields[3] == "WRITE":
            holders[int(fields[4])] = holders.get(int(fields[4]), 0) + 1
    return holders


@pytest.mark.row("SL-08")
def test_audio_flows_through_pipelines_and_owners_and_past_the_coordinator(call: Start) -> None:
    session = call(**ECHOING).ready()

    def flowing() -> bool:
        health = session.session.status()["health"]
        return min(health["input_forwarded"]["frames"], health["output_forwarded"]["frames"]) > 10

    wait_for("audio both ways", flowing)
    pids = session.processes()
    holders = {role: ring_holders().get(pid, 0) for role, pid in pids.items()}
    assert holders == {
        "coordinator": 0,
        "channel": 2,
        "provider": 2,
        "backend": 0,
        "policy": 0,
        "input_pipeline": 2,
        "output_pipeline": 2,
    }
    # A coordinator that is not scheduled at all does not hold audio up.
    os.kill(pids["coordinator"], signal.SIGSTOP)
    time.sleep(0.4)
    os.kill(pids["coordinator"], signal.SIGCONT)
    closed = session.end()
    assert closed["health"]["output_forwarded"]["frames"] > 25


@pytest.mark.row("CM-11")
def test_every_adapter_event_comes_in_its_envelope(call: Start) -> None:
    session = call(**ECHOING).ready()
    session.end()
    adapters = {event.source for event in session.events} - {"session"}
    assert adapters == {"channel", "provider", "backend"}
    assert len({event.id for event in session.events}) == len(session.events)
    for event in session.events:
        assert event.session_id == session.session.id
        assert (event.adapter_id is None) == (event.source == "session")
        assert event.generation == 0
        assert type(event.at_us) is int
        assert isinstance(event.payload, dict)


@pytest.mark.row("CM-12")
@pytest.mark.parametrize(("how", "cause"), [("ExitsQuietly", "exit 0"), ("Segfaults", f"signal {int(signal.SIGSEGV)}")])
def test_an_adapter_process_that_ends_without_a_word_is_reported(call: Start, how: str, cause: str) -> None:
    session = call(
        provider=f"{MISBEHAVING}:Delegating",
        backend=f"{MISBEHAVING}:{how}",
        context_policy=f"{MISBEHAVING}:start_everything",
    )  # Work is asked for as soon as the provider is ready, so the session may fail before it is.
    failed = session.event("failed", "session")
    assert (failed.payload["role"], failed.payload["process_cause"]) == ("backend", cause)
    session.closed()
    assert not session.of("closed", "backend")


@pytest.mark.row("CM-03")
@pytest.mark.parametrize("fail", [True, False])
def test_a_key_that_an_adapter_passes_on_reaches_nobody(tmp_path: Path, fail: bool) -> None:
    os.environ["PARLORA_TEST_KEY"] = key = "sk-hunter2-and-more"
    log = tmp_path / "node.log"
    try:
        with ActorHost(log=log) as node:
            session = Call(
                node, provider=(f"{MISBEHAVING}:Indiscreet", {"api_key_env": "PARLORA_TEST_KEY", "fail": fail})
            )
            if fail:
                with pytest.raises(AdapterFailed, match="<secret>"):
                    session.session.wait_ready(20)
            else:
                session.ready()
                with pytest.raises(AdapterFailed, match="<secret>"):
                    session.session.control(("mute_input", True), "c")
                assert key not in repr(session.session.status())
            session.session.close()
            closed = session.closed()
    finally:
        del os.environ["PARLORA_TEST_KEY"]
    told = [(event.type, event.payload) for event in session.events]
    assert "<secret>" in repr(told)
    assert key not in repr(told) + repr(closed) + log.read_text()


@pytest.mark.row("AU-05")
@pytest.mark.parametrize(("format", "bytes_per_second"), [("pcm16le", 48_000), ("pcmu", 8_000)])
def test_budgets_and_pace_follow_the_format(call: Start, format: str, bytes_per_second: int) -> None:
    session = call(
        channel=("parlora.channels.trivial:TrivialChannel", {"send": "silence"}),
        provider=f"{MISBEHAVING}:ReportingProvider",
        audio_format=format,
    ).ready()
    limits = session.event("extension", "provider").payload["limits"]
    assert limits["audio_queue_bytes"] == bytes_per_second // 5
    assert limits["max_frame_bytes"] == bytes_per_second // 10
    assert limits["provider_audio_queue_bytes"] == bytes_per_second * 7 // 10

    def forwarded() -> tuple[int, int, float]:
        health = session.session.status()["health"]["input_forwarded"]
        return health["frames"], health["bytes"], time.monotonic()

    wait_for("the first frames", lambda: forwarded()[0] > 0)
    before, began = forwarded()[1:]
    time.sleep(1)
    frames, after, ended = forwarded()
    assert after == frames * bytes_per_second // 50  # frames of 20 ms
    assert (after - before) / (ended - began) == pytest.approx(bytes_per_second, rel=0.25)
    session.end()


def test_a_process_holds_its_own_descriptors_and_no_other(call: Start) -> None:
    session = call(**ECHOING).ready()

    def memories(pid: int) -> int:
        links = [os.readlink(f"/proc/{pid}/fd/{number}") for number in os.listdir(f"/proc/{pid}/fd")[:-1]]
        return sum("memfd:" in link for link in links)

    held = {role: memories(pid) for role, pid in session.processes().items()}
    assert held == {
        "coordinator": 2,
        "channel": 2,
        "provider": 2,
        "backend": 0,
        "policy": 0,
        "input_pipeline": 2,
        "output_pipeline": 2,
    }
    session.end()


def test_work_that_must_never_delay_audio_runs_at_low_priority(call: Start) -> None:
    session = call().ready()
    for role, pid in session.processes().items():
        is_batch = os.sched_getscheduler(pid) == os.SCHED_BATCH
        assert is_batch == (role in ("policy", "backend")), role
        if is_batch:
            assert os.getpriority(os.PRIO_PROCESS, pid) >= 10
    session.end()


def test_a_clear_reaches_pipeline_provider_and_channel(call: Start) -> None:
    session = call(**ECHOING).ready()

    def played() -> int:
        frames: int = session.session.status()["health"]["output_forwarded"]["frames"]
        return frames

    def epoch_of(command_id: str) -> int | None:
        done = (event for event in session.of("control_completed", "session") if event.command_id == command_id)
        return next((event.payload["epoch"] for event in done), None)

    wait_for("echo", lambda: played() > 3)
    for number in (1, 2):
        session.session.control(("clear_output", "next"), f"clear-{number}")
        assert wait_for("the clear's outcome", partial(epoch_of, f"clear-{number}")) == number
    before = played()
    wait_for("audio of the new epoch", lambda: played() > before)
    session.end()

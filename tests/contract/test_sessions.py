"""What an application relies on in a running session, whatever its adapters are doing."""

from __future__ import annotations

import itertools
import os
import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from parlora.errors import Closed, InvalidArgument, NotFound, Timeout
from parlora.events import Event
from parlora.testing import scripted
from parlora.testing.script import acknowledge, delegate, emit, expect, finish, pause, progress, say, started
from parlora_actors import procfs, session_handle
from parlora_actors.host import ActorHost
from parlora_actors.subscriber import Subscriber, Unsubscribed
from tests.contract.whole import EVERYTHING, end
from tests.sessions import ROLES, TRIVIAL, Call, wait_for

Start = Callable[..., Call]

SECRET = "the-eleventh-violet-submarine"


@pytest.mark.row("RA-01")
def test_a_callback_that_takes_its_time_holds_up_nothing_but_its_own_adapter(call: Start) -> None:
    session = call(
        **{
            **EVERYTHING,
            "provider": scripted.provider(delegate("d1"), pause(250), say("No, 123!"), delegate("d2")),
            "backend": scripted.backend(expect("submit", pause(900), name="work")),
            "context_policy": "tests.contract.test_sessions:start_or_correct",
        }
    ).ready()
    wait_for("the request", lambda: "submitted" in [j["status"] for j in session.session.status()["jobs"].values()])
    session.session.expect_progress("p1", timeout_ms=100, until="explicit")
    session.event("transcript_delta", "provider")
    session.event("task_superseded", "session")
    session.event("progress_changed", "session", status="timed_out")
    begun = time.monotonic()
    assert session.session.status()["status"] == "ready"
    assert time.monotonic() - begun < 0.4
    assert not session.of("task_submitted")  # the callback has still not returned
    session.session.close()
    with pytest.raises(Closed):
        session.session.update_context({})
    assert not session.of("task_submitted")
    session.closed()


def start_or_correct(snapshot: Any, trigger: Any, options: Any) -> list[dict[str, Any]]:
    if trigger.delegation_id is None:
        return []
    start = {"kind": "start_task", "delegation_id": trigger.delegation_id, "input": {}}
    for task in snapshot.tasks.values():
        target = {"task_id": task["id"], "expected_task_revision": task["revision"]}
        return [{**start, "kind": "supersede_task", **target}]
    return [start]


@pytest.mark.row("CM-10")
def test_a_call_that_timed_out_is_reconciled_with_its_id_and_nothing_is_sent_twice(
    call: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = expect("append_context", pause(700), text="Hello.", name="told")
    session = call(**{**EVERYTHING, "provider": scripted.provider(told, acknowledge("told"))}).ready()
    update = {"kind": "speakable", "text": "Hello."}
    with monkeypatch.context() as patch:
        patch.setattr(session_handle, "SESSION_CALL_TIMEOUT_MS", 150)
        with pytest.raises(Timeout):
            session.session.append_context(update, "c1")

    assert session.session.append_context(update, "c1") == "c1"  # joins the one that is under way
    session.event("context_acknowledged", "provider")
    assert session.session.append_context(update, "c1") == "c1"
    end(session)  # the script would have refused a second append


@pytest.mark.row("EV-02", "EV-04")
def test_a_subscriber_that_does_not_read_is_detached_and_nothing_is_kept_for_it(call: Start) -> None:
    flood = [progress("work", times=700, n=1), pause(150)] * 4
    session = call(
        **{
            **EVERYTHING,
            "provider": scripted.provider(delegate("d1")),
            "backend": scripted.backend(expect("submit", name="work"), started("work"), *flood, allow=("cancel",)),
        }
    )
    idle = Subscriber()
    subscription = session.session.subscribe(idle)
    session.ready()
    wait_for("the end of the flood", lambda: len(session.of("request_progress")) == 2_800)
    wait_for("the notice", lambda: subscription.detached)

    items = [idle.get(0) for _ in range(idle.waiting)]
    assert len(items) == 2_049
    assert items[-1] == Unsubscribed("parlora_unsubscribed", session.session.id, "slow_consumer")
    later = session.session.subscribe(idle)
    session.session.update_context({"now": True})
    session.session.close()
    types = [item.type for item in later]
    assert "request_progress" not in types  # what was missed is nowhere
    assert types[-1] == "closed"
    session.closed()


@pytest.mark.row("EV-03")
def test_what_another_session_left_waiting_counts_too(call: Start) -> None:
    shared = Subscriber()
    noisy = call(**{**EVERYTHING, "provider": scripted.provider(emit("extension", {"n": 1}, times=2_100))})
    subscription = noisy.session.subscribe(shared)
    noisy.ready()
    wait_for("a full subscriber", lambda: subscription.detached)
    quiet = call(**EVERYTHING).ready()
    mine = quiet.session.subscribe(shared)
    quiet.session.expect_progress("p1", timeout_ms=60_000, until="explicit")  # one single event
    wait_for("the notice", lambda: mine.detached)

    assert mine.detached == "slow_consumer"
    items = [shared.get(0) for _ in range(shared.waiting)]
    notices = [item for item in items if isinstance(item, Unsubscribed)]
    assert [notice.session_id for notice in notices] == [noisy.session.id, quiet.session.id]
    assert not any(isinstance(item, Event) and item.session_id == quiet.session.id for item in items)
    end(noisy)
    end(quiet)


@pytest.mark.row("EV-08")
def test_session_and_adapters_tell_their_end_in_shapes_of_their_own(call: Start) -> None:
    session = call(**EVERYTHING).ready()
    end(session)
    (closed,) = session.of("closed", "session")
    assert set(closed.payload) - {"audio_discontinuity"} == {
        "reason", "cause", "job_policy", "health", "jobs", "commands", "finalization_observed", "killed", "left",
    }  # fmt: skip
    for role in ("channel", "provider", "backend"):
        (own,) = session.of("closed", role)
        assert not {"reason", "job_policy", "jobs", "commands", "health"} & set(own.payload)
        assert own.adapter_id is not None
    assert closed.adapter_id is None


@pytest.mark.row("SL-50")
def test_a_node_that_crashed_and_is_started_again_begins_empty() -> None:
    one_task = {
        **EVERYTHING,
        "provider": scripted.provider(say("124, please."), delegate("d1")),
        "backend": scripted.backend(expect("submit", name="work"), started("work")),
        "session_id": "the-same",
    }
    with ActorHost() as host:
        first = Call(host, **one_task).ready()
        first.event("request_started", "backend")
        first.session.expect_progress("p1", timeout_ms=60_000, until="explicit")
        assert host.pid is not None
        os.kill(host.pid, signal.SIGKILL)
        assert first.session.wait_closed(20)["cause"] == "node_lost"
    with ActorHost() as again:
        assert again.sessions() == []
        second = Call(again, **{**EVERYTHING, "session_id": "the-same"}).ready()
        snapshot, status = second.session.snapshot(), second.session.status()
        assert (snapshot.transcripts, snapshot.tasks, snapshot.pending_delegations) == ([], {}, {})
        assert (status["jobs"], status["health"]["expectation"]) == ({}, None)
        with pytest.raises(NotFound):
            second.session.resolve_progress("p1", "completed")
        end(second)


@pytest.mark.row("SL-54")
def test_nothing_that_is_said_or_done_is_written_to_disk(call: Start, host: ActorHost) -> None:
    begun = time.time() - 1
    session = call(
        **{
            **EVERYTHING,
            "provider": scripted.provider(
                say(SECRET), delegate("d1"), expect("append_context", text=SECRET, name="told"), acknowledge("told")
            ),
            "backend": scripted.backend(
                expect("submit", name="work"), progress("work", note=SECRET), finish("work", SECRET)
            ),
            "context": {"note": SECRET},
        }
    ).ready()
    session.event("result_delivery", "session", stage="accepted")
    opened = {name for role in ROLES for name in open_files(session.pid(role))}
    assert all(name.endswith("node.log") or "/memfd:" in name for name in opened), opened
    end(session)
    assert host.run_dir is not None
    log = Path(next(iter(name for name in opened if name.endswith("node.log"))))
    places = [Path(host.run_dir), Path.cwd(), Path(tempfile.gettempdir()), log.parent]
    fresh = {
        path
        for place in places
        for path in place.glob("*")
        if path.is_file() and path.stat().st_mtime >= begun and os.access(path, os.R_OK)
    }
    assert log in fresh | {log}
    assert [path for path in fresh | {log} if SECRET.encode() in path.read_bytes()] == []


def open_files(pid: int) -> list[str]:
    """Files that a process may write to, but for its standard streams."""
    found = []
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        if entry.name in ("0", "1", "2"):
            continue
        name = os.readlink(entry)
        flags = (Path(f"/proc/{pid}/fdinfo") / entry.name).read_text()
        writable = int(flags.split("flags:")[1].split()[0], 8) & (os.O_WRONLY | os.O_RDWR)
        if name.startswith("/") and not name.startswith(("/dev/", "/proc/")) and writable:
            found.append(name)
    return found


@pytest.mark.row("SL-56")
@pytest.mark.parametrize("pick", list(itertools.product([False, True], repeat=3)), ids=str)
def test_each_adapter_is_exchanged_without_a_change_of_the_others(call: Start, pick: tuple[bool, ...]) -> None:
    """One policy and one host program, over every combination of two channels, two providers and two backends."""
    work = {"script": [{"at_ms": 50, "emit": "delegation_requested", "payload": {"delegation_id": "d1"}}]}
    choices: dict[str, tuple[Any, Any]] = {
        "channel": (TRIVIAL["channel"], scripted.channel()),
        "provider": (
            (TRIVIAL["provider"], work),
            scripted.provider(delegate("d1"), expect("append_context", text="done", name="a"), acknowledge("a")),
        ),
        "backend": (TRIVIAL["backend"], scripted.backend(expect("submit", name="w"), finish("w", "done"))),
    }
    parts = {role: pair[chosen] for (role, pair), chosen in zip(choices.items(), pick, strict=True)}
    session = call(**parts, context_policy="tests.misbehaving:start_everything").ready()
    session.event("result_delivery", "session", stage="accepted")
    session.end()
    scripted.check_scripts(session.events)


def test_bad_input_stops_nothing(call: Start) -> None:
    session = call(**EVERYTHING).ready()
    for wrong in (
        lambda: session.session.append_context({"kind": "loud", "text": "x"}),
        lambda: session.session.control(("dance", True), "c1"),
        lambda: session.session.expect_progress("p", timeout_ms=0),
        lambda: session.session.resolve_progress("p", "maybe"),
        lambda: session.session.update_context({"object": object()}),
        lambda: session.session.cancel("r1", 0, "c1"),
        lambda: session.session.append_context({"kind": "quiet", "text": "x", "colour": "red"}),
    ):
        with pytest.raises(InvalidArgument) as caught:
            wrong()
        assert caught.value.details["field"]
    assert session.session.status()["status"] == "ready"
    assert procfs.is_alive(session.pid("coordinator"))
    end(session)

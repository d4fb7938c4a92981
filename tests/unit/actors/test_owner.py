import dataclasses
import time
from collections.abc import Iterator
from typing import Any

import pytest

from parlora.audio.format import AudioFormat
from parlora.audio.ring import Ring, RingSpec
from parlora.component import Component
from parlora.limits import Limits
from parlora.session.effects import Call
from parlora.session.roles import Role
from parlora.wire import to_data
from parlora_actors.loop import Loop
from parlora_actors.messages.owner import FROM_OWNER, TO_OWNER, Invoke, Observed, Replied, Start
from parlora_actors.owner import EXIT_OVERFLOW, Owner, OwnerInit
from parlora_actors.timing import now_us
from tests.unit.actors import adapters_under_test
from tests.unit.actors.shells import Peer, inherited, run_until

ADAPTERS = "tests.unit.actors.adapters_under_test"
FORMAT = AudioFormat.pcm16()
LIMITS = Limits().resolve(FORMAT)
SOON_US = 5_000_000


SUBJECTS: list["Subject"] = []


class Subject:
    """An owner whose loop runs in the test."""

    def __init__(self, adapter: str, role: Role = Role.CHANNEL, **options: Any) -> None:
        self.loop = Loop()
        self.peer = Peer(self.loop, FROM_OWNER, TO_OWNER)
        self.rings = [Ring.create(RingSpec(1_008_000, 0, 4_800)) for _ in range(2)] if role is not Role.BACKEND else []
        audio_in, audio_out = [inherited(ring) for ring in self.rings] or [(), ()]
        init = OwnerInit(
            role=role,
            session_id="s",
            component=Component(f"{ADAPTERS}:{adapter}", options),
            audio_format=FORMAT,
            limits=dataclasses.replace(LIMITS, provider_audio_queue_bytes=None, provider_audio_max_age_ms=None),
            deadline_us=now_us() + SOON_US,
            link=self.peer.descriptor,
            audio_in=audio_in,
            audio_out=audio_out,
            instructions="be brief",
            history=({"speaker": "user", "text": "hello"},),
        )
        self.owner = Owner(to_data(init), self.loop)
        SUBJECTS.append(self)

    def close(self) -> None:
        self.peer.close()
        self.owner._link.close()
        self.loop.close()
        for ring in self.rings:
            ring.close()

    def start(self) -> None:
        self.peer.send(Start("a", 3, now_us() + SOON_US))

    def event(self, type: str) -> Any:
        found: Observed = self.peer.wait(
            lambda received: [m for m in received if isinstance(m, Observed) and m.event.type == type], type
        )[-1]
        return found.event

    def call(self, call: Call, arguments: dict[str, Any], in_us: int = SOON_US, command_id: str = "c") -> Any:
        self.peer.send(Invoke(command_id, call, arguments, now_us() + in_us))
        return self.peer.wait_for(Replied, command_id=command_id)

    def events(self, type: str) -> list[Any]:
        return [m.event for m in self.peer.received if isinstance(m, Observed) and m.event.type == type]


@pytest.fixture(autouse=True)
def _released() -> Iterator[None]:
    adapters_under_test.released.clear()
    yield
    adapters_under_test.released.set()
    while SUBJECTS:
        SUBJECTS.pop().close()


def test_an_adapter_starts_on_the_worker_thread_and_its_events_are_stamped() -> None:
    subject = Subject("Plain")
    subject.start()
    event = subject.event("ready")
    assert (event.source, event.session_id, event.adapter_id, event.generation) == ("channel", "s", "a", 3)
    assert event.payload["thread"] == "parlora-channel"
    assert 0 <= now_us() - event.at_us < SOON_US


def test_a_provider_gets_its_own_profile_and_what_the_application_gave() -> None:
    subject = Subject("Provider", Role.PROVIDER)
    subject.start()
    payload = subject.event("extension").payload
    assert payload["bound"] == 48_000
    assert payload["limits"]["provider_audio_max_age_ms"] == 5_000
    assert payload["instructions"] == "be brief"
    assert payload["history"] == [{"speaker": "user", "text": "hello"}]


def test_a_refused_option_fails_the_start_with_its_full_name() -> None:
    subject = Subject("Plain", refused=1)
    subject.start()
    error = subject.event("failed").payload["error"]
    assert (error["code"], error["details"]["field"]) == ("invalid_argument", "channel.options.refused")


def test_an_import_that_fails_names_the_field() -> None:
    subject = Subject("NoSuchAdapter")
    subject.start()
    assert subject.event("failed").payload["error"]["details"]["field"] == "channel"


@pytest.mark.row("SL-27")
@pytest.mark.parametrize(
    ("role", "lacks"), [(Role.CHANNEL, "control"), (Role.PROVIDER, "append_context"), (Role.BACKEND, "submit")]
)
def test_a_component_of_another_kind_fails_the_start_and_what_it_lacks_is_named(
    role: Role, lacks: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("parlora_actors.owner.set_batch_scheduling", lambda: None)
    subject = Subject("OnlyACommonAdapter", role)
    subject.start()
    error = subject.event("failed").payload["error"]
    assert (error["code"], error["details"]["field"]) == ("invalid_argument", str(role))
    assert lacks in error["message"]


def test_an_exception_in_start_is_reported_without_its_text() -> None:
    subject = Subject("FailsInStart")
    subject.start()
    error = subject.event("failed").payload["error"]
    assert error["code"] == "adapter_failed"
    assert "channel.start raised RuntimeError" in error["message"]
    assert "hunter2" not in repr(error)


def test_commands_run_and_answer_in_order() -> None:
    subject = Subject("Plain")
    subject.start()
    subject.event("ready")
    assert subject.call(Call.CONTROL, {"command": {"on": True}}).error is None
    assert "SuppressOutput(on=True)" in subject.event("control_completed").payload["command"]


def test_asynchronous_callbacks_share_one_loop() -> None:
    subject = Subject("Asynchronous")
    subject.start()
    subject.event("ready")
    for number in range(3):
        assert subject.call(Call.CONTROL, {"command": {"on": True}}, command_id=f"c{number}").error is None
    assert subject.call(Call.CLOSE, {"policy": "finish"}, command_id="end").error is None
    assert subject.event("closed").payload["policy"] == "finish"


def test_a_refusal_is_the_adapters_own_error() -> None:
    subject = Subject("Plain", refuse_control=True)
    subject.start()
    subject.event("ready")
    assert subject.call(Call.CONTROL, {"command": {"on": True}}).error["code"] == "unsupported"


def test_a_clear_raises_the_ring_before_the_adapter_is_asked() -> None:
    subject = Subject("Plain", block=True)
    subject.start()
    subject.event("ready")
    subject.peer.send(Invoke("c", Call.CONTROL, {"command": {"epoch": 7}}, now_us() + SOON_US))
    run_until(subject.loop, lambda: subject.rings[0].epoch == 7)
    assert subject.rings[1].epoch == 0
    assert not subject.events("control_completed")


def test_a_providers_clear_raises_the_generated_ring() -> None:
    subject = Subject("Provider", Role.PROVIDER)
    subject.start()
    subject.event("extension")
    assert subject.call(Call.CLEAR_OUTPUT, {"epoch": 4}).error is None  # it has no clear_output, which is optional
    assert [ring.epoch for ring in subject.rings] == [0, 4]


def test_a_command_before_the_start_is_refused() -> None:
    subject = Subject("Plain")
    error = subject.call(Call.CONTROL, {"command": {"on": True}}).error
    assert (error["code"], error["details"]["execution"]) == ("not_ready", "never_submitted")


def test_a_command_after_its_deadline_is_never_submitted() -> None:
    subject = Subject("Plain")
    subject.start()
    subject.event("ready")
    error = subject.call(Call.CONTROL, {"command": {"on": True}}, in_us=-1).error
    assert (error["code"], error["details"]["execution"]) == ("timeout", "never_submitted")
    assert not subject.events("control_completed")


@pytest.mark.row("CM-13")
def test_a_callback_past_its_time_is_unknown_and_poisons_the_owner() -> None:
    subject = Subject("Plain", block=True)
    subject.start()
    subject.event("ready")
    began = time.monotonic()
    error = subject.call(Call.CONTROL, {"command": {"on": True}}).error
    assert (error["code"], error["details"]["execution"]) == ("timeout", "unknown")
    assert 0.9 < time.monotonic() - began < 4
    error = subject.call(Call.CLOSE, {"policy": "finish"}, command_id="later").error
    assert error["details"]["execution"] == "never_submitted"


def test_a_deadline_earlier_than_the_callbacks_time_wins() -> None:
    subject = Subject("Plain", block=True)
    subject.start()
    subject.event("ready")
    began = time.monotonic()
    error = subject.call(Call.CONTROL, {"command": {"on": True}}, in_us=50_000).error
    assert error["details"]["execution"] == "unknown"
    assert time.monotonic() - began < 0.9


@pytest.mark.row("SD-02", "SD-03")
def test_a_second_close_has_no_effect_and_new_work_is_refused() -> None:
    subject = Subject("Plain")
    subject.start()
    subject.event("ready")
    for number in range(2):
        assert subject.call(Call.CLOSE, {"policy": "cancel"}, command_id=f"end{number}").error is None
    error = subject.call(Call.CONTROL, {"command": {"on": True}}, command_id="late").error
    assert (error["code"], error["details"]["execution"]) == ("closed", "never_submitted")
    assert len(subject.events("closed")) == 1


def test_close_behind_a_hanging_start_is_never_submitted() -> None:
    subject = Subject("HangsInStart")
    subject.start()
    error = subject.call(Call.CLOSE, {"policy": "finish"}, in_us=100_000).error
    assert (error["code"], error["details"]["execution"]) == ("timeout", "never_submitted")


def test_close_of_an_adapter_that_was_never_built_ends_at_once() -> None:
    subject = Subject("NoSuchAdapter")
    subject.start()
    subject.event("failed")
    assert subject.call(Call.CLOSE, {"policy": "finish"}).error is None
    assert subject.events("closed")


@pytest.mark.parametrize(
    ("role", "call", "arguments", "code"),
    [
        (Role.CHANNEL, Call.SUBMIT, {"request": {}}, "unsupported"),
        (Role.PROVIDER, Call.CONTROL, {"command": {"epoch": 1}}, "unsupported"),
        (Role.CHANNEL, Call.CONTROL, {}, "invalid_argument"),
        (Role.CHANNEL, Call.CLOSE, {"policy": "sometime"}, "invalid_argument"),
        (Role.BACKEND, Call.SUBMIT, {"request": {"id": "r"}}, "invalid_argument"),
    ],
)
def test_a_command_that_makes_no_sense_is_never_submitted(
    role: Role, call: Call, arguments: dict[str, Any], code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("parlora_actors.owner.set_batch_scheduling", lambda: None)
    subject = Subject("Plain", role)
    subject.start()
    subject.event("ready")
    error = subject.call(call, arguments).error
    assert (error["code"], error["details"]["execution"]) == (code, "never_submitted")


def test_a_request_reaches_the_backend_as_the_contracts_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("parlora_actors.owner.set_batch_scheduling", lambda: None)
    subject = Subject("Plain", Role.BACKEND)
    subject.start()
    subject.event("ready")
    request = {
        "id": "r",
        "task_id": "t",
        "task_revision": 2,
        "delegation_id": None,
        "input": {},
        "deadline_at_us": None,
        "context": {},
        "provider_generation": 0,
    }
    assert subject.call(Call.SUBMIT, {"request": request}).error is None
    event = subject.event("request_started")
    assert (event.request_id, event.payload) == ("r", {"task_revision": 2})


@pytest.mark.row("CM-17")
def test_events_carry_neither_bytes_nor_objects_nor_more_than_their_bound() -> None:
    subject = Subject("EmitsAudio")
    subject.start()
    refusals = subject.peer.wait(lambda _: len(subject.events("extension")) == 4 and subject.events("extension"))
    assert all("refused" in event.payload for event in refusals)


def test_a_dead_thread_of_the_adapter_is_a_failure() -> None:
    subject = Subject("LosesAThread")
    subject.start()
    assert "IndexError" in subject.event("failed").payload["error"]["message"]


def test_an_adapter_that_floods_ends_its_process_with_an_explicit_failure() -> None:
    subject = Subject("Floods")
    subject.start()
    run_until(subject.loop, lambda: subject.loop.exit_code is not None)
    assert subject.loop.exit_code == EXIT_OVERFLOW


def test_an_owner_ends_with_its_coordinator() -> None:
    subject = Subject("HangsInStart")
    subject.start()
    subject.loop.run_ready(0.01)
    subject.peer.close()
    run_until(subject.loop, lambda: subject.loop.exit_code is not None)

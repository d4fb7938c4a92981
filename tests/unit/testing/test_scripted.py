"""The scripted fakes are strict: what was not expected and what never came are failures, said in words."""

from typing import Any

import pytest

from parlora.component import Component
from parlora.contract.channel import ClearOutput
from parlora.contract.provider import ContextKind, ContextUpdate
from parlora.errors import InvalidArgument, Unsupported
from parlora.testing import scripted
from parlora.testing.adapters import AdapterHarness, backend_request
from parlora.testing.frame_count import FrameCount
from parlora.testing.script import (
    acknowledge,
    delegate,
    emit,
    expect,
    finish,
    progress,
    ref,
    refuse,
    say,
    started,
    update_applied,
)


def harness(pair: tuple[str, dict[str, Any]]) -> AdapterHarness:
    role = pair[0].rpartition(":Scripted")[2].lower()
    return AdapterHarness(Component(*pair).build(role))


def text(words: str, delegation_id: str | None = None) -> ContextUpdate:
    return ContextUpdate(ContextKind.SPEAKABLE, words, delegation_id)


def test_a_script_is_followed_step_by_step() -> None:
    script = (delegate("d1"), say("Hello?"), expect("append_context", text="Yes?", name="told"), acknowledge("told"))
    with harness(scripted.provider(*script)) as provider:
        provider.start()
        assert provider.wait_for("delegation_requested").payload["delegation_id"] == "d1"
        provider.wait_for("transcript_delta")
        provider.call("append_context", text("Yes?"), "c1")
        provider.wait_for("context_acknowledged", command_id="c1")
        provider.close_adapter()
    scripted.check_scripts(provider.sink.events())


def test_what_stands_inside_a_callback_comes_before_its_return() -> None:
    script = (expect("append_context", acknowledge("told"), refuse("unsupported", "no"), name="told"),)
    with harness(scripted.provider(*script)) as provider:
        provider.start()
        with pytest.raises(Unsupported, match="no"):
            provider.call("append_context", text("Yes?"), "c1")
        assert provider.sink.events("context_acknowledged")[0].command_id == "c1"
        provider.close_adapter()


@pytest.mark.parametrize("script", [(), (expect("append_context", text="Yes?"),)], ids=["nothing", "another text"])
def test_an_unexpected_callback_is_a_failure(script: tuple[Any, ...]) -> None:
    with harness(scripted.provider(*script)) as provider:
        provider.start()
        provider.call("append_context", text("No!"), "c1")
        provider.wait_for("failed")
        provider.close_adapter()
    with pytest.raises(AssertionError, match=r"provider: script: unexpected append_context\(.*'No!'"):
        scripted.check_scripts(provider.sink.events())


def test_steps_that_never_came_are_a_failure_that_names_them() -> None:
    with harness(scripted.backend(expect("submit", name="work"), expect("cancel"))) as backend:
        backend.start()
        backend.call("submit", backend_request("r1"), "c1")
        backend.close_adapter()
    with pytest.raises(AssertionError, match=r"backend: script: steps that never came: expect cancel"):
        scripted.check_scripts(backend.sink.events())


def test_what_is_allowed_may_come_beside_the_script() -> None:
    with harness(scripted.channel(send="idle")) as channel:
        channel.start()
        channel.call("control", ClearOutput(1), "c1")
        channel.wait_for("control_completed", command_id="c1")
        channel.close_adapter()
    scripted.check_scripts(channel.sink.events())
    with harness(scripted.channel(send="idle", allow=())) as strict:
        strict.start()
        strict.call("control", ClearOutput(1), "c1")
        strict.close_adapter()
    with pytest.raises(AssertionError, match="unexpected control"):
        scripted.check_scripts(strict.sink.events())


def test_a_backend_tells_what_its_script_tells() -> None:
    script = (
        expect("submit", name="work"),
        started("work"),
        progress("work", percent=50),
        expect("update", name="change"),
        update_applied("change"),
        finish("work", "Done.", facts={"order": "124"}),
    )
    with harness(scripted.backend(*script)) as backend:
        backend.start()
        backend.call("submit", backend_request("r1"), "c1")
        backend.wait_for("request_progress", request_id="r1")
        backend.call("update", "r1", {"order": "124"}, 2, "c2")
        backend.wait_for("update_applied", request_id="r1", command_id="c2")
        result = backend.wait_for("request_completed", request_id="r1").payload["result"]
        backend.close_adapter()
    assert (result["summary"], result["facts"], result["task_revision"]) == ("Done.", {"order": "124"}, 1)
    scripted.check_scripts(backend.sink.events())


@pytest.mark.row("BK-28")
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (("update", "r2", {}, 2, "c2"), "which was never submitted"),
        (("update", "r1", {}, 1, "c2"), "its request is at 1 already"),
        (("update", "r1", {}, 2, "c1"), "command id c1 came twice"),
        (("cancel", "r2", "why", "c2"), "which was never submitted"),
        (("submit", backend_request("r1"), "c2"), "submitted twice"),
    ],
)
def test_the_backend_verifies_that_commands_belong_together(call: tuple[Any, ...], message: str) -> None:
    with harness(scripted.backend(allow=("submit", "update", "cancel"))) as backend:
        backend.start()
        backend.call("submit", backend_request("r1"), "c1")
        backend.call(*call)
        backend.close_adapter()
    with pytest.raises(AssertionError, match=message):
        scripted.check_scripts(backend.sink.events())


def test_a_script_that_expects_close_closes_by_itself() -> None:
    with harness(
        scripted.backend(expect("close", emit("closed", {}, command_id=ref("end.command_id")), name="end"))
    ) as b:
        b.start()
        assert b.close_adapter(command_id="c9").command_id == "c9"


@pytest.mark.parametrize("pair", [scripted.backend({"do": "dance"}), scripted.provider(allow=("dance",))])
def test_what_is_no_script_is_refused(pair: tuple[str, dict[str, Any]]) -> None:
    with pytest.raises(InvalidArgument):
        harness(pair)


def test_numbered_frames_show_loss_order_and_pauses() -> None:
    count = FrameCount()
    for number in (5, 6, 9, 6, 10):
        count.saw(number.to_bytes(4, "little") + b"....")
    assert (count.frames, count.missing, count.repeated) == (5, 2, 1)

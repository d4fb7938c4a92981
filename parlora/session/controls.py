"""Controls that several roles must adopt: the clear barrier and suppression; and the caller's mute (spec 000 §4, §9).

A barrier completes when every role has acknowledged, and fails after 200 ms naming those that have not. Clears coalesce
upward: a role that has adopted epoch n has adopted every older one. Nothing here recalls audio the provider has yet to
send, or the operating system has already been given.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from parlora.audio.port import Loss
from parlora.contract.channel import ChannelCapabilities, ClearScope
from parlora.errors import Backpressure, ErrorCode, InvalidArgument, Unsupported
from parlora.events import Event, EventType
from parlora.limits import ADMISSION_DEADLINE_MS, CLEAR_TIMEOUT_MS
from parlora.session import commands, ledger, projection, records
from parlora.session.effects import Call, ControlPipeline
from parlora.session.failures import failure, told
from parlora.session.inputs import ErrorData, PipelineReplied
from parlora.session.roles import Role
from parlora.session.state import Barrier, Command, Phase, Purpose, TimerKind
from parlora.session.turn import CommandHandler, Turn, Withdraw
from parlora.wire import to_data

CLEAR: Final = "clear_output"
SUPPRESS: Final = "suppress_output"
MUTE: Final = "mute_input"


def check(command: object) -> tuple[str, Any]:
    """The control's name and value, or `InvalidArgument` naming `command`."""
    if isinstance(command, list | tuple) and len(command) == 2:
        name, value = command
        if (name == CLEAR and value == "next") or (name in (SUPPRESS, MUTE) and isinstance(value, bool)):
            return name, value
    raise InvalidArgument(
        f"command must be ({CLEAR!r}, 'next'), ({SUPPRESS!r}, bool) or ({MUTE!r}, bool)", field="command"
    )


def control(turn: Turn, name: str, value: Any, command_id: str) -> None:
    """Carry a caller's control out; raises if it is not supported, else settles the record now or at admission."""
    capabilities = _channel(turn)
    if name == MUTE:
        arguments = {"command": {"on": value}}
        commands.enqueue(
            turn, Role.PROVIDER, Call.CONTROL, Purpose.CALLER, command_id, arguments, command_id=command_id
        )
        return
    if name == CLEAR:
        if capabilities.clear_scope is ClearScope.NONE:
            raise Unsupported("this channel's output cannot be cleared", details={"field": "command"})
        _clear(turn, caller_id=command_id)
    else:
        if not capabilities.output_suppression:
            raise Unsupported("this channel's output cannot be suppressed", details={"field": "command"})
        _suppress(turn, value, command_id)
    records.settle(turn, command_id)


def _channel(turn: Turn) -> ChannelCapabilities:
    capabilities = turn.adapters[Role.CHANNEL].capabilities
    assert isinstance(capabilities, ChannelCapabilities)  # the session is ready
    return capabilities


def interrupted(turn: Turn, event: Event) -> None:
    """The provider's output was interrupted: everything between it and the caller is cleared, then it resumes."""
    token = _token(event)
    if turn.phase is Phase.READY:
        _clear(turn, token=token)


def recovery_requested(turn: Turn, event: Event) -> None:
    """The provider lost output to an overload: cleared, then it replaces its transport.

    Results wait until the caller has spoken again and that was interpreted (acceptance OA-10).
    """
    token = _token(event)
    if turn.phase is Phase.READY:
        turn.conversation = replace(turn.conversation, needs_caller=True)
        _clear(turn, token=token, recover=True)


def _token(event: Event) -> str:
    token = event.payload.get("token")
    if not isinstance(token, str) or not token:
        raise InvalidArgument("token must be a non-empty string", field="token")
    return token


def _clear(turn: Turn, *, caller_id: str | None = None, token: str | None = None, recover: bool = False) -> None:
    epoch = turn.controls.epoch + 1
    _drop_older_legs(turn)
    roles = {Role.OUTPUT_PIPELINE, Role.PROVIDER}
    if _channel(turn).clear_scope is not ClearScope.NONE:
        roles.add(Role.CHANNEL)
    barrier = _open(turn, Barrier(turn.new_id(), frozenset(roles), "", epoch, None, caller_id, token, recover))
    turn.controls = replace(turn.controls, epoch=epoch)
    turn.act(ControlPipeline(Role.OUTPUT_PIPELINE, _leg(turn, barrier, Role.OUTPUT_PIPELINE), epoch=epoch))
    _send_leg(turn, barrier, Role.PROVIDER, Call.CLEAR_OUTPUT, {"epoch": epoch})
    if Role.CHANNEL in roles:
        _send_leg(turn, barrier, Role.CHANNEL, Call.CONTROL, {"command": {"epoch": epoch}})


def _suppress(turn: Turn, on: bool, caller_id: str) -> None:
    roles = frozenset({Role.OUTPUT_PIPELINE, Role.CHANNEL})
    barrier = _open(turn, Barrier(turn.new_id(), roles, "", None, on, caller_id))
    turn.controls = replace(turn.controls, suppressed=on)
    turn.act(ControlPipeline(Role.OUTPUT_PIPELINE, _leg(turn, barrier, Role.OUTPUT_PIPELINE), suppress=on))
    _send_leg(turn, barrier, Role.CHANNEL, Call.CONTROL, {"command": {"on": on}})


def _open(turn: Turn, barrier: Barrier) -> Barrier:
    bound = commands.room(turn.spec.limits)
    if len(turn.controls.barriers) >= bound:
        raise Backpressure("too many controls are pending", details={"max_pending_commands": bound})
    timer_id = turn.arm(TimerKind.BARRIER, barrier.id, turn.now_us + CLEAR_TIMEOUT_MS * 1_000)
    return _put(turn, replace(barrier, timer_id=timer_id))


def _put(turn: Turn, barrier: Barrier) -> Barrier:
    turn.controls = replace(turn.controls, barriers=turn.controls.barriers.put(barrier.id, barrier))
    return barrier


def _leg(turn: Turn, barrier: Barrier, role: Role) -> str:
    leg_id = turn.new_id()
    turn.controls = replace(turn.controls, legs=turn.controls.legs.put(leg_id, (barrier.id, role)))
    return leg_id


def _send_leg(turn: Turn, barrier: Barrier, role: Role, call: Call, arguments: dict[str, Any]) -> None:
    leg_id = _leg(turn, barrier, role)
    commands.enqueue(turn, role, call, Purpose.CONTROL, barrier.id, arguments, command_id=leg_id)


def _drop_older_legs(turn: Turn) -> None:
    """A newer clear makes the waiting ones needless: adopting its epoch adopts theirs."""
    for command in list(turn.commands.pending.values()):
        if command.purpose is Purpose.CONTROL and not command.dispatched and _is_clear(command):
            commands.withdraw(turn, command, "coalesced")


def _is_clear(command: Command) -> bool:
    return command.call is Call.CLEAR_OUTPUT or "epoch" in command.arguments["command"]


def pipeline_replied(turn: Turn, input: PipelineReplied) -> None:
    """The output pipeline carried a leg out. What it dropped is part of the outcome, unless that was told already."""
    leg = turn.controls.legs.get(input.command_id)
    barrier = None if leg is None else turn.controls.barriers.get(leg[0])
    told = barrier is not None and not barrier.failed and input.error is None
    if input.loss and not told:
        lost(turn, "output", "late_control", input.loss)
    _acknowledged(turn, input.command_id, input.role, input.error, _dropped(input.loss) if told else {})


def lost(turn: Turn, stream: str, cause: str, loss: Loss) -> None:
    """Audio was discarded that no other event tells."""
    turn.emit(EventType.AUDIO_DISCONTINUITY, {"stream": stream, "cause": cause, **_dropped(loss)})


def _dropped(loss: Loss) -> dict[str, int]:
    return {"dropped_frames": loss.frames, "dropped_bytes": loss.bytes, "dropped_duration_us": loss.duration_us}


def channel_control(turn: Turn, event: Event) -> None:
    """The channel's word on a control: completed or failed."""
    failed = event.type == EventType.CONTROL_FAILED
    ledger.settle(turn, event.command_id, ledger.FAILED if failed else ledger.COMPLETED)
    error = None
    if failed:
        error = told(event.payload.get("error"), "the channel failed the control")
    _acknowledged(turn, event.command_id, Role.CHANNEL, error, {})


def _acknowledged(turn: Turn, leg_id: str | None, role: Role, error: ErrorData | None, dropped: dict[str, int]) -> None:
    leg = turn.controls.legs.get(leg_id)
    if leg_id is None or leg is None or leg[1] is not role:
        return
    turn.controls = replace(turn.controls, legs=turn.controls.legs.drop(leg_id))
    barrier = turn.controls.barriers.get(leg[0])
    if barrier is None:
        return
    if error is not None:
        _tell_failed(turn, barrier, told(error, "the control failed", role=str(role)))
        return
    barrier = _put(turn, replace(barrier, dropped={**barrier.dropped, **dropped}))
    for other in list(turn.controls.barriers.values()):
        covered = other.epoch is not None and barrier.epoch is not None and other.epoch <= barrier.epoch
        if other.id == barrier.id or covered:
            other = _put(turn, replace(other, waiting=other.waiting - {role}))
            if not other.waiting:
                _complete(turn, other)


def _complete(turn: Turn, barrier: Barrier) -> None:
    _close(turn, barrier)
    if not barrier.failed:
        payload = {**_describe(turn, barrier), **barrier.dropped}
        turn.emit(EventType.CONTROL_COMPLETED, payload, command_id=barrier.caller_id or barrier.id)
    if barrier.token is None or turn.phase is not Phase.READY:
        return
    if barrier.recover:
        data = {"token": barrier.token, "snapshot": to_data(projection.snapshot(turn))}
        commands.enqueue(turn, Role.PROVIDER, Call.RECOVER_OUTPUT, Purpose.RESUME, barrier.token, data)
    else:
        data = {"token": barrier.token}
        commands.enqueue(turn, Role.PROVIDER, Call.RESUME_OUTPUT, Purpose.RESUME, barrier.token, data)


def _close(turn: Turn, barrier: Barrier) -> None:
    turn.disarm(barrier.timer_id)
    legs = turn.controls.legs
    for leg_id, (barrier_id, _) in list(legs.items()):
        if barrier_id == barrier.id:
            legs = legs.drop(leg_id)
    turn.controls = replace(turn.controls, barriers=turn.controls.barriers.drop(barrier.id), legs=legs)
    for command in list(turn.commands.pending.values()):
        # a clear that is told as failed is still worth carrying out; a suppression is not, for nobody would undo it
        ours = command.purpose is Purpose.CONTROL and command.subject == barrier.id and not command.dispatched
        if ours and not _is_clear(command):
            commands.withdraw(turn, command, "failed")


def _describe(turn: Turn, barrier: Barrier) -> dict[str, Any]:
    if barrier.epoch is not None:
        scope = str(_channel(turn).clear_scope)
        return {"control": CLEAR, "epoch": barrier.epoch, "scope": scope, "interruption": barrier.token is not None}
    return {"control": SUPPRESS, "on": barrier.suppress}


def _tell_failed(turn: Turn, barrier: Barrier, error: ErrorData) -> None:
    if not barrier.failed:
        payload = {**_describe(turn, barrier), **barrier.dropped, "error": error}
        turn.emit(EventType.CONTROL_FAILED, payload, command_id=barrier.caller_id or barrier.id)
    if barrier.token is None:
        _close(turn, barrier)
    else:
        # the provider waits for its barrier: a late acknowledgment still lets it resume
        _put(turn, replace(barrier, failed=True))


def expired(turn: Turn, barrier_id: str) -> None:
    """200 ms passed: failed, naming who has not acknowledged. The epoch stays advanced (filling A20)."""
    barrier = turn.controls.barriers.get(barrier_id)
    if barrier is None:
        return
    missing = sorted(str(role) for role in barrier.waiting)
    error = failure(ErrorCode.TIMEOUT, "not every role adopted the control in time", missing=missing)
    _tell_failed(turn, barrier, error)
    if barrier.token is not None:
        rest_us = (ADMISSION_DEADLINE_MS - CLEAR_TIMEOUT_MS) * 1_000
        timer_id = turn.arm(TimerKind.RESUME, barrier.id, turn.now_us + rest_us)
        _put(turn, replace(turn.controls.barriers[barrier.id], timer_id=timer_id))


def resume_expired(turn: Turn, barrier_id: str) -> None:
    """An interruption's barrier never completed: the call would stay silent, so it ends."""
    barrier = turn.controls.barriers.get(barrier_id)
    if barrier is not None:
        _close(turn, barrier)
        missing = sorted(str(role) for role in barrier.waiting)
        turn.fail("clear_failed", failure(ErrorCode.TIMEOUT, "the clear barrier did not complete", missing=missing))


def _prepare(turn: Turn, command: Command) -> dict[str, Any] | Withdraw:
    return command.arguments


def _leg_replied(turn: Turn, command: Command, error: ErrorData | None) -> None:
    """A provider's leg is done when its callback returns; a channel's is only admitted by that."""
    if error is not None or command.role is Role.PROVIDER:
        ledger.settle(turn, command.id, ledger.FAILED if error else ledger.COMPLETED)
        _acknowledged(turn, command.id, command.role, error, {})


def _leg_withdrawn(turn: Turn, command: Command, reason: str) -> None:
    if reason not in ("coalesced", "failed"):
        error = failure(ErrorCode.CLOSED, "the control was not submitted", execution="never_submitted")
        _acknowledged(turn, command.id, command.role, error, {})


def _resume_replied(turn: Turn, command: Command, error: ErrorData | None) -> None:
    if error is not None and turn.phase is Phase.READY:
        turn.fail("resume_failed", error)


def _resume_withdrawn(turn: Turn, command: Command, reason: str) -> None:
    """The session closes: there is nothing to resume."""


def _caller_replied(turn: Turn, command: Command, error: ErrorData | None) -> None:
    value = {"command_id": command.id} if command.call is Call.APPEND_CONTEXT else None
    records.settle(turn, command.id, value, error)


def _caller_withdrawn(turn: Turn, command: Command, reason: str) -> None:
    error = failure(ErrorCode.CLOSED, "the session closes", execution="never_submitted", reason=reason)
    records.settle(turn, command.id, error=error)


CONTROL_HANDLER: Final = CommandHandler(_prepare, _leg_replied, _leg_withdrawn)
RESUME_HANDLER: Final = CommandHandler(_prepare, _resume_replied, _resume_withdrawn)
CALLER_HANDLER: Final = CommandHandler(_prepare, _caller_replied, _caller_withdrawn)

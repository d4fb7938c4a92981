"""From a command's plain arguments to the adapter's callback."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from parlora.context.snapshot import ContextSnapshot
from parlora.contract.adapter import ClosePolicy
from parlora.contract.backend import Backend, BackendRequest
from parlora.contract.channel import Channel, ClearOutput, SuppressOutput
from parlora.contract.provider import ContextUpdate, DelegationOutcome, MuteInput, Provider
from parlora.errors import InvalidArgument, Unsupported
from parlora.session.effects import Call
from parlora.session.roles import Role
from parlora.wire import from_data

Arguments = dict[str, Any]
Invocation = Callable[[Any], Any]
"""Called with the adapter on the worker thread; what it returns may be awaited."""


@dataclass(frozen=True, slots=True)
class _Callback:
    """One callback: its method, whose it is, how its arguments are made, and whether it takes the command's id."""

    roles: frozenset[Role]
    arguments: Callable[[Role, Arguments], tuple[Any, ...]]
    takes_command_id: bool = True
    optional: bool = False


def _command(role: Role, data: Arguments) -> tuple[Any, ...]:
    command = data["command"]
    if not isinstance(command, dict):
        raise InvalidArgument("command must be a mapping", field="command")
    if "epoch" in command:
        if role is not Role.CHANNEL:
            raise Unsupported("only a channel is cleared by control", details={"field": "command"})
        return (from_data(command, ClearOutput),)
    if role is Role.CHANNEL:
        return (from_data(command, SuppressOutput),)
    return (from_data(command, MuteInput),)


def _structured(name: str, cls: type) -> Callable[[Role, Arguments], tuple[Any, ...]]:
    return lambda role, data: (from_data(data[name], cls),)


def _named(*names: str) -> Callable[[Role, Arguments], tuple[Any, ...]]:
    return lambda role, data: tuple(data[name] for name in names)


_CHANNEL: Final = frozenset({Role.CHANNEL})
_PROVIDER: Final = frozenset({Role.PROVIDER})
_BACKEND: Final = frozenset({Role.BACKEND})
_AUDIO: Final = frozenset({Role.CHANNEL, Role.PROVIDER})

_CALLBACKS: Final[dict[Call, _Callback]] = {
    Call.CONTROL: _Callback(_AUDIO, _command),
    Call.APPEND_CONTEXT: _Callback(_PROVIDER, _structured("update", ContextUpdate)),
    Call.SUBMIT: _Callback(_BACKEND, _structured("request", BackendRequest)),
    Call.UPDATE: _Callback(_BACKEND, _named("request_id", "update", "task_revision")),
    Call.CANCEL: _Callback(_BACKEND, _named("request_id", "reason")),
    Call.CLOSE: _Callback(_AUDIO | _BACKEND, lambda role, data: (ClosePolicy(data["policy"]),)),
    Call.CLEAR_OUTPUT: _Callback(_PROVIDER, _named("epoch"), takes_command_id=False, optional=True),
    Call.RESUME_OUTPUT: _Callback(_PROVIDER, _named("token"), takes_command_id=False, optional=True),
    Call.RECOVER_OUTPUT: _Callback(
        _PROVIDER,
        lambda role, data: (data["token"], from_data(data["snapshot"], ContextSnapshot)),
        takes_command_id=False,
        optional=True,
    ),
    Call.RESOLVE_DELEGATION: _Callback(
        _PROVIDER,
        lambda role, data: (data["delegation_id"], DelegationOutcome(data["outcome"])),
        takes_command_id=False,
        optional=True,
    ),
    Call.RELEASE_OUTPUT_RECOVERY: _Callback(_CHANNEL, _named("epoch"), takes_command_id=False),
}

_DEMANDED: Final[dict[Role, frozenset[str]]] = {
    Role.CHANNEL: Channel.__abstractmethods__,
    Role.PROVIDER: Provider.__abstractmethods__,
    Role.BACKEND: Backend.__abstractmethods__,
}
"""The methods that each contract demands."""

_ASYNC_NAMES: Final = ("start", *(str(call) for call in _CALLBACKS))


def invocation(role: Role, call: Call, command_id: str, data: Arguments) -> Invocation:
    """How to call the adapter; raises `InvalidArgument` or `Unsupported` if the command makes no sense for the role."""
    callback = _CALLBACKS[call]
    if role not in callback.roles:
        raise Unsupported(f"a {role} has no {call}", details={"call": str(call)})
    try:
        arguments = callback.arguments(role, data)
    except (KeyError, ValueError) as error:
        raise InvalidArgument(f"{call}: bad arguments: {error}", field=str(call)) from None
    if callback.takes_command_id:
        arguments = (*arguments, command_id)

    def invoke(adapter: Any) -> Any:
        method = getattr(adapter, str(call), None)
        if method is None:
            if callback.optional:
                return None
            raise Unsupported(f"the {role} adapter has no {call}", details={"call": str(call)})
        return method(*arguments)

    return invoke


def check_contract(adapter: Any, role: Role, path: str) -> Any:
    """The adapter if it has what its role's contract demands; raises `InvalidArgument` naming what it lacks."""
    missing = [name for name in sorted(_DEMANDED[role]) if not callable(getattr(adapter, name, None))]
    if missing:
        raise InvalidArgument(f"{role}: {path} is no {role}: it has no {', '.join(missing)}", field=str(role))
    return adapter


def cleared_epoch(call: Call, data: Arguments) -> int | None:
    """The playback epoch that a command makes current, or None: the owner raises it before the adapter hears of it."""
    holder = data.get("command") if call is Call.CONTROL else data if call is Call.CLEAR_OUTPUT else None
    epoch = holder.get("epoch") if isinstance(holder, dict) else None
    return epoch if isinstance(epoch, int) else None


def is_async(adapter: Any) -> bool:
    """Whether any callback is written with `async def`: then all of them run on one event loop."""
    return any(_is_coroutine_function(getattr(adapter, name, None)) for name in _ASYNC_NAMES)


def _is_coroutine_function(method: Any) -> bool:
    """`inspect.iscoroutinefunction` for methods, without the pages that its general way costs in every owner."""
    code = getattr(method, "__code__", None)
    return code is not None and bool(code.co_flags & inspect.CO_COROUTINE)

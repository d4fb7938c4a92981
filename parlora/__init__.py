"""Parlora: a multi-process actor runtime for full-duplex voice agents.

Everything an application needs is a name of this package. A name is imported when it is first used, so importing
`parlora` costs nothing, opens no device and reads no credential.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from parlora.audio.format import AudioFormat as AudioFormat
    from parlora.audio.format import Encoding as Encoding
    from parlora.audio.frame import AudioFrame as AudioFrame
    from parlora.component import Component as Component
    from parlora.context.decision import ContextDecision as ContextDecision
    from parlora.context.decision import DecisionKind as DecisionKind
    from parlora.context.snapshot import ContextSnapshot as ContextSnapshot
    from parlora.context.trigger import ContextTrigger as ContextTrigger
    from parlora.context.trigger import TriggerKind as TriggerKind
    from parlora.contract.adapter import Adapter as Adapter
    from parlora.contract.adapter import AdapterInit as AdapterInit
    from parlora.contract.adapter import ClosePolicy as ClosePolicy
    from parlora.contract.backend import Backend as Backend
    from parlora.contract.backend import BackendCapabilities as BackendCapabilities
    from parlora.contract.backend import BackendRequest as BackendRequest
    from parlora.contract.backend import BackendResult as BackendResult
    from parlora.contract.backend import ResultStatus as ResultStatus
    from parlora.contract.channel import Channel as Channel
    from parlora.contract.channel import ChannelCapabilities as ChannelCapabilities
    from parlora.contract.policy import ContextPolicy as ContextPolicy
    from parlora.contract.provider import ContextKind as ContextKind
    from parlora.contract.provider import ContextUpdate as ContextUpdate
    from parlora.contract.provider import Provider as Provider
    from parlora.contract.provider import ProviderCapabilities as ProviderCapabilities
    from parlora.errors import AdapterFailed as AdapterFailed
    from parlora.errors import Backpressure as Backpressure
    from parlora.errors import Closed as Closed
    from parlora.errors import Conflict as Conflict
    from parlora.errors import ErrorCode as ErrorCode
    from parlora.errors import InvalidArgument as InvalidArgument
    from parlora.errors import NotFound as NotFound
    from parlora.errors import NotReady as NotReady
    from parlora.errors import ParloraError as ParloraError
    from parlora.errors import Timeout as Timeout
    from parlora.errors import Uncertain as Uncertain
    from parlora.errors import Unsupported as Unsupported
    from parlora.events import Event as Event
    from parlora.events import EventType as EventType
    from parlora.events import Source as Source
    from parlora.limits import Limits as Limits
    from parlora_actors.async_host import AsyncActorHost as AsyncActorHost
    from parlora_actors.async_session import AsyncSession as AsyncSession
    from parlora_actors.async_session import AsyncSubscriber as AsyncSubscriber
    from parlora_actors.async_session import AsyncSubscription as AsyncSubscription
    from parlora_actors.host import ActorHost as ActorHost
    from parlora_actors.host_attached import AttachedHost as AttachedHost
    from parlora_actors.host_attached import RunningSession as RunningSession
    from parlora_actors.host_attached import attach as attach
    from parlora_actors.messages.monitor import NodeView as NodeView
    from parlora_actors.messages.monitor import ProcessView as ProcessView
    from parlora_actors.messages.monitor import RingView as RingView
    from parlora_actors.messages.monitor import SessionView as SessionView
    from parlora_actors.monitor_client import NodeWatch as NodeWatch
    from parlora_actors.session_handle import Session as Session
    from parlora_actors.subscriber import Subscriber as Subscriber
    from parlora_actors.subscriber import Subscription as Subscription
    from parlora_actors.subscriber import Unsubscribed as Unsubscribed

_HOMES = {
    "parlora_actors.async_host": ("AsyncActorHost",),
    "parlora_actors.async_session": ("AsyncSession", "AsyncSubscriber", "AsyncSubscription"),
    "parlora_actors.host": ("ActorHost",),
    "parlora_actors.host_attached": ("AttachedHost", "RunningSession", "attach"),
    "parlora_actors.messages.monitor": ("NodeView", "ProcessView", "RingView", "SessionView"),
    "parlora_actors.monitor_client": ("NodeWatch",),
    "parlora_actors.session_handle": ("Session",),
    "parlora_actors.subscriber": ("Subscriber", "Subscription", "Unsubscribed"),
    "parlora.audio.format": ("AudioFormat", "Encoding"),
    "parlora.audio.frame": ("AudioFrame",),
    "parlora.component": ("Component",),
    "parlora.context.decision": ("ContextDecision", "DecisionKind"),
    "parlora.context.snapshot": ("ContextSnapshot",),
    "parlora.context.trigger": ("ContextTrigger", "TriggerKind"),
    "parlora.contract.adapter": ("Adapter", "AdapterInit", "ClosePolicy"),
    "parlora.contract.backend": ("Backend", "BackendCapabilities", "BackendRequest", "BackendResult", "ResultStatus"),
    "parlora.contract.channel": ("Channel", "ChannelCapabilities"),
    "parlora.contract.policy": ("ContextPolicy",),
    "parlora.contract.provider": ("ContextKind", "ContextUpdate", "Provider", "ProviderCapabilities"),
    "parlora.errors": (
        "AdapterFailed",
        "Backpressure",
        "Closed",
        "Conflict",
        "ErrorCode",
        "InvalidArgument",
        "NotFound",
        "NotReady",
        "ParloraError",
        "Timeout",
        "Uncertain",
        "Unsupported",
    ),
    "parlora.events": ("Event", "EventType", "Source"),
    "parlora.limits": ("Limits",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME_OF)


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

"""Every converter between messages and dataclasses, made once before the first fork.

A converter is code generated at first use, which costs milliseconds and memory: made in the launcher, the processes of
all sessions share it.
"""

from __future__ import annotations

from typing import Any, Final

from parlora.audio.format import AudioFormat
from parlora.context.decision import ContextDecision
from parlora.context.snapshot import ContextSnapshot
from parlora.context.trigger import ContextTrigger
from parlora.contract.backend import BackendCapabilities, BackendRequest, BackendResult
from parlora.contract.channel import ChannelCapabilities, ClearOutput, SuppressOutput
from parlora.contract.provider import ContextUpdate, MuteInput, ProviderCapabilities
from parlora.limits import Limits
from parlora.session.spec import SessionSpec
from parlora.wire import MessageSet, converter
from parlora_actors.child_spec import SupervisorSpec
from parlora_actors.coordinator import CoordinatorInit
from parlora_actors.messages import host, launch, monitor, node, owner, pipeline, policy, supervision
from parlora_actors.owner import OwnerInit
from parlora_actors.pipeline import PipelineInit
from parlora_actors.policy_worker import PolicyInit

_BOUNDARIES: Final = (host, launch, monitor, node, owner, pipeline, policy, supervision)

_DATA: Final[tuple[type[Any], ...]] = (
    SessionSpec,
    CoordinatorInit,
    OwnerInit,
    PipelineInit,
    PolicyInit,
    Limits,
    AudioFormat,
    ChannelCapabilities,
    ProviderCapabilities,
    BackendCapabilities,
    BackendRequest,
    BackendResult,
    ContextDecision,
    ContextSnapshot,
    ContextTrigger,
    ContextUpdate,
    ClearOutput,
    SuppressOutput,
    MuteInput,
    SupervisorSpec,
    monitor.ChildReport,
    monitor.NodeReport,
    monitor.SessionReport,
)

_PLAIN: Final = (dict, list, tuple, str, int, float, bool, bytes, type(None))
"""What stands in fields that may hold anything."""

MAX_PASSES: Final = 8


def warm_converters() -> None:
    """Generate the converters of all messages and of what travels inside them.

    The library forgets all converters whenever it meets a new kind of list or mapping inside one. So this is repeated
    until a pass finds everything as the pass before left it.
    """
    before: list[Any] = []
    for _ in range(MAX_PASSES):
        now = _all_hooks()
        if now == before:
            return
        before = now
    raise RuntimeError("the converters do not settle")


def _all_hooks() -> list[Any]:
    classes = [*_DATA]
    for boundary in _BOUNDARIES:
        for messages in vars(boundary).values():
            if isinstance(messages, MessageSet):
                classes += messages.classes
    hooks = [converter.get_structure_hook(cls) for cls in classes]
    return hooks + [converter.get_unstructure_hook(cls) for cls in (*classes, *_PLAIN)]

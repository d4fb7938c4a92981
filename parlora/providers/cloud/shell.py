"""What the cloud providers share as adapters: a provider names its endpoint, formats, capabilities and codec."""

from __future__ import annotations

from abc import abstractmethod

from parlora.audio.format import AudioFormat
from parlora.context.snapshot import ContextSnapshot
from parlora.contract.adapter import AdapterInit, ClosePolicy
from parlora.contract.provider import (
    ContextUpdate,
    DelegationOutcome,
    MuteInput,
    Provider,
    ProviderCapabilities,
    ProviderCommand,
)
from parlora.errors import Closed, InvalidArgument, Unsupported
from parlora.events import EventType
from parlora.limits import CLOUD_REPORT_MS
from parlora.providers.cloud.call import CloudCall
from parlora.providers.cloud.codec import CloudCodec
from parlora.providers.cloud.connection import End, Endpoint, Timing
from parlora.providers.cloud.credentials import Credential, CredentialSource


class CloudProvider(Provider):
    """A provider behind a WebSocket. A subclass calls `__init__` and gives the abstract parts; it has no threads."""

    capabilities: ProviderCapabilities
    recovers_output: bool = False
    """Whether an overload is recovered from by a fresh transport; else it is told, and the packet is dropped."""
    timing = Timing()
    resume_pause_ms: int | None = None
    """Between attempts to resume a lost connection, while `CLOUD_RESUME_MS` last; None for a single attempt."""

    def __init__(self, credentials: CredentialSource) -> None:
        self._credentials = credentials
        self._call: CloudCall | None = None
        self._init: AdapterInit | None = None

    @abstractmethod
    def endpoint(self, credential: Credential) -> Endpoint:
        """Where to connect, with the key in a header."""

    @abstractmethod
    def wire_formats(self, format: AudioFormat) -> tuple[AudioFormat, AudioFormat]:
        """What the service hears and what it says, for a session of `format`."""

    @abstractmethod
    def new_codec(self, init: AdapterInit) -> CloudCodec:
        """The codec of the first connection; raises `InvalidArgument` for what the service would refuse."""

    def next_codec(self, previous: CloudCodec, snapshot: ContextSnapshot | None) -> CloudCodec | None:
        """The codec of a connection that takes over from `previous`; None if there can be none, and the call ends.

        snapshot: the conversation so far in an output recovery, None after a lost or ending connection.
        """
        return None

    def is_resumable(self, end: End) -> bool:
        """Whether `next_codec` may take over after a connection that ended like this."""
        return True

    # ---- the contract

    def start(self, init: AdapterInit) -> None:
        """Connect, and return once the service has confirmed startup and `ready` was emitted.

        Raises `InvalidArgument` or `Unsupported` before anything is opened, `Timeout` at the startup deadline, else
        `AdapterFailed` with what the service said.
        """
        self._init = init
        codec = self.new_codec(init)
        credential = self._credentials.read()
        call = CloudCall(self, init, lambda: self.endpoint(credential))
        call.start(codec, init.deadline_us - CLOUD_REPORT_MS * 1_000)
        self._call = call

    def append_context(self, update: ContextUpdate, command_id: str) -> None:
        """Admit a text; the service's word follows, or `context_submitted` where it gives none."""
        if update.kind not in self.capabilities.context_update_kinds:
            known = ", ".join(str(kind) for kind in self.capabilities.context_update_kinds)
            raise Unsupported(f"kind must be one of {known}, got {update.kind}", details={"field": "kind"})
        if not isinstance(update.text, str) or not update.text.strip():
            raise InvalidArgument("text must not be empty", field="text")
        if update.delegation_id is not None and not update.delegation_id:
            raise InvalidArgument("delegation_id must be None or not empty", field="delegation_id")
        self._running().command(command_id, "append_context", update, lambda codec: codec.append(update, command_id))

    def control(self, command: ProviderCommand, command_id: str) -> None:
        """Mute or open the input: silence goes out in place of the caller at once; the service's word follows."""
        if not isinstance(command, MuteInput) or not self.capabilities.input_mute:
            raise Unsupported(f"this provider has no control {type(command).__name__}", details={"field": "command"})
        self._running().mute(command.on, command_id)

    def clear_output(self, epoch: int) -> None:
        """Nothing to do: everything generated that is still here waits for `resume_output` or `recover_output`."""

    def resume_output(self, token: str) -> None:
        """The clear barrier of the interruption with this token has completed: what came since then is let go."""
        self._running().resume(token)

    def recover_output(self, token: str, snapshot: ContextSnapshot) -> None:
        """Replace the transport; `output_recovered` follows within 5 s, or `failed`."""
        self._running().recover(token, snapshot)

    def resolve_delegation(self, delegation_id: str, outcome: DelegationOutcome) -> None:
        """Tell the service how a delegation without speakable content ended, where it wants to know."""
        self._running().resolve(delegation_id, outcome)

    def close(self, policy: ClosePolicy, command_id: str) -> None:
        """Free the audio at once and ask the service to end; `closed` follows when it has, or at the deadline."""
        if self._call is not None:
            self._call.close(command_id)
        elif self._init is not None:
            closed = {"finalization_observed": False, "reason": "not_connected"}
            self._init.event_sink.emit(EventType.CLOSED, closed, command_id=command_id)

    def _running(self) -> CloudCall:
        if self._call is None:
            raise Closed("the provider is not running")
        return self._call

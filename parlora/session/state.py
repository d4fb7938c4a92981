"""Everything the brain remembers: frozen records, one group per concern.

A reduction makes new records. They are private: applications see projections of them (acceptance TY-25).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from parlora.context.trigger import ContextTrigger
from parlora.contract.adapter import ClosePolicy
from parlora.contract.backend import BackendCapabilities
from parlora.contract.channel import ChannelCapabilities
from parlora.contract.provider import ProviderCapabilities
from parlora.session.effects import Call
from parlora.session.inputs import AudioCounters, ErrorData
from parlora.session.roles import Role
from parlora.session.spec import SessionSpec
from parlora.session.table import Table


class Phase(StrEnum):
    """Where the session stands. `ended` is never reported: the terminal event tells it (acceptance SL-44)."""

    STARTING = "starting"
    READY = "ready"
    CLOSING = "closing"
    ENDED = "ended"


class TimerKind(StrEnum):
    """What a timer is for."""

    STARTUP = "startup"
    ADMISSION = "admission"
    BARRIER = "barrier"
    RESUME = "resume"
    POLICY = "policy"
    POLICY_WORKER = "policy_worker"
    JOB = "job"
    WAIT = "wait"
    ACKNOWLEDGMENT = "acknowledgment"
    PROGRESS = "progress"
    SHUTDOWN = "shutdown"
    MAX_SESSION = "max_session"


@dataclass(frozen=True, slots=True)
class Timer:
    """An armed timer; one that is not in the table any more is ignored when it fires."""

    kind: TimerKind
    subject: str


@dataclass(frozen=True, slots=True)
class AdapterState:
    """One adapter as the coordinator knows it. `ended`: it told `closed`, its close failed, or its owner died."""

    adapter_id: str
    generation: int = 0
    ready: bool = False
    ended: bool = False
    capabilities: ChannelCapabilities | ProviderCapabilities | BackendCapabilities | None = None


@dataclass(frozen=True, slots=True)
class Lifecycle:
    """Startup, readiness and the one absolute deadline of the end."""

    phase: Phase = Phase.STARTING
    draining: bool = False
    phase_timer: str | None = None
    reason: str = ""
    cause: str | None = None
    role: str | None = None
    policy: ClosePolicy = ClosePolicy.FINISH
    deadline_us: int = 0
    closes: Table[Role] = field(default_factory=Table)
    reaping: bool = False
    finalization_observed: bool = False


@dataclass(frozen=True, slots=True)
class Wait:
    """A policy's `wait_for_context` with a recheck, on a target."""

    due_at_us: int
    expired: bool
    recheck_key: str | None
    timer_id: str | None


@dataclass(frozen=True, slots=True)
class Delegation:
    """A provider's call for work. entry: what it told. projected: its snapshot entry, made once and shared."""

    id: str
    entry: dict[str, Any]
    status: str = "pending"
    task_id: str | None = None
    task_revision: int | None = None
    wait: Wait | None = None
    clarification: dict[str, Any] | None = None
    resolved: bool = False
    projected: dict[str, Any] | None = field(default=None, init=False, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Conversation:
    """What was said and what the application knows. `transcripts` run from newest to oldest.

    caller_revision: when the caller's newest words arrived. needs_caller: nothing is told before the caller speaks.
    """

    revision: int = 0
    application_context: dict[str, Any] = field(default_factory=dict)
    transcripts: tuple[dict[str, Any], ...] = ()
    provider_speech: str = "unknown"
    delegations: Table[Delegation] = field(default_factory=Table)
    pending: tuple[str, ...] = ()
    caller_revision: int = -1
    needs_caller: bool = False


@dataclass(frozen=True, slots=True)
class Task:
    """A unit of application work at its current revision.

    `request_ids` run from newest to oldest. `withdrawn_revision`: up to this revision the policy wants no answer.
    `noticed`: revision and generation of the last uncertainty notice. `projected`: as a delegation's.
    """

    id: str
    revision: int
    input: dict[str, Any]
    status: str
    request_ids: tuple[str, ...]
    delegation_id: str | None
    withdrawn_revision: int = 0
    noticed: tuple[int, int] | None = None
    wait: Wait | None = None
    clarification: dict[str, Any] | None = None
    progress: dict[str, Any] | None = None
    projected: dict[str, Any] | None = field(default=None, init=False, compare=False, repr=False)


class JobStatus(StrEnum):
    """A request as status shows it (spec 000 §14)."""

    QUEUED = "queued"
    SUBMITTED = "submitted"
    UNCERTAIN = "uncertain"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def terminal(self) -> bool:
        """Whether nothing more is expected of it."""
        return self in (JobStatus.COMPLETED, JobStatus.FAILED, JobStatus.CANCELLED)


class Delivery(StrEnum):
    """How far a result or notice has come toward the provider; none of them says heard."""

    AWAITING_INTERPRETATION = "awaiting_interpretation"
    AWAITING_PROVIDER = "awaiting_provider"
    ACCEPTED = "accepted"
    UNCONFIRMED = "unconfirmed"
    REJECTED = "rejected"
    UNKNOWN = "unknown"
    STALE = "stale"
    NOT_APPLICABLE = "not_applicable"
    SUPERSEDED = "superseded"


@dataclass(frozen=True, slots=True)
class Job:
    """One request. `command_id`: its submit; `update`: the revision and command of an update under way."""

    id: str
    task_id: str
    task_revision: int
    delegation_id: str | None
    input: dict[str, Any]
    provider_generation: int
    deadline_at_us: int
    timer_id: str | None
    status: JobStatus = JobStatus.QUEUED
    admission: str | None = None
    command_id: str | None = None
    dispatched: bool = False
    cancel_asked: bool = False
    update: tuple[int, str] | None = None
    started_at_us: int | None = None
    completed_at_us: int | None = None
    summary: str | None = None
    delivery: Delivery | None = None
    result_command_id: str | None = None
    delivery_updated_at_us: int | None = None
    acknowledgment_timer: str | None = None
    uncertainty_reason: str | None = None
    uncertainty_delivery: Delivery | None = None
    uncertainty_command_id: str | None = None


@dataclass(frozen=True, slots=True)
class Work:
    """Tasks and their requests.

    `queue`: requests waiting for a slot, oldest first. `running`: requests that hold a slot. `held`: results waiting
    for a settled interpretation. `notices`: uncertain requests whose notice waits for the same.
    """

    tasks: Table[Task] = field(default_factory=Table)
    jobs: Table[Job] = field(default_factory=Table)
    queue: tuple[str, ...] = ()
    running: frozenset[str] = frozenset()
    held: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()


class Purpose(StrEnum):
    """Why a command is with an owner: its answers go to that concern."""

    CALLER = "caller"
    SUBMIT = "submit"
    UPDATE = "update"
    CANCEL = "cancel"
    RESULT = "result"
    NOTICE = "notice"
    QUESTION = "question"
    ASSOCIATION = "association"
    CONTROL = "control"
    RESUME = "resume"
    RESOLVE = "resolve"
    RELEASE = "release"


@dataclass(frozen=True, slots=True)
class Command:
    """A runtime command from its admission to its owner's reply."""

    id: str
    role: Role
    call: Call
    arguments: dict[str, Any]
    purpose: Purpose
    subject: str
    deadline_us: int
    timer_id: str
    dispatched: bool = False


@dataclass(frozen=True, slots=True)
class Lane:
    """One owner's commands: at most one handed over, the others withdrawable in their order."""

    in_flight: str | None = None
    queue: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Record:
    """A caller's command id: what it stands for, who waits for it, and its local result once there is one."""

    operation: str
    arguments: dict[str, Any]
    waiters: tuple[tuple[str, str], ...] = ()
    settled: bool = False
    value: Any = None
    error: ErrorData | None = None


@dataclass(frozen=True, slots=True)
class Commands:
    """Commands with owners, callers' ids, and the open outcomes (`ledger`: None until it is known)."""

    pending: Table[Command] = field(default_factory=Table)
    lanes: Table[Lane] = field(default_factory=Table)
    records: Table[Record] = field(default_factory=Table)
    ledger: Table[str | None] = field(default_factory=Table)


@dataclass(frozen=True, slots=True)
class Barrier:
    """A control that several roles must acknowledge. `epoch` is set for a clear, `suppress` for a suppression.

    `caller_id`: the caller's command id, if one asked. `token`: the interruption to resume, `recover` if it is an
    output recovery. `failed`: its outcome has been told; it only lives on for the token.
    """

    id: str
    waiting: frozenset[Role]
    timer_id: str
    epoch: int | None = None
    suppress: bool | None = None
    caller_id: str | None = None
    token: str | None = None
    recover: bool = False
    failed: bool = False
    dropped: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Controls:
    """The playback epoch, barriers under way, and which command is which role's leg of which barrier."""

    epoch: int = 0
    suppressed: bool = False
    barriers: Table[Barrier] = field(default_factory=Table)
    legs: Table[tuple[str, Role]] = field(default_factory=Table)


@dataclass(frozen=True, slots=True)
class Run:
    """One interpretation under way, and the state it rests on."""

    id: str
    trigger: ContextTrigger
    revision: int
    generation: int
    timer_id: str


@dataclass(frozen=True, slots=True)
class Question:
    """An attempt at a clarification: its target (a delegation, or a task at a revision) and its append."""

    delegation_id: str | None
    task_id: str | None
    task_revision: int | None
    command_id: str


@dataclass(frozen=True, slots=True)
class PolicyState:
    """The policy worker and what it is to interpret. `unresolved`: the last run left something open."""

    up: bool = False
    run: Run | None = None
    triggers: tuple[ContextTrigger, ...] = ()
    failures: int = 0
    unresolved: bool = False
    worker_timer: str | None = None
    questions: Table[Question] = field(default_factory=Table)


@dataclass(frozen=True, slots=True)
class Seen:
    """How often and when last something was observed."""

    count: int = 0
    last_at_us: int | None = None


@dataclass(frozen=True, slots=True)
class Expectation:
    """A progress deadline the host armed."""

    id: str
    timeout_ms: int
    until: str
    on_timeout: str
    armed_at_us: int
    deadline_at_us: int
    status: str = "pending"
    resolved_at_us: int | None = None
    timer_id: str | None = None


@dataclass(frozen=True, slots=True)
class Health:
    """Counts of observations, the last audio counters, and progress deadlines by id."""

    seen: Table[Seen] = field(default_factory=Table)
    counters: AudioCounters = field(default_factory=AudioCounters)
    playback: Table[dict[str, Any]] = field(default_factory=Table)
    expectations: Table[Expectation] = field(default_factory=Table)
    current: str | None = None


@dataclass(frozen=True, slots=True)
class State:
    """A session between two inputs."""

    spec: SessionSpec
    lifecycle: Lifecycle = Lifecycle()
    adapters: Table[AdapterState] = field(default_factory=Table)
    conversation: Conversation = Conversation()
    work: Work = Work()
    commands: Commands = Commands()
    controls: Controls = Controls()
    policy: PolicyState = PolicyState()
    health: Health = Health()
    subscriptions: Table[str] = field(default_factory=Table)
    timers: Table[Timer] = field(default_factory=Table)

"""Whatever an adapter puts into its events, the brain refuses it or copes: it never raises and claims nothing."""

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from parlora.events import EventType
from parlora.session import inputs
from parlora.session.effects import Call
from parlora.session.roles import OWNERS, Role
from parlora.session.uncertainty import NOTICE
from parlora.testing.session_model import SessionModel

from .helpers import started

JUNK = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 3) | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
KEYS = [
    "speaker",
    "delta",
    "start_ms",
    "status",
    "delegation_id",
    "target",
    "offset_ms",
    "token",
    "error",
    "reason",
    "stage",
    "epoch",
    "task_revision",
    "facts",
    "question",
    "result",
    "capabilities",
    "audio_format",
    "finalization_observed",
    "details",
    "code",
    "message",
    "command_id",
    "context_revision",
]
WORDS = st.sampled_from(["user", "speaking", "client", "d1", "d2", "queued", "", 1, {"message": "m", "details": None}])
PAYLOADS = st.dictionaries(st.sampled_from(KEYS), WORDS | JUNK, max_size=5)
TYPES = st.sampled_from([str(type) for type in EventType])


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(st.sampled_from(OWNERS), TYPES, PAYLOADS), min_size=1, max_size=6), st.booleans())
def test_no_payload_makes_the_brain_raise_or_tell_what_was_not_observed(
    told: list[tuple[Role, str, dict[str, Any]]], ready: bool
) -> None:
    model = started() if ready else SessionModel()
    command_ids = [invoke.command_id for invoke in model.invoked(Call.SUBMIT)] or [None]
    request_ids = list(model.state.work.jobs) or [None]
    for role, type, payload in told:
        model.event(role, type, payload, command_id=command_ids[0], request_id=request_ids[0])
        model.advance(50)
        model.settle()
    if not model.events("closed"):
        model.call("status")
        model.call("snapshot")
        model.call("close")
    if not model.events("closed"):
        model.feed(inputs.ChildrenGone, killed=0)

    assert len(model.events("closed")) == 1
    assert len(model.events("failed")) <= 1
    assert set(model.appended_texts()) <= {NOTICE}

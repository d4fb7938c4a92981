"""The processes of one session, by what they do."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Role(StrEnum):
    """One process of a session."""

    SUPERVISOR = "session_supervisor"
    COORDINATOR = "coordinator"
    CHANNEL = "channel"
    PROVIDER = "provider"
    BACKEND = "backend"
    INPUT_PIPELINE = "input_pipeline"
    OUTPUT_PIPELINE = "output_pipeline"
    POLICY = "policy"


OWNERS: Final = (Role.CHANNEL, Role.PROVIDER, Role.BACKEND)
"""The roles that run adapter code."""

PIPELINES: Final = (Role.INPUT_PIPELINE, Role.OUTPUT_PIPELINE)
"""The roles that move frames and nothing else."""

"""A Gemini adapter that a test need not wait for, and a backend that it has to."""

import time
from typing import Any

from parlora.providers.cloud.connection import Timing
from parlora.providers.gemini.adapter import Gemini


class QuickGemini(Gemini):
    """Finds out about a silent service in a second instead of 15, and tries again after a fifth of one."""

    timing = Timing(ping_ms=200, silent_ms=1_000, stall_ms=1_000, finish_ms=300)
    resume_pause_ms = 200


def answer_later(request: Any) -> str:
    """Work that takes long enough for the model to lose interest in it."""
    time.sleep(2.5)
    return "It is on its way"

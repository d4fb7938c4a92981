"""A Grok adapter that a test need not wait for."""

from parlora.providers.cloud.connection import Timing
from parlora.providers.grok.adapter import Grok


class QuickGrok(Grok):
    """Finds out about a silent service in a second instead of 15."""

    timing = Timing(ping_ms=200, silent_ms=1_000, stall_ms=1_000, finish_ms=300)

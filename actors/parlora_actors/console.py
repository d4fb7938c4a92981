"""The console script's first line: quiet from the first moment, also while the rest is still being imported."""

from __future__ import annotations

import sys
from typing import Final

EXIT_INTERRUPTED: Final = 130


def main() -> None:
    """Run `parlora-actor`. A Ctrl-C before anything was started ends it at once, without a word."""
    try:
        from parlora_actors.cli import main as run  # a third of a second in which a Ctrl-C may come
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
    run()

"""`python -m parlora.orderdesk`: the demonstration's call, with the options of `parlora-actor demo`."""

import sys

from parlora_actors.cli import app

if __name__ == "__main__":
    app(["demo", *sys.argv[1:]], prog_name="python -m parlora.orderdesk")

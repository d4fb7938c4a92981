"""The fixtures of a standing node and of the commands serve these tests too."""

from tests.cli.conftest import cli  # noqa: F401
from tests.node.conftest import command, node, run_dir  # noqa: F401

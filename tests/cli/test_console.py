"""The console script's first moments."""

import subprocess
import sys

PROGRAM = """
import sys

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == "typer":  # as if Ctrl-C came while the command line is still being imported
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupt())
from parlora_actors.console import main

main()
"""


def test_a_ctrl_c_while_the_command_line_is_still_imported_ends_it_without_a_traceback() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")

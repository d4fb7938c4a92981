"""A function that says where it runs and then takes its time, for tests that end its process or its session."""

import os
import subprocess
import sys
import threading
from pathlib import Path

from parlora.backends.job import Job
from parlora.contract.backend import BackendRequest


def look_up_slowly(request: BackendRequest, job: Job) -> str:
    """Writes its process and thread to `options["began"]`, then waits for a stop that it does not obey."""
    folder = Path(job.options["folder"])
    helper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    began = folder / "began.part"
    began.write_text(f"{os.getpid()} {threading.get_native_id()} {helper.pid}")
    began.rename(folder / "began")
    job.wait(60_000)
    (folder / "asked to stop").touch()
    threading.Event().wait(60)
    return "too late"

"""What a node needs of the system it runs on, checked before anything is started."""

from __future__ import annotations

import os
import re
import resource
import sys
from typing import Final

from parlora.errors import Unsupported

MIN_KERNEL: Final = (5, 4)
"""pidfd_open came with 5.3; 5.4 is the oldest kernel with long-term support that has it, and `waitid` on it."""

MIN_DESCRIPTORS: Final = 4_096
"""A process without a free descriptor is dead: Thespian's loop opens one at every turn."""

_WANTED_DESCRIPTORS: Final = 65_536


def check_platform(platform: str = sys.platform, release: str | None = None) -> None:
    """Raise `Unsupported` unless this is Linux 5.4 or newer."""
    if platform != "linux":
        raise Unsupported(f"Parlora's nodes run on Linux 5.4 or newer, not on {platform}")
    release = os.uname().release if release is None else release
    found = re.match(r"(\d+)\.(\d+)", release)
    if found is None or (int(found[1]), int(found[2])) < MIN_KERNEL:
        raise Unsupported(f"Parlora's nodes need Linux 5.4 or newer; this is {release}")


def raise_descriptor_limit() -> int:
    """Raise this process's soft limit of descriptors as far as allowed and sensible; returns it.

    Raises `Unsupported` if the hard limit is below 4,096.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < MIN_DESCRIPTORS:
        raise Unsupported(
            f"the limit of open files (ulimit -Hn) is {hard}; a node needs {MIN_DESCRIPTORS}",
            details={"limit": hard, "needed": MIN_DESCRIPTORS},
        )
    wanted = _WANTED_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _WANTED_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        return wanted
    return soft

"""Types of native/python_frames.c. `ring` is the address of a living native ring; see parlora.audio.ring."""

from typing import NamedTuple

from parlora.audio.ring_types import Data

class FrameHeader(NamedTuple):
    bytes: int
    sequence: int
    epoch: int
    ts_us: int
    admitted_us: int
    duration_us: int
    flags: int

_Frames = list[tuple[FrameHeader, bytes]]

def write(ring: int, data: Data, epoch: int | None, ts_us: int, duration_us: int, flags: int, /) -> int: ...
def write_packet(
    ring: int,
    data: Data,
    frame_bytes: int,
    epoch: int | None,
    ts_us: int,
    frame_us: int,
    flags: int,
    whole: bool,
    /,
) -> tuple[int, int]: ...
def read(ring: int, max_bytes: int, max_frames: int, /) -> _Frames | int: ...
def read_packet(ring: int, max_bytes: int, /) -> tuple[FrameHeader, int, bytes] | int: ...
def receive(ring: int, max_bytes: int, max_frames: int, deadline_us: int, /) -> _Frames | int: ...
def wait_data(ring: int, deadline_us: int, /) -> int: ...
def wait_space(ring: int, size_bytes: int, deadline_us: int, /) -> int: ...
def arm_data(ring: int, /) -> bool: ...
def arm_space(ring: int, size_bytes: int, /) -> bool: ...
def consume_event(descriptor: int, /) -> None: ...

"""Our own client frames, judged by websocket-client's decoder."""

from hypothesis import given
from hypothesis import strategies as st
from websocket import ABNF
from websocket._abnf import frame_buffer

from parlora.providers.cloud.socket import framed

SIZES = st.sampled_from([0, 1, 3, 4, 5, 125, 126, 127, 65_535, 65_536, 70_001])


@given(SIZES, st.binary(min_size=1, max_size=7), st.sampled_from([ABNF.OPCODE_TEXT, ABNF.OPCODE_BINARY]))
def test_a_frame_is_read_as_what_was_written(size: int, pattern: bytes, opcode: int) -> None:
    data = (pattern * (size // len(pattern) + 1))[:size]
    rest = bytearray(framed(data, opcode))

    def read(count: int) -> bytes:
        piece = bytes(rest[:count])
        del rest[:count]
        return piece

    frame = frame_buffer(read, skip_utf8_validation=True).recv_frame()
    assert (frame.fin, frame.opcode, bytes(frame.data), bytes(rest)) == (1, opcode, data, b"")


def test_text_is_utf_8_and_masks_differ() -> None:
    first, second = framed("é", ABNF.OPCODE_TEXT), framed("é", ABNF.OPCODE_TEXT)
    assert len(first) == len(second) == 2 + 4 + 2
    assert len({framed("é", ABNF.OPCODE_TEXT)[2:6] for _ in range(8)}) > 1

"""What a link carries: frames with what stands around them on the wire."""

from typing import Final

AROUND_BYTES: Final = 20  # preamble, start of frame delimiter and the least gap (IEEE 802.3, 4.4.2)
FULL: Final = 0.99  # of its line rate, from which a link is the limit: clocks may differ by 0.01 % each way (3.1.1)


def line_rate_fps(speed_bps: float, frame_bytes: float) -> float:
    """Frames per second that a link carries at most; `frame_bytes` has the frame check sequence."""
    return speed_bps / wire_bits(frame_bytes)


def wire_bits(frame_bytes: float) -> float:
    """Bits that a frame takes on the wire."""
    return (frame_bytes + AROUND_BYTES) * 8

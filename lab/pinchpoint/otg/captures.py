"""Frames that the engine kept in a trial (pcapng, draft-ietf-opsawg-pcapng); a file of those that a port received."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

MOST_FRAMES: Final = 10_000  # that a trial keeps, all ports together
LARGEST: Final = 65_535  # bytes of a frame in a file
_PACKET_BLOCK: Final = 6  # enhanced packet block
_BLOCK: Final = struct.Struct("<II")  # type, length
_PACKET: Final = struct.Struct("<IIIII")  # interface, time in nanoseconds (high, low), bytes kept, bytes on the wire
_FLAGS: Final = struct.Struct("<HHI")  # option epb_flags: code, length, flags
_INBOUND: Final = 1
_PCAP: Final = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, LARGEST, 1)  # nanoseconds, Ethernet


@dataclass(frozen=True)
class KeptFrame:
    """One frame that was kept; `port` is its port's place among those of the engine."""

    port: int
    is_received: bool
    time_ns: int
    data: bytes


def frames(capture: bytes) -> Iterator[KeptFrame]:
    """Those of a little-endian pcapng file of the engine, up to where it is cut off."""
    for kind, block in _blocks(capture):
        if kind == _PACKET_BLOCK and len(block) >= 32:
            port, high, low, kept, _ = _PACKET.unpack_from(block, 8)
            kept = min(kept, len(block) - 32)
            option = 28 + kept + -kept % 4
            is_flagged = option + _FLAGS.size <= len(block) - 4 and block[option : option + 2] == b"\2\0"
            is_received = not is_flagged or _FLAGS.unpack_from(block, option)[2] & 3 == _INBOUND
            yield KeptFrame(port, is_received, high << 32 | low, block[28 : 28 + kept])


def of_port(capture: bytes, port: int, form: Literal["pcap", "pcapng"], most_bytes: int = LARGEST) -> bytes:
    """A file of the frames that a port received, each cut off after `most_bytes`."""
    received = [frame for frame in frames(capture) if frame.port == port and frame.is_received]
    if form == "pcap":
        return b"".join((_PCAP, *(_record(frame, most_bytes) for frame in received)))
    headers = [block for kind, block in _blocks(capture) if kind != _PACKET_BLOCK]
    return b"".join((*headers, *(_packet(frame, most_bytes) for frame in received)))


def _record(frame: KeptFrame, most_bytes: int) -> bytes:
    data, (seconds, ns) = frame.data[:most_bytes], divmod(frame.time_ns, 10**9)
    return struct.pack("<IIII", seconds, ns, len(data), len(frame.data)) + data


def _packet(frame: KeptFrame, most_bytes: int) -> bytes:
    data, (high, low) = frame.data[:most_bytes], divmod(frame.time_ns, 1 << 32)
    body = _PACKET.pack(frame.port, high, low, len(data), len(frame.data)) + data + bytes(-len(data) % 4)
    length = len(body) + 12
    return _BLOCK.pack(_PACKET_BLOCK, length) + body + struct.pack("<I", length)


def _blocks(capture: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + 12 <= len(capture):
        kind, length = _BLOCK.unpack_from(capture, at)
        if length < 12 or at + length > len(capture):
            return
        yield kind, capture[at : at + length]
        at += length

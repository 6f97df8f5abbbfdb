"""The capture of studies/replay, made anew: `python packaging/reference/capture.py`. A page is asked for and sent."""

import struct
from collections.abc import Iterator
from ipaddress import IPv4Address
from pathlib import Path
from typing import Final

FILE: Final = Path(__file__).parents[2] / "studies" / "replay" / "web.pcap"
CLIENT, SERVER = (bytes.fromhex("020000000001"), "10.0.0.1"), (bytes.fromhex("020000000002"), "10.0.0.2")
End = tuple[bytes, str]
_SYN, _ACK, _PSH_ACK, _FIN_ACK = 0x02, 0x10, 0x18, 0x11
_SEGMENT: Final = 1460  # bytes of data of a frame of 1518 bytes
_SEGMENTS: Final = 12
_TURN_NS: Final = 1_000_000  # from a question to its answer
_GAP_NS: Final = 12_304  # of frames of 1518 bytes at 1 Gbit/s


def capture() -> bytes:
    """The capture as a pcap file with nanoseconds (pcap-savefile(5))."""
    made = [struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, 1)]
    for time_ns, frame in _frames():
        made.append(struct.pack("<IIII", 1_700_000_000, time_ns, len(frame), len(frame)) + frame)
    return b"".join(made)


def _frames() -> Iterator[tuple[int, bytes]]:
    """ARP, a name, a connection with a request and a response of many segments, and its end; times in nanoseconds."""
    now_ns = 0
    for frame in (_arp(CLIENT, SERVER, 1), _arp(SERVER, CLIENT, 2)):
        yield now_ns, frame
        now_ns += _TURN_NS
    question = bytes.fromhex("123401000001000000000000") + b"\x07example\x04test\0" + bytes.fromhex("00010001")
    answer = question + bytes.fromhex("c00c000100010000003c00040a000002")
    yield now_ns, _udp(CLIENT, SERVER, (40_000, 53), question)
    yield now_ns + _TURN_NS, _udp(SERVER, CLIENT, (53, 40_000), answer)
    now_ns += 2 * _TURN_NS
    request = b"GET / HTTP/1.1\r\nHost: example.test\r\nUser-Agent: replay\r\n\r\n"
    ask, tell = 1000, 5000  # sequence numbers
    yield now_ns, _tcp(CLIENT, SERVER, (ask, 0), _SYN)
    yield now_ns + _TURN_NS, _tcp(SERVER, CLIENT, (tell, ask + 1), _SYN | _ACK)
    now_ns += 2 * _TURN_NS
    ask, tell = ask + 1, tell + 1
    yield now_ns, _tcp(CLIENT, SERVER, (ask, tell), _ACK)
    yield now_ns + _GAP_NS, _tcp(CLIENT, SERVER, (ask, tell), _PSH_ACK, request)
    ask += len(request)
    now_ns += _TURN_NS
    for number in range(_SEGMENTS):
        yield now_ns, _tcp(SERVER, CLIENT, (tell, ask), _ACK, bytes([number]) * _SEGMENT)
        tell += _SEGMENT
        if number % 2:  # every other segment is acknowledged (RFC 9293, 3.8.6.3)
            yield now_ns + _GAP_NS // 2, _tcp(CLIENT, SERVER, (ask, tell), _ACK)
        now_ns += _GAP_NS
    now_ns += _TURN_NS
    yield now_ns, _tcp(SERVER, CLIENT, (tell, ask), _FIN_ACK)
    yield now_ns + _TURN_NS, _tcp(CLIENT, SERVER, (ask, tell + 1), _FIN_ACK)
    yield now_ns + 2 * _TURN_NS, _tcp(SERVER, CLIENT, (tell + 1, ask + 1), _ACK)


def _arp(sender: End, target: End, operation: int) -> bytes:
    asks = operation == 1
    ends = sender[0] + IPv4Address(sender[1]).packed + (bytes(6) if asks else target[0]) + IPv4Address(target[1]).packed
    return (
        (b"\xff" * 6 if asks else target[0])
        + sender[0]
        + struct.pack("!HHHBBH", 0x0806, 1, 0x0800, 6, 4, operation)
        + ends
    )


def _udp(sender: End, target: End, ports: tuple[int, int], data: bytes) -> bytes:
    datagram = struct.pack("!HHHH", *ports, 8 + len(data), 0) + data
    return _ipv4(sender, target, 17, datagram, 6)


def _tcp(sender: End, target: End, numbers: tuple[int, int], flags: int, data: bytes = b"") -> bytes:
    ports = (50_000, 80) if sender is CLIENT else (80, 50_000)
    segment = struct.pack("!HHIIBBHHH", *ports, *numbers, 0x50, flags, 65_535, 0, 0) + data
    return _ipv4(sender, target, 6, segment, 16)


def _ipv4(sender: End, target: End, protocol: int, payload: bytes, sum_at: int) -> bytes:
    """A frame around a packet with both of its checksums right."""
    addresses = IPv4Address(sender[1]).packed + IPv4Address(target[1]).packed
    total = _sum(addresses + struct.pack("!HH", protocol, len(payload)) + payload)
    payload = payload[:sum_at] + struct.pack("!H", total) + payload[sum_at + 2 :]
    header = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(payload), 0, 0x4000, 64, protocol, 0) + addresses
    header = header[:10] + struct.pack("!H", _sum(header)) + header[12:]
    return target[0] + sender[0] + struct.pack("!H", 0x0800) + header + payload


def _sum(data: bytes) -> int:
    """The Internet checksum (RFC 1071)."""
    words = data + bytes(len(data) % 2)
    total = sum(struct.unpack(f"!{len(words) // 2}H", words)) % 0xFFFF
    return 0xFFFF - total or 0xFFFF


if __name__ == "__main__":
    FILE.write_bytes(capture())

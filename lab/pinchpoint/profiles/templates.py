"""A profile of captures (YAML): the engine reads it, and says its streams as lines of the protocol."""

import base64
import binascii
from collections.abc import Iterator
from typing import Final

import msgspec
from msgspec import UNSET

from pinchpoint.engine import protocol
from pinchpoint.engine.process import find_engine
from pinchpoint.engine.streams import StreamRequest
from pinchpoint.host.interface import CommandFailed, Host
from pinchpoint.model.errors import InputError
from pinchpoint.profiles.streams import Span, Wanted

_ETHERNET, _IPV4, _UDP = 14, 20, 8
_FIELDS: Final = {"ipv4.src": "ipv4_src", "ipv4.dst": "ipv4_dst"}


def wanted(path: str, lab: Host) -> list[Wanted]:
    """Its streams. Raises InputError with the engine's words, which name the line."""
    ends = ("--from", "mem:left", "--to", "mem:right")
    try:
        printed = lab.run((find_engine(lab), "send", *ends, "--dry-run", "--quiet", "--trex", path))
    except CommandFailed as error:
        raise InputError(error.output.removeprefix("error: ").removeprefix("--trex ")) from error
    run = msgspec.json.decode(printed.splitlines()[-1], type=protocol.Run)
    return [_stream(path, number, stream) for number, stream in enumerate(run.streams, 1)]


def _stream(path: str, number: int, stream: StreamRequest) -> Wanted:
    frame = _frame(path, stream)
    size = stream.size.fixed if isinstance(stream.size.fixed, int) else 0
    rate = stream.rate.fps if stream.rate is not None and isinstance(stream.rate.fps, float | int) else 0.0
    start = _ETHERNET + _IPV4
    spans = {
        "ipv4_src": Span(int.from_bytes(frame[26:30], "big")), "ipv4_dst": Span(int.from_bytes(frame[30:34], "big")),
        "udp_src": Span(int.from_bytes(frame[start : start + 2], "big")),
        "udp_dst": Span(int.from_bytes(frame[start + 2 : start + 4], "big")),
    }  # fmt: skip
    order = []
    for key, count in _varying(path, stream):
        spans[key] = Span(spans[key].first, count)
        order.append(key)
    return Wanted(f"frame {number} of the captures", size, "pps", rate, spans, order, stream.flows)


def _frame(path: str, stream: StreamRequest) -> bytes:
    try:
        frame = base64.b64decode(stream.template.frame, validate=True) if stream.template.frame is not UNSET else b""
    except binascii.Error:
        frame = b""
    # Ethernet II with IPv4 without options, UDP behind it (RFC 791).
    if len(frame) < _ETHERNET + _IPV4 + _UDP or frame[12:15] != b"\x08\x00\x45" or frame[23] != 17:
        raise InputError(f"{path}: a frame that is not Ether/IP/UDP: a [[stream]] has no VLAN tag and no options")
    return frame


def _varying(path: str, stream: StreamRequest) -> Iterator[tuple[str, int]]:
    for program in stream.fields:
        counter = program.op.increment
        if program.field not in _FIELDS or counter is UNSET or counter.step != 1:
            raise InputError(f"{path}: {program.field} varies in a way that a [[stream]] does not")
        yield _FIELDS[program.field], counter.count

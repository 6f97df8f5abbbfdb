"""Streams of captured frames, which the engine reads and says as lines of the protocol.

A profile in YAML names captures alone; one in Python may have a capture in the place of a packet.
"""

import base64
import binascii
import math
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final

import msgspec
from msgspec import UNSET

from pinchpoint.engine import protocol
from pinchpoint.engine.process import find_engine
from pinchpoint.engine.streams import StreamRequest
from pinchpoint.host.interface import CommandFailed, Host
from pinchpoint.model.errors import InputError
from pinchpoint.model.headers import FCS_BYTES, FLAGS, SIGNATURE_BYTES
from pinchpoint.profiles.declared import Stream, plain
from pinchpoint.profiles.fields import HEADER_BYTES, FieldNumbers
from pinchpoint.profiles.stl import ProfileLineError
from pinchpoint.profiles.streams import Wanted, cycle, frame_bytes

_VARIED: Final = {"ipv4.src": "ipv4_src", "ipv4.dst": "ipv4_dst"}
_ADDRESSES: Final = (("ipv4_src", 26, 4), ("ipv4_dst", 30, 4))
_OF_CAPTURES: Final[Mapping[int, tuple[str, tuple[tuple[str, int, int], ...]]]] = {
    17: ("UDP", (("udp_src", 34, 2), ("udp_dst", 36, 2))),
    6: ("TCP", (("tcp_src", 34, 2), ("tcp_dst", 36, 2), ("tcp_seq", 38, 4), ("tcp_ack", 42, 4), ("tcp_window", 48, 2))),
}  # fmt: skip
"""By protocol: the header; of frames that begin with Ether/IP the key, the first byte and the bytes of each field."""
_PROTOCOL_AT, _FLAGS_AT, _OFFSET_AT = 23, 47, 46


# Without a signature, so that no packet is too short for it.
_DRY: Final = ("send", "--from", "mem:left", "--to", "mem:right", "--dry-run", "--json", "--quiet", "--unstamped")


class _Notes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """In what the engine's streams differ from the profile's: the first line of a dry run."""

    notes: tuple[Annotated[str, msgspec.Meta(max_length=10_000)], ...]


def of_profile(path: str, lab: Host, *, both_ways: bool = False) -> list[tuple[Wanted, bool]]:
    """The streams of a profile in YAML, each with whether it is one of servers; these with `both_ways` alone.

    Raises InputError with the engine's words, which name the line.
    """
    both = ("--both-ways",) if both_ways else ()
    try:
        printed = lab.run((find_engine(lab), *_DRY, *both, "--trex", path))
    except CommandFailed as error:
        raise InputError(error.output.removeprefix("error: ").removeprefix("--trex ")) from error
    first, *_, last = printed.splitlines()
    notes, run = msgspec.json.decode(first, type=_Notes).notes, msgspec.json.decode(last, type=protocol.Run)
    directed = [
        (_captured(path, number, stream), stream.tx_port != run.streams[0].tx_port)
        for number, stream in enumerate(run.streams, 1)
    ]
    (client, is_back), *others = directed
    return [(replace(client, notes=[*notes, *client.notes]), is_back), *others]


def first_frame(file: str, lab: Host) -> Callable[[Stream], Wanted]:
    """What makes a stream of the first frame of the capture that a profile in Python declares as a packet.

    It raises ProfileLineError.
    """
    folders = tuple(dict.fromkeys((Path(file).absolute().parent, Path.cwd())))

    def made(declared: Stream) -> Wanted:
        if declared.instructions:
            told = "captured packets do not vary: not supported"
            raise ProfileLineError(declared.line, f"{plain(declared.capture)}: {told}")
        place = _place(declared, folders, lab)
        try:
            printed = lab.run((find_engine(lab), *_DRY, "--pcap", f"{place}:1"))
            (stream,) = msgspec.json.decode(printed.splitlines()[-1], type=protocol.Run).streams
            return _captured(str(place), 1, stream)
        except CommandFailed as error:
            told = error.output.removeprefix("error: ").removeprefix("--pcap ")
            raise ProfileLineError(declared.line, told) from error
        except InputError as error:
            raise ProfileLineError(declared.line, error.message) from error

    return made


def _place(declared: Stream, folders: tuple[Path, ...], lab: Host) -> Path:
    """The capture, which is beside the profile or in the current directory, or below. Raises ProfileLineError."""
    named = (Path(os.path.normpath(folder / declared.capture)) for folder in folders)
    places = [place for place in named if any(place.is_relative_to(folder) for folder in folders)]
    if not places:
        told = "expected a path below the profile's folder or the current one"
        raise ProfileLineError(declared.line, f"{plain(declared.capture)}: {told}")
    found = next((place for place in places if lab.exists(str(place))), None)
    if found is None:
        tried = ", ".join(map(str, places))
        raise ProfileLineError(declared.line, plain(f"{declared.capture}: no such file; tried {tried}"))
    return found


def _captured(path: str, number: int, stream: StreamRequest) -> Wanted:
    frame = _frame(path, stream)
    header, fields = _OF_CAPTURES[frame[_PROTOCOL_AT]]
    listed = stream.size.list if isinstance(stream.size.list, tuple) else ()
    fixed = stream.size.fixed if isinstance(stream.size.fixed, int) else 0
    asked = max((size for size, _ in listed), default=fixed)
    least = HEADER_BYTES["Ether"] + HEADER_BYTES["IP"] + HEADER_BYTES[header] + SIGNATURE_BYTES + FCS_BYTES
    size, notes = frame_bytes(asked, least)
    mix, divisor = Counter[int](), math.gcd(*(weight for _, weight in listed))  # a [[stream]] takes small weights
    for length, weight in listed:
        mix[frame_bytes(length, least)[0]] += weight // divisor
    if listed and min(listed)[0] < least <= asked:
        notes.append(f"frames of less than {least} bytes there; here they have room for the engine's signature")
    flows, notes = cycle(stream.flows, notes)
    rate = stream.rate.fps if stream.rate is not None and isinstance(stream.rate.fps, float | int) else 0.0
    places = (*_ADDRESSES, *fields)
    values = {key: FieldNumbers(int.from_bytes(frame[at : at + length], "big")) for key, at, length in places}
    flags: list[str] | None = None
    if header == "TCP":
        flags = [word for bit, word in enumerate(FLAGS) if frame[_FLAGS_AT] >> bit & 1]
        notes += ["TCP options there; none here"] if frame[_OFFSET_AT] >> 4 > HEADER_BYTES["TCP"] // 4 else []
    order = []
    for key, count in _varying(path, stream):
        values[key] = FieldNumbers(values[key].first, count)
        order.append(key)
    title, sizes = f"frame {number} of the captures", tuple(sorted(mix.items())) if len(mix) > 1 else ()
    return Wanted(title, size, "pps", rate, values, order, flows, flags=flags, notes=notes, mix=sizes)


def _frame(path: str, stream: StreamRequest) -> bytes:
    try:
        frame = base64.b64decode(stream.template.frame, validate=True) if stream.template.frame is not UNSET else b""
    except binascii.Error:
        frame = b""
    # Ethernet II with IPv4 without options, UDP or TCP behind it (RFC 791).
    network = HEADER_BYTES["Ether"] + HEADER_BYTES["IP"]
    header, _ = _OF_CAPTURES.get(frame[_PROTOCOL_AT], ("", ())) if len(frame) > network else ("", ())
    if not header or len(frame) < network + HEADER_BYTES[header] or frame[12:15] != b"\x08\x00\x45":
        expected = "no VLAN tag and no IP options are taken of captures"
        raise InputError(f"{path}: a frame that is not Ether/IP/UDP or Ether/IP/TCP: {expected}")
    return frame


def _varying(path: str, stream: StreamRequest) -> Iterator[tuple[str, int]]:
    for program in stream.fields:
        counter = program.op.increment
        if program.field not in _VARIED or counter is UNSET or counter.step != 1:
            raise InputError(f"{path}: {program.field} varies in a way that a [[stream]] does not")
        yield _VARIED[program.field], counter.count

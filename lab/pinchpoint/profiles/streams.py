"""The streams of a profile as [[stream]] tables: Ethernet, perhaps a VLAN tag, IP, UDP or TCP; else it is refused.

A profile in Python has declared them; one of captures (YAML) the engine reads, and says them as lines of the protocol.
"""

import base64
import binascii
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET

from pinchpoint.engine import protocol
from pinchpoint.engine.process import find_engine
from pinchpoint.engine.streams import StreamRequest
from pinchpoint.host.interface import CommandFailed, Host
from pinchpoint.model.errors import InputError
from pinchpoint.model.headers import FCS_BYTES, MOST_FLOWS, SHORTEST_BYTES, SIGNATURE_BYTES, mixes_groups
from pinchpoint.model.units import wire_bits
from pinchpoint.profiles.declared import Layer, Stream, Tuple, Variable, Write, plain
from pinchpoint.profiles.fields import BY_KEY, FIELDS, HEADER_BYTES, FieldNumbers, place
from pinchpoint.profiles.stl import ProfileLineError

MOST_DRAWN: Final = 65_536  # random numbers before they repeat
_BURSTS: Final = "bursts have an end, a [[stream]] has none"
_FLAGS: Final = {"F": "fin", "S": "syn", "R": "rst", "P": "psh", "A": "ack", "U": "urg", "E": "ece", "C": "cwr"}
_ETHER_TYPES: Final = {"Dot1Q": 0x8100, "IP": 0x0800, "IPv6": 0x86DD}
_PROTOCOLS: Final = {"UDP": 17, "TCP": 6}


@dataclass(frozen=True)
class Wanted:
    """One [[stream]]. `unit` and `rate`: as the profile has them; their shares are worked out together."""

    title: str
    frame_bytes: int
    unit: str  # "pps", "bps_L1", "bps_L2" or "percentage"
    rate: float
    values: Mapping[str, FieldNumbers]  # by key of [[stream]]
    order: Sequence[str] = ()
    flows: int = 1
    together: bool = False
    flags: Sequence[str] = ()  # of TCP; none: those that it has by default
    notes: Sequence[str] = ()  # in what it differs from the profile

    @property
    def fps(self) -> float:
        """Frames a second; of a percentage, relative to others."""
        bits = {"bps_L2": self.frame_bytes * 8, "pps": 1}.get(self.unit, wire_bits(self.frame_bytes))
        return self.rate / bits


def wanted(file: str, declared: Sequence[Stream]) -> list[Wanted]:
    """The enabled streams of a profile. Raises InputError with its line where one cannot be sent as it says."""
    try:
        return [_stream(number, stream) for number, stream in enumerate(declared) if stream.enabled]
    except ProfileLineError as error:
        raise InputError(f"{file}: line {error.line}: {error}", "docs/coming-from.md says what is taken") from error


def _stream(number: int, declared: Stream) -> Wanted:
    if declared.mode != "continuous":
        hint = 'measure = "burst" finds the longest burst without loss'
        raise ProfileLineError(declared.line, f"{declared.mode}: not supported: {_BURSTS}; {hint}")
    kinds = [layer.kind for layer in declared.layers if layer.kind != "Raw"]
    inner = kinds[2:] if kinds[:2] == ["Ether", "Dot1Q"] else kinds[1:]
    if kinds[:1] != ["Ether"] or len(inner) != 2 or inner[0] not in ("IP", "IPv6") or inner[1] not in _PROTOCOLS:
        expected = "expected Ether, perhaps Dot1Q, then IP or IPv6, then UDP or TCP"
        raise ProfileLineError(declared.line, f"{'/'.join(kinds)}: not supported: {expected}")
    asked = max(SHORTEST_BYTES, declared.bytes + FCS_BYTES)
    frame = max(asked, sum(HEADER_BYTES[kind] for kind in kinds) + SIGNATURE_BYTES + FCS_BYTES)
    notes = [f"starts {declared.start_us:g} us later there; here all start together"] if declared.start_us else []
    if frame > asked:
        notes.append(f"frames of {asked} bytes there; here they have room for the engine's signature")
    notes += _differences(declared, kinds)
    name = str(declared.name or f"stream {number + 1}")
    base = Wanted(
        name, frame, declared.unit, declared.rate, _values(declared), flags=_flags(declared), notes=notes
    )  # fmt: skip
    return _varied(base, declared)


def _values(declared: Stream) -> dict[str, FieldNumbers]:
    """What the packet says, before anything varies."""
    values: dict[str, FieldNumbers] = {}
    for layer in declared.layers:
        for name, row in FIELDS.get(layer.kind, {}).items():
            value = layer.values.get(name, row.default)
            if not row.key or value is None or value == "":
                continue
            try:
                number = row.form.number(value)
            except ValueError as error:
                told = f"{layer.kind}({name}={value!r}): expected {row.form.expected}"
                raise ProfileLineError(declared.line, told) from error
            _check_source(declared.line, row.key, FieldNumbers(number))
            values[row.key] = FieldNumbers(number)
    return values


def _check_source(line: int, key: str, values: FieldNumbers) -> None:
    """Raises ProfileLineError for source addresses that are a group's."""
    ends = values.first, values.last
    if key == "eth_src" and (any(end >> 40 & 1 for end in ends) or mixes_groups(*ends, values.step)):
        raise ProfileLineError(line, f"Ether.src {values.toml(key)}: expected unicast addresses")


def _flags(declared: Stream) -> Sequence[str]:
    letters = next((layer.values.get("flags") for layer in declared.layers if layer.kind == "TCP"), None)
    if letters is None or letters == "S":
        return ()
    if not isinstance(letters, str) or not letters or not set(letters) <= set(_FLAGS):
        raise ProfileLineError(declared.line, f"TCP(flags={letters!r}): expected letters of {''.join(_FLAGS)}")
    return [word for letter, word in _FLAGS.items() if letter in letters]


def _differences(declared: Stream, kinds: Sequence[str]) -> list[str]:
    """Raises ProfileLineError for values that frames of a stream cannot have."""
    types = {kind: (_ETHER_TYPES.get(after, 0), 0) for kind, after in pairwise(kinds)}
    only: dict[tuple[str, str], tuple[Any, ...]] = {
        ("IP", "tos"): (0,), ("IP", "flags"): (0, 2, "DF", ""), ("UDP", "chksum"): (0,), ("Dot1Q", "id"): (0,),
        ("IPv6", "tc"): (0,), ("IPv6", "fl"): (0,),
        **{(kind, "type"): values for kind, values in types.items()},
        **{(kind, name): (_PROTOCOLS[kinds[-1]],) for kind, name in (("IP", "proto"), ("IPv6", "nh"))},
    }  # fmt: skip
    filled = {("IP", "len"), ("IP", "chksum"), ("IPv6", "plen"), ("UDP", "len"), ("TCP", "chksum")}
    notes = []
    for layer in declared.layers:
        for name, value in layer.values.items():
            key = (layer.kind, name)
            if value is None:
                continue
            if key in filled or (key in only and value not in only[key]):
                expected = f"expected {only[key][0]}" if key in only else "it is filled in"
                raise ProfileLineError(declared.line, f"{layer.kind}({name}={value!r}): not supported: {expected}")
            if key == ("UDP", "chksum"):
                notes.append("UDP checksum 0 (none) there; here it is right")
    return notes


def _varied(base: Wanted, declared: Stream) -> Wanted:
    """With what the instructions vary."""
    variables = {step.name: step for step in declared.instructions if isinstance(step, Variable | Tuple)}
    used: dict[str, Variable | Tuple] = {}
    values, notes, moved = dict(base.values), list(base.notes), list[str]()
    for write in (step for step in declared.instructions if isinstance(step, Write)):
        name, _, part = write.fv_name.partition(".")
        variable = variables.get(write.fv_name) or variables.get(name)
        if variable is None:
            raise ProfileLineError(write.line, f"{write.fv_name}: no variable of this name")
        used[variable.name] = variable
        key, written = _written(write, variable, part, declared.layers, values)
        if key in moved:
            raise ProfileLineError(write.line, f"{write.pkt_offset!r}: {key} is written twice")
        values[key] = written
        moved.append(key)
        notes += _of_variable(variable, written)
    if pair := next((variable for variable in used.values() if isinstance(variable, Tuple)), None):
        return _of_tuple(replace(base, notes=notes), pair, values, moved, len(used))
    counts = [values[key].repeats for key in moved if values[key].count > 1]
    flows = math.lcm(*counts)
    if flows > MOST_FLOWS:
        repeat = f"the variables repeat after {flows} packets"
        raise ProfileLineError(declared.line, f"{repeat}, expected at most {MOST_FLOWS}")
    return replace(base, values=values, order=moved, flows=flows, together=len(counts) > 1, notes=notes)


def _of_variable(variable: Variable | Tuple, written: FieldNumbers) -> Iterator[str]:
    """In what its values differ from the profile's."""
    if isinstance(variable, Tuple):
        return
    begins = {"inc": variable.least, "dec": variable.most}.get(variable.op, variable.first)
    if variable.first not in (None, begins):
        yield f"{variable.name} begins with {variable.first} there, here with the first of its values"
    if written.is_random:
        yield f"{variable.name} is random there; here {written.drawn} random values repeat"


def _of_tuple(base: Wanted, pair: Tuple, values: Mapping[str, FieldNumbers], moved: Sequence[str], used: int) -> Wanted:
    ips = [key for key in moved if key in ("ipv4_src", "ipv4_dst")]
    ports = [key for key in moved if key.startswith(("udp", "tcp"))]
    if used > 1 or len(ips) != 1 or len(ports) > 1 or len(moved) > len(ips) + len(ports):
        expected = "expected a tuple alone, its ip written to one address, its port to one port at most"
        raise ProfileLineError(pair.line, f"{pair.name}: {expected}")
    product = math.prod(values[key].count for key in moved)
    flows = min(product, pair.limit_flows or product)
    if not 1 <= flows <= MOST_FLOWS:
        raise ProfileLineError(pair.line, f"{pair.name}: {flows} flows, expected 1 to {MOST_FLOWS}: lower limit_flows")
    return replace(base, values=values, order=[*ips, *ports], flows=flows)


def _written(
    write: Write, variable: Variable | Tuple, part: str, layers: Sequence[Layer], values: Mapping[str, FieldNumbers]
) -> tuple[str, FieldNumbers]:
    """The key of the field, and what it is from now on."""
    size, numbers = _numbers(write, variable, part)
    numbers = replace(numbers, first=numbers.first + write.add_val)
    try:
        where, row, behind = place(write.pkt_offset, write.offset_fixup, size, layers)
    except ValueError as error:
        raise ProfileLineError(write.line, str(error)) from error
    if not (row.key and row.varies):
        able = (
            f"{kind}.{name}" for kind, rows in FIELDS.items() for name, row in rows.items() if row.key and row.varies
        )
        raise ProfileLineError(write.line, f"{where} varies: not supported, expected one of {', '.join(able)}")
    if not write.is_big and size > 1:
        raise ProfileLineError(write.line, f"{where}: is_big=False: not supported")
    low, high = sorted((numbers.first, numbers.last))
    top, shift = (1 << 8 * size) - 1, 8 * behind
    if not 0 <= low <= high <= top:
        raise ProfileLineError(write.line, f"{where}: {low} to {high} does not fit into {size} bytes")
    if numbers.is_random and behind:
        raise ProfileLineError(write.line, f"{where}: random, and its last {behind} bytes are not: not supported")
    base = values[row.key].first if row.key in values else row.base
    first = base & ~(top << shift) | numbers.first << shift
    written = replace(numbers, first=first, step=numbers.step << shift)
    _check_range(write.line, where, row.key, written)
    return row.key, written


def _check_range(line: int, where: str, key: str, written: FieldNumbers) -> None:
    """Raises ProfileLineError for what no [[stream]] takes."""
    if max(written.first, written.last) > BY_KEY[key].form.most:
        raise ProfileLineError(line, f"{where}: {written.toml(key)}: expected {BY_KEY[key].form.expected}")
    if written.first >> 64 != written.last >> 64:
        raise ProfileLineError(line, f"{where}: the first 64 bits vary: not supported")
    _check_source(line, key, written)


def _numbers(write: Write, variable: Variable | Tuple, part: str) -> tuple[int, FieldNumbers]:
    """The size of what is written, and its numbers."""
    if isinstance(variable, Tuple):
        if part not in ("ip", "port"):
            raise ProfileLineError(write.line, f"{write.fv_name}: expected {variable.name}.ip or {variable.name}.port")
        size, least, most = (4, variable.ip_min, variable.ip_max) if part == "ip" else (
            2, variable.port_min, variable.port_max)  # fmt: skip
        if least > most:
            raise ProfileLineError(variable.line, f"{write.fv_name}: {least} to {most}: expected a range")
        return size, FieldNumbers(least, most - least + 1)
    name, line, (least, most) = variable.name, variable.line, (variable.least, variable.most)
    if least > most:
        raise ProfileLineError(line, f"{name}: {least} to {most}: expected min_value not above max_value")
    if variable.op == "random":
        count = most - least + 1
        return variable.size, FieldNumbers(least, count, is_random=count > 1, drawn=min(count, MOST_DRAWN))
    if variable.step < 1:
        raise ProfileLineError(line, f"{name}: step {variable.step}: expected 1 or more")
    count = (most - least) // variable.step + 1
    begin, step = (most, -variable.step) if variable.op == "dec" else (least, variable.step)
    if variable.first is not None and (not least <= variable.first <= most or (variable.first - begin) % variable.step):
        told = f"{name}: init_value {variable.first}: not supported, expected a value that is reached from {begin}"
        raise ProfileLineError(line, told)
    return variable.size, FieldNumbers(begin, count, step)


_VARIED: Final = {"ipv4.src": "ipv4_src", "ipv4.dst": "ipv4_dst"}
_FIXED: Final = (("ipv4_src", 26, 4), ("ipv4_dst", 30, 4), ("udp_src", 34, 2), ("udp_dst", 36, 2))
"""Keys of frames that are Ether/IP/UDP, the first byte of each field, and its bytes."""


class _Notes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """In what the engine's streams differ from the profile's: the first line of a dry run."""

    notes: tuple[Annotated[str, msgspec.Meta(max_length=10_000)], ...]


def of_captures(path: str, lab: Host, *, both_ways: bool = False) -> list[tuple[Wanted, bool]]:
    """The streams of a profile of captures, each with whether it is one of servers; these with `both_ways` alone.

    Raises InputError with the engine's words, which name the line.
    """
    ends = ("--from", "mem:left", "--to", "mem:right", *(("--both-ways",) if both_ways else ()))
    try:
        printed = lab.run((find_engine(lab), "send", *ends, "--dry-run", "--json", "--quiet", "--trex", path))
    except CommandFailed as error:
        raise InputError(error.output.removeprefix("error: ").removeprefix("--trex ")) from error
    first, *_, last = printed.splitlines()
    notes, run = msgspec.json.decode(first, type=_Notes).notes, msgspec.json.decode(last, type=protocol.Run)
    directed = [
        (_captured(path, number, stream), stream.tx_port != run.streams[0].tx_port)
        for number, stream in enumerate(run.streams, 1)
    ]
    (client, is_back), *others = directed
    return [(replace(client, notes=notes), is_back), *others]


def _captured(path: str, number: int, stream: StreamRequest) -> Wanted:
    frame = _frame(path, stream)
    size = stream.size.fixed if isinstance(stream.size.fixed, int) else 0
    rate = stream.rate.fps if stream.rate is not None and isinstance(stream.rate.fps, float | int) else 0.0
    values = {key: FieldNumbers(int.from_bytes(frame[at : at + length], "big")) for key, at, length in _FIXED}
    order = []
    for key, count in _varying(path, stream):
        values[key] = FieldNumbers(values[key].first, count)
        order.append(key)
    return Wanted(f"frame {number} of the captures", size, "pps", rate, values, order, stream.flows)


def _frame(path: str, stream: StreamRequest) -> bytes:
    try:
        frame = base64.b64decode(stream.template.frame, validate=True) if stream.template.frame is not UNSET else b""
    except binascii.Error:
        frame = b""
    # Ethernet II with IPv4 without options, UDP behind it (RFC 791).
    least = HEADER_BYTES["Ether"] + HEADER_BYTES["IP"] + HEADER_BYTES["UDP"]
    if len(frame) < least or frame[12:15] != b"\x08\x00\x45" or frame[23] != _PROTOCOLS["UDP"]:
        raise InputError(f"{path}: a frame that is not Ether/IP/UDP: no VLAN tag and no options are taken of captures")
    return frame


def _varying(path: str, stream: StreamRequest) -> Iterator[tuple[str, int]]:
    for program in stream.fields:
        counter = program.op.increment
        if program.field not in _VARIED or counter is UNSET or counter.step != 1:
            raise InputError(f"{path}: {program.field} varies in a way that a [[stream]] does not")
        yield _VARIED[program.field], counter.count


LEAST_SHARE, MOST_SHARE = 0.001, 1000.0  # of a [[stream]]
BENCH: Final = """\
# No device yet: the ports are joined. Put a device here, or import with --bench SCENARIO.
[dut]
kind = "wire"

[[port]]
name = "{left}"

[[port]]
name = "{right}"
"""
_HEADER: Final = re.compile(r"\s*\[\[?\s*([\w-]+)[^\]]*\]")


def scenario(title: str, bench: str, streams: Sequence[tuple[Wanted, str, str]]) -> str:
    """A whole scenario: a bench's text without its streams, and these, each with the ports that it goes from and to.

    Raises InputError if there is none, or if their rates have no common measure.
    """
    if not streams:
        raise InputError(f"{title}: it has no stream")
    shares = _shares(title, [stream for stream, _, _ in streams])
    tables = ["\n".join(_lines(*ends, share)) + "\n" for ends, share in zip(streams, shares, strict=True)]
    return "\n".join((_without_streams(bench).rstrip("\n") + "\n", *tables))


def _shares(title: str, streams: Sequence[Wanted]) -> list[float]:
    units = {wanted.unit == "percentage" for wanted in streams}
    if len(units) > 1:
        expected = "expected one of them, since the port's speed is unknown"
        raise InputError(f"{title}: percentages and other rates: {expected}")
    rates = [wanted.fps for wanted in streams]
    scale = 1.0 if min(rates) >= LEAST_SHARE and max(rates) <= MOST_SHARE else MOST_SHARE / max(rates)
    if min(rates) * scale < LEAST_SHARE:
        raise InputError(f"{title}: rates of {min(rates):g} and {max(rates):g}: expected within a factor of 1,000,000")
    return [rate * scale for rate in rates]


def _lines(stream: Wanted, left: str, right: str, share: float) -> Iterator[str]:
    yield from (f"# {plain(text)}" for text in (f"{stream.title}: {stream.rate:g} {stream.unit}", *stream.notes))
    yield from ("[[stream]]", f'from = "{left}"', f'to = "{right}"', f"frame_bytes = {stream.frame_bytes}")
    yield f"share = {share:.10g}"
    yield from (f"{key} = {values.toml(key)}" for key, values in stream.values.items())
    if stream.flags:
        yield f"tcp_flags = {json.dumps(list(stream.flags))}"
    if stream.order:
        yield f"order = {json.dumps(list(stream.order))}"
    yield f"flows = {stream.flows}"
    if stream.together:
        yield "together = true"


def _without_streams(bench: str) -> str:
    """The text without its [[stream]] tables, and without the comments that stand directly above them."""
    blocks, names = [list[str]()], [""]  # one for each table, with the comments above it
    for line in bench.splitlines():
        if header := _HEADER.match(line):
            blocks.append(_comment_above(blocks[-1]))
            names.append(header[1])
        blocks[-1].append(line)
    kept = [line for name, block in zip(names, blocks, strict=True) if name != "stream" for line in block]
    return "\n".join(kept) + "\n"


def _comment_above(lines: list[str]) -> list[str]:
    """Takes the comment and empty lines away that a text ends with."""
    comment: list[str] = []
    while lines and (not lines[-1].strip() or lines[-1].startswith("#")):
        comment.insert(0, lines.pop())
    return comment

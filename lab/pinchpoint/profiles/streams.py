"""The streams of a profile as [[stream]] tables: UDP over IPv4, ranges of addresses and ports; else it is refused.

A profile in Python has declared them; one of captures (YAML) the engine reads, and says them as lines of the protocol.
"""

import base64
import binascii
import ipaddress
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import msgspec
from msgspec import UNSET

from pinchpoint.engine import protocol
from pinchpoint.engine.process import find_engine
from pinchpoint.engine.streams import StreamRequest
from pinchpoint.host.interface import CommandFailed, Host
from pinchpoint.model.errors import InputError
from pinchpoint.model.headers import FCS_BYTES, MOST_FLOWS, SHORTEST_BYTES
from pinchpoint.model.scenario import Range
from pinchpoint.model.units import wire_bits
from pinchpoint.profiles.declared import Layer, Stream, Tuple, Variable, Write, plain
from pinchpoint.profiles.stl import ProfileLineError

_KEYS: Final = {"IP.src": "ipv4_src", "IP.dst": "ipv4_dst", "UDP.sport": "udp_src", "UDP.dport": "udp_dst"}
_MAC: Final = re.compile(r"([0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}")
_BURSTS: Final = "bursts have an end, a [[stream]] has none"


@dataclass(frozen=True)
class Wanted:
    """One [[stream]]. `unit` and `rate`: as the profile has them; their shares are worked out together."""

    title: str
    frame_bytes: int
    unit: str  # "pps", "bps_L1", "bps_L2" or "percentage"
    rate: float
    spans: Mapping[str, Range]  # by key of the scenario: ipv4_src, ipv4_dst, udp_src, udp_dst
    order: Sequence[str] = ()
    flows: int = 1
    together: bool = False
    macs: Mapping[str, str] = field(default_factory=dict)  # eth_src, eth_dst
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
    frame = max(SHORTEST_BYTES, declared.bytes + FCS_BYTES)
    notes = [f"starts {declared.start_us:g} us later there; here all start together"] if declared.start_us else []
    kinds = [layer.kind for layer in declared.layers if layer.kind != "Raw"]
    if kinds != ["Ether", "IP", "UDP"]:
        raise ProfileLineError(declared.line, f"{'/'.join(kinds)}: not supported: a [[stream]] is Ether/IP/UDP")
    name = str(declared.name or f"stream {number + 1}")
    base = Wanted(name, frame, declared.unit, declared.rate, _spans(declared), notes=notes)
    return _varied(replace(base, macs=_macs(declared), notes=(*notes, *_differences(declared))), declared)


def _value(declared: Stream, layer: str, name: str, default: Any = None) -> Any:
    return next((part.values[name] for part in declared.layers if part.kind == layer and name in part.values), default)


def _spans(declared: Stream) -> dict[str, Range]:
    spans = {}
    for where, key in _KEYS.items():
        layer, name = where.split(".")
        value = _value(declared, layer, name, "127.0.0.1" if layer == "IP" else 53)
        try:
            number = int(ipaddress.IPv4Address(value)) if layer == "IP" else int(value)
        except (ValueError, TypeError):
            number = -1
        if number < 0 or (layer == "UDP" and number > 0xFFFF):
            expected = "an IPv4 address" if layer == "IP" else "a port from 0 to 65535"
            raise ProfileLineError(declared.line, f"{layer}({name}={value!r}): expected {expected}")
        spans[key] = Range(number, 1)
    return spans


def _macs(declared: Stream) -> dict[str, str]:
    macs = {}
    for name in ("src", "dst"):
        value = _value(declared, "Ether", name)
        if value:
            if not isinstance(value, str) or not _MAC.fullmatch(value):
                raise ProfileLineError(declared.line, f"Ether({name}={value!r}): expected an Ethernet address")
            if name == "src" and int(value[:2], 16) & 1:
                raise ProfileLineError(declared.line, f"Ether(src={value!r}): expected a unicast address")
            macs[f"eth_{name}"] = value.lower()
    return macs


def _differences(declared: Stream) -> list[str]:
    """Raises ProfileLineError for values that frames of a stream cannot have."""
    only = {
        ("Ether", "type"): (0x0800, 0), ("IP", "ttl"): (64,), ("IP", "tos"): (0,), ("IP", "proto"): (17,),
        ("IP", "flags"): (0, 2, "DF", ""), ("UDP", "chksum"): (0,),
    }  # fmt: skip
    filled = {("IP", "len"), ("IP", "chksum"), ("UDP", "len")}
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
    spans = dict(base.spans)
    moved: list[str] = []
    for write in (step for step in declared.instructions if isinstance(step, Write)):
        name, _, part = write.fv_name.partition(".")
        variable = variables.get(write.fv_name) or variables.get(name)
        if variable is None:
            raise ProfileLineError(write.line, f"{write.fv_name}: no variable of this name")
        used[variable.name] = variable
        key, span = _written(write, variable, part, declared.layers, spans)
        if key in moved:
            raise ProfileLineError(write.line, f"{write.pkt_offset!r}: {key} is written twice")
        spans[key] = span
        moved.append(key)
    if pair := next((variable for variable in used.values() if isinstance(variable, Tuple)), None):
        return _of_tuple(base, pair, spans, moved, len(used))
    counts = [spans[key].count for key in moved if spans[key].count > 1]
    flows = math.lcm(*counts)
    if flows > MOST_FLOWS:
        repeat = f"the variables repeat after {flows} packets"
        raise ProfileLineError(declared.line, f"{repeat}, expected at most {MOST_FLOWS}")
    return replace(base, spans=spans, order=moved, flows=flows, together=len(counts) > 1)


def _of_tuple(base: Wanted, pair: Tuple, spans: Mapping[str, Range], moved: Sequence[str], used: int) -> Wanted:
    ips, ports = [key for key in moved if key.startswith("ipv4")], [key for key in moved if key.startswith("udp")]
    if used > 1 or len(ips) != 1 or len(ports) > 1:
        expected = "expected a tuple alone, its ip written to one address, its port to one port at most"
        raise ProfileLineError(pair.line, f"{pair.name}: {expected}")
    product = math.prod(spans[key].count for key in moved)
    flows = min(product, pair.limit_flows or product)
    if not 1 <= flows <= MOST_FLOWS:
        raise ProfileLineError(pair.line, f"{pair.name}: {flows} flows, expected 1 to {MOST_FLOWS}: lower limit_flows")
    return replace(base, spans=spans, order=[*ips, *ports], flows=flows)


def _written(
    write: Write, variable: Variable | Tuple, part: str, layers: Sequence[Layer], spans: Mapping[str, Range]
) -> tuple[str, Range]:
    size, least, most = _values(write, variable, part)
    least, most = least + write.add_val, most + write.add_val
    try:
        where, behind = _place(write.pkt_offset, write.offset_fixup, size, layers)
    except ValueError as error:
        raise ProfileLineError(write.line, str(error)) from error
    key = _KEYS.get(where)
    if key is None:
        raise ProfileLineError(write.line, f"{where} varies: not supported, expected {', '.join(_KEYS)}")
    if behind:
        raise ProfileLineError(write.line, f"{where}: its last {behind} bytes are not written: not supported")
    if not write.is_big:
        raise ProfileLineError(write.line, f"{where}: is_big=False: not supported")
    top = (1 << 8 * size) - 1
    if not 0 <= least <= most <= top:
        raise ProfileLineError(write.line, f"{where}: {least} to {most} does not fit into {size} bytes")
    return key, Range(spans[key].first & ~top | least, most - least + 1)


def _values(write: Write, variable: Variable | Tuple, part: str) -> tuple[int, int, int]:
    """Size, least and greatest value of what is written."""
    if isinstance(variable, Tuple):
        if part not in ("ip", "port"):
            raise ProfileLineError(write.line, f"{write.fv_name}: expected {variable.name}.ip or {variable.name}.port")
        if part == "ip":
            return 4, variable.ip_min, variable.ip_max
        return 2, variable.port_min, variable.port_max
    name, line = variable.name, variable.line
    if variable.op != "inc":
        raise ProfileLineError(line, f"{name}: op {variable.op!r}: not supported, expected 'inc'")
    if variable.step != 1:
        raise ProfileLineError(line, f"{name}: step {variable.step}: not supported, expected 1")
    if variable.first not in (None, variable.least):
        raise ProfileLineError(line, f"{name}: init_value {variable.first}: not supported, expected min_value")
    return variable.size, variable.least, variable.most


# Field -> its first byte and its length: IEEE 802.3, RFC 791, RFC 768.
_FIELDS: Final[Mapping[str, Mapping[str, tuple[int, int]]]] = {
    "Ether": {"dst": (0, 6), "src": (6, 6), "type": (12, 2)},
    "IP": {
        "tos": (1, 1), "len": (2, 2), "id": (4, 2), "ttl": (8, 1), "proto": (9, 1), "chksum": (10, 2), "src": (12, 4),
        "dst": (16, 4),
    },
    "UDP": {"sport": (0, 2), "dport": (2, 2), "len": (4, 2), "chksum": (6, 2)},
}  # fmt: skip
HEADER_BYTES: Final = {"Ether": 14, "IP": 20, "UDP": 8}
_NAMED: Final = re.compile(r"(\w+)(?::(\d+))?(?:\.(\w+))?")


def _place(offset: int | str, fixup: int, size: int, layers: Sequence[Layer]) -> tuple[str, int]:
    """The field that holds `size` bytes at an offset in packets of these layers, and how many of its bytes follow them.

    Raises ValueError with what is wrong.
    """
    first = (offset if isinstance(offset, int) else _named(offset, layers)) + fixup
    start = 0
    for layer in layers:
        for name, (at, length) in _FIELDS.get(layer.kind, {}).items():
            begin = start + at
            if begin <= first and first + size <= begin + length:
                return f"{layer.kind}.{name}", begin + length - first - size
        start += HEADER_BYTES.get(layer.kind, 0)
    raise ValueError(f"{size} bytes at offset {first} are not within one field of {_words(layers)}")


def _named(text: str, layers: Sequence[Layer]) -> int:
    match = _NAMED.fullmatch(text)
    name, nth, field = match.groups() if match else ("", None, None)
    start, seen = 0, 0
    for layer in layers:
        if layer.kind == name:
            if seen == int(nth or 0):
                fields = _FIELDS.get(name, {})
                if field and field not in fields:
                    raise ValueError(f"{text!r}: expected one of {', '.join(f'{name}.{field}' for field in fields)}")
                return start + (fields[field][0] if field else 0)
            seen += 1
        start += HEADER_BYTES.get(layer.kind, 0)
    raise ValueError(f"{text!r} is no field of {_words(layers)}")


def _words(layers: Sequence[Layer]) -> str:
    return "/".join(layer.kind for layer in layers)


_VARIED: Final = {"ipv4.src": "ipv4_src", "ipv4.dst": "ipv4_dst"}


def of_captures(path: str, lab: Host) -> list[Wanted]:
    """The streams of a profile of captures. Raises InputError with the engine's words, which name the line."""
    ends = ("--from", "mem:left", "--to", "mem:right")
    try:
        printed = lab.run((find_engine(lab), "send", *ends, "--dry-run", "--quiet", "--trex", path))
    except CommandFailed as error:
        raise InputError(error.output.removeprefix("error: ").removeprefix("--trex ")) from error
    run = msgspec.json.decode(printed.splitlines()[-1], type=protocol.Run)
    return [_captured(path, number, stream) for number, stream in enumerate(run.streams, 1)]


def _captured(path: str, number: int, stream: StreamRequest) -> Wanted:
    frame = _frame(path, stream)
    size = stream.size.fixed if isinstance(stream.size.fixed, int) else 0
    rate = stream.rate.fps if stream.rate is not None and isinstance(stream.rate.fps, float | int) else 0.0
    spans = {
        key: Range(int.from_bytes(frame[at : at + length], "big"), 1)
        for key, at, length in (("ipv4_src", 26, 4), ("ipv4_dst", 30, 4), ("udp_src", 34, 2), ("udp_dst", 36, 2))
    }
    order = []
    for key, count in _varying(path, stream):
        spans[key] = Range(spans[key].first, count)
        order.append(key)
    return Wanted(f"frame {number} of the captures", size, "pps", rate, spans, order, stream.flows)


def _frame(path: str, stream: StreamRequest) -> bytes:
    try:
        frame = base64.b64decode(stream.template.frame, validate=True) if stream.template.frame is not UNSET else b""
    except binascii.Error:
        frame = b""
    # Ethernet II with IPv4 without options, UDP behind it (RFC 791).
    if len(frame) < sum(HEADER_BYTES.values()) or frame[12:15] != b"\x08\x00\x45" or frame[23] != 17:
        raise InputError(f"{path}: a frame that is not Ether/IP/UDP: a [[stream]] has no VLAN tag and no options")
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
    yield from (f"{key} = {json.dumps(value)}" for key, value in stream.macs.items())
    for key in _KEYS.values():
        yield f"{key} = {_range(key, stream.spans[key])}"
    if stream.order:
        yield f"order = {json.dumps(list(stream.order))}"
    yield f"flows = {stream.flows}"
    if stream.together:
        yield "together = true"


def _range(key: str, span: Range) -> str:
    if key.startswith("ipv4"):
        return f'"{span.as_addresses()}"'
    return f'"{span.first}-{span.last}"' if span.count > 1 else str(span.first)


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

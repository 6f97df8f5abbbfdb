"""The streams of a profile as those of a scenario: UDP over IPv4, ranges of addresses and ports; else it is refused."""

import ipaddress
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from pinchpoint.model.errors import InputError
from pinchpoint.profiles.declared import Layer, Stream, Tuple, Variable, Write

FCS_BYTES: Final = 4
LEAST_BYTES: Final = 64
WIRE_BYTES: Final = 20  # preamble, start of frame delimiter and gap (IEEE 802.3 clause 4.4.2)
MOST_FLOWS: Final = 16_777_216  # of a [[stream]]
_KEYS: Final = {"IP.src": "ipv4_src", "IP.dst": "ipv4_dst", "UDP.sport": "udp_src", "UDP.dport": "udp_dst"}
_MAC: Final = re.compile(r"([0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}")
_BURSTS: Final = "bursts have an end, a [[stream]] has none"


@dataclass(frozen=True)
class Span:
    """Values in a row, the first and how many."""

    first: int
    count: int = 1


@dataclass(frozen=True)
class Wanted:
    """One [[stream]]. `unit` and `rate`: as the profile has them; their shares are worked out together."""

    title: str
    frame_bytes: int
    unit: str  # "pps", "bps_L1", "bps_L2" or "percentage"
    rate: float
    spans: Mapping[str, Span]  # by key of the scenario: ipv4_src, ipv4_dst, udp_src, udp_dst
    order: Sequence[str] = ()
    flows: int = 1
    together: bool = False
    macs: Mapping[str, str] = field(default_factory=dict)  # eth_src, eth_dst
    notes: Sequence[str] = ()  # in what it differs from the profile

    @property
    def fps(self) -> float:
        """Frames a second; of a percentage, relative to others."""
        bits = {"bps_L2": self.frame_bytes * 8, "pps": 1}.get(self.unit, (self.frame_bytes + WIRE_BYTES) * 8)
        return self.rate / bits


class _RefusedError(Exception):
    """What no stream does, and on which line."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line


def wanted(file: str, declared: Sequence[Stream]) -> list[Wanted]:
    """The enabled streams of a profile. Raises InputError with its line where one cannot be sent as it says."""
    try:
        return [_stream(number, stream) for number, stream in enumerate(declared) if stream.enabled]
    except _RefusedError as error:
        raise InputError(f"{file}: line {error.line}: {error}", "docs/coming-from.md says what is taken") from error


def _stream(number: int, declared: Stream) -> Wanted:
    if declared.mode != "continuous":
        hint = 'measure = "burst" finds the longest burst without loss'
        raise _RefusedError(declared.line, f"{declared.mode}: not supported: {_BURSTS}; {hint}")
    frame = max(LEAST_BYTES, declared.bytes + FCS_BYTES)
    notes = [f"starts {declared.start_us:g} us later there; here all start together"] if declared.start_us else []
    kinds = [layer.kind for layer in declared.layers if layer.kind != "Raw"]
    if kinds != ["Ether", "IP", "UDP"]:
        raise _RefusedError(declared.line, f"{'/'.join(kinds)}: not supported: a [[stream]] is Ether/IP/UDP")
    base = Wanted(
        str(declared.name or f"stream {number + 1}"), frame, declared.unit, declared.rate, _spans(declared), notes=notes
    )
    return _varied(replace(base, macs=_macs(declared), notes=(*notes, *_differences(declared))), declared)


def _value(declared: Stream, layer: str, name: str, default: Any = None) -> Any:
    return next((part.values[name] for part in declared.layers if part.kind == layer and name in part.values), default)


def _spans(declared: Stream) -> dict[str, Span]:
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
            raise _RefusedError(declared.line, f"{layer}({name}={value!r}): expected {expected}")
        spans[key] = Span(number)
    return spans


def _macs(declared: Stream) -> dict[str, str]:
    macs = {}
    for name in ("src", "dst"):
        value = _value(declared, "Ether", name)
        if value:
            if not isinstance(value, str) or not _MAC.fullmatch(value):
                raise _RefusedError(declared.line, f"Ether({name}={value!r}): expected an Ethernet address")
            if name == "src" and int(value[:2], 16) & 1:
                raise _RefusedError(declared.line, f"Ether(src={value!r}): expected a unicast address")
            macs[f"eth_{name}"] = value.lower()
    return macs


def _differences(declared: Stream) -> list[str]:
    """Raises _RefusedError for values that frames of a stream cannot have."""
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
                raise _RefusedError(declared.line, f"{layer.kind}({name}={value!r}): not supported: {expected}")
            if key == ("UDP", "chksum"):
                notes.append("UDP checksum 0 (none) there; here it is right")
    return notes


def _varied(base: Wanted, declared: Stream) -> Wanted:
    """With what the instructions vary."""
    variables = {
        instruction.name: instruction
        for instruction in declared.instructions
        if isinstance(instruction, Variable | Tuple)
    }
    writes = [instruction for instruction in declared.instructions if isinstance(instruction, Write)]
    used: dict[str, Variable | Tuple] = {}
    spans = dict(base.spans)
    moved: list[str] = []
    for write in writes:
        name, _, part = write.fv_name.partition(".")
        variable = variables.get(write.fv_name) or variables.get(name)
        if variable is None:
            raise _RefusedError(write.line, f"{write.fv_name}: no variable of this name")
        used[variable.name] = variable
        key, span = _written(write, variable, part, declared.layers, spans)
        if key in moved:
            raise _RefusedError(write.line, f"{write.pkt_offset!r}: {key} is written twice")
        spans[key] = span
        moved.append(key)
    tuples = [instruction for instruction in used.values() if isinstance(instruction, Tuple)]
    if tuples:
        return _of_tuple(base, tuples[0], spans, moved, len(used))
    counts = [spans[key].count for key in moved if spans[key].count > 1]
    flows = math.lcm(*counts)
    if flows > MOST_FLOWS:
        raise _RefusedError(declared.line, f"the variables repeat after {flows} packets, expected at most {MOST_FLOWS}")
    return replace(base, spans=spans, order=moved, flows=flows, together=len(counts) > 1)


def _of_tuple(base: Wanted, pair: Tuple, spans: Mapping[str, Span], moved: Sequence[str], used: int) -> Wanted:
    ips, ports = [key for key in moved if key.startswith("ipv4")], [key for key in moved if key.startswith("udp")]
    if used > 1 or len(ips) != 1 or len(ports) > 1:
        raise _RefusedError(
            pair.line,
            f"{pair.name}: expected a tuple alone, its ip written to one address, its port to one port at most",
        )
    product = math.prod(spans[key].count for key in moved)
    flows = min(product, pair.limit_flows or product)
    if not 1 <= flows <= MOST_FLOWS:
        raise _RefusedError(pair.line, f"{pair.name}: {flows} flows, expected 1 to {MOST_FLOWS}: lower limit_flows")
    return replace(base, spans=spans, order=[*ips, *ports], flows=flows)


def _written(
    write: Write, variable: Variable | Tuple, part: str, layers: Sequence[Layer], spans: Mapping[str, Span]
) -> tuple[str, Span]:
    size, least, most = _values(write, variable, part)
    least, most = least + write.add_val, most + write.add_val
    try:
        where = place(write.pkt_offset, write.offset_fixup, size, layers)
    except ValueError as error:
        raise _RefusedError(write.line, str(error)) from error
    key = _KEYS.get(where.field)
    if key is None:
        raise _RefusedError(write.line, f"{where.field} varies: not supported, expected {', '.join(_KEYS)}")
    if where.behind:
        raise _RefusedError(write.line, f"{where.field}: its last {where.behind} bytes are not written: not supported")
    if not write.is_big:
        raise _RefusedError(write.line, f"{where.field}: is_big=False: not supported")
    top = (1 << 8 * size) - 1
    if not 0 <= least <= most <= top:
        raise _RefusedError(write.line, f"{where.field}: {least} to {most} does not fit into {size} bytes")
    return key, Span(spans[key].first & ~top | least, most - least + 1)


def _values(write: Write, variable: Variable | Tuple, part: str) -> tuple[int, int, int]:
    """Size, least and greatest value of what is written."""
    if isinstance(variable, Tuple):
        if part not in ("ip", "port"):
            raise _RefusedError(write.line, f"{write.fv_name}: expected {variable.name}.ip or {variable.name}.port")
        if part == "ip":
            return 4, variable.ip_min, variable.ip_max
        return 2, variable.port_min, variable.port_max
    span = variable
    if span.op != "inc":
        raise _RefusedError(span.line, f"{span.name}: op {span.op!r}: not supported, expected 'inc'")
    if span.step != 1:
        raise _RefusedError(span.line, f"{span.name}: step {span.step}: not supported, expected 1")
    if span.first not in (None, span.least):
        raise _RefusedError(span.line, f"{span.name}: init_value {span.first}: not supported, expected min_value")
    return span.size, span.least, span.most


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


@dataclass(frozen=True)
class Place:
    """A field, and which of its bytes are written."""

    field: str  # e.g. "IP.src"
    bytes: int  # of the field
    behind: int  # bytes of the field after those that are written


def place(offset: int | str, fixup: int, size: int, layers: Sequence[Layer]) -> Place:
    """What `size` bytes at an offset are in packets of these layers. Raises ValueError with what is wrong."""
    first = (offset if isinstance(offset, int) else _named(offset, layers)) + fixup
    start = 0
    for layer in layers:
        for name, (at, length) in _FIELDS.get(layer.kind, {}).items():
            begin = start + at
            if begin <= first and first + size <= begin + length:
                return Place(f"{layer.kind}.{name}", length, begin + length - first - size)
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

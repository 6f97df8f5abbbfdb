"""The streams that a profile in Python declares as [[stream]] tables: Ethernet, VLAN tags, MPLS, IP, UDP, TCP or ICMP,
VXLAN; else it is refused. `captured` has those of captures.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final

from pinchpoint.model.errors import InputError
from pinchpoint.model.headers import (
    FCS_BYTES,
    MOST_FLOWS,
    MOST_LISTED,
    SHORTEST_BYTES,
    SIGNATURE_BYTES,
    mixes_groups,
)
from pinchpoint.model.units import wire_bits
from pinchpoint.profiles.declared import Layer, MaskedWrite, Stream, Trim, Tuple, Variable, Write
from pinchpoint.profiles.fields import (
    FIELDS,
    IN_LAYERS,
    FieldNumbers,
    header_bytes,
    key_in,
    place,
    row_of,
)
from pinchpoint.profiles.stl import ProfileLineError

MOST_DRAWN: Final = 65_536  # random numbers before they repeat
LARGEST_BYTES: Final = 9022  # of a frame that plain devices take
MOST_SIZES: Final = 64  # of a stream
_STACK: Final = re.compile(
    r"(?:Ether(?:/Dot1Q)*/(?:IPv6|IP)/UDP/VXLAN/)?Ether(?:/Dot1Q)*(?:/MPLS)*"
    r"(?:/IP/ICMP|(?:/(?:(?:IP/)?IPv6|IP)(?:/(?:UDP|TCP))?)?)"
)
_EXPECTED: Final = "expected Ether, perhaps Dot1Q and MPLS, IP, IPv6 or both, then UDP, TCP or ICMP; or that in VXLAN"
_LENGTHS: Final = frozenset({"IP.len", "IPv6.plen", "UDP.len"})  # which follow a packet's size
_FLAGS: Final = {"F": "fin", "S": "syn", "R": "rst", "P": "psh", "A": "ack", "U": "urg", "E": "ece", "C": "cwr"}
_ETHER_TYPES: Final = {"Dot1Q": 0x8100, "MPLS": 0x8847, "IP": 0x0800, "IPv6": 0x86DD}
_PROTOCOLS: Final = {"UDP": 17, "TCP": 6, "ICMP": 1}
_CARRIED: Final = {**_PROTOCOLS, "IPv6": 41}  # RFC 4213
_VXLAN_PORT: Final = 4789  # RFC 7348, 8


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
    flags: Sequence[str] | None = None  # of TCP; None: those that it has by default
    notes: Sequence[str] = ()  # in what it differs from the profile
    sizes: tuple[int, int] | None = None  # random ones, whose mean is `frame_bytes`
    mix: Sequence[tuple[int, int]] = ()  # sizes with their weights, in the place of `frame_bytes`
    burst: int = 1  # frames that are due together
    gap_s: float = 0.0  # between two of these
    kinds: Sequence[str] = ()  # of headers, where keys of [[stream]] do not say them; none: they do

    @property
    def fps(self) -> float:
        """Frames a second, the gaps between bursts included; of a percentage, relative to others."""
        bits = {"bps_L2": self.frame_bytes * 8, "pps": 1}.get(self.unit, wire_bits(self.frame_bytes))
        rate = self.rate / bits
        return rate / (1 + self.gap_s * rate / self.burst)


def wanted(file: str, declared: Sequence[Stream], captured: Callable[[Stream], Wanted]) -> list[Wanted]:
    """The enabled streams of a profile; `captured` makes those whose packet is a capture.

    Raises InputError with its line where one cannot be sent as it says.
    """
    try:
        return [
            _timed(captured(stream) if stream.capture else _stream(stream), number, stream)
            for number, stream in enumerate(declared)
            if stream.enabled
        ]
    except ProfileLineError as error:
        raise InputError(f"{file}: line {error.line}: {error}", "docs/coming-from.md says what is taken") from error


def _timed(base: Wanted, number: int, declared: Stream) -> Wanted:
    """With what the profile says of its course."""
    return replace(
        base, title=str(declared.name or f"stream {number + 1}"), unit=declared.unit, rate=declared.rate,
        burst=declared.burst, gap_s=0.0 if declared.unit == "percentage" else declared.gap_us * 1e-6,
        notes=[*_course(declared), *base.notes],
    )  # fmt: skip


def _stream(declared: Stream) -> Wanted:
    kinds = [layer.kind for layer in declared.layers if layer.kind != "Raw"]
    stack = "/".join(kinds)
    if not _STACK.fullmatch(stack):
        raise ProfileLineError(declared.line, f"{stack}: not supported: {_EXPECTED}")
    asked = max(SHORTEST_BYTES, declared.bytes + FCS_BYTES)
    least = sum(map(header_bytes, declared.layers)) + SIGNATURE_BYTES + FCS_BYTES
    frame, told = frame_bytes(asked, least)
    if declared.bytes + FCS_BYTES < asked == frame:
        told = [f"packets of {declared.bytes} bytes there, padded; here their headers count the padding"]
    notes = [*told, *_differences(declared, kinds)]
    values = _values(declared)
    base = Wanted(
        "", frame, declared.unit, declared.rate, values, flags=_flags(declared), notes=notes,
        kinds=() if _are_keys(kinds, values) else kinds,
    )  # fmt: skip
    return _sized(_varied(base, declared), declared, least)


def frame_bytes(asked: int, least: int) -> tuple[int, list[str]]:
    """The size of frames, with the note where it is not the one that a profile asks for."""
    frame = min(max(asked, least), LARGEST_BYTES)
    here = "they have room for the engine's signature" if frame > asked else "the largest that most devices take"
    return frame, [f"frames of {asked} bytes there; here {here}"] if frame != asked else []


def _are_keys(kinds: Sequence[str], values: Mapping[str, FieldNumbers]) -> bool:
    """Whether keys of [[stream]] say these headers, each once, and all of their values."""
    is_plain = len(set(kinds)) == len(kinds) and kinds[-1] in _PROTOCOLS and not {"IP", "IPv6"} <= set(kinds)
    return is_plain and IN_LAYERS.keys().isdisjoint(values)


def _course(declared: Stream) -> Iterator[str]:
    """When it begins and ends there: here all streams are sent for the whole of a trial."""
    if declared.start_us:
        yield f"starts {declared.start_us:g} us later there; here all start together"
    if declared.waits:
        yield "begins when another stream ends there; here all are sent at the same time"
    if declared.packets:
        yield f"ends after {declared.packets} packets there; here it does not end before the trial"
    if declared.gap_us and declared.unit == "percentage":
        yield f"{declared.gap_us:g} us between bursts there; here the gaps follow from the load"


def _sized(base: Wanted, declared: Stream, least: int) -> Wanted:
    """With the sizes that packets are cut to."""
    trim = next((step for step in declared.instructions if isinstance(step, Trim)), None)
    if trim is None:
        return base
    named = (step for step in declared.instructions if isinstance(step, Variable) and step.name == trim.fv_name)
    variable = next(named, None)
    if variable is None:
        raise ProfileLineError(trim.line, f"{trim.fv_name}: no variable of this name")
    ends = _in_order(variable) if variable.values else (variable.least, variable.most)
    lengths = [min(max(size + FCS_BYTES, least), LARGEST_BYTES) for size in ends]
    low, high, mix = min(lengths), max(lengths), tuple(Counter(lengths).items())
    notes = [*base.notes, f"sizes of {min(ends) + FCS_BYTES} to {max(ends) + FCS_BYTES} bytes there"]
    if variable.values and 1 < len(mix) <= MOST_SIZES:
        if len(mix) < len(lengths) or variable.op == "random":
            order = "at random" if variable.op == "random" else "in the order of a list"
            notes.append(f"sizes come {order} there; here one after the other")
        return replace(base, frame_bytes=sum(lengths) // len(lengths), mix=mix, notes=notes)
    if variable.op != "random":
        notes.append("sizes go up or down in steps there; here they are random")
    sizes = (low, high) if low < high else None
    return replace(base, frame_bytes=(low + high) // 2, sizes=sizes, notes=notes)


def _values(declared: Stream) -> dict[str, FieldNumbers]:
    """What the packet says, before anything varies."""
    values: dict[str, FieldNumbers] = {}
    seen = Counter[str]()
    for layer, after in pairwise((*declared.layers, None)):
        assert layer is not None
        written = dict(layer.values)
        if layer.kind == "UDP" and after is not None and after.kind == "VXLAN":
            written = {"dport": _VXLAN_PORT, **written}
        if layer.kind == "IP":
            written["whole"] = int(written.get("flags") in (2, "DF"))
            if after is None or after.kind not in _CARRIED:  # scapy says 0; the engine would say that it is none
                written["claimed"] = 0
        for field in ("tos", "tc"):
            if isinstance(octet := written.get(field), int) and octet in range(1, 256):
                written |= {"dscp": octet >> 2, "ecn": octet & 3}
        for name, row in FIELDS.get(layer.kind, {}).items():
            value = written.get(name, row.default)
            if not row.key or value is None or value == "" or (name == "ecn" and value == 0):
                continue
            try:
                number = row.form.number(value)
            except ValueError as error:
                told = f"{layer.kind}({name}={value!r}): expected {row.form.expected}"
                raise ProfileLineError(declared.line, told) from error
            _check_source(declared.line, row.key, FieldNumbers(number))
            values[key_in(row.key, seen[layer.kind])] = FieldNumbers(number)
        seen[layer.kind] += 1
    return values


def _check_source(line: int, key: str, values: FieldNumbers) -> None:
    """Raises ProfileLineError for source addresses that are a group's."""
    ends = values.ends
    if key.partition("@")[0] == "eth_src" and (any(end >> 40 & 1 for end in ends) or mixes_groups(*ends, values.step)):
        raise ProfileLineError(line, f"Ether.src {values.toml(key)}: expected unicast addresses")


def _flags(declared: Stream) -> Sequence[str] | None:
    letters = next((layer.values.get("flags") for layer in declared.layers if layer.kind == "TCP"), None)
    if letters is None or letters == "S":
        return None
    if not isinstance(letters, str) or not set(letters) <= set(_FLAGS):
        raise ProfileLineError(declared.line, f"TCP(flags={letters!r}): expected letters of {''.join(_FLAGS)}")
    return [word for letter, word in _FLAGS.items() if letter in letters]


def _differences(declared: Stream, kinds: Sequence[str]) -> list[str]:
    """Raises ProfileLineError for values that frames of a stream cannot have."""
    types = {kind: (_ETHER_TYPES.get(after, 0), 0) for kind, after in pairwise(kinds)}
    carried = {kind: (_CARRIED.get(after, 0), 0) for kind, after in pairwise(kinds)}
    only: dict[tuple[str, str], tuple[Any, ...]] = {
        ("IP", "tos"): tuple(range(256)), ("IP", "flags"): (0, 2, "DF", ""), ("UDP", "chksum"): (0,),
        ("IPv6", "tc"): tuple(range(256)), ("VXLAN", "flags"): (8, "Instance"),
        **{(kind, "type"): types[kind] for kind in ("Ether", "Dot1Q") if kind in types},
        **{(kind, name): carried[kind] for kind, name in (("IP", "proto"), ("IPv6", "nh")) if kind in carried},
    }  # fmt: skip
    filled = {("IP", "len"), ("IP", "chksum"), ("IPv6", "plen"), ("UDP", "len"), ("TCP", "chksum"), ("ICMP", "chksum")}
    notes = []
    for layer, after in pairwise((*declared.layers, None)):
        assert layer is not None
        only["MPLS", "s"] = (int(after is None or after.kind != "MPLS"),)  # 1 in the last one (RFC 3032, 2.1)
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
    trimmed = {step.fv_name for step in declared.instructions if isinstance(step, Trim)}
    for write in (step for step in declared.instructions if isinstance(step, Write | MaskedWrite)):
        if write.fv_name in trimmed and write.pkt_offset in _LENGTHS:
            continue
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
    flows, notes = cycle(math.lcm(*counts), notes)
    return replace(base, values=values, order=moved, flows=flows, together=len(counts) > 1, notes=notes)


def cycle(packets: int, notes: list[str]) -> tuple[int, list[str]]:
    """After how many packets a stream repeats, with the note where that is earlier than there."""
    if packets <= MOST_FLOWS:
        return packets, notes
    return MOST_FLOWS, [*notes, f"repeats after {packets} packets there; here after {MOST_FLOWS}"]


def _of_variable(variable: Variable | Tuple, written: FieldNumbers) -> Iterator[str]:
    """In what its values differ from the profile's."""
    if isinstance(variable, Tuple):
        return
    begins = {"inc": variable.least, "dec": variable.most}.get(variable.op, variable.first)
    if variable.first not in (None, begins):
        yield f"{variable.name} begins with {variable.first} there, here with the first of its values"
    if variable.op == "random" and variable.values:
        yield f"{variable.name} draws from its values there; here they come in turn"
    if written.is_random and not variable.limit:
        yield f"{variable.name} is random there; here {written.drawn} random values repeat"


def _of_tuple(base: Wanted, pair: Tuple, values: Mapping[str, FieldNumbers], moved: Sequence[str], used: int) -> Wanted:
    ips = [key for key in moved if key in ("ipv4_src", "ipv4_dst")]
    ports = [key for key in moved if key.startswith(("udp", "tcp"))]
    if used > 1 or len(ips) != 1 or len(ports) > 1 or len(moved) > len(ips) + len(ports):
        expected = "expected a tuple alone, its ip written to one address, its port to one port at most"
        raise ProfileLineError(pair.line, f"{pair.name}: {expected}")
    product = math.prod(values[key].count for key in moved)
    flows, notes = cycle(min(product, pair.limit_flows or product), list(base.notes))
    if flows < 1:
        raise ProfileLineError(pair.line, f"{pair.name}: limit_flows {pair.limit_flows}: expected 0 or more")
    return replace(base, values=values, order=[*ips, *ports], flows=flows, notes=notes)


def _written(
    write: Write | MaskedWrite,
    variable: Variable | Tuple,
    part: str,
    layers: Sequence[Layer],
    values: Mapping[str, FieldNumbers],
) -> tuple[str, FieldNumbers]:
    """The key of the field, and what it is from now on."""
    size, numbers = _numbers(write, variable, part)
    if isinstance(write, MaskedWrite):
        size, mask, numbers = write.pkt_cast_size, write.mask, _shifted(write, numbers)
    else:
        mask, numbers = (1 << 8 * size) - 1, _moved(numbers, write.add_val, 0)
    try:
        where, row, behind, nth = place(write.pkt_offset, write.offset_fixup, size, layers)
    except ValueError as error:
        raise ProfileLineError(write.line, str(error)) from error
    if not (row.key and row.varies):
        able = (
            f"{kind}.{name}" for kind, rows in FIELDS.items() for name, row in rows.items() if row.key and row.varies
        )
        raise ProfileLineError(write.line, f"{where} varies: not supported, expected one of {', '.join(able)}")
    if not write.is_big and size > 1:
        raise ProfileLineError(write.line, f"{where}: is_big=False: not supported")
    low, high = numbers.ends
    top, shift = (1 << 8 * size) - 1, 8 * behind
    if not 0 <= low <= high <= top:
        raise ProfileLineError(write.line, f"{where}: {low} to {high} does not fit into {size} bytes")
    if numbers.is_random and behind:
        raise ProfileLineError(write.line, f"{where}: random, and its last {behind} bytes are not: not supported")
    key = key_in(row.key, nth)
    base = values[key].first if key in values else row.base
    if (mask << shift) & (1 << row.low) - 1:
        raise ProfileLineError(write.line, f"{where}: bits of other fields are written with it: expected a mask")
    written = _moved(numbers, (base << row.low) & ~(mask << shift), shift)
    if row.low:
        listed = tuple(number >> row.low for number in written.listed)
        written = replace(written, first=written.first >> row.low, step=written.step >> row.low, listed=listed)
    _check_range(write.line, where, key, written)
    return key, written


def _moved(numbers: FieldNumbers, add: int, shift: int) -> FieldNumbers:
    """Each number shifted to the left, and then more by `add`."""
    listed = tuple((number << shift) + add for number in numbers.listed)
    return replace(numbers, first=(numbers.first << shift) + add, step=numbers.step << shift, listed=listed)


def _shifted(write: MaskedWrite, numbers: FieldNumbers) -> FieldNumbers:
    """What a masked write puts into its bytes: all numbers, or a list of what the mask leaves of each.

    Raises ProfileLineError where there are too many for a list, or random ones.
    """
    moved = _moved(_moved(numbers, write.add_value, 0), 0, max(0, write.shift))
    (low, high), lowest = moved.ends, write.mask & -write.mask
    is_run = bool(lowest) and write.mask & (write.mask + lowest) == 0 and write.shift >= 0
    steps = moved.listed or (moved.first, moved.step)
    is_kept = is_run and low >= 0 and high <= write.mask and not any(number % lowest for number in steps)
    if is_kept and not (numbers.is_random and write.shift):
        return moved
    if numbers.is_random or numbers.count > MOST_LISTED:
        told = f"mask {write.mask:#x}, shift {write.shift}: not supported: it cuts values of {low} to {high} off"
        raise ProfileLineError(write.line, f"{told}, which are random or more than {MOST_LISTED}")
    every = numbers.listed or range(numbers.first, numbers.first + numbers.step * numbers.count, numbers.step)
    left, right = max(0, write.shift), max(0, -write.shift)
    kept = tuple((number + write.add_value << left >> right) & write.mask for number in every)
    return FieldNumbers(kept[0], len(kept), listed=kept) if len(set(kept)) > 1 else FieldNumbers(kept[0])


def _check_range(line: int, where: str, key: str, written: FieldNumbers) -> None:
    """Raises ProfileLineError for what no [[stream]] takes."""
    low, high = written.ends
    if high > row_of(key).form.most:
        raise ProfileLineError(line, f"{where}: {written.toml(key)}: expected {row_of(key).form.expected}")
    if low >> 64 != high >> 64:
        raise ProfileLineError(line, f"{where}: the first 64 bits vary: not supported")
    _check_source(line, key, written)


def _in_order(variable: Variable) -> tuple[int, ...]:
    """The values of a list as they come: from either end, by steps, round and round."""
    values = variable.values[::-1] if variable.op == "dec" else variable.values
    count = len(values) // math.gcd(len(values), variable.step)
    return tuple(values[nth * variable.step % len(values)] for nth in range(count))


def _numbers(write: Write | MaskedWrite, variable: Variable | Tuple, part: str) -> tuple[int, FieldNumbers]:
    """The size of what is written, and its numbers."""
    if isinstance(variable, Tuple):
        if part not in ("ip", "port"):
            raise ProfileLineError(write.line, f"{write.fv_name}: expected {variable.name}.ip or {variable.name}.port")
        size, least, most = (4, variable.ip_min, variable.ip_max) if part == "ip" else (
            2, variable.port_min, variable.port_max)  # fmt: skip
        if least > most:
            raise ProfileLineError(variable.line, f"{write.fv_name}: {least} to {most}: expected a range")
        return size, FieldNumbers(least, most - least + 1)
    if variable.values:
        values = _in_order(variable)
        return variable.size, FieldNumbers(values[0], len(values), 1, listed=values if len(values) > 1 else ())
    name, line, (least, most) = variable.name, variable.line, (variable.least, variable.most)
    if least > most:
        raise ProfileLineError(line, f"{name}: {least} to {most}: expected min_value not above max_value")
    if variable.op == "random":
        count = most - least + 1
        drawn = min(variable.limit or count, MOST_DRAWN)
        return variable.size, FieldNumbers(least, count, is_random=count > 1, drawn=drawn)
    if variable.step < 1:
        raise ProfileLineError(line, f"{name}: step {variable.step}: expected 1 or more")
    count = (most - least) // variable.step + 1
    begin, step = (most, -variable.step) if variable.op == "dec" else (least, variable.step)
    if variable.first is not None and (not least <= variable.first <= most or (variable.first - begin) % variable.step):
        told = f"{name}: init_value {variable.first}: not supported, expected a value that is reached from {begin}"
        raise ProfileLineError(line, told)
    return variable.size, FieldNumbers(begin, count, step)

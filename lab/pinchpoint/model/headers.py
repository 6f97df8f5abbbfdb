"""Headers of frames: one table of what each may say, and how a scenario file writes the values of a field. Pure.

Headers and fields have the names of the protocol between lab and engine (protocol/README.md, "Streams").
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Address, IPv6Address, ip_network
from typing import Any, Final, NoReturn

FCS_BYTES: Final = 4
SIGNATURE_BYTES: Final = 18  # at the end of every frame of the engine
SHORTEST_BYTES: Final = 64
MOST_FLOWS: Final = 16_777_216  # of a [[stream]]
MOST_LISTED: Final = 1024  # values of a field, each as often as it weighs
MOST_VALUES: Final = 1 << 32  # of a field, as the engine counts them
MOST_HEADERS: Final = 32  # of a frame, as the engine takes them
_HALF: Final = 64  # bits of an IPv6 address that vary: the low ones
_HEX: Final = "[0-9A-Fa-f]"
_STEPPED, _DRAWN, _RANKED = {"first", "count"}, {"random", "count"}, {"zipf", "first", "count"}
FORMS: Final = "{first, step, count}, {random, count} or {zipf, first, step, count}"
FLAGS: Final = ("fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr")


def _refuse(told: str = "") -> NoReturn:
    raise ValueError(told)


@dataclass(frozen=True)
class Format:
    """How a field's values are written. `number` raises ValueError for what is none."""

    expected: str
    number: Callable[[Any], int]
    text: Callable[[int], Any]  # the same number as the engine reads it
    schema: Mapping[str, Any]  # JSON Schema of one value
    bits: int = 0  # 0: it is no number, and stays as it is written
    pattern: str = ""  # of the ends of a range


def _whole(bits: int) -> Format:
    top = (1 << bits) - 1

    def number(value: Any) -> int:
        good = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= top
        return int(value) if good else _refuse()

    schema = {"type": "integer", "minimum": 0, "maximum": top}
    return Format(f"a whole number from 0 to {top:,}", number, int, schema, bits, "[0-9]{1,10}")


def _address(kind: type[IPv4Address] | type[IPv6Address], bits: int, pattern: str, expected: str) -> Format:
    def number(value: Any) -> int:
        if not isinstance(value, str) or "%" in value:
            _refuse()
        try:
            return int(kind(value))
        except ValueError:
            raise ValueError from None

    return Format(expected, number, lambda value: str(kind(value)), _full(pattern), bits, pattern)


def _mac(*, unicast: bool) -> Format:
    pattern = _HEX + ("[02468ACEace]" if unicast else _HEX) + f"(?::{_HEX}{{2}}){{5}}"

    def number(value: Any) -> int:
        good = isinstance(value, str) and re.fullmatch(pattern, value) is not None
        return int(value.replace(":", ""), 16) if good else _refuse()

    expected = f"{'a unicast' if unicast else 'an'} Ethernet address like 02:00:00:00:00:01"
    return Format(expected, number, mac_text, _full(pattern), 48, pattern)


def _constant(expected: str, holds: Callable[[Any], bool], schema: Mapping[str, Any]) -> Format:
    return Format(expected, lambda value: 0 if holds(value) else _refuse(), lambda _: None, schema)


def _full(pattern: str) -> Mapping[str, Any]:
    return {"type": "string", "pattern": f"^(?:{pattern})$"}


def mac_text(number: int) -> str:
    """An Ethernet address in its usual form."""
    return ":".join(f"{byte:02x}" for byte in number.to_bytes(6, "big"))


def _hex(most: int, unit: int) -> Format:
    """Bytes in hexadecimal, a multiple of `unit` of them."""
    pattern = f"(?:{_HEX}{{{2 * unit}}}){{0,{most // unit}}}"
    expected = f"hexadecimal digits of at most {most} bytes" + (f", a multiple of {unit}" if unit > 1 else "")
    return _constant(expected, lambda value: isinstance(value, str) and _fits(pattern, value), _full(pattern))


def _fits(pattern: str, value: str) -> bool:
    return re.fullmatch(pattern, value) is not None


def _are_flags(value: Any) -> bool:
    return isinstance(value, list) and all(flag in FLAGS for flag in value)


def _are_extensions(value: Any) -> bool:
    """Each a kind, and what follows its length: 6 bytes and a multiple of 8; of a fragment's 6 (RFC 8200, 4)."""
    return isinstance(value, list) and len(value) <= 8 and all(
        isinstance(item, dict) and item.keys() == {"kind", "data"} and item["kind"] in (0, 43, 44, 60)
        and isinstance(item["data"], str) and _fits(f"{_HEX}{{12}}(?:{_HEX}{{16}}){{0,255}}", item["data"])
        and (item["kind"] != 44 or len(item["data"]) == 12)
        for item in value
    )  # fmt: skip


MAC, _UNICAST = _mac(unicast=False), _mac(unicast=True)
IPV4 = _address(IPv4Address, 32, "[0-9.]+", '"a.b.c.d" or "a.b.c.d/24"')
IPV6 = _address(IPv6Address, 128, "[0-9A-Fa-f:.]+", 'an IPv6 address like "2001:db8::1" or a prefix')
_FLAG = _constant("true or false", lambda value: isinstance(value, bool), {"type": "boolean"})
_FLAGS = _constant(
    f"a list of {', '.join(FLAGS)}", _are_flags, {"type": "array", "items": {"enum": list(FLAGS)}}
)  # fmt: skip
_EXTENSIONS = _constant(
    "a list of {kind, data}: kind 0, 43, 44 or 60, data in hexadecimal of 8n + 6 bytes", _are_extensions,
    {"type": "array", "items": {"type": "object", "required": ["kind", "data"]}},
)  # fmt: skip


@dataclass(frozen=True)
class FieldKind:
    """One field of a header."""

    format: Format
    doc: str
    default: Any = None  # written where the file says nothing; None: the engine fills it in
    key: str = ""  # of [[stream]]; empty: it is written in `layers` alone
    varies: bool = True  # the engine can vary it
    required: bool = False
    filled: str = ""  # what the engine fills in, as a file would say it

    @property
    def expected(self) -> str:
        """What a file may write."""
        several = ', a range "A-B" with the last not below the first, a list or a table of values'
        return self.format.expected + (several if self.varies else "")

    @property
    def schema(self) -> Mapping[str, Any]:
        """The JSON Schema of that."""
        one, pattern = self.format.schema, self.format.pattern
        if not self.varies:
            return one
        inner: Mapping[str, Any] = {key: {} for key in ("first", "step", "count", "random", "zipf")}
        types = list(dict.fromkeys((one["type"], "string", "array", "object")))
        several = {"minItems": 1, "properties": inner, "required": ["count"], "additionalProperties": False}
        return {**one, "type": types, "pattern": f"^(?:{pattern}(?:[-/](?:{pattern}))?)$", **several}


@dataclass(frozen=True)
class HeaderType:
    """One kind of header."""

    bytes: int  # without options
    behind: tuple[str, ...]  # headers that it may follow; a frame begins with `ethernet`
    fields: Mapping[str, FieldKind]
    program: str = ""  # how field programs call it; empty: by its name
    port: int = 0  # of UDP, that announces it (IANA)
    optional: Mapping[str, int] = field(default_factory=dict)  # bytes that a field adds where it is written


def _ports(header: str) -> dict[str, FieldKind]:
    return {
        "src": FieldKind(_whole(16), "Source ports", 1024, f"{header}_src"),
        "dst": FieldKind(_whole(16), "Destination ports", 9, f"{header}_dst"),
    }


def _common(header: str) -> dict[str, FieldKind]:
    """Of both versions of IP."""
    dscp = FieldKind(_whole(6), "Differentiated services code point", None, f"{header}_dscp", filled="0")
    ecn = FieldKind(_whole(2), "Congestion bits", None, f"{header}_ecn", varies=False, filled="0")
    return {"dscp": dscp, "ecn": ecn}


def _echo(header: str, request: int) -> dict[str, FieldKind]:
    byte, half = _whole(8), _whole(16)
    return {
        "type": FieldKind(byte, "Type; the default is an echo request", request, f"{header}_type", varies=False),
        "code": FieldKind(byte, "Code", None, f"{header}_code", varies=False, filled="0"),
        "identifier": FieldKind(half, "Identifier of an echo", None, f"{header}_identifier", filled="0"),
        "sequence": FieldKind(half, "Sequence number of an echo", None, f"{header}_sequence", filled="0"),
    }


_NETWORK = ("ethernet", "vlan", "geneve", "gre", "ipv4", "ipv6", "mpls", "pppoe", "gtpu", "nsh")
_VNI = FieldKind(_whole(24), "Network identifier", required=True)
HEADERS: Final[Mapping[str, HeaderType]] = {
    "ethernet": HeaderType(14, ("vxlan", "geneve", "gre", "nsh"), {
        "src": FieldKind(_UNICAST, "Source Ethernet addresses", "02:00:00:00:00:01", "eth_src"),
        "dst": FieldKind(MAC, "Destination Ethernet addresses", "02:00:00:00:00:02", "eth_dst"),
        "ethertype": FieldKind(_whole(16), "EtherType to claim, whatever follows", None, "eth_type", varies=False,
                               filled="that of the next header"),
    }, "eth"),
    "vlan": HeaderType(4, ("ethernet", "vlan"), {
        "id": FieldKind(_whole(12), "Identifier of an 802.1Q tag", 0, "vlan"),
        "pcp": FieldKind(_whole(3), "Priority of the tag", None, "vlan_pcp", filled="0"),
        "dei": FieldKind(_FLAG, "Drop eligible", None, "vlan_dei", varies=False, filled="false"),
        "tpid": FieldKind(_whole(16), "The tag's EtherType", None, "vlan_tpid", varies=False,
                          filled="0x8100 (0x88a8: the outer tag of QinQ)"),
    }),
    "arp": HeaderType(28, ("ethernet", "vlan"), {
        "operation": FieldKind(_whole(16), "1 asks (default), 2 answers", varies=False),
        "sender_mac": FieldKind(MAC, "Ethernet address of the sender", "02:00:00:00:00:01", varies=False),
        "sender_ip": FieldKind(IPV4, "IPv4 addresses of the sender", "198.18.0.1"),
        "target_mac": FieldKind(MAC, "Ethernet address of the target", "00:00:00:00:00:00", varies=False),
        "target_ip": FieldKind(IPV4, "IPv4 addresses of the target", "198.19.0.1"),
    }),
    "ipv4": HeaderType(20, _NETWORK, {
        "src": FieldKind(IPV4, "Source addresses", "198.18.0.1", "ipv4_src"),
        "dst": FieldKind(IPV4, "Destination addresses", "198.19.0.1", "ipv4_dst"),
        "ttl": FieldKind(_whole(8), "Time to live", None, "ipv4_ttl", filled="64"),
        **_common("ipv4"),
        "identification": FieldKind(_whole(16), "Identification", None, "ipv4_identification", filled="0"),
        "dont_fragment": FieldKind(_FLAG, "Not to be fragmented", None, "ipv4_dont_fragment", varies=False,
                                   filled="true"),
        "protocol": FieldKind(_whole(8), "Protocol to claim, whatever follows", varies=False),
        "options": FieldKind(_hex(40, 4), "Options as on the wire", varies=False),
    }),
    "ipv6": HeaderType(40, _NETWORK, {
        "src": FieldKind(IPV6, "Source addresses", "2001:2::1", "ipv6_src"),
        "dst": FieldKind(IPV6, "Destination addresses", "2001:2:0:1::1", "ipv6_dst"),
        "hop_limit": FieldKind(_whole(8), "Hop limit", None, "ipv6_hop_limit", filled="64"),
        **{name: replace(row, varies=False) for name, row in _common("ipv6").items()},
        "flow_label": FieldKind(_whole(20), "Flow label", None, "ipv6_flow_label", filled="0"),
        "next_header": FieldKind(_whole(8), "Protocol to claim, whatever follows", varies=False),
        "extensions": FieldKind(_EXTENSIONS, "Extension headers", varies=False),
    }),
    "udp": HeaderType(8, ("ipv4", "ipv6"), _ports("udp")),
    "tcp": HeaderType(20, ("ipv4", "ipv6"), {
        **_ports("tcp"),
        "seq": FieldKind(_whole(32), "Sequence number", None, "tcp_seq", filled="0"),
        "ack": FieldKind(_whole(32), "Acknowledgment number", None, "tcp_ack", filled="0"),
        "flags": FieldKind(_FLAGS, "Flags", None, "tcp_flags", varies=False, filled='["syn"]'),
        "window": FieldKind(_whole(16), "Window", None, "tcp_window", varies=False, filled="65535"),
        "options": FieldKind(_hex(40, 4), "Options as on the wire", varies=False),
    }),
    "icmp": HeaderType(8, ("ipv4",), _echo("icmp", 8)),
    "icmpv6": HeaderType(8, ("ipv6",), {
        **_echo("icmpv6", 128), "body": FieldKind(_hex(1024, 1), "What follows these 8 bytes", varies=False),
    }),
    "vxlan": HeaderType(8, ("udp",), {"vni": _VNI}, port=4789),
    "geneve": HeaderType(8, ("udp",), {
        "vni": _VNI, "options": FieldKind(_hex(252, 4), "Options as on the wire", varies=False),
    }, port=6081),
    "gre": HeaderType(4, ("ipv4", "ipv6"), {
        "key": FieldKind(_whole(32), "Key; none by default"),
        "sequence": FieldKind(_whole(32), "Sequence number; none by default"),
    }, optional={"key": 4, "sequence": 4}),
    "mpls": HeaderType(4, ("ethernet", "vlan", "gre", "mpls"), {
        "label": FieldKind(_whole(20), "Label", required=True),
        "tc": FieldKind(_whole(3), "Traffic class, 0 by default"),
        "ttl": FieldKind(_whole(8), "Time to live, 64 by default"),
    }),
    "pppoe": HeaderType(8, ("ethernet", "vlan"), {
        "session_id": FieldKind(_whole(16), "Session identifier", required=True),
    }),
    "gtpu": HeaderType(8, ("udp",), {
        "teid": FieldKind(_whole(32), "Tunnel endpoint identifier", required=True),
        "qfi": FieldKind(_whole(6), "QoS flow identifier of a PDU session container; none by default", varies=False),
        "pdu_type": FieldKind(_whole(1), "Of the container: 0 downlink (default), 1 uplink", varies=False),
    }, port=2152, optional={"qfi": 8}),
    "nsh": HeaderType(8, ("ethernet", "vlan", "gre"), {
        "spi": FieldKind(_whole(24), "Service path identifier", required=True),
        "si": FieldKind(_whole(8), "Service index, 255 by default"),
        "ttl": FieldKind(_whole(6), "Time to live, 63 by default", varies=False),
        "context": FieldKind(_hex(16, 16), "Context of metadata type 1; empty: type 2", "00" * 16, varies=False),
    }),
    "esp": HeaderType(8, ("ipv4", "ipv6"), {
        "spi": FieldKind(_whole(32), "Security parameters index", required=True),
        "sequence": FieldKind(_whole(32), "Sequence number, 1 by default"),
    }),
}  # fmt: skip
KEYS: Final[Mapping[str, tuple[str, str]]] = {
    row.key: (header, name) for header, kind in HEADERS.items() for name, row in kind.fields.items() if row.key
}
"""The header and the field of each key of [[stream]]."""


@dataclass(frozen=True)
class FieldValues:
    """What a field is, frame after frame. Numbers of addresses are those of all their bits."""

    written: Any  # as a scenario file has it
    template: Any  # of the first frame, as the engine reads it
    first: int = 0
    count: int = 1  # after how many values they repeat
    step: int = 1
    listed: tuple[int, ...] = ()
    drawn: tuple[int, int] | None = None  # the lowest and the highest of random numbers
    exponent: float | None = None  # of Zipf's law, by which each frame draws a rank

    @property
    def is_run(self) -> bool:
        """Whether they are consecutive numbers in their order."""
        return self.step == 1 and not self.listed and not self.is_drawn

    @property
    def is_drawn(self) -> bool:
        """Whether they are random numbers, or ranks of Zipf's law."""
        return self.drawn is not None or self.exponent is not None

    @property
    def distinct(self) -> int:
        """How many different ones there are; of those drawn at most."""
        return len(set(self.listed)) or min(self.count, len(self.numbers))

    @property
    def numbers(self) -> Sequence[int]:
        """All of them in their order; of random ones all that may come."""
        if self.drawn is not None:
            return range(self.drawn[0], self.drawn[1] + 1)
        return self.listed or range(self.first, self.first + self.step * self.count, self.step)

    @property
    def spans(self) -> tuple[tuple[int, int], ...]:
        """The lowest and the highest numbers of ranges that hold all of them."""
        if self.listed:
            return tuple((number, number) for number in sorted(set(self.listed)))
        low, high = sorted((self.numbers[0], self.numbers[-1]))
        return ((low, high),)


def read(row: FieldKind, written: Any) -> FieldValues:
    """The values that a file writes. Raises ValueError with what was expected; without words it is `row.expected`."""
    form = row.format
    if not row.varies:
        number = form.number(written)
        return FieldValues(written, form.text(number) if form.bits else written, number)
    if isinstance(written, list):
        return _listed(form, written)
    if isinstance(written, dict):
        return _varied(form, written)
    first, last = _span(form, written)
    return FieldValues(written, form.text(first), first, last - first + 1)


def _span(form: Format, written: Any) -> tuple[int, int]:
    """The first and the last value of a range; of one value it is both."""
    if isinstance(written, str) and "/" in written:
        return _prefix(form, written)
    low, dash, high = written.partition("-") if isinstance(written, str) else (written, "", "")
    first = form.number(_end(form, low) if dash else low)
    last = form.number(_end(form, high)) if dash else first
    if first > last or last - first >= MOST_VALUES:
        _refuse()
    _vary_low(form, first, last)
    return first, last


def _end(form: Format, text: str) -> Any:
    is_number = form.schema["type"] == "integer" and re.fullmatch(form.pattern, text) is not None
    return int(text) if is_number else text


def _prefix(form: Format, written: str) -> tuple[int, int]:
    """All addresses of a prefix, the first and the last one included."""
    address, _, length = written.partition("/")
    form.number(address)
    if not _fits("[0-9]{1,3}", length):
        _refuse()
    try:
        network = ip_network(written)
    except ValueError:
        raise ValueError('"a.b.c.d/24" without bits set behind the prefix') from None
    if network.num_addresses > MOST_VALUES:
        _refuse(f"a prefix of at most {MOST_VALUES:,} addresses")
    first = int(network.network_address)
    return first, first + network.num_addresses - 1


def _listed(form: Format, written: Sequence[Any]) -> FieldValues:
    """Values in this order, or pairs of a value and how often it comes in a row."""
    pairs = [item if isinstance(item, list) else [item, 1] for item in written]
    if not pairs or any(len(pair) != 2 or not _is_count(pair[1]) for pair in pairs):
        _refuse("a list of values, or of [value, weight] with weights of 1 and more")
    numbers = [form.number(value) for value, _ in pairs]
    divisor = math.gcd(*(weight for _, weight in pairs))
    if sum(weight for _, weight in pairs) // divisor > MOST_LISTED:
        _refuse(f"a list of at most {MOST_LISTED:,} values, each counted as often as it weighs")
    _vary_low(form, *numbers)
    listed = tuple(number for number, (_, weight) in zip(numbers, pairs, strict=True) for _ in range(weight // divisor))
    if len(set(listed)) == 1:
        return FieldValues(written, form.text(numbers[0]), numbers[0])
    return FieldValues(written, form.text(numbers[0]), numbers[0], len(listed), listed=listed)


def _varied(form: Format, written: Mapping[str, Any]) -> FieldValues:
    """A range with a step, random numbers, or Zipf's law."""
    keys, count, step = written.keys() - {"step"}, written.get("count", 0), written.get("step", 1)
    is_known = keys in (_STEPPED, _RANKED) or (keys == _DRAWN and "step" not in written)
    if not is_known or not _is_count(count) or count > MOST_VALUES:
        _refuse(f"a table {FORMS}; count from 1 to {MOST_VALUES:,}")
    if keys == _DRAWN:
        drawn = _span(form, written["random"])
        return FieldValues(written, form.text(drawn[0]), drawn[0], count, drawn=drawn)
    exponent = written.get("zipf")
    if not isinstance(exponent, int | float | None) or isinstance(exponent, bool) or not 0 <= (exponent or 0) <= 20:
        _refuse("an exponent `zipf` from 0 to 20")
    first = form.number(written["first"])
    if not isinstance(step, int) or isinstance(step, bool) or step == 0:
        _refuse("a step that is a whole number other than 0")
    if not 0 <= (last := first + step * (count - 1)) < 1 << form.bits:
        _refuse(f"a first value, step and count that stay within {form.bits} bits")
    form.number(form.text(last))
    _vary_low(form, first, last)
    if form is _UNICAST and mixes_groups(first, last, step):
        _refuse("unicast Ethernet addresses: a step over their first byte is a multiple of 2^41")
    return FieldValues(
        written, form.text(first), first, count, step, exponent=None if exponent is None else float(exponent)
    )


def mixes_groups(first: int, last: int, step: int) -> bool:
    """Whether addresses of groups may stand between these Ethernet addresses (bit 40; IEEE 802.3, 3.2.3)."""
    return first >> 40 != last >> 40 and step % (1 << 41) != 0


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _vary_low(form: Format, *numbers: int) -> None:
    """Raises ValueError where bits vary that the engine leaves alone."""
    if form.bits > _HALF and len({number >> _HALF for number in numbers}) > 1:
        _refuse("addresses with the same first 64 bits: the engine varies the last 64")


def length(name: str, fields: Mapping[str, FieldValues]) -> int:
    """Bytes of a header with its options."""
    written = {key: values.written for key, values in fields.items()}
    texts = [written.get(key, "") for key in ("options", "body", "context")]
    texts += [f"0000{extension['data']}" for extension in written.get("extensions", ())]
    optional = HEADERS[name].optional
    return HEADERS[name].bytes + sum(map(len, texts)) // 2 + sum(optional[key] for key in written if key in optional)

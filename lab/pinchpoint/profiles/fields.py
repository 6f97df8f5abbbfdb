"""Fields of a profile's packets: where they stand, the key of [[stream]] that says each, and how it is written."""

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv6Address
from typing import Any, Final

from pinchpoint.model.headers import mac_text
from pinchpoint.profiles.declared import Layer

_MAC: Final = re.compile(r"([0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}")


@dataclass(frozen=True)
class Notation:
    """How a value is written. `number` raises ValueError."""

    expected: str
    number: Callable[[Any], int]
    text: Callable[[int], int | str]
    most: int


def _number(bits: int, what: str = "a number") -> Notation:
    most = (1 << bits) - 1

    def number(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
            raise ValueError(value)
        return value

    return Notation(f"{what} from 0 to {most}", number, int, most)


def _mac_number(value: Any) -> int:
    if not isinstance(value, str) or not _MAC.fullmatch(value):
        raise ValueError(value)
    return int(value.replace(":", ""), 16)


def _address(kind: type[IPv4Address] | type[IPv6Address], bits: int, what: str) -> Notation:
    def number(value: Any) -> int:
        if not isinstance(value, str):
            raise ValueError(value)
        return int(kind(value))

    return Notation(what, number, lambda number: str(kind(number)), (1 << bits) - 1)


IN_LAYERS: Final[Mapping[str, tuple[str, str]]] = {
    f"{header}_{name}": (header, name)
    for header, name in (
        ("vxlan", "vni"),
        ("mpls", "label"),
        ("mpls", "tc"),
        ("mpls", "ttl"),
        ("ipv4", "options"),
        ("ipv4", "protocol"),
    )
}
"""Fields that no key of [[stream]] says: they are written in `layers`. The header and the field of each."""
_MACS: Final = Notation("an Ethernet address", _mac_number, mac_text, (1 << 48) - 1)
_IPV4: Final = _address(IPv4Address, 32, "an IPv4 address")
_IPV6: Final = _address(IPv6Address, 128, "an IPv6 address")
_PORT: Final = _number(16, "a port")
_BIT: Final = replace(_number(1), text=bool)
_OPTIONS: Final = re.compile("(?:[0-9a-f]{8}){0,10}")


def _options_number(value: Any) -> int:
    if not isinstance(value, str) or not _OPTIONS.fullmatch(value):
        raise ValueError(value)
    return int(f"1{value}", 16)  # the leading 1 keeps zeros


_BYTES: Final = Notation("options of at most 40 bytes", _options_number, lambda number: f"{number:x}"[1:], 16 << 320)


@dataclass(frozen=True)
class ProfileField:
    """One field of a header."""

    at: int  # its first byte in the header
    bytes: int
    key: str = ""  # of [[stream]]; empty: no stream says it
    form: Notation = _PORT
    default: Any = None  # what packets have where the profile says nothing; None: no line is written
    base: int = 0  # what bytes of it that do not vary are, where there is no default
    varies: bool = True  # in a [[stream]], if it has a key
    low: int = 0  # bits of other fields behind it within these bytes


def _ports(header: str, src: int, dst: int) -> dict[str, ProfileField]:
    return {
        "sport": ProfileField(0, 2, f"{header}_src", _PORT, src),
        "dport": ProfileField(2, 2, f"{header}_dst", _PORT, dst),
    }


# IEEE 802.3, IEEE 802.1Q, RFC 3032, RFC 791, RFC 8200, RFC 768, RFC 9293; defaults are those of scapy.
FIELDS: Final[Mapping[str, Mapping[str, ProfileField]]] = {
    "Ether": {
        "dst": ProfileField(0, 6, "eth_dst", _MACS, base=0x020000000002),
        "src": ProfileField(6, 6, "eth_src", _MACS, base=0x020000000001),
        "type": ProfileField(12, 2),
    },
    "Dot1Q": {
        "vlan": ProfileField(0, 2, "vlan", _number(12), 1), "prio": ProfileField(0, 0, "vlan_pcp", _number(3)),
        "id": ProfileField(0, 0, "vlan_dei", _BIT),
        "type": ProfileField(2, 2),
    },
    "MPLS": {
        "ttl": ProfileField(3, 1, "mpls_ttl", _number(8), 0),
        "label": ProfileField(0, 4, "mpls_label", _number(20), 3, low=12),
        "cos": ProfileField(0, 0, "mpls_tc", _number(3)), "s": ProfileField(0, 0),
    },
    "IP": {
        "tos": ProfileField(1, 1), "dscp": ProfileField(1, 0, "ipv4_dscp", _number(6)),
        "ecn": ProfileField(1, 0, "ipv4_ecn", _number(2)),
        "len": ProfileField(2, 2), "id": ProfileField(4, 2, "ipv4_identification", _number(16), 1),
        "whole": ProfileField(6, 0, "ipv4_dont_fragment", _BIT, 0),
        "claimed": ProfileField(9, 0, "ipv4_protocol", _number(8)),
        "ttl": ProfileField(8, 1, "ipv4_ttl", _number(8)), "proto": ProfileField(9, 1), "chksum": ProfileField(10, 2),
        "src": ProfileField(12, 4, "ipv4_src", _IPV4, "127.0.0.1"),
        "dst": ProfileField(16, 4, "ipv4_dst", _IPV4, "127.0.0.1"),
        "options": ProfileField(20, 0, "ipv4_options", _BYTES),
    },
    "IPv6": {
        "tc": ProfileField(0, 0), "dscp": ProfileField(0, 0, "ipv6_dscp", _number(6)),
        "ecn": ProfileField(0, 0, "ipv6_ecn", _number(2)), "fl": ProfileField(0, 0, "ipv6_flow_label", _number(20)),
        "plen": ProfileField(4, 2), "nh": ProfileField(6, 1),
        "hlim": ProfileField(7, 1, "ipv6_hop_limit", _number(8)),
        "src": ProfileField(8, 16, "ipv6_src", _IPV6, "::1"), "dst": ProfileField(24, 16, "ipv6_dst", _IPV6, "::1"),
    },
    "UDP": {**_ports("udp", 53, 53), "len": ProfileField(4, 2), "chksum": ProfileField(6, 2)},
    "TCP": {
        **_ports("tcp", 20, 80), "seq": ProfileField(4, 4, "tcp_seq", _number(32)),
        "ack": ProfileField(8, 4, "tcp_ack", _number(32)),
        "window": ProfileField(14, 2, "tcp_window", _number(16), 8192, varies=False), "chksum": ProfileField(16, 2),
    },
    "ICMP": {
        "type": ProfileField(0, 1, "icmp_type", _number(8), 8, varies=False),
        "code": ProfileField(1, 1, "icmp_code", _number(8), varies=False), "chksum": ProfileField(2, 2),
        "id": ProfileField(4, 2, "icmp_identifier", _number(16)),
        "seq": ProfileField(6, 2, "icmp_sequence", _number(16)),
    },
    "VXLAN": {"vni": ProfileField(4, 3, "vxlan_vni", _number(24), 0), "flags": ProfileField(0, 1)},
}  # fmt: skip
HEADER_BYTES: Final = {
    "Ether": 14, "Dot1Q": 4, "MPLS": 4, "IP": 20, "IPv6": 40, "UDP": 8, "TCP": 20, "ICMP": 8, "VXLAN": 8,
}  # fmt: skip
"""Without options."""
HEADERS: Final = {
    "Ether": "ethernet", "Dot1Q": "vlan", "MPLS": "mpls", "IP": "ipv4", "IPv6": "ipv6", "UDP": "udp", "TCP": "tcp",
    "ICMP": "icmp", "VXLAN": "vxlan",
}  # fmt: skip
"""What [[stream]] calls them."""
_BY_KEY: Final = {row.key: row for rows in FIELDS.values() for row in rows.values() if row.key}


def row_of(key: str) -> ProfileField:
    """The field of a key; behind `@` stands which of several headers of its kind it is in."""
    return _BY_KEY[key.partition("@")[0]]


def key_in(key: str, nth: int) -> str:
    """The key of a field in the `nth` header of its kind, from 0."""
    return f"{key}@{nth}" if nth else key


def header_bytes(layer: Layer) -> int:
    """Bytes of a header with its options; 0 of a payload."""
    return HEADER_BYTES.get(layer.kind, 0) + len(str(layer.values.get("options") or "")) // 2


_NAMED: Final = re.compile(r"(\w+)(?::(\d+))?(?:\.(\w+))?")


@dataclass(frozen=True)
class FieldNumbers:
    """What a field is, packet after packet."""

    first: int
    count: int = 1
    step: int = 1
    is_random: bool = False  # drawn from `count` numbers that begin with `first`
    drawn: int = 1  # how many random ones come before they repeat
    listed: tuple[int, ...] = ()  # in the place of a range

    @property
    def last(self) -> int:
        """The last number of a range."""
        return self.first + self.step * (self.count - 1)

    @property
    def ends(self) -> tuple[int, int]:
        """The lowest and the highest number."""
        every = self.listed or (self.first, self.last)
        return min(every), max(every)

    @property
    def repeats(self) -> int:
        """After how many packets they repeat."""
        return self.drawn if self.is_random else self.count

    def toml(self, key: str) -> str:
        """As [[stream]] has them."""
        text = row_of(key).form.text
        if self.listed:
            return json.dumps([text(number) for number in self.listed])
        first, span = json.dumps(text(self.first)), f'"{text(self.first)}-{text(self.last)}"'
        if self.count == 1:
            return first
        if self.is_random:
            return f"{{random = {span}, count = {self.drawn}}}"
        return span if self.step == 1 else f"{{first = {first}, step = {self.step}, count = {self.count}}}"


def place(offset: int | str, fixup: int, size: int, layers: Sequence[Layer]) -> tuple[str, ProfileField, int, int]:
    """The field that holds `size` bytes at an offset in packets of these layers, how many of its bytes follow them, and
    in which header of its kind it is, from 0.

    Raises ValueError with what is wrong.
    """
    first = (offset if isinstance(offset, int) else _named(offset, layers)) + fixup
    start, seen = 0, Counter[str]()
    for layer in layers:
        for name, row in FIELDS.get(layer.kind, {}).items():
            begin = start + row.at
            if begin <= first and first + size <= begin + row.bytes:
                return f"{layer.kind}.{name}", row, begin + row.bytes - first - size, seen[layer.kind]
        start += header_bytes(layer)
        seen[layer.kind] += 1
    raise ValueError(f"{size} bytes at offset {first} are not within one field of {words(layers)}")


def _named(text: str, layers: Sequence[Layer]) -> int:
    match = _NAMED.fullmatch(text)
    name, nth, field = match.groups() if match else ("", None, None)
    start, seen = 0, 0
    for layer in layers:
        if layer.kind == name:
            if seen == int(nth or 0):
                rows = FIELDS.get(name, {})
                if field and field not in rows:
                    raise ValueError(f"{text!r}: expected one of {', '.join(f'{name}.{field}' for field in rows)}")
                return start + (rows[field].at if field else 0)
            seen += 1
        start += header_bytes(layer)
    raise ValueError(f"{text!r} is no field of {words(layers)}")


def words(layers: Sequence[Layer]) -> str:
    """Headers as a profile writes them."""
    return "/".join(layer.kind for layer in layers)

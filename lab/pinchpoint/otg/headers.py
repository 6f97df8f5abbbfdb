"""Headers of a flow's packet: what a configuration may say of each field, and what that is to the engine."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from pinchpoint.engine.streams import (
    Arp,
    Ethernet,
    FieldProgram,
    Gre,
    Icmp,
    Ipv4,
    Ipv6,
    Layer,
    Mpls,
    Tcp,
    TcpFlag,
    Udp,
    Vlan,
    Vxlan,
)
from pinchpoint.model.headers import mac_text
from pinchpoint.otg.patterns import IPV4, IPV6, MAC, bits, ipv4_text, ipv6_text, low_half, program, unused
from pinchpoint.otg.shape import Choice, Kind, Leaf, Many, Problems, Record, Refused, only, whole

TAGS: Final = Refused("frames are counted by flow, not by tags")
FIXED: Final = "the engine varies no such field"
FILLED_IN: Final = "filled in"
_VARYING: Final = ("values", "increment", "decrement")
MOST_VALUES: Final = 1000
MOST_COUNT: Final = 1 << 32
MOST_TUPLES: Final = 1 << 48
Header = tuple[str, Mapping[str, Any]]
Checksum = Literal["ipv4", "l4"]


@dataclass(frozen=True)
class HeaderField:
    """What may be said of a field, and where the engine's layer has it."""

    kind: Kind
    layer: str = ""  # attribute of the engine's layer; empty: the engine is not told by one
    default: int | None = 0
    form: Callable[[int], Any] = int  # its number as the layer has it
    fold: Callable[[int], int] = int  # its number as field programs have it
    checksum: Checksum | None = None  # which one it is


@dataclass(frozen=True)
class HeaderKind:
    """A header, and the engine's layer that it becomes."""

    layer: Callable[..., Any]
    bytes: int
    fields: Mapping[str, HeaderField]

    @property
    def kind(self) -> Kind:
        """What may be said of it."""
        record = Record({name: described.kind for name, described in self.fields.items()})
        return Choice({"echo": record}, "echo") if self.layer is Icmp else record


def _pattern(options: Mapping[str, Kind], auto: str = "") -> Choice:
    """`auto`: what a field is that the configuration leaves to it; empty: it is not left to anything."""
    if auto:
        options = {**options, "auto": unused(auto)}
    return Choice(options, "auto" if auto else "value", {"metric_tags": TAGS})


def varying(leaf: Leaf, *, default: Any = 0, auto: bool = False, random: bool = False, top: int = 0xFFFF) -> Choice:
    """A field that the engine varies. `default` is the model's."""
    number = {"start": leaf, "step": leaf, "count": whole(1, MOST_COUNT)}
    counter = Record(number, (), {"start": default, "step": 1, "count": 1})
    options: dict[str, Kind] = {
        "value": leaf, "values": Many(leaf, MOST_VALUES), "increment": counter, "decrement": counter
    }  # fmt: skip
    if random:
        drawn = {"min": leaf, "max": leaf, "seed": whole(0, (1 << 32) - 1), "count": whole(1, MOST_COUNT)}
        options["random"] = Record(drawn, (), {"min": 0, "max": top, "seed": 1, "count": 1})
    return _pattern(options, "the next hop's, by port or device" if auto else "")


def varying_address(leaf: Leaf, *, random: bool) -> Choice:
    """An address of IP that the engine varies."""
    return _pattern({**varying(leaf, random=random, top=(1 << 32) - 1).options, "auto": Refused("no DHCP")})


def _unassigned(leaf: Leaf) -> Choice:
    """A pattern of values that a control plane could assign elsewhere."""
    return _pattern({**varying(leaf).options, "auto": Refused("no control plane assigns it")})


def constant(leaf: Kind, *, auto: bool = False) -> Choice:
    """A field with one value for all frames."""
    return _pattern({"value": leaf, **dict.fromkeys(_VARYING, Refused(FIXED))}, FILLED_IN if auto else "")


def filled_in(*, auto: bool = True) -> Choice:
    """A field that the engine fills in, as `auto`; or that must be as the engine has it."""
    refused = Refused("the engine fills this field in")
    return _pattern(dict.fromkeys(("value", *_VARYING), refused), FILLED_IN if auto else "")


def always(value: int, why: str) -> Choice:
    """A field that has one value in every frame of the engine."""
    return constant(only((value,), why))


CHECKSUM: Final = Choice({
    "generated": only(("good", "bad"), "right, or wrong in every frame"),
    "custom": Refused("checksums are right, or wrong by a constant difference"),
}, "generated", {}, {"generated": "good"})  # fmt: skip
_BIT: Final = constant(only((0, 1), "one bit"))
_SET: Final = HeaderField(_BIT, form=bool)
_RAW, _PHB = HeaderField(constant(bits(8))), HeaderField(varying(bits(6)), "dscp")
_ECN: Final = HeaderField(constant(bits(2)))
_DSCP: Final = Record({"phb": _PHB.kind, "ecn": _ECN.kind})
_PRIORITY: Final = Choice({"raw": _RAW.kind, "tos": Refused("write dscp or raw"), "dscp": _DSCP}, "dscp")
_PORT: Final = varying(bits(16), random=True)
_PORTS: Final = {"src_port": HeaderField(_PORT, "src"), "dst_port": HeaderField(_PORT, "dst")}
_L4_CHECKSUM: Final = HeaderField(CHECKSUM, checksum="l4")
TCP_FLAGS: Final[Mapping[str, TcpFlag]] = {
    "ecn_cwr": "cwr", "ecn_echo": "ece", "ctl_urg": "urg", "ctl_ack": "ack", "ctl_psh": "psh", "ctl_rst": "rst",
    "ctl_syn": "syn", "ctl_fin": "fin",
}  # fmt: skip


def _echo(request: int) -> HeaderKind:
    """ICMP in the form of an echo; `request` is the type of its questions."""
    return HeaderKind(Icmp, 8, {
        "type": HeaderField(constant(bits(8)), "type", request),
        "code": HeaderField(constant(bits(8)), "code"),
        "identifier": HeaderField(varying(bits(16)), "identifier"),
        "sequence_number": HeaderField(varying(bits(16)), "sequence"),
        "checksum": _L4_CHECKSUM,
    })  # fmt: skip


HEADERS: Final[Mapping[str, HeaderKind]] = {
    "ethernet": HeaderKind(Ethernet, 14, {
        "dst": HeaderField(varying(MAC, auto=True), "dst", form=mac_text),
        "src": HeaderField(varying(MAC), "src", form=mac_text),
        "ether_type": HeaderField(constant(bits(16), auto=True), "ethertype", None),
        "pfc_queue": HeaderField(always(0, "priority flow control is not sent")),
    }),
    "vlan": HeaderKind(Vlan, 4, {
        "priority": HeaderField(varying(bits(3)), "pcp"),
        "cfi": HeaderField(_BIT, "dei", form=bool),
        "id": HeaderField(varying(bits(12), default=0), "id"),
        "tpid": HeaderField(constant(bits(16)), "tpid", 0x8100),
    }),
    "ipv4": HeaderKind(Ipv4, 20, {
        "version": HeaderField(always(4, "the header is that of IPv4")),
        "header_length": HeaderField(filled_in()),
        "priority": HeaderField(_PRIORITY),
        "total_length": HeaderField(filled_in()),
        "identification": HeaderField(varying(bits(16)), "identification"),
        "reserved": HeaderField(always(0, "the bit is reserved")),
        "dont_fragment": HeaderField(_BIT, "dont_fragment", form=bool),
        "more_fragments": HeaderField(always(0, "no fragments are sent")),
        "fragment_offset": HeaderField(always(0, "no fragments are sent")),
        "time_to_live": HeaderField(varying(bits(8), default=64), "ttl", 64),
        "protocol": HeaderField(constant(bits(8), auto=True), "protocol", None),
        "header_checksum": HeaderField(CHECKSUM, checksum="ipv4"),
        "src": HeaderField(varying_address(IPV4, random=True), "src", form=ipv4_text),
        "dst": HeaderField(varying_address(IPV4, random=True), "dst", form=ipv4_text),
        "options": HeaderField(Refused("no options")),
    }),
    "ipv6": HeaderKind(Ipv6, 40, {
        "version": HeaderField(always(6, "the header is that of IPv6")),
        "traffic_class": HeaderField(varying(bits(8)), "traffic_class"),
        "flow_label": HeaderField(varying(bits(20), random=True, top=(1 << 20) - 1), "flow_label"),
        "payload_length": HeaderField(filled_in()),
        "next_header": HeaderField(constant(bits(8), auto=True), "next_header", None),
        "hop_limit": HeaderField(varying(bits(8), default=64), "hop_limit", 64),
        "src": HeaderField(varying_address(IPV6, random=False), "src", form=ipv6_text, fold=low_half),
        "dst": HeaderField(varying_address(IPV6, random=False), "dst", form=ipv6_text, fold=low_half),
        "dst_usids": HeaderField(Refused("no segment routing")),
    }),
    "udp": HeaderKind(Udp, 8, {**_PORTS, "length": HeaderField(filled_in(auto=False)), "checksum": _L4_CHECKSUM}),
    "tcp": HeaderKind(Tcp, 20, {
        **_PORTS,
        "seq_num": HeaderField(varying(bits(32)), "seq"),
        "ack_num": HeaderField(varying(bits(32)), "ack"),
        "data_offset": HeaderField(filled_in(auto=False)),
        "ecn_ns": HeaderField(always(0, "the bit is obsolete (RFC 8311)")),
        **dict.fromkeys(TCP_FLAGS, _SET),
        "window": HeaderField(constant(bits(16)), "window"),
        "checksum": _L4_CHECKSUM,
    }),
    "icmp": _echo(8),
    "icmpv6": _echo(128),
    "arp": HeaderKind(Arp, 28, {
        "hardware_type": HeaderField(always(1, "the link is Ethernet")),
        "protocol_type": HeaderField(always(0x0800, "the protocol is IPv4")),
        "hardware_length": HeaderField(always(6, "the link is Ethernet")),
        "protocol_length": HeaderField(always(4, "the protocol is IPv4")),
        "operation": HeaderField(constant(bits(16)), "operation", 1),
        "sender_hardware_addr": HeaderField(constant(MAC), "sender_mac", form=mac_text),
        "sender_protocol_addr": HeaderField(varying_address(IPV4, random=True), "sender_ip", form=ipv4_text),
        "target_hardware_addr": HeaderField(constant(MAC), "target_mac", form=mac_text),
        "target_protocol_addr": HeaderField(varying_address(IPV4, random=True), "target_ip", form=ipv4_text),
    }),
    "vxlan": HeaderKind(Vxlan, 8, {
        "flags": HeaderField(always(8, "a network identifier is sent (RFC 7348)")),
        "reserved0": HeaderField(always(0, "reserved (RFC 7348)")),
        "vni": HeaderField(_unassigned(bits(24)), "vni"),
        "reserved1": HeaderField(always(0, "reserved (RFC 7348)")),
    }),
    "mpls": HeaderKind(Mpls, 4, {
        "label": HeaderField(_unassigned(bits(20)), "label", 16),
        "traffic_class": HeaderField(varying(bits(3)), "tc"),
        "bottom_of_stack": HeaderField(filled_in()),
        "time_to_live": HeaderField(varying(bits(8), default=64), "ttl", 64),
    }),
    "gre": HeaderKind(Gre, 4, {
        "checksum_present": HeaderField(always(0, "no checksum is sent")),
        "reserved0": HeaderField(always(0, "reserved (RFC 2784)")),
        "version": HeaderField(always(0, "of RFC 2784")),
        "protocol": HeaderField(constant(only((0x0800, 0x86DD, 0x6558), "the header that follows decides"), auto=True)),
        "checksum": HeaderField(Refused("no checksum is sent")),
        "reserved1": HeaderField(Refused("it comes with a checksum")),
    }),
}  # fmt: skip


@dataclass
class Packet:
    """What the frames of a flow are, gathered while their headers are read in order."""

    path: str
    problems: Problems
    where: str = ""  # the path of the header that is being read
    place: str = ""  # the same header to field programs, e.g. "vlan[1]"
    seen: Counter[str] = field(default_factory=Counter)
    layers: list[Layer] = field(default_factory=list)
    fields: list[FieldProgram] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)  # after which each of the fields repeats
    seeds: dict[int, str] = field(default_factory=dict)  # and the path of the first that has it
    wrong: set[Checksum] = field(default_factory=set)
    bytes: int = 0  # of all headers

    @property
    def flows(self) -> int:
        """After how many frames all of it repeats."""
        return math.lcm(*self.counts)

    def add(self, number: int, name: str, values: Mapping[str, Any]) -> None:
        """The next header, as a layer of the engine."""
        nth, self.seen[name] = self.seen[name], self.seen[name] + 1
        self.where = f"{self.path}.packet[{number}].{name}"
        self.place = ("eth" if name == "ethernet" else name) + (f"[{nth}]" if nth else "")
        if HEADERS[name].layer is Icmp:
            values = values.get("echo") or {}
        attributes: dict[str, Any] = {}
        for key, described in HEADERS[name].fields.items():
            if described.checksum and (values.get(key) or {}).get("generated") == "bad":
                self.wrong.add(described.checksum)
            if described.layer:
                value = self.number(values, key, described)
                attributes[described.layer] = None if value is None else described.form(value)
        if name == "ipv4":
            attributes["dscp"], attributes["ecn"] = self._priority(values.get("priority"))
        elif name == "ipv6":
            attributes["dscp"], attributes["ecn"] = divmod(attributes.pop("traffic_class"), 4)
        elif name == "tcp":
            attributes["flags"] = tuple(flag for key, flag in TCP_FLAGS.items() if self.number(values, key, _SET))
        self.layers.append(Layer(**{name: HEADERS[name].layer(**attributes)}))
        self.bytes += HEADERS[name].bytes

    def number(self, values: Mapping[str, Any], name: str, described: HeaderField) -> int | None:
        """The template's value of a field; its program is kept, if it varies."""
        pattern = values.get(name)
        if pattern is None or pattern["choice"] == "auto":
            return described.default
        path = f"{self.where}.{name}"
        try:
            varied = program(pattern, described.fold)
        except ValueError as error:
            self.problems.note(path, str(error))
            return described.default
        if varied.op is not None:
            self.fields.append(FieldProgram(f"{self.place}.{described.layer}", varied.op))
            self.counts.append(varied.count)
            if varied.seed is not None:
                self.seeds.setdefault(varied.seed, path)
        return varied.base

    def _priority(self, priority: Mapping[str, Any] | None) -> tuple[int, int]:
        """Code point and congestion bits (RFC 2474, RFC 3168)."""
        if priority is None:
            return 0, 0
        if priority["choice"] == "raw":
            return divmod(self.number(priority, "raw", _RAW) or 0, 4)
        values = priority["dscp"]
        return self.number(values, "phb", _PHB) or 0, self.number(values, "ecn", _ECN) or 0


def packet(headers: Sequence[Header], path: str, problems: Problems) -> Packet:
    """The frames of headers in order, the outermost first. What is wrong is noted; then the result is of no use."""
    frames = Packet(path, problems)
    for number, (name, values) in enumerate(headers):
        frames.add(number, name, values)
    if not headers or headers[0][0] != "ethernet":
        problems.note(f"{path}.packet[0]", "expected ethernet: frames begin with it")
    if (flows := frames.flows) > MOST_TUPLES:
        problems.note(f"{path}.packet", f"the patterns repeat after {flows} frames, expected at most {MOST_TUPLES}")
    if len(frames.seeds) > 1:
        seeds, where = ", ".join(map(str, frames.seeds)), list(frames.seeds.values())[-1]
        problems.note(f"{where}.random.seed", f"expected one seed in a flow, got {seeds}")
    return frames

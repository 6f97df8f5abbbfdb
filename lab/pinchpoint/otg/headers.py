"""A flow's packet as the engine's layers and field programs."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from pinchpoint.engine.streams import (
    Ethernet,
    FieldProgram,
    Icmp,
    Ipv4,
    Ipv6,
    Layer,
    Tcp,
    TcpFlag,
    Udp,
    Vlan,
)  # fmt: skip
from pinchpoint.otg.fields import TCP_FLAGS
from pinchpoint.otg.patterns import Program, chosen, ipv4_text, ipv6_text, low_half, mac_text, program
from pinchpoint.otg.shape import Problems

HEADER_BYTES: Final[Mapping[str, int]] = {
    "ethernet": 14, "vlan": 4, "ipv4": 20, "ipv6": 40, "udp": 8, "tcp": 20, "icmp": 8, "icmpv6": 8,
}  # fmt: skip
ENGINE_NAME: Final = {"ethernet": "eth"}
MOST_TUPLES: Final = 1 << 48
Header = tuple[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Packet:
    """What the frames of a flow are."""

    layers: tuple[Layer, ...]
    fields: tuple[FieldProgram, ...]
    flows: int
    seed: int
    wrong: tuple[Literal["ipv4", "l4"], ...]
    bytes: int  # of all headers


@dataclass
class _Reading:
    """What is gathered while headers are read in order."""

    path: str
    problems: Problems
    seen: Counter[str] = field(default_factory=Counter)
    fields: list[FieldProgram] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    seeds: dict[int, str] = field(default_factory=dict)
    wrong: set[Literal["ipv4", "l4"]] = field(default_factory=set)
    header: str = ""
    number: int = 0

    def enter(self, number: int, header: str) -> None:
        self.number, self.header = number, header
        self.seen[header] += 1

    def varying(
        self, values: Mapping[str, Any], name: str, engine: str, default: int = 0, fold: Callable[[int], int] = int
    ) -> int:
        """The template's value of a field that may vary; its program is kept."""
        pattern = values.get(name)
        if pattern is None or pattern["choice"] == "auto":
            return default
        path = f"{self.path}.packet[{self.number}].{self.header}.{name}"
        try:
            fields = program(pattern, fold)
        except ValueError as error:
            self.problems.note(path, str(error))
            return default
        if fields.op is not None:
            self._keep(fields, engine, path)
        return fields.base

    def _keep(self, program: Program, engine: str, path: str) -> None:
        nth = self.seen[self.header] - 1
        name = ENGINE_NAME.get(self.header, self.header)
        self.fields.append(program.field(f"{name}{f'[{nth}]' if nth else ''}.{engine}"))
        self.counts.append(program.count)
        if program.seed is not None:
            self.seeds.setdefault(program.seed, path)

    def checksum(self, values: Mapping[str, Any], name: str, which: Literal["ipv4", "l4"]) -> None:
        value = values.get(name)
        if value is not None and value.get("generated") == "bad":
            self.wrong.add(which)


def packet(headers: Sequence[Header], path: str, problems: Problems) -> Packet:
    """The frames of headers in order, the outermost first. What is wrong is noted; then the result is of no use."""
    reading = _Reading(path, problems)
    layers = []
    for number, (name, values) in enumerate(headers):
        reading.enter(number, name)
        layers.append(_LAYERS[name](reading, values))
    if not headers or headers[0][0] != "ethernet":
        problems.note(f"{path}.packet[0]", "expected ethernet: frames begin with it")
    flows = math.lcm(*reading.counts)
    if flows > MOST_TUPLES:
        problems.note(f"{path}.packet", f"the patterns repeat after {flows} frames, expected at most {MOST_TUPLES}")
    if len(reading.seeds) > 1:
        seeds, where = ", ".join(map(str, reading.seeds)), list(reading.seeds.values())[-1]
        problems.note(f"{where}.random.seed", f"expected one seed in a flow, got {seeds}")
    return Packet(
        tuple(layers), tuple(reading.fields), flows, next(iter(reading.seeds), 0), tuple(sorted(reading.wrong)),
        sum(HEADER_BYTES[name] for name, _ in headers),
    )  # fmt: skip


def _ethernet(reading: _Reading, values: Mapping[str, Any]) -> Layer:
    src, dst = reading.varying(values, "src", "src"), reading.varying(values, "dst", "dst")
    return Layer(ethernet=Ethernet(mac_text(src), mac_text(dst), chosen(values.get("ether_type"))))


def _vlan(reading: _Reading, values: Mapping[str, Any]) -> Layer:
    number, priority = reading.varying(values, "id", "id"), reading.varying(values, "priority", "pcp")
    tpid = chosen(values.get("tpid"), 0x8100) or 0
    return Layer(vlan=Vlan(number, priority, bool(chosen(values.get("cfi"), 0)), tpid))


def _ipv4(reading: _Reading, values: Mapping[str, Any]) -> Layer:
    reading.checksum(values, "header_checksum", "ipv4")
    dscp = ecn = 0
    priority = values.get("priority")
    if priority is not None and priority["choice"] == "raw":
        dscp, ecn = divmod(chosen(priority["raw"], 0) or 0, 4)
    elif priority is not None and priority["dscp"]:
        dscp = reading.varying(priority["dscp"], "phb", "dscp")
        ecn = chosen(priority["dscp"].get("ecn"), 0) or 0
    return Layer(
        ipv4=Ipv4(
            src=ipv4_text(reading.varying(values, "src", "src")),
            dst=ipv4_text(reading.varying(values, "dst", "dst")),
            ttl=reading.varying(values, "time_to_live", "ttl", 64),
            dscp=dscp,
            ecn=ecn,
            identification=reading.varying(values, "identification", "identification"),
            dont_fragment=bool(chosen(values.get("dont_fragment"), 0)),
            protocol=chosen(values.get("protocol")),
        )
    )


def _ipv6(reading: _Reading, values: Mapping[str, Any]) -> Layer:
    dscp, ecn = divmod(reading.varying(values, "traffic_class", "traffic_class"), 4)
    return Layer(
        ipv6=Ipv6(
            src=ipv6_text(reading.varying(values, "src", "src", fold=low_half)),
            dst=ipv6_text(reading.varying(values, "dst", "dst", fold=low_half)),
            hop_limit=reading.varying(values, "hop_limit", "hop_limit", 64),
            dscp=dscp,
            ecn=ecn,
            flow_label=reading.varying(values, "flow_label", "flow_label"),
            next_header=chosen(values.get("next_header")),
        )
    )


def _ports(reading: _Reading, values: Mapping[str, Any]) -> tuple[int, int]:
    reading.checksum(values, "checksum", "l4")
    return reading.varying(values, "src_port", "src"), reading.varying(values, "dst_port", "dst")


def _udp(reading: _Reading, values: Mapping[str, Any]) -> Layer:
    return Layer(udp=Udp(*_ports(reading, values)))


def _tcp(reading: _Reading, values: Mapping[str, Any]) -> Layer:
    src, dst = _ports(reading, values)
    seq, ack = reading.varying(values, "seq_num", "seq"), reading.varying(values, "ack_num", "ack")
    flags: list[TcpFlag] = [word for name, word in TCP_FLAGS.items() if chosen(values.get(name), 0)]  # type: ignore[misc]
    return Layer(tcp=Tcp(src, dst, seq, ack, tuple(flags), chosen(values.get("window"), 0) or 0))


def _echo(reading: _Reading, values: Mapping[str, Any], request: int) -> Icmp:
    echo = values.get("echo") or {}
    reading.checksum(echo, "checksum", "l4")
    identifier = reading.varying(echo, "identifier", "identifier")
    sequence = reading.varying(echo, "sequence_number", "sequence")
    kind, code = chosen(echo.get("type"), request), chosen(echo.get("code"), 0)
    return Icmp(kind or 0, code or 0, identifier, sequence)


_LAYERS: Final[Mapping[str, Callable[[_Reading, Mapping[str, Any]], Layer]]] = {
    "ethernet": _ethernet,
    "vlan": _vlan,
    "ipv4": _ipv4,
    "ipv6": _ipv6,
    "udp": _udp,
    "tcp": _tcp,
    "icmp": lambda reading, values: Layer(icmp=_echo(reading, values, 8)),
    "icmpv6": lambda reading, values: Layer(icmpv6=_echo(reading, values, 128)),
}

"""Devices without protocols: the port at which each stands, its addresses, and its way out."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from pinchpoint.engine import protocol
from pinchpoint.engine.protocol import Address
from pinchpoint.engine.streams import Arp, Ethernet, Layer, Rate, Shape, Size, Steady, StreamRequest, Template, Vlan
from pinchpoint.engine.trials import run_of
from pinchpoint.model.headers import mac_text
from pinchpoint.otg.captures import frames
from pinchpoint.otg.headers import Header
from pinchpoint.otg.patterns import ipv4_text, ipv6_text
from pinchpoint.otg.shape import Problems

_AUTO: Final[Mapping[str, Any]] = {"choice": "auto"}
TPIDS: Final = {"x8100": 0x8100, "x88A8": 0x88A8, "x9100": 0x9100, "x9200": 0x9200, "x9300": 0x9300}


@dataclass(frozen=True)
class Endpoint:
    """One address of a device, or its Ethernet end where it has none."""

    path: str  # of the gateway in the configuration
    names: tuple[str, ...]  # by which flows may call it
    port: str
    mac: int
    vlans: tuple[Mapping[str, Any], ...]
    version: int  # 4, 6; 0: no address
    address: int = 0
    gateway: int = 0
    gateway_mac: int | None = None


def endpoints(devices: Sequence[Mapping[str, Any]], ports: Sequence[str], problems: Problems) -> list[Endpoint]:
    """All ends of all devices; a port that is none of `ports` is noted."""
    endpoint: list[Endpoint] = []
    for number, device in enumerate(devices):
        for place, ethernet in enumerate(device.get("ethernets") or ()):
            path = f"devices[{number}].ethernets[{place}]"
            port = ethernet["connection"].get("port_name")
            if port not in ports:
                problems.note(f"{path}.connection.port_name", f"{port!r} is no port of this configuration")
            endpoint.extend(_of(device["name"], ethernet, path))
    return endpoint


def _of(device: str, ethernet: Mapping[str, Any], path: str) -> Iterator[Endpoint]:
    port, mac = ethernet["connection"].get("port_name"), ethernet["mac"]
    vlans, names = tuple(ethernet.get("vlans") or ()), (device, ethernet["name"])
    addresses = [
        (version, f"{path}.{key}[{number}].gateway_mac", gateway)
        for version, key in ((4, "ipv4_addresses"), (6, "ipv6_addresses"))
        for number, gateway in enumerate(ethernet.get(key) or ())
    ]
    if not addresses:
        yield Endpoint(path, names, port, mac, vlans, 0)
    for version, where, gateway in addresses:
        known = gateway.get("gateway_mac")
        resolved = known["value"] if known is not None and known["choice"] == "value" else None
        own = (*names, gateway["name"])
        yield Endpoint(where, own, port, mac, vlans, version, gateway["address"], gateway["gateway"], resolved)


def answers(ends: Sequence[Endpoint], port: str) -> tuple[Address, ...]:
    """Addresses for which a port answers ARP requests and neighbour solicitations."""
    text, own = {4: ipv4_text, 6: ipv6_text}, [end for end in ends if end.port == port and end.version]
    return tuple(Address(text[end.version](end.address), mac_text(end.mac)) for end in own)


def find(ends: Sequence[Endpoint], name: str, version: int | None) -> Endpoint | None:
    """The end that a flow calls `name`; of several the one of this IP version, if the packet has one."""
    named = [end for end in ends if name in end.names]
    fitting = [end for end in named if version is None or end.version == version]
    return next(iter(fitting or named), None)


def neighbour(ends: Sequence[Endpoint], end: Endpoint) -> int | None:
    """The MAC address of the gateway as far as the configuration says it."""
    if end.gateway_mac is not None:
        return end.gateway_mac
    at = (end.version, end.gateway)
    return next((endpoint.mac for endpoint in ends if (endpoint.version, endpoint.address) == at), None)


def addressed(
    headers: Sequence[Header], hop: int, source: Endpoint | None = None, target: Endpoint | None = None
) -> list[Header]:
    """The headers with the next hop and what the ends know, if there are ends, where the flow leaves it out."""
    filled: list[Header] = []
    for name, told in headers:
        values = dict(told)
        if name == "ethernet" and values.get("dst", _AUTO)["choice"] == "auto":
            values["dst"] = _value(hop)
        if name == "ethernet" and source:
            values.setdefault("src", _value(source.mac))
        if name in ("ipv4", "ipv6") and source and target and source.version == target.version == int(name[-1]):
            values.setdefault("src", _value(source.address))
            values.setdefault("dst", _value(target.address))
        filled.append((name, values))
    if source and source.vlans and not any(name == "vlan" for name, _ in headers):
        filled[1:1] = [("vlan", _tag(tag)) for tag in source.vlans]
    return filled


def _tag(vlan: Mapping[str, Any]) -> Mapping[str, Any]:
    values = {"id": vlan["id"], "priority": vlan["priority"], "tpid": TPIDS[vlan["tpid"]]}
    return {name: _value(value) for name, value in values.items()}


def _value(value: int) -> Mapping[str, Any]:
    return {"choice": "value", "value": value}


ASKED_S: Final = 0.5
ASK_FPS: Final = 10.0
KEPT: Final = 1000  # frames, for a port on which other things arrive
_ARP: Final = 0x0806
_TAGS: Final = frozenset(TPIDS.values())
_NOBODY: Final = "00:00:00:00:00:00"


def questions(ends: Sequence[Endpoint], file: str, epoch: int) -> protocol.Run:
    """A trial that asks for the gateway of each end."""
    streams = [_question(number, end) for number, end in enumerate(ends)]
    run = run_of("otg-arp", epoch, ASKED_S, 0.1, streams)
    capture = protocol.CaptureRequest(file, KEPT)
    return msgspec.structs.replace(run, verify_checksums=False, tx_burst=1, capture=capture)


def _question(number: int, end: Endpoint) -> StreamRequest:
    mac = mac_text(end.mac)
    tags = tuple(Layer(vlan=Vlan(vlan["id"], vlan["priority"], False, TPIDS[vlan["tpid"]])) for vlan in end.vlans)
    asked = Arp(mac, ipv4_text(end.address), _NOBODY, ipv4_text(end.gateway))
    layers = (Layer(ethernet=Ethernet(mac, "ff:ff:ff:ff:ff:ff")), *tags, Layer(arp=asked))
    return StreamRequest(
        id=number, tx_port=end.port, rx_port=None, rate=Rate(fps=ASK_FPS), shape=Shape(steady=Steady()),
        size=Size(fixed=64), template=Template(layers=layers), stamped=False, wrong_checksums=(), seed=0, flows=1,
        fields=(), tracked_flows=0,
    )  # fmt: skip


def answered(capture: bytes) -> Mapping[int, int]:
    """MAC addresses by IPv4 address, from the ARP replies of a pcapng file of the engine."""
    answers = {}
    for kept in frames(capture):
        frame, at = kept.data, 12
        while frame[at : at + 2] and int.from_bytes(frame[at : at + 2], "big") in _TAGS:
            at += 4
        body = frame[at + 2 : at + 30]
        if int.from_bytes(frame[at : at + 2], "big") == _ARP and len(body) == 28 and body[6:8] == b"\0\2":
            answers[int.from_bytes(body[14:18], "big")] = int.from_bytes(body[8:14], "big")
    return answers

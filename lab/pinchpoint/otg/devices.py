"""Devices without protocols: the port at which each stands, its addresses, and its way out."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pinchpoint.engine.protocol import Address
from pinchpoint.otg.headers import Header
from pinchpoint.otg.patterns import ipv4_text, ipv6_text, mac_text
from pinchpoint.otg.shape import Problems

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
    found: list[Endpoint] = []
    for number, device in enumerate(devices):
        for place, ethernet in enumerate(device.get("ethernets") or ()):
            path = f"devices[{number}].ethernets[{place}]"
            port = ethernet["connection"].get("port_name")
            if port not in ports:
                problems.note(f"{path}.connection.port_name", f"{port!r} is no port of this configuration")
            found.extend(_of(device["name"], ethernet, path))
    return found


def _of(device: str, ethernet: Mapping[str, Any], path: str) -> Iterator[Endpoint]:
    port, mac = ethernet["connection"].get("port_name"), ethernet["mac"]
    vlans, names = tuple(ethernet.get("vlans") or ()), (device, ethernet["name"])
    addresses = [
        (version, f"{path}.{key}[{number}].gateway_mac", one)
        for version, key in ((4, "ipv4_addresses"), (6, "ipv6_addresses"))
        for number, one in enumerate(ethernet.get(key) or ())
    ]
    if not addresses:
        yield Endpoint(path, names, port, mac, vlans, 0)
    for version, where, one in addresses:
        known = one.get("gateway_mac")
        resolved = known["value"] if known is not None and known["choice"] == "value" else None
        own = (*names, one["name"])
        yield Endpoint(where, own, port, mac, vlans, version, one["address"], one["gateway"], resolved)


def answers(ends: Sequence[Endpoint], port: str) -> tuple[Address, ...]:
    """Addresses for which a port answers ARP requests and neighbour solicitations."""
    return tuple(
        Address(address_text(end.version, end.address), mac_text(end.mac))
        for end in ends
        if end.port == port and end.version
    )


def address_text(version: int, address: int) -> str:
    """An address as people write it."""
    return ipv4_text(address) if version == 4 else ipv6_text(address)


def find(ends: Sequence[Endpoint], name: str, version: int | None) -> Endpoint | None:
    """The end that a flow calls `name`; of several the one of this IP version, if the packet has one."""
    named = [end for end in ends if name in end.names]
    fitting = [end for end in named if version is None or end.version == version]
    return next(iter(fitting or named), None)


def neighbour(ends: Sequence[Endpoint], end: Endpoint) -> int | None:
    """The MAC address of the gateway as far as the configuration says it."""
    if end.gateway_mac is not None:
        return end.gateway_mac
    return next((one.mac for one in ends if one.version == end.version and one.address == end.gateway), None)


def addressed(headers: Sequence[Header], source: Endpoint, target: Endpoint, hop: int) -> list[Header]:
    """The headers with what the ends know, where the flow leaves it out."""
    found: list[Header] = []
    for name, values in headers:
        filled = dict(values)
        if name == "ethernet":
            filled.setdefault("src", _value(source.mac))
            if "dst" not in filled or filled["dst"]["choice"] == "auto":
                filled["dst"] = _value(hop)
        if name in ("ipv4", "ipv6") and source.version == target.version == int(name[-1]):
            filled.setdefault("src", _value(source.address))
            filled.setdefault("dst", _value(target.address))
        found.append((name, filled))
    if source.vlans and not any(name == "vlan" for name, _ in headers):
        found[1:1] = [("vlan", _tag(tag)) for tag in source.vlans]
    return found


def _tag(vlan: Mapping[str, Any]) -> Mapping[str, Any]:
    values = {"id": vlan["id"], "priority": vlan["priority"], "tpid": TPIDS[vlan["tpid"]]}
    return {name: _value(value) for name, value in values.items()}


def _value(value: int) -> Mapping[str, Any]:
    return {"choice": "value", "value": value}

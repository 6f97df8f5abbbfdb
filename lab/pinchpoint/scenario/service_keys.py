"""The keys that say what a balancer does, the same for every kind of device that can."""

from collections.abc import Mapping, Sequence
from typing import Final

from pinchpoint.dut import registry
from pinchpoint.dut.device import Device
from pinchpoint.dut.services import Option, Services
from pinchpoint.keys import kinds
from pinchpoint.keys.key import Computed, Key, Table, Unset
from pinchpoint.keys.reader import Element, Values
from pinchpoint.keys.source import Source
from pinchpoint.measure import registry as measures
from pinchpoint.measure.kind import MeasureKind
from pinchpoint.model.limits import too_few
from pinchpoint.model.scenario import Backend, Mode, Scheduler, Service

SERVED: Final = tuple(one.name for one in measures.measures() if one.is_served)
"""The measures that open connections to a service."""

_SECONDS: Final = kinds.number(1, 86_400)
_OWN: Final = Unset("the device's own")

SERVICE: Final = Table(
    "service",
    "What the device balances: one virtual server, the same words for every kind of device.",
    (
        Key("address", kinds.ipv4(), "Address of the virtual server."),
        Key("port", kinds.integer(1, 65535), "Its port."),
        Key(
            "scheduler",
            kinds.word(*Scheduler),
            '"round-robin": one backend after the other; "hash": by the client\'s address and port.',
            Scheduler.ROUND_ROBIN.value,
        ),
        Key(
            "mode",
            kinds.word(*Mode),
            '"full-nat": backends see an address of `local`; "dnat": they see the client\'s.',
            Mode.FULL_NAT.value,
        ),
        Key("clients", kinds.ipv4_range(), "Addresses that connections come from.", "10.0.1.1"),
        Key(
            "client_ports",
            kinds.udp_range(),
            "Ports of each of them. Addresses times ports are the five-tuples: a load that has more connections uses "
            "some again.",
            "1025-65535",
        ),
        Key("local", kinds.ipv4_range(), "Addresses that backends see, with full-NAT.", Unset("none, as with dnat")),
        Key("local_ports", kinds.udp_range(), "Ports of each local address.", _OWN),
        Key("max_connections", kinds.integer(1, 100_000_000), "Places in the table of connections.", _OWN),
        Key("opening_s", _SECONDS, "How long it remembers a SYN that is not followed up, seconds.", _OWN),
        Key("established_s", _SECONDS, "How long it remembers a connection on which nothing is sent, seconds.", _OWN),
        Key("closed_s", _SECONDS, "How long it remembers a connection that has closed, seconds.", _OWN),
        Key("client_port", kinds.port_name(), "The [[port]] behind which the clients are.", Computed("the first")),
        Key("server_port", kinds.port_name(), "The [[port]] behind which the backends are.", Computed("the second")),
    ),
    measures=SERVED,
)
BACKEND: Final = Table(
    "backend",
    "A server behind the balancer. They are numbered from 0 in this order.",
    (
        Key("address", kinds.ipv4(), "Its IPv4 address."),
        Key("port", kinds.integer(1, 65535), "Its port.", 80),
    ),
    at_most=256,
    measures=SERVED,
)


def check(
    source: Source, device: Device, tables: Mapping[str, Values], arrays: Mapping[str, Sequence[Element]]
) -> None:
    """The device can do it, and its parts fit together. Fills in the ports."""
    service = tables["service"]
    if not service:
        return
    _check_can(source, device, service)
    _check_ports(source, service, arrays["port"])
    is_full = service.get("mode") == Mode.FULL_NAT
    if is_full and service.get("local") is None:
        source.problem(("service", "local"), 'missing; mode = "full-nat" needs addresses that backends see')
    if not is_full and service.get("local") is not None:
        source.problem(("service", "local"), f'expected none with mode = "{Mode.DNAT}"')
    if not is_full and service.get("local_ports") is not None:
        source.problem(("service", "local_ports"), f'expected none with mode = "{Mode.DNAT}"')
    seen = set[tuple[str, int]]()
    for one in arrays["backend"]:
        end = (one.values.get("address", ""), one.values.get("port", 0))
        if end in seen:
            source.problem((*one.at, "address"), f'expected another address or port, found "{end[0]}:{end[1]}" again')
        seen.add(end)


def check_pool(
    source: Source,
    measure: MeasureKind,
    tables: Mapping[str, Values],
    arrays: Mapping[str, Sequence[Element]],
    own: str,
) -> None:
    """Local ports are enough for the connections that a measure states in its table `own`."""
    service, wanted = tables["service"], measure.wanted(tables[own])
    ports, closed_s, local = (service.get(key) for key in ("local_ports", "closed_s", "local"))
    if wanted is None or ports is None or closed_s is None or local is None:
        return
    places = local.count * ports.count * len(arrays["backend"])
    if missing := too_few(places, closed_s, wanted):
        source.problem(
            ("service", "local_ports"),
            f"local addresses: {local.count:,}, ports of each: {ports.count:,}, backends: {len(arrays['backend'])}, "
            f"which makes {places:,} places, each held for closed_s = {closed_s:g}; {wanted.connections:,} connections "
            f"at {wanted.cps:g} per second need {places + missing:,}",
        )


def _check_can(source: Source, device: Device, service: Values) -> None:
    can = device.keys.services
    if can is None:
        source.mismatch(("dut", "kind"), f"a device that balances ({_kinds()})", device.kind)
        return
    for key, words in (("scheduler", can.schedulers), ("mode", can.modes)):
        if key in service and service[key] not in words:
            expected = " or ".join(f'"{word}"' for word in words)
            able = [one for one in registry.kinds() if service[key] in _words(registry.device(one).keys.services, key)]
            others = f'; "{service[key]}" is done by {", ".join(able)}' if able else ""
            source.mismatch(("service", key), f"{expected} of {device.kind}{others}", str(service[key]))
    for option in Option:
        if service.get(option) is not None and option not in can.options:
            able = [one for one in registry.kinds() if option in _options(registry.device(one).keys.services)]
            others = f"; it can be set for {', '.join(able)}" if able else ""
            source.problem(("service", option), f"{device.kind} has no such setting{others}")


def _words(can: Services | None, key: str) -> tuple[str, ...]:
    if can is None:
        return ()
    return tuple(str(word) for word in (can.schedulers if key == "scheduler" else can.modes))


def _options(can: Services | None) -> tuple[Option, ...]:
    return can.options if can else ()


def _kinds() -> str:
    return ", ".join(one for one in registry.kinds() if registry.device(one).keys.services)


def _check_ports(source: Source, service: Values, ports: Sequence[Element]) -> None:
    names = [port.values["name"] for port in ports if "name" in port.values]
    for key, number in (("client_port", 0), ("server_port", 1)):
        if key not in service and len(names) > number:
            service[key] = names[number]
        if key in service and service[key] not in names:
            expected = f"the name of a [[port]] ({', '.join(names) or 'there is none'})"
            source.mismatch(("service", key), expected, service[key])
    first = service.get("client_port")
    if first is not None and first == service.get("server_port"):
        source.problem(("service", "server_port"), f'expected a port other than client_port, found "{first}" in both')


def service_of(tables: Mapping[str, Values], arrays: Mapping[str, Sequence[Element]]) -> Service | None:
    """What the file says; None where the measure opens no connections."""
    if not (values := tables["service"]):
        return None
    words = {"scheduler": Scheduler(values["scheduler"]), "mode": Mode(values["mode"])}
    return Service(**{**values, **words}, backends=tuple(Backend(**one.values) for one in arrays["backend"]))

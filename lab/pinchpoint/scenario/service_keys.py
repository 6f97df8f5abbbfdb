"""The keys that say what a balancer does, the same for every kind of device that can."""

from collections.abc import Iterator, Mapping, Sequence
from ipaddress import ip_address
from typing import Final

from pinchpoint.dut import registry
from pinchpoint.dut.device import Device
from pinchpoint.dut.services import Option, Services
from pinchpoint.keys import kinds
from pinchpoint.keys.key import Computed, Key, Table, Unset
from pinchpoint.keys.lexical import Path
from pinchpoint.keys.reader import Element, Values, lookup
from pinchpoint.keys.source import Source, show
from pinchpoint.measure import registry as measures
from pinchpoint.measure.kind import Arrays, MeasureKind, needed
from pinchpoint.model import addresses, units
from pinchpoint.model.limits import too_few
from pinchpoint.model.scenario import (
    Backend,
    Closer,
    Established,
    Family,
    Mode,
    ProxyHeader,
    Range,
    Scheduler,
    Segment,
    Service,
    Transport,
)
from pinchpoint.scenario.service_ends import (
    SOCKETS,
    ByTable,
    check_answers,
    check_header,
    check_programs,
    check_sockets,
    check_tags,
    is_v6,
)

SERVED: Final = tuple(measure.name for measure in measures.measures() if measure.is_served)
"""The measures that open connections to a service."""
CHECKED: Final = ("verify", "change")
"""The measures beside which a balancer may open connections of its own."""
ASKING: Final = ("verify", "connections", "change")
"""The measures that ask one request of each connection, if need be; so they can ask it by UDP."""
THROUGH: Final = tuple(measure.name for measure in measures.measures() if measure.through_service)
"""The measures whose frames may be those of connections that stand."""
SHORTEST: Final = 76  # bytes of a TCP frame: headers of 54, the engine's signature of 18, the check sequence
SHORTEST_PUBLISHED: Final = 78

_EXPECTED: Final = Segment(seq=1_000_001, ack=2_000_001)
"""Of the first data of every connection; who opens them begins one before that."""
_OF_SEGMENTS: Final = {"opening_s": None, "established_s": None, "closes": Closer.CLIENT, "timestamps": False}
_ONE_REQUEST: Final = {"requests": 1, "hold_s": 0.0, "work": "request", "programs": False}
"""Keys of [service] and of a measure as they are with UDP."""
_SECONDS: Final = kinds.number(1, 86_400)
_OWN: Final = Unset("the device's own")

SERVICE: Final = Table(
    "service",
    "What the device balances: one virtual server, or several with the same backends; the same words for every kind of "
    "device.",
    (
        Key("address", kinds.ip_range(), "Address of the virtual server; of several a range."),
        Key("port", kinds.udp_range(),
            "Its port; a range makes each a virtual server, at every address. Each client has another one, and the "
            "next one with its next port."),
        Key("transport", kinds.word(*Transport),
            "What carries connections; over UDP each is one request and its answer, as of DNS: `closed_s` is how long "
            "the device remembers it after that.", Transport.TCP.value),
        Key("scheduler", kinds.word(*Scheduler),
            "\"round-robin\": one backend after the other; \"hash\": by the client's address and port; "
            "\"source-hash\": by its address alone, so that a client stays with a backend; \"least-connections\": the "
            "backend with the fewest open ones.",
            Scheduler.ROUND_ROBIN.value),
        Key("mode", kinds.word(*Mode),
            "\"full-nat\": backends see an address of `local`; \"dnat\": they see the client's; \"direct-return\": "
            "they see the client's address and the service's, and answer the client past the device.",
            Mode.FULL_NAT.value),
        Key("clients", kinds.ip_range(), "Addresses that connections come from.", "10.0.1.1"),
        Key("client_ports", kinds.udp_range(),
            "Ports of each of them. Addresses times ports are the five-tuples: a load that has more connections uses "
            "some again.", "1025-65535"),
        Key("local", kinds.ip_range(), "Addresses that backends see, with full-NAT.", Unset("none, as with dnat")),
        Key("local_ports", kinds.udp_range(), "Ports of each local address.", _OWN),
        Key("max_connections", kinds.integer(1, 100_000_000), "Places in the table of connections.", _OWN),
        Key("opening_s", _SECONDS, "How long it remembers a SYN that is not followed up, seconds.", _OWN),
        Key("established_s", _SECONDS, "How long it remembers a connection on which nothing is sent, seconds.", _OWN),
        Key("closed_s", _SECONDS, "How long it remembers a connection that has closed, seconds.", _OWN),
        Key("health_s", kinds.number(0.1, 5),
            "How often the device checks its backends, seconds: by connections of its own, or by trying again after "
            "that time a backend that failed; docs/balancers.md says which. `change` shows how soon a failure is "
            "noticed.", Unset("never")),
        Key("closes", kinds.word(*Closer),
            "Which side closes a connection first: the client once it has its last answer, or the backend with that. A "
            "proxy whose backends close first keeps no port in TIME-WAIT.", Closer.CLIENT.value),
        Key("timestamps", kinds.boolean(),
            "Clients and backends of the engine send TCP time stamps (RFC 7323), as most kernels do; with them a proxy "
            "whose `dut.tcp_tw_reuse` is 1 uses a port in TIME-WAIT again after a second.", False),
        Key("proxy_protocol", kinds.word(*ProxyHeader),
            "The header of the PROXY protocol in which the device tells a backend its client, as text or binary. "
            "`verify` compares it with the client.", Unset("no header")),
        Key("vlan", kinds.integer(1, 4094),
            "The tag (802.1Q) of every frame at both ports: each end of the veth pair has a VLAN interface, which is "
            "the port.", Unset("no tags")),
        Key("client_port", kinds.port_name(), "The [[port]] behind which the clients are.", Computed("the first")),
        Key("server_port", kinds.port_name(), "The [[port]] behind which the backends are.", Computed("the second")),
    ),
    measures=SERVED,
    also=(*THROUGH, *SOCKETS),
)  # fmt: skip
NOT_MEASURED: Final[Mapping[str, str]] = {
    "service.protocol": 'write service.transport = "udp" for requests and answers by UDP',
    "service.tls": "the engine has no TLS: it measures the connections below it",
    "service.tcp_tw_reuse": "it is a key of [dut] where the device is a proxy",
}
"""Keys that one would look for in [service], and why there are none."""
ESTABLISHED: Final = Table(
    "established",
    "Connections to the [service] that are opened before frames are measured, and stand. The frames are TCP segments "
    "with data on these connections, from the clients to the service, in place of [[stream]]; each has sequence "
    "numbers that the device expects, and no backend answers.",
    (
        Key("connections", kinds.integer(1, 10_000_000), "How many.", 1000),
        Key("frame_bytes", kinds.integer(SHORTEST, 9022),
            "Size of the frames with check sequence, bytes. A device may take less.", SHORTEST_PUBLISHED),
        Key("rate_cps", kinds.number(1, 1_000_000), "Connections per second at which they are opened.", 5000.0),
        Key("timeout_s", kinds.number(0.01, 600), "One that takes longer to open is an error, seconds.", 20.0),
    ),
    also=THROUGH,
)  # fmt: skip
BACKEND: Final = Table(
    "backend",
    "A server behind the balancer. They are numbered from 0 in this order.",
    (
        Key("address", kinds.ip(), "Its address, of the family of `service.local`."),
        Key("port", kinds.integer(1, 65535), "Its port.", 80),
        Key("weight", kinds.integer(1, 256), "Its share of the connections, relative to those of the others.", 1),
    ),
    at_most=256,
    measures=SERVED,
    also=(*THROUGH, *SOCKETS),
)  # fmt: skip


def check(source: Source, device: Device, tables: ByTable, arrays: Arrays) -> None:
    """The device can do it, and its parts fit together. Fills in the ports."""
    service, measure = tables["service"], tables[""].get("measure", "")
    if not service:
        if tables["established"]:
            source.problem(("established",), "expected a [service] to which the connections are opened")
        if measure and device.keys.services and device.keys.services.is_required:
            balances = f'missing; dut.kind is "{device.kind}", which only balances a service'
            source.problem(("service",), f"{balances}, with measure = {', '.join(SERVED)}")
        return
    _check_can(source, device, service)
    _check_virtual(source, device, measure, service)
    _check_shares(source, device, service, arrays["backend"])
    _check_beside(source, measure, service)
    check_header(source, measure, tables)
    check_tags(source, tables, arrays["port"])
    if measure in THROUGH and service.get("vlan") is not None:
        source.problem(("service", "vlan"), f'expected none with measure = "{measure}", whose frames have no tags')
    if measure in THROUGH:
        _check_standing(source, device, measure, tables, arrays)
    _check_ports(source, service, arrays["port"])
    if measure in SOCKETS:
        check_sockets(source, measure, tables, arrays)
    mode = service.get("mode")
    _check_local(source, service)
    _check_families(source, device, service, arrays["backend"])
    if tables.get(measure, {}).get("programs"):
        check_programs(source, measure, service)
    if service.get("transport") == Transport.UDP:
        _check_datagrams(source, device, measure, tables)
    if mode == Mode.DIRECT:
        _check_direct(source, measure, tables, arrays["backend"])
    check_answers(source, measure, tables)
    _check_once(source, arrays["backend"])
    check_addresses(source, service, arrays["backend"])


def _check_local(source: Source, service: Values) -> None:
    """Only full NAT has addresses of the balancer's own that backends see."""
    mode = service.get("mode")
    if mode == Mode.FULL_NAT and service.get("local") is None:
        source.problem(("service", "local"), 'missing; mode = "full-nat" needs addresses that backends see')
    for key in ("local", "local_ports"):
        if mode != Mode.FULL_NAT and service.get(key) is not None:
            source.problem(("service", key), f'expected none with mode = "{mode}"')


def _check_beside(source: Source, measure: str, service: Values) -> None:
    """What the measure counts is of its own connections, and what it judges is promised."""
    if measure not in CHECKED and service.get("health_s") is not None:
        problem = f'expected none with measure = "{measure}": the device\'s own connections would be counted'
        source.problem(("service", "health_s"), problem)
    if (measure in THROUGH or measure in SOCKETS) and service.get("timestamps"):
        own = "whose frames have none" if measure in THROUGH else "whose kernel sockets have them by themselves"
        source.problem(("service", "timestamps"), f'expected false with measure = "{measure}", {own}')
    if measure == "change" and service.get("scheduler") == Scheduler.SOURCE:
        problem = f'expected another scheduler with measure = "{measure}": shares of connections are not promised'
        source.problem(("service", "scheduler"), problem)


def check_pool(
    source: Source, measure: MeasureKind, asked: Values, service: Values, backends: Sequence[Element]
) -> None:
    """Local ports are enough for the connections that a measure states in its table."""
    wanted = measure.wanted(asked)
    ports, closed_s, local = (service.get(key) for key in ("local_ports", "closed_s", "local"))
    if wanted is None or ports is None or closed_s is None or local is None:
        return
    places = local.count * ports.count * len(backends)
    if missing := too_few(places, closed_s, wanted):
        there = f"local addresses: {local.count:,}, ports of each: {ports.count:,}, backends: {len(backends)}"
        held = f"which makes {places:,} places, each held for closed_s = {closed_s:g}"
        need = f"{wanted.connections:,} connections at {wanted.cps:g} per second need {places + missing:,}"
        source.problem(("service", "local_ports"), f"{there}, {held}; {need}")


def _check_can(source: Source, device: Device, service: Values) -> None:
    can = device.keys.services
    if can is None:
        balancing = (kind for kind in registry.kinds() if registry.device(kind).keys.services)
        source.mismatch(("dut", "kind"), f"a device that balances ({', '.join(balancing)})", device.kind)
        return
    for key, words in (("scheduler", can.schedulers), ("mode", can.modes)):
        if key in service and service[key] not in words:
            expected = " or ".join(f'"{word}"' for word in words)
            able = _able(f"{key}s", service[key])
            others = f'; "{service[key]}" is done by {able}' if able else ""
            source.mismatch(("service", key), f"{expected} of {device.kind}{others}", str(service[key]))
    for option in Option:
        if service.get(option) is not None and option not in can.options:
            able = _able("options", option)
            others = f"; it can be set for {able}" if able else ""
            source.problem(("service", option), f"{device.kind} has no such setting{others}")


def _check_virtual(source: Source, device: Device, measure: str, service: Values) -> None:
    """The device has as many virtual servers, and the engine can tell them apart."""
    address, port, can = service.get("address"), service.get("port"), device.keys.services
    if port and not port.first:
        source.mismatch(("service", "port"), "ports from 1 on: port 0 is reserved", f"{port.first}-{port.last}")
    if address is None or port is None or can is None or (count := address.count * port.count) == 1:
        return
    one = f'with mode = "{Mode.DIRECT}"' if service.get("mode") == Mode.DIRECT else ""
    one = f'with measure = "{measure}", whose frames are all for one' if measure in THROUGH else one
    one = f'with measure = "{measure}", whose clients connect to one' if measure in SOCKETS else one
    if one or count > can.most_virtual:
        several = ", ".join(kind for kind in registry.kinds() if _services(kind).most_virtual > 1)
        most = f"at most {units.counted(can.most_virtual, 'virtual server')} of {device.kind}; {several} have several"
        expected = f"one virtual server {one}" if one else most
        source.mismatch(("service", "address"), expected, f"{count:,} (addresses times ports)")


def _services(kind: str) -> Services:
    return registry.device(kind).keys.services or Services((), ())


def _check_shares(source: Source, device: Device, service: Values, backends: Sequence[Element]) -> None:
    """The device has weights, and it is known what they do."""
    uneven = [element for element in backends if element.values.get("weight", 1) != 1]
    can = device.keys.services
    if not uneven or can is None:
        return
    if not can.has_weights:
        able = ", ".join(kind for kind in registry.kinds() if _services(kind).has_weights)
        source.mismatch((*uneven[0].at, "weight"), f"1 of {device.kind}; {able} have weights", "another")
    elif service.get("scheduler") == Scheduler.LEAST:
        problem = f'expected 1 with scheduler = "{Scheduler.LEAST}": what a weight does there is not verified'
        source.problem((*uneven[0].at, "weight"), problem)


def _able(what: str, word: str) -> str:
    """The kinds of device whose `Services` have that word among the `what`."""
    services = {kind: registry.device(kind).keys.services for kind in registry.kinds()}
    return ", ".join(kind for kind, can in services.items() if can and word in getattr(can, what))


def _check_datagrams(source: Source, device: Device, measure: str, tables: ByTable) -> None:
    """The device balances them, and nothing is asked for that only connections of TCP have. Fills in the requests."""
    at, udp = ("service", "transport"), Transport.UDP.value
    if not _services(device.kind).has_udp:
        able = ", ".join(kind for kind in registry.kinds() if _services(kind).has_udp)
        source.mismatch(at, f'"{Transport.TCP}" of {device.kind}; "{udp}" is done by {able}', udp)
    if measure not in ASKING:
        source.mismatch(at, f'"{Transport.TCP}" with measure = "{measure}": a datagram holds no connection open', udp)
    if tables["service"].get("mode") == Mode.DIRECT:
        source.mismatch(("service", "mode"), f'another with transport = "{udp}"', Mode.DIRECT.value)
    for key, only in _OF_SEGMENTS.items():
        if tables["service"].get(key, only) != only:
            source.problem(("service", key), f'expected none with transport = "{udp}": it is of TCP')
    asks = tables.get(measure, {})
    if asks.get("event") == "reset":
        source.mismatch((measure, "event"), f'another with service.transport = "{udp}"', "reset")
    for key, value in _ONE_REQUEST.items():
        if (written := lookup(source.data, (measure, key))) not in (None, value):
            source.mismatch((measure, key), f'{show(value)} with service.transport = "{udp}"', written)
        elif key in asks:
            asks[key] = value


def _check_once(source: Source, backends: Sequence[Element]) -> None:
    """No two backends are the same."""
    seen = set[tuple[str, int]]()
    for element in backends:
        end = (element.values.get("address", ""), element.values.get("port", 0))
        if end in seen:
            problem = f'expected another address or port, found "{end[0]}:{end[1]}" again'
            source.problem((*element.at, "address"), problem)
        seen.add(end)


def _check_families(source: Source, device: Device, service: Values, backends: Sequence[Element]) -> None:
    """Clients are of the service's family, local addresses and backends of one, and the device translates between."""
    if (virtual := service.get("address")) is None:
        return
    front = addresses.shown(virtual.first)
    clients, local = (span and span.as_addresses() for span in (service.get("clients"), service.get("local")))

    def alike(at: Path, address: str, other: str, expected: str) -> None:
        if addresses.is_v6(address) != addresses.is_v6(other):
            source.mismatch(at, expected, address)

    if clients:
        alike(("service", "clients"), clients, front, f"addresses of the family of service.address, {front}")
    known = [element for element in backends if "address" in element.values]
    if not known:
        return
    first = known[0].values["address"]
    for backend in known[1:]:
        alike((*backend.at, "address"), backend.values["address"], first, f"an address of the family of {first}")
    if local:
        alike(("service", "local"), local, first, f"addresses of the backends' family, as {first}")
    family, can = Family.of(front, first), device.keys.services
    if can and family not in can.families:
        able = _able("families", family)
        expected = f"{' or '.join(can.families)} of {device.kind}; {family} is done by {able}"
        source.mismatch(("service", "address"), expected, f"{front}, with a backend at {first}")


def _check_direct(source: Source, measure: str, tables: ByTable, backends: Sequence[Element]) -> None:
    """Frames keep their addresses and ports, so a backend is identified by its Ethernet address."""
    ports, seen = tables["service"].get("port"), set[str]()
    port = ports.first if ports else None
    why = f'mode = "{Mode.DIRECT}", which changes no port and finds a backend by its Ethernet address'
    for element in backends:
        address, own = element.values.get("address", ""), element.values.get("port")
        if None not in (port, own) and own != port:
            source.mismatch((*element.at, "port"), f"{port}, the service's, with {why}", own)
        if address in seen:
            source.mismatch((*element.at, "address"), f"an address of its own with {why}", address)
        seen.add(address)
    if measure in THROUGH:
        modes = " or ".join(f'"{mode}"' for mode in Mode if mode is not Mode.DIRECT)
        why = f'measure = "{measure}", whose frames are all for one Ethernet address behind the device'
        source.mismatch(("service", "mode"), f"{modes} with {why}", Mode.DIRECT.value)


def _check_standing(source: Source, device: Device, measure: str, tables: ByTable, arrays: Arrays) -> None:
    """Frames pass through the device on as many connections as the clients have addresses and ports for."""
    of_connections = " or ".join(f'"{measure}"' for measure in SERVED)
    if (can := device.keys.services) and can.terminates:
        why = f"{device.kind} ends each connection and opens one of its own, so that no frame passes through it"
        source.mismatch(("measure",), f"{of_connections}: {why}", measure)
    needed(source, {"backend": 1}, arrays)
    if is_v6(tables["service"]):
        expected = f"{of_connections} with a service of IPv6: the frames of others are IPv4"
        source.mismatch(("measure",), expected, measure)
    if arrays["stream"]:
        expected = "expected none with a [service]: its frames follow from [service] and [established]"
        source.problem(arrays["stream"][0].at, expected)
    clients, ports = (tables["service"].get(key) for key in ("clients", "client_ports"))
    wanted = tables["established"].get("connections", 0)
    if clients and ports and wanted > (most := clients.count * ports.count):
        of = f"service.clients has {clients.count:,} of {ports.count:,} ports each"
        source.mismatch(("established", "connections"), f"at most {most:,}: {of}", wanted)


def streams(tables: ByTable) -> list[Element]:
    """The frames on connections that stand; none where the file has no such connections, or has them wrong.

    Connection number n has the n-th five-tuple: addresses change fastest, as where the engine opens them.
    """
    service, established = tables["service"], tables["established"]
    needs = {"address", "port", "clients", "client_ports", "client_port", "server_port"}
    if not (needs <= service.keys() and {"connections", "frame_bytes"} <= established.keys()):
        return []
    if is_v6(service):  # refused
        return []
    clients, ports, count = service["clients"], service["client_ports"], established["connections"]
    values: Values = {
        "tx_port": service["client_port"],
        "rx_port": service["server_port"],
        "frame_bytes": established["frame_bytes"],
        "share": 1.0,
        "eth_src": "02:00:00:00:00:01",
        "eth_dst": "02:00:00:00:00:02",  # until the device says where the service is
        "ipv4_src": clients,
        "ipv4_dst": Range(service["address"].first, 1),
        "udp_src": Range(ports.first, min(ports.count, -(-count // clients.count))),
        "udp_dst": Range(service["port"].first, 1),
        "order": ("ipv4_src", "udp_src", "ipv4_dst", "udp_dst"),
        "flows": count,
        "segment": _EXPECTED,
    }
    return [Element(("established",), values, {})]


def established_of(tables: ByTable) -> Established | None:
    """What the file says of connections that stand; None where it wants none."""
    return Established(**tables["established"]) if tables["established"] else None


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


def service_of(tables: ByTable, arrays: Arrays) -> Service | None:
    """What the file says; None where the measure opens no connections."""
    backends = tuple(Backend(**backend.values) for backend in arrays["backend"])
    if not tables["service"]:
        return None
    values = {**tables["service"]}
    virtual, ports = values.pop("address"), values.pop("port")
    counts = {"address_count": virtual.count, "port_count": ports.count}
    return Service(addresses.shown(virtual.first), ports.first, **values, **counts, backends=backends)


_BROADCAST: Final = "255.255.255.255"


def check_addresses(source: Source, service: Values, backends: Sequence[Element]) -> None:
    """Notes every address that is no unicast address, and every pair of parties that share one."""
    parties = list(_parties(service, backends))
    for number, (at, name, span) in enumerate(parties):
        ends = (addresses.shown(span.first), addresses.shown(span.last))
        if special := next((end for end in ends if _special(end)), ""):
            expected = "a unicast address" if span.count == 1 else "unicast addresses"
            source.mismatch(at, f"{expected}, not {_special(special)}", special)
        for _, other_name, other in parties[:number]:
            if {name, other_name} == {"backend.address"} or {name, other_name} == {"service.address", "service.local"}:
                continue  # backends may share an address (ports differ); a device may use its own as local address
            if shared := _shared(span, other):
                source.problem(at, f"{shared} is in {name} and in {other_name}: each needs addresses of its own")
                break
    ports = service.get("client_ports")
    if ports and not ports.first:
        problem = f"{ports.first}-{ports.last}"
        source.mismatch(("service", "client_ports"), "ports from 1 on: port 0 is reserved", problem)


def _special(address: str) -> str:
    """Why no host has this address; empty for a unicast address that a host may have."""
    known = ip_address(address)
    if known.is_unspecified or (known.version == 4 and int(known) >> 24 == 0):
        return "the unspecified address"
    if known.is_loopback:
        return "a loopback address"
    if known.is_multicast:
        return "a multicast address"
    return "the broadcast address" if address == _BROADCAST else ""


def _parties(service: Values, backends: Sequence[Element]) -> Iterator[tuple[Path, str, Range]]:
    for key in ("address", "local", "clients"):
        if service.get(key) is not None:
            yield ("service", key), f"service.{key}", service[key]
    for backend in backends:
        if "address" in backend.values:
            span = Range(addresses.number(backend.values["address"]), 1)
            yield (*backend.at, "address"), "backend.address", span


def _shared(some: Range, others: Range) -> str:
    """The addresses that two ranges have in common, as text; empty if there are none."""
    first, last = max(some.first, others.first), min(some.last, others.last)
    return Range(first, last - first + 1).as_addresses() if first <= last else ""

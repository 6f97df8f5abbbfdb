"""A service as the switch has it: a select group that deals connections to backends, and NAT in one or two zones.

Sources: ovs-actions(7), ct; ovs-ofctl(8), GROUP SYNTAX; ofproto/ofproto-dpif.c, group_setup_dp_hash_table. The first
zone translates the destination. With full-NAT a second one translates the source, since one entry of the table
translates one of both. So with full-NAT each connection has two entries.
"""

from collections.abc import Iterable, Iterator
from ipaddress import IPv4Address

from pinchpoint.bench.resource import AnyResource, TextFile
from pinchpoint.dut.ovs.daemons import appctl, command, vsctl
from pinchpoint.dut.ovs.places import BRIDGE, OvsPlaces
from pinchpoint.dut.ovs.ports import SwitchPort
from pinchpoint.dut.ovs.rules import arp_responder, with_port_numbers
from pinchpoint.dut.ovs.spec import ArpResponder
from pinchpoint.model.scenario import Mode, Range, Scenario, Service

DATAPATH = "netdev"  # of ovs-vswitchd.conf.db(5)
_ANY_PORT = Range(1024, 64_512)
_OWN_MAC = "02:00:00:00:00:fe"  # of the virtual server and of the local addresses
_CLIENTS_MAC, _BACKENDS_MAC = "02:00:00:00:00:01", "02:00:00:00:00:02"  # nobody is asked: the engine takes any
_VALUES = 256  # of the hash by which a group deals: the most that it has
_GROUP = 1
_PRIORITY = 60_000  # before the scenario's own rules
# The tables, in the order in which a connection's first frame takes them; answers take the last three.
_CHOOSE, _SOURCE, _SOURCED, _TO_BACKEND = 101, 102, 103, 104
_ANSWER, _TO_CLIENT = 105, 106
_TO_VIP, _FROM_LOCAL = 1, 2  # zones
_TIMEOUTS = {
    "opening_s": ("tcp_syn_sent", "tcp_syn_recv"),
    "established_s": ("tcp_established",),
    "closed_s": ("tcp_time_wait", "tcp_close"),
}


def is_full(service: Service) -> bool:
    """Whether there are two zones."""
    return service.mode is Mode.FULL_NAT


def entries(service: Service) -> int:
    """Of the table of connections, for each connection."""
    return 2 if is_full(service) else 1


def local_ports(service: Service) -> Range:
    """Ports of each local address."""
    return service.local_ports or _ANY_PORT


def timeouts(service: Service) -> dict[str, str]:
    """The policy of both zones (ovs-vswitchd.conf.db(5), CT_Timeout_Policy)."""
    seconds = {key: getattr(service, key) for key in _TIMEOUTS}
    named = {name: str(int(value)) for key, value in seconds.items() if value is not None for name in _TIMEOUTS[key]}
    return dict(sorted(named.items()))


def zones(service: Service) -> tuple[int, ...]:
    """Zones of connection tracking that the service uses: two with full-NAT, else one."""
    return (_TO_VIP, _FROM_LOCAL) if is_full(service) else (_TO_VIP,)


def group(service: Service) -> str:
    """The group, whose buckets share the 256 values of a hash of the five-tuple as evenly as these can be divided.

    A group of equal buckets has 16 values, which three backends cannot share. It has more where the smallest bucket
    needs them, so the last backend's share is divided into two buckets, one of them the smallest there can be.
    """
    weight = max(1, _VALUES // len(service.backends))
    shares = [(backend, weight) for backend in service.backends]
    if weight > 1:
        last, _ = shares.pop()
        shares += [(last, weight - 1), (last, 1)]
    buckets = (
        f"bucket=weight:{share},actions=ct(commit,zone={_TO_VIP},nat(dst={backend.address}:{backend.port}),table={_SOURCE})"
        for backend, share in shares
    )
    return f"group_id={_GROUP},type=select,selection_method=dp_hash,{','.join(buckets)}"


def rules(service: Service) -> Iterator[str]:
    """Rules of the first bridge; `{name}` stands for a port."""
    clients, servers = f"{{{service.client_port}}}", f"{{{service.server_port}}}"
    to = f"nw_dst={service.address},tp_dst={service.port}"
    yield f"table=0,priority={_PRIORITY},in_port={clients},tcp,{to},actions=ct(zone={_TO_VIP},nat,table={_CHOOSE})"
    yield from _tracked(_CHOOSE, f"group:{_GROUP}", f"resubmit(,{_SOURCE})")
    first, to_backend = _FROM_LOCAL if is_full(service) else _TO_VIP, f"resubmit(,{_TO_BACKEND})"
    if is_full(service):
        yield f"table={_SOURCE},tcp,actions=ct(zone={_FROM_LOCAL},nat,table={_SOURCED})"
        sources, ports = f"{service.locals[0]}-{service.locals[-1]}", local_ports(service)
        nat = f"nat(src={sources}:{ports.first}-{ports.first + ports.count - 1})"
        committed = f"ct(commit,zone={_FROM_LOCAL},{nat},table={_TO_BACKEND})"
        yield from _tracked(_SOURCED, committed, to_backend)
    else:
        yield f"table={_SOURCE},tcp,actions={to_backend}"
    yield f"table={_TO_BACKEND},tcp,actions={_routed(_BACKENDS_MAC, servers)}"
    after = _ANSWER if is_full(service) else _TO_CLIENT
    for backend in service.backends:
        answer = f"in_port={servers},tcp,nw_src={backend.address},tp_src={backend.port}"
        yield f"table=0,priority={_PRIORITY},{answer},actions=ct(zone={first},nat,table={after})"
    if is_full(service):
        yield from _tracked(_ANSWER, "drop", f"ct(zone={_TO_VIP},nat,table={_TO_CLIENT})")
    yield from _tracked(_TO_CLIENT, "drop", _routed(_CLIENTS_MAC, clients))


def _tracked(table: int, new: str, known: str) -> Iterator[str]:
    """What becomes of a frame that has been looked up."""
    yield f"table={table},priority=3,ct_state=+trk+inv,actions=drop"
    yield f"table={table},priority=2,tcp,ct_state=+trk+new,actions={new}"
    yield f"table={table},priority=1,tcp,ct_state=+trk,actions={known}"


def _routed(mac: str, port: str) -> str:
    """To the engine's end behind a port."""
    return f"dec_ttl,mod_dl_src:{_OWN_MAC},mod_dl_dst:{mac},output:{port}"


def resources(scenario: Scenario, places: OvsPlaces, ports: Iterable[SwitchPort]) -> list[AnyResource]:
    """What makes the service in a switch that stands; nothing without one."""
    if (service := scenario.service) is None:
        return []
    groups, flows = f"{places.directory}/service-groups.txt", f"{places.directory}/service-rules.txt"
    numbers = {port.word: port.number for port in ports if port.bridge == BRIDGE}
    lines = tuple(with_port_numbers(rule, numbers) for rule in rules(service))
    own = [addresses for addresses in (Range(int(IPv4Address(service.address)), 1), service.local) if addresses]
    answers = [ArpResponder(BRIDGE, addresses, _OWN_MAC) for addresses in own]
    series = tuple((arp_responder(responder), responder.ipv4.count, 0) for responder in answers)
    ofctl = ("ovs-ofctl", "-O", "OpenFlow15")
    made: list[AnyResource] = [
        TextFile(groups, (group(service),)),
        command(places, *ofctl, "add-groups", places.management, groups),
        TextFile(flows, lines, series),
        command(places, *ofctl, "add-flows", places.management, flows),
    ]
    if service.max_connections is not None:
        made.append(appctl(places, "dpctl/ct-set-maxconns", str(service.max_connections)))
    return [*_policies(service, places), *made]


def _policies(service: Service, places: OvsPlaces) -> Iterator[AnyResource]:
    if not (wanted := timeouts(service)):
        return
    row = ("--id=@datapath", "create", "Datapath", "datapath_version=0")
    link = ("set", "Open_vSwitch", ".", f"datapaths:{DATAPATH}=@datapath")
    yield command(places, "ovs-vsctl", *vsctl(places), "--", *row, "--", *link)
    words = [f"{name}={value}" for name, value in wanted.items()]
    for zone in zones(service):
        yield command(places, "ovs-vsctl", *vsctl(places), "add-zone-tp", DATAPATH, f"zone={zone}", *words)

"""A service as the switch has it: a select group that deals connections to backends, and NAT in one or two zones;
what bounds its connections, as the switch says itself, and how they are forgotten.

Sources: ovs-actions(7), ct; ovs-ofctl(8), GROUP SYNTAX; ofproto/ofproto-dpif.c, group_setup_dp_hash_table;
ovs-vswitchd(8), `dpctl/ct-get-maxconns`, `dpctl/flush-conntrack`; lib/conntrack.h, CT_TIMEOUTS. The first
zone translates the destination. With full-NAT a second one translates the source, since one entry of the table
translates one of both. So with full-NAT each connection has two entries.
"""

import re
from collections.abc import Iterator
from ipaddress import IPv4Address

from pinchpoint.bench.resource import AnyResource, TextFile
from pinchpoint.dut import services
from pinchpoint.dut.device import in_force
from pinchpoint.dut.ovs.collectors import Asked
from pinchpoint.dut.ovs.places import BRIDGE, OvsPlaces, Unixctl, UnixctlError
from pinchpoint.dut.ovs.ports import answers, port_numbers, switch_ports, with_port_numbers
from pinchpoint.dut.ovs.spec import ArpResponder
from pinchpoint.dut.services import await_forgotten, is_full, local_pool, local_ports
from pinchpoint.model.errors import BenchError
from pinchpoint.model.limits import Limit, Resource
from pinchpoint.model.scenario import Range, Scenario, Service, Transport
from pinchpoint.observe.snapshot import Snapshot

DATAPATH = "netdev"  # of ovs-vswitchd.conf.db(5)
_OWN_MAC = "02:00:00:00:00:fe"  # of the virtual server and of the local addresses
_CLIENTS_MAC, _BACKENDS_MAC = "02:00:00:00:00:01", "02:00:00:00:00:02"  # nobody is asked: the engine takes any
_VALUES = 256  # of the hash by which a group deals: the most that it has
_GROUP = 1
_PRIORITY = 60_000  # before the scenario's own rules
# The tables, in the order in which a connection's first frame takes them; answers take the last three.
_CHOOSE, _SOURCE, _SOURCED, _TO_BACKEND = 101, 102, 103, 104
_ANSWER, _TO_CLIENT = 105, 106
_TO_VIP, _FROM_LOCAL = 1, 2  # zones
CLOSED_S = 30  # the switch's own, of a connection that both sides have closed, and of UDP that was answered
_UDP_TIMES = ("udp_first", "udp_multiple", "udp_single")
# The switch looks for expired entries so often: seen with Open vSwitch 3.1, said by later ones. Until then they occupy
# the table; their ports can be taken at once (lib/conntrack.c, conn_key_lookup).
SWEEP_S = 20.0
FORGETTING_S = 10.0
_USED, _EXHAUSTED = "ovs/service/connections", "ovs/service/ports_exhausted"
_NO_PORT = "Unable to NAT due to tuple space exhaustion"
_COUNT, _MOST = "dpctl/ct-get-nconns", "dpctl/ct-get-maxconns"
_POLICY = re.compile(r"^Zone:(\d+), Timeout Policies: (.*)$", re.MULTILINE)


def timeouts(service: Service) -> dict[str, str]:
    """The policy of both zones (ovs-vswitchd.conf.db(5), CT_Timeout_Policy)."""
    if service.transport is Transport.UDP:
        return {} if service.closed_s is None else dict.fromkeys(_UDP_TIMES, str(int(service.closed_s)))
    opening, closed = ("tcp_syn_sent", "tcp_syn_recv"), ("tcp_time_wait", "tcp_close")
    seconds = services.timeouts(service, opening, ("tcp_established",), closed)
    return {name: str(int(value)) for name, value in sorted(seconds.items())}


def zones(service: Service) -> tuple[int, ...]:
    """Zones of connection tracking: two with full-NAT, else one. Each connection has an entry of the table in each."""
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
    carried, to = service.transport, f"nw_dst={service.address},tp_dst={service.port}"
    to = f"in_port={clients},{carried},{to}"
    yield f"table=0,priority={_PRIORITY},{to},actions=ct(zone={_TO_VIP},nat,table={_CHOOSE})"
    yield from _tracked(_CHOOSE, carried, f"group:{_GROUP}", f"resubmit(,{_SOURCE})")
    first, to_backend = _FROM_LOCAL if is_full(service) else _TO_VIP, f"resubmit(,{_TO_BACKEND})"
    if is_full(service):
        yield f"table={_SOURCE},{carried},actions=ct(zone={_FROM_LOCAL},nat,table={_SOURCED})"
        sources, ports = f"{service.locals[0]}-{service.locals[-1]}", local_ports(service)
        nat = f"nat(src={sources}:{ports.first}-{ports.first + ports.count - 1})"
        translated = f"ct(commit,zone={_FROM_LOCAL},{nat},table={_TO_BACKEND})"
        yield from _tracked(_SOURCED, carried, translated, to_backend)
    else:
        yield f"table={_SOURCE},{carried},actions={to_backend}"
    yield f"table={_TO_BACKEND},{carried},actions={_routed(_BACKENDS_MAC, servers)}"
    after = _ANSWER if is_full(service) else _TO_CLIENT
    for backend in service.backends:
        answer = f"in_port={servers},{carried},nw_src={backend.address},tp_src={backend.port}"
        yield f"table=0,priority={_PRIORITY},{answer},actions=ct(zone={first},nat,table={after})"
    if is_full(service):
        yield from _tracked(_ANSWER, carried, "drop", f"ct(zone={_TO_VIP},nat,table={_TO_CLIENT})")
    yield from _tracked(_TO_CLIENT, carried, "drop", _routed(_CLIENTS_MAC, clients))


def _tracked(table: int, carried: Transport, new: str, known: str) -> Iterator[str]:
    """What becomes of a frame that has been looked up."""
    yield f"table={table},priority=3,ct_state=+trk+inv,actions=drop"
    yield f"table={table},priority=2,{carried},ct_state=+trk+new,actions={new}"
    yield f"table={table},priority=1,{carried},ct_state=+trk,actions={known}"


def _routed(mac: str, port: str) -> str:
    """To the engine's end behind a port."""
    return f"dec_ttl,mod_dl_src:{_OWN_MAC},mod_dl_dst:{mac},output:{port}"


def resources(scenario: Scenario, places: OvsPlaces) -> list[AnyResource]:
    """What makes the service in a switch that stands; nothing without one."""
    if (service := scenario.service) is None:
        return []
    groups, flows = f"{places.directory}/service-groups.txt", f"{places.directory}/service-rules.txt"
    numbers = port_numbers(switch_ports(scenario, places), BRIDGE)
    lines = tuple(with_port_numbers(rule, numbers) for rule in rules(service))
    own = [addresses for addresses in (Range(int(IPv4Address(service.address)), 1), service.local) if addresses]
    series = tuple(answers(ArpResponder(BRIDGE, addresses, _OWN_MAC)) for addresses in own)
    ofctl = ("ovs-ofctl", "-O", "OpenFlow15")
    most = service.max_connections
    return [
        *_policies(service, places),
        TextFile(groups, (group(service),)),
        places.command(*ofctl, "add-groups", places.management, groups),
        TextFile(flows, lines, series),
        places.command(*ofctl, "add-flows", places.management, flows),
        *([] if most is None else [places.appctl("dpctl/ct-set-maxconns", str(most))]),
    ]


def _policies(service: Service, places: OvsPlaces) -> Iterator[AnyResource]:
    if not (wanted := timeouts(service)):
        return
    row = ("--id=@datapath", "create", "Datapath", "datapath_version=0")
    yield places.vsctl("--", *row, "--", "set", "Open_vSwitch", ".", f"datapaths:{DATAPATH}=@datapath")
    words = [f"{name}={value}" for name, value in wanted.items()]
    for zone in zones(service):
        yield places.vsctl("add-zone-tp", DATAPATH, f"zone={zone}", *words)


class Connections(Asked):
    """The connections of a service that the switch tracks; also their collector."""

    name = "connections of the service"

    def __init__(self, service: Service, places: OvsPlaces, control: Unixctl) -> None:
        self._service, self._places, self._control = service, places, control

    def read(self, at_s: float) -> Snapshot:
        """Gauge `ovs/service/connections`; with full-NAT each has two entries of the table.

        `ovs/service/ports_exhausted` are lines of the switch's log. It writes few of many: that it rises says
        something, not by how much.
        """
        lines = self._places.host.read(self._places.log).count(_NO_PORT)
        return Snapshot(at_s, {_EXHAUSTED: lines}, {_USED: self._number(_COUNT) / len(zones(self._service))})

    def limits(self) -> tuple[Limit, ...]:
        """Entries of the table and, with full-NAT, local ports."""
        service = self._service
        most, each = self._number(_MOST), len(zones(service))
        held_s = float(service.closed_s or CLOSED_S)
        waits = f"{'udp_multiple' if service.transport is Transport.UDP else 'tcp_close'} = {held_s:g} s"
        swept_s = self._sweep_s()
        told = f"ct-get-maxconns = {most}, {each} for each connection, {waits}, swept every {swept_s:g} s"
        table = Limit(Resource.TABLE, most // each, held_s + swept_s, told, _USED, ("ovs/coverage/conntrack_full",))
        if not is_full(service):
            return (table,)
        places, pool = local_pool(service)
        return table, Limit(Resource.LOCAL_PORTS, places, held_s, f"{pool}, {waits}", refused=(_EXHAUSTED,))

    def flush(self) -> None:
        """Forget all connections. Raises BenchError."""
        self._control.call("dpctl/flush-conntrack")
        if left := await_forgotten(self.tracked, FORGETTING_S, 0.05):
            raise BenchError(f"{left:,} entries are still in the table {FORGETTING_S:g} s after the flush")

    def tracked(self) -> int:
        """Entries, of which a connection with full-NAT has two."""
        return self._number(_COUNT)

    def _sweep_s(self) -> float:
        try:
            return self._number("dpctl/ct-get-sweep-interval") / 1000
        except UnixctlError:
            return SWEEP_S

    def _number(self, command: str) -> int:
        said = self._control.call(command).strip()
        if not said.isdecimal():
            raise BenchError(f"{command} says {said!r}, which is no number")
        return int(said)


def settings(scenario: Scenario, places: OvsPlaces, control: Unixctl) -> dict[str, str]:
    """The size of its table and the time-outs, as read back; nothing without a service. Raises BenchError."""
    if (service := scenario.service) is None:
        return {}
    most = control.call(_MOST).strip()
    if service.max_connections is not None:
        in_force("ct-set-maxconns", str(service.max_connections), most)
    read_back = {"ct-get-maxconns": most}
    if wanted := timeouts(service):
        stored = policies(places.ask_vsctl("list-zone-tp", DATAPATH))
        for zone in zones(service):
            if stored.get(zone) != wanted:
                raise BenchError(f"time-outs of zone {zone}: {wanted} was set, {stored.get(zone)} is stored")
            read_back[f"time-outs of zone {zone}"] = ", ".join(f"{name} = {value} s" for name, value in wanted.items())
    return read_back


def policies(text: str) -> dict[int, dict[str, str]]:
    """`ovs-vsctl list-zone-tp`: zone -> its time-outs in seconds, by name."""
    return {int(zone): dict(sorted(re.findall(r"(\w+)=(\d+)", words))) for zone, words in _POLICY.findall(text)}

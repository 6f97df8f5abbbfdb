"""A switch in service, which the lab did not start, found by its run directory. It is read, never changed.

What is configured may change while it is read: bridges, ports and their types are asked for at each reading.
"""

from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import PurePosixPath
from typing import Any

from pinchpoint.dut.ovs import text as ovs_text
from pinchpoint.dut.ovs.collectors import (
    Database,
    DroppingRule,
    PmdThreads,
    ReceiveQueues,
    RuleListing,
    TcFilters,
    dropping_rules,
    of_datapath,
    too_many,
)
from pinchpoint.dut.ovs.kinds import KIND, OWN_PORT, POLLED, PortKind, is_counted_elsewhere, kind_of
from pinchpoint.dut.ovs.live import threads
from pinchpoint.dut.ovs.ovn import LOGICAL, LogicalFlows, integration_bridge, logical_port, pairs
from pinchpoint.dut.ovs.places import Appctl, Ovsdb, OvsPlaces, Unixctl, UnixctlError, patience, selected
from pinchpoint.dut.ovs.spec import IN_KERNEL, Datapath
from pinchpoint.dut.watching import Attached
from pinchpoint.host.interface import PROC, CommandFailed, Host, printed_by
from pinchpoint.model.errors import DutError, NothingRunsError, RequirementError
from pinchpoint.observe.printed import PacketSockets, Queues
from pinchpoint.observe.snapshot import Collector, Snapshot, paths

MOST_FLOWS = 1_000  # listed at each reading: some 20 ms of its main thread
SYSTEM = "/var/run/openvswitch"
_PIDFILES = ("ovs-vswitchd.pid", "vswitchd.pid")  # the system's, and that of a private bench
_VERSIONS = "OpenFlow10,OpenFlow11,OpenFlow12,OpenFlow13,OpenFlow14,OpenFlow15"  # ports' own counters are in from 1.4
_BY_MAIN = "afxdp-nonpmd"


class InService(OvsPlaces):
    """Where everything of a switch in service is found; what asks it belongs to no bench."""

    @property
    def environment(self) -> tuple[tuple[str, str], ...]:
        """Its run directory alone."""
        return (("OVS_RUNDIR", str(self.directory)),)


class DatabaseInService(Database):
    """The same of a database that may be restarted: what is not told for a while is not known for a while."""

    def read(self, at_s: float) -> Snapshot:
        """As of a bench."""
        with suppress(DutError):
            return super().read(at_s)
        return Snapshot(at_s)


class PortsInService(Collector):
    """Frames in and out of the ports of all bridges, with what kind each port is of, as configured now.

    Ports whose frames are counted at others are left out: patch ports, and tunnels that the switch itself ends.
    """

    name = "ports"

    def __init__(self, places: OvsPlaces) -> None:
        self._places = places
        self._bridges: dict[str, bool] = {}  # name -> whether the kernel is its datapath
        self._types: dict[str, str] = {}
        self._logical: dict[str, str] = {}  # names of logical ports

    def read(self, at_s: float) -> Snapshot:
        """`ovs/port/NAME/COUNTER`; gauges `ovs/kind/NAME`, `ovs/rxq/main/NAME/0/enabled` of the main thread's, and
        `ovs/logical/NAME/LOGICAL` of an OVN host.
        """
        with suppress(DutError):  # the database may be restarted: what it said last holds
            self._ask_database()
        counters, gauges = dict[str, int](), dict[str, float]()
        for bridge, in_kernel in self._bridges.items():
            for name, counted in self._ports(bridge).items():
                interface_type = self._types.get(name, "")
                if is_counted_elsewhere(interface_type, in_kernel=in_kernel) or not counted:
                    continue
                counters |= paths("ovs/port", {name: counted})
                kind = kind_of(interface_type, counted)
                gauges[f"{KIND}{name}"] = float(kind)
                if logical := self._logical.get(name):
                    gauges[f"{LOGICAL}{name}/{logical}"] = 1.0
                if not in_kernel and (kind is PortKind.KERNEL or interface_type == _BY_MAIN):
                    gauges[f"ovs/rxq/main/{name}/0/enabled"] = 1.0
        return Snapshot(at_s, counters, gauges)

    def names(self) -> tuple[str, ...]:
        """The ports as they are now, but those of the bridges themselves."""
        gauges = self.snapshot().gauges
        names = (name.removeprefix(KIND) for name in gauges if name.startswith(KIND))
        return tuple(name for name in names if name not in self._bridges)

    @property
    def bridges(self) -> tuple[str, ...]:
        """As last read."""
        return tuple(self._bridges)

    @property
    def types(self) -> Collection[str]:
        """Of their interfaces, as last read."""
        return self._types.values()

    def _ask_database(self) -> None:
        with Ovsdb(self._places.host, self._places.database) as database:
            ports = selected("Interface", "name", "type", "external_ids")
            wanted = [selected("Bridge", "name", "datapath_type"), ports]
            bridges, interfaces = (table["rows"] for table in database.transact(wanted, patience()))
        self._bridges = {row["name"]: row["datapath_type"] != "netdev" for row in bridges}
        self._types = {row["name"]: row["type"] for row in interfaces}
        self._logical = {row["name"]: logical_port(row.get("external_ids")) for row in interfaces}

    def _ports(self, bridge: str) -> Mapping[str, Mapping[str, int]]:
        """Live from the netdev, by name; none of a bridge that is being made or removed."""
        management = self._places.management_of(bridge)
        if not self._places.host.exists(management):
            return {}
        try:
            shown = self._places.ask("ovs-ofctl", "-O", _VERSIONS, "--names", "--timeout=10", "dump-ports", management)
        except CommandFailed as error:
            if not self._places.host.exists(management):
                return {}
            raise DutError(f"{bridge}: the switch does not answer: {error.output}", "see its log") from error
        counted = ovs_text.port_counters(shown)
        return {bridge if name.lower() == OWN_PORT else name: counters for name, counters in counted.items()}


class RulesInService(Collector):
    """Frames that OpenFlow rules dropped, by rule, as of a bench; of bridges and rules that come and go."""

    name = "dropping rules"

    def __init__(
        self, control: Appctl, places: OvsPlaces, ports: PortsInService, logical: LogicalFlows | None = None
    ) -> None:
        """`logical`: what names the rules of an OVN host."""
        self._control, self._places, self._ports, self._logical = control, places, ports, logical

    def can_run(self) -> str | None:
        """Whether they are few enough."""
        return too_many(sum(self._counts().values()))

    def read(self, at_s: float) -> Snapshot:
        """The rules that drop; nothing if there are too many rules by now."""
        counts, dropping = self._counts(), dict[str, DroppingRule]()
        if too_many(sum(counts.values())):
            return Snapshot(at_s)
        for bridge in counts:
            with suppress(UnixctlError):  # it was removed meanwhile
                rules = dropping_rules(self._control.call("bridge/dump-flows", bridge))
                named = self._logical.named(bridge, rules) if self._logical else rules
                dropping |= {rule.of_bridge(bridge): rule for rule in named}
        return Snapshot(at_s, listing=RuleListing(dropping))

    def _counts(self) -> dict[str, int]:
        """Rules by bridge: to count them takes the switch far less time than to write them."""
        counts = dict[str, int]()
        for bridge in self._ports.bridges:
            management = self._places.management_of(bridge)
            with suppress(CommandFailed):  # removed meanwhile, or it answers no more, which the ports say
                said = self._places.ask("ovs-ofctl", "-O", _VERSIONS, "--timeout=10", "dump-aggregate", management)
                if (rules := ovs_text.rule_count(said)) is not None:
                    counts[bridge] = rules
        return counts


def attach(place: str | None, host: Host) -> Attached:
    """The switch whose run directory is `place`; None: the system's. Raises RequirementError or DutError."""
    places = InService("", PurePosixPath(place or SYSTEM), host)
    pidfile, pid = _process(places)
    control = Unixctl(host, _control(places, pidfile, pid))
    version = control.call("version").splitlines()
    ports = PortsInService(places)
    names, netns = ports.names(), _network(host, pid)
    with Ovsdb(host, places.database) as database:
        wanted = selected("Open_vSwitch", "external_ids", "other_config")
        own: Mapping[str, Any] = next(iter(database.transact([wanted], patience())[0]["rows"]), {})
    datapath = _datapath(control, ports.types, own.get("other_config"))
    ovn = integration_bridge(own.get("external_ids"))
    rules = RulesInService(control, places, ports, LogicalFlows(places, ovn, _VERSIONS))
    watched = DatabaseInService(host, places.database)
    collectors: list[Collector] = [rules, watched, *of_datapath(control, MOST_FLOWS)]
    if datapath is Datapath.TC:
        collectors.append(TcFilters(host, netns, names))
    collectors.append(Queues(host, netns, "dut"))
    if datapath not in IN_KERNEL:
        collectors.append(PacketSockets(host, netns))
    collectors += [ports, *threads(host, pidfile, control)]
    if datapath in IN_KERNEL:  # no thread of the switch polls
        collectors = [reader for reader in collectors if not isinstance(reader, PmdThreads | ReceiveQueues)]
    facts = {"switch": version[0] if version else "unknown", "datapath": str(datapath)}
    facts |= {"OVN on": ovn} if ovn else {}
    return Attached(str(places.directory), str(datapath), names, tuple(collectors), facts, control.close, pid)


def _process(places: OvsPlaces) -> tuple[str, int]:
    """(pid file, process)."""
    ended, hint = "", "give its run directory: pinchpoint watch PLACE"
    for name in _PIDFILES:
        path = f"{places.directory}/{name}"
        try:
            pid = int(places.host.read(path))
        except PermissionError as error:
            raise RequirementError(f"{path}: no permission", "run as root: sudo pinchpoint watch") from error
        except (OSError, ValueError):
            continue
        if places.host.exists(f"{PROC}/{pid}"):
            return path, pid
        ended = f": process {pid} has ended"
        hint = "a bench's switch ends with its run: watch while it measures; `pinchpoint show @last` has the result"
    raise NothingRunsError(f"{places.directory}: no running switch found there{ended}", hint)


def _control(places: OvsPlaces, pidfile: str, pid: int) -> str:
    stem = pidfile.removesuffix(".pid")
    for path in (f"{stem}.{pid}.ctl", f"{stem}.ctl"):
        if places.host.exists(path):
            return path
    where = f"{places.directory}: no control socket of process {pid}"
    raise RequirementError(where, "run as root: sudo pinchpoint watch")


def _network(host: Host, pid: int) -> str | None:
    """The switch's network namespace, by a path; None: that of whoever watches."""
    path = f"{PROC}/{pid}/ns/net"
    is_own = printed_by(host, "readlink", f"{PROC}/self/ns/net") == printed_by(host, "readlink", path)
    return None if is_own else path


def _datapath(control: Unixctl, types: Collection[str], other_config: object) -> Datapath:
    """How most of its ports are attached: what decides where frames are counted; `types` are those of interfaces."""
    if not control.call("dpctl/show").startswith("netdev@"):
        return Datapath.TC if pairs(other_config).get("hw-offload") == "true" else Datapath.KERNEL
    for begin, datapath in POLLED.items():
        if any(interface_type.startswith(begin) for interface_type in types):
            return datapath
    return Datapath.AF_PACKET

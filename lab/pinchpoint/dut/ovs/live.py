"""A running switch: its counters, its settings as read back, what may happen to it."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from pinchpoint.bench.resource import AnyResource
from pinchpoint.bulk.making import Bulk
from pinchpoint.dut import nics
from pinchpoint.dut.attach import engine_links
from pinchpoint.dut.device import Action, Live
from pinchpoint.dut.ovs import connections, nic_status
from pinchpoint.dut.ovs.actions import action_of
from pinchpoint.dut.ovs.bulk_flows import Flows
from pinchpoint.dut.ovs.bulk_ports import Ports as BulkPorts
from pinchpoint.dut.ovs.collectors import (
    Conntrack,
    Coverage,
    DatapathFlows,
    FlowDump,
    PmdThreads,
    Ports,
    ReceiveQueues,
)
from pinchpoint.dut.ovs.connections import Connections
from pinchpoint.dut.ovs.daemons import switch_versions, vsctl
from pinchpoint.dut.ovs.dropping import Database, DroppingRules
from pinchpoint.dut.ovs.places import OvsPlaces
from pinchpoint.dut.ovs.ports import switch_ports
from pinchpoint.dut.ovs.settings import check_queues, in_force
from pinchpoint.dut.ovs.spec import IN_KERNEL, Datapath, rules, spec
from pinchpoint.dut.ovs.tc import TcFilters
from pinchpoint.dut.ovs.unixctl import Unixctl, UnixctlError
from pinchpoint.model.errors import DutError
from pinchpoint.model.scenario import Batch, Change, Scenario
from pinchpoint.observe.host import PacketThreads
from pinchpoint.observe.queues import Queues
from pinchpoint.observe.snapshot import Collector
from pinchpoint.observe.sockets import Links, PacketSockets

# Threads whose descheduling loses frames: PMDs, and the main thread of a bench without them.
_PMD_THREAD = re.compile(r"pmd-c\d+/id:\d+")
_MAIN_THREAD = re.compile(r"ovs-vswitchd\S*")


class OvsLive(Live):
    """A private switch that stands."""

    def __init__(self, scenario: Scenario, places: OvsPlaces) -> None:
        self.control = Unixctl(places.host, places.control)
        self._scenario = scenario
        self._places = places

    def collectors(self) -> list[Collector]:
        """Datapath, links, ports and threads."""
        scenario, places, control = self._scenario, self._places, self.control
        datapath, ends = spec(scenario).datapath, self._ends()
        collectors: list[Collector] = [
            Coverage(control),
            Conntrack(control),
            DroppingRules(control, [bridge.name for bridge in spec(scenario).bridges], rules(scenario)),
            Database(places.host, places.database),
            FlowDump(control),
            DatapathFlows(control),
            ReceiveQueues(control),
        ]
        if datapath is not Datapath.DPDK:
            if scenario.ports:
                collectors += engine_links(scenario, places)
            collectors += [
                Queues(places.host, places.dut_netns, "dut", ends),
                Links(places.host, places.dut_netns, "dut", ends),
            ]
        if datapath in IN_KERNEL and (datapath is Datapath.TC or spec(scenario).tuning.hw_offload):
            collectors.append(TcFilters(places.host, places.dut_netns, ends))
        if datapath is Datapath.AF_PACKET:
            collectors.append(PacketSockets(places.host, places.dut_netns, ends))
        if service := scenario.service:
            collectors.append(Connections(service, places, control))
        return [*collectors, *self._port_counters(), *self.witnesses()]

    def witnesses(self) -> list[Collector]:
        return [
            PacketThreads(self._places.host, self._places.pidfile("vswitchd"), _PMD_THREAD, _MAIN_THREAD),
            PmdThreads(self.control),
        ]

    def settings(self) -> Mapping[str, str]:
        """As the switch and the hosts report them."""
        settings = in_force(self._scenario, self._places, self.control)
        settings |= {
            **nics.settings(self._places.machine, nics.beside_device(self._scenario)),
            **dict(nic_status.nics(self._scenario, self._places)),
        }
        return settings | connections.settings(self._scenario, self._places, self.control)

    def ready(self) -> Mapping[str, str]:
        """Every port has its queues; the limit of megaflows is the one asked for from the start."""
        check_queues(self._scenario, self._places, self.control)
        return {**self.versions(), **self._limit_flows()}

    def versions(self) -> Mapping[str, str]:
        """Its own and its DPDK's."""
        return switch_versions(self._scenario, self._places)

    def dumps(self) -> Mapping[str, str]:
        """The flows of its datapath."""
        return {"datapath-flows.txt": self.control.call("dpctl/dump-flows", "-m")}

    def log(self) -> tuple[str, str] | None:
        try:
            return "ovs-vswitchd.log", self._places.host.read(self._places.log)
        except OSError:
            return None

    def action(self, change: Change, resources: Sequence[AnyResource]) -> Action:
        """What happens to the switch."""
        return action_of(change, self._scenario, self._places, resources, self.control)

    @contextmanager
    def items(self, batch: Batch, probed: bool) -> Iterator[Bulk]:
        """Rules or ports; while rules are made, frames that none of them matches are dropped."""
        if batch.what == "ports":
            yield BulkPorts(self._places, self.control, batch.count, batch.method, batch.concurrency)
            return
        actions = f"output:{self._number(self._scenario.ports[-1].name)}" if probed else "drop"
        flows = Flows(self._places, self.control, batch.count, batch.method, batch.concurrency, actions)
        with flows.unmatched_dropped():
            yield flows

    def balancer(self) -> Connections | None:
        """Its connections, where it balances."""
        service = self._scenario.service
        return Connections(service, self._places, self.control) if service else None

    def close(self) -> None:
        """The control socket; the next question opens another."""
        self.control.close()

    def _ends(self) -> list[str]:
        """The ports at which traffic enters or leaves the switch."""
        return [*(port.name for port in self._scenario.ports), *(host.name for host in self._scenario.hosts)]

    def _port_counters(self) -> Iterator[Ports]:
        """Of the bridges at which traffic enters or leaves; patch ports add nothing that these do not show."""
        ends, ports = self._ends(), switch_ports(self._scenario, self._places)
        for bridge in dict.fromkeys(port.bridge for port in ports if port.name in ends):
            numbers = {str(port.number): port.name for port in ports if port.bridge == bridge}
            yield Ports(
                self._places.host, bridge, self._places.management_of(bridge), numbers, dict(self._places.environment)
            )

    def _limit_flows(self) -> Mapping[str, str]:
        """Make the scenario's limit of megaflows the present one, not only the highest there may be.

        The switch begins at 10,000 and adds 1,000 with each dump of its flows; a warm-up that outruns that would end
        with most flows refused. Returns what to be noted.
        """
        limit = spec(self._scenario).tuning.flow_limit
        if limit is None:
            return {}
        try:
            self.control.call("upcall/set-flow-limit", str(limit))
        except UnixctlError as error:
            return {"dut.flow_limit": f"grows to {limit:,} by itself; it could not be set at once: {error}"}
        return {"dut.flow_limit": f"{limit:,} from the start"}

    def _number(self, port: str) -> int:
        """The port's OpenFlow number. Raises DutError."""
        argv = ["ovs-vsctl", *vsctl(self._places), "get", "Interface", port, "ofport"]
        said = self._places.host.run(argv, environment=self._places.environment).strip()
        if not said.isdigit() or said == "0":
            raise DutError(f"port {port} has no OpenFlow number: ovs-vsctl says {said!r}", "see ovs-vswitchd's log")
        return int(said)

"""A running switch: its counters, its settings as read back, what may happen to it, each with its undoing."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from pinchpoint.bench.actions import create, remove
from pinchpoint.bench.resource import AnyResource
from pinchpoint.bulk.making import Bulk, timed_make, timed_removal
from pinchpoint.dut import nics
from pinchpoint.dut.attach import engine_links
from pinchpoint.dut.device import Action, Check, Live
from pinchpoint.dut.ovs import balancing, guests, settings
from pinchpoint.dut.ovs.balancing import Connections
from pinchpoint.dut.ovs.bench import ends_with_the_switch, switch_versions
from pinchpoint.dut.ovs.bulk import Flows
from pinchpoint.dut.ovs.bulk import Ports as BulkPorts
from pinchpoint.dut.ovs.collectors import Database, DroppingRules, PmdThreads, Ports, TcFilters, of_datapath
from pinchpoint.dut.ovs.kinds import linked, read_by_main
from pinchpoint.dut.ovs.places import OvsPlaces, Unixctl, UnixctlError
from pinchpoint.dut.ovs.ports import switch_ports
from pinchpoint.dut.ovs.spec import IN_KERNEL, Datapath, OvsDut, cards, ends, rules, spec
from pinchpoint.dut.program import kept_log
from pinchpoint.host.interface import Host
from pinchpoint.model.errors import DutError
from pinchpoint.model.scenario import Batch, Change, Scenario
from pinchpoint.observe.cpu import PacketThreads
from pinchpoint.observe.printed import Links, PacketSockets, Queues
from pinchpoint.observe.snapshot import Collector

# Threads whose descheduling loses frames: PMDs, and the main thread of a bench without them.
_PMD_THREAD = re.compile(r"pmd-c\d+/id:\d+")
_MAIN_THREAD = re.compile(r"ovs-vswitchd\S*")


def threads(host: Host, pidfile: str, control: Unixctl) -> list[Collector]:
    """What the threads of a switch did."""
    return [PacketThreads(host, pidfile, _PMD_THREAD, _MAIN_THREAD), PmdThreads(control)]


class OvsLive(Live):
    """A private switch that stands."""

    def __init__(self, scenario: Scenario, places: OvsPlaces) -> None:
        self.control = Unixctl(places.host, places.control)
        self._scenario, self._places = scenario, places

    def collectors(self) -> list[Collector]:
        """Datapath, links, ports and threads."""
        scenario, places, control = self._scenario, self._places, self.control
        device = spec(scenario)
        collectors: list[Collector] = [
            DroppingRules(control, [bridge.name for bridge in device.bridges], rules(scenario)),
            Database(places.host, places.database),
            *of_datapath(control),
            *self._kernels(device),
        ]
        if balancer := self.balancer():
            collectors.append(balancer)
        return [*collectors, *guests.collectors(scenario, places), *self._port_counters(), *self.witnesses()]

    def _kernels(self, device: OvsDut) -> Iterator[Collector]:
        """What the kernel counts at links, queues and sockets of the ports that it has."""
        scenario, host, netns = self._scenario, self._places.host, self._places.dut_netns
        links, by_main = linked(scenario), read_by_main(scenario)
        if links:
            yield from engine_links(replace(scenario, ports=links), self._places)
        at = ends(scenario) if device.datapath is not Datapath.DPDK else [port.name for port in links]
        if at:
            yield from (Queues(host, netns, "dut", at), Links(host, netns, "dut", at))
        if device.datapath is Datapath.TC or (device.datapath in IN_KERNEL and device.tuning.hw_offload):
            yield TcFilters(host, netns, at)
        if device.datapath is Datapath.AF_PACKET or by_main:
            yield PacketSockets(host, netns, [port.name for port in by_main] if device.polls else at)

    def witnesses(self) -> list[Collector]:
        return threads(self._places.host, self._places.pidfile("vswitchd"), self.control)

    def settings(self) -> Mapping[str, str]:
        """As the switch and the hosts report them."""
        scenario, places, control = self._scenario, self._places, self.control
        return {
            **settings.in_force(scenario, places, control),
            **nics.settings(places.machine, cards(scenario)),
            **dict(settings.nics(scenario, places)),
            **balancing.settings(scenario, places, control),
            **guests.settings(scenario, places),
        }

    def ready(self) -> Mapping[str, str]:
        """Guests are connected, ports have their queues; the limit of megaflows is the one asked for from the start."""
        guests.await_links(self._scenario, self._places)
        settings.check_queues(self._scenario, self._places, self.control)
        return {**self.versions(), **self._limit_flows()}

    def versions(self) -> Mapping[str, str]:
        """Its own and its DPDK's."""
        return switch_versions(self._scenario, self._places)

    def unchanging(self) -> Mapping[str, str]:
        """Rules and groups of the first bridge without their counts, in an order of their own (ovs-ofctl(8))."""
        ofctl, bridge = ("ovs-ofctl", "-O", "OpenFlow15"), self._places.management
        told = self._places.ask(*ofctl, "--no-stats", "dump-flows", bridge)
        told += self._places.ask(*ofctl, "dump-groups", bridge)
        rules = (line.strip() for line in told.splitlines() if "actions=" in line)
        return {"rules": "\n".join(sorted(rules))}

    def dumps(self) -> Mapping[str, str]:
        """The flows of its datapath."""
        return {"datapath-flows.txt": self.control.call("dpctl/dump-flows", "-m")}

    def log(self) -> tuple[str, str] | None:
        return kept_log(self._places.host, "ovs-vswitchd.log", self._places.log)

    def action(self, change: Change, resources: Sequence[AnyResource]) -> Action:
        """What happens to the switch: one of a closed list. `resources` are those of its bench."""
        places, control, count = self._places, self.control, change.count
        flows = Flows(places, control, count, "bundle", 1, "drop")
        ports = BulkPorts(places, control, count, "transaction", 1)
        make_flows, remove_flows = partial(timed_make, flows, count), partial(timed_removal, flows, count)
        make_ports, remove_ports = partial(timed_make, ports, count), partial(timed_removal, ports, count)
        anew = ends_with_the_switch(self._scenario, places, resources)
        actions: Mapping[str, Action] = {
            "none": Action(),
            "add-flows": Action(make_flows, restore=remove_flows),
            "del-flows": Action(remove_flows, prepare=make_flows),
            "add-ports": Action(make_ports, restore=remove_ports),
            "del-ports": Action(remove_ports, prepare=make_ports),
            "flush-flows": Action(lambda check: control.call("dpctl/del-flows")),
            "rebalance": Action(lambda check: control.call("dpif-netdev/pmd-rxq-rebalance")),
            "settings": self._setting(change.settings),
            "restart": Action(partial(self._restart, anew), ends_processes=True),
        }
        return actions[change.action]

    def _setting(self, wanted: Mapping[str, str]) -> Action:
        """Settings of Open_vSwitch other_config; ovs-vsctl returns when the switch has taken them over."""
        before: dict[str, str] = {}

        def restore(check: Check) -> None:
            self._set({key: before[key] for key in wanted if key in before})
            for key in (key for key in wanted if key not in before):
                self._places.ask_vsctl("remove", "Open_vSwitch", ".", "other_config", key)

        return Action(
            act=lambda check: self._set(wanted),
            prepare=lambda check: before.update(settings.other_config(self._places)),
            restore=restore,
        )

    def _set(self, wanted: Mapping[str, str]) -> None:
        if wanted:
            pairs = [f"other_config:{key}={json.dumps(value)}" for key, value in wanted.items()]
            self._places.ask_vsctl("set", "Open_vSwitch", ".", *pairs)

    def _restart(self, anew: Sequence[AnyResource], check: Check) -> None:
        """End the switch as on SIGTERM and start it again on its database; what that does not hold is made anew.

        The bench's journal names all of this already: nothing else is there meanwhile.
        """
        for resource in reversed(anew):
            remove(resource, self._places.host)
        self.control.close()  # the next question goes to the new process
        for resource in anew:
            check()
            create(resource, self._places.host)

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

    def _port_counters(self) -> Iterator[Ports]:
        """Of the bridges at which traffic enters or leaves; patch ports add nothing that these do not show."""
        ports = switch_ports(self._scenario, self._places)
        at = {*ends(self._scenario), *(port.name for port in spec(self._scenario).inner)}
        by_main = frozenset(port.name for port in read_by_main(self._scenario))
        for bridge in dict.fromkeys(port.bridge for port in ports if port.name in at):
            names = {str(port.number): port.name for port in ports if port.bridge == bridge}
            yield Ports(self._places, bridge, names, by_main)

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
        said = self._places.ask_vsctl("get", "Interface", port, "ofport").strip()
        if not said.isdigit() or said == "0":
            raise DutError(f"port {port} has no OpenFlow number: ovs-vsctl says {said!r}", "see ovs-vswitchd's log")
        return int(said)

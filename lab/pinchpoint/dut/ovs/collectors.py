"""Collectors for Open vSwitch, through its control socket and the bridge's OpenFlow socket."""

import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress

from pinchpoint.dut.ovs import text as ovs_text
from pinchpoint.dut.ovs.exercised import FlowListing
from pinchpoint.dut.ovs.unixctl import Unixctl, UnixctlError
from pinchpoint.host.interface import CommandFailed, Host
from pinchpoint.model.errors import DutError
from pinchpoint.observe.snapshot import Snapshot


class _ControlCollector:
    """Shared by all that ask the control socket."""

    name = "ovs"
    command = "version"

    def __init__(self, control: Unixctl) -> None:
        self._control = control

    def can_run(self) -> str | None:
        """Whether this release still knows the command."""
        try:
            self._control.call(self.command)
        except UnixctlError as error:
            return str(error)
        return None


class PmdThreads(_ControlCollector):
    """Packets, cache hits and cycles of every PMD thread and of the main thread."""

    name = "pmd"
    command = "dpif-netdev/pmd-stats-show"

    def snapshot(self) -> Snapshot:
        """`ovs/pmd/THREAD/COUNTER`; perf-show's iterations beside stats-show's counters."""
        at_s = time.monotonic()
        counters: dict[str, int] = {}
        gauges: dict[str, float] = {}
        stats = self._control.call(self.command)
        for thread, values in ovs_text.thread_counters(stats).items():
            counters |= {f"ovs/pmd/{thread}/{name}": value for name, value in values.items()}
            if "megaflow_hits" in values:
                gauges[f"ovs/pmd/{thread}/megaflow_hits_since_start"] = values["megaflow_hits"]
        for thread, lookups in ovs_text.subtable_lookups(stats).items():
            counters[f"ovs/pmd/{thread}/subtable_lookups"] = lookups
        perf = self._control.call("dpif-netdev/pmd-perf-show", "-nh")
        for thread, values in ovs_text.thread_counters(perf).items():
            counters |= {f"ovs/perf/{thread}/{name}": value for name, value in values.items()}
        counters |= {f"ovs/perf/{thread}/upcall_us": spent for thread, spent in ovs_text.upcall_time_us(perf).items()}
        return Snapshot(at_s, counters, gauges)


class ReceiveQueues(_ControlCollector):
    """Which thread polls which queue, and its share of the last five seconds."""

    name = "rxq"
    command = "dpif-netdev/pmd-rxq-show"

    def snapshot(self) -> Snapshot:
        """`ovs/rxq/THREAD/PORT/QUEUE/enabled` and `.../usage_percent`; gauges."""
        gauges: dict[str, float] = {}
        at_s = time.monotonic()
        for (thread, port, queue), (enabled, usage) in ovs_text.receive_queues(self._read()).items():
            gauges[f"ovs/rxq/{thread}/{port}/{queue}/enabled"] = float(enabled)
            if usage is not None:
                gauges[f"ovs/rxq/{thread}/{port}/{queue}/usage_percent"] = usage
        return Snapshot(at_s, gauges=gauges)

    def _read(self) -> str:
        try:
            # Since OVS 3.1 the default window is a minute, far longer than a trial.
            return self._control.call(self.command, "-secs", "5")
        except UnixctlError:
            return self._control.call(self.command)


class DatapathFlows(_ControlCollector):
    """Megaflows, lookups, the flow limit and the revalidators' dump time."""

    name = "flows"
    command = "dpctl/show"

    def snapshot(self) -> Snapshot:
        """Counters `ovs/lookups/...`; gauges `ovs/flows/...`."""
        at_s = time.monotonic()
        shown = self._control.call(self.command)
        state: dict[str, float] = dict(ovs_text.upcall_state(self._control.call("upcall/show")))
        megaflows = ovs_text.datapath_flows(shown)
        if megaflows is not None:
            state["megaflows"] = megaflows
        return Snapshot(
            at_s,
            {f"ovs/lookups/{name}": value for name, value in ovs_text.datapath_lookups(shown).items()},
            {f"ovs/flows/{name}": value for name, value in state.items()},
        )


class FlowDump(_ControlCollector):
    """The megaflows one by one: their masks, which of them packets have taken, and what is claimed of their offload.

    The switch's main thread writes the dump, some ten microseconds a flow, so beyond
    `most` it is not asked for, and the gauges are absent.
    """

    name = "flow dump"
    command = "dpctl/dump-flows"
    MOST_FLOWS = 20_000

    def __init__(self, control: Unixctl, most: int = MOST_FLOWS) -> None:
        super().__init__(control)
        self._most = most

    def snapshot(self) -> Snapshot:
        """Gauges `ovs/flows/masks`, `ovs/flows/used` (since they were made), `ovs/offload/{yes,partial,no}`; flows."""
        at_s = time.monotonic()
        count = ovs_text.datapath_flows(self._control.call("dpctl/show"))
        if count is None or count > self._most:
            return Snapshot(at_s)
        flows = ovs_text.datapath_flow_counts(self._control.call(self.command, "-m"))
        claims = Counter({"yes": 0, "partial": 0, "no": 0})
        claims.update(flow.offload for flow in flows.values())
        gauges = {
            "ovs/flows/masks": float(len({flow.mask for flow in flows.values()})),
            "ovs/flows/used": float(sum(flow.packets > 0 for flow in flows.values())),
        }
        gauges |= {f"ovs/offload/{word}": float(number) for word, number in claims.items()}
        return Snapshot(at_s, gauges=gauges, listing=FlowListing(flows))


class Conntrack(_ControlCollector):
    """Connections tracked now, and how many may be, in all and in each zone."""

    name = "conntrack"
    command = "dpctl/ct-get-nconns"

    def snapshot(self) -> Snapshot:
        """Gauges `ovs/conntrack/{connections,limit}`; of a zone with a limit the same as `ovs/conntrack/zone N/...`."""
        at_s = time.monotonic()
        gauges = {}
        for name, command in (("connections", self.command), ("limit", "dpctl/ct-get-maxconns")):
            answer = self._control.call(command).strip()
            if answer.isdigit():
                gauges[f"ovs/conntrack/{name}"] = float(answer)
        with suppress(UnixctlError):  # before OVS 2.12 it has no limits of zones
            for zone, (count, limit) in ovs_text.zone_limits(self._control.call("dpctl/ct-get-limits")).items():
                gauges[f"ovs/conntrack/zone {zone}/connections"] = float(count)
                gauges[f"ovs/conntrack/zone {zone}/limit"] = float(limit)
        return Snapshot(at_s, gauges=gauges)


class Coverage(_ControlCollector):
    """All coverage counters; those of drops are what the ledger reads."""

    name = "coverage"
    command = "coverage/show"

    def snapshot(self) -> Snapshot:
        """`ovs/coverage/COUNTER`; counters never hit are not printed, so absent means zero."""
        at_s = time.monotonic()
        totals = ovs_text.coverage(self._control.call(self.command))
        return Snapshot(at_s, {f"ovs/coverage/{name}": value for name, value in totals.items()}, sparse=True)


class Ports:
    """Frames in and out of every port of a bridge, with drops by their names."""

    def __init__(
        self, host: Host, bridge: str, management: str, names: Mapping[str, str], environment: Mapping[str, str]
    ) -> None:
        """`management` is the bridge's socket, `names` maps OpenFlow numbers to names."""
        self.name = f"ports of {bridge}"
        self._management = management
        self._host, self._names = host, names
        self._environment = tuple(environment.items())

    def can_run(self) -> str | None:
        """Whether the bridge's socket is there."""
        return None if self._host.exists(self._management) else f"{self._management}: no such socket"

    def snapshot(self) -> Snapshot:
        """`ovs/port/NAME/COUNTER`, live from the netdev (the database's copy is seconds old)."""
        argv = ["ovs-ofctl", "-O", "OpenFlow14", "--timeout=10", "dump-ports", self._management]
        at_s = time.monotonic()
        try:
            ports = ovs_text.port_counters(self._host.run(argv, environment=self._environment))
        except CommandFailed as error:
            raise DutError(f"ovs-vswitchd does not answer: {error.output}", "see its log") from error
        counters = {
            f"ovs/port/{self._names[number]}/{name}": value
            for number, values in ports.items()
            if number in self._names
            for name, value in values.items()
        }
        return Snapshot(at_s, counters)

"""Collectors for Open vSwitch, through its control socket, its database and the bridges' OpenFlow sockets.

Of megaflows that the switch has put into the kernel's traffic control: which frames software handled there.
`offloaded:yes` is a claim: Open vSwitch prints it of every filter of which the kernel does not say that it is *not* in
hardware (lib/tc.c, `nl_get_flower_offloaded_state`). The counters of the filters' actions tell it from the truth:
`packets` are those of software and hardware, `hw_packets` those of hardware alone (iproute2, tc/tc_util.c).
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, ClassVar, Final, Self

import msgspec

from pinchpoint.dut.device import between
from pinchpoint.dut.ovs import text as ovs_text
from pinchpoint.dut.ovs.flows import FlowListing, datapath_flow_counts
from pinchpoint.dut.ovs.places import Appctl, Ovsdb, OvsPlaces, UnixctlError, patience, selected
from pinchpoint.host.interface import CommandFailed, Host
from pinchpoint.model.errors import DutError
from pinchpoint.model.hops import DROPPED_BY
from pinchpoint.observe.snapshot import Collector, Listing, Snapshot, paths

MOST_RULES: Final = 10_000  # the switch's main thread writes the dump, about a microsecond a rule
BY_RULES, BY_TRACKING = "ovs/rules/dropped", "ovs/rules/dropped_by_tracking"
FIRST, NORMAL = "ovs/rules/first", "ovs/rules/normal"  # frames that a rule of table 0 took, and one of NORMAL there
MIRRORED, CONFIGURED = "ovs/mirror/to/", "ovs/config/"
_READ: Final = ("emc-insert-inv-prob", "smc-enable", "pmd-auto-lb")
_LOOKUPS: Final = "/subtable_lookups"
_HIDDEN: Final = 254  # the switch's own table
_RULE: Final = re.compile(
    r"^(?:table_id=(?P<table>\d{1,3}), )?duration=\S+, n_packets=(?P<packets>\d{1,19}), n_bytes=\d+, "
    r"(?P<match>\S*?),?actions=(?P<actions>.*)$"
)
_NORMAL: Final = re.compile(r"(?:^|,)NORMAL(?:,|$)")
_TRACKED: Final = re.compile(r"(?:^|,)ct_(?:state|mark|label|zone)=")


class Asked(Collector):
    """Shared by all that ask the switch: they can run where it answers; a release may not know a command."""

    refusal: ClassVar[type[DutError]] = UnixctlError

    def can_run(self) -> str | None:
        """Why it answers no question of these; None where it does."""
        try:
            self.snapshot()
        except self.refusal as error:
            return str(error)
        return None


class _ControlCollector(Asked):
    """By the control socket."""

    def __init__(self, control: Appctl) -> None:
        self._control = control


class PmdThreads(_ControlCollector):
    """Packets, cache hits and cycles of every PMD thread and of the main thread."""

    name = "pmd"

    def read(self, at_s: float) -> Snapshot:
        """`ovs/pmd/THREAD/COUNTER`; perf-show's iterations beside stats-show's counters."""
        stats = self._control.call("dpif-netdev/pmd-stats-show")
        perf = self._control.call("dpif-netdev/pmd-perf-show", "-nh")
        counters = paths("ovs/pmd", ovs_text.thread_counters(stats)) | paths("ovs/perf", ovs_text.thread_counters(perf))
        hits = between(counters, "ovs/pmd/", "/megaflow_hits")
        counters |= {f"ovs/pmd/{thread}{_LOOKUPS}": n for thread, n in ovs_text.subtable_lookups(stats).items()}
        counters |= {f"ovs/perf/{thread}/upcall_us": spent for thread, spent in ovs_text.upcall_time_us(perf).items()}
        gauges = {f"ovs/pmd/{thread}/megaflow_hits_since_start": float(n) for thread, n in hits.items()}
        # The switch computes iterations from counters that run meanwhile; the sums come from rounded averages.
        derived = frozenset(name for name in counters if name.startswith("ovs/perf/") or name.endswith(_LOOKUPS))
        return Snapshot(at_s, counters, gauges, derived=derived)


class ReceiveQueues(_ControlCollector):
    """Which thread polls which queue, and its share of the last five seconds and of the last minute."""

    name = "rxq"

    def read(self, at_s: float) -> Snapshot:
        """`ovs/rxq/THREAD/PORT/QUEUE/enabled`, `.../usage_percent` and `.../minute_percent`; gauges."""
        command, minute = "dpif-netdev/pmd-rxq-show", ""
        try:
            # Since OVS 3.1 the window can be chosen; by default it is a minute, longer than most trials.
            shown = self._control.call(command, "-secs", "5")
            minute = self._control.call(command, "-secs", "60")
        except UnixctlError:
            shown = self._control.call(command)
        gauges: dict[str, float] = {}
        for text, gauge in ((shown, "usage_percent"), (minute, "minute_percent")):
            for (thread, port, queue), (enabled, usage) in ovs_text.receive_queues(text).items():
                gauges[f"ovs/rxq/{thread}/{port}/{queue}/enabled"] = float(enabled)
                if usage is not None:
                    gauges[f"ovs/rxq/{thread}/{port}/{queue}/{gauge}"] = usage
        return Snapshot(at_s, gauges=gauges)


class DatapathFlows(_ControlCollector):
    """Megaflows, lookups, the flow limit and the revalidators' dump time."""

    name = "flows"

    def read(self, at_s: float) -> Snapshot:
        """Counters `ovs/lookups/...`; gauges `ovs/flows/...`."""
        shown = self._control.call("dpctl/show")
        state: dict[str, float] = dict(ovs_text.upcall_state(self._control.call("upcall/show")))
        if (megaflows := ovs_text.datapath_flows(shown)) is not None:
            state["megaflows"] = megaflows
        lookups = {f"ovs/lookups/{name}": value for name, value in ovs_text.datapath_lookups(shown).items()}
        return Snapshot(at_s, lookups, {f"ovs/flows/{name}": value for name, value in state.items()})


class FlowDump(_ControlCollector):
    """The megaflows one by one: their masks, which of them packets have taken, and what is claimed of their offload.

    The switch's main thread writes the dump, some ten microseconds a flow, so beyond
    `most` it is not asked for, and the gauges are absent.
    """

    name = "flow dump"
    MOST_FLOWS = 20_000

    def __init__(self, control: Appctl, most: int = MOST_FLOWS) -> None:
        super().__init__(control)
        self._most = most

    def read(self, at_s: float) -> Snapshot:
        """Gauges `ovs/flows/masks`, `ovs/flows/used` (since they were made), `ovs/offload/{yes,partial,no}`; flows."""
        count = ovs_text.datapath_flows(self._control.call("dpctl/show"))
        if count is None or count > self._most:
            return Snapshot(at_s)
        flows = datapath_flow_counts(self._control.call("dpctl/dump-flows", "-m"))
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

    def read(self, at_s: float) -> Snapshot:
        """Gauges `ovs/conntrack/{connections,limit}`; of a zone with a limit the same as `ovs/conntrack/zone N/...`."""
        gauges = {}
        for name, command in (("connections", "dpctl/ct-get-nconns"), ("limit", "dpctl/ct-get-maxconns")):
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

    def read(self, at_s: float) -> Snapshot:
        """`ovs/coverage/COUNTER`; counters never hit are not printed, so absent means zero."""
        totals = ovs_text.coverage(self._control.call("coverage/show"))
        return Snapshot(at_s, {f"ovs/coverage/{name}": value for name, value in totals.items()}, sparse=True)


def of_datapath(control: Appctl, most_flows: int = FlowDump.MOST_FLOWS) -> list[Collector]:
    """What every switch tells, whoever built it, but for its threads."""
    dump = FlowDump(control, most_flows)
    return [Coverage(control), Conntrack(control), dump, DatapathFlows(control), ReceiveQueues(control)]


@dataclass(frozen=True)
class DroppingRule:
    """A rule whose action is to drop."""

    table: int
    match: str  # with its priority
    packets: int
    follows_tracking: bool  # it, or another rule of its table, matches on what connection tracking found
    logical: str = ""  # of what an SDN controller made it

    def of_bridge(self, bridge: str) -> str:
        """The name of the counter of the frames that it dropped."""
        return f"{DROPPED_BY}{bridge} table={self.table},{self.match}"


def dropping_rules(text: str) -> list[DroppingRule]:
    """`bridge/dump-flows`: those that drop."""
    rules = [rule for rule in map(_RULE.match, text.splitlines()) if rule]
    tables = {int(rule["table"] or 0) for rule in rules if _TRACKED.search(rule["match"])}
    return [
        DroppingRule(table, rule["match"] or "any frame", int(rule["packets"]), table in tables)
        for rule in rules
        if rule["actions"] == "drop" and (table := int(rule["table"] or 0)) != _HIDDEN
    ]


def too_many(rules: int) -> str | None:
    """Why this number of rules is not read; None up to MOST_RULES."""
    is_few = rules <= MOST_RULES
    return None if is_few else f"{rules:,} rules, more than {MOST_RULES:,}: writing them would hold the switch up"


@dataclass(frozen=True)
class RuleListing(Listing):
    """The rules that drop at one moment, by the names of their counters, of a switch whose rules come and go."""

    rules: Mapping[str, DroppingRule]

    def counted(self, before: Self) -> Mapping[str, int]:
        """Frames of each since then, and the sums; a rule that counts fewer than before was made anew."""
        grown = dict[str, int]()
        for name, rule in self.rules.items():
            earlier = before.rules[name].packets if name in before.rules else 0
            grown[name] = rule.packets - (earlier if earlier <= rule.packets else 0)
        tracked = sum(grown[name] for name, rule in self.rules.items() if rule.follows_tracking)
        told = {name: f" ({rule.logical})" if rule.logical else "" for name, rule in self.rules.items()}
        named = {f"{name}{told[name]}": frames for name, frames in grown.items() if frames}
        return {BY_RULES: sum(grown.values()), BY_TRACKING: tracked} | named


def first_table(text: str) -> tuple[int, int]:
    """`bridge/dump-flows`: frames that rules of table 0 took, and those of them whose rule has the action NORMAL."""
    rules = [rule for rule in map(_RULE.match, text.splitlines()) if rule and not int(rule["table"] or 0)]
    normal = sum(int(rule["packets"]) for rule in rules if _NORMAL.search(rule["actions"]))
    return sum(int(rule["packets"]) for rule in rules), normal


class DroppingRules(_ControlCollector):
    """Frames that OpenFlow rules dropped, by rule; and how many took NORMAL in table 0.

    The datapath counts what the pipeline drops, not which rule did. Rules count the frames that they took, up to a
    second late: revalidators add up their datapath flows (ovs-vswitchd(8), `bridge/dump-flows`).
    """

    name = "dropping rules"

    def __init__(self, control: Appctl, bridges: Sequence[str], rules: int) -> None:
        """`rules`: how many all bridges have."""
        super().__init__(control)
        self._bridges, self._rules = tuple(bridges), rules

    def can_run(self) -> str | None:
        """Whether they are few enough, and the release knows the command."""
        return too_many(self._rules) or super().can_run()

    def read(self, at_s: float) -> Snapshot:
        """`dropped by/BRIDGE table=N,MATCH` of each rule that dropped; the sums of all, and after tracking; table 0."""
        counters = {BY_RULES: 0, BY_TRACKING: 0, FIRST: 0, NORMAL: 0}
        for bridge in self._bridges:
            shown = self._control.call("bridge/dump-flows", bridge)
            first, normal = first_table(shown)
            counters |= {FIRST: counters[FIRST] + first, NORMAL: counters[NORMAL] + normal}
            for rule in dropping_rules(shown):
                counters[BY_RULES] += rule.packets
                counters[BY_TRACKING] += rule.packets if rule.follows_tracking else 0
                if rule.packets:
                    counters[rule.of_bridge(bridge)] = rule.packets
        return Snapshot(at_s, counters, sparse=True)


class Database(Asked):
    """What the database says now of mirrors and settings: others may have changed it since the bench was built."""

    name = "database"
    refusal = DutError

    def __init__(self, host: Host, path: str) -> None:
        self._host, self._path = host, path

    def read(self, at_s: float) -> Snapshot:
        """Gauges `ovs/mirror/to/PORT`: 1; `ovs/config/KEY` of what may be advised, false as 0."""
        with Ovsdb(self._host, self._path) as database:
            asked = [selected("Mirror", "output_port"), selected("Open_vSwitch", "other_config")]
            mirrors, switch = database.transact(asked, patience())
            targets = {row["output_port"][1] for row in mirrors["rows"] if row["output_port"][0] == "uuid"}
            ports = database.transact([selected("Port", "_uuid", "name")], patience())[0]["rows"] if targets else []
        gauges = {f"{MIRRORED}{port['name']}": 1.0 for port in ports if port["_uuid"][1] in targets}
        return Snapshot(at_s, gauges=gauges | dict(_configured(switch["rows"])))


def _configured(rows: Iterable[Mapping[str, list[list[list[str]]]]]) -> Iterator[tuple[str, float]]:
    for key, value in (pair for row in rows for pair in row["other_config"][1]):
        if key in _READ:
            yield f"{CONFIGURED}{key}", float(value) if value.isdigit() else float(value == "true")


class Ports(Collector):
    """Frames in and out of every port of a bridge, with drops by their names."""

    def __init__(self, places: OvsPlaces, bridge: str, names: Mapping[str, str], by_main: Collection[str] = ()) -> None:
        """`names` maps OpenFlow numbers to names; `by_main`: those that the main thread serves beside PMD threads."""
        self.name = f"ports of {bridge}"
        self._places, self._names, self._management = places, names, places.management_of(bridge)
        self._by_main = by_main

    def can_run(self) -> str | None:
        """Whether the bridge's socket is there."""
        return None if self._places.host.exists(self._management) else f"{self._management}: no such socket"

    def read(self, at_s: float) -> Snapshot:
        """`ovs/port/NAME/COUNTER`, live from the netdev (the database's copy is seconds old); gauges of the main
        thread's ports, as `ReceiveQueues` has those of others.
        """
        try:
            shown = self._places.ask("ovs-ofctl", "-O", "OpenFlow14", "--timeout=10", "dump-ports", self._management)
        except CommandFailed as error:
            raise DutError(f"ovs-vswitchd does not answer: {error.output}", "see its log") from error
        by_number = ovs_text.port_counters(shown)
        ports = {name: by_number[number] for number, name in self._names.items() if number in by_number}
        queues = {f"ovs/rxq/main/{name}/0/enabled": 1.0 for name in self._names.values() if name in self._by_main}
        return Snapshot(at_s, paths("ovs/port", ports), queues)


SOFTWARE, HARDWARE, DROPPED = "ovs/tc/software", "ovs/tc/hardware", "ovs/tc/dropped"
MOST_FILTERS = 20_000  # that are parsed at one reading
MODULES: Final = ("cls_flower", "act_mirred", "sch_ingress")


_Count = Annotated[int, msgspec.Meta(ge=0)]


class _Stats(msgspec.Struct):
    packets: _Count = 0
    hw_packets: _Count = 0
    drops: _Count = 0


class _Action(msgspec.Struct):
    stats: _Stats | None = None


class _Options(msgspec.Struct):
    handle: int | str = 0
    in_hw: bool = False
    actions: list[_Action] = []


class _Filter(msgspec.Struct):
    pref: int = 0
    chain: int = 0
    options: _Options | None = None


Filter = tuple[str, int, int, int | str]
"""Interface, chain, priority and handle: what a filter is known by."""


@dataclass(frozen=True)
class Filtered:
    """Frames that a filter took since it was made."""

    software: int
    hardware: int
    dropped: int  # by its actions


@dataclass(frozen=True)
class FilterListing(Listing):
    """All filters at one moment."""

    filters: Mapping[Filter, Filtered]

    def counted(self, before: Self) -> Mapping[str, int]:
        """`ovs/tc/{software,hardware,dropped}`: frames since then. One that passed several chains counts once.

        A filter with fewer frames than before was made anew. One that is gone took its frames along.
        """
        chains: dict[str, Counter[int]] = {SOFTWARE: Counter(), HARDWARE: Counter(), DROPPED: Counter()}
        for name, now in self.filters.items():
            old = before.filters.get(name, _NONE)
            if now.software + now.hardware < old.software + old.hardware:
                old = _NONE
            chains[SOFTWARE][name[1]] += max(0, now.software - old.software)
            chains[HARDWARE][name[1]] += max(0, now.hardware - old.hardware)
            chains[DROPPED][0] += max(0, now.dropped - old.dropped)
        return {counter: max(counts.values(), default=0) for counter, counts in chains.items()}


_NONE: Final = Filtered(0, 0, 0)


def filters(text: str, interface: str) -> dict[Filter, tuple[Filtered, bool]]:
    """What `tc -s -j filter show` prints of one interface, and whether the kernel says that hardware has it.

    Raises msgspec.DecodeError.
    """
    by_filter: dict[Filter, tuple[Filtered, bool]] = {}
    for entry in msgspec.json.decode(text or "[]", type=list[_Filter]):
        stats = [action.stats for action in entry.options.actions if action.stats] if entry.options else []
        if entry.options is not None and stats:
            hardware = min(stats[0].hw_packets, stats[0].packets)
            seen = Filtered(stats[0].packets - hardware, hardware, sum(action.drops for action in stats))
            by_filter[interface, entry.chain, entry.pref, entry.options.handle] = (seen, entry.options.in_hw)
    return by_filter


class TcFilters(Collector):
    """The filters at the switch's ports, one by one."""

    name = "tc filters"

    def __init__(self, host: Host, netns: str | None, interfaces: Sequence[str]) -> None:
        self._host, self._netns, self._interfaces = host, netns, tuple(interfaces)

    def can_run(self) -> str | None:
        """Whether there is tc."""
        return None if self._host.which("tc") else "tc: not installed; apt-get install iproute2"

    def read(self, at_s: float) -> Snapshot:
        """Gauges `ovs/tc/{filters,in_hw}`; the filters.

        An interface that the kernel does not know by its name (a tunnel, a patch port) has none here, so its frames are
        missing from the sum. What cannot be read, or is too much, leaves all of it out.
        """
        by_filter: dict[Filter, tuple[Filtered, bool]] = {}
        for name in self._interfaces:
            try:
                argv = ["tc", "-s", "-j", "filter", "show", "dev", name, "ingress"]
                by_filter |= filters(self._host.run(argv, self._netns), name)
            except CommandFailed:
                continue
            except msgspec.DecodeError:
                return Snapshot(at_s)
            if len(by_filter) > MOST_FILTERS:
                return Snapshot(at_s)
        in_hw = sum(held for _, held in by_filter.values())
        gauges = {"ovs/tc/filters": float(len(by_filter)), "ovs/tc/in_hw": float(in_hw)}
        listing = FilterListing({name: frames for name, (frames, _) in by_filter.items()})
        return Snapshot(at_s, gauges=gauges, listing=listing)

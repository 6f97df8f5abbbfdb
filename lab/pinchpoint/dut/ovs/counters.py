"""What the counters of Open vSwitch say: the load of its threads, metrics of a trial, signs of causes.

What can be done against a cause: counter-experiments with other rules or limits out of reach, and settings. Pure.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from pinchpoint.dut.device import Device, Seen, between
from pinchpoint.dut.ovs import remedies
from pinchpoint.dut.ovs.collectors import BY_RULES, BY_TRACKING, DROPPED, FIRST, HARDWARE, MIRRORED, NORMAL, SOFTWARE
from pinchpoint.dut.ovs.flows import BY_FLOWS, LIMIT
from pinchpoint.dut.ovs.spec import FIRST_BRIDGE, Bridge, OvsPort, Rule, RuleSeries, spec
from pinchpoint.model.causes import Experiment, Sign
from pinchpoint.model.measurement import CARRIED, Metric
from pinchpoint.model.offload import OffloadLimit
from pinchpoint.model.scenario import Scenario
from pinchpoint.model.trial import BusyBy, ThreadFigure, ThreadLoad

FIGURES: Final[Mapping[str, ThreadFigure]] = {
    "simple_match_hits": ThreadFigure("simple match", "lookups that a simple match by port answered", "simple match"),
    "emc_hits": ThreadFigure("EMC", "lookups that the exact-match cache answered", "EMC"),
    "smc_hits": ThreadFigure("SMC", "lookups that the signature-match cache answered", "SMC"),
    "megaflow_hits": ThreadFigure("megaflow", "lookups that the classifier answered", "megaflow classifier"),
    "upcalls": ThreadFigure("upcall", "lookups that an upcall answered", "upcalls"),
    "lost_upcalls": ThreadFigure("lost upcall", "lookups whose upcall failed", "upcalls"),
}
"""A thread's own figures, the fastest cache first."""
MISSING: Final = 0.01  # share of the frames: counters are read one after the other
_COUNTERS: Final = {"upcalls": "miss_with_success_upcall", "lost_upcalls": "miss_with_failed_upcall"}
_AVERAGE_ROUNDING: Final = 0.005  # ovs-vswitchd prints averages with two decimals
_GAUGES: Final = {
    "conntrack entries": "ovs/conntrack/connections",
    "datapath flows in the table": "ovs/flows/megaflows",
    "datapath masks in the table": "ovs/flows/masks",
}


def _threads(seen: Seen) -> list[str]:
    """Those that have counters, the main thread last."""
    threads = {name.split("/")[2] for name in seen if name.startswith("ovs/pmd/")}
    return sorted(threads, key=lambda thread: (thread == "main", len(thread), thread))


def _sum(seen: Seen, counter: str) -> float | None:
    """Of all threads; None where none has the counter."""
    known = [seen[name] for thread in _threads(seen) if (name := f"ovs/pmd/{thread}/{counter}") in seen]
    return sum(known) if known else None


def _load(thread: str, seen: Seen, traffic_s: float) -> ThreadLoad:
    def count(name: str) -> int | None:
        value = seen.get(f"ovs/pmd/{thread}/{name}")
        return None if value is None else int(value)

    cpu = int(thread.removeprefix("core")) if thread != "main" else None
    received = count("packets_received") or 0
    busy, idle = count("processing_cycles"), count("idle_cycles")
    elapsed_s = seen.get("elapsed_s/pmd")
    clock_hz = (busy + idle) / elapsed_s if busy is not None and idle is not None and elapsed_s else None
    share, by = _busy(thread, busy, clock_hz, seen, traffic_s)
    lookups = {key: count(_COUNTERS.get(key, key)) for key in FIGURES}
    detail = {key: hits for key, hits in lookups.items() if hits is not None}
    polled = (queue.partition("/")[0] for queue, on in between(seen, f"ovs/rxq/{thread}/", "/enabled").items() if on)
    return ThreadLoad(
        name="main thread" if cpu is None else f"PMD core {cpu}",
        cpu=cpu,
        received=received,
        recirculated=count("packet_recirculations"),
        busy_share=share,
        busy_by=by,
        cycles_per_packet=busy / received if busy is not None and received else None,
        clock_hz=clock_hz,
        ports=tuple(sorted(set(polled))),
        slow_path=detail["upcalls"] + detail.get("lost_upcalls", 0) if "upcalls" in detail else None,
        detail=detail,
    )


def _busy(
    thread: str, busy: int | None, clock_hz: float | None, seen: Seen, traffic_s: float
) -> tuple[float | None, BusyBy | None]:
    """The busy share, and how it is known."""
    if traffic_s <= 0:
        return None, None
    if busy is not None and clock_hz:
        return min(1.0, busy / (clock_hz * traffic_s)), BusyBy.CYCLES
    # The main thread counts no cycles; it sleeps when idle, so its CPU time is its load.
    run_ns = seen.get("host/thread/main/run_ns") if thread == "main" else None
    return (None, None) if run_ns is None else (min(1.0, run_ns / 1e9 / traffic_s), BusyBy.PROCESSOR_TIME)


def _subtables(seen: Seen) -> Iterator[Metric]:
    """Subtables searched for a megaflow hit, from running averages that are printed rounded."""
    lookups = hits = error = 0.0
    for thread, searched in between(seen, "ovs/pmd/", "/subtable_lookups").items():
        lookups += searched
        hits += seen.get(f"ovs/pmd/{thread}/megaflow_hits", 0)
        error += 2 * _AVERAGE_ROUNDING * seen.get(f"ovs/pmd/{thread}/megaflow_hits_since_start", 0)
    if hits > 0:
        value, margin = lookups / hits, error / hits
        low, high = max(1.0, value - margin), value + margin
        note = "the switch prints the average since its start with two decimals"
        yield Metric("subtable lookups per megaflow hit", "count", max(1.0, value), low, high, note)


def _tables(seen: Seen) -> Iterator[Metric]:
    """Flows and masks that carried packets during the trial; where flows were too many to list, all in the table."""
    for what in ("flows", "masks"):
        if (value := seen.get(f"ovs/exercised/{what}")) is not None:
            yield Metric(f"datapath {what}", "count", value, note=CARRIED)
    if "ovs/exercised/flows" not in seen and "ovs/flows/megaflows" in seen:
        note = "in the table; which of them carried packets was not counted"
        yield Metric("datapath flows", "count", seen["ovs/flows/megaflows"], note=note)
    for name, gauge in _GAUGES.items():
        if gauge in seen:
            yield Metric(name, "count", seen[gauge])
    if "ovs/offload/yes" in seen:
        partial = seen.get("ovs/offload/partial", 0)
        note = f"{partial:,.0f} of them in part" if partial else ""
        yield Metric("offloaded flows", "count", seen["ovs/offload/yes"] + partial, note=note)


def _queues(seen: Seen) -> Iterator[Metric]:
    """Of each port's receive queues: the share of its thread's time, and of the port's frames.

    Of a trial of a minute or more that of its last minute, of others that of the last five seconds.
    """
    minute = between(seen, "ovs/rxq/", "/minute_percent") if seen.get("elapsed_s/rxq", 0.0) >= 60 else {}
    usage = minute or between(seen, "ovs/rxq/", "/usage_percent")
    for name, percent in sorted(usage.items()):
        thread, port, queue = name.split("/")
        note = f"of PMD core {thread.removeprefix('core')} in the last {60 if minute else 5} s"
        yield Metric(f"queue usage {port}:{queue}", "share", percent / 100, note=note)
    for port in sorted({name.split("/")[2] for name in seen if name.startswith("ovs/port/")}):
        counted = between(seen, f"ovs/port/{port}/rx_q", "_good_packets")
        queues = {int(number): frames for number, frames in counted.items() if number.isdigit()}
        total = sum(queues.values())
        if len(queues) > 1 and total:
            for number, frames in sorted(queues.items()):
                yield Metric(f"queue share {port}:{number}", "share", frames / total)


def _signs(seen: Seen) -> dict[Sign, float | None]:
    """All that causes show by; None: it was not read."""
    by_threads, hits = _sum(seen, "packets_received"), _sum(seen, "megaflow_hits")
    passes = by_threads and by_threads + (_sum(seen, "packet_recirculations") or 0)
    contended = between(seen, "", "/vhost_tx_contention")
    tracked, limits = (between(seen, "ovs/conntrack/", end) for end in ("connections", "limit"))
    full = (
        (tracked[where] / limit, tracked[where], limit) for where, limit in limits.items() if where in tracked and limit
    )
    share, connections, limit = max(full, default=(None, None, None))
    # Whose the drops of the pipeline are: of rules that drop, of those after connection tracking, of mirrors.
    by_rules, received = seen.get(BY_RULES), between(seen, "ovs/port/", "/rx_pkts")
    mirrored, entered = sum(received.get(port, 0.0) for port in between(seen, MIRRORED, "")), sum(received.values())
    flows, claimed = _claims(seen)
    return {
        Sign.SUBTABLES: _ratio(_sum(seen, "subtable_lookups"), hits, least=1.0),
        Sign.SLOW_PATH_TIME: _upcall_share(seen),
        Sign.FLOWS_OF_LIMIT: _ratio(seen.get("ovs/flows/flows"), seen.get("ovs/flows/flow_limit")),
        Sign.TRACKED_OF_LIMIT: share,
        Sign.TRACKED: connections,
        Sign.TRACKING_LIMIT: limit,
        Sign.CLAIMED: _ratio(claimed, flows),
        Sign.SOFTWARE: _ratio(_by_software(seen, by_threads, entered, claimed), entered),
        Sign.RULES_NAMED: _ratio(by_rules, _dropped_by_pipeline(seen), most=1.0),
        Sign.DROPS_OF_TRACKING: _ratio(seen.get(BY_TRACKING, 0.0), by_rules),
        Sign.MIRRORED_TO: _ratio(mirrored, entered),
        Sign.WILDCARD_SHARE: _ratio(hits, passes),
        Sign.UNTRACKED: _ratio(seen.get("ovs/coverage/conntrack_full", 0.0), by_threads),
        Sign.CONTENDED: _ratio(sum(contended.values()) if contended else None, by_threads),
    }


def _dropped_by_pipeline(seen: Seen) -> float | None:
    """As the userspace datapath counts them, or the flows of the kernel's. None: not known, as where tc drops."""
    by_flows = None if DROPPED in seen else seen.get(BY_FLOWS)
    return max(filter(None, (seen.get("ovs/coverage/drop_action_of_pipeline"), by_flows)), default=None)


def _ratio(part: float | None, whole: float | None, least: float = 0.0, most: float = math.inf) -> float | None:
    """None where either is not known, or there is no whole."""
    return min(most, max(least, part / whole)) if part is not None and whole else None


def _upcall_share(seen: Seen) -> float | None:
    """Of the busiest thread's busy time; its clock is what its own counters grew by."""
    elapsed_s, shares = seen.get("elapsed_s/pmd"), list[float]()
    for thread, spent_us in between(seen, "ovs/perf/", "/upcall_us").items():
        busy, idle = (seen.get(f"ovs/pmd/{thread}/{name}_cycles") for name in ("processing", "idle"))
        if elapsed_s and busy and idle is not None:
            shares.append(spent_us / 1e6 / (elapsed_s * busy / (busy + idle)))
    return min(1.0, max(shares)) if shares else None


def _claims(seen: Seen) -> tuple[float, float]:
    """(flows, those that are said to be offloaded).

    They claim by their flags, `upcall/show` by the number that it calls offloaded: all that were put into tc.
    """
    yes, partial, no = (seen.get(f"ovs/offload/{word}", 0.0) for word in ("yes", "partial", "no"))
    flows = yes + partial + no
    return flows, max(yes + partial, min(seen.get("ovs/flows/offloaded", 0.0), flows))


def _by_software(seen: Seen, by_threads: float | None, entered: float, claimed: float) -> float | None:
    """Frames that software saw: the threads' packets, or the lookups of the kernel's datapath. None: not known.

    Where offload is claimed, tc has frames of software for which it never asks the datapath. A filter that ended
    between two readings took its frames along, so hardware is believed only where it counted. A port's own count of
    received frames has those that its hardware forwards.
    """
    if by_threads is not None or "ovs/lookups/hit" not in seen:
        return by_threads
    software = seen["ovs/lookups/hit"] + seen.get("ovs/lookups/missed", 0)
    if not claimed:
        return software
    software += seen.get(SOFTWARE, 0.0)
    return software if software + seen.get(HARDWARE, 0.0) >= entered * (1 - MISSING) else None


UNREACHED = 2**24  # flows or connections: a bench has 64 x 2^16 five-tuples at most, of which it uses a fraction
_STATE = re.compile(r"ct_(?:state|zone|mark|label|nw_src|nw_dst|nw_proto|tp_src|tp_dst|ipv6_src|ipv6_dst)=[^, ]*,?")
_TABLE = re.compile(r"\btable=(\d{1,3})")
_OUTPUT = re.compile(r"(?:output:)?\{(?!ipv4:|mac:|u16:|i\})[^}]*\}|\b(?:FLOOD|ALL|NORMAL|flood|all|normal)\b")
_SETTINGS: Final[Mapping[str, tuple[str, ...]]] = {
    "policer": ("raise port.ingress_policing_rate", "raise the rates of port.qos"),
    "mtu": ("raise port.mtu",), "buffers": ("raise dut.memory_mb",),
    "tracking-limit": ("raise dut.conntrack_limit", "the limit of the zone"), "flow-limit": ("raise dut.flow_limit",),
    "false-offload": ("name outputs instead of NORMAL in table 0",),
    "slow-path": ("raise dut.flow_limit", "raise dut.max_idle_ms"),
    "copies": ("name the port instead of FLOOD, ALL, or NORMAL without a learnt address",),
    "imbalance": ("set port.rxq_affinity",),
    "main-thread": ('set dut.datapath = "af_xdp" or "dpdk"', 'leave out port.kind, or set port.kind = "afxdp"'),
    "preempted": ("name another CPU in dut.pmd_cpus",),
    "flow-control": ("set options:tx-flow-ctrl=false of the port",),
}  # fmt: skip
"""By the name of the cause."""


def _all(scenario: Scenario) -> Iterator[tuple[Experiment, Scenario]]:
    dut = spec(scenario)
    if not dut.guests:  # whose way through them is no matter of rules
        yield Experiment.PLAIN, _plain(scenario)
    yield Experiment.NO_TRACKING, _with_actions(scenario, _untracked)
    yield Experiment.ONE_OUTPUT, _with_actions(scenario, _one_output)
    if dut.tuning.flow_limit is not None:
        tuning = replace(dut.tuning, flow_limit=UNREACHED)
        yield Experiment.LARGE_FLOW_LIMIT, replace(scenario, dut=replace(dut, tuning=tuning))
    if dut.tuning.conntrack_limit is not None:
        tuning = replace(dut.tuning, conntrack_limit=UNREACHED)
        yield Experiment.LARGE_TRACKING_LIMIT, replace(scenario, dut=replace(dut, tuning=tuning))


def _plain(scenario: Scenario) -> Scenario:
    """One bridge that takes a stream's frames from one port to the other, whatever they are."""
    pairs = dict.fromkeys((stream.tx_port, stream.rx_port) for stream in scenario.streams)
    rules = tuple(Rule(f"in_port={{{tx}}},actions=output:{{{rx}}}") for tx, rx in pairs)
    bare = replace(spec(scenario), patches=(), tunnels=(), nics=(), arp_responders=(), mirrors=())
    dut = replace(bare, bridges=(Bridge(FIRST_BRIDGE, rules, ()),))
    ports = tuple(replace(port, bridge=FIRST_BRIDGE) if isinstance(port, OvsPort) else port for port in scenario.ports)
    return replace(scenario, dut=dut, ports=ports)


def _with_actions(scenario: Scenario, changed: Callable[[str], str]) -> Scenario:
    """The rules of all bridges, each as `changed`."""

    def of(bridge: Bridge) -> Bridge:
        rules = dict.fromkeys(changed(rule.text) for rule in bridge.rules)
        series = (RuleSeries(changed(old.rule), old.count, old.first) for old in bridge.rule_series)
        return replace(bridge, rules=tuple(map(Rule, rules)), rule_series=tuple(series))

    dut = spec(scenario)
    bridges = tuple(map(of, dut.bridges))
    is_same = list(map(_texts, bridges)) == list(map(_texts, dut.bridges))
    return scenario if is_same else replace(scenario, dut=replace(dut, bridges=bridges))


def _texts(bridge: Bridge) -> tuple[list[str], list[str]]:
    return [rule.text for rule in bridge.rules], [series.rule for series in bridge.rule_series]


def _untracked(rule: str) -> str:
    """The rule without matches on connections; what went through connection tracking goes to its table at once."""
    match, separator, actions = rule.partition("actions=")
    if not separator:
        return rule
    kept, rest = list[str](), actions
    while (ct_action := re.search(r"\bct(\(|_clear\b)", rest)) is not None:
        end = _closed(rest, ct_action.end()) if ct_action[1] == "(" else ct_action.end()
        table = _TABLE.search(rest[ct_action.start() : end])
        kept.append(rest[: ct_action.start()] + (f"resubmit(,{table[1]})" if table else ""))
        rest = rest[end:]
    words = re.sub(r",{2,}", ",", "".join(kept) + rest).strip(",")
    return f"{_STATE.sub('', match)}{separator}{words or 'drop'}"


def _closed(text: str, begin: int) -> int:
    """The place after the bracket that closes the one before `begin`."""
    depth = 1
    for place in range(begin, len(text)):
        depth += {"(": 1, ")": -1}.get(text[place], 0)
        if not depth:
            return place + 1
    return len(text)


def _one_output(rule: str) -> str:
    """The rule with the first of its outputs alone, where it names several ports."""
    match, separator, actions = rule.partition("actions=")
    outputs = list(_OUTPUT.finditer(actions))
    if len(outputs) < 2:
        return rule
    for extra in reversed(outputs[1:]):
        actions = actions[: extra.start()] + actions[extra.end() :]
    return f"{match}{separator}{re.sub(r',{2,}', ',', actions).strip(',')}"


def _unless_set(cause: str, seen: Seen) -> Iterator[str]:
    if cause == "imbalance" and not seen.get(remedies.AUTO_LB):
        yield "let pmd-auto-lb deal the queues out"
    if cause in ("masks", "many-flows") and not seen.get(remedies.SMC):
        yield "try dut.smc = true"
    if cause == "many-flows" and seen.get(remedies.EMC) != 0:
        yield "try dut.emc_insert_inv_prob = 0, which saves useless insertions"


class CountedDevice(Device):
    """What a switch's counters say of a trial, and what can be done against its causes."""

    def loads(self, seen: Seen, traffic_s: float) -> tuple[ThreadLoad, ...]:
        """The load of each thread that received frames, the PMDs first.

        Snapshots bracket more than the traffic (drain, reading), so a busy share of
        all cycles would be too low: busy cycles are set against the cycles of
        `traffic_s` seconds, with the core's clock taken from the counters' own growth.
        """
        thread_loads = [_load(thread, seen, traffic_s) for thread in _threads(seen)]
        return tuple(load for load in thread_loads if load.received > 0 or load.cpu is not None)

    def metrics(self, seen: Seen) -> Iterator[Metric]:
        """Metrics of one trial from `seen`, the differences of ovs-vswitchd's counters; those not seen are left out."""
        yield from _subtables(seen)
        yield from _tables(seen)
        yield from _queues(seen)

    def handled(self, seen: Seen) -> int | None:
        """Lookups of the datapath, for one that no thread counts, and frames that tc took before."""
        counts = [seen[name] for name in ("ovs/lookups/hit", "ovs/lookups/missed", SOFTWARE, HARDWARE) if name in seen]
        return int(sum(counts)) if counts else None

    def signs(self, seen: Seen) -> Mapping[Sign, float]:
        """Subtables, the classifier's share, upcalls, limits and contention; what was not read is absent."""
        return {sign: value for sign, value in _signs(seen).items() if value is not None}

    def offload_limits(self, seen: Seen) -> Mapping[OffloadLimit, float]:
        """The share of the frames that each known limit keeps in software."""
        kept = {limit: seen[name] for limit in OffloadLimit if (name := LIMIT + limit.name.lower()) in seen}
        by_normal = {OffloadLimit.NORMAL: seen[NORMAL] / seen[FIRST]} if seen.get(FIRST) and seen.get(NORMAL) else {}
        return kept | by_normal

    def experiments(self, scenario: Scenario) -> Mapping[Experiment, Scenario]:
        """Other rules, and limits out of reach: those that would change anything."""
        return {kind: changed for kind, changed in _all(scenario) if changed.dut != scenario.dut}

    def advice(self, cause: str, seen: Seen) -> Sequence[str]:
        """Keys, and settings of its database, without what is in force."""
        return (*super().advice(cause, seen), *_SETTINGS.get(cause, ()), *_unless_set(cause, seen))

    def commands(self, cause: str, seen: Seen) -> Sequence[str]:
        """Of ovs-vsctl and ovs-appctl."""
        return remedies.commands(cause, seen)

"""What the counters of Open vSwitch say of one trial: subtables, flows, connections, queues. Pure."""

from collections.abc import Iterator, Mapping

from pinchpoint.dut.ovs.tc import HARDWARE, SOFTWARE
from pinchpoint.model.measurement import CARRIED, Metric

_AVERAGE_ROUNDING = 0.005  # ovs-vswitchd prints averages with two decimals

Seen = Mapping[str, float]


def metrics(seen: Seen) -> Iterator[Metric]:
    """Metrics of one trial from `seen`, the differences of ovs-vswitchd's counters; those not seen are left out."""
    yield from _subtables(seen)
    yield from _tables(seen)
    yield from _queues(seen)


def _subtables(seen: Seen) -> Iterator[Metric]:
    """Subtables searched for a megaflow hit, from running averages that are printed rounded."""
    threads = {name.split("/")[2] for name in seen if name.startswith("ovs/pmd/")}
    lookups = hits = error = 0.0
    for thread in threads:
        searched = seen.get(f"ovs/pmd/{thread}/subtable_lookups")
        if searched is not None:
            lookups += searched
            hits += seen.get(f"ovs/pmd/{thread}/megaflow_hits", 0)
            error += 2 * _AVERAGE_ROUNDING * seen.get(f"ovs/pmd/{thread}/megaflow_hits_since_start", 0)
    if hits <= 0:
        return
    value, margin = lookups / hits, error / hits
    note = "the switch prints the average since its start with two decimals"
    yield Metric(
        "subtable lookups per megaflow hit", "count", max(1.0, value), max(1.0, value - margin), value + margin, note
    )


_GAUGES = {
    "conntrack entries": "ovs/conntrack/connections",
    "datapath flows in the table": "ovs/flows/megaflows",
    "datapath masks in the table": "ovs/flows/masks",
}


def _tables(seen: Seen) -> Iterator[Metric]:
    yield from _exercised(seen)
    for name, gauge in _GAUGES.items():
        if gauge in seen:
            yield Metric(name, "count", seen[gauge])
    if "ovs/offload/yes" in seen:
        partial = seen.get("ovs/offload/partial", 0)
        note = f"{partial:,.0f} of them in part" if partial else ""
        yield Metric("offloaded flows", "count", seen["ovs/offload/yes"] + partial, note=note)


def _exercised(seen: Seen) -> Iterator[Metric]:
    """Flows and masks that carried packets during the trial; where flows were too many to list, all in the table."""
    for what in ("flows", "masks"):
        if (value := seen.get(f"ovs/exercised/{what}")) is not None:
            yield Metric(f"datapath {what}", "count", value, note=CARRIED)
    if "ovs/exercised/flows" not in seen and "ovs/flows/megaflows" in seen:
        note = "in the table; which of them carried packets was not counted"
        yield Metric("datapath flows", "count", seen["ovs/flows/megaflows"], note=note)


def _queues(seen: Seen) -> Iterator[Metric]:
    """Of each port's receive queues: the share of its thread's time, and of the port's frames."""
    for name in sorted(seen):
        parts = name.split("/")
        if name.startswith("ovs/rxq/") and parts[-1] == "usage_percent":
            note = "of its thread's time, over the last 5 s"
            yield Metric(f"queue usage {parts[3]}:{parts[4]}", "share", seen[name] / 100, note=note)
    for port in sorted({name.split("/")[2] for name in seen if name.startswith("ovs/port/")}):
        yield from _queue_shares(port, seen)


def _queue_shares(port: str, seen: Seen) -> Iterator[Metric]:
    queues: dict[int, float] = {}
    start, end = f"ovs/port/{port}/rx_q", "_good_packets"
    for name, count in seen.items():
        number = name.removeprefix(start).removesuffix(end)
        if name.startswith(start) and name.endswith(end) and number.isdigit():
            queues[int(number)] = count
    total = sum(queues.values())
    if len(queues) > 1 and total:
        for queue, frames in sorted(queues.items()):
            yield Metric(f"queue share {port}:{queue}", "share", frames / total)


def handled(seen: Seen) -> int | None:
    """Lookups of the datapath, for one that no thread counts, and frames that tc took before; None if it has none."""
    counts = [seen[name] for name in ("ovs/lookups/hit", "ovs/lookups/missed", SOFTWARE, HARDWARE) if name in seen]
    return int(sum(counts)) if counts else None

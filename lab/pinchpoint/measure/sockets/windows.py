"""The figures of one window of a socket workload, and of all windows of a scenario together."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from pinchpoint.account.windows import MOST_FAILED, Window
from pinchpoint.engine.histogram import merged
from pinchpoint.measure.summary import by_name
from pinchpoint.model import units
from pinchpoint.model.measurement import CARRIED, THREAD_BUSY, Bound, LevelChange, Metric
from pinchpoint.model.result import Limit
from pinchpoint.model.trial import ThreadLoad
from pinchpoint.model.warning import ResultWarning, Warn
from pinchpoint.stats.estimate import estimate

FEW_FLOWS = 64  # datapath flows: with fewer, a factor of a hundred and more items was not seen
MANY_ITEMS = 100
_OF_FLOWS = ("datapath flows", "datapath masks")
_BUSY = {"client busy": Limit.SENDER_CORE, "server busy": Limit.RECEIVER_CORE, "relay busy": Limit.RELAY_CORE}
LATENCIES = tuple(f"latency {name}" for name in ("mean", "max", "sd", "p50", "p90", "p99", "p99.9", "p99.99"))
NONE_VALID = "every window was disturbed by the host"


def of_window(window: Window, own: Iterable[Metric], handled: int | None) -> tuple[Metric, ...]:
    """Everything that one window found. What was not counted is absent, never zero.

    `own` are the device's metrics, `handled` the frames that its datapath says it handled where no thread counts them.
    """
    loads = window.forwarding
    return (*_traffic(window), *_threads(window), *_forwarding(loads), *_datapath(loads, own, handled))


def over_repeats(windows: Sequence[Sequence[Metric]], disturbed: bool = False) -> tuple[Metric, ...]:
    """Each metric that every window has, over the windows as curves take repeats; `disturbed`: none was valid."""
    named = by_name(windows).values()
    return tuple(_over(repeats, disturbed) for repeats in named if len(repeats) == len(windows))


def _over(repeats: Sequence[Metric], disturbed: bool) -> Metric:
    first, several = repeats[0], len(repeats) > 1
    # Their notes say where a figure comes from, not how wide it is.
    estimated = estimate([Metric(metric.name, metric.unit, metric.value) for metric in repeats])
    notes = [estimated.interval.replace("repeats", "windows") if several else "one window"]
    if estimated.trimmed_mean not in (None, estimated.value):  # as some publish it
        notes.append(f"without lowest and highest {units.quantity(estimated.trimmed_mean, estimated.unit)}")
    notes.append(next((metric.note for metric in repeats if metric.low is not None), first.note))
    # A window with a range of its own spans at least that.
    low, high = (estimated.low, estimated.high) if several else (None, None)
    lows = [end for end in (low, *(metric.low for metric in repeats)) if end is not None]
    highs = [end for end in (high, *(metric.high for metric in repeats)) if end is not None]
    ends = min(lows, default=None), max(highs, default=None)
    cautions = next((metric.cautions for metric in repeats if metric.cautions), ())
    cautions = (*cautions, NONE_VALID) if disturbed else cautions
    note = "; ".join(filter(None, notes))
    level = estimated.level if several else None
    return Metric(first.name, first.unit, estimated.value, *ends, note, Bound.FOUND, cautions, disturbed, level)


def invisible(items: Mapping[str, int], flows: int | None, masks: int | None) -> Iterator[ResultWarning]:
    """Warnings about what was built and took no datapath flow; `items` counts, e.g., rules and extra ports.

    Whether it changed the rate nevertheless, only a comparison with a bench without it can tell.
    """
    if flows is not None and masks is not None and flows <= FEW_FLOWS:
        for what, count in items.items():
            if count >= MANY_ITEMS:
                yield Warn.NO_FLOW_OF_ITS_OWN.of(items=count, what=what, flows=flows, masks=masks)


def _traffic(window: Window) -> Iterator[Metric]:
    if window.has_answers:
        yield _rate("transactions", "1/s", window.transactions_per_s, window.change)
        yield from _latency(window)
        limit = (f"RFC 9411 allows less than {units.loss(MOST_FAILED)}",) if window.failed_share >= MOST_FAILED else ()
        yield Metric("failed share", "share", window.failed_share, cautions=limit)
    else:
        yield _rate("goodput", "bit/s", window.goodput_bps, window.change)
    if window.retransmits is not None:
        yield Metric("retransmits", "count", window.retransmits)
    if window.relay_drops is not None:
        yield Metric("relay drops", "count", sum(window.relay_drops.values()), note="frames, warm-up included")


def _rate(name: str, unit: str, mean: float, change: LevelChange | None) -> Metric:
    """The mean over the window; of a rate that changed its level, the later one, which lasts, with both as its range.

    The mean of two levels is a rate that the bench never had.
    """
    if change is None:
        return Metric(name, unit, mean)
    before, after = units.quantity(change.before, unit), units.quantity(change.after, unit)
    caution = f"not stationary: {before} until {change.at_s:.1f} s, then {after}, which is given"
    low, high = sorted((change.before, change.after))
    return Metric(name, unit, change.after, low, high, cautions=(caution,))


def _latency(window: Window) -> Iterator[Metric]:
    latency = merged([run.latency for run in window.runs if run.latency is not None])
    if latency is None:
        return
    planned = any(run.intended is not None for run in window.runs)
    note = "from the planned instant" if planned else ""
    quantiles_ns = latency.p50_ns, latency.p90_ns, latency.p99_ns, latency.p999_ns, latency.p9999_ns
    times_ns = latency.mean_ns, latency.max_ns, latency.stddev_ns, *quantiles_ns
    for name, time_ns in zip(LATENCIES, times_ns, strict=True):
        if time_ns is not None:
            yield Metric(name, "ns", time_ns, note=note)


def _threads(window: Window) -> Iterator[Metric]:
    for name, limit in _BUSY.items():
        shares = [thread.busy for thread in window.threads if thread.limit is limit]
        if shares:
            several = f"mean of {len(shares)} threads, the busiest {units.share(max(shares))}"
            yield Metric(name, "share", math.fsum(shares) / len(shares), note=several if len(shares) > 1 else "")
    for cpu, share in window.cpus.items():
        yield Metric(f"CPU {cpu}: busy", "share", share.busy)
        yield Metric(f"CPU {cpu}: softirq", "share", share.softirq)


def _forwarding(loads: Sequence[ThreadLoad]) -> Iterator[Metric]:
    """Named as the measure `rates` names them: without the thread where one forwards."""
    forwarding = [load for load in loads if load.received]
    for load in forwarding:
        prefix = f"{load.name}: " if len(forwarding) > 1 else ""
        note = "" if prefix else load.name
        if load.busy_share is not None:
            yield Metric(f"{prefix}{THREAD_BUSY}", "share", load.busy_share, note=note)
        if load.cycles_per_packet is not None:
            yield Metric(f"{prefix}cycles per packet", "cycles", load.cycles_per_packet, note=note)


def _datapath(loads: Sequence[ThreadLoad], own: Iterable[Metric], handled: int | None) -> Iterator[Metric]:
    yield from (metric for metric in own if metric.name in _OF_FLOWS and metric.note == CARRIED)
    packets = sum(load.received for load in loads) or handled
    if packets:
        yield Metric("packets seen by the datapath", "count", packets, note="warm-up included")

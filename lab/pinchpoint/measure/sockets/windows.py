"""One window of a socket workload, from its measurement: who worked how hard, and may it be judged.

A window is what all pairs of client and server counted together; the account of each is the
engine's `sockets_result` as plain data, in `Measurement.account["pairs"]`.

Then its figures, and those of all windows of a scenario together.
"""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from pinchpoint.account.cpus import STOLEN, CpuShare, foreign, shares, taken
from pinchpoint.engine.histogram import merged
from pinchpoint.engine.sockets import SocketsResult, SocketsRun
from pinchpoint.measure.summary import by_name
from pinchpoint.model import units
from pinchpoint.model.groups import total
from pinchpoint.model.measurement import CARRIED, THREAD_BUSY, Bound, LevelChange, Measurement, Metric
from pinchpoint.model.result import Limit
from pinchpoint.model.trial import ThreadLoad, TrialValidity
from pinchpoint.model.warning import ResultWarning, Warn
from pinchpoint.stats.estimate import estimate

TOGETHER = 0.98  # of the window that all pairs must share, or their sum is of different loads
MOST_FAILED = 1e-5  # failed transactions (RFC 9411, section 7.1.3.3 and others: less than 0.001 %)

# observe/relay.py has these counters for each way.
_RELAY_DROPS: Mapping[str, str] = {
    "dropped": "taken too late by the port",
    "too_long": "too long for the port",
    "rx_missed": "its receive ring was full",
}
FEW_FLOWS = 64  # datapath flows: with fewer, a factor of a hundred and more items was not seen
MANY_ITEMS = 100
_OF_FLOWS = ("datapath flows", "datapath masks")
_BUSY = {"client busy": Limit.SENDER_CORE, "server busy": Limit.RECEIVER_CORE, "relay busy": Limit.RELAY_CORE}
LATENCIES = tuple(f"latency {name}" for name in ("mean", "max", "sd", "p50", "p90", "p99", "p99.9", "p99.99"))
NONE_VALID = "every window was disturbed by the host"


@dataclass(frozen=True)
class Thread:
    """One thread that moved the bytes."""

    name: str  # "client", "server 2", "main thread", "relay", or as the device calls it
    limit: Limit  # what it is called when it is what pinched
    cpu: int | None
    busy: float  # share of the window
    polls: bool = False  # its CPU is never idle, which says nothing
    host: str = ""  # the machine that it is on; empty: the switch's, whose CPUs are watched
    stolen: float = 0.0  # share of the window, from its CPU, as its engine saw it


@dataclass(frozen=True)
class Window:
    """A measurement of sockets, read again."""

    id: str
    results: tuple[SocketsResult, ...]
    threads: tuple[Thread, ...]
    cpus: Mapping[int, CpuShare]
    foreign: float | None  # CPUs' worth of time that processes outside the bench took; None: not known
    forwarding: tuple[ThreadLoad, ...]
    down: Mapping[str, float]  # relay's ports that had no link for a time: seconds
    relay_drops: Mapping[str, int] | None = None  # frames by way and cause; None: no relay, or none that tells

    @property
    def runs(self) -> tuple[SocketsRun, ...]:
        """The first run of each pair of client and server that has one."""
        return tuple(result.runs[0] for result in self.results if result.runs)

    @property
    def has_answers(self) -> bool:
        """Whether requests were answered; otherwise bytes went one way."""
        return any(run.transactions is not None for run in self.runs)

    @property
    def goodput_bps(self) -> float:
        """Payload bits per second of all pairs together."""
        return math.fsum(run.goodput_bps or 0.0 for run in self.runs)

    @property
    def transactions_per_s(self) -> float:
        """Transactions per second that succeeded, of all pairs together."""
        return math.fsum(run.transactions_per_s or 0.0 for run in self.runs)

    @property
    def change(self) -> LevelChange | None:
        """From the rate before to the rate after a change of level, of all pairs together; None if no pair saw one.

        Transactions per second, of streams bits per second. A pair without a change counts with its mean rate.
        """
        changes = [run.trend.change for run in self.runs if run.trend is not None and run.trend.change is not None]
        if not changes:
            return None
        before, after = (math.fsum(_level(run, side) for run in self.runs) for side in ("before_per_s", "after_per_s"))
        return LevelChange(min(change.at_s for change in changes), before, after)

    @property
    def failed_share(self) -> float:
        """Failed of all that ended; 0 if none ended."""
        failed = sum(run.failed or 0 for run in self.runs)
        ended = failed + sum(run.transactions or 0 for run in self.runs)
        return failed / ended if ended else 0.0

    @property
    def retransmits(self) -> int | None:
        """Segments that the clients' connections sent again; None if no kernel tells."""
        return total(connection.retransmits for run in self.runs for connection in run.connections)


def read(measurement: Measurement) -> Window:
    """The window that a measurement holds."""
    seen, account = measurement.observed, measurement.account
    results = tuple(msgspec.convert(_with_trends(account["pairs"]), list[SocketsResult]))
    elsewhere = msgspec.convert(account.get("elsewhere", {}), dict[str, str])  # machines of ends off the switch's
    moving = msgspec.convert(account.get("moving", ()), tuple[str, ...])  # ends whose threads have no CPU of their own
    traffic_s = msgspec.convert(account["traffic_s"], float)
    ticks_per_s = msgspec.convert(account["ticks_per_s"], float)
    as_share = 1 / (ticks_per_s * traffic_s) if traffic_s > 0 else 0.0
    cpus = shares(seen, as_share)
    # Those of the relay, by port or way and counter.
    relay = {tuple(key.split("/")[2:]): seen[key] for key in sorted(seen) if key.startswith("host/relay/")}
    lost = {words: int(count) for words, count in relay.items() if len(words) == 3 and words[2] in _RELAY_DROPS}
    return Window(
        id=measurement.id,
        results=results,
        threads=(*_ends(results, elsewhere, moving), *_switch(measurement), *_relays(relay, traffic_s, as_share)),
        cpus=cpus,
        foreign=foreign(seen, cpus, as_share),
        forwarding=measurement.threads,
        down={words[0]: ns / 1e9 for words, ns in relay.items() if words[-1] == "down_ns" and ns > 0},
        relay_drops={f"from {a} to {b} ({_RELAY_DROPS[kind]})": count for (a, b, kind), count in lost.items()} or None,
    )


def _with_trends(stored: object) -> list[dict[str, object]]:
    """The pairs' accounts; those stored before engines reported a trend have none."""
    pairs = msgspec.convert(stored, list[dict[str, object]])
    return [
        {**pair, "runs": [{"trend": None, **run} for run in msgspec.convert(pair["runs"], list[dict[str, object]])]}
        for pair in pairs
    ]


def _ends(results: Sequence[SocketsResult], elsewhere: Mapping[str, str], moving: Collection[str]) -> Iterator[Thread]:
    """Each end's thread: "client" or "server 2"."""
    for number, result in enumerate(results, start=1):
        which = f" {number}" if len(results) > 1 else ""
        for run in result.runs[:1]:
            for side, limit in (("client", Limit.SENDER_CORE), ("server", Limit.RECEIVER_CORE)):
                witness, place = getattr(run, side), getattr(result, side)
                used_s, stolen_s = witness.user_s + witness.system_s, witness.steal_s or 0.0
                busy, stolen = (s / run.duration_s if run.duration_s else 0.0 for s in (used_s, stolen_s))
                host = elsewhere.get(side, "")
                cpu = None if side in moving else place.core
                yield Thread(f"{side}{which}", limit, cpu, min(1.0, busy), host=host, stolen=stolen)


def _switch(measurement: Measurement) -> Iterator[Thread]:
    for load in measurement.threads:
        if load.busy_share is not None and load.received:
            cpu = measurement.observed.get("host/thread/main/cpu") if load.cpu is None else load.cpu
            place = None if cpu is None else int(cpu)
            yield Thread(load.name, Limit.FORWARDING_CORE, place, load.busy_share, polls=load.cpu is not None)


def _relays(relay: Mapping[tuple[str, ...], float], traffic_s: float, as_share: float) -> Iterator[Thread]:
    """By the time in which they moved frames: a relay asks for more also when none come, which is no load.

    That holds the time in which others had its core while it moved some: its own processor time bounds it.
    """
    for (name, *counter), busy_ns in relay.items():
        if counter == ["busy_ns"] and traffic_s > 0:
            cpu, own = relay.get((name, "cpu")), relay.get((name, "ticks"))
            busy = min(1.0, busy_ns / 1e9 / traffic_s, 1.0 if own is None else own * as_share)
            yield Thread(name, Limit.RELAY_CORE, None if cpu is None else int(cpu), busy, polls=True)


def together(results: Sequence[SocketsResult]) -> float | None:
    """The share of the longest window in which all pairs ran; None if there was no window."""
    spans = [(run.began_ns, run.began_ns + run.duration_s * 1e9) for result in results for run in result.runs]
    longest = max((end - begin for begin, end in spans), default=0.0)
    if not longest:
        return None
    shared = min(end for _, end in spans) - max(begin for begin, _ in spans)
    return max(0.0, shared) / longest


def judge(window: Window) -> tuple[TrialValidity, str]:
    """Whether the window may be judged as the bench's own doing and, unless it may, why not."""
    without_port = exhausted(window)
    if without_port:
        hint = next((result.hint for result in window.results if result.hint), "")
        return TrialValidity.GENERATOR_LIMITED, f"{without_port:,} transactions found no source port: {hint}"
    broken = [result for result in window.results if result.status != "completed" or not result.runs]
    if broken:
        # Where one was aborted, the others were stopped for its sake.
        return TrialValidity.ABORTED, _ended(min(broken, key=lambda result: result.status != "aborted"))
    noise = next(_noise(window))
    return (TrialValidity.NOISY_HOST, noise) if noise else (TrialValidity.VALID, "")


def _level(run: SocketsRun, side: Literal["before_per_s", "after_per_s"]) -> float:
    change = None if run.trend is None else run.trend.change
    if run.transactions is None:
        return run.goodput_bps or 0.0 if change is None else 8 * float(getattr(change, side))
    return run.transactions_per_s or 0.0 if change is None else float(getattr(change, side))


def exhausted(window: Window) -> int:
    """Transactions that found every pair of source address and port in use."""
    return sum(run.failures.address_unavailable for run in window.runs)


def failures(window: Window) -> str:
    """Why the rate is no rate that the bench carries, by RFC 9411's rule; empty if it is."""
    if window.failed_share < MOST_FAILED:
        return ""
    first = next((run.failures.first for run in window.runs if run.failures.first), "of no reported kind")
    failed = sum(run.failed or 0 for run in window.runs)
    share = units.loss(window.failed_share)
    return f"{failed:,} transactions failed ({share}; RFC 9411 allows less than 0.001 %), the first: {first}"


def relay_losses(window: Window) -> str:
    """What the relay lost, by way and cause; empty if nothing."""
    lost = {where: count for where, count in (window.relay_drops or {}).items() if count}
    if not lost:
        return ""
    parts = ", ".join(f"{count:,} {where}" for where, count in lost.items())
    return f"the relay lost {units.counted(sum(lost.values()), 'frame')} between host and switch: {parts}"


def _ended(result: SocketsResult) -> str:
    after = f" after {result.runs[0].duration_s:.2f} s" if result.runs else " before its window"
    if result.status == "stopped":
        return f"stopped{after}"
    return f"{result.reason or 'ended'}{after}" + (f"; {result.hint}" if result.hint else "")


def _noise(window: Window) -> Iterator[str]:
    """What the host did to the window."""
    if window.down:
        told = ", ".join(f"of {name} for {units.nanoseconds(seconds * 1e9)}" for name, seconds in window.down.items())
        yield f"the relay had no link at the port {told}"
    shared = together(window.results)
    if shared is not None and shared < TOGETHER:
        yield f"the {len(window.results)} pairs ran together for only {units.share(shared)} of the window"
    for thread in window.threads:
        if thread.host and thread.stolen > STOLEN:  # as its engine saw it: CPUs of the switch's machine are watched
            yield f"{units.share(thread.stolen)} of the window were stolen from CPU {thread.cpu} of {thread.host}"
    yield taken(window.cpus, window.foreign)


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

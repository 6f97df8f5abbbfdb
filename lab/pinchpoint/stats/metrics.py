"""A measure's findings as metrics: the figures that curves are drawn from.

What was not counted is absent, never zero. A figure that one packet thread alone has
is named without the thread, so that curves from different machines line up; where
several threads forward, each has its own figure too, named after it.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import median

from pinchpoint.model import units
from pinchpoint.model.measurement import Metric
from pinchpoint.model.result import LatencyPoint, PauseGap, Rate, RateStatus, ReceiveRate
from pinchpoint.model.scenario import Stream
from pinchpoint.model.study import Bound
from pinchpoint.model.terms import MRR, band_metrics
from pinchpoint.model.trial import LatencySummary, PmdLoad, Trial, TrialValidity

_HOW = {
    RateStatus.FOUND: "bounds of the search",
    RateStatus.AT_LEAST: "at least",
    RateStatus.BELOW_MINIMUM: "below the lowest load tried",
    RateStatus.LOSES_ALWAYS: "frames are lost at any load",
    RateStatus.REFUSED: "",  # the reason follows
}
BOUNDS: Mapping[RateStatus, Bound] = {
    RateStatus.FOUND: Bound.FOUND,
    RateStatus.AT_LEAST: Bound.AT_LEAST,
    RateStatus.BELOW_MINIMUM: Bound.BELOW,
    RateStatus.LOSES_ALWAYS: Bound.REFUSED,
    RateStatus.REFUSED: Bound.REFUSED,
}
Own = Callable[[Mapping[str, float]], Iterable[Metric]]
"""What a device's own counters say of one trial."""


def of_rates(
    rates: Sequence[Rate],
    latency: Sequence[LatencyPoint],
    limit: Trial | None,
    own: Own,
    streams: Sequence[Stream] = (),
) -> tuple[Metric, ...]:
    """Metrics of the measure `rates`; `limit` is the trial at the NDR, None without one, `streams` what it sent."""
    found = [*of_the_rates_alone(rates), *_in_bits(rates, streams)]
    found += [_p99("latency", point, point.latency) for point in latency if point.latency is not None]
    found += [_p99("round trip", point, point.round_trip) for point in latency if point.round_trip is not None]
    if limit is not None:
        found += of_trial(limit, own)
        found += _five_tuples(limit, streams)
        found += _order(limit, streams)
    return tuple(found)


def of_the_rates_alone(rates: Sequence[Rate]) -> tuple[Metric, ...]:
    """Each rate that has a lower end: the number to quote with its interval, then its band if one is known.

    Of a DUT that loses frames at any load, the share that it loses.
    """
    return (
        *(_rate(rate) for rate in rates if rate.lower_fps is not None),
        *(one for rate in rates for one in _of_band(rate)),
        *(
            Metric("loss at any load", "share", rate.floor.loss_ratio, rate.floor.lower, rate.floor.upper)
            for rate in rates[:1]
            if rate.floor is not None
        ),
    )


def of_load(at_fps: float, trials: Sequence[Trial]) -> tuple[Metric, ...]:
    """Metrics of the measure `load` at one rate: the medians over `trials`, all valid, with their extremes."""
    every = [(*_of_threads(trial.pmds), Metric("loss", "share", trial.loss_ratio)) for trial in trials]
    if not every:
        return ()
    at = f"at {units.fps(at_fps)}"
    values: dict[tuple[str, str], list[float]] = {}
    for metrics in every:
        for one in metrics:
            values.setdefault((one.name, one.unit), []).append(one.value)
    return tuple(
        Metric(f"{name} {at}", unit, median(found), min(found), max(found), _extremes(len(found)))
        for (name, unit), found in values.items()
    )


def of_trial(trial: Trial, own: Own) -> tuple[Metric, ...]:
    """What the DUT did with the frames of one trial: cycles, lookups, and what its own counters say."""
    return (*_of_threads(trial.pmds), *own(trial.observed))


def _rate(rate: Rate) -> Metric:
    assert rate.lower_fps is not None
    sure = rate.confidence if rate.status is RateStatus.FOUND else None
    how = f"{units.percent(sure)} interval of its search" if sure else _HOW[rate.status]
    value_fps, note = rate.quoted_fps or rate.lower_fps, ": ".join(filter(None, (how, rate.reason)))
    return Metric(rate.name, "fps", value_fps, rate.lower_fps, rate.upper_fps, note, BOUNDS[rate.status])


def of_overload(mrr: ReceiveRate | None, gap: PauseGap | None) -> tuple[Metric, ...]:
    """The MRR with its interval, and the pause that keeps the NDR below it."""
    found: list[Metric] = []
    if mrr is not None:
        note = f"at {units.fps(mrr.load_fps)} offered; {units.percent(mrr.confidence)} by ranks, {mrr.trials} trials"
        found.append(Metric(MRR, "fps", mrr.estimate_fps, mrr.lower_fps, mrr.upper_fps, note, bound=Bound.FOUND))
    if gap is not None:
        ring = f"ring of {units.frames(gap.ring)} frames at the NDR"
        found.append(Metric("longest pause borne", "s", gap.pause_s, note=ring))
    return tuple(found)


def _in_bits(rates: Sequence[Rate], streams: Sequence[Stream]) -> Iterator[Metric]:
    """The NDR as balancers' is quoted: in bits of frames with their check sequence; of one frame size."""
    sizes = {one.frame_bytes for one in streams if one.segment}
    for rate in rates[:1]:
        if len(sizes) == 1 and rate.lower_fps is not None:
            ndr, bits = _rate(rate), 8 * sizes.pop()
            low, high = (None if end is None else bits * end for end in (ndr.low, ndr.high))
            yield replace(ndr, name=f"{ndr.name} throughput", unit="bit/s", value=bits * ndr.value, low=low, high=high)


def _p99(of: str, point: LatencyPoint, found: LatencySummary) -> Metric:
    return Metric(
        f"{of} p99 at {point.share:.0%} of NDR",
        "ns",
        found.p99_ns,
        cautions=(point.note,) if point.note else (),
        disturbed=point.validity is not TrialValidity.VALID,
    )


def _of_band(rate: Rate) -> Iterator[Metric]:
    if rate.band is not None:
        for name, fps in zip(band_metrics(rate.name), (rate.band.low_fps, rate.band.high_fps), strict=True):
            yield Metric(name, "fps", fps)


def _five_tuples(limit: Trial, streams: Sequence[Stream]) -> Iterator[Metric]:
    """How many five-tuples the trial's frames really had: a short trial ends within a long cycle."""
    if len(limit.streams) != len(streams) or not streams:
        return
    sent = sum(min(stream.flows, counts.sent) for stream, counts in zip(streams, limit.streams, strict=True))
    asked = sum(stream.flows for stream in streams)
    cut = () if sent == asked else (f"the trial ended before all {asked:,} had been sent",)
    yield Metric("five-tuples sent", "count", sent, cautions=cut)


def _order(limit: Trial, streams: Sequence[Stream]) -> Iterator[Metric]:
    """Which share of the frames on connections came after a later one of their own connection."""
    counts = [(one.reordered_in_flow, one.received) for one in limit.streams]
    known = [(late, received) for late, received in counts if late is not None and received]
    if known and len(known) == len(counts) and all(one.segment for one in streams):
        late, received = map(sum, zip(*known, strict=True))
        yield Metric("reordered in connections", "share", late / received)


def _of_threads(pmds: Sequence[PmdLoad]) -> Iterator[Metric]:
    """Of the threads that received frames: all together, then each by its name if there are several."""
    forwarding = [pmd for pmd in pmds if pmd.received > 0]
    if not forwarding:
        return
    yield from _load(forwarding, "")
    yield from _lookups(forwarding)
    if len(forwarding) > 1:
        for pmd in forwarding:
            yield from _load([pmd], f"{pmd.name}: ")


def _load(pmds: Sequence[PmdLoad], prefix: str) -> Iterator[Metric]:
    cycles = [pmd.cycles_per_packet for pmd in pmds if pmd.cycles_per_packet is not None]
    if len(cycles) == len(pmds):
        spent = math.fsum(each * pmd.received for each, pmd in zip(cycles, pmds, strict=True))
        yield Metric(f"{prefix}cycles per packet", "cycles", spent / sum(pmd.received for pmd in pmds))
    busy = [(pmd.busy_share, pmd.name) for pmd in pmds if pmd.busy_share is not None]
    if busy:
        share, name = max(busy)
        note = name if len(pmds) == 1 else f"{name}, the busiest of {len(pmds)}"
        yield Metric(f"{prefix}PMD busy", "share", share, note=note)


def _lookups(pmds: Sequence[PmdLoad]) -> Iterator[Metric]:
    """Where lookups were answered, as shares of all lookups; a recirculated frame is looked up again."""
    answered = {
        "simple match": _sum(pmd.simple_match_hits for pmd in pmds),
        "EMC": _sum(pmd.emc_hits for pmd in pmds),
        "SMC": _sum(pmd.smc_hits for pmd in pmds),
        "megaflow": _sum(pmd.megaflow_hits for pmd in pmds),
        "upcall": _sum(None if pmd.upcalls is None else pmd.upcalls + (pmd.lost_upcalls or 0) for pmd in pmds),
    }
    total = sum(count for count in answered.values() if count is not None)
    if total:
        for name, count in answered.items():
            if count is not None:
                yield Metric(f"{name} share", "share", count / total)
    received, recirculated = sum(pmd.received for pmd in pmds), _sum(pmd.recirculated for pmd in pmds)
    if recirculated is not None:
        yield Metric("passes per packet", "count", (received + recirculated) / received)


def _sum(counts: Iterable[int | None]) -> int | None:
    """Of those counted; None if none was."""
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def _extremes(count: int) -> str:
    return f"median, lowest and highest of {count} trials" if count > 1 else "one trial"

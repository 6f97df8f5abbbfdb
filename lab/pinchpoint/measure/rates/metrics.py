"""What is told of a search: its rates, their latency, and what the device did with a trial at the NDR."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from pinchpoint.dut.device import Device
from pinchpoint.measure.forwarding import of_trial
from pinchpoint.model import units
from pinchpoint.model.measurement import Metric
from pinchpoint.model.result import BOUNDS, LatencyPoint, PauseGap, Rate, RateStatus, ReceiveRate
from pinchpoint.model.scenario import Stream
from pinchpoint.model.study import Bound
from pinchpoint.model.terms import MRR, band_metrics
from pinchpoint.model.trial import LatencySummary, Trial, TrialValidity

_HOW: Final[Mapping[RateStatus, str]] = {
    RateStatus.FOUND: "bounds of the search",
    RateStatus.AT_LEAST: "at least",
    RateStatus.BELOW_MINIMUM: "below the lowest load tried",
    RateStatus.LOSES_ALWAYS: "frames are lost at any load",
    RateStatus.REFUSED: "",  # the reason follows
}


def of_rates(
    rates: Sequence[Rate],
    latency: Sequence[LatencyPoint],
    limit: Trial | None,
    device: Device,
    streams: Sequence[Stream] = (),
) -> tuple[Metric, ...]:
    """Metrics of the measure `rates`; `limit` is the trial at the NDR, None without one, `streams` what it sent."""
    figures = [*of_the_rates_alone(rates), *_in_bits(rates, streams)]
    figures += [_p99("latency", point, point.latency) for point in latency if point.latency is not None]
    figures += [_p99("round trip", point, point.round_trip) for point in latency if point.round_trip is not None]
    if limit is not None:
        figures += of_trial(limit, device)
        figures += _five_tuples(limit, streams)
        figures += _order(limit, streams)
    return tuple(figures)


def of_the_rates_alone(rates: Sequence[Rate]) -> Iterator[Metric]:
    """Each rate that has a lower end: the number to quote with its interval, then its band if one is known.

    Of a DUT that loses frames at any load, the share that it loses.
    """
    yield from (_rate(rate) for rate in rates if rate.lower_fps is not None)
    for rate in rates:
        if rate.band is not None:
            for name, fps in zip(band_metrics(rate.name), (rate.band.low_fps, rate.band.high_fps), strict=True):
                yield Metric(name, "fps", fps)
    if rates and (floor := rates[0].floor) is not None:
        yield Metric("loss at any load", "share", floor.loss_ratio, floor.lower, floor.upper)


def _rate(rate: Rate) -> Metric:
    assert rate.lower_fps is not None
    sure = rate.confidence if rate.status is RateStatus.FOUND else None
    how = f"{units.percent(sure)} interval of its search" if sure else _HOW[rate.status]
    value_fps, note = rate.quoted_fps or rate.lower_fps, ": ".join(filter(None, (how, rate.reason)))
    return Metric(rate.name, "fps", value_fps, rate.lower_fps, rate.upper_fps, note, BOUNDS[rate.status])


def of_overload(mrr: ReceiveRate | None, gap: PauseGap | None) -> Iterator[Metric]:
    """The MRR with its interval, and the pause that keeps the NDR below it."""
    if mrr is not None:
        note = f"at {units.fps(mrr.load_fps)} offered; {units.percent(mrr.confidence)} by ranks, {mrr.trials} trials"
        yield Metric(MRR, "fps", mrr.estimate_fps, mrr.lower_fps, mrr.upper_fps, note, bound=Bound.FOUND)
    if gap is not None:
        note = f"ring of {units.frames(gap.ring)} frames at the NDR"
        yield Metric("longest pause borne", "s", gap.pause_s, note=note)


def _in_bits(rates: Sequence[Rate], streams: Sequence[Stream]) -> Iterator[Metric]:
    """The NDR as balancers' is quoted: in bits of frames with their check sequence; of one frame size."""
    sizes = {stream.frame_bytes for stream in streams if stream.segment}
    for rate in rates[:1]:
        if len(sizes) == 1 and rate.lower_fps is not None:
            ndr, bits = _rate(rate), 8 * sizes.pop()
            low, high = (None if end is None else bits * end for end in (ndr.low, ndr.high))
            yield replace(ndr, name=f"{ndr.name} throughput", unit="bit/s", value=bits * ndr.value, low=low, high=high)


def _p99(of: str, point: LatencyPoint, summary: LatencySummary) -> Metric:
    name, cautions = f"{of} p99 at {point.share:.0%} of NDR", (point.note,) if point.note else ()
    disturbed = point.validity is not TrialValidity.VALID
    return Metric(name, "ns", summary.p99_ns, cautions=cautions, disturbed=disturbed)


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
    counts = [(stream.reordered_in_flow, stream.received) for stream in limit.streams]
    known = [(late, received) for late, received in counts if late is not None and received]
    if known and len(known) == len(counts) and all(stream.segment for stream in streams):
        late, received = map(sum, zip(*known, strict=True))
        yield Metric("reordered in connections", "share", late / received)

"""A measure's findings as metrics: the figures that curves are drawn from."""

from collections.abc import Iterator, Sequence

from pinchpoint.model.measurement import Metric
from pinchpoint.model.result import LatencyPoint, Rate, RateStatus
from pinchpoint.model.trial import PmdLoad, Trial

_HOW = {
    RateStatus.FOUND: "bounds of the search",
    RateStatus.AT_LEAST: "at least",
    RateStatus.BELOW_MINIMUM: "below the lowest load tried",
    RateStatus.REFUSED: "refused",
}


def of_rates(rates: Sequence[Rate], latency: Sequence[LatencyPoint], limit: Trial | None) -> tuple[Metric, ...]:
    """Metrics of the measure `rates`; `limit` is the trial at the NDR."""
    found = [_rate(rate) for rate in rates if rate.lower_fps is not None]
    found += [
        Metric(f"latency p99 at {point.share:.0%} of NDR", "ns", point.latency.p99_ns, note=point.note)
        for point in latency
        if point.latency is not None
    ]
    if limit is not None:
        for pmd in limit.pmds:
            found += _pmd(pmd)
    return tuple(found)


def _rate(rate: Rate) -> Metric:
    assert rate.lower_fps is not None
    note = _HOW[rate.status] + (f": {rate.reason}" if rate.reason else "")
    return Metric(rate.name, "fps", rate.lower_fps, rate.lower_fps, rate.upper_fps, note)


def _pmd(pmd: PmdLoad) -> Iterator[Metric]:
    if pmd.cycles_per_packet is not None:
        yield Metric(f"{pmd.name}: cycles per packet", "cycles", pmd.cycles_per_packet)
    if pmd.busy_share is not None:
        yield Metric(f"{pmd.name}: busy", "share", pmd.busy_share)

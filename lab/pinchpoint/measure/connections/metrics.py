"""Rates of connections as metrics, and what ended them. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pinchpoint.account.exhausted import Exhausted
from pinchpoint.measure.connections.sustained import Confirmation, Prediction
from pinchpoint.measure.served import LIMITS
from pinchpoint.model import units
from pinchpoint.model.limits import Limit as Bounds
from pinchpoint.model.measurement import Metric
from pinchpoint.model.result import BOUNDS, Limit, Rate, RateStatus, Verdict
from pinchpoint.model.study import Bound

BURST, SUSTAINED, DOUBLED = "burst rate", "sustained rate", "sustained rate, doubled"


@dataclass(frozen=True)
class Sustained:
    """What is known of the sustained rate."""

    cps: float | None  # None: nothing bounds it that is known
    low_cps: float | None
    words: str
    prediction: Prediction | None
    exhausted: Exhausted | None = None  # None: by the prediction alone
    confirmation: Confirmation | None = None
    is_burst: bool = False  # the limits bear more than a burst reaches
    doubled_cps: float | None = None
    doubling: str = ""


def ratio_name(ratio: float) -> str:
    """The burst rate's metric at a failure ratio."""
    return BURST if ratio == 0 else f"{BURST}, {units.loss(ratio)} may fail"


def metrics(rates: Sequence[Rate], sustained: Sustained) -> Iterator[Metric]:
    """The burst rates, then the sustained one."""
    for rate in rates:
        if (value := rate.quoted_fps) is not None:
            how = "95 % interval" if rate.status is RateStatus.FOUND else status_words(rate)
            begun = f"half of the {rate.trial_duration_s:g} s trials, each begun with an empty table, fail more"
            ends, bound = (rate.lower_fps, rate.upper_fps), BOUNDS[rate.status]
            yield Metric(ratio_name(rate.loss_ratio), "1/s", value, *ends, f"{how}; {begun}", bound)
    yield from _sustained(sustained)


def status_words(rate: Rate) -> str:
    """What a rate is that was not found."""
    if rate.status is RateStatus.AT_LEAST and rate.limited_by is Limit.GENERATOR:
        return f"at least: the generator opens no more than {units.per_second(rate.quoted_fps)} on this bench"
    if rate.status is RateStatus.AT_LEAST:
        return "at least: connections.max_cps reached"
    if rate.status is RateStatus.BELOW_MINIMUM:
        return "below connections.min_cps, at which most trials failed"
    if rate.status is RateStatus.LOSES_ALWAYS and rate.floor is not None:
        lost = units.percent(rate.floor.loss_ratio)
        return f"{lost} of the connections fail at any rate down to {units.per_second(rate.floor.load_fps)}"
    return "no trial had a usable account"


def _sustained(sustained: Sustained) -> Iterator[Metric]:
    if sustained.prediction is not None:
        limit = sustained.prediction.limit
        note = f"{limit.resource}: {sustained.prediction.places:,} places held for {sustained.prediction.held_s:g} s"
        yield Metric("predicted sustained rate", "1/s", sustained.prediction.cps, note=f"{note}; {limit.source}")
    if sustained.cps is not None:
        is_open = sustained.confirmation is not None and sustained.confirmation.is_open
        low_cps, bound = (sustained.cps, Bound.AT_LEAST) if is_open else (sustained.low_cps, None)
        yield Metric(SUSTAINED, "1/s", sustained.cps, low_cps, None, sustained.words, bound)
    if sustained.doubled_cps is not None:
        yield Metric(DOUBLED, "1/s", sustained.doubled_cps, note=sustained.doubling)


def verdict(
    rate: Rate, burst: Exhausted | None, sustained: Sustained, bounds: Sequence[Bounds], ids: Sequence[str]
) -> Verdict:
    """What ended the burst rate and what ends the sustained one; `burst` None: no trial failed."""
    lines = [f"burst: {line}" for line in burst.evidence] if burst else []
    lines.append(f"sustained: {sustained.words}")
    lines += [f"sustained: {line}" for line in sustained.exhausted.evidence] if sustained.exhausted else []
    lines += [sustained.doubling] if sustained.doubling else []
    for bound in bounds:
        bears = f", which bears {units.per_second(bound.sustained_cps)}" if bound.sustained_cps else ""
        lines.append(f"limit as read back: {bound.resource}: {bound.source}{bears}")
    limit, words = _of_burst(rate, burst)
    return Verdict(limit, f"burst: {words}; sustained: {_of_sustained(sustained)}", tuple(lines), (), tuple(ids))


def _of_burst(rate: Rate, burst: Exhausted | None) -> tuple[Limit, str]:
    if rate.status in (RateStatus.AT_LEAST, RateStatus.REFUSED) and rate.limited_by is not None:
        return rate.limited_by, status_words(rate)
    if burst is None or burst.resource is None:
        return Limit.UNEXPLAINED, "unexplained"
    return LIMITS[burst.resource], str(burst.resource)


def _of_sustained(sustained: Sustained) -> str:
    if sustained.cps is None:
        return f"not known, {sustained.words}"
    if sustained.is_burst:
        return "what ends the burst"
    resource = sustained.exhausted.resource if sustained.exhausted else None
    if resource is None and sustained.prediction is not None:
        resource = sustained.prediction.limit.resource
    if sustained.confirmation is None:
        return f"{resource}, predicted"
    return f"{resource}, {'confirmed' if sustained.confirmation.agrees else 'not as predicted'}"

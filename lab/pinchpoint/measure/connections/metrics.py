"""Rates of connections as metrics, what ended them, and the rate that holds for ever. Pure.

The limits predict the latter as far as places go, traffic confirms it; it is never more than what is completed.

A limit of S places, each held for h seconds beyond a connection's own life, bears S / h connections a second (Little
1961). An overload of it, begun with an empty table, fills all places, and again each time that they become free: over
whole times h it is carried at S / h. A load below S / h that lasts longer than h fails nothing.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pinchpoint.causes.catalogue import UNEXPLAINED
from pinchpoint.causes.signature import Candidate
from pinchpoint.causes.signs import Diagnosed, what_to_do
from pinchpoint.measure.connections.failing import LAPSES, Stage
from pinchpoint.measure.connections.steady import ALL, CompletedRate
from pinchpoint.model import units
from pinchpoint.model.limits import Limit as Bounds
from pinchpoint.model.measurement import Bound, Metric
from pinchpoint.model.result import Limit, Rate, RateStatus, Verdict

BURST, SUSTAINED, DOUBLED = "burst rate", "sustained rate", "sustained rate, doubled"
COMPLETED, ABOVE, ALWAYS = "completed rate", "burst", "fails at any rate"
NEXT = 'measure = "verify" says what becomes of each connection'
OVERLOAD = 1.5  # times what the limit bears
BORNE = 0.9  # of it: a load that must not fail
OVERLOADED_TIMES, BORNE_TIMES = 3, 2.5  # of the time that a place is held
AGREES = 0.15  # relative: a prediction within it came true
LOWEST_CPS = 1.2  # the engine opens whole connections a second
LONG_ENOUGH_S = 0.2  # of a time that traffic can be compared with


@dataclass(frozen=True)
class Prediction:
    """What the scarcest of the limits bears."""

    limit: Bounds
    places: int
    held_s: float  # for which a connection occupies a place, its life included
    cps: float


@dataclass(frozen=True)
class Plan:
    """Two loads that tell whether a prediction is right."""

    overload_cps: float
    overload_s: float
    borne_cps: float
    borne_s: float


def predicted(limits: Sequence[Bounds], life_s: float) -> Prediction | None:
    """The least that a limit bears; `life_s` is how long a connection is open. None: no limit says it."""
    places = ((limit, limit.size or 0, limit.held_s + life_s) for limit in limits if limit.held_s is not None)
    known = [Prediction(limit, size, held_s, size / held_s) for limit, size, held_s in places if size and held_s > 0]
    return min(known, key=lambda prediction: prediction.cps, default=None)


def plan(prediction: Prediction) -> Plan:
    """The loads for it."""
    cps, held_s = prediction.cps, prediction.held_s
    return Plan(OVERLOAD * cps, OVERLOADED_TIMES * held_s, BORNE * cps, BORNE_TIMES * held_s)


def why_not(prediction: Prediction, burst_cps: float | None, within_s: float) -> str:
    """Why a prediction is not tried; empty where it can be."""
    wanted = plan(prediction)
    lasting_s = wanted.overload_s + wanted.borne_s
    if prediction.cps < LOWEST_CPS:
        return f"{units.per_second(prediction.cps)} is less than the engine's lowest rate, 1 /s"
    if prediction.held_s < LONG_ENOUGH_S:
        return f"places are held for {units.seconds(prediction.held_s)}, too short to tell from a connection's life"
    if lasting_s > within_s:
        return (
            f"it would take {lasting_s:,.0f} s, and connections.sustain_within_s is {within_s:g}; where the "
            "kind has service.closed_s, a smaller one makes it shorter"
        )
    if burst_cps is not None and burst_cps < wanted.borne_cps:
        return f"no burst reaches {units.per_second(wanted.borne_cps)}"
    return ""


@dataclass(frozen=True)
class Confirmation:
    """What the two loads came to."""

    borne_cps: float | None  # the lower load; None: connections failed
    agrees: bool
    words: str
    is_open: bool  # the overload was none: all of it was carried


def confirmed(
    prediction: Prediction, carried_cps: float, most_cps: float, failed: int, opened: int, ratio: float
) -> Confirmation:
    """The overload was carried at `carried_cps`; of `opened` connections of the lower load `failed` failed.

    `most_cps`: the completed rate, above which none is sustained.
    """
    wanted = plan(prediction)
    is_borne = failed <= ratio * opened
    agrees = abs(carried_cps / prediction.cps - 1) <= AGREES and failed <= LAPSES * opened
    borne = f"{units.per_second(wanted.borne_cps)} " + (
        f"for {wanted.borne_s:g} s failed nothing" if not failed else f"failed {failed:,} of {opened:,}"
    )
    said = "confirmed" if agrees else "the prediction failed"
    words = (
        f"{said}: {prediction.places:,} places held for {prediction.held_s:g} s make "
        f"{units.per_second(prediction.cps)}; of {units.per_second(wanted.overload_cps)} for {wanted.overload_s:g} s "
        f"{units.per_second(carried_cps)} were carried, and {borne}"
    )
    if most_cps < carried_cps:
        words += f"; {units.per_second(most_cps)} are completed"
    is_open = ALL * wanted.overload_cps <= carried_cps <= most_cps
    if is_open:
        words = f"at least: {words}"
    return Confirmation(wanted.borne_cps if is_borne else None, agrees, words, is_open)


def doubled(before_cps: float, after_cps: float, what: str) -> str:
    """Whether a doubled resource doubled the rate, in words."""
    ratio = after_cps / before_cps if before_cps else 0.0
    confirmed = "confirmed" if abs(ratio / 2 - 1) <= AGREES else "not confirmed"
    return f"{confirmed} by doubling: {what}: {units.times(ratio)} the rate where 2 x was predicted"


@dataclass(frozen=True)
class Sustained:
    """What is known of the sustained rate."""

    cps: float | None  # None: nothing bounds it that is known
    low_cps: float | None
    words: str
    prediction: Prediction | None
    exhausted: Sequence[Candidate] = ()  # empty: by the prediction alone
    confirmation: Confirmation | None = None
    is_burst: bool = False  # the limits bear more than a burst reaches
    is_completed: bool = False  # the limits bear more than is completed
    is_open: bool = False  # "at least"
    doubled_cps: float | None = None
    doubling: str = ""


def unlimited(prediction: Prediction, burst_cps: float, steady: CompletedRate | None) -> Sustained:
    """Of limits that sustain more than what is completed; where that is not known, than a burst."""
    carries = f"{prediction.limit.resource} sustain {units.per_second(prediction.cps)}"
    if steady is None:
        words = f"at most the burst rate: {carries}, more than a burst reaches"
        return Sustained(burst_cps, None, words, prediction, is_burst=True)
    words = f"the completed rate: {carries}, more than is completed"
    cps, is_open = steady.completed_cps, steady.is_carried
    return Sustained(cps, None, words, prediction, steady.ended, is_completed=True, is_open=is_open)


def unpredicted(limits: Sequence[Bounds], steady: CompletedRate | None) -> Sustained:
    """Where no limit says for how long it keeps the place of a connection that has closed, or all keep none."""
    if steady is None or any(limit.held_s != 0 for limit in limits if limit.size):
        return Sustained(None, None, "no limit says how long a closed connection occupies a place", None)
    words = "the completed rate: no place is kept for a connection that has closed"
    cps, is_open = steady.completed_cps, steady.is_carried
    return Sustained(cps, None, words, None, steady.ended, is_completed=True, is_open=is_open)


def ratio_name(ratio: float) -> str:
    """The burst rate's metric at a failure ratio."""
    return BURST if ratio == 0 else f"{BURST}, {units.loss(ratio)} may fail"


def metrics(
    rates: Sequence[Rate], steady: CompletedRate | None, sustained: Sustained, stage: Stage | None
) -> Iterator[Metric]:
    """What fails at any rate, the burst rates, the completed rate with the burst above it, the sustained one."""
    first = rates[0]
    if first.status is RateStatus.LOSES_ALWAYS and (floor := first.floor) is not None:
        where = f"{stage.words}; " if stage else ""
        note = f"{where}at loads from {units.per_second(floor.load_fps)} on; {NEXT}"
        yield Metric(ALWAYS, "share", floor.loss_ratio, floor.lower, floor.upper, note)
    for rate in rates:
        if (value := rate.quoted_fps) is not None:
            how = "95 % interval" if rate.status is RateStatus.FOUND else status_words(rate)
            begun = f"half of the {rate.trial_duration_s:g} s trials, each begun with an empty table, fail more"
            ends = rate.lower_fps, rate.upper_fps
            yield Metric(ratio_name(rate.loss_ratio), "1/s", value, *ends, f"{how}; {begun}", rate.bound)
    if steady is not None:
        yield _completed(steady)
    yield from _above(first, steady, sustained)
    yield from _sustained(sustained)


def _completed(steady: CompletedRate) -> Metric:
    """With the share of the busiest worker."""
    window = f"of {units.per_second(steady.offered_cps)} offered, over {units.seconds(steady.window_s)}"
    ended = steady.ended[0].words if steady.ended else _carried(steady)
    note = "; ".join(filter(None, (window, steady.worker, ended)))
    if steady.is_carried:
        return Metric(COMPLETED, "1/s", steady.completed_cps, steady.completed_cps, None, note, Bound.AT_LEAST)
    return Metric(COMPLETED, "1/s", steady.completed_cps, note=note)


def _carried(steady: CompletedRate) -> str:
    if not steady.failed:
        return "all was completed"
    share = units.share(min(1.0, steady.completed_cps / steady.offered_cps))
    return f"{share} of it was completed; {units.counted(steady.failed, 'connection')} of the load failed"


def _above(rate: Rate, steady: CompletedRate | None, sustained: Sustained) -> Iterator[Metric]:
    """Connections that a trial at the burst rate completes above what lasts."""
    lasting_cps = steady.completed_cps if steady else None if sustained.is_burst else sustained.cps
    if rate.status is not RateStatus.FOUND or rate.quoted_fps is None or lasting_cps is None:
        return
    if steady.is_carried if steady else _is_open(sustained):
        return
    count = max(0.0, rate.quoted_fps - lasting_cps) * rate.trial_duration_s
    what = "completed" if steady else "sustained"
    note = f"connections above {units.per_second(lasting_cps)} {what}, in {rate.trial_duration_s:g} s at the burst rate"
    yield Metric(ABOVE, "count", float(round(count)), note=note)


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


def _is_open(sustained: Sustained) -> bool:
    """Whether its rate is "at least"."""
    return sustained.is_open or (sustained.confirmation is not None and sustained.confirmation.is_open)


def _sustained(sustained: Sustained) -> Iterator[Metric]:
    if sustained.prediction is not None:
        limit = sustained.prediction.limit
        note = f"{limit.resource}: {sustained.prediction.places:,} places held for {sustained.prediction.held_s:g} s"
        yield Metric("predicted sustained rate", "1/s", sustained.prediction.cps, note=f"{note}; {limit.source}")
    if sustained.cps is not None:
        low_cps, bound = (sustained.cps, Bound.AT_LEAST) if _is_open(sustained) else (sustained.low_cps, None)
        yield Metric(SUSTAINED, "1/s", sustained.cps, low_cps, None, sustained.words, bound)
    if sustained.doubled_cps is not None:
        yield Metric(DOUBLED, "1/s", sustained.doubled_cps, note=sustained.doubling)


@dataclass(frozen=True)
class Ended:
    """What ended loads of the search."""

    burst: Sequence[Candidate]  # empty: none failed
    ids: Sequence[str]  # of the trials that say so
    stage: Stage | None  # where connections failed


def verdict(
    rate: Rate,
    ended: Ended,
    steady: CompletedRate | None,
    sustained: Sustained,
    bounds: Sequence[Bounds],
    device: Diagnosed | None = None,
) -> Verdict:
    """What ended the burst rate and the completed one, and what ends the sustained one; `device` says what mends it."""
    lines = [f"burst: {candidate.words}" for candidate in ended.burst]
    lines += [ended.stage.words] if ended.stage and rate.status is RateStatus.LOSES_ALWAYS else []
    lines += [f"completed: {candidate.words}" for candidate in (steady.ended if steady else ())]
    lines.append(f"sustained: {sustained.words}")
    lines += [f"sustained: {candidate.words}" for candidate in sustained.exhausted]
    lines += [sustained.doubling] if sustained.doubling else []
    for bound in bounds:
        carries = f", which sustains {units.per_second(bound.sustained_cps)}" if bound.sustained_cps else ""
        lines.append(f"limit as read back: {bound.resource}: {bound.source}{carries}")
    decisive = [ended.burst, steady.ended if steady else (), sustained.exhausted]
    causes = dict.fromkeys(candidates[0].cause for candidates in decisive if candidates)
    lines += [line for cause in causes for line in what_to_do(cause, device)]
    limit, words = _of_burst(rate, ended.burst)
    if rate.status is RateStatus.LOSES_ALWAYS:
        where = f", at the {ended.stage.name}" if ended.stage else ""
        headline = f"{status_words(rate)}{where}: {words}"
    else:
        completed = f"completed: {_of_completed(steady)}; " if steady else ""
        headline = f"burst: {words}; {completed}sustained: {_of_sustained(sustained)}"
    return Verdict(limit, headline, tuple(lines), (), tuple(ended.ids))


def _of_completed(steady: CompletedRate) -> str:
    return str(steady.ended[0].cause.resource or "unexplained") if steady.ended else "at least what was offered"


def _of_burst(rate: Rate, burst: Sequence[Candidate]) -> tuple[Limit, str]:
    if rate.status in (RateStatus.AT_LEAST, RateStatus.REFUSED) and rate.limited_by is not None:
        return rate.limited_by, status_words(rate)
    cause = burst[0].cause if burst else UNEXPLAINED
    return cause.limit, str(cause.resource or "unexplained")


def _of_sustained(sustained: Sustained) -> str:
    if sustained.cps is None:
        return f"not known, {sustained.words}"
    if sustained.is_burst or sustained.is_completed:
        return f"what ends the {'burst' if sustained.is_burst else 'completed rate'}"
    resource = sustained.exhausted[0].cause.resource if sustained.exhausted else None
    if resource is None and sustained.prediction is not None:
        resource = sustained.prediction.limit.resource
    if sustained.confirmation is None:
        return f"{resource}, predicted"
    return f"{resource}, {'confirmed' if sustained.confirmation.agrees else 'not as predicted'}"

"""What a search of a simulated device is held to: one search against the truth, many of one kind, all together."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from random import Random
from statistics import fmean, median

import numpy as np
from search_duts import DUTS, RATIOS, Dut
from search_truth import Array

from pinchpoint.model.result import Rate, RateStatus

MISCOVERED = 0.05  # of the intervals, as they say
TRIALS = 80  # of the perfect observer: as many as the traffic allows
NEW_TRIALS = 40  # on either side of each published rate
BESIDE = 0.03  # relative: how near those are
UNDECIDED = (0.44, 0.56)  # shares of losing trials that are as good as one half where they spread over UNDECIDED_WIDE
UNDECIDED_WIDE = 0.02  # of load, relative
BIASED = 0.2  # relative: a larger error counts as this in the bias
DEVIATIONS = 2.0  # of the sampling error: a difference that this many seeds cannot resolve is not missed
MEDIAN, P90, BIAS = 0.02, 0.06, 0.01  # aims: errors of each kind, and the bias over all
COVERED, COVERED_KIND = 0.9, 0.8
WIDTH_STILL, WIDTH_MOVING = 0.02, 0.10
TRAFFIC_S, QUIET_S = 16.2, 6.0  # a trial may end beyond its budget


@dataclass(frozen=True)
class Verdict:
    """One rate of one search, compared with the truth; relative to it."""

    is_number: bool
    error: float | None = None
    is_decided: bool = True  # False: so many loads are as good as one half that an error says nothing
    is_half: bool = False  # about half of the trials lose at what is published
    is_covered: bool | None = None
    width: float | None = None
    score: float | None = None  # interval score (Gneiting and Raftery 2007)
    perfect: float | None = None  # error of the observer who learns the thresholds of as many trials
    below: int = 0  # of NEW_TRIALS just below the rate, that lose
    above: int = 0


def verdict(dut: Dut, rate: Rate, thresholds: Array, seed: int) -> Verdict:
    """Of a rate, against the thresholds of all trials that might have been begun, sorted."""
    quoted = rate.quoted_fps
    if dut.is_limited:
        return Verdict(rate.status is RateStatus.AT_LEAST)
    if rate.status is not RateStatus.FOUND or quoted is None:
        return Verdict(False)
    if dut.sustained_fps is not None:
        thresholds = np.array([dut.sustained_fps])
    random = Random(f"new/{seed}")
    truth = float(np.median(thresholds))
    low, high = (float(fps) for fps in np.quantile(thresholds, UNDECIDED))
    lower, upper = rate.lower_fps or 0.0, rate.upper_fps or 2 * truth
    missed = max(0.0, lower - truth) + max(0.0, truth - upper)
    losing = float((thresholds < quoted).mean())
    told = [float(random.choice(thresholds)) for _ in range(TRIALS)]
    below = [random.uniform(1 - BESIDE, 1.0) * quoted > float(random.choice(thresholds)) for _ in range(NEW_TRIALS)]
    above = [random.uniform(1.0, 1 + BESIDE) * quoted > float(random.choice(thresholds)) for _ in range(NEW_TRIALS)]
    return Verdict(
        is_number=True,
        error=quoted / truth - 1,
        is_decided=high - low <= UNDECIDED_WIDE * truth,
        is_half=UNDECIDED[0] <= losing <= UNDECIDED[1],
        is_covered=lower <= truth <= upper,
        width=(upper - lower) / truth,
        score=(upper - lower + 2 / MISCOVERED * missed) / truth,
        perfect=abs(median(told) / truth - 1),
        below=sum(below),
        above=sum(above),
    )


@dataclass(frozen=True)
class Searched:
    """One search."""

    dut: str
    method: str
    traffic_s: float
    cpu_s: float
    trials: int
    verdicts: tuple[Verdict, ...]  # in the order of RATIOS


@dataclass(frozen=True)
class Row:
    """All searches of one method for one rate of one kind of device."""

    family: str
    dut: str
    method: str
    loss_ratio: float
    searches: int
    numbers: int
    traffic_s: float  # mean
    cpu_s: float  # of a trial, mean
    error_median: float | None
    error_p90: float | None  # those that are as good as one half count as none
    perfect_p90: float | None
    bias: float | None
    covered: int
    intervals: int
    width: float | None  # median
    score: float | None  # mean
    below: float | None  # share of the new trials that lose
    above: float | None


def rows(searches: Sequence[Searched]) -> list[Row]:
    """One for each device, method and rate, in the order of the suite."""
    alike: dict[tuple[str, str], list[Searched]] = {}
    for search in searches:
        alike.setdefault((search.dut, search.method), []).append(search)
    return [_row(same, number) for same in alike.values() for number in range(len(RATIOS))]


def _row(same: Sequence[Searched], number: int) -> Row:
    verdicts = [search.verdicts[number] for search in same]
    told = [verdict for verdict in verdicts if verdict.error is not None]
    errors = [0.0 if not verdict.is_decided and verdict.is_half else abs(verdict.error or 0.0) for verdict in told]
    dut = next(dut for dut in DUTS if dut.name == same[0].dut)
    return Row(
        family=dut.family,
        dut=dut.name,
        method=same[0].method,
        loss_ratio=RATIOS[number],
        searches=len(same),
        numbers=sum(verdict.is_number for verdict in verdicts),
        traffic_s=fmean(search.traffic_s for search in same),
        cpu_s=fmean(search.cpu_s / search.trials for search in same),
        error_median=_of(errors, median),
        error_p90=_of(errors, _p90),
        perfect_p90=_of((verdict.perfect for verdict in told if verdict.perfect is not None), _p90),
        bias=_of((max(-BIASED, min(BIASED, verdict.error or 0.0)) for verdict in told), fmean),
        covered=sum(bool(verdict.is_covered) for verdict in told),
        intervals=len(told),
        width=_of((verdict.width or 0.0 for verdict in told), median),
        score=_of((verdict.score or 0.0 for verdict in told), fmean),
        below=_of((verdict.below / NEW_TRIALS for verdict in told), fmean),
        above=_of((verdict.above / NEW_TRIALS for verdict in told), fmean),
    )


def _of(values: Iterable[float], summary: Callable[[Sequence[float]], float]) -> float | None:
    every = list(values)
    return summary(every) if every else None


def _p90(values: Sequence[float]) -> float:
    return float(np.quantile(values, 0.9))


def missed(table: Sequence[Row]) -> list[str]:
    """The aims that our own search misses, in words."""
    ours = [row for row in table if row.method == "ours"]
    return [words for row in ours for words in _missed(row)] + _missed_by_all(ours) + _worse_scores(table)


def _missed(row: Row) -> list[str]:
    dut = next(dut for dut in DUTS if dut.name == row.dut)
    where = f"{row.dut}, {rate_name(row.loss_ratio)}"
    misses = []
    if row.numbers < row.searches:
        misses.append(f"{where}: a number in {row.numbers} of {row.searches}")
    if row.traffic_s > (QUIET_S if dut.name in ("ideal", "quiet") else TRAFFIC_S):
        misses.append(f"{where}: {row.traffic_s:.1f} s of traffic")
    if row.error_median is None or row.error_p90 is None:
        return misses
    if row.error_median > MEDIAN:
        misses.append(f"{where}: median error {share(row.error_median)}, aim {share(MEDIAN)}")
    if row.error_p90 > max(P90, row.perfect_p90 or 0.0):
        perfect = f", a perfect observer {share(row.perfect_p90)}"
        misses.append(f"{where}: 90 % of the errors below {share(row.error_p90)}, aim {share(P90)}{perfect}")
    if row.covered < (COVERED_KIND - _uncertain(COVERED_KIND, row.intervals)) * row.intervals:
        misses.append(f"{where}: {row.covered} of {row.intervals} intervals hold it, aim {share(COVERED_KIND)}")
    widest = WIDTH_STILL if dut.is_still else WIDTH_MOVING if dut.family in ("moving", "shared host") else math.inf
    if row.width is not None and row.width > widest:
        misses.append(f"{where}: intervals {share(row.width)} wide, aim {share(widest)}")
    return misses


def _missed_by_all(ours: Sequence[Row]) -> list[str]:
    misses = []
    for ratio in RATIOS:
        told = [row for row in ours if row.loss_ratio == ratio and row.intervals]
        if not told:
            continue
        covered, intervals = sum(row.covered for row in told), sum(row.intervals for row in told)
        bias, below, above = pooled(told, "bias"), pooled(told, "below"), pooled(told, "above")
        off = DEVIATIONS * 0.5 / math.sqrt(NEW_TRIALS * intervals)
        if covered < COVERED * intervals:
            misses.append(f"{rate_name(ratio)}: {covered} of {intervals} intervals hold it, aim {share(COVERED)}")
        if abs(bias) > BIAS:
            misses.append(f"{rate_name(ratio)}: bias {share(bias)}, aim {share(BIAS)}")
        if below > 0.5 + off:
            misses.append(f"{rate_name(ratio)}: {share(below)} of the trials just below lose, aim at most half")
        if above < 0.5 - off:
            misses.append(f"{rate_name(ratio)}: {share(above)} of the trials just above lose, aim at least half")
    return misses


def pooled(table: Sequence[Row], field: str) -> float:
    """Of all searches with a number."""
    told = [row for row in table if row.intervals]
    weights = sum(row.intervals for row in told)
    return sum((getattr(row, field) or 0.0) * row.intervals for row in told) / weights if weights else math.nan


def _worse_scores(table: Sequence[Row]) -> list[str]:
    misses = []
    for family in dict.fromkeys(row.family for row in table):
        for ratio in RATIOS:
            same = [row for row in table if row.family == family and row.loss_ratio == ratio]
            ours, other = (
                pooled([row for row in same if row.method == name], "score") for name in ("ours", "MLRsearch")
            )
            if ours > other:
                misses.append(f"{family}, {rate_name(ratio)}: interval score {ours:.3f}, MLRsearch's {other:.3f}")
    return misses


def _uncertain(share: float, count: int) -> float:
    return DEVIATIONS * math.sqrt(share * (1 - share) / max(1, count))


def rate_name(loss_ratio: float) -> str:
    """As a reader knows it."""
    return "NDR" if loss_ratio == 0 else f"PDR {loss_ratio * 100:g} %"


def share(value: float | None) -> str:
    """In percent."""
    return "-" if value is None else f"{value * 100:.3g} %"

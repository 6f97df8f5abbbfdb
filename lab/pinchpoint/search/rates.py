"""The entrance of a search: from `measure(duration_s, load_fps)` to NDR and PDRs, by the method that is asked for."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from pinchpoint.model.result import Ceiling, Moment, Rate
from pinchpoint.model.scenario import Search, SearchMethod
from pinchpoint.model.trial import Trial, TrialValidity

Measure = Callable[[float, float], Trial]
"""measure(duration_s, load_fps): runs one trial, valid or not."""
GENERATOR_TRIES = 2  # a generator at its ceiling stays there: one repeat tells it from a slow moment


def until_valid(measure: Measure, duration_s: float, load_fps: float, max_repeats: int) -> Trial:
    """The first valid trial of at most 1 + `max_repeats`, or one that confirms a limited generator; else the last."""
    limited_in_a_row = 0
    for _ in range(max_repeats + 1):
        trial = measure(duration_s, load_fps)
        limited_in_a_row = limited_in_a_row + 1 if trial.validity is TrialValidity.GENERATOR_LIMITED else 0
        if trial.validity is TrialValidity.VALID or limited_in_a_row == GENERATOR_TRIES:
            break
    return trial


@dataclass(frozen=True)
class SearchOutcome:
    """What a search found."""

    rates: tuple[Rate, ...]  # one for each loss ratio, the lowest ratio (the NDR) first
    generator_ceiling_fps: float | None  # highest rate offered by a generator that fell short; None: none did
    track: tuple[Moment, ...] = ()  # of the NDR's threshold; empty: the method knows no time


def find_rates(
    measure: Measure,
    search: Search,
    now_s: Callable[[], float],
    *,
    ceilings: Sequence[Ceiling] = (),
    overload_measures: bool = True,
) -> SearchOutcome:
    """NDR and PDR of whatever `measure` measures, within search.max_duration_s by the clock `now_s`.

    `ceilings` are the generator's own highest rates, as far as known: no load far above them is tried.
    `overload_measures`: what an overloaded trial carries may be near the threshold; if not, it only says that its load
    was above (as MLRsearch has it). The same trials, at the same times, lead to the same loads. Raises only what
    `measure` raises; every other end is reported by the rates' status and reason.
    """
    if search.method is SearchMethod.THRESHOLD:
        from pinchpoint.search import threshold  # numpy and scipy: only where they are needed

        outcome = threshold.find(measure, search, now_s, ceilings, overload_measures=overload_measures)
    else:
        from pinchpoint.search import mlrsearch

        outcome = mlrsearch.find(measure, search, now_s, ceilings)
    return replace(outcome, rates=tuple(accumulate(outcome.rates, never_below)))


def never_below(stricter: Rate, rate: Rate) -> Rate:
    """The same rate, at least that of the stricter loss ratio: what keeps one keeps the other."""
    if stricter.lower_fps is None or rate.lower_fps is None:
        return rate
    lower_fps = max(rate.lower_fps, stricter.lower_fps)
    estimate_fps, upper_fps = (
        None if own is None else max(own, other or 0.0, lower_fps)
        for own, other in ((rate.estimate_fps, stricter.estimate_fps), (rate.upper_fps, stricter.upper_fps))
    )
    return replace(rate, lower_fps=lower_fps, estimate_fps=estimate_fps, upper_fps=upper_fps)

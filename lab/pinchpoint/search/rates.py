"""The entrance of a search: from `measure(duration_s, load_fps)` to NDR and PDRs, by the method that is asked for."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from pinchpoint.model.result import Ceiling, Moment, Rate
from pinchpoint.model.scenario import Search, SearchMethod
from pinchpoint.search.repeat import Measure


@dataclass(frozen=True)
class SearchOutcome:
    """What a search found: one rate for each loss ratio, the lowest ratio (the NDR) first."""

    rates: tuple[Rate, ...]
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

    `search` holds what a scenario may hold (minimum below maximum, and so on). `ceilings` are the generator's own
    highest rates, as far as known: no load far above them is tried. `overload_measures`: what an overloaded trial
    carries may be near the threshold; if not, it only says that its load was above (MLRsearch takes it for that in any
    case). The same trials, at the same times, lead to the same loads. Raises only what `measure` raises; every other
    end is reported by the rates' status and reason.
    """
    if search.method is SearchMethod.THRESHOLD:
        from pinchpoint.search import threshold  # numpy and scipy: only where they are needed

        outcome = threshold.find(measure, search, now_s, ceilings, overload_measures=overload_measures)
    else:
        from pinchpoint.search import mlrsearch

        outcome = mlrsearch.find(measure, search, now_s, ceilings)
    return replace(outcome, rates=tuple(accumulate(outcome.rates, _never_below)))


def _never_below(stricter: Rate, rate: Rate) -> Rate:
    """The same rate, at least that of the stricter loss ratio: what keeps one keeps the other."""
    if stricter.lower_fps is None or rate.lower_fps is None:
        return rate
    lower_fps = max(rate.lower_fps, stricter.lower_fps)
    estimate_fps, upper_fps = (
        None if own is None else max(own, other or 0.0, lower_fps)
        for own, other in ((rate.estimate_fps, stricter.estimate_fps), (rate.upper_fps, stricter.upper_fps))
    )
    return replace(rate, lower_fps=lower_fps, estimate_fps=estimate_fps, upper_fps=upper_fps)

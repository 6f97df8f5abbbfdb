"""The entrance of a search: from `measure(duration_s, load_fps)` to NDR and PDRs, by the method that is asked for."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pinchpoint.model.result import Ceiling, Moment, Rate
from pinchpoint.model.scenario import Search, SearchMethod
from pinchpoint.search import mlrsearch
from pinchpoint.search.reach import Reach
from pinchpoint.search.repeat import Measure
from pinchpoint.search.watch import Watch


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
    carries may be near the threshold; if not, it only says that its load was above. The same trials, at the same times,
    lead to the same loads. Raises only what `measure` raises; every other end is reported by the rates' status and
    reason.
    """
    if search.method is SearchMethod.THRESHOLD:
        from pinchpoint.search import threshold  # numpy and scipy: only where they are needed

        found = threshold.find(measure, search, now_s, ceilings, overload_measures=overload_measures)
        return SearchOutcome(found.rates, found.generator_ceiling_fps, found.moments)
    watch = Watch(measure, search, now_s)
    return SearchOutcome(mlrsearch.find(watch, Reach(search, ceilings)), watch.ceiling_fps)

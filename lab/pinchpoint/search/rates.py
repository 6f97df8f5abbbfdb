"""The entrance of a search: from `measure(duration_s, load_fps)` to NDR and PDRs, by the method that is asked for."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pinchpoint.model.result import Ceiling, ModeRates, Rate
from pinchpoint.model.scenario import Search, SearchMethod
from pinchpoint.model.trial import Trial
from pinchpoint.search import mlrsearch
from pinchpoint.search.reach import Reach
from pinchpoint.search.repeat import Measure
from pinchpoint.search.watch import Watch


@dataclass(frozen=True)
class SearchOutcome:
    """What a search found: one rate for each loss ratio, the lowest ratio (the NDR) first."""

    rates: tuple[Rate, ...]
    generator_ceiling_fps: float | None  # highest rate offered by a generator that fell short; None: none did
    modes: tuple[ModeRates, ...] = ()  # of the cores, as met; `rates` are the first one's (threshold only)


def find_rates(
    measure: Measure,
    search: Search,
    now_s: Callable[[], float],
    *,
    ceilings: Sequence[Ceiling] = (),
    mode_of: Callable[[Trial], float | None] = lambda trial: None,
    is_slowed: Callable[[Trial], bool] = lambda trial: False,
    began_s: float | None = None,
) -> SearchOutcome:
    """NDR and PDR of whatever `measure` measures, within search.max_duration_s by the clock `now_s`.

    `search` holds what a scenario may hold (minimum below maximum, and so on). `ceilings` are the
    generator's own highest rates, as far as known: no load far above that of the same mode of the cores is tried
    (any mode's, where there is no telling). `mode_of` tells the distance of the cores during a trial, ns;
    None: not probed. `is_slowed` tells whether a neighbour slowed the DUT's core. MLRsearch takes its trials to be
    of one mode. The same trials lead to the same loads.
    `began_s` is when search.max_duration_s began to count, if that was before the call.
    Raises only what `measure` raises; every other end is told by the rates' status and reason.
    """
    watch = Watch(measure, search, now_s, began_s)
    if search.method is SearchMethod.THRESHOLD:
        from pinchpoint.search import threshold  # numpy: only where it is needed

        rates, modes = threshold.find(watch, threshold.Cores(mode_of, is_slowed), ceilings)
        return SearchOutcome(rates, watch.ceiling_fps, modes)
    return SearchOutcome(mlrsearch.find(watch, Reach(search, ceilings)), watch.ceiling_fps)

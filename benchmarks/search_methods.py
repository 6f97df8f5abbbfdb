"""The searches that are compared: ours, and MLRsearch with CSIT's goals."""

from collections.abc import Callable, Mapping
from functools import partial

from search_duts import RATIOS, Dut, Simulated

from pinchpoint.model.measurement import CONFIDENCE
from pinchpoint.model.scenario import Search, SearchMethod
from pinchpoint.search import SearchOutcome, find_rates

WIDTH = 0.005  # of CSIT's goals, relative
OURS_WIDTH = 0.01  # of our own
MIN_FPS, MAX_FPS = 10_000.0, 20e6


def goals(method: SearchMethod, relative_width: float, dut: Dut) -> Search:
    """A search as a scenario's defaults make it; what only MLRsearch uses is CSIT's."""
    return Search(
        method=method,
        confidence=CONFIDENCE,
        max_traffic_s=dut.max_traffic_s,
        min_load_fps=MIN_FPS,
        max_load_fps=MAX_FPS,
        loss_ratios=RATIOS,
        trial_duration_s=dut.trial_s,
        initial_trial_duration_s=dut.trial_s,
        duration_sum_s=21.0 * dut.trial_s,
        exceed_ratio=0.5,
        relative_width=relative_width,
        preceding_targets=2,
        expansion_coefficient=2,
        max_duration_s=3600.0,
        max_repeats=8,
        drain_s=0.05,
    )


def by_library(method: SearchMethod, relative_width: float, bench: Simulated) -> SearchOutcome:
    """Either of the two methods that a scenario may name."""
    return find_rates(bench.measure, goals(method, relative_width, bench.dut), bench.now_s)


METHODS: Mapping[str, Callable[[Simulated], SearchOutcome]] = {
    "ours": partial(by_library, SearchMethod.THRESHOLD, OURS_WIDTH),
    "MLRsearch": partial(by_library, SearchMethod.MLRSEARCH, WIDTH),
}


def traffic_s(bench: Simulated) -> float:
    """Seconds of traffic, those of invalid trials included."""
    return sum(trial.sent_duration_s for trial in bench.trials)

"""Alternating trials of two benches that stand at once: A B, B A, each at a load of its own, the other bench frozen.

They take the place of slices where the engine cannot overload the devices, or the host leaves no slice in peace. A
trial has its whole account, so that a loss-free rate can be compared; a slice has not.
"""

from collections.abc import Callable
from dataclasses import replace
from time import monotonic

from pinchpoint.findings.paired_benches import tried
from pinchpoint.model.trial import ALTERNATING, Trial
from pinchpoint.run.paired_benches import SIDES, Pair, frozen, measurer_of
from pinchpoint.stats.alternating import Alternation

AROUND_S = 0.2  # of a trial, besides traffic and drain: freezing, reading counters, storing
FEWEST_TURNS = 8  # on two benches: some are needed for the loads to settle again


def turn_s(pair: Pair) -> float:
    """About how long a trial of each bench takes."""
    search = pair.benches[SIDES[0]].scenario.search
    return 2 * (search.trial_duration_s + search.drain_s + AROUND_S)


def alternate(pair: Pair, made: Alternation, until_s: float) -> None:
    """Turns until the monotonic clock shows `until_s`, one at least; `made` follows them.

    Raises what a trial raises.
    """
    search = pair.benches[SIDES[0]].scenario.search
    measurers = {side: measurer_of(pair, side, _numbered(pair, side)) for side in SIDES}
    while True:
        for side in made.order:
            pair.benches[SIDES[0]].on_stoppable(measurers[side])
            with frozen(pair.other(side).setup):
                trial = measurers[side].trial(ALTERNATING, search.trial_duration_s, made.load_fps(side))
            made.answer(side, tried(trial, search))
        if monotonic() + turn_s(pair) > until_s:
            return


def _numbered(pair: Pair, side: str) -> Callable[[Trial], None]:
    """Keeps trials under ids that follow those of earlier benches."""
    bench, count = pair.benches[side], 0
    first = len(bench.recorded.trials)

    def keep(trial: Trial) -> None:
        nonlocal count
        count += 1
        bench.record.keep(replace(trial, id=f"{bench.scenario.name}-{first + count:04d}-{ALTERNATING}"))

    return keep

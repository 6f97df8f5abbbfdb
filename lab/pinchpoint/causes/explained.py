"""Why a rate is what it is: suspicions joined with what the counter-experiments gave. Pure."""

import math
from collections.abc import Mapping, Sequence

from pinchpoint.causes.catalogue import OWN_SPEED
from pinchpoint.model.causes import (
    FORWARDED,
    NDR,
    Branch,
    CostOfAPass,
    Experiment,
    Explanation,
    Standing,
    Suspicion,
    Tried,
)
from pinchpoint.model.duet import RELATIVE
from pinchpoint.model.measurement import Metric
from pinchpoint.model.result import Outcome, Rate, RateStatus, ScenarioResult
from pinchpoint.model.study import Bound

EFFECT = 0.05  # by which a rate must change for a cause to be seen: half of what makes it suspected

Done = Mapping[Experiment, ScenarioResult]


def explanation(unchanged: ScenarioResult, made: Done) -> Explanation | None:
    """The tree of one scenario; None where it has no verdict."""
    if unchanged.verdict is None:
        return None
    branches = [_branch(one, unchanged, made) for one in unchanged.verdict.suspicions]
    order = list(Standing)
    branches.sort(key=lambda one: (order.index(one.standing), -(one.explains or 0.0)))
    control = made.get(Experiment.PLAIN)
    return Explanation(
        unchanged.scenario,
        tuple(branches),
        _tried(Experiment.PLAIN, unchanged, control) if control and control.outcome is Outcome.MEASURED else None,
        _cost_of_a_pass(unchanged, branches),
    )


def _branch(suspicion: Suspicion, unchanged: ScenarioResult, made: Done) -> Branch:
    if suspicion.experiment is None:
        return Branch(suspicion, Standing.NOT_TRIED, "no counter-experiment on this bench can tell")
    found = made.get(suspicion.experiment)
    if found is None:
        return Branch(suspicion, Standing.NOT_TRIED, f"this bench does not allow it: {suspicion.experiment.words}")
    if found.outcome is not Outcome.MEASURED:
        return Branch(suspicion, Standing.NOT_TRIED, found.reason)
    tried = _tried(suspicion.experiment, unchanged, found)
    standing = _judged(suspicion, tried, unchanged, found)
    return Branch(suspicion, standing, tried.reason, tried)


def _tried(kind: Experiment, unchanged: ScenarioResult, found: ScenarioResult) -> Tried:
    """The ratio of what a slice forwards, where slices were measured and the experiment is about that; else of NDRs."""
    ratio = next((one for one in found.metrics if one.name == RELATIVE), None)
    if kind in (Experiment.LARGE_RING, Experiment.SHORT_FRAMES) or ratio is None or ratio.bound is Bound.REFUSED:
        return _of_rates(kind, unchanged, found, ratio)
    return Tried(kind, found.scenario, FORWARDED, ratio.value, ratio.low, ratio.high)


def _of_rates(kind: Experiment, unchanged: ScenarioResult, found: ScenarioResult, slices: Metric | None) -> Tried:
    before, after = _ndr(unchanged), _ndr(found)
    if before is None or after is None or before.quoted_fps is None or after.quoted_fps is None:
        why = slices.note if slices is not None and slices.bound is Bound.REFUSED else "one of the two has no NDR"
        return Tried(kind, found.scenario, NDR, None, None, None, why)
    (low, middle, high), (new_low, new, new_high) = _bounds(before), _bounds(after)
    return Tried(kind, found.scenario, NDR, new / middle, new_low / high, new_high / low)


def _bounds(rate: Rate) -> tuple[float, float, float]:
    """Two searches are minutes apart: the band in which the rate moves is what chance may do to either."""
    middle = rate.quoted_fps or 0.0
    lows = [rate.lower_fps or middle, *([rate.band.low_fps] if rate.band else [])]
    highs = [rate.upper_fps or middle, *([rate.band.high_fps] if rate.band else [])]
    return min(lows), middle, max(highs)


def _ndr(result: ScenarioResult) -> Rate | None:
    return result.rates[0] if result.rates else None


def _judged(suspicion: Suspicion, tried: Tried, unchanged: ScenarioResult, found: ScenarioResult) -> Standing:
    before, after = _ndr(unchanged), _ndr(found)
    if before is not None and before.status is RateStatus.LOSES_ALWAYS and after is not None and tried.figure == NDR:
        return Standing.CONFIRMED if after.quoted_fps is not None else Standing.EXCLUDED
    if tried.low is None:
        return Standing.UNDECIDED
    high = math.inf if tried.high is None else tried.high  # a bound: the engine could not overload the changed bench
    same = tried.experiment.streams * (1 + EFFECT)
    rises, is_same = tried.low > same, high < same
    if suspicion.cause == OWN_SPEED.name:
        rises, is_same = high < 1 + 2 * EFFECT, tried.low > 1 + 2 * EFFECT
    return Standing.CONFIRMED if rises else Standing.EXCLUDED if is_same else Standing.UNDECIDED


def _cost_of_a_pass(unchanged: ScenarioResult, branches: Sequence[Branch]) -> CostOfAPass | None:
    """What is saved without further passes, by the pass; from the cycles at the limit and the ratio of the rates."""
    for branch in branches:
        tried, cost = branch.tried, _at_the_limit(unchanged)
        if tried is None or tried.experiment is not Experiment.NO_TRACKING or cost is None:
            continue
        passes, cycles = cost
        if passes <= 1 or not tried.ratio or not tried.low or not tried.high:
            continue
        each, low, high = (cycles * (1 - 1 / ratio) / (passes - 1) for ratio in (tried.ratio, tried.low, tried.high))
        return CostOfAPass(passes, cycles, each, low, high)
    return None


def _at_the_limit(result: ScenarioResult) -> tuple[float, float] | None:
    """(passes, cycles) of a frame at the busiest thread."""
    known = [load for load in result.pmds if load.cycles_per_packet and load.received]
    if not known:
        return None
    busiest = max(known, key=lambda load: load.busy_share or 0.0)
    return 1 + (busiest.recirculated or 0) / busiest.received, busiest.cycles_per_packet or 0.0

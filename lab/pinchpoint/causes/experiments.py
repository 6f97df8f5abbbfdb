"""Counter-experiments: those that any device allows, and why a rate is what it is by what they gave. Pure.

Each is the scenario changed in one respect. Suspicions are joined with what came of them.
"""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from pinchpoint.causes.catalogue import OWN_SPEED, by_name
from pinchpoint.causes.signature import SEEN, Cause
from pinchpoint.model.causes import (
    CYCLES,
    FORWARDED,
    LOSS,
    NDR,
    Branch,
    CostOfAPass,
    Experiment,
    Explanation,
    Standing,
    Suspicion,
    Tried,
    Turns,
)
from pinchpoint.model.duet import RELATIVE
from pinchpoint.model.frames import fewer, shortest, turned, turns_alike
from pinchpoint.model.measurement import Bound, Metric
from pinchpoint.model.result import Outcome, Rate, RateStatus, ScenarioResult
from pinchpoint.model.scenario import Scenario

FEW = 16  # five-tuples: any cache holds as many
LARGE_RING, LONGER, LARGEST_RING = 4096, 4, 32768  # descriptors: the least, the factor, the most
EFFECT = 0.05  # by which a rate must change for a cause to be seen: half of what makes it suspected
GONE = 0.1  # of the drops before, at most: the rest of them
OF_LOSSES = frozenset({Experiment.LARGE_RING, Experiment.SHORT_FRAMES})
"""Experiments about what is lost below the capacity."""

Done = Mapping[Experiment, ScenarioResult]


def experiments(
    scenario: Scenario, own: Mapping[Experiment, Scenario], free_cpus: Collection[int]
) -> dict[Experiment, Scenario]:
    """All that would change anything; the device's own come before those of traffic, rings and engine."""
    changes = {kind: changed for kind, changed in _of_bench(scenario, free_cpus) if changed != scenario} | dict(own)
    return {kind: changes[kind] for kind in Experiment if kind in changes}


def _of_bench(scenario: Scenario, free_cpus: Collection[int]) -> Iterator[tuple[Experiment, Scenario]]:
    yield Experiment.FEW_FLOWS, replace(scenario, streams=tuple(fewer(stream, FEW) for stream in scenario.streams))
    yield Experiment.SHORT_FRAMES, replace(scenario, streams=tuple(map(shortest, scenario.streams)))
    rings = tuple(replace(port, ring=max(LARGE_RING, min(LONGER * port.ring, LARGEST_RING))) for port in scenario.ports)
    yield Experiment.LARGE_RING, replace(scenario, ports=rings)
    if free_cpus and len(scenario.engine.cpus) < len(scenario.ports):
        cpus = (*scenario.engine.cpus, min(free_cpus))
        yield Experiment.MORE_ENGINE_CORES, replace(scenario, engine=replace(scenario.engine, cpus=cpus))
    if not scenario.established:  # the other way a balancer takes only what its backends answer
        ways = {(stream.tx_port, stream.rx_port) for stream in scenario.streams}
        alone = [stream for stream in scenario.streams if (stream.rx_port, stream.tx_port) not in ways]
        if all(map(turns_alike, alone)):
            yield Experiment.BOTH_WAYS, replace(scenario, streams=(*scenario.streams, *map(turned, alone)))


def explanation(unchanged: ScenarioResult, made: Done) -> Explanation | None:
    """The tree of one scenario; None where it has no verdict."""
    if unchanged.verdict is None:
        return None
    branches = [_branch(suspicion, unchanged, made) for suspicion in unchanged.verdict.suspicions]
    order = list(Standing)
    branches.sort(key=lambda branch: (order.index(branch.standing), -(branch.explains or 0.0)))
    control, passes = made.get(Experiment.PLAIN), _cost_of_a_pass(unchanged, branches)
    is_measured = control is not None and control.outcome is Outcome.MEASURED
    tried = _tried(Experiment.PLAIN, unchanged, control) if control and is_measured else None
    return Explanation(unchanged.scenario, tuple(branches), tried, passes)


def _branch(suspicion: Suspicion, unchanged: ScenarioResult, made: Done) -> Branch:
    if suspicion.experiment is None:
        return Branch(suspicion, Standing.NOT_TRIED, "no counter-experiment on this bench can tell")
    measured = made.get(suspicion.experiment)
    if measured is None:
        return Branch(
            suspicion,
            Standing.NOT_TRIED,
            f"not possible on this bench, or would change nothing: {suspicion.experiment.words}",
        )
    if measured.outcome is not Outcome.MEASURED:
        return Branch(suspicion, Standing.NOT_TRIED, measured.reason)
    standing, tried = _judged(suspicion, suspicion.experiment, unchanged, measured)
    return Branch(suspicion, standing, tried.reason, tried)


def _tried(kind: Experiment, unchanged: ScenarioResult, result: ScenarioResult) -> Tried:
    """The ratio of what a slice forwards, where there is one; else of trials in turns; else of NDRs."""
    if (slices := _of_slices(kind, result)) is not None:
        return slices
    return _of_rates(kind, unchanged, result) if result.turns is None else _of_turns(kind, result, result.turns)


def _of_slices(kind: Experiment, result: ScenarioResult) -> Tried | None:
    ratio = _sliced(result)
    if ratio is None or ratio.bound is Bound.REFUSED or result.reference == result.scenario or kind in OF_LOSSES:
        return None
    return Tried(kind, result.scenario, FORWARDED, ratio.value, ratio.low, ratio.high)


def _sliced(result: ScenarioResult) -> Metric | None:
    return next((metric for metric in result.metrics if metric.name == RELATIVE), None)


def _of_turns(kind: Experiment, result: ScenarioResult, turns: Turns, rests_on: str = "") -> Tried:
    """The figure that the standing rests on, else one that is certain; a ratio without an interval, since the evidence
    is of its direction alone.
    """
    figures = {LOSS: turns.loss} if kind in OF_LOSSES else {FORWARDED: turns.rate, CYCLES: turns.cycles}
    certain = (name for name, figure in figures.items() if figure.is_better or figure.is_no_better)
    name = rests_on if rests_on in figures else next(certain, next(iter(figures)))
    sliced = _sliced(result)
    why = sliced.note if sliced is not None else ""
    reason = why or "too few pairs of trials show the figure" if figures[name].gain is None else ""
    return Tried(kind, result.scenario, name, figures[name].gain, None, None, reason, figures[name].pairs)


def _of_rates(kind: Experiment, unchanged: ScenarioResult, result: ScenarioResult) -> Tried:
    before, after, slices = _ndr(unchanged), _ndr(result), _sliced(result)
    if before is None or after is None or before.quoted_fps is None or after.quoted_fps is None:
        why = slices.note if slices is not None and slices.bound is Bound.REFUSED else "one of the two has no NDR"
        return Tried(kind, result.scenario, NDR, None, None, None, why)
    ratio = after.quoted_fps / before.quoted_fps
    (low, high), (new_low, new_high) = _bounds(before, before.quoted_fps), _bounds(after, after.quoted_fps)
    return Tried(kind, result.scenario, NDR, ratio, new_low / high, new_high / low)


def _bounds(rate: Rate, middle: float) -> tuple[float, float]:
    """Two searches are minutes apart: the band in which the rate moves is what chance may do to either."""
    low, high = rate.lower_fps or middle, rate.upper_fps or middle
    return (min(low, rate.band.low_fps), max(high, rate.band.high_fps)) if rate.band else (low, high)


def _ndr(result: ScenarioResult) -> Rate | None:
    return result.rates[0] if result.rates else None


def _judged(
    suspicion: Suspicion, kind: Experiment, unchanged: ScenarioResult, result: ScenarioResult
) -> tuple[Standing, Tried]:
    """What became of it, and the figure that says so."""
    row, turns, slices = _row(suspicion), result.turns, _of_slices(kind, result)
    if turns is None:
        tried = _tried(kind, unchanged, result)
        return _by_rates(row, tried, unchanged, result), tried
    if (standing := _by_counters(row, turns)) is not None:
        falls = slices is not None and slices.high is not None and slices.high < 1 / (1 + EFFECT)
        if falls and standing is Standing.CONFIRMED:
            standing = Standing.UNDECIDED
        return standing, slices or _of_turns(kind, result, turns)
    decided, rests_on = _by_turns(row, kind, turns)
    if slices is None:
        return decided or Standing.UNDECIDED, _of_turns(kind, result, turns, rests_on)
    # What the rate of a cause that need not slow does is no evidence without its signature, which slices do not show.
    by_slices = _by_interval(row, slices) if row.slows else Standing.UNDECIDED
    if decided is None or decided is by_slices:
        return by_slices, slices
    if by_slices is not Standing.UNDECIDED:  # the two contradict each other
        return Standing.UNDECIDED, slices
    return decided, _of_turns(kind, result, turns, rests_on) if rests_on == CYCLES else slices


def _by_rates(row: Cause, tried: Tried, unchanged: ScenarioResult, result: ScenarioResult) -> Standing:
    before, after = _ndr(unchanged), _ndr(result)
    if before is not None and before.status is RateStatus.LOSES_ALWAYS and after is not None and tried.figure == NDR:
        return Standing.CONFIRMED if after.quoted_fps is not None else Standing.EXCLUDED
    return _by_interval(row, tried)


def _by_interval(row: Cause, tried: Tried) -> Standing:
    if tried.low is None:
        return Standing.UNDECIDED
    high = math.inf if tried.high is None else tried.high  # a bound: the engine could not overload the changed bench
    same = tried.experiment.streams * (1 + EFFECT)
    rises, is_same = tried.low > same, high < same
    if row is OWN_SPEED:
        rises, is_same = high < 1 + 2 * EFFECT, tried.low > 1 + 2 * EFFECT
    return Standing.CONFIRMED if rises else Standing.EXCLUDED if is_same else Standing.UNDECIDED


def _by_counters(row: Cause, turns: Turns) -> Standing | None:
    """Of a cause that drops frames: its counter vanished, and what it counted is carried. None: it drops none."""
    drops = (turns.dropped_before, turns.dropped_after)
    before, after = (math.fsum(shares.get(kind, 0.0) for kind in row.drops) for shares in drops)
    if before < SEEN:
        return None
    if after > GONE * before:
        return Standing.EXCLUDED if after >= before else Standing.UNDECIDED
    return Standing.CONFIRMED if turns.rate.is_no_worse else Standing.UNDECIDED


def _by_turns(row: Cause, kind: Experiment, turns: Turns) -> tuple[Standing | None, str]:
    """By the figure that the cause is about, where the evidence is certain, with its name; None where there is none.

    At most four bets can confirm a cause here, two where slices may as well; its counters are one more.
    """
    rate, cycles = turns.rate, turns.cycles
    if kind in OF_LOSSES:
        return _standing(turns.loss.is_better, turns.loss.is_no_better), LOSS
    if not row.slows:
        rests_on = FORWARDED if rate.is_better or rate.is_worse else CYCLES
        differs = rests_on == FORWARDED or cycles.is_better or cycles.is_worse
        is_same = rate.is_no_better and rate.is_no_worse
        if differs and row.fits(turns.before) and not row.fits(turns.after):
            return Standing.UNDECIDED if is_same else Standing.CONFIRMED, rests_on
        return None, ""
    rests_on = FORWARDED if rate.is_better or rate.is_no_better else CYCLES if cycles.is_better else ""
    rises, stays = rate.is_better or cycles.is_better, rate.is_no_better
    return _standing(stays, rises) if row is OWN_SPEED else _standing(rises, stays), rests_on


def _standing(came_true: bool, did_not: bool) -> Standing | None:
    """None: there is no evidence. Evidence of both is a contradiction."""
    if came_true and did_not:
        return Standing.UNDECIDED
    return Standing.CONFIRMED if came_true else Standing.EXCLUDED if did_not else None


def _row(suspicion: Suspicion) -> Cause:
    """Its row; one that this version does not know predicts that the rate rises."""
    try:
        return by_name(suspicion.cause)
    except KeyError:
        return Cause(suspicion.cause, suspicion.title, (), suspicion.mend)


def _cost_of_a_pass(unchanged: ScenarioResult, branches: Sequence[Branch]) -> CostOfAPass | None:
    """What is saved without further passes, by the pass; from the cycles at the limit and the ratio of the rates."""
    known = [load for load in unchanged.threads if load.cycles_per_packet and load.received]
    busiest = max(known, key=lambda load: load.busy_share or 0.0, default=None)
    if busiest is None or not busiest.recirculated:
        return None
    passes, cycles = 1 + busiest.recirculated / busiest.received, busiest.cycles_per_packet or 0.0
    for tried in (branch.tried for branch in branches):
        if tried and tried.experiment is Experiment.NO_TRACKING and tried.ratio and tried.low and tried.high:
            ratios = (tried.ratio, tried.low, tried.high)
            return CostOfAPass(passes, cycles, *(cycles * (1 - 1 / ratio) / (passes - 1) for ratio in ratios))
    return None

"""Short trials of two standing benches in turns, A B, B A, each with its whole account.

Slices say precisely how much more one bench forwards, and nothing else. Trials in turns also say what became of the
frames that were lost and what a packet cost, and they bear a host that disturbs them: each pair only has to show the
effect more often than not (`turned` in stats/paired.py). All pairs are of one build of each bench: the evidence is that
these two differ, whatever made them differ.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

from pinchpoint.causes import signs
from pinchpoint.causes.experiments import EFFECT
from pinchpoint.causes.signature import NOTABLE, SEEN
from pinchpoint.dut.registry import device_of
from pinchpoint.measure.session import first_round
from pinchpoint.model.causes import Signs, Turns
from pinchpoint.model.duet import SIDES
from pinchpoint.model.hops import DropKind
from pinchpoint.model.scenario import Scenario
from pinchpoint.model.trial import OVERLOADED, Trial, TrialValidity
from pinchpoint.run.paired_benches import AtLoad, LivePair, in_pairs
from pinchpoint.stats.paired import Gain, turned

TURN_S = 0.2  # of one trial: most searches use as much
OVERLOAD_S = 0.5
MOST_S = 25.0  # of all pairs,
MOST_SLOW_S = 60.0  # unless the host is so slow that too few are made by then
FEW_PAIRS = 14  # of which one may disagree with the others
MOST_PAIRS = 40
FEWER = 1 / (1 - NOTABLE)  # of losses: a cause that explains so many of them is suspected
BEYOND = 1000.0  # times: a gain that is not finite, and the largest that is noted
BUSY = 0.8  # share of a thread's time: below it, turns for few frames each cost more for every frame
# Of what the unchanged bench carries under overload: the first at which it loses frames. The less is sent, the longer a
# pause that a large ring bridges, and the surer it is that a loss is none of speed.
PARTS = (0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.85, 1.0)
PHASES = {"A": "turn of the unchanged bench", "B": "turn"}


def measure_turns(pair: LivePair, is_below: bool, changed: list[Trial]) -> Turns:
    """Pairs until one figure is certain, or the time is over; `changed` gets the trials of B.

    `is_below`: at a load that A should carry, where it loses frames; else at the highest load of the scenario.
    Raises what a trial raises.
    """
    unchanged = pair.benches[SIDES[0]].scenario
    trials = {side: pair.trials(side, f"turn-{side}", PHASES[side], TURN_S) for side in SIDES}
    load_fps = _lossy(trials[SIDES[0]], unchanged) if is_below else unchanged.search.max_load_fps
    made = list[tuple[Trial, Trial]]()
    began_s = time.monotonic()
    for turn in in_pairs(trials, lambda _: load_fps):
        made.append((turn[SIDES[0]], turn[SIDES[1]]))
        changed.append(turn[SIDES[1]])
        is_over = time.monotonic() - began_s >= (MOST_S if len(made) >= FEW_PAIRS else MOST_SLOW_S)
        if is_over or len(made) == MOST_PAIRS or is_certain(judged(made, _streams(pair)), is_below):
            break
    a, b = ([both[place] for both in _usable(made)] for place in (0, 1))
    turns = judged(made, _streams(pair))
    return replace(turns, load_fps=load_fps, before=_signs(pair, SIDES[0], a), after=_signs(pair, SIDES[1], b))


def overload(pair: LivePair) -> Trial:
    """One trial of B at the highest load of the scenario, A frozen. Raises what a trial raises."""
    side, phase = SIDES[1], "overload"
    return pair.trials(side, phase, phase, OVERLOAD_S)(pair.benches[side].scenario.search.max_load_fps)


def judged(pairs: Sequence[tuple[Trial, Trial]], streams: float = 1.0) -> Turns:
    """What pairs of trials, of A and of B at one load, say of each figure.

    `streams`: times as many streams of B, which forwards that much more for this reason alone.
    """
    usable = _usable(pairs)
    load_fps = usable[0][0].load_fps if usable else 0.0
    rate = turned([gain for a, b in usable for gain in _rate(a, b)], 1 + EFFECT, streams)
    cycles = turned([gain for a, b in usable for gain in _cycles(a, b)] if streams == 1 else [], 1 + EFFECT)
    loss = turned([gain for a, b in usable for gain in _loss(a, b)], FEWER)
    before, after = dropped([a for a, _ in usable]), dropped([b for _, b in usable])
    return Turns(load_fps, len(usable), rate, cycles, loss, Signs(), Signs(), before, after)


def _usable(pairs: Sequence[tuple[Trial, Trial]]) -> list[tuple[Trial, Trial]]:
    """Pairs of which neither trial was aborted."""
    return [(a, b) for a, b in pairs if TrialValidity.ABORTED not in (a.validity, b.validity)]


def dropped(trials: Sequence[Trial]) -> dict[DropKind, float]:
    """Frames that counters name, by kind, as shares of those that were offered."""
    return signs.by_kind((hop for trial in trials for hop in trial.ledger.hops), sum(trial.offered for trial in trials))


def is_certain(turns: Turns, is_below: bool) -> bool:
    """Whether more pairs would add nothing: what the change does is certain, and whether the rate falls is too."""
    if not (turns.rate.is_worse or turns.rate.is_no_worse):
        return False
    if is_below:
        return turns.loss.is_better or turns.loss.is_no_better
    return turns.cycles.is_better or turns.rate.is_better or turns.rate.is_no_better


def _rate(a: Trial, b: Trial) -> Iterator[Gain]:
    """Of frames carried a second. A bench that carried what was offered may carry more."""
    before, after = a.carried_fps, b.carried_fps
    if before > 0:
        yield Gain(min(BEYOND, after / before), _is_overloaded(a), _is_overloaded(b))
    elif after > 0:
        yield Gain(BEYOND, True, _is_overloaded(b))


def _cycles(a: Trial, b: Trial) -> Iterator[Gain]:
    """Of packets for each cycle. A thread that is not busy takes few frames in a turn, so that B may do better yet."""
    before, after = a.busiest_cost, b.busiest_cost
    if before is not None and after is not None and before[0] >= BUSY:
        yield Gain(before[1] / after[1], True, after[0] >= BUSY)


def _loss(a: Trial, b: Trial) -> Iterator[Gain]:
    """Of losses. A pair without any says nothing."""
    if b.lost > 0:
        yield Gain(min(BEYOND, a.loss_ratio / b.loss_ratio))
    elif a.lost > 0:
        yield Gain(BEYOND)


def _is_overloaded(trial: Trial) -> bool:
    return trial.received < (1 - OVERLOADED) * trial.offered


def _streams(pair: LivePair) -> float:
    a, b = (len(pair.benches[side].scenario.streams) for side in SIDES)
    return b / a


def _lossy(trial: AtLoad, scenario: Scenario) -> float:
    """A load that the bench should carry, by what it carries of the highest one, and at which it loses frames twice."""
    most_fps = scenario.search.max_load_fps
    carried_fps = trial(most_fps).carried_fps or first_round(scenario)[1]
    loads_fps = [min(most_fps, part * carried_fps) for part in PARTS]
    lossy = (load_fps for load_fps in loads_fps[:-1] if all(trial(load_fps).loss_ratio > SEEN for _ in range(2)))
    return next(lossy, loads_fps[-1])


def _signs(pair: LivePair, side: str, trials: Sequence[Trial]) -> Signs:
    scenario = pair.benches[side].scenario
    return signs.of_trials(trials, scenario.smallest_ring, device_of(scenario)) if trials else Signs()

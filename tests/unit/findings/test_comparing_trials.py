"""A comparison out of stored alternating trials: what it says, and of what."""

from dataclasses import replace

import pytest
from comparisons import paired_run
from simulated_turns import Benches
from sweeps import base
from trials import stream_counts, thread_load, trial

from pinchpoint.findings.paired_benches import alternation, of_trials, tried
from pinchpoint.model.comparison import ComparisonKind, Decision, HoldsFor, Method
from pinchpoint.model.duet import pair_order
from pinchpoint.model.trial import ALTERNATING, WARM_UP, TrialValidity

SEARCH = replace(base().search, loss_ratios=(0.0,), min_load_fps=1e4, max_load_fps=20e6, trial_duration_s=0.2)
NAMES = ("A-forward", "B-forward")


def compared(benches, builds, turns, **request):
    info, result = paired_run([1.0], [1.0], method=Method.TRIALS, slices_s=30.0, benches=builds, **request)
    return of_trials(info, result, benches.alternate(builds, turns), SEARCH)


def judged(comparison):
    return [metric for metric in comparison.scenarios[0].metrics if metric.judged]


def test_rates_of_six_builds_are_compared_for_the_next_build():
    comparison = compared(Benches(1, ratio=0.8), 6, 12)
    (metric,) = judged(comparison)
    assert (comparison.kind, metric.metric, metric.decision) == (ComparisonKind.TRIALS, "NDR", Decision.LOWER)
    assert (metric.holds_for, metric.better) == (HoldsFor.NEXT_BUILD, False)
    assert metric.low <= 0.8 <= metric.high
    assert "6 builds of" in metric.method
    assert "of the trials of 200 ms" in comparison.scenarios[0].notes[-1]


def test_rates_of_one_build_are_of_these_two_benches():
    (metric,) = judged(compared(Benches(2, ratio=0.8), 1, 50))
    assert (metric.holds_for, metric.better) == (HoldsFor.BENCHES, None)
    assert metric.sentence.startswith("of these two benches, B is ")


def test_where_both_forward_all_that_is_offered_the_cost_of_a_packet_is_compared():
    comparison = compared(Benches(3, most_fps=5e6, cycles={"A": 300.0, "B": 330.0}), 6, 10)
    (metric,) = judged(comparison)
    assert (metric.metric, metric.unit, metric.decision, metric.better) == (
        "cycles per packet",
        "cycles",
        Decision.HIGHER,
        False,
    )
    rate = comparison.scenarios[0].metrics[1]
    assert (rate.decision, rate.ratio) == (Decision.REFUSED, None)
    assert "A and B forwarded all that the engine offers (5.00 Mpps)" in rate.sentence


def test_without_a_cost_of_a_packet_nothing_is_decided_and_the_reason_is_said():
    (metric,) = judged(compared(Benches(4, most_fps=5e6), 6, 10))
    assert metric.decision is Decision.REFUSED
    assert "forwarded all that the engine offers" in metric.sentence


@pytest.mark.parametrize(("ratio", "decision"), [(2.0, Decision.HIGHER), (1.0, Decision.REFUSED)])
def test_a_bound_of_b_shows_that_it_is_higher_and_nothing_else(ratio, decision):
    benches = Benches(5, ratio=ratio, most_fps=12e6 if ratio > 1 else 5e6)
    (metric,) = judged(compared(benches, 6, 12))
    assert metric.decision is decision
    assert ("at least that, since B forwarded all that the engine offers" in metric.sentence) is (ratio > 1)


def test_without_any_usable_trial_it_is_refused():
    (metric,) = judged(compared(Benches(6), 1, 0))
    assert (metric.decision, metric.sentence) == (
        Decision.REFUSED,
        "not compared: too few alternating trials had a usable account",
    )


def stored(name, load_fps, received, phase=ALTERNATING, **more):
    counts = stream_counts(offered=int(load_fps), received=int(received))
    return replace(trial(load_fps, counts=counts, **more), scenario=name, phase=phase)


def test_stored_trials_make_the_turns_that_were_made():
    benches, made = Benches(7), None
    stored_trials = []
    for _ in range(2):
        stored_trials += [stored(name, 1e6, 1e6, WARM_UP) for name in (NAMES[0], NAMES[0], NAMES[1])]
        for _ in range(12):
            made = alternation(stored_trials, NAMES, SEARCH)
            for side in pair_order(made.begun):
                name, load_fps = NAMES["AB".index(side)], int(made.load_fps(side))
                lost = benches.tried(load_fps, side, 1.0).loses
                stored_trials.append(stored(name, load_fps, load_fps - lost))
    again = alternation(stored_trials, NAMES, SEARCH)
    assert again.builds == 2
    assert len({turn.build for turn in again.turns}) == 2
    assert again.turns[: len(made.turns)] == made.turns


def test_a_trial_that_the_engine_limits_counts_at_what_was_offered():
    limited = stored(NAMES[0], 1e6, 1e6, validity=TrialValidity.GENERATOR_LIMITED)
    turn = tried(replace(limited, load_fps=2e6), SEARCH)
    assert (turn.fps, turn.loses, turn.is_bound) == (1e6, False, True)
    assert tried(replace(limited, validity=TrialValidity.NOISY_HOST), SEARCH) is None


def test_cycles_count_of_a_thread_that_was_busy():
    busy, idle = (stored(NAMES[0], 1e6, 1e6, threads=[thread_load(share, 300.0)]) for share in (0.9, 0.2))
    assert [tried(trial, SEARCH).cycles for trial in (busy, idle)] == [300.0, None]

"""Alternating trials of two simulated benches: where their loads settle, and what their turns say."""

import math

import numpy as np
import pytest
from simulated_turns import Benches

from pinchpoint.model.duet import pair_order
from pinchpoint.stats.alternating import StairTrial, compare_turns


@pytest.mark.parametrize(("noise", "error"), [(0.002, 0.01), (0.05, 0.02), (0.15, 0.05)])
def test_loads_settle_where_half_of_the_trials_lose(noise, error):
    made = Benches(1, noise=noise).alternate(1, 300)
    loads = [turn.a.fps for turn in made.turns]
    assert np.mean(np.log(loads)) == pytest.approx(math.log(8e6), abs=error)
    assert np.mean([turn.a.loses for turn in made.turns]) == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize("ratio", [1.0, 1.012, 1.1])
@pytest.mark.parametrize("noise", [0.002, 0.05])
def test_the_interval_over_builds_holds_the_ratio_also_where_it_is_smaller_than_a_step(ratio, noise):
    rates = [compare_turns(Benches(seed, ratio, noise, 0.01).alternate(8, 10).turns).rate for seed in range(40)]
    assert np.mean([interval.low <= ratio <= interval.high for interval in rates]) >= 0.85
    assert np.median([interval.high - interval.low for interval in rates]) < 0.1
    assert all(interval.level == 0.95 for interval in rates)


def test_one_build_of_thirty_turns_gives_an_interval():
    made = Benches(2).alternate(1, 40)
    comparison = compare_turns(made.turns)
    assert (comparison.rate.is_of_builds, comparison.rate.level) == (False, 0.95)


def test_both_come_first_equally_often():
    made = Benches(3).alternate(1, 0)
    firsts = []
    for _ in range(10):
        order = pair_order(made.begun)
        firsts.append(order[0])
        for side in order:
            made.answer(side, None)
    assert "".join(firsts) == "ABABABABAB"


def test_a_trial_without_a_usable_account_moves_no_load_and_makes_no_turn():
    made = Benches(4).alternate(1, 20)
    turns, load_fps = len(made.turns), made.load_fps("A")
    made.answer("A", None)
    made.answer("B", StairTrial(1e6, False, False))
    assert (len(made.turns), made.load_fps("A")) == (turns, load_fps)


def test_a_device_that_forwards_all_that_is_offered_shows_a_bound_and_what_a_packet_costs():
    comparison = compare_turns(Benches(5, most_fps=5e6, cycles={"A": 300.0, "B": 330.0}).alternate(6, 10).turns)
    assert (comparison.a_is_bound, comparison.b_is_bound) == (True, True)
    assert comparison.cycles.value == pytest.approx(1.1)


def test_costs_at_loads_that_differ_are_not_compared():
    comparison = compare_turns(Benches(6, ratio=2.0, cycles={"A": 300.0, "B": 300.0}).alternate(6, 12).turns)
    assert not (comparison.a_is_bound or comparison.b_is_bound)
    assert comparison.cycles is None


def test_no_turn_is_no_ratio():
    comparison = compare_turns([])
    assert (comparison.rate, comparison.cycles) == (None, None)

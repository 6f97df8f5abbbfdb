"""Evidence from pairs of trials that may be looked at after each of them."""

import random
from math import comb

import pytest

from pinchpoint.stats.paired import CERTAIN, Gain, turned, wealth


def test_wealth_is_the_mixture_of_bets_between_a_half_and_one():
    steps = 20000
    shares = [0.5 + (i + 0.5) / (2 * steps) for i in range(steps)]
    integral = sum((2 * p) ** 7 * (2 - 2 * p) ** 2 for p in shares) / steps
    assert wealth(7, 2) == pytest.approx(integral, rel=1e-6)
    assert wealth(0, 0) == 1.0


def test_without_an_effect_the_expected_wealth_is_that_of_the_next_look_too():
    for pairs in (1, 5, 12):
        expected = sum(comb(pairs, won) * wealth(won, pairs - won) for won in range(pairs + 1)) / 2**pairs
        assert expected == pytest.approx(1.0)


def test_looking_after_every_pair_errs_no_more_often_than_promised():
    source, wrong = random.Random(1), 0
    for _ in range(2000):
        won = 0
        for made in range(1, 41):
            won += source.random() < 0.5
            if wealth(won, made - won) >= CERTAIN:
                wrong += 1
                break
    assert wrong <= 2000 / CERTAIN


def test_ten_pairs_that_agree_are_certain_and_nine_are_not():
    assert turned([Gain(2.0)] * 10, 1.05).is_better
    assert not turned([Gain(2.0)] * 9, 1.05).is_better


def test_of_fourteen_pairs_one_may_disagree():
    assert turned([Gain(2.0)] * 13 + [Gain(1.0)], 1.05).is_better
    assert not turned([Gain(2.0)] * 12 + [Gain(1.0)], 1.05).is_better


def test_a_gain_that_is_not_known_to_be_large_never_confirms():
    standing = turned([Gain(2.0, is_at_least=False)] * 40, 1.05)
    assert not standing.is_better
    assert standing.gain == 2.0


def test_a_gain_that_may_be_larger_never_excludes():
    assert not turned([Gain(1.0, is_at_most=False)] * 40, 1.05).is_no_better
    assert turned([Gain(1.0)] * 40, 1.05).is_no_better


def test_doing_worse_is_more_than_doing_no_better():
    assert turned([Gain(0.5)] * 10, 1.05).is_worse
    assert not turned([Gain(1.0)] * 10, 1.05).is_worse


def test_doing_no_worse_is_about_this_load_and_needs_evidence_of_its_own():
    carries_all = [Gain(1.0, is_at_least=False, is_at_most=False)]
    assert turned(carries_all * 10, 1.05).is_no_worse
    assert not turned(carries_all * 9, 1.05).is_no_worse
    assert not turned([Gain(0.9, is_at_most=False)] * 40, 1.05).is_no_worse


def test_a_bench_with_twice_the_streams_does_as_well_with_twice_as_much():
    assert turned([Gain(2.0)] * 10, 1.05, alike=2).is_no_worse
    assert turned([Gain(1.8)] * 10, 1.05, alike=2).is_worse


def test_without_a_pair_nothing_is_known():
    standing = turned([], 1.05)
    assert (standing.gain, standing.pairs, standing.is_better, standing.is_no_better) == (None, 0, False, False)

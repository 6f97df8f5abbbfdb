"""Points of a loss curve: intervals that cover, warnings that tell."""

from dataclasses import replace
from math import comb
from random import Random

import pytest

from pinchpoint.diagnose.loss_curve import order_interval, point, unknown, warnings


@pytest.mark.parametrize(("n", "ranks"), [(5, (1, 5)), (6, (1, 6)), (8, (1, 8)), (9, (2, 8)), (20, (6, 15))])
def test_the_interval_lies_between_the_ranks_of_the_sign_test(n, ranks):
    low, high, covers = order_interval([float(value) for value in range(1, n + 1)])
    assert (low, high) == ranks
    tail = sum(comb(n, k) for k in range(ranks[0])) / 2**n
    assert covers == pytest.approx(1 - 2 * tail)


@pytest.mark.parametrize("draw", [lambda r: r.expovariate(1.0), lambda r: float(r.random() < 0.3) * r.random(),
                                  lambda r: r.choice([0.1, 0.9]) + 0.01 * r.random()])  # fmt: skip
def test_it_covers_the_median_of_skewed_bimodal_and_mostly_zero_losses(draw):
    random = Random(2544)
    truth = sorted(draw(random) for _ in range(100_001))[50_000]
    hits = 0
    for _ in range(2000):
        low, high, covers = order_interval([draw(random) for _ in range(10)])
        hits += low <= truth <= high
    assert hits / 2000 >= covers - 0.01


def known(share, forwarded):
    base = unknown(share, share * 4e6, share * 4e6, "")
    return replace(base, loss=0.1, loss_low=0.1, loss_high=0.1, trials=6, forwarded_fps=forwarded,
                   forwarded_low=forwarded, forwarded_high=forwarded)  # fmt: skip


def test_a_dut_that_forwards_less_under_more_load_is_told():
    (warning,) = warnings([known(1.0, 1.5e6), known(0.9, 2.0e6)])
    assert warning == "forwarding falls under overload: 1.50 Mpps at 100 % load, 2.00 Mpps at 90 % load"
    assert list(warnings([known(1.0, 1.99e6), known(0.9, 2.0e6)])) == []


def test_a_load_without_a_valid_trial_keeps_its_reason():
    found = point(0.5, 1e6, [], "0 of 6 trials valid; last: noise")
    assert (found.loss, found.trials, found.lossless, found.generator_limited) == (None, 0, False, False)
    assert list(warnings([found])) == ["50 % load (1.00 Mpps): 0 of 6 trials valid; last: noise"]

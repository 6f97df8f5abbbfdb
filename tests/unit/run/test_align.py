"""Clocks are aligned by rates that vary; by what does not vary, they are not."""

import random
import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pinchpoint.run.joined import Span, align


def walk(seed, seconds):
    """A rate for each second."""
    numbers = random.Random(seed)
    rate, rates = 1000.0, []
    for _ in range(seconds):
        rate = max(10.0, rate * (1 + numbers.gauss(0, 0.3)))
        rates.append(rate)
    return rates


def seen(rates, begin_s, every=1.0, ahead_s=0.0):
    """What a host reads every so often from `begin_s` on, by a clock that is ahead."""

    def frames(until_s):
        whole = int(until_s)
        return sum(rates[:whole]) + (until_s - whole) * (rates[whole] if whole < len(rates) else 0)

    spans, at = [], begin_s
    while at + every <= len(rates):
        spans.append(Span(at + ahead_s, at + every + ahead_s, frames(at + every) - frames(at)))
        at += every
    return spans


@pytest.mark.parametrize("ahead_s", [0.0, 7.0, -31.5])
def test_a_clock_that_is_ahead_is_found_from_readings_at_other_moments(ahead_s):
    rates = walk(1, 120)
    alignment = align(seen(rates, 0.0), seen(rates, 3.3, ahead_s=ahead_s))
    assert alignment.ahead_s == pytest.approx(ahead_s, abs=0.5)
    assert alignment.correlation > 0.7


def test_readings_of_different_length_are_aligned():
    rates = walk(2, 200)
    assert align(seen(rates, 0.0), seen(rates, 0.0, every=3.0, ahead_s=9.0)).ahead_s == pytest.approx(9.0, abs=1.5)


def test_a_wire_that_loses_a_share_is_aligned_all_the_same():
    rates = walk(3, 120)
    fewer = [rate * 0.6 for rate in rates]
    assert align(seen(rates, 0.0), seen(fewer, 0.0, ahead_s=4.0)).ahead_s == pytest.approx(4.0, abs=0.5)


def test_steady_rates_and_nothing_at_all_tell_no_offset():
    steady = seen([1000.0] * 60, 0.0)
    assert align(steady, steady) is None
    assert align(steady, []) is None
    assert align(seen(walk(4, 3), 0.0), seen(walk(4, 3), 0.0)) is None


@pytest.mark.thorough
@pytest.mark.parametrize("unlike", [lambda seed: white(seed), lambda seed: walk(seed, 60)], ids=["noise", "walk"])
def test_rates_that_have_nothing_to_do_with_each_other_are_seldom_aligned(unlike):
    alignments = [align(seen(walk(seed, 60), 0.0), seen(unlike(seed + 1000), 0.0)) for seed in range(200)]
    assert sum(shift is not None for shift in alignments) <= 2


def white(seed):
    numbers = random.Random(seed)
    return [numbers.uniform(500, 1500) for _ in range(60)]


Number = st.floats(allow_nan=True, allow_infinity=True)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.builds(Span, Number, Number, Number), max_size=20))
@example([Span(-1.7976931348623157e308, 9.9792015476736e291, 0.0)])
def test_whatever_a_recording_says_the_work_is_bounded(spans):
    began_s = time.process_time()
    align(spans, spans)
    assert time.process_time() - began_s < 20

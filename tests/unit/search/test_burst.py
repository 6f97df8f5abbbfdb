"""The search for the longest burst: bounds that close, no length asked twice."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinchpoint.search.burst import Bounds, longest_burst


def searched(longest, start=1024, most=1_000_000, width=0.01, gallop=2.0):
    asked = []

    def loses(frames):
        asked.append(frames)
        return frames > longest

    return longest_burst(loses, start, most, width, gallop), asked


@given(st.integers(1, 100_000), st.integers(1, 200_000), st.sampled_from([0.0001, 0.01, 0.3]), st.floats(1.001, 2.0))
def test_the_bounds_enclose_the_truth_within_the_width_and_no_length_is_asked_twice(longest, start, width, gallop):
    burst, asked = searched(longest, start, 200_000, width, gallop)
    assert burst.lossless <= longest < burst.lossy
    assert burst.lossy - burst.lossless <= max(1, width * burst.lossy)
    assert len(set(asked)) == len(asked)


def test_a_dut_that_loses_nothing_ends_at_the_longest_allowed():
    assert searched(10**9, most=50_000) == (Bounds(50_000, None), [1024, 2048, 4096, 8192, 16384, 32768, 50_000])


def test_a_dut_that_loses_even_one_frame_has_no_lossless_burst():
    assert searched(0)[0] == Bounds(0, 1)


@pytest.mark.parametrize("truth", [1900, 2000, 2100])
def test_a_start_near_the_truth_with_small_steps_takes_few_bursts(truth):
    burst, asked = searched(truth, start=2000, gallop=1.04)
    assert burst.lossless <= truth < burst.lossy
    assert len(asked) <= 6

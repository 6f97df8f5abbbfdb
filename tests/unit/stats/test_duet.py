"""The ratio of two benches out of alternating slices, on hosts that wander, jump and stand still."""

import math
from dataclasses import replace

import pytest
from scipy.stats import binom
from slices import RING, SLICING, constant, jumping, stretch, wandering

from pinchpoint.model.duet import CALIBRATION, Slicing
from pinchpoint.stats import duet
from pinchpoint.stats.duet import absorbed_s, compare_slices, quads_in_blocks, steady, why_discarded
from pinchpoint.stats.paired import pseudomedian

HOSTS = {"quiet": lambda seed: constant(), "wandering": wandering, "jumping": jumping}
# Hosts, and simulated comparisons: more of them only where simulations are run.
FEW = (("wandering", 15),)
MANY = tuple(pytest.param(host, 60, marks=pytest.mark.thorough) for host in HOSTS)


@pytest.mark.parametrize(("host", "times"), FEW + MANY)
def test_a_against_a_seldom_differs_and_the_interval_is_narrow(host, times):
    differences = [compare_slices([stretch(HOSTS[host](seed), seed=seed)]).difference for seed in range(times)]
    differing = sum(difference.differs for difference in differences)
    assert binom.sf(differing - 1, times, 0.05) > 0.03, "more than chance has in 3 of 100"
    assert sorted((difference.high - difference.low) / 2 for difference in differences)[times // 2] < 0.011


@pytest.mark.parametrize(("host", "times"), FEW + MANY)
def test_two_per_cent_are_found_in_a_minute_and_the_interval_holds_them(host, times):
    differences = [
        compare_slices([stretch(HOSTS[host](seed), ratio=0.98, length_s=60, seed=seed)]).difference
        for seed in range(times // 3)
    ]
    missed = sum(not (difference.differs and difference.value < 1) for difference in differences)
    outside = sum(not difference.low <= 0.98 <= difference.high for difference in differences)
    assert missed <= times // 30
    assert binom.sf(outside - 1, times // 3, 0.05) > 0.03


def test_a_linear_drift_is_in_no_quad():
    def rising(second):
        return 1e6 * math.exp(0.2 * second)

    even = Slicing(0.010, 0.0001, 0.0)
    compared = compare_slices([stretch(rising, scatter=0, slicing=even, length_s=8)])
    assert compared.difference.value == pytest.approx(1, abs=1e-4)


def test_slices_in_which_the_engine_stood_still_are_discarded_and_counted_with_their_quads():
    compared = compare_slices([stretch(constant(), ratio=0.9, gaps=0.05, scatter=0.01)])
    assert compared.difference.value == pytest.approx(0.9, abs=0.002)
    discarded = compared.summary.discarded
    assert set(discarded) == {duet.STOOD_STILL, duet.NEIGHBOUR}
    assert compared.summary.used + sum(discarded.values()) == compared.summary.slices == 3000
    assert compared.summary.quads_used == compared.summary.used // 4


def test_a_pause_that_the_rings_absorb_discards_nothing():
    whole = stretch(constant(2e6), length_s=1, scatter=0)
    limit_s, part = absorbed_s(whole), whole.slices[1]
    assert limit_s == pytest.approx(RING / 2e6, rel=0.01)
    assert not why_discarded(replace(part, gap_s=0.9 * limit_s), whole.slicing, limit_s)
    assert why_discarded(replace(part, gap_s=1.1 * limit_s), whole.slicing, limit_s) == duet.STOOD_STILL


def test_what_is_no_overload_forwards_nothing_or_came_late_is_discarded_by_that_name():
    part = stretch(constant(), length_s=1).slices[1]

    def why(**changes):
        return why_discarded(replace(part, **changes), SLICING, 1e-3)

    assert why() == ""
    assert why(received=part.offered) == duet.NOT_OVERLOADED
    assert why(received=0) == duet.NOTHING
    assert why(length_s=0.0) == duet.STOOD_STILL
    assert why(switch_s=2 * SLICING.settle_s) == duet.LATE


def test_whether_a_slice_is_discarded_does_not_depend_on_its_rate_while_it_is_an_overload():
    for part in stretch(constant(), length_s=1).slices[:4]:
        for received in (1, part.offered // 2):
            assert why_discarded(replace(part, received=received), SLICING, 1e-3) == ""


def test_slices_of_an_unfinished_quad_are_not_used():
    whole = stretch(constant(), length_s=8)
    cut = replace(whole, slices=whole.slices[:-1])
    compared = compare_slices([cut])
    assert compared.summary.discarded == {duet.ABORTED: 3}
    assert compared.summary.quads_used == compared.summary.quads - 1


def test_calibration_is_part_of_no_ratio():
    calibration = stretch(constant(), ratio=0.5, length_s=8, phase=CALIBRATION)
    compared = compare_slices([calibration, stretch(constant(), length_s=8, scatter=0.01)])
    assert compared.difference.value == pytest.approx(1, abs=0.01)
    with pytest.raises(ValueError, match="measured"):
        compare_slices([calibration])


def test_every_slice_discarded_leaves_no_difference():
    compared = compare_slices([stretch(constant(), length_s=4, gaps=1.0)])
    assert compared.difference is None
    assert compared.summary.used == 0


def test_few_quads_make_few_blocks_and_no_claim():
    compared = compare_slices([stretch(constant(), ratio=0.5, length_s=1)])
    assert (compared.difference.n < 6, compared.difference.level) == (True, None)
    assert not compared.difference.differs


@pytest.mark.parametrize("length_s", [4, 30, 300])
def test_blocks_are_of_equal_size_in_the_order_of_time_and_hold_every_quad_once(length_s):
    quads = compare_slices([stretch(constant(), length_s=length_s)]).quads
    blocks = quads_in_blocks(quads)
    assert [quad for block in blocks for quad in block] == list(quads)
    sizes = [len(block) for block in blocks]
    assert max(sizes) - min(sizes) <= 1
    assert len(blocks) <= duet.MOST_BLOCKS
    assert quads_in_blocks([]) == []


def test_a_series_tells_both_rates_over_the_time_of_all_stretches():
    compared = compare_slices([stretch(constant(1e6), length_s=8, scatter=0.01),
                            stretch(constant(3e6), length_s=8, scatter=0.01)])  # fmt: skip
    first, last = compared.summary.series[0], compared.summary.series[-1]
    assert (first.a_fps, last.b_fps) == (pytest.approx(1e6, rel=0.02), pytest.approx(3e6, rel=0.02))
    assert first.at_s < 1.1 < 15 < last.at_s < 16


def test_what_a_thaw_costs_is_told_right_after_it_and_in_what_is_counted():
    early = stretch(constant(), slicing=Slicing(0.01, 0.002, 0), phase=CALIBRATION, after_thaw=0.7, length_s=8)
    counted = stretch(constant(), after_thaw=0.98, scatter=0.01)
    thaw = compare_slices([early, counted]).summary.thaw
    assert thaw.early_loss == pytest.approx(0.3, abs=0.03)
    assert thaw.residual_loss == pytest.approx(0.02, abs=0.005)
    assert thaw.switch_s == pytest.approx(50e-6)
    assert compare_slices([counted]).summary.thaw.early_loss is None


def test_slices_are_steady_unless_they_surely_forward_less_after_a_thaw():
    assert steady([stretch(constant(), length_s=0.6)], 0.03)
    assert steady([stretch(constant(), length_s=0.6, after_thaw=0.7)], 0.03) is False
    assert steady([stretch(constant(), length_s=0.04)], 0.03) is None, "too few slices to say"


def test_one_bench_that_forwards_less_after_a_thaw_is_enough_to_be_unsteady():
    """As with tables that fill the caches, beside a reference with hardly any."""
    assert steady([stretch(constant(), length_s=2.5, warm_s=0.006)], 0.03) is False


ROWS = Slicing(0.010, 0.002, 0.003, in_a_row=4, warming=2)


def test_in_a_row_of_slices_the_first_after_a_thaw_are_not_compared():
    short, rows = (
        compare_slices([stretch(wandering(3), slicing=cut, warm_s=0.018, scatter=0.02)]) for cut in (SLICING, ROWS)
    )
    assert short.difference.value < 0.8
    assert rows.difference.value == pytest.approx(1, abs=0.01)
    summary = rows.summary
    assert set(summary.discarded) == {duet.WARMING}
    assert summary.discarded[duet.WARMING] == pytest.approx(summary.slices / 4, rel=0.01)
    assert summary.used + sum(summary.discarded.values()) == summary.slices == 3000 // 16 * 16


def test_a_pause_discards_its_slice_and_not_the_row():
    rows = compare_slices([stretch(constant(), ratio=0.9, slicing=ROWS, gaps=0.1, scatter=0.01)])
    single = compare_slices([stretch(constant(), ratio=0.9, gaps=0.1, scatter=0.01)])
    assert rows.difference.value == pytest.approx(0.9, abs=0.003)
    share = {len(duet.summary.discarded): duet.summary.quads_used / duet.summary.quads for duet in (rows, single)}
    assert share[3] > 0.9 > share[2]
    assert rows.summary.used + sum(rows.summary.discarded.values()) == rows.summary.slices


def test_a_row_of_which_less_than_half_can_be_used_is_not_compared():
    compared = compare_slices([stretch(constant(), slicing=ROWS, gaps=0.7, scatter=0.01)])
    assert compared.summary.quads_used < 0.1 * compared.summary.quads


def test_slices_that_turned_out_too_short_are_not_compared():
    cold = stretch(constant(), warm_s=0.018, length_s=5, scatter=0.01)
    compared = compare_slices([cold, stretch(constant(), slicing=ROWS, warm_s=0.018, scatter=0.01)])
    assert compared.difference.value == pytest.approx(1, abs=0.01)
    assert compared.summary.discarded[duet.TOO_SHORT] == len(cold.slices)
    assert compared.summary.slicing == ROWS


def test_a_pseudomedian_is_not_moved_by_one_outlier():
    assert pseudomedian([0.0, 0.1, -0.1, 0.05, -0.05, 50.0]) < 0.1
    assert pseudomedian([3.0]) == 3.0

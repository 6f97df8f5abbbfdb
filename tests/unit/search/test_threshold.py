"""Our own search on the simulated bench: what it finds, what it refuses, and how far its intervals may be trusted."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import Bench, search_with

from pinchpoint.engine.simulated import CoreDistance, RandomLoss, SlowPeriods, StallKind, Stalls, Truth
from pinchpoint.model import units
from pinchpoint.model.result import Ceiling, RateStatus
from pinchpoint.model.scenario import SearchMethod
from pinchpoint.model.trial import Trial, TrialValidity
from pinchpoint.search import SearchOutcome, find_rates
from pinchpoint.search.reach import HEADROOM

CAPACITY = 5e6
QUIET = Truth(CAPACITY, dips=0.0015, stalls=(Stalls(StallKind.DUT, 0.02, 0.0003),))


def searched(bench: Bench, ceiling_fps: float | None = None, **changes: object) -> SearchOutcome:
    wanted: dict[str, object] = {"method": SearchMethod.THRESHOLD, "relative_width": 0.01}
    search = search_with(**(wanted | changes))
    known = () if ceiling_fps is None else (Ceiling(ceiling_fps, "2026-01-02T03:00:00+00:00", "a key", None),)
    return find_rates(bench.measure, search, bench.now_s, ceilings=known)


def distance_of(trial: Trial) -> float | None:
    return trial.witness.cache_line_before_ns


@pytest.mark.parametrize("capacity_fps", [50_000.0, 777_777.0, 5e6, 18e6])
def test_on_an_ideal_bench_the_intervals_hold_the_truth_and_are_as_narrow_as_asked_for(capacity_fps: float) -> None:
    bench = Bench(Truth(capacity_fps, ring=64))
    outcome = searched(bench)
    for rate, truth in zip(outcome.rates, (capacity_fps + 64, (capacity_fps + 64) / 0.995), strict=True):
        assert (rate.status, rate.reason, rate.confidence) == (RateStatus.FOUND, "", 0.95)
        assert rate.lower_fps is not None and rate.upper_fps is not None and rate.estimate_fps is not None
        assert rate.lower_fps <= truth <= rate.upper_fps
        assert rate.lower_fps <= rate.estimate_fps <= rate.upper_fps
        assert rate.upper_fps - rate.lower_fps <= 0.01 * rate.upper_fps
    assert len(bench.trials) <= 25


def test_intervals_cover_the_truth_as_often_as_they_say() -> None:
    """The threshold of a device with normal noise is its capacity: half of the trials lose. 95 % intervals, 80 %
    at least must hold it in 40 searches (chance of fewer, were they honest: 0.05 %)."""
    covered = 0
    for seed in range(40):
        bench = Bench(Truth(CAPACITY, noise=0.004, ring=64, seed=seed))
        rate = searched(bench, loss_ratios=(0.0,), max_traffic_s=40.0).rates[0]
        assert rate.lower_fps is not None and rate.upper_fps is not None
        assert rate.upper_fps - rate.lower_fps <= 0.05 * rate.upper_fps
        covered += rate.lower_fps <= CAPACITY + 64 <= rate.upper_fps
    assert covered >= 33


def test_a_quiet_device_takes_twenty_seconds_of_traffic() -> None:
    traffic_s = []
    for seed in range(6):
        bench = Bench(replace(QUIET, seed=seed))
        assert [rate.status for rate in searched(bench).rates] == [RateStatus.FOUND] * 2
        traffic_s.append(sum(trial.sent_duration_s for trial in bench.trials))
    assert sum(traffic_s) / len(traffic_s) <= 22


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("share", [0.3, 0.8])
def test_a_rate_beyond_the_generators_ceiling_is_told_as_at_least(share: float, is_known: bool, seed: int) -> None:
    ceiling_fps = share * CAPACITY
    bench = Bench(replace(QUIET, ceiling_fps=ceiling_fps, seed=seed))
    for rate in searched(bench, ceiling_fps if is_known else None).rates:
        assert rate.status is RateStatus.AT_LEAST
        assert rate.reason.startswith("generator-limited: ")
        assert rate.lower_fps is not None and 0.96 * ceiling_fps <= rate.lower_fps <= ceiling_fps
        assert rate.upper_fps is None and rate.estimate_fps is None


@pytest.mark.parametrize(("confidence", "fewest"), [(0.5, 3), (0.9, 3), (0.95, 4), (0.99, 6)])
def test_at_least_rests_on_as_many_clean_trials_at_the_top_as_the_confidence_asks_for(
    confidence: float, fewest: int
) -> None:
    bench = Bench(Truth(3 * CAPACITY))
    rates = searched(bench, max_load_fps=CAPACITY, confidence=confidence).rates
    assert [(rate.status, rate.reason) for rate in rates] == [(RateStatus.AT_LEAST, "search.max_load_fps reached")] * 2
    assert sum(trial.load_fps == CAPACITY for trial in bench.trials) >= fewest


def test_a_disturbed_trial_at_the_top_is_made_up_for_by_more_clean_ones() -> None:
    bench, spoilt = Bench(Truth(3 * CAPACITY)), Bench(Truth(3 * CAPACITY, loss_ratio=0.01))

    def measure(duration_s: float, load_fps: float) -> Trial:
        return (spoilt if len(bench.trials) == 3 and not spoilt.trials else bench).measure(duration_s, load_fps)

    search = search_with(method=SearchMethod.THRESHOLD, max_load_fps=CAPACITY, relative_width=0.01)
    for rate in find_rates(measure, search, bench.now_s).rates:
        assert rate.status is RateStatus.AT_LEAST
        assert rate.lower_fps is not None and rate.lower_fps >= 0.99 * CAPACITY
    assert len(spoilt.trials) == 1
    assert sum(trial.load_fps >= 0.99 * CAPACITY for trial in bench.trials) >= 4


@pytest.mark.parametrize("max_traffic_s", range(1, 5))
def test_a_search_that_is_stopped_before_the_top_is_sure_does_not_say_that_it_was_reached(max_traffic_s: int) -> None:
    bench = Bench(Truth(3 * CAPACITY))
    for rate in searched(bench, max_load_fps=CAPACITY, max_traffic_s=float(max_traffic_s)).rates:
        assert rate.status is RateStatus.REFUSED
        assert rate.reason.startswith(f"search.max_traffic_s = {max_traffic_s} s reached after ")


def test_an_overloaded_device_tells_where_to_look_without_the_ceiling_being_sought() -> None:
    bench = Bench(Truth(CAPACITY, ceiling_fps=11e6))
    assert searched(bench).rates[0].status is RateStatus.FOUND
    limited = [trial for trial in bench.trials if trial.validity is TrialValidity.GENERATOR_LIMITED]
    assert len(limited) == 1


def test_where_most_trials_lose_at_a_tenth_of_the_load_the_ndr_is_undefined_and_the_pdr_found() -> None:
    bench = Bench(Truth(CAPACITY, stalls=(Stalls(StallKind.DUT, 3.0, 0.003),)))
    ndr, pdr = searched(bench, loss_ratios=(0.0, 0.05)).rates
    assert ndr.status is RateStatus.REFUSED
    assert ndr.reason.startswith("NDR undefined on this host: ")
    assert ndr.reason.endswith("of 1 s trials at 10% load lose frames")
    assert (ndr.lower_fps, ndr.estimate_fps, ndr.upper_fps) == (None, None, None)
    assert pdr.status is RateStatus.FOUND
    assert pdr.estimate_fps == pytest.approx(CAPACITY / 0.95, rel=0.02)


@pytest.mark.parametrize("seed", range(4))
def test_where_most_trials_exceed_a_pdr_at_any_load_there_is_none_near_the_capacity(seed: int) -> None:
    """Two stalls cost more than 0.5 %, and 59 % of the trials have two, from a seventh of the capacity upwards."""
    hostile = Truth(CAPACITY, dips=0.02, stalls=(Stalls(StallKind.DUT, 2.0, 0.004),), seed=seed)
    for rate in searched(Bench(hostile), max_traffic_s=50.0).rates:
        assert rate.status is RateStatus.REFUSED


@pytest.mark.parametrize("seed", [6000170, 6000179, 6000376, 6000034, 6000205, 6000254, 6000269])
def test_a_few_lucky_trials_of_a_device_that_loses_frames_in_most_make_no_rate(seed: int) -> None:
    """By the model alone, these were told a rate: a clean trial at half load, or some where the search went."""
    slow = SlowPeriods(0.8, 20.0, 3.0)
    hostile = Truth(CAPACITY, dips=0.02, stalls=(Stalls(StallKind.DUT, 2.0, 0.004),), slow=slow, seed=seed)
    for rate in searched(Bench(hostile), max_traffic_s=50.0, max_duration_s=3600.0).rates:
        assert rate.status is RateStatus.REFUSED


@pytest.mark.parametrize("seed", range(4))
def test_a_constant_share_of_lost_frames_is_no_ndr(seed: int) -> None:
    ndr, pdr = searched(Bench(Truth(CAPACITY, random_loss=RandomLoss(1e-6), seed=seed))).rates
    assert ndr.status is RateStatus.REFUSED
    assert "NDR undefined on this host" in ndr.reason
    assert pdr.status is RateStatus.FOUND


def test_each_mode_of_the_cores_has_rates_of_its_own() -> None:
    bench = Bench(replace(QUIET, core_distance=CoreDistance(dwell_s=8.0), seed=2))
    search = search_with(method=SearchMethod.THRESHOLD, relative_width=0.01)
    outcome = find_rates(bench.measure, search, bench.now_s, mode_of=distance_of)
    assert len(outcome.modes) == 2
    assert outcome.rates == outcome.modes[0].rates
    valid = sum(trial.validity is TrialValidity.VALID for trial in bench.trials)
    assert sum(mode.trials for mode in outcome.modes) == valid
    for mode in outcome.modes:
        truth = CAPACITY if mode.distance_ns == 30 else CAPACITY / 2
        assert mode.label == f"cores {units.nanoseconds(mode.distance_ns)} apart"
        for rate in mode.rates:
            assert rate.status in (RateStatus.FOUND, RateStatus.REFUSED)
            if rate.status is RateStatus.FOUND:
                assert rate.estimate_fps == pytest.approx(truth, rel=0.02)


def beside_a_neighbour(
    is_slowed: Callable[[int], bool], *, knows: Callable[[int], bool] = lambda made: True, **slowed_truth: object
) -> tuple[SearchOutcome, list[Trial], list[Trial]]:
    """A search while a neighbour slows the DUT's core in some trials, by number; all trials, and those beside it.

    `knows`: whether slowed trials can be told from others once so many were made.
    """
    alone_truth = replace(QUIET, core_distance=CoreDistance(30.0, 30.0, far_capacity=1.0))
    changes: dict[str, object] = {"capacity_fps": 0.6 * CAPACITY} | slowed_truth
    alone, beside = Bench(alone_truth), Bench(replace(alone_truth, **changes))  # type: ignore[arg-type]
    made, slowed = list[Trial](), list[Trial]()

    def measure(duration_s: float, load_fps: float) -> Trial:
        bench = beside if is_slowed(len(made)) else alone
        made.append(bench.measure(duration_s, load_fps))
        slowed.extend(made[-1:] if bench is beside else [])
        return made[-1]

    outcome = find_rates(
        measure,
        search_with(method=SearchMethod.THRESHOLD, relative_width=0.01, max_traffic_s=120.0),
        lambda: alone.now_s() + beside.now_s(),
        mode_of=distance_of,
        is_slowed=lambda trial: knows(len(made)) and any(trial is one for one in slowed),
    )
    return outcome, made, slowed


def by_chance(share: float) -> Callable[[int], bool]:
    chance = Random(1)
    return lambda number: chance.random() < share


@pytest.mark.parametrize("share", [0.2, 0.5, 0.65])
def test_trials_that_a_neighbour_slowed_do_not_move_the_rates_of_those_that_none_did(share: float) -> None:
    outcome, _, slowed = beside_a_neighbour(by_chance(share))
    assert slowed
    first = outcome.modes[0]
    assert (first.slowed, first.label) == (False, "cores 30.0 ns apart")
    for rate in outcome.rates:
        assert rate.status is RateStatus.FOUND
        assert rate.estimate_fps == pytest.approx(CAPACITY, rel=0.01)
    (other,) = outcome.modes[1:]
    assert (other.slowed, other.label) == (True, "cores 30.0 ns apart, the switch's slowed by a neighbour")
    assert other.trials == len(slowed)


def test_a_neighbour_that_leaves_late_was_there_all_the_time() -> None:
    """What it left passes for the whole core until it is gone; the trials until then are told apart all the same."""
    outcome, made, _ = beside_a_neighbour(lambda number: number < 12, knows=lambda made: made > 12)
    assert [(mode.slowed, mode.trials) for mode in outcome.modes] == [(False, len(made) - 12), (True, 12)]
    assert outcome.rates[0].status is RateStatus.FOUND
    assert outcome.rates[0].estimate_fps == pytest.approx(CAPACITY, rel=0.01)


def test_a_generator_that_falls_short_of_a_slowed_device_does_not_bound_the_other() -> None:
    """A slowed device keeps all rings full, and that slows the generator too."""
    outcome, *_ = beside_a_neighbour(lambda number: number % 3 == 0, capacity_fps=1e6, ceiling_fps=2.5e6)
    assert not outcome.modes[0].slowed
    assert outcome.rates[0].status is RateStatus.FOUND
    assert outcome.rates[0].estimate_fps == pytest.approx(CAPACITY, rel=0.01)


def test_where_a_neighbour_never_leaves_its_mode_is_told_as_that() -> None:
    outcome, _, slowed = beside_a_neighbour(by_chance(0.99))
    assert outcome.modes[0].slowed
    assert outcome.rates[0].status is RateStatus.FOUND
    assert outcome.rates[0].estimate_fps == pytest.approx(0.6 * CAPACITY, rel=0.01)
    assert outcome.modes[0].trials == len(slowed)


def test_a_generator_that_falls_short_in_one_mode_bounds_no_other_mode() -> None:
    far = Bench(Truth(50e6, ceiling_fps=2e6, core_distance=CoreDistance(160.0, 160.0, far_capacity=1.0)))
    near = Bench(replace(QUIET, core_distance=CoreDistance(30.0, 30.0, far_capacity=1.0)))

    def measure(duration_s: float, load_fps: float) -> Trial:
        return (far if len(far.trials) < 4 else near).measure(duration_s, load_fps)

    search = search_with(method=SearchMethod.THRESHOLD, relative_width=0.01)
    outcome = find_rates(measure, search, near.now_s, mode_of=distance_of)
    assert outcome.modes[0].distance_ns == 30.0
    assert [rate.status for rate in outcome.rates] == [RateStatus.FOUND] * 2
    assert outcome.rates[0].estimate_fps == pytest.approx(CAPACITY, rel=0.01)
    assert [mode.most_offered_fps for mode in outcome.modes] == [
        max(trial.offered_fps for trial in bench.trials if trial.validity is TrialValidity.VALID)
        for bench in (near, far)
    ]


def test_each_mode_is_tried_up_to_the_ceiling_of_its_own() -> None:
    bench = Bench(Truth(50e6, ring=64, core_distance=CoreDistance(dwell_s=6.0, far_capacity=1.0), seed=4))
    known = [Ceiling(fps, "2026-01-02T03:00:00+00:00", "a key", distance_ns)
             for fps, distance_ns in ((8e6, 30.0), (3e6, 160.0))]  # fmt: skip
    search = search_with(method=SearchMethod.THRESHOLD, relative_width=0.01)
    outcome = find_rates(bench.measure, search, bench.now_s, ceilings=known, mode_of=distance_of)
    assert any(rate.status is RateStatus.AT_LEAST for mode in outcome.modes for rate in mode.rates)
    for mode in outcome.modes:
        own = next(one for one in known if one.distance_ns == mode.distance_ns)
        for rate in mode.rates:
            if rate.status is RateStatus.AT_LEAST:
                assert rate.lower_fps == pytest.approx(HEADROOM * own.fps, rel=0.01)
                assert f"offered {units.fps(own.fps)} (cores {units.nanoseconds(own.distance_ns)} apart)" in rate.reason


@pytest.mark.parametrize("seed", range(6))
def test_two_modes_that_nothing_tells_apart_are_never_averaged(seed: int) -> None:
    bench = Bench(replace(QUIET, core_distance=CoreDistance(dwell_s=6.0), seed=seed))
    for rate in searched(bench).rates:
        if rate.status is RateStatus.FOUND:
            assert rate.estimate_fps is not None
            assert min(abs(rate.estimate_fps / truth - 1) for truth in (CAPACITY, CAPACITY / 2)) < 0.03


def test_a_spent_budget_leaves_an_answer_with_its_interval_or_a_refusal() -> None:
    noisy = Truth(CAPACITY, noise=0.02)
    rate = searched(Bench(noisy), max_traffic_s=30.0, relative_width=0.001).rates[0]
    assert rate.reason.startswith("search.max_traffic_s = 30 s reached after 30 valid trials")
    refused = searched(Bench(noisy), max_traffic_s=3.0).rates[0]
    assert refused.status is RateStatus.REFUSED
    assert "the interval reached is " in refused.reason


def test_the_time_bound_is_told_as_the_user_wrote_it() -> None:
    bench = Bench(Truth(CAPACITY, overhead_s=50.0))
    search = search_with(method=SearchMethod.THRESHOLD, max_duration_s=300.0)
    outcome = find_rates(bench.measure, search, bench.now_s, began_s=-100.0)
    assert "search.max_duration_s = 300 s reached after 4 trials, 4 of them valid" in outcome.rates[0].reason


def test_the_same_trials_lead_to_the_same_loads() -> None:
    truth = replace(QUIET, noise=0.01, stalls=(Stalls(StallKind.DUT_THREAD, 0.5, 0.002),))
    first, second = Bench(truth), Bench(truth)
    assert searched(first) == searched(second)
    assert first.trials == second.trials


TRUTHS: st.SearchStrategy[Truth] = st.builds(
    Truth,
    capacity_fps=st.floats(1e4, 5e7),
    ring=st.sampled_from([64, 1024, 32768]),
    noise=st.sampled_from([0.0, 0.02]),
    loss_ratio=st.sampled_from([0.0, 0.0, 0.001, 0.5]),
    ceiling_fps=st.floats(1e4, 5e7),
    stalls=st.lists(
        st.builds(Stalls, st.sampled_from(StallKind), per_second=st.floats(0.01, 10), length_s=st.floats(1e-5, 0.2)),
        max_size=2,
    ).map(tuple),
    core_distance=st.none() | st.just(CoreDistance(dwell_s=5)),
    seed=st.integers(0, 100),
)


@settings(deadline=None, max_examples=25)
@given(TRUTHS, st.floats(1e3, 1e5), st.floats(1.01, 1e4))
def test_on_any_bench_a_search_ends_in_order_and_below_what_the_generator_offered(
    truth: Truth, min_load_fps: float, span: float
) -> None:
    bench = Bench(truth)
    limits = {"min_load_fps": min_load_fps, "max_load_fps": min_load_fps * span}
    rates = searched(bench, max_traffic_s=15.0, max_repeats=2, **limits).rates
    found = [rate for rate in rates if rate.status is RateStatus.FOUND]
    for stricter, rate in pairwise(found):
        assert (stricter.quoted_fps or 0) <= (rate.quoted_fps or 0)
    for rate in found:
        assert rate.upper_fps is not None
        assert rate.upper_fps <= 1.001 * min(truth.ceiling_fps, min_load_fps * span)
    assert all(trial.load_fps <= min_load_fps * span for trial in bench.trials)

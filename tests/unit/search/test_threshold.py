"""Our own search on the simulated bench: the load at which half of the trials lose, whatever the reason."""

import math
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from random import Random
from statistics import median

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from simulated import RandomLoss, Truth
from simulated_queue import Collapse, Jumps, RandomWalk, StallKind, Stalls
from support import Bench, search_with

from pinchpoint.model.result import Ceiling, Limit, Rate, RateStatus
from pinchpoint.model.scenario import SearchMethod
from pinchpoint.model.trial import Cause, Trial, TrialValidity
from pinchpoint.search import SearchOutcome, find_rates
from pinchpoint.search.slices import SLICES
from pinchpoint.search.threshold import FEWEST

CAPACITY = 5e6
QUIET = Truth(CAPACITY, dips=0.0015, stalls=(Stalls(StallKind.DUT, 0.02, 0.0003),))
Measure = Callable[[float, float], Trial]


def searched(bench: Bench, measure: Measure | None = None, known_fps: float | None = None,
             **changes: object) -> SearchOutcome:  # fmt: skip
    wanted: dict[str, object] = {"method": SearchMethod.THRESHOLD, "relative_width": 0.01}
    known = () if known_fps is None else (Ceiling(known_fps, "2026-01-02T03:00:00+00:00", "a key", None),)
    return find_rates(measure or bench.measure, search_with(**(wanted | changes)), bench.now_s, ceilings=known)


def short(truth: Truth, **changes: object) -> Rate:
    """The NDR of a search in trials of 0.2 s whose slices are looked at."""
    wanted = {"trial_duration_s": 0.2, "max_traffic_s": 12.0, "loss_ratios": (0.0,)} | changes
    return searched(Bench(truth, slices=SLICES), **wanted).rates[0]


def assert_found(rate: Rate) -> tuple[float, float, float]:
    assert rate.status is RateStatus.FOUND, rate
    assert rate.lower_fps is not None and rate.estimate_fps is not None and rate.upper_fps is not None
    assert rate.lower_fps <= rate.estimate_fps <= rate.upper_fps
    return rate.lower_fps, rate.estimate_fps, rate.upper_fps


@pytest.mark.parametrize("capacity_fps", [50_000.0, 5e6, 18e6])
def test_on_an_ideal_bench_the_intervals_hold_the_truth_and_are_as_narrow_as_asked_for(capacity_fps: float) -> None:
    bench = Bench(Truth(capacity_fps, ring=64))
    outcome = searched(bench)
    for rate, truth in zip(outcome.rates, (capacity_fps + 64, (capacity_fps + 64) / 0.995), strict=True):
        lower, _, upper = assert_found(rate)
        assert (rate.reason, rate.confidence) == ("", 0.95)
        assert lower <= truth <= upper
        assert upper - lower <= 0.01 * upper
        assert rate.band is not None and rate.band.high_fps - rate.band.low_fps <= 0.01 * upper
    assert len(bench.trials) <= 40


def paused(per_second: float, length_s: float, **changes: object) -> Truth:
    """A device that pauses by itself."""
    truth = Truth(10e6, ring=4096, stalls=(Stalls(StallKind.DUT, per_second, length_s),), overhead_s=0.05)
    return replace(truth, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("truth", "literal_fps"),
    [
        (paused(10, 0.0006), 4096 / 0.0006),
        (paused(10, 0.0006, noise=0.03), 4096 / 0.0006),
        (paused(10, 0.0004, capacity_fps=4e6, ring=1024), 1024 / 0.0004),
        (paused(1, 0.0006), 10e6),
    ],
    ids=["most trials meet a pause", "and the level has noise", "a smaller ring", "few trials meet one"],
)
def test_a_pause_that_half_of_the_trials_meet_bounds_the_rate_where_the_ring_bears_it(truth, literal_fps) -> None:
    rates = [assert_found(short(replace(truth, seed=seed))) for seed in range(3)]
    held = [lower <= literal_fps * 1.001 and upper >= literal_fps * 0.999 for lower, _, upper in rates]
    assert sum(held) >= 2, "an interval of 95 % misses one in twenty"
    for _, estimate, _ in rates:
        assert estimate == pytest.approx(literal_fps, rel=0.03)


def test_where_about_half_of_the_trials_lose_over_a_wide_range_the_interval_is_wide() -> None:
    """Pauses 3.5 times a second: between 6.83 and 10 Mpps half of the trials lose, and either end may be the rate."""
    lower, _, upper = assert_found(short(paused(3.5, 0.0006)))
    assert lower <= 1.03 * 4096 / 0.0006
    assert upper >= 0.95 * 10e6


def test_a_quiet_device_ends_long_before_its_budget() -> None:
    bench = Bench(QUIET, slices=SLICES)
    outcome = searched(bench, trial_duration_s=0.2)
    assert [rate.status for rate in outcome.rates] == [RateStatus.FOUND] * 2
    assert sum(trial.sent_duration_s for trial in bench.trials) <= 8.0  # of 60; about 5.5 in the mean of many seeds


@pytest.mark.parametrize("moves", [RandomWalk(0.05), Jumps(1.6, 4.0)], ids=["walk", "jumps"])
def test_a_device_that_moves_gets_a_number_between_what_it_carried_and_a_band(moves: RandomWalk | Jumps) -> None:
    """The errors allowed are several times those of the benchmark's aims: one search each."""
    bench = Bench(Truth(CAPACITY, moves=moves, overhead_s=0.05, seed=3), slices=SLICES)
    rate = searched(bench, trial_duration_s=0.2, max_traffic_s=12.0, loss_ratios=(0.0,)).rates[0]
    lower, _, upper = assert_found(rate)
    spans = [bench.instrument.capacity(0.05 * number, 0.05 * number + 0.2) for number in range(int(20 * bench.now_s()))]
    carried = [CAPACITY * min(share for _, share in span) for span in spans]
    assert 0.9 * lower <= median(carried) <= 1.1 * upper
    assert rate.band is not None and rate.band.low_fps < rate.band.high_fps


def test_the_track_has_a_moment_for_each_trial_that_counts() -> None:
    bench = Bench(Truth(CAPACITY, noise=0.01, stalls=(Stalls(StallKind.ENGINE, 0.5, 0.06),)))
    track = searched(bench, max_traffic_s=20.0).track
    counted = [trial.id for trial in bench.trials if trial.is_usable and trial.duration_s == 1.0]
    assert [moment.trial_id for moment in track] == counted


def test_loads_on_both_sides_are_tried_and_the_claim_is_counted_from_the_trials() -> None:
    bench = Bench(QUIET, slices=SLICES)
    for rate in searched(bench, trial_duration_s=0.2).rates:
        assert rate.claim is not None and rate.claim.holds
        assert rate.claim.supported
        near = [t for t in bench.trials if 0.97 * assert_found(rate)[1] <= t.offered_fps <= assert_found(rate)[1]]
        assert rate.claim.below.trials == len(near)
        assert rate.claim.below.losing == sum(trial.loss_ratio > rate.loss_ratio for trial in near)
        assert rate.at_half is not None and rate.at_half.losing == 0


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("share", [0.3, 0.8])
def test_a_rate_beyond_the_generators_ceiling_is_reported_as_at_least(share: float, known: bool) -> None:
    ceiling_fps = share * CAPACITY
    bench = Bench(replace(QUIET, ceiling_fps=ceiling_fps))
    for rate in searched(bench, known_fps=ceiling_fps if known else None).rates:
        assert (rate.status, rate.limited_by) == (RateStatus.AT_LEAST, Limit.GENERATOR)
        assert rate.reason.startswith("generator-limited: ")
        assert rate.lower_fps is not None and 0.95 * ceiling_fps <= rate.lower_fps <= ceiling_fps
        assert rate.upper_fps is None and rate.estimate_fps is None


def test_a_trial_that_the_generator_limited_counts_with_what_it_offered() -> None:
    """At 20 Mpps 11 are offered, and half of them forwarded: the first trial already measures the capacity."""
    bench = Bench(Truth(CAPACITY, ceiling_fps=11e6), slices=SLICES)
    assert_found(searched(bench).rates[0])
    assert bench.trials[0].validity is TrialValidity.GENERATOR_LIMITED
    assert bench.trials[1].load_fps < 6e6


def test_a_rate_beyond_the_searchs_maximum_is_reported_as_at_least() -> None:
    for rate in searched(Bench(Truth(3 * CAPACITY)), max_load_fps=CAPACITY).rates:
        assert (rate.status, rate.limited_by) == (RateStatus.AT_LEAST, Limit.SEARCH_MAXIMUM)
        assert rate.reason == "search.max_load_fps = 5.00 Mpps reached"
        assert rate.lower_fps is not None and rate.lower_fps <= CAPACITY


def test_a_disturbed_trial_at_the_top_does_not_hide_that_the_maximum_is_reached() -> None:
    bench, spoilt = Bench(Truth(3 * CAPACITY)), Bench(Truth(3 * CAPACITY, loss_ratio=0.01))

    def measure(duration_s: float, load_fps: float) -> Trial:
        return (spoilt if len(bench.trials) == 3 and not spoilt.trials else bench).measure(duration_s, load_fps)

    for rate in searched(bench, measure, max_load_fps=CAPACITY).rates:
        assert rate.status is RateStatus.AT_LEAST
        assert rate.lower_fps is not None and rate.lower_fps >= 0.9 * CAPACITY
    assert len(spoilt.trials) == 1


def test_a_rate_below_the_searchs_minimum_is_reported_as_that() -> None:
    rate = searched(Bench(Truth(20_000)), min_load_fps=1e6).rates[0]
    assert rate.status is RateStatus.BELOW_MINIMUM
    assert rate.reason == "most trials lost frames even at search.min_load_fps = 1.00 Mpps"
    assert rate.upper_fps == 1e6 and rate.estimate_fps is None


def test_where_most_trials_lose_at_the_lowest_load_the_loss_ratio_is_the_ndr_and_the_pdr_is_found() -> None:
    """1 % of the frames, whatever the load: every trial loses some from 10 kpps upwards."""
    bench = Bench(Truth(CAPACITY, ring=64, random_loss=RandomLoss(0.01)), slices=SLICES)
    ndr, pdr = searched(bench, loss_ratios=(0.0, 0.05), trial_duration_s=0.2, max_traffic_s=10.0).rates
    assert ndr.status is RateStatus.LOSES_ALWAYS
    assert ndr.floor is not None and ndr.floor.lower <= 0.01 <= ndr.floor.upper
    assert (ndr.lower_fps, ndr.estimate_fps, ndr.upper_fps) == (None, None, None)
    assert assert_found(pdr)[1] == pytest.approx(CAPACITY / 0.96, rel=0.03)


def test_a_small_ratio_that_is_lost_at_any_load_stands_beside_the_literal_rate() -> None:
    """Of trials of 0.2 s at 347 kpps half lose one of a hundred thousand frames."""
    held = []
    for seed in range(3):
        bench = Bench(Truth(CAPACITY, random_loss=RandomLoss(1e-5), seed=seed), slices=SLICES)
        ndr, pdr = searched(bench, trial_duration_s=0.2, max_traffic_s=16.0).rates
        lower, _, upper = assert_found(ndr)
        held.append(lower <= 346_574 <= upper)
        assert ndr.floor is not None and ndr.floor.lower <= 1e-5 <= ndr.floor.upper
        assert assert_found(pdr)[1] == pytest.approx(CAPACITY / 0.995, rel=0.02)
        assert pdr.floor is None
    assert sum(held) >= 2


def test_of_a_policers_bucket_the_sustained_rate_is_published_and_the_rested_one_stands_beside_it() -> None:
    """300 kpps and a bucket of 60,000 frames: twice as much in the 0.2 s after a rest."""
    rate = short(Truth(3e5, ring=60_000, is_meter=True, overhead_s=0.05), max_traffic_s=16.0)
    lower, estimate, upper = assert_found(rate)
    assert lower <= 3e5 <= upper
    assert rate.memory is not None
    assert rate.memory.sustained_fps == estimate == pytest.approx(3e5, rel=0.01)
    assert 5e5 < rate.memory.rested_fps < 8e5


def test_a_device_that_forwards_less_under_overload_but_forgets_it_has_no_memory() -> None:
    rate = short(Truth(4e6, collapse=Collapse(0.6), overhead_s=0.05))
    assert rate.memory is None
    assert assert_found(rate)[1] == pytest.approx(4e6, rel=0.01)


@pytest.mark.parametrize("share", [0.9, 0.95, 0.98])
def test_what_a_device_forwards_under_overload_is_not_believed_without_trials_beside_the_rate(share: float) -> None:
    """It forwards a little less once it is overloaded, so near to its level that either may be taken for it."""
    rate = short(Truth(4e6, collapse=Collapse(share), overhead_s=0.05))
    lower, estimate, upper = assert_found(rate)
    assert lower <= 4e6 * 1.002 and upper >= 4e6 * 0.998
    assert estimate == pytest.approx(4e6, rel=0.01)
    assert rate.claim is not None and min(rate.claim.below.trials, rate.claim.above.trials) > 0


@pytest.mark.parametrize("moves", [RandomWalk(0.1), Jumps(1.6, 4.0)], ids=["walk", "jumps"])
@pytest.mark.parametrize("seed", range(3))
def test_the_last_of_the_budget_is_spent_beside_rates_that_too_few_trials_support(moves, seed: int) -> None:
    bench = Bench(Truth(CAPACITY, moves=moves, overhead_s=0.05, seed=seed), slices=SLICES)
    for rate in searched(bench, trial_duration_s=0.2, max_traffic_s=5.0).rates:
        _, estimate, _ = assert_found(rate)
        assert rate.claim is not None and rate.claim.supported
        for below, above in ((0.98, 1.0), (1.0, 1.02)):
            assert any(below * estimate <= trial.offered_fps <= above * estimate for trial in bench.trials)
    assert sum(trial.sent_duration_s for trial in bench.trials) <= 5.2


def test_where_no_load_of_the_interval_was_tried_on_both_sides_only_the_interval_is_published() -> None:
    """Six trials, each offered a tenth less than the one before, whatever load was asked for."""
    bench = Bench(Truth(6.5e6), slices=SLICES)

    def measure(duration_s: float, load_fps: float) -> Trial:
        return replace(bench.measure(duration_s, 10e6 * 0.9 ** len(bench.trials)), load_fps=load_fps)

    rate = searched(bench, measure, max_traffic_s=6.0, loss_ratios=(0.0,)).rates[0]
    assert (rate.status, rate.estimate_fps) == (RateStatus.REFUSED, None)
    assert rate.reason.startswith("only the 95 % interval is known, ")
    assert rate.reason.endswith(
        " Mpps: no load in it has trials on both sides within 2 %; search.max_traffic_s = 6 s used up after "
        "6 usable trials"
    )


def test_a_spent_budget_leaves_a_number_and_says_why_it_is_no_better() -> None:
    noisy = Truth(CAPACITY, noise=0.02)
    rate = searched(Bench(noisy), max_traffic_s=12.0, relative_width=0.001).rates[0]
    assert_found(rate)
    assert rate.reason.startswith("search.max_traffic_s = 12 s used up after 12 usable trials: the interval is ")
    rate = searched(Bench(replace(noisy, overhead_s=50.0)), max_duration_s=600.0, relative_width=0.001).rates[0]
    assert_found(rate)
    assert rate.reason.startswith("search.max_duration_s = 600 s used up after 12 usable trials: the interval is ")


def test_a_load_that_the_engine_cannot_offer_is_not_asked_for_until_the_search_gives_up() -> None:
    """Where sending runs the device's own work, the engine's core stands still in proportion to the load."""
    bench = Bench(Truth(CAPACITY / 10, ring=64))

    def measure(duration_s: float, load_fps: float) -> Trial:
        trial = bench.measure(duration_s, min(load_fps, 2e6))
        if load_fps <= 2e6:
            return trial
        offered = round(0.4 * load_fps * duration_s)
        ledger = replace(trial.ledger, offered=offered)
        return replace(trial, validity=TrialValidity.NOISY_HOST, reason="a gap", ledger=ledger)

    assert_found(searched(bench, measure, max_repeats=8).rates[0])


def unusable(trial: Trial) -> Trial:
    return replace(
        trial, validity=TrialValidity.NOISY_HOST, cause=Cause.RECEIVER_STOOD_STILL, reason="the core stood still"
    )


def test_unusable_trials_are_counted_and_the_load_that_they_had_is_left() -> None:
    """Above 4 Mpps the engine's receiving core cannot keep up: the rate is at least what it could."""
    bench = Bench(Truth(CAPACITY))

    def measure(duration_s: float, load_fps: float) -> Trial:
        trial = bench.measure(duration_s, load_fps)
        return unusable(trial) if load_fps > 4e6 else trial

    for rate in searched(bench, measure, max_repeats=15).rates:
        assert rate.status is RateStatus.AT_LEAST
        assert rate.lower_fps is not None and 2.5e6 < rate.lower_fps <= 4e6
        assert rate.unusable_share is not None and 0 < rate.unusable_share < 0.6
    loads = [trial.load_fps for trial in bench.trials if trial.load_fps > 4e6]
    assert len(loads) <= 15
    assert len(bench.trials) - len(loads) >= 10


def test_the_published_share_of_unusable_trials_is_of_those_in_which_a_receiver_stood_still() -> None:
    bench = Bench(Truth(CAPACITY))

    def measure(duration_s: float, load_fps: float) -> Trial:
        trial = bench.measure(duration_s, load_fps)
        if len(bench.trials) % 5 == 0:
            return replace(trial, validity=TrialValidity.ABORTED, cause=Cause.STOPPED, reason="stopped")
        return unusable(trial) if len(bench.trials) % 5 == 1 else trial

    rate = searched(bench, measure).rates[0]
    assert rate.unusable_share == pytest.approx(0.2, abs=0.04)


@pytest.mark.parametrize("share", [0.3, 0.6, 0.9])
def test_a_noisy_host_spends_no_search_at_one_load_and_a_handful_of_trials_is_no_number(share: float) -> None:
    """As many trials as the budget pays for; a share of them has no usable account, at random."""
    bench, random, max_repeats = Bench(Truth(CAPACITY, overhead_s=0.05), slices=SLICES), Random(5), 15
    usable = 0

    def measure(duration_s: float, load_fps: float) -> Trial:
        nonlocal usable
        trial = bench.measure(duration_s, load_fps)
        if random.random() < share:
            return unusable(trial)
        usable += 1
        return trial

    rate = searched(bench, measure, trial_duration_s=0.2, max_traffic_s=16.0, max_repeats=max_repeats).rates[0]
    loads = sorted(trial.load_fps for trial in bench.trials)
    alike = max(sum(load <= other <= 1.001 * load for other in loads) for load in loads)
    assert alike <= max(max_repeats + 1, len(loads) / 4)
    is_alone = usable < 2 * FEWEST and rate.reason.startswith("only the 95 % interval is known, ")
    assert (rate.status is RateStatus.REFUSED) == (usable < FEWEST or is_alone)
    if rate.status is RateStatus.FOUND:
        lower, _, upper = assert_found(rate)
        assert lower <= CAPACITY * 1.003 and upper >= CAPACITY


def test_a_generator_that_falls_short_again_and_again_is_not_asked_for_one_load_until_the_budget_is_spent() -> None:
    """What the engine offers at most scatters by a tenth."""
    random = Random(3)
    bench = Bench(Truth(4 * CAPACITY, overhead_s=0.05), slices=SLICES)

    def measure(duration_s: float, load_fps: float) -> Trial:
        most_fps = CAPACITY * random.uniform(0.9, 1.0)
        trial = bench.measure(duration_s, min(load_fps, most_fps))
        if load_fps <= most_fps:
            return trial
        return replace(trial, load_fps=load_fps, validity=TrialValidity.GENERATOR_LIMITED, cause=Cause.GENERATOR)

    rate = searched(bench, measure, trial_duration_s=0.2, max_traffic_s=16.0).rates[0]
    assert (rate.status, rate.limited_by) == (RateStatus.AT_LEAST, Limit.GENERATOR)
    assert len(bench.trials) <= 40


def test_a_few_unusable_trials_change_little() -> None:
    bench = Bench(Truth(CAPACITY))

    def measure(duration_s: float, load_fps: float) -> Trial:
        trial = bench.measure(duration_s, load_fps)
        return unusable(trial) if len(bench.trials) % 4 == 0 else trial

    rate = searched(bench, measure).rates[0]
    assert assert_found(rate)[1] == pytest.approx(CAPACITY, rel=0.01)
    assert rate.unusable_share == pytest.approx(0.25, abs=0.05)


def test_a_trial_whose_sender_stood_still_counts_with_what_was_offered() -> None:
    bench = Bench(Truth(CAPACITY, stalls=(Stalls(StallKind.ENGINE, 5, 0.03),)), slices=SLICES)
    rate = searched(bench).rates[0]
    assert rate.unusable_share == 0.0
    assert any(trial.cause is Cause.SENDER_STOOD_STILL for trial in bench.trials)


def test_without_any_usable_trial_there_is_no_number_but_the_last_reason() -> None:
    bench = Bench(Truth(CAPACITY))
    rate = searched(bench, lambda *asked: unusable(bench.measure(*asked)), max_repeats=3).rates[0]
    assert rate.status is RateStatus.REFUSED
    assert rate.reason.startswith("none of 4 trials had a usable account (4 noisy host); the last one, at ")
    assert (len(bench.trials), rate.unusable_share) == (4, 1.0)


def test_from_a_handful_of_usable_trials_no_interval_follows() -> None:
    bench = Bench(Truth(CAPACITY))

    def measure(duration_s: float, load_fps: float) -> Trial:
        trial = bench.measure(duration_s, load_fps)
        return trial if len(bench.trials) % 20 == 0 else unusable(trial)

    rate = searched(bench, measure, max_repeats=100, max_traffic_s=80.0).rates[0]
    assert rate.status is RateStatus.REFUSED
    assert rate.reason.startswith("no interval follows from 4 usable trials: search.max_traffic_s = 80 s used up")


def test_drops_that_no_counter_names_count_like_any_other() -> None:
    named, unnamed = Bench(Truth(CAPACITY)), Bench(Truth(CAPACITY), names_losses=False)
    assert searched(named).rates == searched(unnamed).rates


@pytest.mark.parametrize("seed", range(3))
def test_a_pdr_is_never_below_the_ndr(seed: int) -> None:
    truth = Truth(CAPACITY, noise=0.003, stalls=(Stalls(StallKind.ENGINE, 10, 0.003),), seed=seed)
    ndr, pdr = searched(Bench(truth), max_traffic_s=15.0).rates
    assert (ndr.status, pdr.status) == (RateStatus.FOUND, RateStatus.FOUND)
    for name in ("lower_fps", "estimate_fps", "upper_fps"):  # no upper end: the generator was not faster
        assert (getattr(ndr, name) or math.inf) <= (getattr(pdr, name) or math.inf), name


def test_a_resumed_search_follows_the_stamps_of_its_trials_to_the_same_loads() -> None:
    """Trials that were stored are given again in no time; their own stamps say when they were made."""
    bench = Bench(Truth(CAPACITY, moves=RandomWalk(0.05), overhead_s=0.3))
    stored: list[Trial] = []

    def measure(duration_s: float, load_fps: float) -> Trial:
        stamp = datetime.fromtimestamp(1.7e9 + bench.now_s(), UTC).isoformat()
        stored.append(replace(bench.measure(duration_s, load_fps), started=stamp))
        return stored[-1]

    def again(_duration_s: float, load_fps: float) -> Trial:
        assert load_fps == stored[len(replayed)].load_fps
        replayed.append(load_fps)
        return stored[len(replayed) - 1]

    search = search_with(method=SearchMethod.THRESHOLD, trial_duration_s=0.2, max_traffic_s=8.0)
    replayed: list[float] = []
    assert find_rates(measure, search, bench.now_s) == find_rates(again, search, lambda: 0.0)
    assert len(replayed) == len(stored)


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
    moves=st.none() | st.just(RandomWalk(0.1)),
    seed=st.integers(0, 100),
)


# The engine stands still in most trials, so that no usable one offers much.
RARELY_USABLE = Truth(
    capacity_fps=1e4,
    ring=64,
    ceiling_fps=13810.0,
    stalls=(Stalls(StallKind.ENGINE, per_second=5.0, length_s=0.125),),
    moves=RandomWalk(0.1),
    seed=0,
)


@settings(deadline=None, max_examples=15)
@given(TRUTHS, st.floats(1e3, 1e5), st.floats(1.01, 1e4))
@example(RARELY_USABLE, 1000.0, 4998.0)
def test_on_any_bench_a_search_ends_in_order_and_below_what_the_generator_offered(
    truth: Truth, min_load_fps: float, span: float
) -> None:
    bench = Bench(truth)
    top_fps = min_load_fps * span
    rates = searched(bench, max_traffic_s=10.0, max_repeats=2, min_load_fps=min_load_fps, max_load_fps=top_fps).rates
    quoted = [rate.quoted_fps for rate in rates if rate.status is RateStatus.FOUND]
    assert quoted == sorted(quoted, key=lambda fps: fps or 0.0)
    for rate in rates:
        for fps in (rate.lower_fps, rate.estimate_fps, rate.upper_fps):
            assert (
                fps is None or rate.status is RateStatus.BELOW_MINIMUM or fps <= 1.001 * min(truth.ceiling_fps, top_fps)
            )
    assert all(trial.load_fps <= top_fps for trial in bench.trials)


@pytest.mark.parametrize("threshold_fps", [900.0, 8_000.0, 300_000.0])
def test_a_device_that_collapses_under_overload_has_the_threshold_below_which_nothing_is_lost(threshold_fps):
    """As a balancer does: each connection takes several frames, so that few complete where frames are dropped."""
    bench = Bench(Truth(threshold_fps, ring=1))

    def collapsing(duration_s: float, load_fps: float) -> Trial:
        trial = bench.measure(duration_s, load_fps)
        if load_fps <= threshold_fps:
            return replace(trial, received=trial.offered, samples=())
        carried = round(trial.offered * min(0.5, threshold_fps / load_fps) ** 2)
        return replace(trial, received=carried, samples=())

    search = search_with(
        method=SearchMethod.THRESHOLD, relative_width=0.02, trial_duration_s=0.5, max_traffic_s=20.0, min_load_fps=10.0
    )
    rates = find_rates(collapsing, search, bench.now_s, overload_measures=False)
    for rate in rates.rates:
        lower, estimate, upper = assert_found(rate)
        assert lower <= threshold_fps * 1.001 and upper >= threshold_fps * 0.999
        assert estimate == pytest.approx(threshold_fps, rel=0.03)

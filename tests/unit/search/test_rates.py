"""NDR and PDR from the simulated bench, whose true capacity is known."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated import CoreDistance, PortFailure, Truth
from simulated_queue import StallKind, Stalls
from support import Bench, search_with

from pinchpoint.account.facts import waited_s
from pinchpoint.account.ledger import unexplained_share
from pinchpoint.model.errors import EngineError
from pinchpoint.model.result import Rate, RateStatus
from pinchpoint.model.scenario import Search, SearchMethod
from pinchpoint.model.trial import Trial, TrialValidity
from pinchpoint.search import SearchOutcome, find_rates

CAPACITY = 5e6


def searched(bench: Bench, search: Search | None = None) -> SearchOutcome:
    return find_rates(bench.measure, search or search_with(), bench.now_s)


def assert_near(rate: Rate, capacity_fps: float, tolerance: float) -> None:
    """Findings, with bounds as close as promised, and near the truth."""
    assert rate.status is RateStatus.FOUND, rate
    assert rate.reason == ""
    assert rate.lower_fps is not None and rate.upper_fps is not None
    assert 0 < rate.upper_fps - rate.lower_fps <= 0.005 * rate.upper_fps + 1, "bounds are whole frames a second"
    assert abs(rate.lower_fps - capacity_fps) <= tolerance * capacity_fps


@pytest.mark.parametrize("capacity_fps", [12_345.0, 777_777.0, 5e6, 19.5e6])
def test_on_a_quiet_bench_the_bounds_enclose_the_capacity(capacity_fps: float) -> None:
    ring = 64
    outcome = searched(Bench(Truth(capacity_fps, ring=ring)))
    for rate, highest_fps in zip(outcome.rates, (capacity_fps, capacity_fps / 0.995), strict=True):
        assert_near(rate, highest_fps, 0.01)
        assert rate.lower_fps is not None and rate.upper_fps is not None
        assert rate.lower_fps <= highest_fps + 2 * ring  # a second's surplus that the ring hides
        assert rate.upper_fps >= highest_fps
    assert outcome.generator_ceiling_fps is None


@pytest.mark.parametrize("seed", range(8))
def test_noise_moves_the_rates_by_no_more_than_its_own_size(seed: int) -> None:
    outcome = searched(Bench(Truth(CAPACITY, noise=0.005, seed=seed)))
    ndr, pdr = outcome.rates
    assert_near(ndr, CAPACITY, 0.012)
    assert_near(pdr, CAPACITY / 0.995, 0.012)
    assert (ndr.name, pdr.name) == ("NDR", "PDR 0.5 %")


def test_the_ndr_comes_first_and_carries_its_definition() -> None:
    search = search_with(loss_ratios=(0.01, 0.0), trial_duration_s=2.0, duration_sum_s=6.0)
    ndr, pdr = searched(Bench(Truth(CAPACITY)), search).rates
    assert (ndr.loss_ratio, pdr.loss_ratio) == (0.0, 0.01)
    assert (ndr.trial_duration_s, ndr.duration_sum_s) == (2.0, 6.0)


def test_a_constant_loss_below_the_pdr_spoils_the_ndr_alone() -> None:
    ndr, pdr = searched(Bench(Truth(CAPACITY, loss_ratio=0.001))).rates
    assert ndr.status is RateStatus.BELOW_MINIMUM
    assert ndr.lower_fps is None
    assert ndr.upper_fps == 10_000
    assert "even at search.min_load_fps = 10.0 kpps" in ndr.reason
    assert_near(pdr, CAPACITY / 0.995, 0.01)


def test_rare_pauses_of_the_dut_itself_do_not_move_the_rates() -> None:
    bench = Bench(Truth(CAPACITY, stalls=(Stalls(StallKind.DUT, 0.2, 0.002),)))
    assert_near(searched(bench).rates[0], CAPACITY, 0.01)
    assert all(trial.validity is TrialValidity.VALID for trial in bench.trials)


@pytest.mark.parametrize("ceiling_share", [0.05, 0.3, 0.8, 0.95])
@pytest.mark.parametrize("seed", range(3))
def test_a_generator_ceiling_below_the_capacity_is_never_called_a_rate(ceiling_share: float, seed: int) -> None:
    ceiling = ceiling_share * CAPACITY
    outcome = searched(Bench(Truth(CAPACITY, ceiling_fps=ceiling, noise=0.005, seed=seed)))
    assert outcome.generator_ceiling_fps == pytest.approx(ceiling, rel=1e-5)
    for rate in outcome.rates:
        assert rate.status is RateStatus.AT_LEAST
        assert rate.lower_fps == pytest.approx(0.98 * ceiling, rel=1e-5)
        assert rate.upper_fps is None
        assert rate.reason.startswith("generator-limited: the engine offers at most ")


def test_a_generator_ceiling_above_the_capacity_does_not_disturb() -> None:
    outcome = searched(Bench(Truth(CAPACITY, ceiling_fps=11e6)))
    assert_near(outcome.rates[0], CAPACITY, 0.01)
    assert outcome.generator_ceiling_fps == 11e6


def test_the_ceiling_is_confirmed_then_the_search_stays_below_it() -> None:
    bench = Bench(Truth(CAPACITY, ceiling_fps=11e6))
    searched(bench)
    loads = [trial.load_fps for trial in bench.trials]
    assert loads[:3] == [20e6, 20e6, pytest.approx(0.98 * 11e6)]
    assert max(loads[2:]) <= 0.98 * 11e6
    limited = [trial for trial in bench.trials if trial.validity is TrialValidity.GENERATOR_LIMITED]
    assert len(limited) == 2


def test_a_generator_far_below_the_load_is_taken_at_what_it_offered() -> None:
    bench = Bench(Truth(CAPACITY, ceiling_fps=2e6))
    searched(bench)
    assert [trial.load_fps for trial in bench.trials[:3]] == [20e6, 20e6, pytest.approx(0.98 * 2e6)]


def test_a_generator_that_weakens_during_the_search_lowers_the_maximum_again() -> None:
    bench = Bench(Truth(50e6, ceiling_fps=10e6))
    weak = Bench(Truth(50e6, ceiling_fps=6e6))

    def measure(duration_s: float, load_fps: float) -> Trial:
        return (bench if len(bench.trials) < 6 else weak).measure(duration_s, load_fps)

    outcome = find_rates(measure, search_with(), bench.now_s)
    assert [rate.status for rate in outcome.rates] == [RateStatus.AT_LEAST] * 2
    assert outcome.rates[0].lower_fps == pytest.approx(0.98 * 6e6)
    assert outcome.generator_ceiling_fps == 10e6


def test_a_generator_that_falls_short_of_every_load_is_refused_at_the_minimum() -> None:
    asked: list[float] = []

    def measure(duration_s: float, load_fps: float) -> Trial:
        asked.append(load_fps)
        return Bench(Truth(50e6, ceiling_fps=0.9 * load_fps)).measure(duration_s, load_fps)

    outcome = find_rates(measure, search_with(min_load_fps=1e6), lambda: 0.0)
    assert [rate.status for rate in outcome.rates] == [RateStatus.REFUSED] * 2
    assert outcome.rates[0].reason.startswith("generator-limited: the engine offers at most 1.0")
    assert sorted(asked, reverse=True) == asked
    assert min(asked) >= 1e6


def test_a_generator_below_the_minimum_load_is_refused() -> None:
    outcome = searched(Bench(Truth(CAPACITY, ceiling_fps=9_000)))
    assert [rate.status for rate in outcome.rates] == [RateStatus.REFUSED] * 2
    assert outcome.rates[0].reason == "generator-limited: the engine offers at most 9.00 kpps on this bench"


def test_reaching_the_search_maximum_is_never_called_a_rate() -> None:
    for rate in searched(Bench(Truth(50e6))).rates:
        assert (rate.status, rate.lower_fps, rate.upper_fps) == (RateStatus.AT_LEAST, 20e6, None)
        assert rate.reason == "search.max_load_fps = 20.0 Mpps reached"


def test_losses_of_a_device_that_the_host_disturbs_are_judged_and_not_repeated() -> None:
    bench = Bench(Truth(CAPACITY, stalls=(Stalls(StallKind.DUT_THREAD, 0.7, 0.002),)))  # every other trial
    searched(bench)
    assert all(trial.validity is TrialValidity.VALID for trial in bench.trials)
    waits_s = [sum(waited_s(trial).values()) for trial in bench.trials]
    assert sum(waited_s * CAPACITY > bench.truth.ring for waited_s in waits_s) > len(waits_s) / 4


def test_a_rate_is_told_as_offered_where_gaps_kept_the_engine_from_offering_all() -> None:
    bench = Bench(Truth(CAPACITY, stalls=(Stalls(StallKind.ENGINE, 10, 0.002),)))  # 2 % of the time
    rate = searched(bench).rates[0]
    assert rate.status is RateStatus.FOUND
    assert rate.lower_fps == pytest.approx(0.98 * CAPACITY, rel=0.01)
    assert rate.lower_fps < 0.99 * CAPACITY, "never more than what was really carried"


def test_a_repeat_asks_the_same_load_at_once() -> None:
    bench = Bench(Truth(CAPACITY, stalls=(Stalls(StallKind.ENGINE, 0.5, 0.06),)))
    searched(bench)
    for trial, following in zip(bench.trials, bench.trials[1:], strict=False):
        if trial.validity is not TrialValidity.VALID:
            assert (following.duration_s, following.load_fps) == (trial.duration_s, trial.load_fps)


def test_a_host_that_is_never_quiet_gets_no_number_but_the_reason() -> None:
    bench = Bench(Truth(CAPACITY, stalls=(Stalls(StallKind.ENGINE, 20, 0.02),)))
    outcome = searched(bench, search_with(max_repeats=3))
    for rate in outcome.rates:
        assert rate.status is RateStatus.REFUSED
        assert "in 4 tries (4 noisy_host); last: offered" in rate.reason
    last = bench.trials[-4:]
    assert len({trial.load_fps for trial in last}) == 1


def test_trials_that_a_failing_port_aborts_are_repeated_and_never_judged() -> None:
    quiet = Bench(Truth(CAPACITY))
    failures = tuple(PortFailure(trial, "left", 0.25) for trial in (1, 4, 5, 9))
    failing = Bench(Truth(CAPACITY, failures=failures))
    assert searched(failing).rates == searched(quiet).rates
    aborted = [number for number, trial in enumerate(failing.trials, 1) if trial.validity is TrialValidity.ABORTED]
    assert aborted == [1, 4, 5, 9]
    assert len(failing.trials) == len(quiet.trials) + 4


def test_a_port_that_fails_every_time_gets_no_number_but_the_reason() -> None:
    failures = tuple(PortFailure(trial, "left", 0.25) for trial in range(1, 10))
    bench = Bench(Truth(CAPACITY, failures=failures))
    reason = searched(bench, search_with(max_repeats=2)).rates[0].reason
    assert reason.endswith("in 3 tries (3 aborted); last: left: its link went down, after 0.25 s")
    assert len(bench.trials) == 3


@pytest.mark.parametrize("method", list(SearchMethod))
def test_lost_frames_that_no_counter_names_end_no_search(method: SearchMethod) -> None:
    """Losses begin at the first load, the highest: it is judged like any other."""
    named, unnamed = Bench(Truth(CAPACITY)), Bench(Truth(CAPACITY), names_losses=False)
    assert searched(unnamed, search_with(method=method)).rates == searched(named, search_with(method=method)).rates
    assert unexplained_share(unnamed.trials) > 0.05
    assert unexplained_share(named.trials) == 0


def test_a_rate_decided_before_the_host_became_noisy_is_kept() -> None:
    whole, quiet = Bench(Truth(CAPACITY)), Bench(Truth(CAPACITY))
    searched(whole)
    loud = Bench(Truth(10 * CAPACITY, stalls=(Stalls(StallKind.ENGINE, 20, 0.02),)))

    def measure(duration_s: float, load_fps: float) -> Trial:
        """Quiet but for the last trial of all, which decides one of the two rates."""
        return (quiet if len(quiet.trials) < len(whole.trials) - 1 else loud).measure(duration_s, load_fps)

    rates = find_rates(measure, search_with(), quiet.now_s).rates
    kept = [rate for rate in rates if rate.status is RateStatus.FOUND]
    refused = [rate for rate in rates if rate.status is RateStatus.REFUSED]
    assert (len(kept), len(refused)) == (1, 1)
    assert_near(kept[0], CAPACITY, 0.01)
    assert "noisy_host" in refused[0].reason
    assert refused[0].lower_fps or refused[0].upper_fps


def test_out_of_time_the_known_bounds_are_given_but_no_rate() -> None:
    whole, partial = Bench(Truth(CAPACITY)), Bench(Truth(CAPACITY))
    full_s = (searched(whole), whole.now_s())[1]
    outcome = searched(partial, search_with(max_duration_s=0.7 * full_s))
    assert partial.now_s() <= 0.7 * full_s + 1.2
    refused = [rate for rate in outcome.rates if rate.status is RateStatus.REFUSED]
    assert refused
    for rate in refused:
        assert rate.reason.startswith("search.max_duration_s = ")
        assert rate.reason.endswith(f"reached after {len(partial.trials)} trials, {len(partial.trials)} of them valid")
    assert any(rate.lower_fps or rate.upper_fps for rate in outcome.rates)


@pytest.mark.parametrize("trials", range(1, 12))
def test_out_of_time_bounds_far_apart_are_no_rate(trials: int) -> None:
    """One trial decides about a load here, so that there are bounds from the first trial on."""
    bench = Bench(Truth(CAPACITY, noise=0.3))
    search = search_with(max_duration_s=trials * 1.15, duration_sum_s=1.0, preceding_targets=0, relative_width=0.001)
    for rate in searched(bench, search).rates:
        assert rate.upper_fps is not None
        is_close = rate.lower_fps is not None and rate.upper_fps - rate.lower_fps <= 0.001 * rate.upper_fps
        assert rate.status is (RateStatus.FOUND if is_close else RateStatus.REFUSED)


def test_time_goes_by_the_given_clock_alone() -> None:
    bench = Bench(Truth(CAPACITY, overhead_s=50.0))
    outcome = searched(bench)
    assert outcome.rates[0].status is RateStatus.REFUSED
    assert len(bench.trials) == 12  # 51.1 virtual seconds each, 600 allowed


def test_a_shortfall_that_leaves_a_trial_valid_is_not_the_duts_loss() -> None:
    bench = Bench(Truth(CAPACITY))

    def measure(duration_s: float, load_fps: float) -> Trial:
        trial = bench.measure(duration_s, load_fps)
        return replace(trial, offered=trial.offered - 1, received=trial.received - 1)

    outcome = find_rates(measure, search_with(loss_ratios=(0.0,)), bench.now_s)
    assert_near(outcome.rates[0], CAPACITY, 0.01)


def test_all_options_reach_the_search() -> None:
    def loads(**changes: object) -> list[tuple[float, float]]:
        bench = Bench(Truth(CAPACITY, noise=0.01, seed=3))
        searched(bench, search_with(**changes))
        return [(trial.duration_s, trial.load_fps) for trial in bench.trials]

    usual = loads()
    for changes in (
        {"initial_trial_duration_s": 0.5},
        {"trial_duration_s": 2.0},
        {"duration_sum_s": 10.0},
        {"exceed_ratio": 0.1},
        {"relative_width": 0.02},
        {"preceding_targets": 4},
        {"expansion_coefficient": 8},
        {"min_load_fps": 1_000.0},
        {"max_load_fps": 10e6},
        {"loss_ratios": (0.0,)},
    ):
        assert loads(**changes) != usual, changes


@pytest.mark.parametrize("error", [EngineError("engine died"), RuntimeError("a bug"), KeyboardInterrupt()])
def test_what_the_measurement_raises_is_not_swallowed(error: BaseException) -> None:
    def measure(_duration_s: float, _load_fps: float) -> Trial:
        raise error

    with pytest.raises(type(error)) as raised:
        find_rates(measure, search_with(), lambda: 0.0)
    assert raised.value is error


def test_the_same_bench_gives_the_same_search() -> None:
    truth = Truth(
        CAPACITY, noise=0.01, stalls=(Stalls(StallKind.DUT_THREAD, 0.5, 0.002),), core_distance=CoreDistance()
    )
    first, second = Bench(truth), Bench(truth)
    assert searched(first) == searched(second)
    assert first.trials == second.trials


TRUTHS: st.SearchStrategy[Truth] = st.builds(
    Truth,
    capacity_fps=st.floats(1e3, 1e8),
    ring=st.sampled_from([64, 1024, 32768]),
    noise=st.sampled_from([0.0, 0.02]),
    loss_ratio=st.sampled_from([0.0, 0.0, 0.001, 0.5]),
    ceiling_fps=st.floats(1e3, 1e8),
    stalls=st.lists(
        st.builds(
            Stalls,
            kind=st.sampled_from(StallKind),
            per_second=st.floats(0.01, 10),
            length_s=st.floats(1e-5, 0.2),
        ),
        max_size=2,
    ).map(tuple),
    core_distance=st.none() | st.just(CoreDistance(dwell_s=5)),
    seed=st.integers(0, 100),
)


@settings(deadline=None)
@given(TRUTHS, st.floats(1.0, 1e5), st.floats(1.001, 1e4), st.sampled_from([0.001, 0.05, 0.4]))
def test_on_any_bench_a_search_ends_and_claims_no_more_than_was_seen(
    truth: Truth, min_load_fps: float, span: float, relative_width: float
) -> None:
    search = search_with(
        min_load_fps=min_load_fps,
        max_load_fps=min_load_fps * span,
        relative_width=relative_width,
        duration_sum_s=3.0,
        max_repeats=2,
    )
    bench = Bench(truth)
    for rate in searched(bench, search).rates:
        assert (rate.status is RateStatus.FOUND) == (rate.reason == "")
        judged = [trial for trial in bench.trials if trial.validity is TrialValidity.VALID]
        good = {trial.offered_fps for trial in judged if trial.loss_ratio <= rate.loss_ratio}
        bad = {trial.offered_fps for trial in judged if trial.loss_ratio > rate.loss_ratio}
        assert rate.lower_fps is None or min(good) <= rate.lower_fps <= max(good)
        assert rate.upper_fps is None or min(bad) <= rate.upper_fps <= max(bad)
        if rate.status is RateStatus.AT_LEAST:
            assert rate.upper_fps is None
            assert rate.lower_fps is not None and rate.lower_fps <= max(trial.load_fps for trial in judged)


def test_one_slow_moment_of_the_generator_is_no_ceiling() -> None:
    bench = Bench(Truth(100 * CAPACITY))

    def measure(duration_s: float, load_fps: float) -> Trial:
        trial = bench.measure(duration_s, load_fps)
        slow = len(bench.trials) == 1
        return replace(trial, validity=TrialValidity.GENERATOR_LIMITED, reason="slow") if slow else trial

    rate = find_rates(measure, search_with(), bench.now_s).rates[0]
    assert (rate.status, rate.reason) == (RateStatus.AT_LEAST, "search.max_load_fps = 20.0 Mpps reached")


@pytest.mark.parametrize("seed", range(8))
def test_a_pdr_is_never_below_the_ndr_however_unequal_the_shortfalls(seed: int) -> None:
    truth = Truth(CAPACITY, noise=0.003, stalls=(Stalls(StallKind.ENGINE, 10, 0.003),), seed=seed)
    ndr, pdr = searched(Bench(truth), search_with(duration_sum_s=3.0)).rates
    if ndr.lower_fps is not None and pdr.lower_fps is not None:
        assert pdr.lower_fps >= ndr.lower_fps
    for rate in (ndr, pdr):
        if rate.lower_fps is not None and rate.upper_fps is not None:
            assert rate.upper_fps >= rate.lower_fps

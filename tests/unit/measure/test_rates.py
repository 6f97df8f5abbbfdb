"""What the measure rates tells of the switch: at its NDR, or nothing; and in which mode of the cores."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import trials
from simulated import CoreDistance, SimulatedInstrument
from support import TWO_PORTS as SCENARIO
from support import Truth, search_with

from pinchpoint.account.facts import core_distance_ns
from pinchpoint.measure.rates import run as rates
from pinchpoint.measure.rates.run import Rates
from pinchpoint.measure.session import ROUND_TRIP, Session
from pinchpoint.measure.standing import Listener
from pinchpoint.model.result import Ceiling, Rate, RateStatus
from pinchpoint.model.scenario import Relative, SearchMethod
from pinchpoint.model.site import Remote, Site
from pinchpoint.model.trial import Drop, Hop, LatencySummary, TrialValidity
from pinchpoint.model.warning import Warn
from pinchpoint.observe.snapshot import Bracket
from pinchpoint.report import words
from pinchpoint.run.scenario import first_lines
from pinchpoint.search import SearchOutcome

LATENCY = LatencySummary(97, 10, 20.0, 20, 30, 35, 38, 39, 40, ((0.5, 20),))
DROWNED = trials.trial(
    5000.0, counts=trials.stream_counts(offered=5000, received=400), threads=[trials.thread_load(1.0, 900.0)], number=1
)
CLEAN = trials.trial(1000.0, threads=[trials.thread_load(0.4, 300.0)], number=2)
SLOWER = trials.trial(500.0, threads=[trials.thread_load(0.2, 310.0)], number=3)


def summary(ndr, *searched):
    outcome = SearchOutcome((ndr,), None)
    return rates._summary(SCENARIO, searched, rates._RateSearch(outcome, searched), (), 1.0)


def named(result):
    """The metrics of the switch: which trials were discarded is the host's."""
    return {metric.name: metric.value for metric in result.metrics if metric.name != "trials discarded"}


def test_without_an_ndr_no_other_trial_speaks_for_the_switch():
    for status, upper in ((RateStatus.REFUSED, None), (RateStatus.BELOW_MINIMUM, 5000.0)):
        result = summary(Rate(0.0, status, None, upper, 1.0, 3.0, "noisy"), DROWNED)
        assert result.threads == ()
        assert named(result) == {}


def test_at_the_ndr_the_trial_of_the_highest_load_that_kept_the_goal_speaks():
    for status, upper in ((RateStatus.FOUND, 5000.0), (RateStatus.AT_LEAST, None)):
        result = summary(Rate(0.0, status, 1000.0, upper, 1.0, 3.0, ""), DROWNED, SLOWER, CLEAN)
        assert result.threads == CLEAN.threads
        assert named(result)["cycles per packet"] == 300


def test_a_trial_far_from_the_ndr_says_nothing_of_cycles_at_it():
    result = summary(Rate(0.0, RateStatus.FOUND, 1100.0, 1100.0, 1.0, 3.0, ""), DROWNED, SLOWER, CLEAN)
    assert {load.received for load in result.threads} == {1000}
    assert not {"cycles per packet", "thread busy"} & named(result).keys()
    assert named(result)["lookup share of EMC"] == 1.0


def test_a_lossy_trial_at_the_ndr_speaks_rather_than_a_clean_one_far_below():
    at_ndr = replace(dropping(1100, 1, 4), threads=(trials.thread_load(0.9, 320.0),))
    result = summary(Rate(0.0, RateStatus.FOUND, 1090.0, 1090.0, 1.0, 3.0, ""), CLEAN, at_ndr)
    assert named(result)["cycles per packet"] == 320


def test_where_the_other_points_have_no_ndr_all_points_are_of_overload():
    ndr, drowned = Rate(0.0, RateStatus.FOUND, 1000.0, 1000.0, 1.0, 3.0, ""), [replace(DROWNED, phase="mrr")] * 7
    search = rates._RateSearch(SearchOutcome((ndr,), None), (SLOWER, CLEAN), overloads=drowned)
    for relative, cycles in ((Relative.ALONE, 900), (Relative.BESIDE, 300)):
        scenario = replace(SCENARIO, point=replace(SCENARIO.point, relative=relative))
        assert named(rates._summary(scenario, (CLEAN,), search, (), 1.0))["cycles per packet"] == cycles


def test_cycles_that_do_not_fit_the_clock_are_a_warning():
    ndr = Rate(0.0, RateStatus.FOUND, 1e7, 1e7, 1.0, 3.0, "")
    result = summary(ndr, trials.trial(1e7, threads=[trials.thread_load(1.0, 900.0)]))
    (told,) = (warning for warning in result.warnings if warning.kind is Warn.OVER_CLOCK)
    assert told.text.startswith("900 cycles per packet at the NDR make 9.00 GHz")


def test_cycles_of_an_overload_are_not_held_against_the_ndr():
    ndr, overload = (
        Rate(0.0, RateStatus.FOUND, 1e7, 1e7, 1.0, 3.0, ""),
        trials.trial(1e7, threads=[trials.thread_load(1.0, 900.0)]),
    )
    search = rates._RateSearch(SearchOutcome((ndr,), None), (overload,), overloads=[overload] * 7)
    scenario = replace(SCENARIO, point=replace(SCENARIO.point, relative=Relative.ALONE))
    told = rates._summary(scenario, (overload,), search, (), 1.0).warnings
    assert Warn.OVER_CLOCK not in [warning.kind for warning in told]


def dropping(load, lost, number):
    ring = Drop("receive ring of left full", lost, "a counter", "dut")
    counts = trials.stream_counts(offered=load, received=load - lost)
    hops = [Hop("h", None, None, (ring,))]
    return trials.trial(float(load), hops=hops, counts=counts, threads=[trials.thread_load(0.6)], number=number)


def test_each_rate_has_a_verdict_of_its_own_from_the_trials_that_exceeded_its_own_ratio():
    searched = (CLEAN, dropping(2000, 20, 4), dropping(5000, 2500, 5))
    loss_free = Rate(0.0, RateStatus.FOUND, 1000.0, 2000.0, 1.0, 3.0, "")
    partial = Rate(0.05, RateStatus.FOUND, 2000.0, 5000.0, 1.0, 3.0, "")
    outcome = SearchOutcome((loss_free, partial), None)
    result = rates._summary(SCENARIO, searched, rates._RateSearch(outcome, searched), (), 1.0)
    (other,) = result.other_verdicts
    assert (result.verdict.trial_ids, other.trial_ids) == (("t-0004",), ("t-0005",))
    (line,) = words.other_verdicts(result)
    assert line.startswith("PDR 5 %: pinched by ") and line.endswith(other.headline)


def test_an_attached_text_that_is_cut_says_how_much():
    text = "".join(f"flow {number}\n" for number in range(10))
    assert first_lines(text, len(text)) == text
    assert first_lines(text, 15) == "flow 0\nflow 1\n(cut here: 8 more lines, 56 characters)\n"
    assert first_lines("x" * 20, 15) == "(cut here: 1 more line, 20 characters)\n"


TWO_MODES = CoreDistance(near_ns=30.0, far_ns=160.0, dwell_s=1.0, far_capacity=0.5)
NEAR_FPS = 5e6


def measured(monkeypatch, truth, ceilings=(), recorded=(), **search):
    """The measure over a simulated bench, in virtual time; `recorded` are trials of an interrupted run."""
    length = {"trial_duration_s": 0.2, "initial_trial_duration_s": 0.2, "duration_sum_s": 2.0, "max_traffic_s": 16.0}
    changes = {**length, "relative_width": 0.02, "max_repeats": 15} | search
    scenario = replace(SCENARIO, search=search_with(**changes), measure=Rates((0.5,), 0.2))
    instrument = SimulatedInstrument(truth)
    instrument.open()
    monkeypatch.setattr(rates, "time", SimpleNamespace(monotonic=instrument.now_s))
    bench = instrument, Bracket([]), lambda trial: None, Listener()
    session = Session(scenario, *bench, recorded, 0.0, ceilings)
    return rates.measure_scenario(session), session.trials


def test_on_a_machine_with_two_modes_the_band_holds_both_and_the_modes_explain_it(monkeypatch):
    truth = Truth(NEAR_FPS, noise=0.002, core_distance=TWO_MODES, seed=1)
    result, trials_made = measured(monkeypatch, truth, method=SearchMethod.THRESHOLD)
    ndr = result.rates[0]
    assert ndr.status is RateStatus.FOUND
    assert {core_distance_ns(trial) for trial in trials_made} >= {30.0, 160.0}
    assert all(trial.validity is TrialValidity.VALID for trial in trials_made)
    assert ndr.band.low_fps <= NEAR_FPS / 2 * 1.05 and ndr.band.high_fps >= NEAR_FPS * 0.95
    assert sum(mode.share for mode in result.modes) == pytest.approx(1.0)
    for mode in result.modes:
        true_fps = NEAR_FPS if mode.distance_ns < 60 else NEAR_FPS / 2
        assert (
            mode.median_fps is None
            or mode.distance_ns not in (30.0, 160.0)
            or mode.median_fps == pytest.approx(true_fps, rel=0.05)
        )


def test_latency_says_how_far_apart_the_cores_were_meanwhile(monkeypatch):
    truth = Truth(NEAR_FPS, noise=0.002, core_distance=TWO_MODES, seed=5)
    result, trials_made = measured(monkeypatch, truth, method=SearchMethod.THRESHOLD)
    (point,) = result.latency
    (made,) = [trial for trial in trials_made if trial.phase == "latency"]
    assert (point.distance_ns, point.trial_id, point.note) == (core_distance_ns(made), made.id, "")


@pytest.mark.parametrize(("early_ns", "is_withheld"), [(-200, False), (50_000, False), (80_000, True)])
def test_latency_that_two_clocks_disprove_is_withheld_with_the_reason(early_ns, is_withheld):
    changed = replace(LATENCY, min_ns=-early_ns, clock_error_ns=50_000.0)
    slower = replace(LATENCY, p99_ns=LATENCY.p99_ns + 160_000, min_ns=160_000, clock_error_ns=50_000.0)
    trial = trials.trial(500.0, counts=replace(trials.stream_counts(), latency=changed))
    trial = replace(trial, streams=(*trial.streams, replace(trial.streams[0], stream=1, latency=slower)))
    ndr = Rate(0.0, RateStatus.FOUND, 1000.0, None, 1.0, 3.0, "")
    scenario = replace(SCENARIO, engine=replace(SCENARIO.engine, clock_error_us=50.0))
    scenario = replace(scenario, measure=Rates((0.5,), 0.2))
    session = SimpleNamespace(scenario=scenario, trial=lambda phase, duration_s, load_fps: trial)
    point = rates._latency(0.5, rates._RateSearch(SearchOutcome((ndr,), None), ()), session)
    if is_withheld:
        told = (
            "a frame was received 80.0 us before it was sent, by the clocks of two hosts, which are further apart than"
        )
        assert (point.latency, point.note) == (None, f"{told} engine.clock_error_us says")
    else:
        assert point.latency == slower
        assert point.note.startswith("each time may be wrong by 50.0 us")


@pytest.mark.parametrize(
    ("engine", "early_ns", "note"),
    [
        ({"latency_clock": "kernel"}, 0, "arrivals by the kernel's clock"),
        ({"latency_clock": "kernel"}, 80, "a frame was received 80.0 ns before it was sent, by the system's clock, "),
        ({"latency_clock": "nic", "clock_error_us": 0.1}, 80, "arrivals by the NIC's clock, to within 100 ns"),
        ({"latency_clock": "nic", "clock_error_us": 0.1}, -37e9, "all frames were received 37.0 s or more after they"),
        ({"latency_clock": "nic", "clock_error_us": 0.1}, 800, "a frame was received 800 ns before it was sent, by th"),
    ],
)
def test_latency_says_whose_clock_it_is_of_and_contains_nothing_of_the_engines_loop(engine, early_ns, note):
    changed = replace(LATENCY, min_ns=-early_ns)
    trial = trials.trial(500.0, counts=replace(trials.stream_counts(), latency=changed))
    scenario = replace(SCENARIO, engine=replace(SCENARIO.engine, **engine), measure=Rates((0.5,), 0.2))
    session = SimpleNamespace(scenario=scenario, trial=lambda phase, duration_s, load_fps: trial)
    ndr = Rate(0.0, RateStatus.FOUND, 1000.0, None, 1.0, 3.0, "")
    point = rates._latency(0.5, rates._RateSearch(SearchOutcome((ndr,), None), ()), session)
    assert point.note.startswith(note)
    assert (point.latency is None) is not note.startswith("arrivals")
    assert point.loopback is None


@pytest.mark.parametrize(("ports", "phase"), [(("left", "right"), "latency"), (("left",), ROUND_TRIP)])
def test_one_engine_on_another_host_has_one_clock_and_two_engines_have_two(ports, phase):
    sites = (Site(), Site(Remote("gen", "gen", True, 60.0), ports))
    scenario, phases = replace(SCENARIO, measure=Rates((0.5,), 0.2), sites=sites), list[str]()

    def trial(phase, duration_s, load_fps):
        phases.append(phase)
        return trials.trial(500.0)

    session = SimpleNamespace(scenario=scenario, trial=trial)
    ndr = Rate(0.0, RateStatus.FOUND, 1000.0, None, 1.0, 3.0, "")
    point = rates._latency(0.5, rates._RateSearch(SearchOutcome((ndr,), None), ()), session)
    assert phases == [phase]
    assert ("two engines have no clock in common" in point.note) is (phase == ROUND_TRIP)


@pytest.mark.parametrize("method", list(SearchMethod))
def test_no_trial_is_discarded_or_repeated_since_the_cores_moved(monkeypatch, method):
    truth = Truth(NEAR_FPS, noise=0.0, core_distance=TWO_MODES, seed=1)
    _, trials_made = measured(monkeypatch, truth, method=method)
    assert {core_distance_ns(trial) for trial in trials_made} >= {30.0, 160.0}
    assert all(trial.validity is TrialValidity.VALID for trial in trials_made)


@pytest.mark.parametrize("method", list(SearchMethod))
def test_a_rate_within_reach_of_the_generators_ceiling_is_at_least(monkeypatch, method):
    ceiling = Ceiling(NEAR_FPS * 1.01, "2026-01-02T03:00:00+00:00", "a key", None)
    truth = Truth(NEAR_FPS, ceiling_fps=ceiling.fps)
    result, _ = measured(monkeypatch, truth, (ceiling,), method=method)
    assert {rate.status for rate in result.rates} == {RateStatus.AT_LEAST}
    assert all(rate.reason.startswith("generator-limited") for rate in result.rates)
    assert result.ceiling == ceiling
    assert result.verdict.limit == "generator"


@pytest.mark.parametrize("method", list(SearchMethod))
def test_a_rate_well_below_the_ceiling_is_found(monkeypatch, method):
    ceiling = Ceiling(NEAR_FPS * 2, "2026-01-02T03:00:00+00:00", "a key", None)
    result, trials_made = measured(monkeypatch, Truth(NEAR_FPS), (ceiling,), method=method)
    assert {rate.status for rate in result.rates} == {RateStatus.FOUND}
    assert max(trial.load_fps for trial in trials_made if trial.phase == "search") <= ceiling.fps * 1.1


FAR = Ceiling(NEAR_FPS / 2, "2026-01-02T03:00:00+00:00", "a key", 160.0)


def always(distance_ns):
    """Cores that never move."""
    return CoreDistance(distance_ns, distance_ns, dwell_s=1e6, far_capacity=1.0)


@pytest.mark.parametrize("method", list(SearchMethod))
def test_a_ceiling_of_another_mode_bounds_nothing(monkeypatch, method):
    truth = Truth(NEAR_FPS, core_distance=always(30.0))
    result, _ = measured(monkeypatch, truth, (FAR,), method=method)
    assert result.rates[0].status is RateStatus.FOUND
    assert result.rates[0].quoted_fps == pytest.approx(NEAR_FPS, rel=0.02)


@pytest.mark.parametrize("method", list(SearchMethod))
@pytest.mark.parametrize("count", [1, 3, 6])
def test_a_resumed_search_retraces_its_trials_in_whatever_mode_the_cores_are_now(monkeypatch, method, count):
    near = Truth(NEAR_FPS, core_distance=always(30.0))
    _, made = measured(monkeypatch, near, (FAR,), method=method)
    first = next(number for number, trial in enumerate(made) if trial.phase == "search")
    count = min(count, sum(trial.phase == "search" for trial in made) - 1)
    far = Truth(NEAR_FPS, core_distance=always(160.0))
    _, again = measured(monkeypatch, far, (FAR,), made[: first + count], method=method)
    searched = [trial for trial in again if trial.phase == "search"]
    assert searched[:count] == made[first : first + count]
    assert core_distance_ns(searched[count]) == 160.0, "from there on trials are new"

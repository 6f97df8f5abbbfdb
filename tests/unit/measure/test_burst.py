"""The measure `burst` over the simulated engine: a ring and two rates are known, so the burst is."""

from dataclasses import replace

import pytest
from simulated import SimulatedInstrument
from simulated_queue import StallKind, Stalls
from support import TWO_PORTS as SCENARIO
from support import Truth

from pinchpoint.measure.burst.run import Burst, expected_bursts, measure_bursts
from pinchpoint.measure.session import Session
from pinchpoint.measure.standing import Interrupted, Listener
from pinchpoint.model.result import Limit, Outcome
from pinchpoint.model.trial import TrialValidity
from pinchpoint.observe.snapshot import Bracket

RING = 1024
TRUTH = Truth(2e6, ring=RING, ceiling_fps=8e6)
LONGEST = RING / (1 - 2 / 8)  # frames come at 8 Mpps and go at 2
TIGHT = replace(SCENARIO.search, trial_duration_s=1.0, relative_width=0.005, duration_sum_s=3.0, loss_ratios=(0.0,))


def measured(truth=TRUTH, recorded=(), stop_after=None, **changes):
    burst = Burst(**({"repeats": 4, "rate_fps": None, "throughput_fps": None, "max_frames": 100_000,
                      "relative_width": 0.002} | changes))  # fmt: skip
    ports = tuple(replace(port, ring=RING) for port in SCENARIO.ports)
    scenario = replace(SCENARIO, measure=burst, search=TIGHT, ports=ports)
    instrument = SimulatedInstrument(truth)
    instrument.open()
    kept = []

    def keep(trial):
        kept.append(trial)
        if len(kept) == stop_after:
            session.stop()

    session = Session(scenario, instrument, Bracket([]), keep, Listener(), recorded)
    try:
        return measure_bursts(session), kept
    except Interrupted:
        return None, kept


def metrics(result):
    return {metric.name: metric for metric in result.metrics}


def test_the_longest_burst_is_what_the_ring_holds_while_the_dut_goes_on_forwarding():
    result, _ = measured()
    figures = metrics(result)
    assert figures["longest burst"].value == pytest.approx(LONGEST, rel=0.003)
    assert figures["burst rate"].value == pytest.approx(8e6, rel=0.001)
    assert figures["NDR"].value == pytest.approx(2e6, rel=0.01)
    assert figures["implied buffer time"].value == pytest.approx(LONGEST / 8e6, rel=0.003)
    assert figures["corrected buffer time"].value == pytest.approx(RING / 8e6, rel=0.01)
    assert figures["corrected buffer"].value == pytest.approx(RING, rel=0.01)
    assert figures["ring"].value == RING, "beside the figure, which is that of the ring"
    assert "1 s trials" in figures["NDR"].note
    assert result.outcome is Outcome.MEASURED
    assert result.verdict.limit is Limit.NAMED_DROP
    assert [len(result.burst.tests), result.metrics[0].name] == [4, "longest burst"]


def test_average_least_most_and_deviation_are_those_of_the_tests():
    result, _ = measured(replace(TRUTH, noise=0.1, seed=3), repeats=8)
    lengths = [test.longest for test in result.burst.tests]
    figures = metrics(result)
    assert len(set(lengths)) > 1
    assert figures["average burst"].value == pytest.approx(sum(lengths) / 8)
    assert figures["longest burst"].low < figures["longest burst"].value < figures["longest burst"].high
    assert (figures["shortest of the tests"].value, figures["longest of the tests"].value) == (
        min(lengths),
        max(lengths),
    )
    mean = sum(lengths) / 8
    assert figures["burst standard deviation"].value == pytest.approx(
        (sum((x - mean) ** 2 for x in lengths) / 7) ** 0.5
    )


def test_a_stated_rate_and_a_given_throughput_need_no_search():
    result, kept = measured(rate_fps=4e6, throughput_fps=2e6)
    figures = metrics(result)
    assert figures["longest burst"].value == pytest.approx(RING / (1 - 2 / 4), rel=0.003)
    assert figures["corrected buffer"].value == pytest.approx(RING, rel=0.003)
    assert "NDR" not in figures
    assert "burst.throughput_fps" in figures["given throughput"].note
    assert {trial.phase for trial in kept} == {"warm-up", "burst"}
    assert all(trial.offered == trial.burst_frames for trial in kept if trial.phase == "burst")


@pytest.mark.parametrize("changes", [{}, {"throughput_fps": 2e6}])
def test_a_generator_no_faster_than_the_dut_is_refused_with_the_reason(changes):
    result, _ = measured(replace(TRUTH, ceiling_fps=1.9e6 if not changes else 2.01e6), **changes)
    assert result.outcome is Outcome.IMPOSSIBLE
    assert result.reason.startswith("no burst is faster than the DUT")
    assert (result.metrics, result.verdict) == ((), None)


def test_a_dut_that_loses_no_burst_allowed_is_told_as_at_least():
    result, _ = measured(max_frames=1200, repeats=2)
    burst = metrics(result)["longest burst"]
    assert (burst.value, burst.low, burst.high) == (1200, 1200, None)
    assert burst.note.startswith("at least")
    assert result.verdict.limit is Limit.SEARCH_MAXIMUM


def test_a_burst_in_which_the_host_took_the_engines_core_is_sent_again():
    stalls = (Stalls(StallKind.ENGINE, per_second=500.0, length_s=0.002),)
    result, kept = measured(replace(TRUTH, stalls=stalls, seed=1), throughput_fps=2e6)
    assert any(trial.validity is TrialValidity.NOISY_HOST for trial in kept if trial.phase == "burst")
    assert metrics(result)["longest burst"].value == pytest.approx(LONGEST, rel=0.003)


def test_where_no_burst_can_be_judged_the_reason_is_told_and_no_number():
    stalls = (Stalls(StallKind.ENGINE, per_second=1e5, length_s=0.002),)
    result, kept = measured(replace(TRUTH, stalls=stalls), throughput_fps=2e6)
    assert result.outcome is Outcome.FAILED
    assert "no burst could be judged: 1,024 frames: noisy_host" in result.reason
    assert len(kept) < 20


def test_an_interrupted_run_is_continued_without_sending_a_burst_twice():
    whole, all_kept = measured(throughput_fps=2e6)
    nothing, kept = measured(throughput_fps=2e6, stop_after=12)
    assert nothing is None
    assert len(kept) == 12
    result, rest = measured(throughput_fps=2e6, recorded=kept)
    assert result.burst.average == whole.burst.average
    assert len(kept) + len(rest) == len(all_kept) + 1, "a new bench needs its own warm-up, and no more"


def test_the_time_estimate_counts_about_the_bursts_that_are_sent():
    _, kept = measured(throughput_fps=2e6, repeats=20, relative_width=0.01)
    sent = sum(trial.phase == "burst" for trial in kept)
    assert sent == pytest.approx(expected_bursts(Burst(20, None, 2e6, 100_000, 0.01)), rel=0.4)

"""The simulated twin keeps its own accounts, and its truth shows where it should."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulated import CoreDistance, PortFailure, SimulatedInstrument, Stop, Truth
from simulated_queue import StallKind, Stalls
from support import request, stream

from pinchpoint.engine.instrument import EngineResult, Instrument
from pinchpoint.model.errors import EngineError
from pinchpoint.model.trial import Sample


def run(truth: Truth, load_fps: float, duration_s: float = 1.0) -> EngineResult:
    instrument = SimulatedInstrument(truth)
    instrument.open()
    return instrument.run(request(load_fps, duration_s))


def test_it_is_an_instrument_and_says_that_it_is_simulated() -> None:
    instrument: Instrument = SimulatedInstrument(Truth(5e6))
    assert instrument.open()["engine"] == "simulated"


@given(st.floats(1e5, 9e6), st.integers(0, 1000))
def test_counting_makes_the_same_trials_as_running(load_fps: float, seed: int) -> None:
    stalls = (Stalls(StallKind.DUT, 1.0, 0.002), Stalls(StallKind.ENGINE, 1.0, 0.001))
    truth = Truth(5e6, noise=0.01, stalls=stalls, loss_ratio=1e-4, core_distance=CoreDistance(dwell_s=1.0), seed=seed)
    run, count = SimulatedInstrument(truth), SimulatedInstrument(truth)
    run.open()
    asked = replace(request(load_fps), probe_cores=((0, 1),))
    for _ in range(3):
        result, counts = run.run(asked), count.count(asked)
        (counted,) = result.streams
        assert (counts.intended, counts.offered, counts.refused) == (counted.intended, counted.offered, counted.refused)
        assert counts.lost_inside == counted.lost
        assert (counts.before_ns, counts.after_ns) == (result.cache_line_before_ns, result.cache_line_after_ns)
        assert run.now_s() == count.now_s()


def test_it_runs_only_between_open_and_close() -> None:
    instrument = SimulatedInstrument(Truth(5e6))
    with pytest.raises(EngineError):
        instrument.run(request(1e6))
    instrument.open()
    instrument.run(request(1e6))
    instrument.close()
    instrument.close()
    with pytest.raises(EngineError):
        instrument.run(request(1e6))


def test_the_clock_moves_by_traffic_drain_and_overhead() -> None:
    instrument = SimulatedInstrument(Truth(5e6, overhead_s=0.25))
    instrument.open()
    assert instrument.now_s() == 0
    instrument.run(request(1e6, duration_s=3.0))
    assert instrument.now_s() == pytest.approx(3.0 + 0.1 + 0.25)


def test_below_the_capacity_nothing_is_lost() -> None:
    counts = run(Truth(5e6), 4.999e6).streams[0]
    assert (counts.intended, counts.offered, counts.received, counts.lost) == (
        4_999_000,
        4_999_000,
        4_999_000,
        0,
    )


def test_above_the_capacity_the_surplus_beyond_the_ring_is_refused() -> None:
    counts = run(Truth(5e6, ring=1000), 6e6).streams[0]
    assert counts.offered == 6_000_000
    assert (counts.refused, counts.lost) == (999_000, 0)
    assert counts.received == 5_001_000


def test_above_its_ceiling_the_generator_falls_short() -> None:
    counts = run(Truth(5e6, ceiling_fps=3e6), 4e6).streams[0]
    assert (counts.intended, counts.offered, counts.shortfall, counts.lost) == (
        4_000_000,
        3_000_000,
        1_000_000,
        0,
    )


def test_a_constant_loss_is_not_refused_by_the_ring() -> None:
    counts = run(Truth(5e6, loss_ratio=0.01), 1e6).streams[0]
    assert (counts.refused, counts.lost) == (0, 10_000)


def test_a_gap_of_the_engine_shows_in_its_witness_and_is_a_shortfall_but_no_loss() -> None:
    result = run(Truth(5e6, ring=1024, stalls=(Stalls(StallKind.ENGINE, 3, 0.002),)), 2e6, 2.0)
    worker = result.workers[0]
    assert worker.gaps > 0
    assert worker.gap_max_ns == 2_000_000
    assert worker.gap_total_ns == worker.gaps * 2_000_000
    assert worker.gap_max_at_s is not None and 0 < worker.gap_max_at_s < 2
    assert result.streams[0].lost == 0
    assert result.streams[0].shortfall == worker.gaps * 4000


def test_a_descheduled_dut_thread_shows_as_run_delay_and_a_pause_of_its_own_does_not() -> None:
    delays, losses = [], []
    for kind in (StallKind.DUT_THREAD, StallKind.DUT):
        instrument = SimulatedInstrument(Truth(5e6, stalls=(Stalls(kind, 3, 0.002),)))
        instrument.open()
        result = instrument.run(request(2e6, 2.0))
        delays.append(instrument.dut_threads[0].run_delay_ns or 0)
        losses.append(result.streams[0].refused)
        assert result.workers[0].gaps == 0
    assert delays[0] > 0 and delays[0] % 2_000_000 == 0
    assert delays[1] == 0
    assert losses[0] == losses[1] > 0


@pytest.mark.parametrize(("stop", "known", "last_s"), [(Stop(0.3, 0.3), 300_000, 0.6), (Stop(0.7), 0, None)])
def test_what_a_dut_loses_while_it_has_stopped_is_known_once_frames_come_again(
    stop: Stop, known: int, last_s: float | None
) -> None:
    heard = list[Sample]()
    instrument = SimulatedInstrument(Truth(5e6, stop=stop))
    instrument.open()
    result = instrument.run(replace(request(1e6), sample_s=0.25), heard.append)
    assert result.streams[0].lost == 300_000
    assert result.streams[0].last_loss_s == (None if last_s is None else pytest.approx(last_s))
    assert [sample.lost for sample in heard] == [0, 0, known, known]
    came = [250_000, 300_000, 450_000, 700_000] if known else [250_000, 500_000, 700_000, 700_000]
    assert [sample.received for sample in heard] == came


def test_far_cores_halve_the_capacity_and_show_in_the_probe() -> None:
    instrument = SimulatedInstrument(Truth(4e6, ring=64, core_distance=CoreDistance(dwell_s=20)))
    instrument.open()
    rates: dict[float, set[int]] = {}
    for _ in range(200):
        result = instrument.run(request(6e6))
        if result.cache_line_before_ns == result.cache_line_after_ns and result.cache_line_before_ns:
            rates.setdefault(result.cache_line_before_ns, set()).add(result.streams[0].received)
    assert rates.keys() == {30.0, 160.0}
    assert 4_000_064 in rates[30.0]
    assert 2_000_064 in rates[160.0]


def test_noise_differs_by_trial_and_by_seed_but_not_by_repetition() -> None:
    def received(seed: int) -> list[int]:
        instrument = SimulatedInstrument(Truth(5e6, noise=0.01, seed=seed))
        instrument.open()
        return [instrument.run(request(9e6)).streams[0].received for _ in range(5)]

    assert received(1) == received(1)
    assert received(1) != received(2)
    assert len(set(received(1))) == 5


def test_streams_share_the_load_by_their_shares() -> None:
    instrument = SimulatedInstrument(Truth(5e6))
    instrument.open()
    streams = (stream(share=3), stream(share=1, tx_port="right", rx_port="left"))
    result = instrument.run(request(1e6, streams=streams))
    assert [counts.offered for counts in result.streams] == [750_000, 250_000]
    left, right = result.ports
    assert (left.name, left.sent, left.received) == ("left", 750_000, 250_000)
    assert (right.name, right.sent, right.received) == ("right", 250_000, 750_000)


def test_latency_rises_with_the_load() -> None:
    p99 = []
    for load in (1e6, 4.9e6, 6e6):
        latency = run(Truth(5e6), load).streams[0].latency
        assert latency is not None
        p99.append(latency.p99_ns)
    assert p99[0] < p99[1] < p99[2]


def test_a_port_that_fails_ends_its_trial_early_and_the_next_one_is_whole() -> None:
    instrument = SimulatedInstrument(Truth(5e6, overhead_s=0.0, failures=(PortFailure(2, "left", 0.25),)))
    instrument.open()
    first, second, third = (instrument.run(request(1e6)) for _ in range(3))
    assert (second.completed, second.reason) == (False, "left: its link went down")
    assert second.sent_duration_s == 0.25
    assert (second.streams[0].intended, second.streams[0].received) == (250_000, 250_000)
    assert all((result.completed, result.reason) == (True, None) for result in (first, third))
    assert instrument.now_s() == pytest.approx(1.1 + 0.25 + 1.1), "it is over at once, without a drain"


TRUTHS = st.builds(
    Truth,
    capacity_fps=st.just(3e6),
    noise=st.just(0.1),
    loss_ratio=st.floats(0, 1),
    ceiling_fps=st.floats(1, 2e7),
    stalls=st.builds(
        Stalls,
        kind=st.just(StallKind.ENGINE),
        per_second=st.just(2.0),
        length_s=st.floats(0.0001, 2),
    ).map(lambda stalls: (stalls,)),
)


@given(TRUTHS, st.floats(1, 2e7), st.floats(0.01, 5))
def test_every_frame_is_accounted_for(truth: Truth, load_fps: float, duration_s: float) -> None:
    for counts in run(truth, load_fps, duration_s).streams:
        assert counts.intended == counts.offered + (counts.shortfall or 0)
        assert counts.offered == counts.sent + counts.refused
        assert counts.sent == counts.received + counts.lost
        assert min(counts.offered, counts.refused, counts.received, counts.shortfall or 0) >= 0

"""Several simulated devices on one host: what they differ by shows in slices, whatever the host does."""

from dataclasses import replace
from statistics import mean, stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import request, stream

from pinchpoint.engine.instrument import EngineResult, Instrument, SliceCounts, Slices, TrialRequest
from pinchpoint.engine.simulated import Truth
from pinchpoint.engine.simulated_duet import SimulatedDuet, Twins, Walk
from pinchpoint.engine.simulated_queue import StallKind, Stalls
from pinchpoint.model.errors import EngineError

DUET = Slices(((0,), (1,)), (0, 1, 1, 0), 0.02, 0.002, 0.006, ((4021,), (4022,)))
TRUTH = Truth(5e6)
PAIRS = (stream(), stream(tx_port="left_b", rx_port="right_b"))


def asked(load_fps: float = 9e6, duration_s: float = 4.0, slices: Slices = DUET) -> TrialRequest:
    return replace(request(load_fps, duration_s, PAIRS), slices=slices)


def run(twins: Twins, truth: Truth = TRUTH, trial: TrialRequest | None = None) -> EngineResult:
    instrument = SimulatedDuet(truth, twins)
    instrument.open()
    return instrument.run(trial or asked())


def rates(result: EngineResult, group: int) -> list[float]:
    return [(one.received or 0) / one.length_s for one in result.slices if one.group == group]


def of(result: EngineResult, group: int) -> list[SliceCounts]:
    return [one for one in result.slices if one.group == group]


def test_it_is_an_instrument_that_also_runs_trials_without_slices() -> None:
    instrument: Instrument = SimulatedDuet(Truth(5e6), Twins((1.0,)))
    assert instrument.open()["engine"] == "simulated"
    assert instrument.run(request(1e6)).slices == ()


def test_slices_follow_their_order_and_only_a_change_of_groups_costs_anything() -> None:
    result = run(Twins((1.0, 1.0), switch_s=40e-6), trial=asked(duration_s=0.1))
    seen = [(one.group, round(one.start_s, 6), round(one.length_s, 6), one.switch_s) for one in result.slices]
    assert seen == [
        (0, 0.008, 0.012, 40e-6),
        (1, 0.028, 0.012, 40e-6),
        (1, 0.04, 0.02, None),
        (0, 0.068, 0.012, 40e-6),
        (0, 0.08, 0.02, None),
    ]


def test_each_group_has_the_whole_load_while_it_is_sent() -> None:
    result = run(Twins((1.0, 0.8)))
    assert rates(result, 0) == pytest.approx([5e6] * 100, rel=1e-4)
    assert rates(result, 1) == pytest.approx([4e6] * 100, rel=1e-4)
    one, other = result.streams
    assert one.intended == pytest.approx(9e6 * (2 - 51 * 0.002), abs=1)
    assert other.intended == pytest.approx(9e6 * (2 - 50 * 0.002), abs=1)


def test_pairs_of_slices_find_the_ratio_on_a_host_that_moves_far_more() -> None:
    result = run(Twins((1.0, 0.98), host=Walk(0.1, seed=3, jump=1.6, jump_every_s=1.0)), trial=asked(duration_s=20.0))
    assert stdev(rates(result, 0)) / mean(rates(result, 0)) > 0.05
    ratios = []
    for a, b, c, d in zip(*(iter(result.slices),) * 4, strict=False):
        assert (a.group, b.group, c.group, d.group) == (0, 1, 1, 0)
        rate = [(one.received or 0) / one.length_s for one in (a, b, c, d)]
        ratios.append((rate[1] + rate[2]) / (rate[0] + rate[3]))
    assert mean(ratios) == pytest.approx(0.98, abs=4 * stdev(ratios) / len(ratios) ** 0.5)


@given(
    st.floats(1e5, 9e6),
    st.floats(0.01, 1.0),
    st.booleans(),
    st.sampled_from([0.0, 1e-3]),
    st.integers(0, 1000),
)
def test_what_the_slices_count_is_in_the_account(load: float, duration_s: float, all_: bool, loss: float, seed: int):
    stalls = tuple(Stalls(kind, 5.0, 0.003) for kind in StallKind)
    truth = Truth(5e6, stalls=stalls, loss_ratio=loss, seed=seed)
    slices = replace(DUET, settle_s=0.0, discard_s=0.0) if all_ else DUET
    twins = Twins((1.0, 0.7), Walk(0.1, seed), scatter=0.1, thaw_s=0.003)
    result = run(twins, truth, asked(load, duration_s, slices))
    for group, account in enumerate(result.streams):
        assert account.offered == account.sent + account.refused
        assert account.intended == account.offered + (account.shortfall or 0)
        own = of(result, group)
        offered, received = sum(one.offered for one in own), sum(one.received or 0 for one in own)
        assert offered <= account.offered
        assert not all_ or offered == account.offered
        assert received <= (account.received or 0) + len(own)  # a whole frame may fall to either side of a boundary


def test_a_standing_engine_is_told_in_the_slices_that_it_met() -> None:
    truth = Truth(5e6, stalls=(Stalls(StallKind.ENGINE, 5.0, 0.004),))
    result = run(Twins((1.0, 1.0)), truth, asked(2e6))
    met = [one for one in result.slices if one.gap_s]
    assert 0 < len(met) < len(result.slices)
    assert all(one.offered < 2e6 * one.length_s - 1 for one in met if one.gap_s > 1e-5)
    assert sum(one.gap_s for one in result.slices) < result.workers[0].gap_total_ns / 1e9


def test_a_thaw_that_outlasts_what_is_discarded_shows_as_a_lower_rate() -> None:
    short = run(Twins((1.0, 1.0), thaw_s=0.008))
    long = run(Twins((1.0, 1.0), thaw_s=0.011))
    assert rates(short, 0)[3] == pytest.approx(5e6, rel=1e-3)
    assert rates(long, 0)[3] == pytest.approx(5e6 * 9 / 12, rel=1e-3)


def test_the_clock_moves_and_the_same_seed_gives_the_same_trial() -> None:
    twins = Twins((1.0, 0.9), Walk(0.02, seed=7), scatter=0.1)
    first, second = SimulatedDuet(Truth(5e6, seed=5), twins), SimulatedDuet(Truth(5e6, seed=5), twins)
    for instrument in (first, second):
        instrument.open()
    assert first.run(asked()) == second.run(asked())
    assert first.now_s() == pytest.approx(4.0 + 0.1 + 0.05)
    assert first.run(asked(duration_s=1.0)).slices != first.run(asked(duration_s=1.0)).slices


def test_more_groups_than_devices_are_refused() -> None:
    with pytest.raises(EngineError, match="2 groups, 1 devices"):
        run(Twins((1.0,)))

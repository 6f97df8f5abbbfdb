"""Slices of two benches on one engine that is made up: what is asked of it, kept and concluded."""

import math
from dataclasses import replace
from random import Random
from types import SimpleNamespace

import pytest
from simulated import SimulatedInstrument
from support import TWO_PORTS, Truth, scenario_text

from pinchpoint.engine.instrument import EngineResult, SliceCounts, TrialRequest
from pinchpoint.measure.standing import Interrupted, Task
from pinchpoint.model.duet import CALIBRATION, MEASURED
from pinchpoint.model.errors import DutError, EngineError
from pinchpoint.model.scenario import Established
from pinchpoint.run.duet import SLICINGS, TIMES_THE_MOST, UNDECIDED, AlternatingSlices, SliceRecord
from pinchpoint.run.paired_benches import LivePair, OneSide, of_side, why_no_duet
from pinchpoint.scenario import parse
from pinchpoint.stats.duet import compare_slices

PIDS = (4021, 4022)


class Engine:
    """Forwards `rates_fps` of A and of B; after a thaw half of it, and more as caches fill, in `fill_s` by 1 - 1/e."""

    def __init__(self, rates_fps, fill_s=(0.0, 0.0), scatter=0.0, fails_at=0, stops=None):
        self.rates_fps, self.fill_s, self.fails_at, self.stops = rates_fps, fill_s, fails_at, stops
        self.scatter, self.random = scatter, Random(1)
        self.asked, self.thawed, self.stopped = [], 0, False

    def run(self, request, heard=None):
        self.asked.append(request)
        if self.stops is not None:
            self.stops()
        if len(self.asked) == self.fails_at:
            raise EngineError("the engine was killed by signal 9")
        number = int(request.duration_s / request.slices.length_s)
        slices = tuple(self._slice(place, request) for place in range(number))
        return EngineResult(True, request.duration_s, (), (), (), 30.0, 32.0, slices=slices)

    def stop(self):
        self.stopped = True

    def _slice(self, place, request):
        cut, order = request.slices, request.slices.order
        group = order[place % len(order)]
        since = 0  # slices of this group before it
        while since < place and order[(place - since - 1) % len(order)] == group:
            since += 1
        lost_s = (not since) * (cut.settle_s + cut.discard_s)
        length_s = cut.length_s - lost_s
        begin_s, fill_s = since * cut.length_s + lost_s, self.fill_s[group]
        missing_s = (
            fill_s / 2 * (math.exp(-begin_s / fill_s) - math.exp(-(begin_s + length_s) / fill_s)) if fill_s else 0
        )
        received = round(self.rates_fps[group] * (length_s - missing_s) * self.random.lognormvariate(0, self.scatter))
        switch_s = 40e-6 if not since else None
        offered = round(request.load_fps * length_s)
        return SliceCounts(group, place * cut.length_s + lost_s, length_s, switch_s, offered, 0, received, 0.0)


BENCH = SimpleNamespace(scenario=TWO_PORTS, task=Task())


class TwoBenches(LivePair):
    """A pair without processes."""

    @property
    def pids(self):
        return PIDS

    def thaw(self):
        self.instrument.thawed += 1


def duet(engine, recorded=()):
    kept = []
    record = SliceRecord(kept.append, recorded)
    return AlternatingSlices(TwoBenches({"A": BENCH, "B": BENCH}, engine), record), kept, record


def test_one_request_asks_for_slices_of_both_benches_streams_and_holds_the_switch_that_waits():
    engine = Engine((2e6, 2e6))
    duet(engine)[0].stretch(MEASURED, SLICINGS[1], 1.0)
    (asked,) = engine.asked
    assert [(stream.tx_port, stream.rx_port) for stream in asked.streams] == [
        ("A.left", "A.right"),
        ("B.left", "B.right"),
    ]
    assert asked.slices.groups == ((0,), (1,))
    assert asked.slices.order == (0, 1, 1, 0)
    assert asked.slices.hold == ((PIDS[0],), (PIDS[1],))
    assert asked.load_fps == TWO_PORTS.search.max_load_fps


def test_the_ratio_of_two_benches_is_found_and_their_slices_add_up_to_what_was_asked_for():
    made, kept, record = duet(Engine((3e6, 1.5e6)))
    made.measure(12.0)
    measured = [stretch for stretch in kept if stretch.phase == MEASURED]
    assert record.measured_s == pytest.approx(12, abs=0.1)
    assert max(stretch.wall_s for stretch in measured) < 6, "a kill loses one of several requests"
    assert len(measured) == 5
    assert compare_slices(kept).difference.value == pytest.approx(0.5, rel=1e-3)


def test_a_switch_that_died_between_two_requests_is_the_error_and_not_the_engine_that_misses_it():
    class OneDied(TwoBenches):
        is_dead = False

        @property
        def pids(self):
            if self.is_dead:
                raise DutError("ovs-vswitchd is gone")
            return PIDS

    class Refuses(Engine):
        def run(self, request, heard=None):
            pair.is_dead = True
            raise EngineError("slices.hold[0][0]: process 4021 has ended")

    pair = OneDied({"A": BENCH, "B": BENCH}, Refuses((2e6, 2e6)))
    with pytest.raises(DutError, match="is gone"):
        AlternatingSlices(pair, SliceRecord(lambda _: None)).stretch(MEASURED, SLICINGS[1], 1.0)


def test_the_load_follows_what_the_faster_bench_forwards():
    engine = Engine((3e6, 1e6))
    duet(engine)[0].measure(2.0)
    assert engine.asked[0].load_fps == TWO_PORTS.search.max_load_fps
    assert engine.asked[-1].load_fps == pytest.approx(TIMES_THE_MOST * 3e6, rel=0.01)


@pytest.mark.parametrize(("fill_s", "chosen"), [(0.0, 0), (0.001, 0), (0.002, 1), (0.004, 2), (0.02, 3)])
def test_calibration_takes_the_shortest_slices_that_forward_as_much_as_longer_ones(fill_s, chosen):
    made, kept, _ = duet(Engine((2e6, 2e6), (0.0, fill_s)))
    made.measure(1.0)
    assert kept[-1].slicing == SLICINGS[chosen]
    assert {stretch.phase for stretch in kept[:-1]} == {CALIBRATION}


def test_slices_in_a_row_are_asked_for_by_the_order():
    engine = Engine((2e6, 2e6))
    duet(engine)[0].stretch(MEASURED, SLICINGS[3], 1.0)
    assert engine.asked[0].slices.order == (0, 0, 1, 1, 1, 1, 0, 0)


@pytest.mark.parametrize("fill_s", [0.01, 0.03])
def test_slices_become_longer_while_those_after_a_thaw_forward_less(fill_s):
    """Slices scatter, so that a calibration of 0.6 s shows nothing; what is measured does."""
    made, kept, record = duet(Engine((2e6, 2e6), (0.0, fill_s), scatter=0.15))
    made.measure(30.0)
    tried = [stretch.slicing for stretch in kept if stretch.phase == MEASURED]
    assert SLICINGS.index(tried[0]) < SLICINGS.index(tried[-1])
    assert record.measured_s == pytest.approx(30, abs=1)
    ratio = compare_slices(kept)
    assert ratio.difference.value == pytest.approx(1, abs=0.05)


def test_where_the_longest_slices_are_unsteady_too_they_are_taken():
    made, kept, record = duet(Engine((2e6, 2e6), (0.0, 0.06)))
    made.measure(60.0)
    assert kept[-1].slicing == SLICINGS[-1]
    assert record.measured_s == pytest.approx(60, abs=2)


def test_where_the_host_disturbs_every_slice_short_ones_are_taken():
    class Disturbed(Engine):
        def _slice(self, place, request):
            return replace(super()._slice(place, request), gap_s=0.9 * request.slices.length_s)

    made, kept, _ = duet(Disturbed((2e6, 2e6)))
    made.measure(1.0)
    assert kept[-1].slicing == UNDECIDED
    assert compare_slices(kept).summary.used == 0


def test_recorded_slices_are_not_measured_again():
    made, kept, _ = duet(Engine((2e6, 2e6)))
    made.measure(6.0)
    before = kept[: 1 + [stretch.phase for stretch in kept].index(MEASURED)]
    engine = Engine((2e6, 2e6))
    again, more, _ = duet(engine, before)
    again.measure(6.0)
    assert [stretch.phase for stretch in more] == [MEASURED, MEASURED], "cut as before, at the load of before"
    assert {(stretch.slicing, stretch.load_fps) for stretch in more} == {(before[-1].slicing, before[-1].load_fps)}
    assert {stretch.id for stretch in more}.isdisjoint(stretch.id for stretch in before)


def test_slices_of_a_point_bear_its_name_and_those_of_others_are_not_its_own():
    made, others, _ = duet(Engine((2e6, 2e6)))
    made.stretch(MEASURED, SLICINGS[1], 1.0)
    kept = []
    record = SliceRecord(kept.append, others, "g-rules-2")
    assert record.measured_s == 0
    pair = TwoBenches({"A": BENCH, "B": BENCH}, Engine((2e6, 2e6)))
    AlternatingSlices(pair, record).stretch(MEASURED, SLICINGS[1], 1.0)
    assert [(stretch.scenario, stretch.id) for stretch in kept] == [("g-rules-2", "g-rules-2-slices-0001")]
    assert record.measured_s == pytest.approx(1.0, abs=0.05)


def test_a_signal_during_a_stretch_ends_it_and_keeps_what_it_has():
    engine = Engine((2e6, 2e6))
    made, kept, _ = duet(engine)
    engine.stops = lambda: made.loop.stop() if len(engine.asked) == 5 else None
    with pytest.raises(Interrupted):
        made.measure(30.0)
    assert engine.stopped
    assert len(kept) == 5


def test_whatever_becomes_of_the_engine_the_frozen_switch_is_thawed():
    engine = Engine((2e6, 2e6), fails_at=2)
    with pytest.raises(EngineError):
        duet(engine)[0].measure(5.0)
    assert engine.thawed == 2


def test_a_switch_that_ends_meanwhile_is_an_error_once_its_slices_are_kept():
    class Aborting(Engine):
        def run(self, request, heard=None):
            return replace(super().run(request), completed=False, reason="process 4021 has ended")

    made, kept, _ = duet(Aborting((2e6, 2e6)))
    with pytest.raises(DutError, match="4021"):
        made.measure(5.0)
    assert [stretch.reason for stretch in kept] == ["process 4021 has ended"]


def test_one_side_of_a_joint_engine_sees_its_own_ports_by_their_own_names():
    joint = SimulatedInstrument(Truth(5e6))
    joint.open()
    request = TrialRequest("t", 0, 1.0, 0.1, 1e6, TWO_PORTS.streams, ())
    result = OneSide(joint, "B").run(request)
    assert {port.name for port in result.ports} == {"left", "right"}
    assert (result.streams[0].tx_port, result.streams[0].rx_port) == ("left", "right")
    (seen,) = joint.run(replace(request, streams=(of_side(TWO_PORTS.streams[0], "B."),))).streams
    assert (seen.tx_port, seen.rx_port) == ("B.left", "B.right")


def scenario(**changes):
    text = scenario_text(changes.get("measure", "rates"), datapath=changes.get("datapath", "dpdk"))
    for old, new in changes.get("swap", ()):
        assert old in text
        text = text.replace(old, new)
    return parse(text, "x.toml")


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({}, ""),
        ({"datapath": "af_packet"}, ""),
        ({"datapath": "kernel"}, "the kernel's one datapath"),
        ({"measure": "load", "swap": [("[engine]", "[load]\nat_fps = [1e5]\n[engine]")]}, 'measure = "load"'),
        ({"swap": [("cpus = [0]\n[[stream", "cpus = [2]\n[[stream")]}, "engine.cpus differ"),
        ({"swap": [("pmd_cpus = [1]", "pmd_cpus = [3]")]}, ""),
    ],
)
def test_why_two_scenarios_are_no_duet(changes, why):
    reason = why_no_duet(scenario(), scenario(**changes))
    assert bool(reason) is bool(why)
    assert why in reason


def test_connections_of_a_service_are_established_on_a_bench_alone():
    a = replace(scenario(), established=Established(10, 78, 1000.0, 1.0))
    assert why_no_duet(a, scenario()) == "connections of a service are established on a bench alone"

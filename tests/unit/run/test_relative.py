"""Points measured relative to a reference that stands: which is the reference, and what becomes of one that cannot."""

from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from types import SimpleNamespace

import pytest
from simulated import SimulatedInstrument
from slices import stretch, wandering
from support import Truth
from sweeps import factor, measured, sweep

from pinchpoint.dut.ovs.spec import Datapath
from pinchpoint.findings.curves import curves
from pinchpoint.findings.paired_benches import (
    NARROW,
    UNIT,
    is_enough,
    of_reference,
    relative_metrics,
    surely_not_overloaded,
)
from pinchpoint.host.local import Local
from pinchpoint.host.machines import Machines
from pinchpoint.measure.session import Session
from pinchpoint.measure.standing import Listener, Standing, Task
from pinchpoint.model.duet import RELATIVE
from pinchpoint.model.errors import BenchError, HostLostError, RequirementError
from pinchpoint.model.measurement import Bound, Metric
from pinchpoint.model.result import Outcome, RateStatus, RunResult
from pinchpoint.model.scenario import Relative
from pinchpoint.model.study import SweepInfo
from pinchpoint.model.trial import WARM_UP, Trial
from pinchpoint.model.warning import Warn
from pinchpoint.observe.snapshot import Bracket
from pinchpoint.run import paired_benches, relative
from pinchpoint.run.budget import expected_s
from pinchpoint.run.duet import SLICINGS, STRETCH_S, SliceRecord
from pinchpoint.run.order import units
from pinchpoint.run.paired_benches import LivePair
from pinchpoint.run.relative import MOST_S, References, StandingReference
from pinchpoint.run.run import unmeasured
from pinchpoint.store.codec import SCHEMA


def related(swept, relative=Relative.ALONE):
    """The same sweep, its points measured relative to the first."""
    first = swept.scenarios[0].name
    points = (
        replace(scenario, point=replace(scenario.point, relative=relative, reference=first))
        for scenario in swept.scenarios
    )
    return replace(swept, scenarios=tuple(points))


MACHINES, TASK = Machines(Local()), Task()
THREE = related(sweep(factor([1, 2, 3])))


@dataclass
class Stands:
    """In place of a reference's bench."""

    scenario: object
    drop: object
    measured: object
    lab: object = None

    @property
    def is_gone(self):
        return self.lab.far_is_gone


class Lab:
    """In place of benches: what was done in which order; `wrong` is what happens with a scenario."""

    def __init__(self, lacking=(), cannot_stand=(), broken=(), lost=(), too_little=(), fast=(), slices=None):
        self.did = []
        self.fast, self.slices = fast, slices or {}  # not overloaded by a search; what slices beside the reference show
        self.lacking, self.cannot_stand, self.broken, self.lost = lacking, cannot_stand, broken, lost
        self.too_little = too_little  # memory, while a reference stands
        self.standing = None
        self.far_is_gone = False  # the host of what stands, and with it that

    def references(self, every, done=(), stretches=()):
        folder = SimpleNamespace(
            read_stretches=lambda: stretches,
            append_stretch=lambda kept: None,
            so_far=lambda: RunResult(SCHEMA, "run", False, tuple(done), (), ()),
        )
        return References(MACHINES, every, folder, self.run_one, self.stand, self.require, self.lacks)

    def run_one(self, unit, task):
        self.did.append(f"search {unit.name}")
        if unit.name in self.lost:
            return unmeasured(unit, Outcome.FAILED, "no window", 1.0)
        result = measured(unit, 1e6)
        if unit.name in self.fast:
            rates = tuple(replace(rate, status=RateStatus.AT_LEAST) for rate in result.rates)
            return replace(result, rates=rates, most_offered_fps=1e6)
        return result

    def stand(self, machines, reference, task):
        if reference.name in self.cannot_stand:
            raise BenchError("no hugepages")
        assert self.standing is None
        self.standing = reference.name
        self.did.append(f"stand {reference.name}")

        def drop():
            self.standing = None
            self.did.append(f"drop {reference.name}")

        def beside(run_one, unit, task, record):
            how = "search" if unit.point.relative is Relative.BESIDE else "alone"
            self.did.append(f"beside {unit.name} {how} {len(record.stretches)}")
            if unit.name in self.broken:
                raise BenchError("the switch died")
            told = (Metric(RELATIVE, UNIT, 0.5),)
            if slices := self.slices.get(unit.name):
                record.keep(slices)
                told = relative_metrics([slices], reference.name)
            return replace(measured(unit, 5e5), metrics=told, reference=reference.name)

        made = Stands(reference, drop, beside)
        made.lab, self.far_is_gone = self, False
        return made

    def require(self, unit, machines):
        if self.standing and unit.name in self.too_little:
            raise RequirementError("too little memory")

    def lacks(self, a, b, machines):
        return RequirementError("no memory for both", "free some") if b.name in self.lacking else None


def run(lab, *sweeps, done=(), stretches=()):
    every, measured_names = units(sweeps), list(done)
    with lab.references(every, done, stretches) as references:
        for unit in every[len(measured_names) :]:
            references.require(unit, MACHINES)
            measured_names.append(references.run(unit, TASK))
    return measured_names


def relative_of(results):
    return [next((metric.value for metric in result.metrics if metric.name == RELATIVE), None) for result in results]


def points_of(results):
    """Of the curve that the results make."""
    (curve,) = curves([SweepInfo(THREE.group, "", "rates", THREE.factors, 1, "interleaved", 1)], results)
    return curve.points


def test_the_first_point_is_searched_and_then_stands_for_all_others():
    lab = Lab()
    results = run(lab, THREE)
    assert lab.did == [
        "search g-rules-1", "stand g-rules-1", "beside g-rules-2 alone 0", "beside g-rules-3 alone 0",
        "drop g-rules-1",
    ]  # fmt: skip
    assert relative_of(results) == [1.0, 0.5, 0.5]
    assert {result.reference for result in results} == {"g-rules-1"}


def test_a_reference_whose_host_was_lost_is_told_as_that_and_stands_anew():
    lab, every = Lab(), units([THREE])
    with lab.references(every) as references:
        for unit in every[:2]:
            references.run(unit, TASK)
        lab.far_is_gone = True
        with pytest.raises(HostLostError, match="was lost while the reference g-rules-1 stood there"):
            references.run(every[2], TASK)
        references.run(every[2], TASK)
    assert lab.did[2:] == [
        "beside g-rules-2 alone 0", "drop g-rules-1", "stand g-rules-1", "beside g-rules-3 alone 0", "drop g-rules-1",
    ]  # fmt: skip


def test_with_rates_of_their_own_points_are_searched_beside_the_reference():
    lab = Lab()
    run(lab, related(sweep(factor([1, 2])), Relative.BESIDE))
    assert "beside g-rules-2 search 0" in lab.did


def test_each_group_has_its_own_reference_and_a_plain_group_has_the_machine_alone():
    lab = Lab()
    other, plain = related(sweep(factor([1, 2]), group="h")), sweep(factor([1, 2]), group="p")
    run(lab, THREE, other, plain)
    assert lab.did[4:] == [
        "drop g-rules-1", "search h-rules-1", "stand h-rules-1", "beside h-rules-2 alone 0", "drop h-rules-1",
        "search p-rules-1", "search p-rules-2",
    ]  # fmt: skip


def test_after_a_reference_that_was_not_measured_the_next_point_is_it():
    lab = Lab(lost=["g-rules-1"])
    results = run(lab, THREE)
    assert lab.did[:3] == ["search g-rules-1", "search g-rules-2", "stand g-rules-2"]
    assert relative_of(results) == [None, 1.0, 0.5]
    assert results[2].reference == "g-rules-2"


def test_a_point_whose_search_ends_at_the_highest_load_is_no_reference():
    lab = Lab(fast=["g-rules-1"])
    results = run(lab, THREE)
    assert lab.did[:3] == ["search g-rules-1", "search g-rules-2", "stand g-rules-2"]
    assert results[0].reference == ""
    assert "cannot overload it with 1.00 Mpps" in results[0].metrics[0].note
    first, *others = points_of(results)
    assert RELATIVE not in first.estimates
    assert [point.estimates[RELATIVE].value for point in others] == [1.0, 0.5]


def test_where_slices_do_not_overload_the_reference_the_point_beside_it_is_the_next_reference():
    lab = Lab(slices={"g-rules-2": carrying_all("A")})
    results = run(lab, THREE)
    assert lab.did[-3:] == ["stand g-rules-2", "beside g-rules-3 alone 0", "drop g-rules-2"]
    assert [result.reference for result in results] == ["g-rules-1", "g-rules-2", "g-rules-2"]
    first, *others = points_of(results)
    assert RELATIVE not in first.estimates
    assert "relative to g-rules-1, which the engine could not overload" in first.notes[RELATIVE]
    assert [point.estimates[RELATIVE].value for point in others] == [1.0, 0.5]


def test_where_neither_is_overloaded_the_next_point_is_searched():
    both = carrying_all("A")
    both = replace(both, slices=tuple(replace(part, offered=part.received) for part in both.slices))
    lab = Lab(slices={"g-rules-2": both})
    results = run(lab, THREE)
    assert lab.did[-2:] == ["drop g-rules-1", "search g-rules-3"]
    assert results[2].reference == "g-rules-3"


def test_a_reference_that_points_are_relative_to_stays():
    lab = Lab(slices={"g-rules-3": carrying_all("A")})
    results = run(lab, THREE)
    assert {result.reference for result in results} == {"g-rules-1"}
    assert lab.did.count("stand g-rules-1") == 1


@pytest.mark.parametrize(
    ("lab", "why"),
    [
        (Lab(lacking=["g-rules-2"]), "no memory for both"),
        (Lab(cannot_stand=["g-rules-1"]), "g-rules-1 cannot stand: no hugepages"),
    ],
)
def test_a_point_that_cannot_stand_beside_its_reference_has_its_own_rates_and_the_reason(lab, why):
    results = run(lab, THREE)
    assert "search g-rules-2" in lab.did
    (warning,) = results[1].warnings
    assert warning.kind is Warn.NO_RELATIVE_RATE and why in warning.text
    assert results[1].reference == ""


def test_memory_that_suffices_for_one_bench_is_no_reason_to_call_a_point_impossible():
    lab = Lab(too_little=["g-rules-3"], lacking=["g-rules-3"])
    run(lab, THREE)
    assert lab.did[-2:] == ["drop g-rules-1", "search g-rules-3"]


def test_a_datapath_of_which_there_is_one_is_measured_as_ever():
    kernel = (replace(scenario, dut=replace(scenario.dut, datapath=Datapath.KERNEL)) for scenario in THREE.scenarios)
    lab = Lab()
    results = run(lab, replace(THREE, scenarios=tuple(kernel)))
    assert lab.did == [f"search g-rules-{level}" for level in (1, 2, 3)]
    assert all("one datapath" in result.warnings[0].text for result in results)


def test_after_a_failure_beside_it_the_reference_is_built_anew():
    lab = Lab(broken=["g-rules-2"])
    every = units([THREE])
    with lab.references(every) as references:
        references.run(every[0], TASK)
        with pytest.raises(BenchError):
            references.run(every[1], TASK)
        assert lab.standing is None
        references.run(every[2], TASK)
    assert lab.did.count("stand g-rules-1") == 2
    assert lab.standing is None


def test_whatever_ends_the_run_the_reference_is_removed():
    lab, every = Lab(), units([THREE])
    with pytest.raises(KeyboardInterrupt), lab.references(every) as references:
        for unit in every[:2]:
            references.run(unit, TASK)
        raise KeyboardInterrupt
    assert lab.standing is None


def test_a_resumed_run_stands_the_same_reference_and_goes_on_with_recorded_slices():
    first = replace(measured(units([THREE])[0], 1e6), metrics=(of_reference(),), reference="g-rules-1")
    mine = replace(stretch(wandering(1), length_s=1.0), scenario="g-rules-2")
    lab = Lab()
    run(lab, THREE, done=[first], stretches=[mine])
    assert lab.did[:3] == ["stand g-rules-1", "beside g-rules-2 alone 1", "beside g-rules-3 alone 0"]


def test_the_warm_up_beside_the_reference_is_numbered_after_the_search(monkeypatch):
    reference, unit = related(sweep(factor([1, 2])), Relative.BESIDE).scenarios
    instrument = SimulatedInstrument(Truth(5e6))
    instrument.open()

    def standing(scenario, task):
        return Standing(SimpleNamespace(scenario=scenario), None, [], task, 0.0)

    def search(bench):
        session = Session(
            bench.scenario, instrument, Bracket([]), bench.task.keep, Listener(), bench.task.recorded(Trial)
        )
        session.warm_up()
        session.trial("search", 1.0, 1e6)
        return measured(bench.scenario, 1e6)

    @contextmanager
    def warm(a, b):
        pair = LivePair({"A": a, "B": b}, instrument)
        pair.warm_up("B")
        yield pair

    monkeypatch.setattr(relative, "first_of_pair", lambda _, *of: nullcontext(standing(*of)))
    monkeypatch.setattr(relative, "measure_rates", search)
    monkeypatch.setattr(relative, "warm_pair", warm)
    monkeypatch.setattr(relative, "AlternatingSlices", lambda *_: SimpleNamespace(measure=print))
    monkeypatch.setattr(paired_benches, "OneSide", lambda joint, _: joint)
    monkeypatch.setattr(LivePair, "alone", lambda *_: nullcontext())
    monkeypatch.setattr(Standing, "bracket", lambda _: Bracket([]))
    kept = []

    def run_one(unit, task, plan_bench, measure):
        return measure(standing(unit, task))

    task = Task(keep=kept.append)
    StandingReference(MACHINES, reference, task).measured(run_one, unit, task, SliceRecord(print))
    assert [(trial.id, trial.phase) for trial in kept] == [
        ("g-rules-2-0001", WARM_UP), ("g-rules-2-0002", "search"), ("g-rules-2-0003", WARM_UP),
    ]  # fmt: skip


def test_a_repeat_of_the_reference_is_searched_and_is_no_other_reference():
    lab = Lab()
    results = run(lab, related(sweep(factor([1, 2]), repeats=2), Relative.BESIDE))
    assert relative_of(results) == [1.0, 0.5, 1.0, 0.5]
    assert {result.reference for result in results} == {"g-rules-1"}


def test_a_shuffled_group_begins_with_its_reference():
    for seed in range(5):
        shuffled = related(sweep(factor(range(1, 9)), order="random", seed=seed))
        assert units([shuffled])[0].name == "g-rules-1"


def test_a_ratio_alone_takes_less_time_than_a_search_and_both_take_more():
    plain = expected_s(sweep(factor([1, 2])).scenarios[1])
    alone, beside = (
        expected_s(related(sweep(factor([1, 2])), relative).scenarios[1])
        for relative in (Relative.ALONE, Relative.BESIDE)
    )
    assert beside > plain
    assert beside > alone
    assert expected_s(THREE.scenarios[0]) == plain


@pytest.mark.parametrize("seed", range(3))
def test_a_ratio_is_told_with_its_interval_and_reference(seed):
    relative, forwarded = relative_metrics([stretch(wandering(seed), ratio=0.32, length_s=15.0, seed=seed)], "first")
    assert (relative.name, relative.unit) == (RELATIVE, "x")
    assert relative.low < 0.32 < relative.high
    assert relative.high - relative.low < 0.1 * relative.value
    assert "of the forwarded rate under overload, relative to first" in relative.note
    assert forwarded.name == "forwarded rate under overload"


def test_slices_are_enough_once_the_interval_is_narrow():
    short, long = (stretch(wandering(1), length_s=length_s, scatter=0.2) for length_s in (0.4, 60.0))
    assert not is_enough([])
    assert not is_enough([short])
    assert is_enough([long])
    wide = stretch(wandering(1), length_s=40.0, scatter=2.0)
    metric = relative_metrics([wide], "first")[0]
    assert metric.high - metric.low > 2 * NARROW * metric.value
    assert is_enough([wide]), "30 s of it could be used"
    assert not is_enough([stretch(wandering(1), length_s=40.0, scatter=2.0, gaps=0.2)])
    assert 0 < NARROW < 0.05


@pytest.mark.thorough
@pytest.mark.parametrize("slicing", [SLICINGS[0], SLICINGS[-1]])
def test_points_that_end_once_they_are_narrow_hold_the_ratio_and_are_within_five_per_cent(slicing):
    """Pauses of the engine's core disturb a tenth of the slices."""
    intervals = []
    for seed in range(20):
        host, made = wandering(seed), []
        while not is_enough(made) and len(made) * STRETCH_S < MOST_S:
            begin_s, number = STRETCH_S * len(made), 100 * seed + len(made)
            made.append(
                stretch(
                    lambda at_s, host=host, begin_s=begin_s: host(begin_s + at_s),
                    ratio=0.2, gaps=0.1, length_s=STRETCH_S, slicing=slicing, seed=number,
                )
            )  # fmt: skip
        intervals.append(relative_metrics(made, "first")[0])
    assert sum(interval.low <= 0.2 <= interval.high for interval in intervals) >= 17, "chance allows 3 of 20"
    assert all(interval.high - interval.low <= 2 * 0.05 * interval.value for interval in intervals)


def carrying_all(side, share=1.0):
    """Slices of which a share of one bench forwards all that it is offered."""
    every = stretch(wandering(1), length_s=2.5)
    slices = (
        replace(part, offered=part.received) if part.side == side and number % 10 < 10 * share else part
        for number, part in enumerate(every.slices)
    )
    return replace(every, slices=tuple(slices))


def test_without_an_overload_of_the_reference_there_is_no_ratio():
    (metric,) = relative_metrics([carrying_all("A", 0.4)], "first")
    assert metric.bound is Bound.REFUSED
    assert metric.note.startswith("the engine could not overload its reference first") and "Mpps" in metric.note
    (metric,) = relative_metrics([], "first")
    assert metric.bound is Bound.REFUSED and metric.note == "no slice was measured"


@pytest.mark.parametrize("share", [0.4, 1.0])
def test_a_point_that_forwards_all_that_is_offered_has_at_least_that_ratio(share):
    """What it would forward beyond is not known: the true ratio, 1, is the most that its slices show."""
    ratio, rate = relative_metrics([carrying_all("B", share)], "first")
    assert (ratio.bound, rate.bound) == (Bound.AT_LEAST, Bound.AT_LEAST)
    assert ratio.value == ratio.low and ratio.high is None and 0.8 < ratio.value < 1.0
    assert ratio.note.startswith("the engine could not overload it, which forwarded all")
    assert is_enough([carrying_all("B", 1.0)] * 4)


def test_slices_are_enough_once_one_bench_surely_cannot_be_overloaded():
    assert is_enough([carrying_all("A")])
    assert surely_not_overloaded([carrying_all("A")], "A")
    assert not surely_not_overloaded([carrying_all("A")], "B")
    assert not surely_not_overloaded([stretch(wandering(1))], "A")


def test_the_interval_holds_what_a_thaw_costs_the_point_more_than_its_reference():
    """B forwards a tenth less in each slice after a thaw: its caches are cold."""
    made = stretch(wandering(2), ratio=0.5, length_s=15.0, scatter=0.02)
    cold = (
        replace(part, received=round(0.9 * part.received)) if part.side == "B" and part.thawed else part
        for part in made.slices
    )
    (metric, _), (warm, _) = relative_metrics([replace(made, slices=tuple(cold))], "r"), relative_metrics([made], "r")
    assert metric.value < 0.49
    assert metric.low < metric.value < 0.5 < metric.high
    assert warm.high - warm.low < 0.7 * (metric.high - metric.low)
    assert "widened by 5" in metric.note

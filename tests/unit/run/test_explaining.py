"""Which counter-experiments a scenario allows, and which of them are made."""

from dataclasses import replace

import pytest
from support import scenario_of

from pinchpoint.dut.ovs.spec import Rule, spec
from pinchpoint.model.causes import Experiment, Suspicion
from pinchpoint.model.errors import InputError
from pinchpoint.model.result import Limit, Outcome, Verdict
from pinchpoint.model.scenario import Relative
from pinchpoint.model.site import Remote, Site
from pinchpoint.run.explaining import (
    UNCHANGED,
    allowed,
    experiment_of,
    explained,
    is_first,
    left_out,
    next_of,
    sweep_of,
)
from pinchpoint.run.run import unmeasured
from pinchpoint.scenario.plain import from_plain, to_plain


def tracking():
    """The plainest scenario with a rule that tracks connections."""
    scenario = scenario_of("ovs")
    rule = Rule("ip,in_port={left},actions=ct(commit),output:{right}")
    bridges = (replace(spec(scenario).bridges[0], rules=(rule,)),)
    return replace(scenario, dut=replace(spec(scenario), bridges=bridges))


def points(**options):
    return sweep_of(tracking(), **options).scenarios


def test_the_unchanged_bench_comes_first_and_each_other_is_changed_in_one_respect():
    first, *others = points()
    assert experiment_of(first) is None
    assert first.point.levels == {"experiment": UNCHANGED}
    assert {experiment_of(other) for other in others} >= {
        Experiment.PLAIN,
        Experiment.NO_TRACKING,
        Experiment.LARGE_RING,
    }
    assert len({point.name for point in (first, *others)}) == len(others) + 1
    assert all(other.point.reference == first.name for other in others)


def test_every_experiment_stands_beside_the_unchanged_bench_and_the_control_comes_last():
    others = points()[1:]
    assert {other.point.relative for other in others} == {Relative.TRIED}
    assert experiment_of(others[-1]) is Experiment.PLAIN


def test_a_device_that_cannot_be_frozen_is_searched_in_turns():
    sweep = sweep_of(scenario_of("nft"))
    assert {scenario.point.relative for scenario in sweep.scenarios[1:]} <= {Relative.NO}


def test_more_engine_cores_need_a_cpu_that_is_free():
    assert Experiment.MORE_ENGINE_CORES not in map(experiment_of, points())
    assert Experiment.MORE_ENGINE_CORES in map(experiment_of, points(free_cpus={5}))


def test_a_bench_on_another_host_is_explained_as_one_here_and_one_at_cables_by_searches_of_its_own():
    far = Remote("far", "far", sudo=True, lease_s=60)
    there = sweep_of(replace(tracking(), sites=(Site(far),))).scenarios
    assert [point.point.relative for point in there] == [point.point.relative for point in points()]
    assert {point.point.relative for point in there} == {Relative.TRIED}
    ports = tuple(replace(port, interface="eth1", engine_interface="eth2") for port in tracking().ports)
    changed = sweep_of(replace(tracking(), ports=ports)).scenarios[1:]
    assert {point.point.relative for point in changed} == {Relative.NO}


def test_a_rule_that_forwards_is_no_change_of_that_very_rule_wherever_it_stands_in_its_file():
    scenario = scenario_of("ovs")
    rule = Rule("in_port={left},actions=output:{right}", 9)
    bridges = (replace(spec(scenario).bridges[0], rules=(rule,), rule_series=()),)
    plain = replace(scenario, dut=replace(spec(scenario), bridges=bridges))
    assert Experiment.PLAIN not in allowed(plain) and Experiment.LARGE_RING in allowed(plain)
    assert Experiment.PLAIN in allowed(tracking())
    assert allowed(replace(plain, measure=Soak())) == frozenset()


def test_only_rates_can_be_explained():
    with pytest.raises(InputError, match="no rate to explain"):
        sweep_of(replace(tracking(), measure=Soak()))


class Soak:
    kind = "soak"


def test_a_stored_run_knows_its_experiments():
    assert [experiment_of(from_plain(to_plain(point))) for point in points()] == [
        experiment_of(point) for point in points()
    ]


def result_of(unit, *experiments, outcome=Outcome.MEASURED):
    suspicions = tuple(Suspicion("c", "t", 0.5, (), "", experiment) for experiment in experiments)
    made = unmeasured(unit, outcome, "", 0.0)
    return replace(made, verdict=Verdict(Limit.FORWARDING_CORE, "", (), (), (), suspicions))


def test_an_experiment_is_made_only_where_a_suspicion_asks_for_it():
    units = points()
    done = {units[0].name: result_of(units[0], Experiment.NO_TRACKING)}
    made = {experiment_of(unit) for unit in units[1:] if not left_out(unit, units, done)}
    assert made == {Experiment.NO_TRACKING, Experiment.PLAIN}, "plain forwarding is the control"
    assert not left_out(units[0], units, {})


def test_a_ring_needs_no_control():
    units = points()
    done = {units[0].name: result_of(units[0], Experiment.LARGE_RING, None)}
    assert [experiment_of(unit) for unit in units[1:] if not left_out(unit, units, done)] == [Experiment.LARGE_RING]


def test_without_a_verdict_of_the_unchanged_bench_nothing_is_tried():
    units = points()
    assert all(left_out(unit, units, {}) for unit in units[1:])
    failed = {units[0].name: result_of(units[0], Experiment.PLAIN, outcome=Outcome.FAILED)}
    assert all(left_out(unit, units, failed) for unit in units[1:])
    assert explained(units, {}) == ()


def test_each_scenario_of_a_run_has_an_explanation_of_its_own():
    other = sweep_of(replace(tracking(), name="other")).scenarios
    units = (*points(), *other)
    done = {unit.name: result_of(unit, Experiment.LARGE_RING) for unit in (units[0], other[0])}
    assert [result.scenario for result in explained(units, done)] == [units[0].name, "other"]


def test_the_likeliest_cause_is_tried_first():
    first, *others = points()
    done = {first.name: result_of(first, None, Experiment.LARGE_RING, Experiment.NO_TRACKING)}
    tried = experiment_of(next_of(others, done))
    assert tried is Experiment.LARGE_RING
    left = [other for other in others if experiment_of(other) is not tried]
    assert experiment_of(next_of(left, done)) is Experiment.NO_TRACKING
    assert next_of((first, *others), {}) is first


def test_the_first_experiment_is_begun_while_there_is_any_time():
    first, second, other = points()[:3]
    done = {first.name: result_of(first, Experiment.LARGE_RING)}
    assert is_first(second, done)
    assert not is_first(other, {**done, second.name: result_of(second)})
    assert not is_first(first, {})

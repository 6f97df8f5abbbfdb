"""One small level of every group of the shipped studies, with the real daemons.

Rates cannot be judged on a machine that runs tests; whether the pipelines forward, and
whether the datapath sees what a study varies, can.
"""

import os
from dataclasses import replace

import pytest
from bench_tools import ROOT

from pinchpoint.dut.setup import require
from pinchpoint.host.local import Local
from pinchpoint.host.machines import Machines
from pinchpoint.measure.build.run import Build
from pinchpoint.measure.load.run import Load
from pinchpoint.measure.rates.run import Rates
from pinchpoint.measure.sockets.run import Bandwidth, Sockets
from pinchpoint.measure.standing import Task
from pinchpoint.model.errors import RequirementError
from pinchpoint.model.result import Outcome
from pinchpoint.model.trial import Trial
from pinchpoint.model.warning import Warn
from pinchpoint.run.scenario import run_scenario
from pinchpoint.scenario.study import load_study

pytestmark = [pytest.mark.tier2("shipped studies forward"), pytest.mark.needs("dpdk")]

STUDIES = ("flow-rules", "io-paths", "bridge-scale")
LONG = [pytest.mark.subject(target="test-studies")]  # half a minute each


def marks_of(study, sweep):
    in_guest = [pytest.mark.needs("guest"), *LONG] if sweep.scenarios[0].guest else []
    return in_guest or (LONG if study == "io-paths" else [])


GROUPS = [
    pytest.param(study, sweep, id=f"{study}-{sweep.group}", marks=marks_of(study, sweep))
    for study in STUDIES
    for sweep in load_study(ROOT / "studies" / study, quick=True)[1]
]


class Kept:
    """What a run of one scenario records."""

    def __init__(self):
        self.records, self.attached = [], {}
        self.task = Task(keep=self.records.append, attach=self.attached.__setitem__)

    @property
    def trials(self):
        return [record for record in self.records if isinstance(record, Trial)]


def small(scenario):
    """The same bench and traffic, measured no longer than it takes to see it work."""
    search = replace(
        scenario.search,
        max_load_fps=50_000.0,
        min_load_fps=1_000.0,
        trial_duration_s=0.1,
        initial_trial_duration_s=0.1,
        duration_sum_s=0.1,
        relative_width=0.5,
        preceding_targets=0,
        max_duration_s=1.0,
        max_repeats=1,
    )
    small = {
        Rates: {"at": ()},
        Load: {"at_fps": (5_000.0,), "duration_s": 0.1, "repeats": 1},
        Build: {"count": 20},
    }
    window = {"connections": 2, "warm_up_s": 0.1, "duration_s": 0.3, "repeats": 1}
    changes = window if isinstance(scenario.measure, Sockets) else small.get(type(scenario.measure), {})
    return replace(scenario, search=search, measure=replace(scenario.measure, **changes))


def ran(scenario):
    kept = Kept()
    result = run_scenario(Machines(Local()), small(scenario), kept.task)
    return result, kept


def needs_more_cpus(scenario):
    cpus = {*scenario.dut.cpus, *scenario.engine.cpus}
    return not cpus <= os.sched_getaffinity(0)


def at(study, group, **levels):
    sweeps = {sweep.group: sweep for sweep in load_study(ROOT / "studies" / study)[1]}
    (point,) = [scenario for scenario in sweeps[group].scenarios if scenario.point.levels == levels]
    return point


@pytest.mark.parametrize(("study", "sweep"), GROUPS)
def test_the_smallest_level_of_every_group_is_built_and_measured(nothing_left, study, sweep):
    scenario = sweep.scenarios[0]
    if needs_more_cpus(scenario):
        with pytest.raises(RequirementError, match="CPU"):
            require(scenario, Machines(Local()))
        return
    result, kept = ran(scenario)
    assert result.outcome is Outcome.MEASURED
    assert (result.group, result.measure) == (sweep.group, scenario.measure.kind)
    if isinstance(scenario.measure, Rates | Load):
        assert sum(trial.received for trial in kept.trials) > 0, "the pipeline forwards"
        assert all(trial.observed["ovs/flows/megaflows"] >= 1 for trial in kept.trials)
    else:
        figures = {metric.name: metric.value for metric in result.metrics}
        wanted = {Bandwidth: "goodput", Build: "build time"}
        assert figures[wanted.get(type(scenario.measure), "transactions")] > 0
        if isinstance(scenario.measure, Build) and scenario.measure.load_fps:
            assert figures["first frame time"] > 0
            # On a machine that runs tests the engine itself may stand still; then it is told so.
            assert "blocked time" in figures or Warn.NO_BLOCKED_TIME in [told.kind for told in result.warnings]


@pytest.mark.parametrize("path", ["af_xdp", "af_packet"])
def test_the_other_paths_forward_by_changing_one_word(nothing_left, path):
    _, kept = ran(at("io-paths", "rate", path=path))
    assert sum(trial.received for trial in kept.trials) > 0


def warm_up_of(scenario):
    """The last trial of its warm-up: the switch has seen every five-tuple."""
    _, kept = ran(scenario)
    return [trial for trial in kept.trials if trial.phase == "warm-up"][-1]


@pytest.mark.parametrize(
    ("group", "flows"), [("mac", 256 + 1), ("nat", 256 + 1)], ids=["behind conntrack", "before conntrack"]
)
def test_each_rule_for_a_destination_becomes_a_megaflow(nothing_left, group, flows):
    seen = warm_up_of(at("flow-rules", group, rules=256)).observed
    assert seen["ovs/flows/megaflows"] == flows
    assert seen["ovs/conntrack/connections"] == 256


@pytest.mark.subject(target="test-studies")
def test_each_destination_is_translated_to_an_address_of_its_own(nothing_left):
    _, kept = ran(at("flow-rules", "nat", rules=1))
    (flows,) = [text for name, text in kept.attached.items() if "datapath-flows" in name]
    assert "nat(src=48.128.0.1)" in flows


@pytest.mark.subject(target="test-studies")
def test_one_address_translates_more_five_tuples_than_it_has_ports(nothing_left):
    """65,536 servers: a port of the address may be used again towards each of them."""
    scenario = at("flow-rules", "base", **{"five-tuples": 262_144})
    fast = replace(scenario, search=replace(scenario.search, max_load_fps=400_000.0))
    kept = Kept()
    run_scenario(Machines(Local()), replace(small(fast), search=small(fast).search), kept.task)
    last = kept.trials[-1].observed
    assert last["ovs/conntrack/connections"] > 64_512
    assert last["ovs/flows/megaflows"] == 2


@pytest.mark.subject(target="test-studies")
def test_nested_prefixes_make_masks_and_megaflows_by_their_product(nothing_left):
    seen = {}
    for prefixes in (1, 4):
        _, kept = ran(at("bridge-scale", "classifier-masks", prefixes=prefixes))
        flows = kept.attached[next(name for name in kept.attached if name.endswith("datapath-flows.txt"))]
        seen[prefixes] = flows.count("ufid:")
    assert seen[1] == 2 * 2
    assert seen[4] == 5 * 5

"""The shipped studies: they load, in both forms, with the levels that were published."""

import csv
import re
from pathlib import Path

import pytest

from pinchpoint.bench import requirements
from pinchpoint.dut import placement, setup
from pinchpoint.dut.ovs import device as needs
from pinchpoint.dut.setup import require
from pinchpoint.findings.conclusions import judged as judged_conclusions
from pinchpoint.host.local import Local
from pinchpoint.host.machines import Machines
from pinchpoint.host.numa import Topology
from pinchpoint.measure.registry import measures
from pinchpoint.model.addresses import expand_template
from pinchpoint.model.errors import RequirementError
from pinchpoint.model.result import RunResult
from pinchpoint.model.scenario import Relative
from pinchpoint.model.study import Curve, CurvePoint
from pinchpoint.report.original import original_view
from pinchpoint.run.budget import whole_s
from pinchpoint.run.order import units
from pinchpoint.scenario.study import load_study
from pinchpoint.store.codec import SCHEMA

STUDIES = Path(__file__).parents[3] / "studies"
NAMES = ("flow-rules", "io-paths", "bridge-scale", "rfc2544", "reliability", "full-nat", "offload-story")
POINTS = {  # group: points in full, points in the short form
    "flow-rules": {
        "raw": (5, 5),
        "raw-preset": (5, 2),
        "base": (7, 7),
        "mac": (6, 6),
        "nat": (6, 6),
        "base-2pmd": (7, 7),
    },
    "io-paths": {
        "rate": (3, 3),
        "load": (3, 3),
        "queues": (6, 6),
        "bandwidth": (3, 3),
        "bandwidth-reverse": (3, 3),
        "rr": (3, 3),
        "rr-udp": (3, 3),
        "crr": (3, 3),
    },
    "reliability": {"soak": (1, 1), "recovery": (1, 1), "blocked": (7, 7), "restart": (3, 3)},
    "bridge-scale": {
        "threads": (27, 6),
        "rules": (84, 2),
        "ports": (54, 2),
        "bridges": (5, 2),
        "ports-userspace": (8, 2),
        "bridges-userspace": (5, 2),
        "classifier-flows": (6, 3),
        "classifier-masks": (5, 3),
        "build-flows": (20, 8),
        "build-ports": (15, 6),
        "build-veths": (20, 8),
        "build-traffic": (9, 3),
    },
    "rfc2544": {
        "throughput": (7, 2),
        "ndr": (7, 3),
        "loss-curve": (1, 1),
        "burst": (3, 2),
        "recovery": (1, 1),
        "reset": (1, 1),
    },
    "offload-story": {
        "01-slow-generator": (1, 1),
        "02-slow-generator-alone": (1, 1),
        "03-fast-generator": (1, 1),
        "04-vanished-frames": (1, 1),
        "05-plain-bridge": (1, 1),
        "06-lying-flag": (1, 1),
        "07-one-way": (1, 1),
        "08-two-way": (1, 1),
        "09-vm-traffic-on-bare-metal": (1, 1),
        "10-bare-metal-traffic-in-vm": (1, 1),
    },
    "full-nat": {
        **{f"verify-{kind}": (1, 1) for kind in ("reference", "nft", "ipvs", "ovs", "haproxy", "nginx", "envoy")},
        **{f"connections-{kind}": (1, 1) for kind in ("reference", "nft", "ipvs", "ovs", "haproxy", "nginx", "envoy")},
        **{"capacity-nft": (1, 1), "connections-cores": (10, 10), "change-nft": (1, 1), "rates-nft": (5, 2)},
        **{"rates-cores": (5, 5), "hold-nft": (4, 2)},
    },
}


def loaded(name, quick=False):
    return load_study(STUDIES / name, quick)


def groups(name, quick=False):
    return {sweep.group: sweep for sweep in loaded(name, quick)[1]}


@pytest.mark.parametrize("name", NAMES)
def test_every_group_has_its_points_in_both_forms(name):
    full = {group: len(sweep.scenarios) for group, sweep in groups(name).items()}
    quick = {group: len(sweep.scenarios) for group, sweep in groups(name, quick=True).items()}
    assert {group: (full[group], quick[group]) for group in full} == POINTS[name]


@pytest.mark.parametrize("name", NAMES)
def test_the_short_form_measures_every_point_once_and_not_longer(name):
    full = groups(name)
    for group, sweep in groups(name, quick=True).items():
        assert sweep.repeats == 1
        for scenario in sweep.scenarios:
            longer = full[group].scenarios[0]
            assert scenario.search.trial_duration_s <= longer.search.trial_duration_s
            assert scenario.search.relative_width >= longer.search.relative_width


@pytest.mark.parametrize("name", NAMES)
def test_the_short_form_takes_at_most_a_quarter_of_an_hour_on_two_cpus(monkeypatch, name):
    machines = Machines(Local())
    monkeypatch.setattr(Local, "cpus", lambda _: frozenset({0, 1}))
    monkeypatch.setattr(machines, "topology", lambda _: Topology({0: (0, 1)}))
    assert whole_s(units(loaded(name, quick=True)[1]), machines) <= 15 * 60


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_every_point_can_be_planned_or_says_what_the_machine_lacks(monkeypatch, tmp_path, name, quick):
    monkeypatch.setattr(setup, "find_engine", lambda host: "pinchpoint-engine")
    monkeypatch.setattr(placement, "_best", lambda words, *_: words[0])
    for group, sweep in groups(name, quick).items():
        for scenario in sweep.scenarios:
            try:
                setup.prepare(scenario, Machines(Local()), tmp_path)
            except RequirementError:
                assert {"numa", "queues"} & scenario.point.levels.keys(), f"{group}: {scenario.point.levels}"


def test_each_step_of_the_offload_story_has_its_question_and_what_the_original_saw():
    study, sweeps = loaded("offload-story")
    assert [step.group for step in study.steps] == [sweep.group for sweep in sweeps]
    assert all(step.question.endswith("?") for step in study.steps)
    rows = {row for step in study.steps for row in re.findall(r"[1-7]", step.published.partition("(row")[2])}
    assert rows == set("1234567"), "each row of offload-story.csv has its step"


def test_throughput_is_that_of_rfc_1242_by_the_seven_sizes_of_rfc_2544_and_latency_is_at_it():
    by_group = groups("rfc2544")
    literal, median = by_group["throughput"].scenarios, by_group["ndr"].scenarios
    sizes = [scenario.streams[0].frame_bytes for scenario in literal]
    assert sizes == [scenario.streams[0].frame_bytes for scenario in median] == [64, 128, 256, 512, 1024, 1280, 1518]
    search = literal[0].search
    assert (search.method, search.exceed_ratio, search.trial_duration_s) == ("mlrsearch", 0, 60)
    assert literal[0].measure.at == (1,)
    assert median[0].search.method == "threshold"


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize(("cpus", "measured"), [(2, {"1"}), (4, {"1", "2"}), (8, {"1", "2", "4"})])
def test_a_queue_takes_two_cpus_and_those_without_are_impossible(monkeypatch, cpus, measured, quick):
    monkeypatch.setattr(needs, "program", lambda *_: requirements.Probe("ovs-vswitchd", True, "here"))
    monkeypatch.setattr(needs, "programs", lambda *_: iter(()))
    monkeypatch.setattr(needs, "command", lambda host, name, _: requirements.Probe(name, True, "here"))
    monkeypatch.setattr(needs, "hugepages", lambda *_: requirements.Probe("hugepages", True, "enough"))
    monkeypatch.setattr(requirements.os, "geteuid", lambda: 0)
    monkeypatch.setattr(requirements.os, "sched_getaffinity", lambda _: set(range(cpus)))
    possible = set()
    for scenario in groups("io-paths", quick)["queues"].scenarios:
        try:
            require(scenario, Machines(Local()))
            possible.add(scenario.point.levels["queues"])
        except RequirementError as error:
            assert f"CPU {cpus}, " in str(error) and "cannot be used here" in str(error)
    assert possible == measured


@pytest.mark.parametrize("name", NAMES)
def test_published_curves_share_levels_with_ours(name):
    study, sweeps = loaded(name)
    ours = {sweep.group: [scenario.point.levels for scenario in sweep.scenarios] for sweep in sweeps}
    for curve in study.published:
        common = [point for point in curve.points if dict(point.levels) in ours[curve.group]]
        assert common, f"{curve.group}: {curve.title}"


CONCLUDED = ("flow-rules", "io-paths", "bridge-scale")
DRAWN = (*CONCLUDED, "full-nat")  # the rows of offload-story stand in its steps


@pytest.mark.parametrize("name", CONCLUDED)
def test_the_full_form_has_both_points_of_every_conclusion(name):
    study, sweeps = loaded(name)
    ours = {sweep.group: [scenario.point.levels for scenario in sweep.scenarios] for sweep in sweeps}
    assert study.conclusions
    for conclusion in study.conclusions:
        request = conclusion.request
        for group, levels in ((request.group, request.over), (request.against or request.group, request.under)):
            assert any(levels.items() <= point.items() for point in ours[group]), conclusion.says


@pytest.mark.parametrize("name", CONCLUDED)
def test_every_conclusion_that_has_figures_is_true_of_the_original(name):
    study, sweeps = loaded(name)
    concluded = judged_conclusions(study, [lost(sweep) for sweep in sweeps])
    told = [(judged.conclusion, ratio) for judged in concluded for ratio in judged.theirs.values()]
    assert len(told) >= len(study.conclusions) - 1, "io-paths has no figure of how busy its cores were"
    for conclusion, ratio in told:
        assert (conclusion.least or 0) <= ratio <= (conclusion.most or 1e12), (conclusion.says, ratio)


@pytest.mark.parametrize("name", DRAWN)
def test_every_published_row_is_in_a_curve(name):
    """Of flow-rules, whose table has a row for each rate tried, those of each count of each test."""
    study, _ = loaded(name)
    used = {point.source for curve in study.published for point in curve.points}
    for path in (STUDIES / name).glob("*.csv"):
        with path.open(newline="") as file:
            rows = list(enumerate(csv.DictReader(file), 2))
        keys = {
            f"{path.name}:{line}": (row.get("test"), row.get("count") if "test" in row else line) for line, row in rows
        }
        assert set(keys.values()) == {keys[source] for source in used if source in keys}, path.name


@pytest.mark.parametrize("quick", [False, True], ids=["full", "quick"])
@pytest.mark.parametrize("name", DRAWN)
def test_every_published_row_has_a_point_or_a_reason(name, quick):
    """Every level that is measured is taken to be impossible here."""
    study, sweeps = loaded(name, quick)
    result = RunResult(SCHEMA, name, True, (), tuple(lost(sweep) for sweep in sweeps))
    views = original_view(result, study).figures
    assert len(views) >= len(study.published)
    for view in views:
        remarks = [column for column in view.table.columns if column.key == "remark"]
        assert all(cell.text for column in remarks for cell in column.cells)
        rows = len(view.table.columns[0].cells)
        assert bool(remarks) == bool(rows)
        assert rows or view.without
        assert all(line.rpartition(": ")[2] in REASONS for line in view.without)


REASONS = ("no such point", "no such point in the short form")


def lost(sweep):
    """A curve of which no point could run."""
    reason = "this machine has one NUMA node"
    levels = [scenario.point.levels for scenario in sweep.scenarios]
    points = tuple(CurvePoint(at, "impossible", reason, {}, "", "", ("unit",)) for at in levels)
    return Curve(sweep.group, sweep.title, "rates", sweep.factors, points)


@pytest.mark.parametrize("name", NAMES)
def test_every_file_teaches_before_it_configures(name):
    for path in (STUDIES / name).glob("*.toml"):
        if path.name != "study.toml":
            text = path.read_text()
            assert text.startswith("# ")
            assert "What it teaches:" in text


@pytest.mark.parametrize("rules", [1, 256, 65_536])
@pytest.mark.parametrize("group", ["mac", "nat"])
def test_each_rule_has_one_five_tuple(group, rules):
    (scenario,) = [
        scenario for scenario in groups("flow-rules")[group].scenarios if scenario.point.levels == {"rules": rules}
    ]
    (series,) = scenario.dut.bridges[0].rule_series
    (stream,) = scenario.streams
    assert series.count == stream.flows == rules
    assert stream.order[0] == "ipv4_dst"
    assert stream.ipv4_dst.count >= rules, "so each five-tuple has a destination of its own"
    assert scenario.dut.tuning.flow_limit > rules + 1, "one megaflow each, and one more"


def test_classifier_flows_sends_no_frame_without_a_rule_of_its_own():
    """Such a frame's mask depends on how many rules there are: two things would vary at once."""
    for scenario in groups("bridge-scale")["classifier-flows"].scenarios:
        (series,) = scenario.dut.bridges[0].rule_series
        (stream,) = scenario.streams
        assert series.count == stream.flows == scenario.point.levels["rules"]
        assert stream.order[0] == "ipv4_dst"
        assert stream.ipv4_dst.count >= series.count
        assert "{ipv4:48.0.0.0}" in series.rule
        assert str(stream.ipv4_dst.first) in ("48.0.0.0", str(48 << 24)), "the first rule's destination"
        assert scenario.dut.tuning.emc_insert_inv_prob == 0, "or it answers where rules are few"
        assert series.count >= 64, "or frames of one batch share a flow"


def test_every_point_of_flow_rules_has_its_own_rates_and_in_the_full_form_a_relative_one():
    short = {group: sweep.scenarios[-1].point.relative for group, sweep in groups("flow-rules", quick=True).items()}
    assert set(short.values()) == {Relative.NO}
    full = {group: sweep.scenarios[-1].point.relative for group, sweep in groups("flow-rules").items()}
    assert full.pop("raw-preset") is Relative.NO and set(full.values()) == {Relative.BESIDE}


def test_the_pipelines_of_flow_rules_carry_the_same_frames():
    streams = {group: sweep.scenarios[0].streams[0] for group, sweep in groups("flow-rules").items()}
    assert (
        len(
            {
                (stream.ipv4_src, stream.ipv4_dst, stream.udp_src, stream.order, stream.frame_bytes)
                for stream in streams.values()
            }
        )
        == 1
    )


def test_only_the_path_differs_within_a_group_of_io_paths():
    for sweep in groups("io-paths").values():
        pipelines = {scenario.dut.bridges for scenario in sweep.scenarios}
        assert len(pipelines) == 1, sweep.group


@pytest.mark.parametrize("group", ["threads", "rules", "ports", "bridges"])
def test_the_kernels_datapath_is_measured_in_a_guest_where_it_is_missing(group):
    for scenario in groups("bridge-scale")[group].scenarios:
        assert (scenario.dut.io, scenario.guest.when) == ("kernel", "needed")
        assert scenario.holds_bench
        assert [host.cpus for host in scenario.hosts] == [(), ()], "filled from the machine"


@pytest.mark.parametrize("group", ["threads", "ports", "rules", "ports-userspace"])
def test_the_link_between_the_ends_is_two_rules_by_port_as_published(group):
    for scenario in groups("bridge-scale")[group].scenarios:
        rules = [rule.text.removeprefix("priority=0,") for rule in scenario.dut.bridges[0].rules]
        assert rules == ["in_port={client},actions=output:{server}", "in_port={server},actions=output:{client}"]


@pytest.mark.parametrize("what", ["flows", "ports", "veths"])
def test_what_processes_build_is_built_forty_at_once_and_one_by_one(what):
    built = [scenario.measure for scenario in groups("bridge-scale")[f"build-{what}"].scenarios]
    at_once = {(build.count, build.concurrency) for build in built if build.method == "process"}
    assert at_once == {(build.count, number) for build in built for number in (1, 40)}


def test_each_nat_rule_translates_to_an_address_of_its_own():
    (scenario,) = [scenario for scenario in groups("flow-rules")["nat"].scenarios if scenario.streams[0].flows == 256]
    (series,) = scenario.dut.bridges[0].rule_series
    first, *_, last = expand_template(series.rule, series.count, series.first)
    assert "nw_dst=48.0.0.1,actions=ct(commit,table=1,nat(src=48.128.0.1))" in first
    assert "nw_dst=48.0.1.0,actions=ct(commit,table=1,nat(src=48.128.1.0))" in last


def test_bridge_scale_names_its_datapath_once_in_each_file():
    for path in (STUDIES / "bridge-scale").glob("*.toml"):
        if path.name != "study.toml":
            assert path.read_text().count("\ndatapath = ") == 1, path


def test_building_under_traffic_asks_when_frames_take_a_rule_and_what_was_blocked():
    for quick in (False, True):
        for scenario in groups("bridge-scale", quick)["build-traffic"].scenarios:
            assert scenario.measure.probe_rules > 1
            assert scenario.measure.load_fps > 0


def test_the_studies_use_every_measure():
    used = {scenario.measure.kind for name in NAMES for sweep in loaded(name)[1] for scenario in sweep.scenarios}
    assert used == {measure.name for measure in measures()}


def test_a_published_curve_of_other_frames_than_ours_says_so():
    (curve,) = [curve for curve in loaded("full-nat")[0].published if curve.group == "rates-cores"]
    scenarios = groups("full-nat")["rates-cores"].scenarios
    (frame_bytes,) = {stream.frame_bytes for scenario in scenarios for stream in scenario.streams}
    assert frame_bytes != 64 and curve.title.endswith(
        f"frames of 64 bytes, the most that it carries; ours have {frame_bytes} bytes"
    )

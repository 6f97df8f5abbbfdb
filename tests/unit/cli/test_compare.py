"""`pinchpoint compare` at the command line, without a bench."""

import json
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
from comparisons import result_of
from slices import constant, stretch

from pinchpoint.cli import compare as compare_command
from pinchpoint.cli import run as command
from pinchpoint.cli.main import main
from pinchpoint.measure.standing import Interrupted
from pinchpoint.model.comparison import ComparisonKind, HoldsFor
from pinchpoint.model.duet import FORWARDED
from pinchpoint.model.errors import DutError, RequirementError
from pinchpoint.model.measurement import Metric
from pinchpoint.run import run as loop
from pinchpoint.run.comparison import results_of
from pinchpoint.run.paired_benches import require_duet
from pinchpoint.run.run import run_all
from pinchpoint.store.folder import COMPARISON, RunFolder

ROOT = Path(__file__).parents[3]
FORWARD = ROOT / "studies" / "quickstart" / "1-forward.toml"
NAT = ROOT / "studies" / "quickstart" / "2-snat-255.toml"
SMC = ("--set-b", "dut.smc=true")


class Lab:
    """In place of benches: B's rate is `factor` times A's, and a unit may interrupt."""

    def __init__(self):
        self.factor, self.ran, self.interrupt_at = 1.0, [], ""

    def run_one(self, unit, task):
        if unit.name == self.interrupt_at:
            self.interrupt_at = ""
            raise Interrupted("interrupted")
        self.ran.append(unit.name)
        value = (8e6 + 1e3 * unit.point.repeat) * (self.factor if unit.point.group.startswith("B-") else 1.0)
        ndr = result_of(unit, value, name="NDR")
        return replace(ndr, metrics=(*ndr.metrics, Metric("thread busy", "share", value / 1e7)))


@pytest.fixture
def lab(monkeypatch):
    made = Lab()

    def here(context, units, *_):
        return run_all(context, units, made.run_one, lambda *_: None)

    monkeypatch.setattr(command, "run_all", here)
    monkeypatch.setattr(command, "require_any", lambda *_: None)
    monkeypatch.setattr(command, "held", lambda *_: nullcontext())
    return made


@pytest.fixture
def compare(tmp_path):
    def run(*words):
        return main(["compare", "--quiet", *map(str, words)])

    run.out = tmp_path / "runs"
    return run


def only(folder):
    (path,) = folder.iterdir()
    return RunFolder.open(path)


def test_two_settings_of_one_file_are_measured_in_turns_and_compared(lab, compare, capsys):
    lab.factor = 0.98
    assert compare(FORWARD, *SMC, "--pairs", 6, "--out", compare.out) == 0
    assert [name[0] for name in lab.ran] == list("ABBAABBAABBA")
    told = capsys.readouterr().out
    assert "scenario keys: dut.smc" in told
    assert "B is 2.0 % [2.0 .. 2.0 %] lower" in told
    folder = only(compare.out)
    stored = COMPARISON.decode((folder.path / "comparison.json").read_bytes(), "")
    assert stored.scenarios[0].metrics[0].n == 6
    assert {path.name for path in folder.path.iterdir()} >= {"comparison.html", "report.html", "run.json"}


def test_a_short_form_that_no_side_has_is_said_once(lab, compare, capsys):
    assert compare(FORWARD, *SMC, "--quick", "--pairs", 6, "--out", compare.out) == 0
    assert capsys.readouterr().err.count("--quick changes nothing") == 1


@pytest.fixture
def duets(lab, monkeypatch):
    """Benches that always fit, and slices that are made up: B's ratio to A's is `duets.ratio`."""

    class Duets:
        ratio, stops_at, run, builds, error = 0.98, None, 0, 1, Interrupted("interrupted")

    class MadeUp:
        def __init__(self, units, files, context):
            self.units, self.folder = units, context.folder

        def run(self, unit, task):
            self.measure()
            return next(result for result in self.so_far if result.scenario == unit.name)

        def measure(self):
            Duets.run += 1
            wanted = self.folder.read_info().comparison
            there = len(self.folder.read_stretches())
            for number in range(there, int(wanted.slices_s / 5)):
                if number == Duets.stops_at:
                    Duets.stops_at = None
                    raise Duets.error
                made = stretch(constant(), ratio=Duets.ratio, length_s=5, seed=number, scatter=0.02)
                self.folder.append_stretch(replace(made, benches=1 + number % Duets.builds))

        @property
        def so_far(self):
            return results_of(self.units, self.folder, 10.0)

    monkeypatch.setattr(loop, "BothBenches", MadeUp)
    monkeypatch.setattr(compare_command, "lacking_together", lambda *_: None)
    monkeypatch.setattr(compare_command, "require_duet", lambda *_: None)
    return Duets


def stored_in(out):
    return COMPARISON.decode((only(out).path / "comparison.json").read_bytes(), "")


def test_two_rates_are_a_duet_whose_table_and_page_tell_method_ratio_slices_and_both_rates(duets, compare, capsys):
    assert compare(FORWARD, *SMC, "--method", "duet", "--slices", "30s", "--out", compare.out) == 0
    told = capsys.readouterr().out
    for words in (FORWARDED, "as a duet", "alternating slices", "quads", "cycles per packet are unknown"):
        assert words in told
    assert "of these two benches, B is 2." in told or "of these two benches, B is 1.9 %" in told
    comparison = stored_in(compare.out)
    assert comparison.kind is ComparisonKind.DUET
    (part,) = comparison.scenarios
    assert part.duet.used == 3000
    assert len(part.duet.series) == 16
    assert part.metrics[0].a.interval == "5 % to 95 % of the time"
    a, b = only(compare.out).read_result().scenarios
    assert [metric.name for result in (a, b) for metric in result.metrics] == [FORWARDED, FORWARDED]
    assert b.metrics[0].value == pytest.approx(0.98 * a.metrics[0].value, rel=0.01)
    page = (only(compare.out).path / "comparison.html").read_text()
    assert 'id="series-1"' in page
    assert "as a duet" in page


def test_an_interrupted_duet_reports_what_it_has_and_goes_on(duets, compare, capsys):
    duets.stops_at = 3
    assert compare(FORWARD, *SMC, "--slices", "30s", "--out", compare.out) == 130
    assert not stored_in(compare.out).finished
    assert stored_in(compare.out).scenarios[0].duet.slices == 3 * 500
    assert compare("--resume", only(compare.out).path) == 0
    assert stored_in(compare.out).finished
    assert len(only(compare.out).read_stretches()) == 6
    assert compare("--resume", only(compare.out).path, "--slices", "9s") == 2


def test_the_first_error_ends_a_duet_and_what_it_has_is_kept(duets, compare):
    duets.stops_at, duets.error = 3, DutError("the switch died")
    assert compare(FORWARD, *SMC, "--slices", "30s", "--out", compare.out) == DutError.exit_code
    result = only(compare.out).read_result()
    assert (result.finished, len(result.scenarios), len(only(compare.out).read_stretches())) == (False, 2, 3)


def test_a_budget_is_what_a_duet_takes_with_building(duets, compare):
    assert compare(FORWARD, *SMC, "--budget", "60s", "--out", compare.out) == 0
    assert only(compare.out).read_info().comparison.slices_s == 40


def test_both_benches_are_to_be_built_several_times_whatever_the_budget(duets, compare):
    def benches(*words):
        out = compare.out / "-".join(map(str, words))
        assert compare(FORWARD, *SMC, *words, "--out", out) == 0
        return only(out).read_info().comparison.benches

    assert benches("--slices", "30s") == 8
    assert benches("--slices", "30s", "--benches", 3) == 3
    assert benches("--budget", "5m") == 8
    assert benches("--budget", "60s") == 8, "what a budget pays for is known once the first benches stand"


def test_a_gate_judges_a_duet_too(duets, compare, capsys):
    duets.ratio, duets.builds = 0.9, 6
    assert compare(FORWARD, *SMC, "--slices", "30s", "--fail-if-worse", "5", "--out", compare.out) == 8
    assert "B is worse by more than 5.0 %" in capsys.readouterr().err


def test_no_exit_code_follows_from_one_build_of_each(duets, compare, capsys):
    duets.ratio = 0.9
    assert compare(FORWARD, *SMC, "--slices", "30s", "--out", compare.out / "free") == 0
    capsys.readouterr()
    assert compare(FORWARD, *SMC, "--slices", "30s", "--fail-if-worse", "5", "--out", compare.out / "gated") == 9
    told = capsys.readouterr().err
    assert "could not be decided" in told and "one build of each cannot tell the build from the change" in told
    assert "--benches 6" in told
    assert stored_in(compare.out / "free").scenarios[0].metrics[0].holds_for is HoldsFor.BENCHES


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--pairs", "6"), "--pairs needs turns"),
        (("--metric", "NDR"), "a duet measures only the forwarded rate under overload, not NDR"),
        (("--set", "dut.datapath=kernel"), "the kernel's one datapath"),
    ],
)
def test_where_no_duet_is_possible_turns_are_measured_and_the_output_says_why(
    duets, lab, compare, capsys, monkeypatch, words, why
):
    assert compare(FORWARD, *SMC, *words, "--out", compare.out) == 0
    assert not duets.run
    assert lab.ran
    assert why in " ".join(capsys.readouterr().out.split())
    assert only(compare.out).read_info().comparison.method == "turns"
    with monkeypatch.context() as unpatched:
        unpatched.setattr(compare_command, "require_duet", require_duet)
        assert compare(FORWARD, *SMC, *words, "--method", "duet", "--out", compare.out) == 2
    assert "no duet" in capsys.readouterr().err


def test_no_memory_for_two_benches_is_the_reason_for_turns(duets, lab, compare, capsys, monkeypatch):
    lacking = RequirementError("no memory for both benches at once: 5 of 2 MiB", "sysctl vm.nr_hugepages=99")
    monkeypatch.setattr(compare_command, "lacking_together", lambda *_: lacking)
    assert compare(FORWARD, *SMC, "--out", compare.out) == 0
    assert "sysctl vm.nr_hugepages=99" in capsys.readouterr().out
    assert lab.ran


def test_json_is_the_stored_comparison(lab, compare, capsys):
    assert compare(FORWARD, NAT, "--pairs", 6, "--json", "--out", compare.out) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == json.loads((only(compare.out).path / "comparison.json").read_text())
    assert printed["scenarios"][0]["metrics"][0]["decision"] == "not_found"


def test_interrupted_it_keeps_what_it_has_and_goes_on_where_it_stopped(lab, compare, capsys):
    lab.interrupt_at = "B-1-forward.r2"
    assert compare(FORWARD, *SMC, "--pairs", 6, "--out", compare.out) == 130
    folder = only(compare.out)
    assert "--resume" in capsys.readouterr().err
    assert lab.ran == ["A-1-forward", "B-1-forward"]
    assert compare("--resume", folder.path) == 0
    assert lab.ran[2:4] == ["B-1-forward.r2", "A-1-forward.r2"]
    assert len(lab.ran) == 12
    assert "cannot be excluded" in capsys.readouterr().out
    assert compare("--resume", folder.path, "--pairs", 9) == 2


@pytest.mark.parametrize(("factor", "limit", "code"), [(0.98, "1", 8), (0.98, "3", 0), (1.02, "1", 0), (1.0, "0", 0)])
def test_a_gate_fails_only_where_b_is_surely_worse_by_more_than_allowed(lab, compare, factor, limit, code, capsys):
    lab.factor = factor
    assert compare(FORWARD, *SMC, "--pairs", 6, "--fail-if-worse", limit, "--out", compare.out) == code
    assert ("B is worse by more than" in capsys.readouterr().err) is (code == 8)


def test_a_gate_that_cannot_judge_does_not_pass(lab, compare, capsys):
    assert compare(FORWARD, *SMC, "--pairs", 4, "--fail-if-worse", "5", "--out", compare.out) == 9
    assert "unknown: range of 4 pairs" in capsys.readouterr().err


def test_a_named_metric_is_judged_instead_of_the_main_one(lab, compare, capsys):
    assert compare(FORWARD, *SMC, "--pairs", 6, "--metric", "thread busy", "--json", "--out", compare.out) == 0
    metrics = json.loads(capsys.readouterr().out)["scenarios"][0]["metrics"]
    assert [(metric["metric"], metric["judged"]) for metric in metrics] == [("thread busy", True), ("NDR", False)]


def test_a_budget_ends_with_whole_pairs(lab, compare, capsys):
    run_one = lab.run_one
    lab.run_one = lambda *words: replace(run_one(*words), wall_s=50.0)
    assert compare(FORWARD, *SMC, "--pairs", 9, "--budget", "360s", "--out", compare.out) == 9, (
        "three pairs decide nothing"
    )
    # 360 s hold three pairs of 100 s; what is left out is skipped, not failed.
    assert len(lab.ran) == 6
    result = only(compare.out).read_result()
    assert sum(scenario.outcome.value == "skipped" for scenario in result.scenarios) == 12
    assert "pair 4 needs" in next(
        scenario.reason for scenario in result.scenarios if scenario.outcome.value == "skipped"
    )
    assert "3 of 9 pairs were measured" in capsys.readouterr().out


def test_two_stored_runs_are_compared_and_written_where_asked(lab, compare, capsys, tmp_path):
    for name in ("one", "two"):
        assert main(["run", "--quiet", str(FORWARD), "--out", str(tmp_path / name)]) == 0
        lab.factor = 0.5
    first, second = (only(tmp_path / name).path for name in ("one", "two"))
    capsys.readouterr()
    assert compare(first, second) == 9, "of one number each no interval is known"
    assert "unpaired" in capsys.readouterr().out
    assert not compare.out.exists()
    assert compare(first, second, "--out", compare.out) == 9
    (written,) = compare.out.iterdir()
    assert {path.name for path in written.iterdir()} == {"comparison.html", "comparison.json"}
    assert compare(first) == 2
    assert compare(first, FORWARD) == 2
    assert "expected two run folders" in capsys.readouterr().err
    assert compare(first, second, "--pairs", 3) == 2


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((FORWARD,), "expected two scenario files"),
        ((FORWARD, NAT, FORWARD), "expected two scenario files"),
        ((FORWARD.parent, FORWARD), "this folder has no run.json"),
        ((FORWARD, "--set-b", "search.trial_duration_s=0.7"), "search.trial_duration_s is "),
        ((FORWARD, "--set-b", "dut.smcc=true"), "did you mean dut.smc?"),
        ((FORWARD, "--set-b", "dut.vswitchd=ovs-vswitchd"), "expected the absolute path of a file"),
    ],
)
def test_what_cannot_be_compared_is_refused_before_anything_is_built(lab, compare, capsys, words, told):
    assert compare(*words, "--out", compare.out) == 2
    assert told in capsys.readouterr().err
    assert not compare.out.exists()


def test_a_sweep_is_refused_with_what_to_do(lab, compare, capsys):
    assert compare(ROOT / "studies/flow-rules/base.toml", *SMC, "--out", compare.out) == 2
    assert "points of a sweep" in capsys.readouterr().err


def test_a_file_may_not_choose_the_program_that_runs_as_root(tmp_path, capsys):
    path = tmp_path / "x.toml"
    path.write_text(FORWARD.read_text().replace("[dut]", '[dut]\nvswitchd = "/opt/ovs-vswitchd"'))
    assert main(["check", str(path)]) == 2
    assert "--set dut.vswitchd=/opt/ovs-vswitchd" in capsys.readouterr().err

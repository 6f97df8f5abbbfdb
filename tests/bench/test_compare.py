"""Comparisons with real switches: in turns, interrupted and resumed, two programs, two stored runs."""

import json
import shutil
import signal

import pytest
from bench_tools import only_run, run, start_watched
from scenario_text import one_way

from pinchpoint.dut.ovs.bench import VSWITCHD
from pinchpoint.dut.ovs.spec import Datapath
from pinchpoint.model.comparison import ComparisonKind, Decision
from pinchpoint.store.folder import COMPARISON

pytestmark = pytest.mark.tier2("command:compare")

DROP = 'dut.rules="in_port={left},actions=drop"'
REWRITE = 'dut.rules="in_port={left},actions=mod_dl_dst:02:00:00:00:00:99,output:{right}"'


@pytest.fixture
def load(tmp_path):
    """A scenario that takes a few seconds; what it finds is the host's affair."""

    def write(datapath="af_packet", name="load.toml"):
        path = tmp_path / name
        tables = "[load]\nat_fps = [5000]\nduration_s = 0.1\nrepeats = 1"
        search = "max_repeats = 30\ndrain_s = 0.05"
        path.write_text(one_way("load", tables, datapath=datapath, dut="memory_mb = 512", search=search))
        return path

    return write


def stored(folder):
    return COMPARISON.decode((folder.path / "comparison.json").read_bytes(), "")


def test_two_settings_are_measured_in_turns_and_a_loss_of_everything_is_found(nothing_left, load, tmp_path):
    out = tmp_path / "runs"
    done = run("compare", load(), "--set-b", REWRITE, "--pairs", 3, "--out", out, "--json", timeout=280)
    assert done.returncode == 9, done.stderr  # three pairs decide nothing
    folder = only_run(out)
    assert [scenario.scenario[0] for scenario in folder.read_result().scenarios] == list("ABBAAB")
    comparison = stored(folder)
    assert json.loads(done.stdout) == json.loads((folder.path / "comparison.json").read_text())
    (difference,) = comparison.differences.scenario
    assert difference.what == "rules of br0"
    assert "mod_dl_dst" in difference.b
    metric = comparison.scenarios[0].metrics[0]
    assert metric.judged
    assert len(metric.pairs) == 3
    assert metric.decision in (Decision.TOO_FEW, Decision.REFUSED), "three pairs decide nothing"
    assert (folder.path / "comparison.html").exists()


@pytest.mark.subject(target="test-interrupts")
def test_ctrl_c_in_the_second_pair_keeps_the_first_and_resume_finishes(nothing_left, load, tmp_path):
    out = tmp_path / "runs"
    watched = start_watched(tmp_path / "stderr", "compare", load(), "--set-b", REWRITE, "--pairs", 2, "--out", out)
    watched.wait_until_it_says("B-load.r2 (3/4)  ·  building")
    watched.process.send_signal(signal.SIGINT)
    assert watched.end().returncode == 130
    folder = only_run(out)
    kept = folder.read_result().scenarios
    assert [scenario.scenario for scenario in kept] == ["A-load", "B-load"]
    assert stored(folder).finished is False
    done = run("compare", "--resume", folder.path)
    assert done.returncode == 9, done.stderr  # nor do two
    assert folder.read_result().scenarios[:2] == kept
    assert stored(folder).finished


@pytest.mark.tier1("command:compare")
def test_a_build_of_ones_own_runs_as_b_and_its_hash_is_recorded(nothing_left, load, tmp_path):
    own = tmp_path / "build" / "ovs-vswitchd-own"
    own.parent.mkdir()
    shutil.copy2(VSWITCHD[Datapath.AF_PACKET], own)
    with own.open("ab") as file:
        file.write(b"\0")  # behind the program: the same switch with another hash
    out = tmp_path / "runs"
    done = run("compare", load(), "--set-b", f"dut.vswitchd={own}", "--pairs", 1, "--out", out)
    assert done.returncode == 9, done.stderr
    differing = stored(only_run(out)).differences
    assert [(difference.what, difference.a, difference.b) for difference in differing.scenario] == [
        ("dut.vswitchd", "none", str(own))
    ]
    (program,) = [difference for difference in differing.versions if difference.what == "switch program"]
    assert program.a.startswith(VSWITCHD[Datapath.AF_PACKET]) and str(own) in program.b
    assert program.a.rpartition(" ")[2] != program.b.rpartition(" ")[2]


@pytest.mark.parametrize(
    ("text", "why"), [(None, "no such file"), ("#!/bin/sh\necho hello\n", "--version says 'hello'")]
)
def test_what_is_no_switch_is_refused_before_anything_is_built(nothing_left, load, tmp_path, text, why):
    path = tmp_path / "ovs-vswitchd"
    if text:
        path.write_text(text)
        path.chmod(0o755)
    done = run("compare", load(), "--set-b", f"dut.vswitchd={path}", "--out", tmp_path / "runs")
    assert done.returncode == 3
    assert why in done.stderr
    assert not (tmp_path / "runs").exists()


def test_two_stored_runs_tell_what_differs_and_compare_unpaired(nothing_left, load, tmp_path):
    for name, more in (("one", ()), ("two", ("--set", DROP))):
        done = run("run", load(), *more, "--out", tmp_path / name)
        assert done.returncode == 0, done.stderr
    first, second = (only_run(tmp_path / name).path for name in ("one", "two"))
    done = run("compare", first, second, "--out", tmp_path / "compared", "--metric", "loss at 5.00 kpps")
    assert done.returncode == 9, done.stderr  # of one measurement each no interval is known
    assert "rules of br0" in done.stdout
    (path,) = (tmp_path / "compared").iterdir()
    comparison = COMPARISON.decode((path / "comparison.json").read_bytes(), "")
    assert comparison.kind is ComparisonKind.UNPAIRED
    assert comparison.scenarios[0].metrics[0].metric == "loss at 5.00 kpps"

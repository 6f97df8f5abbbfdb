"""A real run from scenario to report: the account closes and nothing is left."""

import json
import signal
from pathlib import Path

import msgspec
import pytest
from bench_tools import ROOT, marked_processes, run, start, trials_in, wait_for

from pinchpoint.model.trial import TrialValidity
from pinchpoint.store.folder import RunFolder

SNAT = (
    "table=0,priority=10,ip,nw_dst=48.0.0.0/8,actions=ct(commit,table=1,nat(src=10.0.0.1))\n"
    "table=1,priority=10,ip,actions=mod_dl_dst:02:00:00:00:00:99,output:{right}"
)


def only_folder(out):
    (path,) = Path(out).iterdir()
    return RunFolder.open(path)


def judged(folder):
    return [trial for trial in folder.read_trials() if trial.validity is TrialValidity.VALID]


@pytest.mark.parametrize("rules", ["in_port={left},actions=output:{right}", SNAT], ids=["forward", "snat"])
def test_every_valid_trials_account_closes_over_vhost_user(nothing_left, scenario, tmp_path, rules):
    done = run("run", scenario(rules=rules), "--out", tmp_path / "runs")
    assert done.returncode == 0, done.stderr
    folder = only_folder(tmp_path / "runs")
    trials = judged(folder)
    assert trials
    for trial in trials:
        assert trial.ledger.unexplained == 0, trial.id
        counted = {hop.name: hop for hop in trial.ledger.hops}
        sent = counted["engine sends"].frames_out
        assert counted["switch receives"].frames_out == sent, "what we sent is what the switch says it got"
        assert counted["datapath"].frames_in == sent, "and what its PMD says it processed"
        assert counted["switch sends"].frames_out == trial.received
        assert trial.streams[0].duplicated == trial.streams[0].corrupt == trial.streams[0].late == 0
        assert trial.witness.loopback is not None and trial.witness.loopback.frames > 0
        assert [worker.ports for worker in trial.witness.workers] == [("left", "right")]
        assert trial.pmds[0].cycles_per_packet > 0
    assert (folder.path / "report.html").stat().st_size > 10_000
    assert "Report:" in done.stdout


def test_frames_that_a_rule_drops_are_a_named_drop_and_not_unexplained(nothing_left, scenario, tmp_path):
    rules = "priority=40000,in_port={left},ip,nw_dst=48.0.0.1,actions=drop\nin_port={left},actions=output:{right}"
    done = run("run", scenario(rules=rules, max_load_fps=200_000), "--out", tmp_path / "runs")
    assert done.returncode == 0, done.stderr
    trials = judged(only_folder(tmp_path / "runs"))
    assert trials
    for trial in trials:
        drops = {drop.name: drop.frames for hop in trial.ledger.hops for drop in hop.drops}
        one_of_200 = trial.streams[0].sent / 200
        assert drops["drop action of pipeline"] == pytest.approx(one_of_200, abs=1)
        assert trial.ledger.unexplained == 0


def test_over_veth_by_changing_one_word(nothing_left, scenario, tmp_path):
    path = scenario(datapath="af_packet", max_load_fps=40_000)
    done = run("run", path, "--out", tmp_path / "runs")
    assert done.returncode == 0, done.stderr
    trials = judged(only_folder(tmp_path / "runs"))
    assert trials
    assert all(trial.ledger.unexplained == 0 for trial in trials)
    assert any(trial.received > 0 for trial in trials)
    assert {load.name for trial in trials for load in trial.pmds} == {"main thread"}


def test_json_is_result_json_and_progress_stays_off_stdout(nothing_left, scenario, tmp_path):
    done = run("run", scenario(), "--out", tmp_path / "runs", "--json")
    assert done.returncode == 0, done.stderr
    stored = json.loads((only_folder(tmp_path / "runs").path / "result.json").read_text())
    assert json.loads(done.stdout)["scenarios"] == stored["scenarios"]
    shown = run("show", only_folder(tmp_path / "runs").path, "--json")
    assert json.loads(shown.stdout) == json.loads(done.stdout)


def test_a_dry_run_prints_the_plan_and_builds_nothing(nothing_left, scenario, tmp_path):
    done = run("run", scenario(), "--dry-run", "--out", tmp_path / "runs")
    assert done.returncode == 0
    assert "ip netns add pp-" in done.stdout
    assert "ovs-ofctl" in done.stdout
    assert not (tmp_path / "runs").exists()


def test_ctrl_c_saves_what_was_measured_and_resume_finishes_it(nothing_left, scenario, tmp_path):
    out = tmp_path / "runs"
    process = start("run", scenario(), "--out", out)
    wait_for(lambda: trials_in(out) >= 2, "two trials")
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "--resume" in errors
    folder = only_folder(out)
    before = folder.read_trials()
    assert len(before) >= 2
    assert marked_processes() == set()
    again = run("run", "--resume", folder.path)
    assert again.returncode == 0, again.stderr
    assert folder.read_trials()[: len(before)] == before
    result = folder.read_result()
    assert result is not None
    assert result.finished


def test_the_shipped_quickstart_is_sound():
    done = run("check", ROOT / "studies" / "quickstart")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(": ok.") == 3


def test_doctor_finds_this_machine_able_and_says_so_for_machines_too():
    done = run("doctor")
    assert done.returncode == 0, done.stdout
    probes = msgspec.json.decode(run("doctor", "--json").stdout)
    assert {"root", "hugepages", "engine backend dpdk"} <= {probe["name"] for probe in probes}
    assert all(probe["ok"] for probe in probes if probe["needed"])

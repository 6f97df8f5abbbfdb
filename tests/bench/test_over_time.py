"""Soak, recovery and blocked time with a real switch: accounts close, and what happens is seen."""

import os
import signal
import subprocess
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from bench_tools import STATE, only_run, run, start_watched, wait_for, what_is_there, windows_in
from scenario_text import one_way

from pinchpoint.dut.setup import prepare
from pinchpoint.host.local import Local
from pinchpoint.host.machines import Machines
from pinchpoint.host.priority import preferred
from pinchpoint.measure.blocked.run import Blocked
from pinchpoint.measure.standing import Listener, standing_bench
from pinchpoint.model.result import Outcome
from pinchpoint.model.warning import Warn
from pinchpoint.scenario import load

pytestmark = pytest.mark.tier2("figures over time: soak, recovery, blocked")


@pytest.fixture
def written(tmp_path):
    def write(measure, more, datapath="dpdk"):
        path = tmp_path / f"{measure}.toml"
        search = "max_repeats = 2"
        path.write_text(one_way(measure, more, datapath=datapath, dut="memory_mb = 1024", search=search))
        return path

    return write


SOAK = "[soak]\nload_fps = 200_000\nduration_s = 6\nwindow_s = 0.5"


def test_a_soak_accounts_for_every_frame_and_is_resumed_after_an_interruption(written, tmp_path):
    before, out = what_is_there(), tmp_path / "runs"
    path = written("soak", SOAK)
    watched = start_watched(tmp_path / "stderr", "run", path, "--out", out)
    wait_for(lambda: "soak-w00003" in windows_in(out), "the third window")
    watched.process.send_signal(signal.SIGINT)
    assert watched.process.wait(60) == 130
    folder = only_run(out)
    kept = len(folder.read_measurements())
    assert kept >= 3
    ended = run("run", "--resume", folder.path)
    assert ended.returncode == 0, ended.stderr
    windows, soaks = folder.read_measurements(), [trial for trial in folder.read_trials() if trial.phase == "soak"]
    assert len(windows) > kept and len(soaks) == 2
    assert sum(window.account["span_s"] for window in windows) == pytest.approx(6.0, abs=0.5)
    whole = soaks[1]  # an interrupted one ends within a window, which is sent again
    assert sum(window.account["offered"] for window in windows[kept:]) == whole.offered
    assert sum(window.account["lost"] - window.account["late"] for window in windows[kept:]) == whole.lost
    (result,) = folder.read_result().scenarios
    assert {"loss", "lost frames", "longest loss-free stretch"} <= {metric.name for metric in result.metrics}
    assert "Loss over time" in (folder.path / "report.html").read_text()
    assert what_is_there() == before


@pytest.mark.tier1("measure:soak")
def test_a_switch_that_forwards_no_more_has_its_loss_in_the_windows_where_it_happened(nothing_left, written, tmp_path):
    out = tmp_path / "runs"
    watched = start_watched(tmp_path / "stderr", "run", written("soak", SOAK), "--out", out)
    wait_for(lambda: "soak-w00004" in windows_in(out), "the fourth window")
    (management,) = STATE.glob("*/br0.mgmt")
    subprocess.run(["ovs-ofctl", "-O", "OpenFlow14", "del-flows", str(management)], check=True)
    ended = watched.end()
    assert ended.returncode == 0, ended.stderr
    folder = only_run(out)
    (soak,) = [trial for trial in folder.read_trials() if trial.phase == "soak"]
    windows = [measurement.account for measurement in folder.read_measurements()]
    assert sum(window["lost"] - window["late"] for window in windows) == soak.lost
    stopped = [window["lost"] >= 0.98 * window["offered"] for window in windows]
    since = stopped.index(True)
    assert since >= 4, "the rules stood until the fifth window"
    assert all(stopped[since:]), "and never came back"
    (result,) = folder.read_result().scenarios
    (told,) = [warning for warning in result.warnings if warning.kind is Warn.STOPPED]
    assert told.values["began_s"] == pytest.approx(0.5 * since, abs=0.6)


RECOVERY = "[recovery]\nthroughput_fps = 6e6\noverload_s = 0.5\nreduced_share = 0.05\nreduced_s = 1\nrepeats = 2"


@pytest.mark.tier1("measure:recovery")
def test_an_overload_loses_frames_and_the_load_after_it_hardly_any(written, tmp_path):
    out = tmp_path / "runs"
    ended = run("run", written("recovery", RECOVERY), "--out", out)
    folder = only_run(out)
    trials = [trial for trial in folder.read_trials() if trial.phase == "recovery"]
    assert trials, ended.stderr
    for trial in trials:
        assert len(trial.samples) >= 10
        assert trial.intended == pytest.approx(6.6e6 * 0.5 + 0.3e6, rel=1e-3)
        rates = [
            after.offered - before.offered for before, after in zip(trial.samples, trial.samples[1:], strict=False)
        ]
        assert rates[-1] < 0.2 * max(rates), "the load stepped down"
        (stream,) = trial.streams
        assert stream.last_loss_s is None or stream.last_loss_s <= trial.sent_duration_s + 0.2


ONLY_STUDIES = pytest.mark.subject(target="test-studies")
ACTIONS = [
    ("add-ports", "dpdk", "count = 20"),
    pytest.param("flush-flows", "dpdk", "", marks=ONLY_STUDIES),
    pytest.param("rebalance", "dpdk", "", marks=ONLY_STUDIES),
    ("restart", "dpdk", ""),
    ("restart", "af_xdp", ""),
    pytest.param("restart", "af_packet", "", marks=pytest.mark.tier1("measure:blocked")),
]


@pytest.mark.parametrize(("action", "datapath", "more"), ACTIONS, ids=str)
def test_an_action_under_traffic_is_timed_and_undone(written, tmp_path, action, datapath, more):
    before, out = what_is_there(), tmp_path / "runs"
    table = f'[blocked]\naction = "{action}"\n{more}\nload_fps = 20_000\nbefore_s = 0.2\nafter_s = 3\nrepeats = 1'
    ended = run("run", written("blocked", table, datapath), "--out", out)
    assert ended.returncode == 0, ended.stderr
    folder = only_run(out)
    (result,) = folder.read_result().scenarios
    assert result.outcome is Outcome.MEASURED, result.reason
    figures = {metric.name: metric for metric in result.metrics}
    assert figures["action time"].value > (0.01 if action.endswith("-ports") or action == "restart" else 0)
    if action == "restart":
        assert figures["lost frames"].value > 0
        assert figures["longest silence"].value > 0.01
        assert figures["blocked time"].value < figures["action time"].value + 2.5, "it forwards again"
    assert what_is_there() == before


def state_of(places):
    """Rules, ports and settings of the switch, and which process it is."""
    environment = {**os.environ, **dict(places.environment)}
    database = f"--db={places.database}"
    commands = [
        ("ovs-ofctl", "-O", "OpenFlow14", "--no-stats", "dump-flows", places.management),
        ("ovs-vsctl", database, "list-ports", "br0"),
        ("ovs-vsctl", database, "get", "Open_vSwitch", ".", "other_config"),
    ]
    asked = [
        subprocess.run(words, capture_output=True, text=True, check=True, env=environment).stdout for words in commands
    ]
    return asked, int(Path(places.pidfile("vswitchd")).read_text())


def test_every_action_shows_once_it_is_done_and_leaves_the_switch_as_it_was(nothing_left, written):
    changes = {"add-flows": 0, "del-flows": None, "add-ports": 1, "del-ports": None, "settings": 2, "restart": None}
    blocked = Blocked("none", 30, {"emc-insert-inv-prob": "50", "max-idle": "9000"}, 1e4, 0.1, 0.1, 1)
    setup = prepare(load(written("blocked", '[blocked]\naction = "none"', "af_packet")), Machines(Local()))
    with preferred(), standing_bench(setup, Listener()), closing(setup.bench.open()) as live:
        for name, changed in changes.items():
            before, pid = state_of(setup.places)
            action = live.action(replace(blocked, action=name), setup.resources)
            action.prepare(lambda: None)
            prepared, _ = state_of(setup.places)
            action.act(lambda: None)
            after, pid_after = state_of(setup.places)
            differs = [number for number in range(3) if after[number] != before[number]]
            assert differs == ([] if changed is None else [changed]), name
            assert (prepared != before) == name.startswith("del-"), name
            assert (pid_after != pid) == (name == "restart"), name
            action.restore(lambda: None)
            assert state_of(setup.places)[0] == before, name
            assert live.control.call("version").startswith("ovs-vswitchd"), f"after {name} the control socket answers"

"""Soak, recovery and blocked time with a real switch: accounts close, and what happens is seen."""

import signal

import pytest
from bench_tools import run, start_watched, what_is_there

from pinchpoint.model.result import Outcome
from pinchpoint.store.folder import RunFolder

BENCH = """
title = "a test"
measure = "{measure}"
[dut]
kind = "ovs"
datapath = "dpdk"
pmd_cpus = [1]
memory_mb = 1024
rules = "in_port={{left}},actions=output:{{right}}"
[[port]]
name = "left"
ring = 4096
[[port]]
name = "right"
ring = 4096
[engine]
cpus = [0]
[[stream]]
from = "left"
to = "right"
[search]
max_repeats = 2
[validity]
gap_shortfall_ratio = 0.9
{more}
"""


def only_folder(out):
    (path,) = out.iterdir()
    return RunFolder.open(path)


@pytest.fixture
def written(tmp_path):
    def write(measure, more):
        path = tmp_path / f"{measure}.toml"
        path.write_text(BENCH.format(measure=measure, more=more))
        return path

    return write


SOAK = "[soak]\nload_fps = 200_000\nduration_s = 6\nwindow_s = 0.5"


def test_a_soak_accounts_for_every_frame_and_is_resumed_after_an_interruption(written, tmp_path):
    before, out = what_is_there(), tmp_path / "runs"
    path = written("soak", SOAK)
    watched = start_watched(tmp_path / "stderr", "run", path, "--out", out)
    watched.wait_until_it_says("soak-w00003")
    watched.process.send_signal(signal.SIGINT)
    assert watched.process.wait(60) == 130
    folder = only_folder(out)
    kept = len(folder.read_measurements())
    assert kept >= 3
    ended = run("run", "--resume", folder.path)
    assert ended.returncode == 0, ended.stderr
    windows, soaks = folder.read_measurements(), [one for one in folder.read_trials() if one.phase == "soak"]
    assert len(windows) > kept and len(soaks) == 2
    assert sum(one.account["span_s"] for one in windows) == pytest.approx(6.0, abs=0.5)
    whole = soaks[1]  # an interrupted one ends within a window, which is sent again
    for counted in ("offered", "lost"):
        assert sum(one.account[counted] for one in windows[kept:]) == getattr(whole, counted)
    (result,) = folder.read_result().scenarios
    assert {"loss", "lost frames", "longest loss-free stretch"} <= {one.name for one in result.metrics}
    assert "Loss over time" in (folder.path / "report.html").read_text()
    assert what_is_there() == before


RECOVERY = "[recovery]\nthroughput_fps = 6e6\noverload_s = 0.5\nreduced_share = 0.05\nreduced_s = 1\nrepeats = 2"


def test_an_overload_loses_frames_and_the_load_after_it_hardly_any(written, tmp_path):
    out = tmp_path / "runs"
    ended = run("run", written("recovery", RECOVERY), "--out", out)
    folder = only_folder(out)
    trials = [one for one in folder.read_trials() if one.phase == "recovery"]
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


@pytest.mark.parametrize("action", ["none", "add-ports", "flush-flows"])
def test_an_action_under_traffic_is_timed_and_undone(written, tmp_path, action):
    before, out = what_is_there(), tmp_path / "runs"
    more = f'[blocked]\naction = "{action}"\ncount = 20\nload_fps = 100_000\nbefore_s = 0.2\nafter_s = 0.3\nrepeats = 1'
    ended = run("run", written("blocked", more), "--out", out)
    assert ended.returncode == 0, ended.stderr
    (result,) = only_folder(out).read_result().scenarios
    assert result.outcome is Outcome.MEASURED
    figures = {one.name: one for one in result.metrics}
    assert figures["action time"].value > (0.01 if action == "add-ports" else 0)
    assert what_is_there() == before

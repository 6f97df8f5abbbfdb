"""Bursts and a loss curve with a real switch: exactly the frames asked for, and an account of each."""

import signal

import pytest
from bench_tools import ROOT, run, start, trials_in, wait_for

from pinchpoint.model.result import Outcome
from pinchpoint.model.trial import TrialValidity
from pinchpoint.store.folder import RunFolder

BURST = """
[burst]
repeats = 3
throughput_fps = 1e6
relative_width = 0.1
max_frames = 200_000
"""
CURVE = """
[loss_curve]
max_load_fps = 100e6
step = 0.1
repeats = 2
duration_s = 0.1
"""


@pytest.fixture
def of_measure(scenario):
    """Writes a scenario of a measure, without the table that only rates read."""

    def write(measure, more):
        path = scenario(name=f"{measure}.toml", more=more)
        text = path.read_text().replace("[latency]\nduration_s = 0.2\n", "")
        path.write_text(f'measure = "{measure}"\n{text}'.replace("max_repeats = 20", "max_repeats = 8"))
        return path

    return write


def only_folder(out):
    (path,) = out.iterdir()
    return RunFolder.open(path)


def test_every_burst_has_exactly_its_frames_and_the_ring_that_overflows_is_named(nothing_left, of_measure, tmp_path):
    done = run("run", of_measure("burst", BURST), "--out", tmp_path / "runs")
    folder = only_folder(tmp_path / "runs")
    sent = [trial for trial in folder.read_trials() if trial.burst_frames]
    assert sent
    for trial in sent:
        assert trial.offered == trial.intended == trial.burst_frames, trial.id
        assert trial.sent_duration_s < 0.5
        if trial.validity is TrialValidity.VALID:
            assert trial.ledger.unexplained == 0
    (found,) = folder.read_result().scenarios
    if found.outcome is not Outcome.MEASURED:
        pytest.skip(f"no burst could be judged on this host: {found.reason}")
    assert done.returncode == 0, done.stderr
    metrics = {one.name: one for one in found.metrics}
    ring = 1024
    assert metrics["longest burst"].value > 0.9 * ring, "what fits into the ring is not lost"
    assert metrics["corrected buffer"].value < metrics["average burst"].value, "it forwarded meanwhile"
    assert metrics["burst rate"].value > 1.02e6
    assert "receive ring" in found.verdict.headline
    assert 'id="scenario-1-bursts"' in (folder.path / "report.html").read_text()


def test_loads_that_no_engine_offers_are_marked_and_the_rest_have_a_loss(nothing_left, of_measure, tmp_path):
    run("run", of_measure("loss_curve", CURVE), "--out", tmp_path / "runs")
    folder = only_folder(tmp_path / "runs")
    (found,) = folder.read_result().scenarios
    top = found.loss_curve[0]
    assert (top.loss, top.trials) == (None, 0), "100 million frames a second are beyond any engine"
    assert top.reason
    for point in found.loss_curve:
        if point.trials:
            assert 0 <= point.loss_low <= point.loss <= point.loss_high <= 1
            assert point.forwarded_fps <= point.offered_fps * 1.001
            assert point.offered_fps == pytest.approx(point.load_fps, rel=0.06)
    assert 'id="scenario-1-curve"' in (folder.path / "report.html").read_text()


def test_ctrl_c_keeps_the_bursts_and_resume_goes_on(nothing_left, of_measure, tmp_path):
    out = tmp_path / "runs"
    process = start("run", of_measure("burst", BURST), "--out", out)
    wait_for(lambda: trials_in(out) >= 3, "three trials")
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode in (130, 0), errors
    folder = only_folder(out)
    before = folder.read_trials()
    again = run("run", "--resume", folder.path)
    assert folder.read_trials()[: len(before)] == before
    assert folder.read_result().finished, again.stderr


def test_the_shipped_study_is_sound():
    done = run("check", ROOT / "studies" / "rfc2544")
    assert done.returncode == 0, done.stderr

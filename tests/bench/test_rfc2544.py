"""Bursts and a loss curve with a real switch: exactly the frames asked for, and an account of each."""

import signal

import pytest
from bench_tools import ROOT, SLOW, only_run, run, start, trials_in, wait_for

from pinchpoint.model.result import Outcome

pytestmark = [pytest.mark.tier2("bursts and loss curves"), pytest.mark.needs("dpdk")]

THROUGHPUT_FPS = 50_000  # as stated to the measure: less than the slow switch carries on any host
BURST = f"""
[burst]
repeats = 3
throughput_fps = {THROUGHPUT_FPS}
relative_width = 0.1
max_frames = 200_000
"""
CURVE = """
[loss_curve]
max_load_fps = 100e6
step = 0.1
repeats = 1
duration_s = 0.4  # a shorter trial may be the host's for nine tenths of its time, and be excused for what it lacks
"""


@pytest.fixture
def of_measure(scenario):
    """Writes a scenario of a measure, without the table that only rates read."""

    def write(measure, more, repeats=30, **changes):
        path = scenario(name=f"{measure}.toml", more=more, **changes)
        text = path.read_text().replace("[latency]\nduration_s = 0.2\nat = [0.5]\n", "")
        path.write_text(f'measure = "{measure}"\n{text}'.replace("max_repeats = 20", f"max_repeats = {repeats}"))
        return path

    return write


@pytest.mark.tier1("measure:burst")
def test_every_burst_has_exactly_its_frames_and_the_ring_that_overflows_is_named(nothing_left, of_measure, tmp_path):
    done = run("run", of_measure("burst", BURST, rules=SLOW), "--out", tmp_path / "runs")
    folder = only_run(tmp_path / "runs")
    sent = [trial for trial in folder.read_trials() if trial.burst_frames]
    assert sent
    ring = 1024
    for trial in sent:
        assert trial.offered == trial.intended == trial.burst_frames, trial.id
        assert trial.ledger.unexplained == 0, trial.id
        assert trial.lost == 0 or trial.burst_frames > 0.9 * ring, "what fits into the ring is not lost"
        drops = {drop.name: drop.frames for hop in trial.ledger.hops for drop in hop.drops if drop.frames}
        assert all("receive ring" in name for name in drops), drops
    (result,) = folder.read_result().scenarios
    if result.outcome is not Outcome.MEASURED:  # the host lets a burst be judged or not; its account was looked at
        assert "no burst could be judged" in result.reason
        return
    assert done.returncode == 0, done.stderr
    metrics = {metric.name: metric for metric in result.metrics}
    assert metrics["longest burst"].value > 0.9 * ring
    assert metrics["corrected buffer"].value < metrics["average burst"].value, "it forwarded meanwhile"
    assert metrics["burst rate"].value > 1.02 * THROUGHPUT_FPS
    assert "receive ring" in result.verdict.headline
    assert 'id="scenario-1-bursts"' in (folder.path / "report.html").read_text()


@pytest.mark.tier1("measure:loss_curve")
def test_loads_that_no_engine_offers_are_marked_and_the_rest_have_a_loss(nothing_left, of_measure, tmp_path):
    path = of_measure("loss_curve", CURVE, repeats=2)
    # No engine offers half of the top load; a busy host may have its core for nine tenths of a trial.
    path.write_text(path.read_text().replace("gap_shortfall_ratio = 0.9", "gap_shortfall_ratio = 0.5"))
    done = run("run", path, "--out", tmp_path / "runs")
    assert done.returncode in (0, 4), done.stderr  # 4: on a busy host the engine may offer none of the loads
    folder = only_run(tmp_path / "runs")
    (result,) = folder.read_result().scenarios
    top = result.loss_curve[0]
    assert (top.loss, top.trials) == (None, 0), "100 million frames a second are beyond any engine"
    assert top.reason
    for point in result.loss_curve:
        if point.trials:
            assert 0 <= point.loss_low <= point.loss <= point.loss_high <= 1
            assert point.forwarded_fps <= point.offered_fps * 1.001
            # What fell due while the host had the engine's core is never offered (validity.gap_shortfall_ratio).
            assert 0 < point.offered_fps <= 1.001 * point.load_fps
    assert 'id="scenario-1-curve"' in (folder.path / "report.html").read_text()


@pytest.mark.subject(target="test-interrupts")
def test_ctrl_c_keeps_the_bursts_and_resume_goes_on(nothing_left, of_measure, tmp_path):
    out = tmp_path / "runs"
    process = start("run", of_measure("burst", BURST), "--out", out)
    wait_for(lambda: trials_in(out) >= 3, "three trials")
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode in (130, 0), errors
    folder = only_run(out)
    before = folder.read_trials()
    again = run("run", "--resume", folder.path)
    assert folder.read_trials()[: len(before)] == before
    assert folder.read_result().finished, again.stderr


def test_the_shipped_study_is_sound():
    done = run("check", ROOT / "studies" / "rfc2544")
    assert done.returncode == 0, done.stderr

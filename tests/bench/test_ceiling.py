"""The generator's own ceiling on real benches: its ports joined without the switch, and nothing left behind."""

import json
import os
import signal
from dataclasses import asdict, replace

import pytest
from bench_tools import FORWARD, STATE, run, start, wait_for

from pinchpoint.bench.journal import machine_lock
from pinchpoint.engine import process
from pinchpoint.host.local import Local
from pinchpoint.host.machines import Machines
from pinchpoint.measure.standing import Listener
from pinchpoint.model.result import CEILING_ERROR
from pinchpoint.run import ceiling
from pinchpoint.scenario import load

pytestmark = [pytest.mark.usefixtures("nothing_left"), pytest.mark.tier2("command:ceiling")]


@pytest.fixture
def cache(tmp_path):
    """A cache of one's own; returns the environment that says so, and the file."""
    folder = tmp_path / "cache"
    return {**os.environ, "XDG_CACHE_HOME": str(folder)}, folder / "pinchpoint" / "ceilings.json"


LIMIT_FPS = 1e6


@pytest.fixture
def generator_of_a_million(monkeypatch):
    """The engine as if it kept up with a million frames per second and no more, on a host that never stops it."""
    runner = ceiling._runner

    def limited(*arguments):
        run_one = runner(*arguments)

        def at(load_fps):
            result = run_one(load_fps)
            (stream,) = result.streams
            offered = min(stream.intended, round(LIMIT_FPS * ceiling.TRIAL_S))
            stream = replace(stream, offered=offered, shortfall=stream.intended - offered)
            quiet = {"workers": (), "cache_line_before_ns": None, "cache_line_after_ns": None}
            return replace(result, streams=(stream,), sent_duration_s=ceiling.TRIAL_S, **quiet)

        return at

    monkeypatch.setattr(ceiling, "_runner", limited)


@pytest.mark.parametrize(
    "datapath", ["dpdk", pytest.param("af_packet", marks=pytest.mark.tier1("command:ceiling")), "af_xdp"]
)
def test_the_engine_joined_to_itself_has_a_ceiling_and_frames_come_back(
    scenario, cache, generator_of_a_million, datapath
):
    environment, file = cache
    path = scenario(datapath=datapath)
    with machine_lock(Local()):
        (measured_ceiling,) = ceiling.CeilingTest(Machines(Local()), process.version, file).measured_now(
            load(path), Listener()
        )
    assert LIMIT_FPS * (1 - CEILING_ERROR) <= measured_ceiling.fps <= LIMIT_FPS
    assert measured_ceiling.received_fps > 0
    assert f"towards ovs {datapath}" in measured_ceiling.key
    again = run("ceiling", path, "--json", env=environment)
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout) == [asdict(measured_ceiling)], "a second question within a day measures nothing"


def test_a_ceiling_test_that_is_killed_leaves_what_clean_removes(scenario, cache):
    environment, _ = cache
    process = start("ceiling", scenario(), "--quiet", env=environment)
    wait_for(lambda: list(STATE.glob("*/relay.pid")) or process.poll() is not None, "the relay")
    process.send_signal(signal.SIGKILL)
    process.communicate()
    done = run("clean")
    assert done.returncode == 0, done.stderr
    assert "relay" in done.stdout


def test_ctrl_c_ends_a_ceiling_test_in_order(scenario, cache):
    environment, _ = cache
    process = start("ceiling", scenario(), "--quiet", env=environment)
    wait_for(lambda: list(STATE.glob("*/relay.pid")) or process.poll() is not None, "the relay")
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors


def test_a_run_measures_the_ceiling_once_and_tells_it(scenario, cache, tmp_path):
    environment, file = cache
    path = scenario(datapath="af_packet", rules=FORWARD)
    done = run("run", path, "--quiet", "--json", "--out", tmp_path / "runs", env=environment, ceiling=True)
    assert done.returncode == 0, done.stderr
    (result,) = json.loads(done.stdout)["scenarios"]
    told = result["ceiling"] is not None or any("ceiling" in warning["kind"] for warning in result["warnings"])
    assert told
    assert file.exists() or any(warning["kind"] == "ceiling_unknown" for warning in result["warnings"])


def test_without_ceiling_nothing_is_measured(scenario, cache, tmp_path):
    environment, file = cache
    path = scenario(datapath="af_packet", rules=FORWARD)
    done = run("run", path, "--quiet", "--json", "--out", tmp_path / "runs", env=environment)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["scenarios"][0]["ceiling"] is None
    assert not file.exists()

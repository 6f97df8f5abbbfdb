"""The generator's own ceiling on real benches: its ports joined without the switch, and nothing left behind."""

import json
import os
import signal

import pytest
from bench_tools import FORWARD, STATE, run, start, wait_for

pytestmark = pytest.mark.usefixtures("nothing_left")


@pytest.fixture
def cache(tmp_path):
    """A cache of one's own; returns the environment that says so, and the file."""
    folder = tmp_path / "cache"
    return {**os.environ, "XDG_CACHE_HOME": str(folder)}, folder / "pinchpoint" / "ceilings.json"


def measured(scenario, environment, tries=12):
    """The ceilings; a host on which the engine's core hardly runs is given some more tries."""
    for _ in range(tries):
        done = run("ceiling", scenario, "--json", "--quiet", env=environment)
        if "no load could be judged" not in done.stderr:
            break
    else:
        pytest.skip(f"this host has no time for the engine: {done.stderr}")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("datapath", ["dpdk", "af_packet", "af_xdp"])
def test_the_engine_joined_to_itself_has_a_ceiling_and_frames_come_back(scenario, cache, datapath):
    environment, file = cache
    (found, *_) = measured(scenario(datapath=datapath), environment)
    assert 1e5 < found["fps"] < 100e6
    assert found["received_fps"] > 0
    assert f"towards {datapath}" in found["key"]
    stored = json.loads(file.read_text())["ceilings"]
    assert found in stored
    again = run("ceiling", scenario(datapath=datapath), "--json", env=environment)
    assert json.loads(again.stdout)[0] in stored, "a second question within a day measures nothing"


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
    told = result["ceiling"] is not None or any("ceiling" in warning for warning in result["warnings"])
    assert told
    assert file.exists() or any("no ceiling" in warning for warning in result["warnings"])


def test_without_ceiling_nothing_is_measured(scenario, cache, tmp_path):
    environment, file = cache
    path = scenario(datapath="af_packet", rules=FORWARD)
    done = run("run", path, "--quiet", "--json", "--out", tmp_path / "runs", env=environment)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["scenarios"][0]["ceiling"] is None
    assert not file.exists()

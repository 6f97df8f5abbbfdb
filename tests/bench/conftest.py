"""Fixtures of the tests with real daemons."""

import os
import subprocess

import pytest
from bench_tools import FORWARD, PINCHPOINT, SCENARIO, end_started, what_is_there
from ssh_tools import three_hosts


def pytest_collection_modifyitems(items):
    if os.geteuid() != 0 and any("tests/bench" in str(item.path) for item in items):
        pytest.exit("tests/bench build real benches: run them as root", returncode=3)


@pytest.fixture(scope="session", autouse=True)
def clean_before():
    """What a run that died here earlier left would count as a test's own."""
    subprocess.run([PINCHPOINT, "clean"], check=True)


@pytest.fixture(autouse=True)
def ended():
    """A test that fails while its program runs does not make the next ones fail."""
    yield
    end_started()


@pytest.fixture
def nothing_left():
    """Fails the test if anything of a bench is still there at its end."""
    before = what_is_there()
    yield before
    after = what_is_there()
    if after != before:
        subprocess.run([PINCHPOINT, "clean"], check=False)
    assert after == before


@pytest.fixture
def scenario(tmp_path):
    """Writes a scenario that takes a few seconds; returns its path.

    Of so small a load that the rings hold what a busy host keeps waiting: what is tried is not the host. Latency is
    taken at one load, unless `more` says at which.
    """

    def write(name="tiny.toml", datapath="dpdk", rules=FORWARD, max_load_fps=2e4, trial_s=0.1, more=""):
        path = tmp_path / name
        tables = more if more.startswith("at =") else f"at = [0.5]\n{more}"
        text = SCENARIO.replace("{datapath}", datapath).replace("{rules}", rules).replace("{more}", tables)
        path.write_text(text.replace("{max_load_fps}", str(max_load_fps)).replace("{trial_s}", str(trial_s)))
        return path

    return write


@pytest.fixture
def hosts(tmp_path):
    """Three machines behind real sshd, joined by cables: `gen`, `dut` and `sink`."""
    with three_hosts(tmp_path / "far") as reached:
        yield reached

"""The scenario that init writes on this machine runs on it."""

import json

import pytest
from bench_tools import run

pytestmark = [pytest.mark.tier2("command:init"), pytest.mark.needs("dpdk")]

BRIEF = [
    word
    for setting in (
        "search.trial_duration_s=0.1",
        "search.initial_trial_duration_s=0.1",
        "search.max_traffic_s=1",
        "search.relative_width=0.3",
    )
    for word in ("--set", setting)
]


@pytest.mark.tier1("command:init")
def test_the_scenario_that_init_writes_passes_check_and_runs(tmp_path, nothing_left):
    path, out = tmp_path / "first.toml", tmp_path / "runs"
    assert run("init", path).returncode == 0
    assert run("check", path).returncode == 0
    done = run("run", path, "--out", out, "--json", "--quiet", *BRIEF)
    assert done.returncode == 0, done.stderr
    (result,) = json.loads(done.stdout)["scenarios"]
    assert result["trials"] > 0

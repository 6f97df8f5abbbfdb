"""The scenario that init writes on this machine runs on it, and what it prints is what it stores."""

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


@pytest.mark.tier1("command:init", "command:run", "command:show", "measure:rates")
def test_the_scenario_that_init_writes_passes_check_and_runs_and_json_is_what_is_stored(tmp_path, nothing_left):
    path, out = tmp_path / "first.toml", tmp_path / "runs"
    assert run("init", path).returncode == 0
    assert run("check", path).returncode == 0
    done = run("run", path, "--out", out, "--json", *BRIEF)
    assert done.returncode in (0, 9), done.stderr  # 9: a busy host may leave a second of traffic undecided
    assert done.stderr, "progress stays off stdout"
    printed = json.loads(done.stdout)
    (result,) = printed["scenarios"]
    assert result["trials"] > 0
    (folder,) = out.iterdir()
    assert json.loads((folder / "result.json").read_text())["scenarios"] == printed["scenarios"]
    assert json.loads(run("show", folder, "--json").stdout) == printed
    assert (folder / "report.html").stat().st_size > 10_000

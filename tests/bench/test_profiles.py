"""A profile in TRex's idiom is imported, and every stream of it is sent and received."""

import json
from pathlib import Path

import pytest
from bench_tools import run

pytestmark = [pytest.mark.tier2("command:import"), pytest.mark.needs("dpdk")]

OURS = Path(__file__).parents[1] / "unit" / "profiles" / "ours"
BRIEF = [
    word
    for setting in (
        "search.trial_duration_s=0.1",
        "search.initial_trial_duration_s=0.1",
        "search.max_traffic_s=1",
        "search.max_load_fps=50000",
    )
    for word in ("--set", setting)
]


@pytest.mark.tier1("command:import")
def test_an_imported_profile_runs_with_all_its_streams(tmp_path, nothing_left):
    path, out = tmp_path / "mix.toml", tmp_path / "runs"
    assert run("import", OURS / "mix.py", "-o", path, "--both-ways").returncode == 0
    done = run("run", path, "--out", out, "--json", "--quiet", *BRIEF)
    assert done.returncode in (0, 9), done.stderr  # 9: a busy host may leave a second of traffic undecided
    (trials,) = out.rglob("trials.jsonl")
    first = json.loads(trials.read_text().splitlines()[0])
    received = [stream["received"] for stream in first["streams"]]
    assert len(received) == 6
    assert all(received)


def test_tags_ethernet_addresses_ipv6_and_tcp_of_a_profile_are_sent(tmp_path, nothing_left):
    path, out = tmp_path / "kinds.toml", tmp_path / "runs"
    assert run("import", OURS / "kinds.py", "-o", path).returncode == 0
    assert run("check", path).returncode == 0
    done = run("run", path, "--out", out, "--json", "--quiet", *BRIEF)
    assert done.returncode in (0, 9), done.stderr  # 9: a busy host may leave a second of traffic undecided
    (trials,) = out.rglob("trials.jsonl")
    first = json.loads(trials.read_text().splitlines()[0])
    received = [one["received"] for one in first["streams"]]
    assert len(received) == 3
    assert all(received)

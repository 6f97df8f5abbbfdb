"""Bad input and faults: a clear message, the documented exit code, finished trials kept, nothing left."""

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest
from bench_tools import (
    PINCHPOINT,
    ROOT,
    STATE,
    journal_entries,
    kill_lab,
    run,
    start,
    trials_in,
    wait_for,
    what_is_there,
)

ACTIONS = 11  # in the plan of the test scenario, see `pinchpoint run --dry-run`


def assert_ends(done, code, *words):
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    for word in words:
        assert re.search(word, done.stderr), f"{word!r} not in: {done.stderr}"


@pytest.mark.parametrize("entries", range(1, ACTIONS + 1))
def test_after_kill_9_while_building_clean_leaves_nothing(scenario, tmp_path, entries):
    before = what_is_there()
    process = start("run", scenario(), "--out", tmp_path / "runs")
    wait_for(lambda: journal_entries() >= entries or process.poll() is not None, f"{entries} journal entries")
    kill_lab(process)
    assert run("clean").returncode == 0
    assert what_is_there() == before


@pytest.mark.parametrize("trials", [1, 3])
def test_after_kill_9_while_measuring_clean_leaves_nothing_and_resume_finishes(scenario, tmp_path, trials):
    before = what_is_there()
    out = tmp_path / "runs"
    process = start("run", scenario(), "--out", out)
    wait_for(lambda: trials_in(out) >= trials, f"{trials} trials")
    kill_lab(process)
    assert run("clean").returncode == 0
    assert what_is_there() == before
    (folder,) = out.iterdir()
    kept = (folder / "trials.jsonl").read_bytes()
    assert kept.count(b"\n") >= trials
    done = run("run", "--resume", folder)
    assert done.returncode == 0, done.stderr
    assert (folder / "trials.jsonl").read_bytes().startswith(kept[: kept.rindex(b"\n") + 1])
    assert what_is_there() == before


def test_clean_spares_a_run_that_is_still_going_on(nothing_left, scenario, tmp_path):
    process = start("run", scenario(), "--out", tmp_path / "runs")
    wait_for(lambda: trials_in(tmp_path / "runs") >= 1, "a trial")
    cleaned = run("clean")
    assert "left alone" in cleaned.stderr
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors


def pid_of(words):
    found = subprocess.run(["pgrep", "-f", words], capture_output=True, text=True, check=False).stdout.split()
    return [int(pid) for pid in found if b"PINCHPOINT_BENCH=" in Path(f"/proc/{pid}/environ").read_bytes()]


@pytest.mark.parametrize(
    ("victim", "code", "words"),
    [("bin/pinchpoint-engine", 5, "killed by signal 9"), ("ovs-vswitchd-dpdk", 6, "no answer|does not answer")],
    ids=["engine", "switch"],
)
def test_a_killed_engine_or_switch_is_told_and_finished_trials_are_kept(
    nothing_left, scenario, tmp_path, victim, code, words
):
    out = tmp_path / "runs"
    process = start("run", scenario(trial_s=1.0), "--out", out)
    wait_for(lambda: trials_in(out) >= 2, "two trials")
    for pid in pid_of(victim):
        os.kill(pid, signal.SIGKILL)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == code, errors
    assert "Traceback" not in errors
    assert re.search(words, errors)
    assert "finished trials are in" in errors
    assert trials_in(out) >= 2


def test_a_rule_the_switch_refuses_is_shown_with_its_place_and_ovs_own_words(nothing_left, scenario, tmp_path):
    path = scenario(rules="in_port={left},actions=output:{right}\nin_port={left},actions=teleport:7")
    line = 1 + path.read_text().splitlines().index("in_port={left},actions=teleport:7")
    done = run("run", path, "--out", tmp_path / "runs")
    assert_ends(done, 4, rf"{path}:{line}: the switch refused this rule: .*teleport")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("pmd_cpus = [1]", 'pmd_cpus = "1"', r"tiny\.toml:\d+: .*pmd_cpus"),
        ("memory_mb = 1024", "memory = 1024", r"tiny\.toml:\d+: .*memory.*memory_mb"),
        ("output:{right}", "output:{rihgt}", r"tiny\.toml:\d+: .*rihgt"),
        ("relative_width = 0.3", "relative_width = 3", r"tiny\.toml:\d+: .*relative_width"),
        ("[engine]", "[engine", r"tiny\.toml:\d+: "),
    ],
    ids=["wrong type", "unknown key", "unknown port", "impossible range", "no TOML"],
)
def test_bad_input_exits_2_and_builds_nothing(nothing_left, scenario, tmp_path, old, new, words):
    path = scenario()
    path.write_text(path.read_text().replace(old, new))
    assert_ends(run("run", path, "--out", tmp_path / "runs"), 2, words)
    assert not (tmp_path / "runs").exists()


def test_too_few_cores_is_told(nothing_left, scenario, tmp_path):
    path = scenario()
    path.write_text(path.read_text().replace("pmd_cpus = [1]", "pmd_cpus = [1, 63]"))
    assert_ends(run("run", path, "--out", tmp_path / "runs"), 3, "CPU 63 not usable")


def test_without_root_the_message_says_what_to_do(nothing_left):
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    command = [*nobody, PINCHPOINT, "run", str(ROOT / "studies" / "quickstart"), "--out", "/tmp/nowhere"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")
    if "Permission denied" in done.stderr and done.returncode not in (0, 3):
        pytest.skip("this checkout cannot be read by an ordinary user")
    assert_ends(done, 3, "root", "sudo")
    assert not Path("/tmp/nowhere").exists()


def test_a_missing_switch_is_told_with_the_command_that_brings_it(nothing_left, scenario, tmp_path):
    path = scenario()
    empty = tmp_path / "bin"
    empty.mkdir()
    done = run("run", path, "--out", tmp_path / "runs", env={**os.environ, "PATH": str(empty)})
    assert_ends(done, 3, "ovs-vsctl: not installed", "apt-get install openvswitch-switch")


def test_a_full_disk_is_told_and_the_bench_is_removed(scenario, tmp_path):
    before = what_is_there()
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)], check=True)
    try:
        assert_ends(run("run", scenario(), "--out", disk / "runs"), 7, "No space left", "free some space")
    finally:
        subprocess.run(["umount", str(disk)], check=True)
    assert what_is_there() == before


def test_a_scenario_that_does_not_exist_is_told():
    done = run("run", "/no/such/scenario.toml")
    assert_ends(done, 2, "/no/such/scenario.toml")


def test_clean_has_nothing_to_do_on_a_clean_machine():
    done = run("clean")
    assert done.returncode == 0
    assert "nothing to remove" in done.stdout
    assert not list(STATE.glob("*.journal"))

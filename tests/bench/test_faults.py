"""Bad input and faults: a clear message, the documented exit code, finished trials kept, nothing left."""

import json
import os
import re
import signal
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from bench_tools import (
    PINCHPOINT,
    ROOT,
    STATE,
    journal_entries,
    kill_lab,
    pid_of,
    run,
    start,
    start_watched,
    trials_in,
    wait_for,
    what_is_there,
)

pytestmark = [pytest.mark.tier2("faults: killed, interrupted, refused"), pytest.mark.needs("dpdk")]

ENTRIES = 7  # of the journal: the switch's database runs; test_duet.py has a kill at every entry


def assert_ends(done, code, *words):
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    for word in words:
        assert re.search(word, done.stderr), f"{word!r} not in: {done.stderr}"


def test_after_kill_9_while_building_clean_leaves_nothing(scenario, tmp_path):
    before = what_is_there()
    process = start("run", scenario(), "--out", tmp_path / "runs")
    wait_for(lambda: journal_entries() >= ENTRIES or process.poll() is not None, f"{ENTRIES} journal entries")
    kill_lab(process)
    assert run("clean").returncode == 0
    assert what_is_there() == before


@pytest.mark.tier1("faults: killed, interrupted, refused", "command:clean")
def test_after_kill_9_while_measuring_clean_leaves_nothing_and_resume_finishes(scenario, tmp_path):
    before = what_is_there()
    out = tmp_path / "runs"
    process = start("run", scenario(), "--out", out)
    wait_for(lambda: trials_in(out), "a trial")
    kill_lab(process)
    assert run("clean").returncode == 0
    assert what_is_there() == before
    (folder,) = out.iterdir()
    kept = (folder / "trials.jsonl").read_bytes()
    assert b"\n" in kept
    done = run("run", "--resume", folder)
    assert done.returncode == 0, done.stderr
    assert (folder / "trials.jsonl").read_bytes().startswith(kept[: kept.rindex(b"\n") + 1])
    assert what_is_there() == before


@contextmanager
def stopped(process, out):
    """A run that has a trial and cannot end inside the block, however slow the host is."""
    wait_for(lambda: trials_in(out) >= 1, "a trial")
    process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        process.send_signal(signal.SIGCONT)


def test_clean_spares_a_run_that_is_still_going_on(nothing_left, scenario, tmp_path):
    process = start("run", scenario(), "--out", tmp_path / "runs")
    with stopped(process, tmp_path / "runs"):
        cleaned = run("clean")
    assert "left alone" in cleaned.stderr
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors


def trial_ids(out):
    """Those that are stored, each a whole line."""
    (folder,) = out.iterdir()
    stored = folder / "trials.jsonl"
    return [json.loads(line)["id"] for line in stored.read_text().splitlines()] if stored.exists() else []


@pytest.fixture
def eleven_trials(scenario):
    """A scenario of one warm-up, a search of one trial or more, and nine of latency."""
    return scenario(trial_s=0.5, more="at = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]")


@pytest.mark.parametrize(
    ("victim", "code", "words", "trials"),
    [
        ("bin/pinchpoint-engine", 5, "killed by signal 9", 0),
        ("ovs-vswitchd-dpdk", 6, "no answer|does not answer|did not answer", 3),
    ],
    ids=["engine", "switch"],
)
def test_a_killed_engine_or_switch_is_told_and_finished_trials_are_kept(
    nothing_left, eleven_trials, tmp_path, victim, code, words, trials
):
    out = tmp_path / "runs"
    watched = start_watched(tmp_path / "stderr", "run", eleven_trials, "--out", out)
    watched.wait_until_it_says("  ·  warm-up")
    wait_for(lambda: trials_in(out) >= trials, f"{trials} trials")
    victims = pid_of(victim)
    assert victims
    for pid in victims:
        os.kill(pid, signal.SIGKILL)
    kept = "finished trials are in" if trials else "finished trials are in|no trial was finished"
    assert_ends(watched.end(), code, words, kept, "run --resume")
    assert len(set(trial_ids(out))) == trials_in(out) >= trials


def test_a_switch_killed_in_the_middle_of_a_trial_leaves_that_trial_aborted_with_the_reason(
    nothing_left, scenario, tmp_path
):
    out = tmp_path / "runs"
    watched = start_watched(tmp_path / "stderr", "run", scenario(trial_s=10), "--out", out)
    watched.wait_until_it_says("  ·  search  ·  trial")
    time.sleep(1.0)  # into the trial
    (pid,) = pid_of("ovs-vswitchd-dpdk")
    os.kill(pid, signal.SIGKILL)
    assert_ends(watched.end(), 6, "no answer|does not answer|did not answer")
    (folder,) = out.iterdir()
    last = json.loads((folder / "trials.jsonl").read_text().splitlines()[-1])
    assert last["validity"] == "aborted"
    # Before that stands what the engine saw, if it saw the link go down.
    assert re.search("(no answer to .*|does not answer.*|did not answer.*)$", last["reason"])


def test_an_engine_killed_before_its_ports_are_open_is_told(nothing_left, scenario, tmp_path):
    watched = start_watched(tmp_path / "stderr", "run", scenario(), "--out", tmp_path / "runs")
    (pid,) = wait_for(lambda: pid_of("bin/pinchpoint-engine"), "the engine")
    os.kill(pid, signal.SIGKILL)
    assert_ends(watched.end(), 5, "killed by signal 9")


def test_ctrl_c_while_building_leaves_nothing(nothing_left, scenario, tmp_path):
    watched = start_watched(tmp_path / "stderr", "run", scenario(), "--out", tmp_path / "runs")
    wait_for(lambda: journal_entries() >= ENTRIES, f"{ENTRIES} journal entries")
    watched.process.send_signal(signal.SIGINT)
    assert_ends(watched.end(), 130, "interrupted", "--resume")
    assert trials_in(tmp_path / "runs") == 0


@pytest.mark.parametrize(
    "phase", ["warm-up", pytest.param("latency", marks=pytest.mark.subject(target="test-interrupts"))]
)
def test_ctrl_c_while_measuring_keeps_finished_trials_and_leaves_nothing(nothing_left, eleven_trials, tmp_path, phase):
    out = tmp_path / "runs"
    watched = start_watched(tmp_path / "stderr", "run", eleven_trials, "--out", out)
    watched.wait_until_it_says(f"  ·  {phase}")
    time.sleep(0.1)  # into the trial
    finished = trials_in(out)
    watched.process.send_signal(signal.SIGINT)
    done = watched.end()
    assert_ends(done, 130, "interrupted", "--resume")
    assert len(trial_ids(out)) >= max(finished, len(re.findall(r" trial \d+: ", done.stderr)))


def test_a_rule_the_switch_refuses_is_shown_with_its_place_and_ovs_own_words(nothing_left, scenario, tmp_path):
    path = scenario(rules="in_port={left},actions=output:{right}\nin_port={left},actions=teleport:7")
    line = 1 + path.read_text().splitlines().index("in_port={left},actions=teleport:7")
    done = run("run", path, "--out", tmp_path / "runs")
    assert_ends(done, 4, rf"{path}:{line}: the switch refused this rule: .*teleport")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("output:{right}", "output:{rihgt}", r"tiny\.toml:\d+: .*rihgt"),
        ("[engine]", "[engine", r"tiny\.toml:\d+: "),
    ],
    ids=["unknown port", "no TOML"],
)
def test_bad_input_exits_2_and_builds_nothing(nothing_left, scenario, tmp_path, old, new, words):
    path = scenario()
    path.write_text(path.read_text().replace(old, new))
    assert_ends(run("run", path, "--out", tmp_path / "runs"), 2, words)
    assert not (tmp_path / "runs").exists()


def test_too_few_cores_is_told(nothing_left, scenario, tmp_path):
    path = scenario()
    path.write_text(path.read_text().replace("pmd_cpus = [1]", "pmd_cpus = [1, 63]"))
    assert_ends(run("run", path, "--out", tmp_path / "runs"), 3, "CPU 63 cannot be used here")


@pytest.mark.needs("checkout that anybody can read")
def test_without_root_the_message_says_what_to_do(nothing_left):
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    command = [*nobody, PINCHPOINT, "run", str(ROOT / "studies" / "quickstart"), "--out", "/tmp/nowhere"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")
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


def test_a_second_run_at_the_same_time_is_refused_and_leaves_no_folder(nothing_left, scenario, tmp_path):
    first = start("run", scenario(), "--out", tmp_path / "runs")
    with stopped(first, tmp_path / "runs"):
        assert_ends(run("run", scenario(), "--out", tmp_path / "others"), 3, "another run is active")
    assert not (tmp_path / "others").exists()
    _, errors = first.communicate(timeout=120)
    assert first.returncode == 0, errors

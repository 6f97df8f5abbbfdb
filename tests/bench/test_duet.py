"""Two real switches at once: slices, kills while one of them is frozen, interruption and resumption."""

import itertools
import multiprocessing
import os
import signal
import time
from pathlib import Path

import pytest
from bench_tools import (
    SLOW,
    STATE,
    kill_lab,
    only_run,
    pid_of,
    run,
    start_watched,
    stretches_in,
    wait_for,
    what_is_there,
)
from scenario_text import one_way

from pinchpoint.bench import builder
from pinchpoint.bench.journal import Journal
from pinchpoint.dut.setup import prepare
from pinchpoint.host.local import Local
from pinchpoint.host.machines import Machines
from pinchpoint.host.priority import preferred
from pinchpoint.measure.standing import Listener, standing_bench
from pinchpoint.model.comparison import ComparisonKind
from pinchpoint.model.duet import FORWARDED, MEASURED
from pinchpoint.model.errors import UNDECIDED
from pinchpoint.model.trial import ALTERNATING
from pinchpoint.run.paired_benches import frozen
from pinchpoint.scenario import parse
from pinchpoint.store.folder import COMPARISON, RunFolder

pytestmark = [pytest.mark.tier2("two benches at once"), pytest.mark.needs("dpdk")]

REWRITE = 'dut.rules="in_port={left},actions=mod_dl_dst:02:00:00:00:00:99,output:{right}"'
ANSWERS = (0, UNDECIDED)  # what a host leaves of the slices is its own affair
MEASURING = "measuring  ·  slices"
FORK = multiprocessing.get_context("fork")


@pytest.fixture
def rates(tmp_path):
    """A scenario whose two benches fit a small machine; what is measured is the host's affair."""

    def write(datapath="dpdk"):
        path = tmp_path / "rates.toml"
        path.write_text(one_way("rates", "", datapath=datapath, dut="memory_mb = 512", search="drain_s = 0.05"))
        return path

    return write


def words(scenario, out, *more):
    return ("compare", scenario, "--set-b", REWRITE, "--method", "duet", "--benches", 1, "--out", out, *more)


def is_frozen(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    except OSError:
        return False


@pytest.mark.tier1("two benches at once")
def test_both_benches_stand_at_once_and_slices_are_kept_and_compared(nothing_left, rates, tmp_path):
    out = tmp_path / "runs"
    done = run(*words(rates("af_packet"), out, "--slices", "2s", "--benches", 2))
    assert done.returncode in ANSWERS, done.stderr
    folder = only_run(out)
    measured = [stretch for stretch in folder.read_stretches() if stretch.phase == MEASURED]
    assert {part.side for stretch in measured for part in stretch.slices} == {"A", "B"}
    assert {stretch.benches for stretch in measured} == {1, 2}, "both were built anew"
    assert sum(part.received for stretch in measured for part in stretch.slices) > 0
    comparison = COMPARISON.decode((folder.path / "comparison.json").read_bytes(), "")
    assert comparison.kind is ComparisonKind.DUET
    (part,) = comparison.scenarios
    assert part.metrics[0].metric == FORWARDED
    assert part.duet.slices == sum(len(stretch.slices) for stretch in measured)
    assert part.duet.used + sum(part.duet.discarded.values()) == part.duet.slices
    assert [scenario.scenario for scenario in folder.read_result().scenarios] == ["A-rates", "B-rates"]
    assert "as a duet" in done.stdout


@pytest.mark.subject(target="test-comparisons")
def test_alternating_trials_of_two_benches_that_stand_are_kept_compared_and_resumed(nothing_left, rates, tmp_path):
    out = tmp_path / "runs"
    options = ("--set-b", REWRITE, "--method", "trials", "--benches", 2, "--slices", "4s", "--out", out)
    watched = start_watched(tmp_path / "stderr", "compare", rates(), *options)
    wait_for(lambda: len(alternating_in(out)) > 1, "a turn", 120)
    watched.process.send_signal(signal.SIGINT)
    assert watched.end().returncode == 130
    kept = alternating_in(out)
    done = run("compare", "--resume", only_run(out).path, timeout=280)
    assert done.returncode in ANSWERS, done.stderr
    trials = alternating_in(out)
    assert trials[: len(kept)] == kept
    assert {trial.scenario for trial in trials} == {"A-rates", "B-rates"}
    assert len({trial.id for trial in only_run(out).read_trials()}) == len(only_run(out).read_trials())
    comparison = COMPARISON.decode((only_run(out).path / "comparison.json").read_bytes(), "")
    assert (comparison.kind, comparison.finished) == (ComparisonKind.TRIALS, True)
    assert "by alternating trials" in done.stdout


def alternating_in(out):
    folders = [path for path in Path(out).glob("*") if (path / "run.json").exists()]
    return [trial for path in folders for trial in RunFolder.open(path).read_trials() if trial.phase == ALTERNATING]


def built_beside_a_frozen_twin(texts, fatal_entry):
    """One bench stands frozen while the other is built and removed; SIGKILL after the journal entry `fatal_entry`."""
    record, written = Journal.record, itertools.count(1)

    def recorded(self, op, resource):
        record(self, op, resource)
        if next(written) == fatal_entry:
            os.kill(os.getpid(), signal.SIGKILL)

    Journal.record = recorded
    twin = prepare(parse(texts[0], "a.toml"), Machines(Local()))
    other = prepare(parse(texts[1], "b.toml"), Machines(Local()), beside=twin)
    with preferred(), standing_bench(twin, Listener()), frozen(twin), standing_bench(other, Listener()):
        pass


@pytest.mark.subject(target="test-comparisons")
def test_after_kill_9_at_every_journal_entry_of_a_duet_clean_leaves_nothing(rates):
    """The lab is a forked process, so that none of the kills waits for an interpreter to start."""
    text = rates().read_text()
    rewriting = text.replace("actions=output", "actions=mod_dl_dst:02:00:00:00:00:99,output")
    assert rewriting != text
    before, frozen_at = what_is_there(), []
    for fatal_entry in itertools.count(1):
        lab = FORK.Process(target=built_beside_a_frozen_twin, args=((text, rewriting), fatal_entry))
        lab.start()
        lab.join(60)
        frozen_at += [fatal_entry] * any(map(is_frozen, pid_of("ovs-vswitchd-dpdk")))
        assert builder.clean(Local()).failures == ()
        assert what_is_there() == before, f"after entry {fatal_entry}"
        if lab.exitcode == 0:
            break
        assert lab.exitcode == -signal.SIGKILL
    # Each resource is created and removed; hugepages are one of them only where too few are there.
    of_twin = frozen_at[0] - 1
    of_other = (fatal_entry - 1 - 2 * of_twin) // 2
    assert frozen_at == list(range(of_twin + 1, of_twin + 2 * of_other + 1))
    assert abs(of_twin - of_other) <= 1


@pytest.mark.subject(target="test-comparisons")
@pytest.mark.parametrize("engine_too", [False, True])
def test_after_kill_9_during_slices_clean_leaves_nothing_and_resume_finishes(rates, tmp_path, engine_too):
    before = what_is_there()
    out = tmp_path / "runs"
    watched = start_watched(tmp_path / "stderr", *words(rates(), out, "--slices", "7s"))
    watched.wait_until_it_says(MEASURING)
    kept = wait_for(lambda: stretches_in(out), "a stretch")
    switches = pid_of("ovs-vswitchd-dpdk")
    assert len(switches) == 2
    if engine_too:
        engines = pid_of("bin/pinchpoint-engine")
        wait_for(lambda: any(map(is_frozen, switches)), "a frozen switch")
        for pid in engines:
            os.kill(pid, signal.SIGKILL)
    kill_lab(watched.process)
    began = time.monotonic()
    assert run("clean").returncode == 0
    assert time.monotonic() - began < 60  # a frozen switch is not waited for; a busy host may be slow
    assert what_is_there() == before
    done = run("compare", "--resume", only_run(out).path)
    assert done.returncode in ANSWERS, done.stderr
    stretches = only_run(out).read_stretches()
    assert len(stretches) > kept
    assert len({stretch.id for stretch in stretches}) == len(stretches)
    assert only_run(out).read_result().finished
    assert what_is_there() == before


def test_an_engine_that_is_killed_during_slices_is_an_error_and_no_switch_stays_frozen(nothing_left, rates, tmp_path):
    out = tmp_path / "runs"
    watched = start_watched(tmp_path / "stderr", *words(rates(), out))
    watched.wait_until_it_says(MEASURING)
    switches = pid_of("ovs-vswitchd-dpdk")
    wait_for(lambda: any(map(is_frozen, switches)), "a frozen switch")
    (pid,) = pid_of("bin/pinchpoint-engine")
    os.kill(pid, signal.SIGKILL)
    done = watched.end()
    assert done.returncode == 5, done.stderr
    assert "killed by signal 9" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_switch_that_is_killed_during_slices_is_an_error_of_the_device(nothing_left, rates, tmp_path):
    watched = start_watched(tmp_path / "stderr", *words(rates(), tmp_path / "runs"))
    watched.wait_until_it_says(MEASURING)
    os.kill(pid_of("ovs-vswitchd-dpdk")[0], signal.SIGKILL)
    done = watched.end()
    assert done.returncode == 6, done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.subject(target="test-comparisons")
def test_ctrl_c_during_slices_keeps_and_reports_them_and_resume_finishes(nothing_left, rates, tmp_path):
    out = tmp_path / "runs"
    watched = start_watched(tmp_path / "stderr", *words(rates(), out, "--slices", "8s"))
    watched.wait_until_it_says(MEASURING)
    wait_for(lambda: any('"measured"' in path.read_text() for path in out.glob("*/slices.jsonl")), "a measured stretch")
    watched.process.send_signal(signal.SIGINT)
    assert watched.end().returncode == 130
    folder = only_run(out)
    kept = (folder.path / "slices.jsonl").read_bytes()
    stored = COMPARISON.decode((folder.path / "comparison.json").read_bytes(), "")
    assert not stored.finished
    assert stored.scenarios[0].duet.slices > 0
    done = run("compare", "--resume", folder.path)
    assert done.returncode in ANSWERS, done.stderr
    assert (folder.path / "slices.jsonl").read_bytes().startswith(kept)
    assert COMPARISON.decode((folder.path / "comparison.json").read_bytes(), "").finished


def test_no_memory_for_two_is_an_error_that_names_the_command_and_otherwise_the_reason_for_turns(rates, tmp_path):
    huge = "dut.memory_mb=500_000"
    done = run(*words(rates(), tmp_path / "runs", "--set", huge))
    assert done.returncode == 3
    assert "sysctl vm.nr_hugepages=" in done.stderr
    assert not (tmp_path / "runs").exists()
    assert not list(STATE.glob("*.journal"))


RELATED = """
[sweep]
relative = "alone"
[[sweep.factor]]
name = "five-tuples"
keys = ["stream[1].flows"]
levels = [1, 64, 200]
"""


@pytest.fixture
def related(tmp_path):
    """A sweep whose points are measured relative to the first; any engine overloads them."""
    path = tmp_path / "related.toml"
    path.write_text(
        one_way(
            "rates",
            RELATED,
            rules=SLOW,
            dut="memory_mb = 512",
            stream='ipv4_src = "10.0.0.1-10.0.0.200"',
            search="drain_s = 0.05\nmax_traffic_s = 2",
        )
    )
    return path


@pytest.mark.subject(target="test-comparisons")
def test_points_beside_a_standing_reference_are_killed_cleaned_and_resumed(related, tmp_path):
    before, out = what_is_there(), tmp_path / "runs"
    watched = start_watched(tmp_path / "stderr", "run", related, "--no-ceiling", "--out", out)
    wait_for(lambda: stretches_in(out), "a stretch")
    assert len(pid_of("ovs-vswitchd-dpdk")) == 2
    kill_lab(watched.process)
    assert run("clean").returncode == 0
    assert what_is_there() == before
    kept = only_run(out).read_stretches()
    done = run("run", "--resume", only_run(out).path)
    assert done.returncode == 0, done.stderr
    assert what_is_there() == before
    result, stretches = only_run(out).read_result(), only_run(out).read_stretches()
    assert result.finished
    assert stretches[: len(kept)] == kept
    assert len({stretch.id for stretch in stretches}) == len(stretches)
    first, *others = result.scenarios
    assert {scenario.reference for scenario in result.scenarios} == {first.scenario}
    assert first.trials
    assert all(not other.rates for other in others)
    assert {stretch.scenario for stretch in stretches} == {other.scenario for other in others}

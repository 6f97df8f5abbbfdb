"""A real run from scenario to report: the account closes and nothing is left."""

import signal

import msgspec
import pytest
from bench_tools import FORWARD, ROOT, SLOW, marked_processes, only_run, run, start, trials_in, wait_for
from scenario_text import one_way

from pinchpoint.model.trial import TrialValidity

pytestmark = pytest.mark.tier2("accounts of Open vSwitch close")

SNAT = (
    "table=0,priority=10,ip,nw_dst=48.0.0.0/8,actions=ct(commit,table=1,nat(src=10.0.0.1))\n"
    "table=1,priority=10,ip,actions=mod_dl_dst:02:00:00:00:00:99,output:{right}"
)


def finished(folder):
    """All trials that ended: the host may disturb a trial, which makes it no less accountable."""
    return [trial for trial in folder.read_trials() if trial.validity is not TrialValidity.ABORTED]


def assert_closes(trials):
    """Every frame that the engine sent is received, or lost at a place that is named.

    Summed over the trials of a bench: the switch hands its drop counters over about a second late, so that one
    trial's drops may be in the next one's account.
    """
    assert sum(trial.ledger.unexplained for trial in trials) == 0, [trial.ledger for trial in trials]
    sent, received, processed = (
        sum(hop.frames_out if name == "engine sends" else hop.frames_in for trial in trials
            for hop in trial.ledger.hops if hop.name == name)
        for name in ("engine sends", "switch receives", "datapath")
    )  # fmt: skip
    assert received in (0, sent), "what we sent is what the switch says it got, where it says so"
    assert processed == sent, "and what its threads say they processed"
    for stream in (stream for trial in trials for stream in trial.streams):
        assert stream.duplicated == stream.corrupt == stream.late == 0


LOAD = "[load]\nat_fps = [{fps}]\nduration_s = 0.2\nrepeats = 2\n"


@pytest.fixture
def loaded(tmp_path):
    """Runs a scenario of `fps` through `rules`; returns the trials that ended, those of the warm-up included."""

    def ran(datapath, fps, rules, ring=4096, stream="", more=""):
        path = tmp_path / "load.toml"
        text = one_way(
            "load",
            LOAD.format(fps=fps) + more,
            datapath=datapath,
            rules=rules,
            dut="memory_mb = 1024",
            stream=stream,
            search="max_repeats = 1\ndrain_s = 1.0",
        )
        path.write_text(text.replace("ring = 4096", f"ring = {ring}"))
        done = run("run", path, "--out", tmp_path / "runs")
        assert "Traceback" not in done.stderr
        trials = finished(only_run(tmp_path / "runs"))
        assert [trial for trial in trials if trial.phase == "load"], done.stderr
        return trials

    return ran


def dropped(trial):
    """Frames by the name of the drop."""
    return {drop.name: drop.frames for hop in trial.ledger.hops for drop in hop.drops if drop.frames}


def test_what_a_switch_slower_than_the_load_loses_is_booked_to_its_receive_ring(nothing_left, loaded):
    trials = loaded("dpdk", 3_000_000, SLOW)
    assert sum(trial.ledger.unexplained for trial in trials) == 0
    for trial in (trial for trial in trials if trial.phase == "load"):
        assert trial.lost > 0.05 * trial.offered, "forty lookups a frame carry no 3 Mpps"
        (name,) = [name for name, frames in dropped(trial).items() if frames > 0.9 * trial.lost]
        assert "receive ring of left" in name


@pytest.mark.parametrize("datapath", [pytest.param("af_xdp", marks=pytest.mark.tier1("datapath:af_xdp")), "af_packet"])
def test_what_a_veth_bench_loses_under_overload_is_named(nothing_left, loaded, datapath):
    trials = [trial for trial in loaded(datapath, 1_000_000, SLOW, ring=64) if trial.phase == "load"]
    for trial in trials:
        assert trial.lost > 0, "a ring of 64 frames before forty lookups each"
        assert trial.ledger.unexplained == 0, trial.ledger
        assert sum(dropped(trial).values()) == trial.lost


OVER_VHOST_USER = (
    pytest.param(
        FORWARD, "packed", id="packed", marks=pytest.mark.tier1("device:ovs", "datapath:dpdk", "backend:dpdk")
    ),
    pytest.param(SNAT, "split", id="snat-split"),
)


@pytest.mark.parametrize(("rules", "layout"), OVER_VHOST_USER)
def test_every_trials_account_closes_over_vhost_user(nothing_left, loaded, rules, layout):
    trials = loaded("dpdk", 20_000, rules, ring=f'4096\nring_layout = "{layout}"')
    assert_closes(trials)
    for trial in trials:
        assert {hop.name: hop for hop in trial.ledger.hops}["switch sends"].frames_out == trial.received
        assert trial.witness.loopback is not None and trial.witness.loopback.frames > 0
        assert [worker.ports for worker in trial.witness.workers] == [("left", "right")]
        assert trial.threads[0].cycles_per_packet > 0


def test_frames_that_a_rule_drops_are_a_named_drop_and_not_unexplained(nothing_left, loaded):
    rules = f"priority=40000,in_port={{left}},ip,nw_dst=48.0.0.1,actions=drop\n{FORWARD}"
    trials = loaded("dpdk", 20_000, rules, stream='ipv4_dst = "48.0.0.1-48.0.0.200"')
    one_of_200 = sum(trial.streams[0].sent for trial in trials) / 200
    drops = sum(dropped(trial).get("drop action of pipeline", 0) for trial in trials)
    assert drops == pytest.approx(one_of_200, abs=len(trials))
    assert sum(trial.ledger.unexplained for trial in trials) == 0


@pytest.mark.tier1("datapath:af_packet", "backend:af_packet", "measure:load")
def test_over_veth_by_changing_one_word(nothing_left, loaded):
    trials = loaded("af_packet", 20_000, FORWARD)
    assert sum(trial.ledger.unexplained for trial in trials) == 0
    assert any(trial.received > 0 for trial in trials)
    assert {load.name for trial in trials for load in trial.threads} == {"main thread"}


def test_the_account_of_both_directions_and_of_a_third_port_closes(nothing_left, loaded):
    rules = "in_port={left},actions=output:{right}\nin_port={right},actions=output:{left}\n"
    rules += "in_port={third},actions=output:{left}"
    back = '[[stream]]\nfrom = "right"\nto = "left"\n[[stream]]\nfrom = "third"\nto = "left"\n'
    third = '[[port]]\nname = "third"\nring = 4096\n'
    trials = loaded("dpdk", 20_000, rules, more=third + back)
    assert_closes(trials)
    for number in range(3):
        assert sum(trial.streams[number].received for trial in trials) > 0


@pytest.mark.tier1("command:run")
def test_a_dry_run_prints_the_plan_and_builds_nothing(nothing_left, scenario, tmp_path):
    done = run("run", scenario(), "--dry-run", "--out", tmp_path / "runs")
    assert done.returncode == 0
    assert "ip netns add pp-" in done.stdout
    assert "ovs-ofctl" in done.stdout
    assert not (tmp_path / "runs").exists()


def test_ctrl_c_saves_what_was_measured_and_resume_finishes_it(nothing_left, scenario, tmp_path):
    out = tmp_path / "runs"
    process = start("run", scenario(), "--out", out)
    wait_for(lambda: trials_in(out) >= 2, "two trials")
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "--resume" in errors
    folder = only_run(out)
    before = folder.read_trials()
    assert len(before) >= 2
    assert marked_processes() == set()
    again = run("run", "--resume", folder.path)
    assert again.returncode == 0, again.stderr
    assert folder.read_trials()[: len(before)] == before
    result = folder.read_result()
    assert result is not None
    assert result.finished


@pytest.mark.tier1("command:check")
def test_the_shipped_quickstart_is_sound():
    done = run("check", ROOT / "studies" / "quickstart")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(": ok.") == 3


def test_check_refuses_rules_that_ovs_ofctl_does_not_read_with_their_lines(tmp_path):
    path = tmp_path / "rules.toml"
    text = (ROOT / "studies" / "quickstart" / "1-forward.toml").read_text()
    (rule,) = (line for line in text.splitlines() if "in_port={left}" in line)
    path.write_text(text.replace(rule, f"{rule}\ntable=0,bogus=1,actions=drop\nip,actions=outputs:1"))
    done = run("check", path)
    first = text.split(rule)[0].count("\n") + 2
    assert done.returncode == 2
    assert f"{path}:{first}: ovs-ofctl refuses this rule: " in done.stderr
    assert f"{path}:{first + 1}: ovs-ofctl refuses this rule: " in done.stderr


@pytest.mark.tier1("command:doctor")
def test_doctor_finds_this_machine_able_and_says_so_for_machines_too():
    done = run("doctor", "--json")
    assert done.returncode == 0, done.stdout
    probes = msgspec.json.decode(done.stdout)
    assert {"root", "hugepages", "engine backend dpdk"} <= {probe["name"] for probe in probes}
    assert all(probe["ok"] for probe in probes if probe["needed"])

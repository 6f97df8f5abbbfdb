"""Devices in a guest under qemu, which may be emulated: nothing here depends on its speed. Six boots in all."""

import json
import os
import re

import pytest
from bench_tools import ROOT, kill_lab, pid_of, run, start_watched, trials_in, wait_for, what_is_there
from serving_tools import FULL_NAT, counted, served, serving
from standing_tools import standing

from pinchpoint.causes.signs import offload_truth
from pinchpoint.dut import registry
from pinchpoint.host.guest_kernels import is_release
from pinchpoint.model.offload import Offload
from pinchpoint.model.result import Outcome
from pinchpoint.scenario import parse
from pinchpoint.store.folder import RunFolder

pytestmark = [pytest.mark.usefixtures("nothing_left"), pytest.mark.tier2("guest:qemu"), pytest.mark.needs("qemu")]
LOW_FPS = 400
BOOT_S = 240
SCENARIO = """
title = "a device in a guest under qemu"
[guest]
kernel = "qemu"
memory_mb = 256
{more}
[dut]
{dut}
[[port]]
name = "left"
[[port]]
name = "right"
[engine]
cpus = [0]
[[stream]]
from = "left"
to = "right"
ipv4_dst = "198.19.0.1-198.19.0.20"
"""
NAT = """
table ip nat {
  counter translated { }
  chain post {
    type nat hook postrouting priority srcnat; policy accept;
    oifname "right" snat to 203.0.113.1
  }
  chain after {
    type filter hook postrouting priority srcnat + 1; policy accept;
    ip saddr 203.0.113.1 counter name translated
  }
}
"""
DUTS = {
    "bridge": 'kind = "bridge"\ncpus = [1]',
    "nft": f'kind = "nft"\ncpus = [1]\nrules = """{NAT}"""',
    "tc": 'kind = "ovs"\ndatapath = "tc"\npmd_cpus = [1]\nrules = "in_port={left},actions=output:{right}"',
    "ovs": 'kind = "ovs"\ndatapath = "kernel"\npmd_cpus = [1]\nrules = "in_port={left},actions=output:{right}"',
}


def scenario_text(kind, more=""):
    return SCENARIO.replace("{dut}", DUTS[kind]).replace("{more}", more)


def assert_closed(account):
    """What was lost is the device's."""
    assert account.offered > 0
    assert account.received > 0
    assert account.unexplained == 0, account
    assert {drop.limits for hop in account.hops for drop in hop.drops} <= {"dut"}, account


@pytest.mark.subject(target="test-guests")
def test_the_account_of_a_switch_closes_and_its_load_is_the_guests():
    with standing(parse(scenario_text("ovs"), "guest.toml")) as (live, trial):
        facts, settings = live.ready(), live.settings()
        trial(LOW_FPS)  # makes the flows, for which an emulated switch on a busy host takes longer than a trial waits
        low = trial(LOW_FPS)
    assert facts["guest's kernel"] != os.uname().release
    assert (facts["guest's NUMA nodes"], settings["guest.numa_nodes"]) == ("node 0 with CPU 0", "1")
    assert_closed(low.ledger)
    (load,) = low.threads
    assert load.cpu == 1, "both of its threads run on the device's CPU"
    (vcpu,) = (n for name, n in low.observed.items() if re.fullmatch(r"host/thread/CPU 0/.*/run_ns", name))
    assert vcpu > 0
    assert load.busy_share is not None
    assert 0 < load.busy_share <= 1


def test_ipvs_serves_every_connection():
    tables = '[guest]\nkernel = "qemu"\nmemory_mb = 256\n[verify]\nconnections = 40\ntimeout_s = 60.0\n'
    with serving(parse(served("ipvs", FULL_NAT, tables=tables), "ipvs.toml")) as (live, verified):
        checked, tracked, seen = verified(), live.balancer().tracked(), counted(live)
    assert checked.outcome is Outcome.MEASURED, checked.reason
    assert seen["ipvs/cpu/0/connections"] == tracked == 40
    assert seen["host/conntrack/insert_failed"] == seen["host/conntrack/table_full"] == 0


@pytest.mark.subject(target="test-guests")
def test_flows_in_tc_claim_an_offload_that_its_counters_disprove():
    """A veth has no hardware, yet `upcall/show` counts every flow that was put into tc as offloaded."""
    wanted = parse(scenario_text("tc"), "guest.toml")
    with standing(wanted) as (live, trial):
        trial(LOW_FPS)  # makes the flows
        low = trial(LOW_FPS)
        seen = low.observed
        flows = live.control.call("dpctl/dump-flows", "-m")
    assert_closed(low.ledger)
    assert "dp:tc" in flows, flows
    assert seen["ovs/tc/software"] > 0 == seen["ovs/tc/hardware"], "the frame that makes a flow passes no filter"
    of_offload = offload_truth(registry.device_of(wanted).signs(seen), {})
    assert of_offload is not None and of_offload.word is Offload.CLAIMED, flows


LOW_LOADS = """
[search]
min_load_fps = 100
max_load_fps = 400
trial_duration_s = 0.5
initial_trial_duration_s = 0.5
"""


SMALL = {
    "sweep.repeats": 1,
    "search.max_load_fps": 400,
    "search.duration_sum_s": 1,
    "search.relative_width": 0.5,
    "search.max_traffic_s": 3,
    "latency.at": "[]",
}


@pytest.mark.subject(target="test-guests")
@pytest.mark.needs("kernels 6.1 and 6.12")
def test_releases_of_the_kernel_are_levels_of_a_sweep_and_are_read_back(tmp_path):
    sets = [word for key, value in SMALL.items() for word in ("--set", f"{key}={value}")]
    done = run("run", ROOT / "studies/kernels/1-bridge.toml", "--out", tmp_path, *sets)
    assert done.returncode == 0, done.stderr
    (folder,) = tmp_path.iterdir()
    results = json.loads((folder / "result.json").read_text())["scenarios"]
    releases = {result["levels"]["release"]: result["settings"]["guest.release"] for result in results}
    assert releases.keys() == {"6.1", "6.12"}
    assert all(is_release(runs, asked) for asked, runs in releases.items()), releases
    for trial in RunFolder.open(folder).read_trials():
        assert trial.ledger.unexplained == 0, trial.ledger


@pytest.mark.subject(target="test-guests")
def test_a_lab_killed_while_it_measures_a_guest_with_two_nodes_is_cleaned_up_after_and_its_trial_stays(tmp_path):
    path, runs = tmp_path / "guest.toml", tmp_path / "runs"
    path.write_text(scenario_text("nft", "numa_nodes = 2") + LOW_LOADS)
    watched = start_watched(tmp_path / "stderr", "run", path, "--out", runs)
    wait_for(lambda: trials_in(runs) or watched.process.poll() is not None, "a trial", BOOT_S)
    assert pid_of("qemu-system-x86_64"), watched.errors.read_text()
    kill_lab(watched.process)
    left = what_is_there()
    assert left.namespaces
    assert left.processes
    assert run("clean").returncode == 0
    (folder,) = (RunFolder.open(path) for path in runs.iterdir())
    assert folder.read_info().versions["guest's NUMA nodes"] == "node 0 with CPU 0; node 1 with CPU 1"
    trial = next(iter(folder.read_trials()))
    assert_closed(trial.ledger)
    assert trial.observed["nft/counter/translated"] == trial.ledger.received, "the rule was in force"
    assert all(trial.observed[f"guest/softnet/{cpu}/processed"] > 0 for cpu in (0, 1)), "each flow on one of them"
    (load,) = trial.threads
    assert (load.name, load.cpu) == ("guest's CPUs 0, 1", 1), "the device has one CPU of this machine"
    assert load.received > 0
    assert 0 < load.busy_share <= 1

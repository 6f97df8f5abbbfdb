"""Ends of a socket workload in virtual machines. Four boots."""

import json

import pytest
from bench_tools import run, what_is_there

pytestmark = [pytest.mark.usefixtures("nothing_left"), pytest.mark.tier2("ends in virtual machines")]
SCENARIO = """
title = "ends in virtual machines"
measure = "{measure}"
[dut]
kind = "ovs"
datapath = "{datapath}"
pmd_cpus = [1]
memory_mb = 256
rules = "actions=NORMAL"
[engine]
cpus = [0]
[[host]]
name = "client"
address = "192.168.7.1/24"
cpus = [0]
vm = "qemu"
[[host]]
name = "server"
address = "192.168.7.2/24"
cpus = [0]
{server}
[sockets]
client = "client"
server = "server"
connections = 1
warm_up_s = 0.2
duration_s = 2.0
repeats = 1
timeout_s = 30
"""


def ran(tmp_path, **values):
    path = tmp_path / "machines.toml"
    path.write_text(SCENARIO.format(**values))
    before = what_is_there()
    done = run("run", path, "--out", tmp_path / "runs")
    assert done.returncode == 0, done.stderr
    assert what_is_there() == before
    (folder,) = (tmp_path / "runs").iterdir()
    (result,) = json.loads((folder / "result.json").read_text())["scenarios"]
    return result, {metric["name"]: metric["value"] for metric in result["metrics"]}


@pytest.mark.needs("qemu")
@pytest.mark.parametrize(("measure", "metric"), [("rr", "transactions"), ("bandwidth", "goodput")])
def test_a_machine_behind_a_tap_reaches_a_namespace_through_a_userspace_switch(tmp_path, measure, metric):
    result, metrics = ran(tmp_path, measure=measure, datapath="af_packet", server="")
    assert metrics[metric] > 0
    assert result["settings"]["virtual machine client"].startswith("qemu, ")


@pytest.mark.needs("qemu", "dpdk")
def test_two_machines_reach_each_other_through_the_rings_of_a_dpdk_switch(tmp_path):
    _, metrics = ran(tmp_path, measure="rr", datapath="dpdk", server='vm = "qemu"')
    assert metrics["transactions"] > 0
    assert metrics["failed share"] == 0


def test_user_mode_linux_behind_a_userspace_switch_is_bad_input(tmp_path):
    path = tmp_path / "machines.toml"
    text = SCENARIO.format(measure="rr", datapath="af_packet", server="")
    path.write_text(text.replace('vm = "qemu"', 'vm = "uml"'))
    done = run("run", path, "--out", tmp_path / "runs")
    assert done.returncode == 2
    assert "tx-checksum-ip-generic" in done.stderr

"""Hosts by ssh that are virtual machines: kernels, clocks, NICs and files of their own."""

import json
import platform
from contextlib import ExitStack

import pytest
import spanning_tools
from bench_tools import run, start, trials_in, wait_for
from nic_tools import cable, reached_by_ssh, reaching
from ssh_tools import write_ssh

pytestmark = [pytest.mark.tier2("virtual machines as hosts by ssh"), pytest.mark.needs("qemu")]

LEASE_S = 10
KERNEL = """
runs_on = "vm"
[host.vm]
lease_s = {lease_s}
[dut]
kind = "ovs"
datapath = "kernel"
pmd_cpus = [1]
rules = "in_port={{left}},actions=output:{{right}}"
[[port]]
name = "left"
[[port]]
name = "right"
[engine]
cpus = [0]
[[stream]]
from = "left"
to = "right"
[search]
min_load_fps = 200
max_load_fps = 2000
loss_ratios = [0, 0.5]
trial_duration_s = 0.5
initial_trial_duration_s = 0.5
duration_sum_s = 0.5
relative_width = 0.5
max_repeats = 2
drain_s = 0.5
[latency]
at = []
[validity]
gap_shortfall_ratio = 0.9
"""
FIRST, SECOND = "0000:00:0b.0", "0000:00:0c.0"
OVS = """kind = "ovs"
datapath = "dpdk"
pmd_cpus = [1]
memory_mb = 256
other_config = { dpdk-socket-limit = "256" }
rules = "in_port={left},actions=output:{right}\\nin_port={right},actions=output:{left}"
"""
SMALL = ("[engine]\n", "[engine]\nmemory_mb = 128\n")
NICS = {
    "gen": [("eth9", "pp-gen")],
    "dut": [("to-gen", "pp-left"), ("to-sink", "pp-right")],
    "sink": [("eth9", "pp-sink")],
}


def measured(folder, errors):
    (path,) = folder.iterdir()
    (result,) = json.loads((path / "result.json").read_text())["scenarios"]
    assert result["outcome"] == "measured", (result["reason"], errors)
    return result, json.loads((path / "run.json").read_text())


def test_a_switch_in_another_machines_kernel_is_measured_behind_a_slow_link_that_is_cut(tmp_path):
    path, out = tmp_path / "there.toml", tmp_path / "runs"
    path.write_text(KERNEL.format(lease_s=LEASE_S))
    with reached_by_ssh(tmp_path / "vm") as vm:
        vm.delay(0.005)
        lab = start("run", path, "--out", out, env=vm.environment)
        wait_for(lambda: trials_in(out), "a trial", timeout_s=120)
        vm.link("down")
        wait_for(lambda: vm.holds() == [], "the lease's end", timeout_s=LEASE_S + 60)
        vm.link("up")
        said = lab.communicate(timeout=300)
        assert lab.returncode == 0, said
        result, info = measured(out, said)
        assert vm.holds() == []
    assert result["rates"][0]["lower_fps"] >= 200
    assert platform.release() not in info["versions"]["host vm"], "the switch forwards in another kernel"


def by_nics(text):
    """The same between DPDK's ports: NICs by their PCI addresses, device and engines each on its own host."""
    for name, address in (("to-gen", FIRST), ("to-sink", SECOND)):
        text = text.replace(f'interface = "{name}"', f'pci = "{address}"\nno_iommu = true\nring = 256')
    return text.replace('engine_interface = "eth9"', f'engine_pci = "{FIRST}"').replace(*SMALL)


def by_one_nic(text):
    """A generator with DPDK, towards a switch in the kernel; the other end is the kernel's as well."""
    text = text.replace('engine_interface = "eth9"', f'engine_pci = "{FIRST}"\nno_iommu = true\nring = 256', 1)
    return text.replace(*SMALL)


BETWEEN = {
    "interfaces": (spanning_tools.BRIDGE, str),
    "NICs": (OVS, by_nics),
    "one-NIC": (spanning_tools.BRIDGE, by_one_nic),
}


def test_generator_switch_and_sink_are_machines_with_nics_between_them(tmp_path):
    with ExitStack() as stack:
        stack.enter_context(cable("pp-gen", "pp-left"))
        stack.enter_context(cable("pp-right", "pp-sink"))
        for number, (name, nics) in enumerate(NICS.items()):
            small = ("--cpus=2", "--memory=1536", "--hugepages=256")
            stack.enter_context(reached_by_ssh(tmp_path / name, name, number, small, nics))
        (tmp_path / "config").write_text("".join((tmp_path / name / "config").read_text() for name in NICS))
        write_ssh(tmp_path)
        for name, (dut, between) in BETWEEN.items():
            path, out = tmp_path / f"{name}.toml", tmp_path / "runs" / name
            path.write_text(between(spanning_tools.spanning(0.5, dut=dut).replace("clock_error_us = 50\n", "")))
            done = run("run", path, "--out", out, env=reaching(tmp_path))
            assert done.returncode == 0, done.stderr
            result, _ = measured(out, done.stderr)
            assert result["rates"][0]["lower_fps"] >= 1000, name
            (kept,) = out.glob("*/trials.jsonl")
            ledgers = [json.loads(line)["ledger"] for line in kept.read_text().splitlines()]
            counts = {hop[end] for ledger in ledgers for hop in ledger["hops"] for end in ("frames_in", "frames_out")}
            assert 0 not in counts, "a place that is not counted is unknown; all others saw every frame"
            round_trip = result["latency"][0]["round_trip"]
            assert 0 < round_trip["p50_ns"] < 1e9, "by the sender's clock; theirs differ"

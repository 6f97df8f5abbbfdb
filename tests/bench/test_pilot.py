"""A pilot on real benches: the switch is restarted on a bench that stands, and its rules are there again."""

import json
import subprocess
from pathlib import Path

import pytest
from bench_tools import marked_processes, run

from pinchpoint.dut.setup import prepare
from pinchpoint.host.local import Local
from pinchpoint.host.machines import Machines
from pinchpoint.host.priority import preferred
from pinchpoint.measure.standing import Listener, standing_bench
from pinchpoint.run.pilot import restart_dut
from pinchpoint.scenario import load
from pinchpoint.store.folder import RunFolder

pytestmark = pytest.mark.tier2("command:pilot")

# A measure that a busy machine cannot keep from yielding a number: the pilot is tried, not the machine.
BUILD = """
title = "a test"
measure = "build"
[dut]
kind = "ovs"
datapath = "af_packet"
pmd_cpus = [1]
[build]
what = "flows"
method = "file"
count = 200
"""


def _rules_of(places):
    words = ["ovs-ofctl", "-O", "OpenFlow14", "--no-stats", "dump-flows", places.management_of("br0")]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def test_a_restarted_switch_is_another_process_with_the_same_rules(nothing_left, scenario):
    for datapath in ("dpdk", "af_packet"):
        setup = prepare(load(scenario(datapath=datapath)), Machines(Local()))
        pidfile = Path(setup.places.pidfile("vswitchd"))
        with preferred(), standing_bench(setup, Listener()) as builder:
            pid, rules, before = int(pidfile.read_text()), _rules_of(setup.places), marked_processes()
            restart_dut(builder, setup, Listener())
            assert int(pidfile.read_text()) != pid
            assert pid in before and pid not in marked_processes()
            assert _rules_of(setup.places) == rules
            assert "output" in rules


@pytest.mark.tier1("command:pilot")
def test_a_pilot_measures_every_combination_and_tells_components_and_advice(nothing_left, tmp_path):
    path = tmp_path / "flows.toml"
    path.write_text(BUILD)
    sizes = ["--benches", "2", "--starts", "2", "--measurements", "2"]
    done = run("pilot", path, *sizes, "--out", tmp_path / "runs", "--within", "20", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    (folder,) = (tmp_path / "runs").iterdir()
    result = RunFolder.open(folder).read_result()
    assert result.finished
    assert len({(*scenario.levels.values(), scenario.repeat) for scenario in result.scenarios}) == 8
    assert len(RunFolder.open(folder).read_measurements()) == 8
    program = RunFolder.open(folder).read_info().versions["switch program for af_packet"]
    assert "Open vSwitch" in program and "sha256" in program
    assert told["costs"]["measurement_s"] > 0
    (judged,) = told["metrics"]
    assert judged["value"] > 0
    assert [component["freedom"] for component in judged["components"]] == [1, 2, 4]
    assert sum(component["share"] for component in judged["components"]) > 0.999
    again = run("run", "--resume", folder)
    assert again.returncode == 2
    assert "a pilot cannot be resumed" in again.stderr

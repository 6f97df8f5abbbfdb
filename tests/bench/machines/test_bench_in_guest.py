"""A whole bench in a guest: the kernel's datapath, two NUMA nodes and four CPUs on any machine. Three boots."""

import json

import pytest
from bench_tools import run, what_is_there
from standing_tools import standing

from pinchpoint.model.guest import EMULATED
from pinchpoint.scenario import parse

pytestmark = [pytest.mark.usefixtures("nothing_left"), pytest.mark.tier2("a whole bench in a guest")]
SOCKETS = """
title = "two hosts in a guest"
measure = "{measure}"
numa = "{numa}"
[guest]
{guest}
[dut]
kind = "ovs"
datapath = "kernel"
pmd_cpus = [0]
rules = "actions=NORMAL"
[[host]]
name = "client"
address = "192.168.7.1/24"
cpus = {client}
[[host]]
name = "server"
address = "192.168.7.2/24"
cpus = {server}
[sockets]
client = "client"
server = "server"
connections = 2
warm_up_s = 0.2
duration_s = 2.0
repeats = 1
timeout_s = 20
"""
FRAMES = """
title = "frames in a guest"
[guest]
kernel = "qemu"
holds = "bench"
cpus = 2
[dut]
kind = "bridge"
cpus = [1]
[engine]
cpus = [0]
[[port]]
name = "left"
[[port]]
name = "right"
[[stream]]
from = "left"
to = "right"
"""


def ran(text, tmp_path):
    path = tmp_path / "guest.toml"
    path.write_text(text)
    before = what_is_there()
    done = run("run", path, "--out", tmp_path / "runs")
    assert done.returncode == 0, done.stderr
    assert what_is_there() == before
    (folder,) = (tmp_path / "runs").iterdir()
    (result,) = json.loads((folder / "result.json").read_text())["scenarios"]
    return result, {metric["name"]: metric for metric in result["metrics"]}


@pytest.mark.needs("uml")
def test_transactions_pass_the_kernels_datapath_in_user_mode_linux(tmp_path):
    guest = 'kernel = "uml"\nmemory_mb = 384'
    text = SOCKETS.format(measure="rr", numa="any", guest=guest, client=[0], server=[0])
    result, metrics = ran(text, tmp_path)
    assert metrics["transactions"]["value"] > 0
    assert metrics["failed share"]["value"] == 0
    assert result["settings"]["guest.processor"] != EMULATED
    assert "emulated" not in [told["kind"] for told in result["warnings"]]


@pytest.mark.needs("qemu")
def test_bytes_pass_between_two_nodes_of_a_guest_under_qemu(tmp_path):
    guest = 'kernel = "qemu"\nmemory_mb = 1024\nnuma_nodes = 2\ncpus = 4'
    text = SOCKETS.format(measure="bandwidth", numa="different", guest=guest, client=[0, 1], server=[0, 1])
    result, metrics = ran(text, tmp_path)
    assert metrics["goodput"]["value"] > 0
    settings = result["settings"]
    assert (settings["guest.cpus"], settings["guest.numa_nodes"]) == ("4", "2")
    is_emulated = settings["guest.processor"] == EMULATED
    assert any("emulated" in words for words in metrics["goodput"]["cautions"]) is is_emulated


@pytest.mark.needs("qemu")
def test_the_account_of_frames_closes_inside_a_guest():
    with standing(parse(FRAMES, "guest.toml")) as (live, trial):
        assert live.settings()["guest.cpus"] == "2"
        trial(100)
        low = trial(100)
    assert low.ledger.offered > 0
    assert low.ledger.unexplained == 0, low.ledger
    assert {drop.limits for hop in low.ledger.hops for drop in hop.drops} <= {"dut"}, low.ledger

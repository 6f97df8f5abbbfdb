"""Socket workloads whose client and server are on machines of their own, and the switch on another one."""

import subprocess

import pytest
from bench_tools import run
from test_sockets import ran, values

pytestmark = pytest.mark.tier2("socket workloads over hosts")

SCENARIO = """
measure = "{measure}"
runs_on = "dut"
dut = {{ datapath = "af_packet", pmd_cpus = [1], rules = "{rules}" }}
host = [
  {{ name = "alice", address = "192.168.7.1/24", cpus = [0]{client} }},
  {{ name = "bob", address = "192.168.7.2/24", cpus = [1]{server} }},
]
[sockets]
client = "alice"
server = "bob"
connections = 2
warm_up_s = 0.1
duration_s = {duration_s}
repeats = 1
timeout_s = 2
"""
CLIENT = ', interface = "to-gen", end_interface = "eth9", runs_on = "gen"'
SERVER = ', interface = "to-sink", end_interface = "eth9", runs_on = "sink"'


def write(tmp_path, measure, client=CLIENT, server=SERVER, rules="actions=NORMAL", duration_s=0.5):
    path = tmp_path / f"{measure}.toml"
    path.write_text(SCENARIO.format(**locals()))
    return path


def whole(machine, interface="eth9"):
    """Have checksums and segments complete on the cable, as a NIC leaves them there."""
    machine.run("ethtool", "-K", interface, "tx", "off", "tso", "off")


def measured(scenario, measurements):
    """The last window's account and the scenario's metrics, with what must hold of each kind."""
    account = measurements[-1].account
    (result,) = account["pairs"]
    (window,) = result["runs"]
    assert (result["client"]["core"], result["server"]["core"]) == (0, 1)
    assert window["server"]["retransmitted_segments"] is not None
    assert window["cache_line_ns"] == [None, None], "two machines share no cache line"
    assert all(connection["retransmits"] is not None for connection in window["connections"])
    return account, window, values(scenario)


@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize("measure", ["rr", "bandwidth"])
def test_client_switch_and_server_are_on_three_hosts(hosts, tmp_path, measure):
    whole(hosts.gen)
    whole(hosts.sink)
    # What is merged on arrival would be too long for the switch.
    hosts.dut.run("ethtool", "-K", "to-gen", "gro", "on")
    result, measurements = ran(write(tmp_path, measure), tmp_path / "runs", hosts.environment)
    account, window, metrics = measured(result, measurements)
    assert account["elsewhere"] == {"client": "gen", "server": "sink"}
    assert "generic-receive-offload: on" in hosts.dut.run("ethtool", "-k", "to-gen"), "as it was"
    assert {"client busy", "server busy", "thread busy", "CPU 1: busy"} <= metrics.keys()
    assert "CPU 0: busy" not in metrics, "no thread of the bench is on CPU 0 of the switch's machine"
    if measure == "rr":
        assert metrics["transactions"] > 10
        assert window["latency"]["count"] == window["transactions"] == window["received_bytes"]
    else:
        assert metrics["goodput"] > 1e6
        assert sum(window["per_second"]) == window["received_bytes"]
        assert len(window["connections"]) == 2
        assert [connection["received_bytes"] for connection in window["connections"]] == [None, None]


@pytest.mark.usefixtures("nothing_left")
def test_the_lab_is_the_client_and_the_server_is_beside_the_switch(hosts, tmp_path):
    ends = ["type", "veth", "peer", "name", "to-lab", "netns", str(hosts.dut.pid)]
    subprocess.run(["ip", "link", "add", "name", "eth9", *ends], check=True)
    try:
        for words in (["ethtool", "-K", "eth9", "tx", "off", "tso", "off"], ["ip", "link", "set", "eth9", "up"]):
            subprocess.run(words, check=True)
        path = write(tmp_path, "rr", CLIENT.replace("gen", "lab"), server="")
        result, measurements = ran(path, tmp_path / "runs", hosts.environment)
        account, _, metrics = measured(result, measurements)
        assert account["elsewhere"] == {"client": "lab"}
        assert metrics["transactions"] > 10
    finally:
        subprocess.run(["ip", "link", "del", "eth9"], check=True)


@pytest.mark.usefixtures("nothing_left")
def test_an_end_that_cannot_be_reached_is_told_with_both_machines_and_the_address(hosts, tmp_path):
    done = run("run", write(tmp_path, "rr", rules="actions=drop"), "--out", tmp_path / "runs", env=hosts.environment)
    assert done.returncode != 0
    said = done.stdout + done.stderr
    assert "alice on gen cannot reach bob on sink: engine: cannot connect to 192.168.7.2:" in said

"""Guests in the path (PVP, PVVP), ports of several kinds on one bridge, and what people configure at ports."""

from dataclasses import replace
from pathlib import Path

import pytest
from topology_tools import stands, talking, trial

from pinchpoint.scenario import load, parse

pytestmark = [pytest.mark.tier2("guests in the path, ports of several kinds"), pytest.mark.needs("dpdk")]

SHIPPED = Path(__file__).parents[2] / "studies/topologies"
LOW_FPS = 5_000  # what waits for a core that a guest and a PMD thread share fits into a ring
LOW = {"load_fps": LOW_FPS, "duration_s": 0.5}


def places(account):
    return {hop.name: hop for hop in account.hops}


@pytest.mark.needs("testpmd")
@pytest.mark.parametrize(("name", "passes"), [("1-pvp", 1), ("2-pvvp", 2)])
def test_frames_go_through_every_guest_and_the_account_closes(nothing_left, name, passes):
    with stands(load(SHIPPED / f"{name}.toml")) as setup:
        account = trial(setup, **LOW).ledger
    assert account.received > 0
    assert account.unexplained == 0, account
    guests = places(account)["guests forward"]
    dropped = sum(drop.frames for drop in guests.drops)
    assert guests.frames_in == guests.frames_out + dropped
    assert guests.frames_out >= passes * account.received


@pytest.mark.needs("qemu")
def test_frames_go_through_a_virtual_machine(nothing_left):
    text = (SHIPPED / "1-pvp.toml").read_text()
    wanted = parse(text.replace('forwards_to = "vm2"', 'forwards_to = "vm2"\nforwards_in = "vm"'), "vm.toml")
    with stands(wanted) as setup:
        account = trial(setup, load_fps=500, duration_s=1.0).ledger
    assert account.received > 0
    assert places(account)["guests forward"].frames_in >= account.received


@pytest.mark.parametrize(("start", "end"), [("vm", "uplink"), ("uplink", "vm")])
def test_a_tap_beside_a_vhost_user_port_forwards_and_the_account_closes(nothing_left, start, end):
    wanted = load(SHIPPED / "3-mixed-bridge.toml")
    (stream,) = wanted.streams
    with stands(replace(wanted, streams=(replace(stream, tx_port=start, rx_port=end),))) as setup:
        seen = trial(setup, **LOW)
    assert seen.ledger.received > 0
    assert seen.ledger.unexplained == 0, seen.ledger
    assert [load.ports for load in seen.threads if load.cpu is None] == ([("vm",)] if start == "vm" else [])


CONFIGURED = """
[dut]
datapath = "dpdk"
pmd_cpus = [1]
rules = "in_port={left},actions=RULE"
KEYS
[[port]]
name = "left"
PORT
[[port]]
name = "right"
[[port]]
name = "third"
MORE
[engine]
cpus = [0]
[[stream]]
from = "left"
to = "right"
"""


def configured(rule="output:{right}", keys="", port="", more=""):
    text = CONFIGURED
    for word, value in {"RULE": rule, "KEYS": keys, "PORT": port, "MORE": more}.items():
        text = text.replace(word, value)
    return parse(text, "configured.toml")


METER = 'meters = "meter=1,pktps,band=type=drop,rate=1"'
GROUP = 'groups = "group_id=7,type=indirect,bucket=output:{right}"'


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ({"rule": "meter:1,output:{right}", "keys": METER}, "datapath drop meter"),
        ({"port": "ingress_policing_rate = 1\ningress_policing_burst = 1"}, "ingress policer of left"),
    ],
)
def test_what_a_limit_drops_is_its_own(nothing_left, parts, reason):
    with stands(configured(**parts)) as setup:
        account = trial(setup, **LOW).ledger
    assert account.unexplained == 0, account
    dropped = {drop.name: drop for hop in account.hops for drop in hop.drops}
    assert dropped[reason].frames > 0
    assert dropped[reason].limits == "rules"


def test_a_group_forwards(nothing_left):
    with stands(configured(rule="group:7", keys=GROUP)) as setup:
        account = trial(setup, **LOW).ledger
    assert account.received > 0
    assert account.unexplained == 0, account


def test_mirrors_bonds_and_vlans_are_in_the_database(nothing_left):
    more = '[[mirror]]\nname = "m"\nselect = ["left"]\nto = "right"\n'
    with stands(configured(port='tag = 5\nvlan_mode = "access"', more=more)) as setup, talking(setup) as control:
        ask = setup.places.ask_vsctl
        assert ask("get", "port", "left", "tag", "vlan_mode").split() == ["5", "access"]
        assert ask("--bare", "--columns=name", "list", "mirror").strip() == "m"
        assert "netdev@ovs-netdev" in control.call("dpctl/show")
    bond = '[[bond]]\nname = "pair"\nports = ["right", "third"]\n'
    with stands(configured(more=bond)) as setup, talking(setup) as control:
        assert "bond_mode: active-backup" in control.call("bond/show", "pair")


def test_a_larger_mtu_carries_longer_frames(nothing_left):
    wanted = parse(
        """
dut = { datapath = "af_packet", pmd_cpus = [1], rules = "in_port={left},actions=output:{right}" }
engine = { cpus = [0] }
port = [{ name = "left", mtu = 3000 }, { name = "right", mtu = 3000 }]
stream = [{ from = "left", to = "right", frame_bytes = 3000 }]
""",
        "jumbo.toml",
    )
    with stands(wanted) as setup:
        account = trial(setup, load_fps=1_000, duration_s=0.3).ledger
    assert account.received > 0
    assert account.unexplained == 0, account

"""Bridges, hosts, tunnels and settings with the real daemons: what a scenario asks for stands and forwards."""

import re
from dataclasses import replace
from ipaddress import IPv4Address
from itertools import pairwise

import pytest
from topology_tools import NEIGHBOURS, asked, bridge, host, scenario, stands, talking, tcp_transfer, trial, within

from pinchpoint.dut.ovs.settings import check_queues, in_force
from pinchpoint.dut.ovs.spec import ArpResponder, Bridge, ExtraPorts, Patch, Rule, Tunnel
from pinchpoint.model.errors import BenchError
from pinchpoint.model.scenario import Range

pytestmark = pytest.mark.tier2("bridges, hosts and tunnels of Open vSwitch")

LEFT, RIGHT = host("hl", "192.168.7.1/24"), host("hr", "192.168.7.2/24")


@pytest.mark.parametrize(
    "datapath", ["af_packet", "af_xdp", pytest.param("dpdk", marks=pytest.mark.tier1("hosts behind vhost-user"))]
)
def test_hosts_reach_each_other_over_tcp(nothing_left, datapath):
    with stands(scenario(datapath, hosts=(LEFT, RIGHT))) as setup:
        assert tcp_transfer(setup, LEFT, RIGHT) == 3_000_000


@pytest.mark.tier1("bridges, hosts and tunnels of Open vSwitch")
def test_a_tunnel_carries_frames_encapsulated_between_two_bridges(nothing_left):
    hosts = (replace(LEFT, bridge="br0"), replace(RIGHT, bridge="br1"))
    tunnel = Tunnel("vx", "br0", "br1", 4096)
    with stands(scenario(bridges=(bridge("br0"), bridge("br1")), hosts=hosts, tunnels=(tunnel,))) as setup:
        assert tcp_transfer(setup, *hosts) == 3_000_000
        with talking(setup) as control:
            flows = control.call("dpctl/dump-flows", "-m")
    encapsulated = [int(match[1]) for match in re.finditer(r"packets:(\d+),.*tnl_push\(.*vni=0x1000", flows)]
    decapsulated = [int(match[1]) for match in re.finditer(r"tunnel\(tun_id=0x1000,.*packets:(\d+)", flows)]
    full_frames = 3_000_000 // 1448
    assert sum(encapsulated) > full_frames
    assert sum(decapsulated) == pytest.approx(sum(encapsulated), abs=4), "what was pushed was popped"
    actions = [line.rpartition("actions:")[2] for line in flows.splitlines() if "in_port(hl)" in line]
    assert actions
    assert not [how for how in actions if "hr" in how], "nothing took another way"


def test_fifty_bridges_in_a_row_forward(nothing_left):
    names = [f"br{number}" for number in range(50)]
    patches = tuple(Patch(*pair) for pair in pairwise(names))
    hosts = (LEFT, replace(RIGHT, bridge="br49"))
    with stands(scenario(bridges=[bridge(name) for name in names], hosts=hosts, patches=patches)) as setup:
        assert tcp_transfer(setup, *hosts) == 3_000_000


def test_an_arp_responder_answers_for_its_addresses_and_no_others(nothing_left):
    responder = ArpResponder("br0", Range(int(IPv4Address("192.168.7.10")), 5), "02:00:00:00:00:aa")
    only = bridge("br0", "priority=1,actions=drop")
    with stands(scenario(bridges=(only,), hosts=(LEFT,), arp_responders=(responder,))) as setup:
        netns = setup.places.host_netns("hl")
        heard = within(netns, NEIGHBOURS, *(f"192.168.7.{last}" for last in (9, 10, 14, 15)))
    assert heard.split() == ["192.168.7.10=02:00:00:00:00:aa", "192.168.7.14=02:00:00:00:00:aa"]


@pytest.mark.parametrize(
    "datapath", ["af_packet", pytest.param("af_xdp", marks=pytest.mark.tier1("settings are read back"))]
)
def test_every_setting_is_read_back_from_the_running_switch(nothing_left, datapath):
    wanted = asked(
        scenario(datapath, hosts=(LEFT,)),
        emc_insert_inv_prob=0,
        smc=True,
        flow_limit=5_000,
        max_idle_ms=2_500,
        conntrack_limit=777,
        hw_offload=False,
    )
    with stands(wanted) as setup, talking(setup) as control:
        settings = in_force(wanted, setup.places, control)
    modes = {"xdp mode of hl": "native", "PMD cores": "1"} if datapath == "af_xdp" else {}
    assert settings == modes | {
        "emc-insert-inv-prob": "0",
        "smc-enable": "true",
        "flow-limit": "5000",
        "max-idle": "2500 (stored in the database)",
        "hw-offload": "false",
        "conntrack limit": "777",
        "offloads of hl": "tx-checksumming off, tcp-segmentation-offload off, generic-segmentation-offload on",
    }


def test_a_setting_that_another_has_changed_is_told_with_both_values(nothing_left):
    wanted = asked(scenario(hosts=(LEFT,)), conntrack_limit=777)
    with stands(wanted) as setup, talking(setup) as control:
        control.call("dpctl/ct-set-maxconns", "778")
        with pytest.raises(BenchError, match="conntrack limit: asked for 777, found 778"):
            in_force(wanted, setup.places, control)


# The rules of a bridge, and of three in a row, through which frames go from left to right and back.
CROSSING = (bridge("br0", "in_port={left},actions=output:{right}", "in_port={right},actions=output:{left}"),)
CROSSING_THREE = (
    bridge("br0", "in_port={left},actions=output:{to-br1}", "in_port={to-br1},actions=output:{left}"),
    bridge("br1", "in_port={to-br0},actions=output:{to-br2}", "in_port={to-br2},actions=output:{to-br0}"),
    bridge("br2", "in_port={to-br1},actions=output:{right}", "in_port={right},actions=output:{to-br1}"),
)


@pytest.mark.parametrize("datapath", ["af_packet", "af_xdp", "dpdk"])
def test_the_account_closes_over_every_datapath_and_across_patch_ports(nothing_left, datapath):
    wanted = scenario(datapath, bridges=CROSSING_THREE, ports=True)
    patches = (Patch("br0", "br1"), Patch("br1", "br2"))
    left, right = wanted.ports
    wanted = replace(wanted, dut=replace(wanted.dut, patches=patches), ports=(left, replace(right, bridge="br2")))
    with stands(wanted) as setup:
        account = trial(setup).ledger
    assert account.received > 0
    assert account.unexplained == 0
    inside = {hop.name: hop for hop in account.hops}["datapath"]
    assert inside.frames_in == inside.frames_out > 0


@pytest.mark.parametrize(
    ("backend", "datapath"),
    [
        ("af_packet", "af_xdp"),
        pytest.param("af_xdp", "af_packet", marks=pytest.mark.tier1("backend:af_xdp")),
        ("xdp_live", "af_packet"),
    ],
)
def test_the_engine_drives_a_veth_as_it_is_asked_to(nothing_left, backend, datapath):
    wanted = scenario(datapath, bridges=CROSSING, ports=True)
    with stands(replace(wanted, engine=replace(wanted.engine, backend=backend))) as setup:
        account = trial(setup).ledger
    assert account.received > 0
    assert account.unexplained == 0


def test_a_queues_core_is_the_one_that_was_asked_for_and_a_queue_without_one_is_told(nothing_left):
    wanted = scenario("af_xdp", bridges=CROSSING, ports=True)
    left, right = wanted.ports
    pinned = replace(wanted, ports=(replace(left, rxq_affinity="0:1"), replace(right, rxq_affinity="0:1")))
    with stands(pinned) as setup, talking(setup) as control:
        check_queues(pinned, setup.places, control)
        elsewhere = replace(pinned, ports=(replace(left, rxq_affinity="0:7"), right))
        with pytest.raises(BenchError, match="core of left's queue 0: asked for 7, found 1"):
            check_queues(elsewhere, setup.places, control)
    # The only PMD is isolated by the pinned queue, so that nobody polls the other one.
    half = replace(wanted, ports=(replace(left, rxq_affinity="0:1"), right))
    with stands(half) as setup, talking(setup) as control:
        with pytest.raises(BenchError, match="receive queues of right: asked for 1, found 0") as caught:
            check_queues(half, setup.places, control)
        assert "pin all queues" in caught.value.hint


@pytest.mark.parametrize("kind", ["internal", "veth"])
def test_idle_ports_are_there_and_go_with_the_bench(nothing_left, kind):
    wanted = scenario(hosts=(LEFT, RIGHT), extra_ports=ExtraPorts(200, kind))
    with stands(wanted) as setup, talking(setup) as control:
        assert len(re.findall(r"^\s+port \d+: idle\d+", control.call("dpctl/show"), re.MULTILINE)) == 200
        assert tcp_transfer(setup, LEFT, RIGHT) == 3_000_000


def test_a_rule_that_a_later_bridge_refuses_is_told_by_its_line(nothing_left):
    bad = Bridge("br1", (Rule("actions=NORMAL", 11), Rule("priority=1,actions=teleport", 12)), ())
    refused = pytest.raises(BenchError, match=r"topology.toml:12: the switch refused this rule: .*teleport")
    with refused, stands(scenario(bridges=(bridge("br0"), bad))):
        pytest.fail("a bench stands that should not")

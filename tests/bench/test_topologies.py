"""Bridges, hosts, tunnels and settings with the real daemons: what a scenario asks for stands and forwards."""

import re
from dataclasses import replace
from ipaddress import IPv4Address
from itertools import pairwise

import pytest
from topology_tools import NEIGHBOURS, bridge, host, scenario, stands, talking, tcp_transfer, within

from pinchpoint.model.scenario import ArpResponder, Patch, Range, Tunnel

LEFT, RIGHT = host("hl", "192.168.7.1/24"), host("hr", "192.168.7.2/24")


@pytest.mark.parametrize("datapath", ["af_packet"])
def test_hosts_reach_each_other_over_tcp(nothing_left, datapath):
    with stands(scenario(datapath, hosts=(LEFT, RIGHT))) as setup:
        assert tcp_transfer(setup, LEFT, RIGHT) == 3_000_000


def test_a_tunnel_carries_frames_encapsulated_between_two_bridges(nothing_left):
    hosts = (replace(LEFT, bridge="br0"), replace(RIGHT, bridge="br1"))
    tunnel = Tunnel("vx", "br0", "br1", 4096)
    with stands(scenario(bridges=(bridge("br0"), bridge("br1")), hosts=hosts, tunnels=(tunnel,))) as setup:
        assert tcp_transfer(setup, *hosts) == 3_000_000
        with talking(setup) as control:
            flows = control.call("dpctl/dump-flows", "-m")
    encapsulated = [int(found[1]) for found in re.finditer(r"packets:(\d+),.*tnl_push\(.*vni=0x1000", flows)]
    decapsulated = [int(found[1]) for found in re.finditer(r"tunnel\(tun_id=0x1000,.*packets:(\d+)", flows)]
    full_frames = 3_000_000 // 1448
    assert sum(encapsulated) > full_frames
    assert sum(decapsulated) == pytest.approx(sum(encapsulated), abs=4), "what was pushed was popped"
    actions = [line.rpartition("actions:")[2] for line in flows.splitlines() if "in_port(hl)" in line]
    assert actions
    assert not [how for how in actions if "hr" in how], "nothing took another way"


def test_a_cascade_of_three_bridges_forwards_over_tcp(nothing_left):
    names = ("br0", "br1", "br2")
    patches = (Patch("br0", "br1"), Patch("br1", "br2"))
    hosts = (replace(LEFT, bridge="br0"), replace(RIGHT, bridge="br2"))
    forwarding = [
        bridge("br0", "in_port={hl},actions=output:{to-br1}", "in_port={to-br1},actions=output:{hl}"),
        bridge("br1", "in_port={to-br0},actions=output:{to-br2}", "in_port={to-br2},actions=output:{to-br0}"),
        bridge("br2", "in_port={to-br1},actions=output:{hr}", "in_port={hr},actions=output:{to-br1}"),
    ]
    assert [one.name for one in forwarding] == list(names)
    with stands(scenario(bridges=forwarding, hosts=hosts, patches=patches)) as setup:
        assert tcp_transfer(setup, *hosts) == 3_000_000


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

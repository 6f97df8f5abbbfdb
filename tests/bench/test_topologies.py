"""Bridges, hosts, tunnels and settings with the real daemons: what a scenario asks for stands and forwards."""

import pytest
from topology_tools import host, scenario, stands, tcp_transfer

LEFT, RIGHT = host("hl", "192.168.7.1/24"), host("hr", "192.168.7.2/24")


@pytest.mark.parametrize("datapath", ["af_packet"])
def test_hosts_reach_each_other_over_tcp(nothing_left, datapath):
    with stands(scenario(datapath, hosts=(LEFT, RIGHT))) as setup:
        assert tcp_transfer(setup, LEFT, RIGHT) == 3_000_000

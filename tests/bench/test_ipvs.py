"""IPVS in a guest's kernel, connection by connection. Three boots in all."""

import pytest
from serving_tools import counted, overloaded, serving

from pinchpoint.model.limits import Resource
from pinchpoint.model.result import Outcome
from pinchpoint.scenario import parse

pytestmark = pytest.mark.usefixtures("nothing_left")
SCENARIO = """
measure = "verify"
[guest]
kernel = "uml"
[dut]
kind = "ipvs"
[service]
address = "10.0.0.100"
port = 80
clients = "10.0.1.1-10.0.1.50"
{service}
[[backend]]
address = "10.1.0.1"
port = 8080
[[backend]]
address = "10.1.0.2"
port = 8080
[[backend]]
address = "10.1.0.3"
port = 8081
[[port]]
name = "clients"
[[port]]
name = "servers"
[engine]
cpus = [0]
[verify]
connections = 150
timeout_s = 20.0
"""
FULL_NAT = 'local = "10.1.0.240-10.1.0.243"\n'


def scenario(service):
    return parse(SCENARIO.format(service=service), "ipvs.toml")


def test_full_nat_in_turn_and_the_same_connections_again_after_a_flush():
    wanted = scenario(FULL_NAT + "opening_s = 30\nestablished_s = 600\nclosed_s = 100\nmax_connections = 4000")
    with serving(wanted) as (live, verified):
        settings, table = live.settings(), live.balancer()
        limits = {one.resource: one for one in table.limits()}
        outcomes, tracked = [], []
        for _ in range(2):
            outcomes.append(verified())
            tracked.append(table.tracked())
            table.flush()
            tracked.append(table.tracked())
        seen = counted(live)
    assert [one.outcome for one in outcomes] == [Outcome.MEASURED] * 2, [one.reason for one in outcomes]
    assert min(tracked[0], tracked[2]) > 0 and tracked[1] == tracked[3] == 0, tracked
    assert settings["net.netfilter.nf_conntrack_tcp_timeout_time_wait"] == "100"
    assert settings["ipvs time-outs"] == "Timeout (tcp tcpfin udp): 600 120 300"
    assert (limits[Resource.TABLE].size, limits[Resource.TABLE].held_s) == (4000, 100.0)
    assert seen["ipvs/cpu/0/connections"] == sum(tracked)
    assert seen["host/conntrack/insert_failed"] == seen["host/conntrack/table_full"] == 0


def test_dnat_by_a_hash():
    with serving(scenario('mode = "dnat"\nscheduler = "hash"')) as (live, verified):
        settings, found = live.settings(), verified()
    assert found.outcome is Outcome.MEASURED, found.reason
    assert "-s mh -b mh-port" in settings["ipvs"]


def test_local_ports_that_run_out_are_counted_where_their_limit_says():
    before, seen, limits, client = overloaded(scenario(FULL_NAT + 'local_ports = "2000-2004"'), 150)
    ports = limits[Resource.LOCAL_PORTS]
    assert ports.size == 4 * 5 * 3
    (refused,) = ports.refused
    assert client.completed < client.opened
    assert seen[refused] > before[refused]
    assert seen[ports.used] <= ports.size

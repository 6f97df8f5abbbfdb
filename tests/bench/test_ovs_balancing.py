"""Open vSwitch as a balancer, connection by connection. Six benches in all."""

import re
from dataclasses import replace

import pytest
from serving_tools import FULL_NAT, overloaded, served, serving

from pinchpoint.model.limits import Resource
from pinchpoint.model.result import Outcome
from pinchpoint.scenario import parse

pytestmark = [pytest.mark.usefixtures("nothing_left"), pytest.mark.tier2("Open vSwitch as a balancer")]
DUT = 'datapath = "af_packet"\npmd_cpus = [1]'
VERIFY = "[verify]\nconnections = 150\ntimeout_s = 20.0\n"


def scenario(service, timeout_s=20.0):
    wanted = parse(served("ovs", f'scheduler = "hash"\n{service}', dut=DUT, tables=VERIFY), "ovs.toml")
    return replace(wanted, measure=replace(wanted.measure, timeout_s=timeout_s))


@pytest.mark.tier1("Open vSwitch as a balancer")
def test_full_nat_by_a_hash_and_the_same_connections_again_after_a_flush():
    with serving(scenario(FULL_NAT + "max_connections = 4000")) as (live, verified):
        table = live.balancer()
        limits = {limit.resource: limit for limit in table.limits()}
        outcomes, tracked = [], []
        for _ in range(2):
            outcomes.append(verified())
            tracked.append(table.tracked())
            table.flush()
            tracked.append(table.tracked())
    assert [outcome.outcome for outcome in outcomes] == [Outcome.MEASURED] * 2, [outcome.reason for outcome in outcomes]
    assert min(tracked[0], tracked[2]) > 0 and tracked[1] == tracked[3] == 0, tracked
    assert tracked[0] % 2 == tracked[2] % 2 == 0, "an entry for each of the two translations"
    assert limits[Resource.TABLE].size == 2000


def test_real_programs_get_answers_and_their_servers_see_local_addresses():
    wanted = scenario(FULL_NAT)
    with serving(replace(wanted, measure=replace(wanted.measure, programs=True))) as (_, verified):
        checked = verified()
    assert checked.outcome is Outcome.MEASURED, checked.reason


def test_requests_by_udp_reach_the_backend_of_their_tuple_again_after_a_flush():
    with serving(scenario(FULL_NAT + 'transport = "udp"\nclosed_s = 25')) as (live, verified):
        settings, checked = live.settings(), verified()
        left = live.balancer().tracked()
    assert checked.outcome is Outcome.MEASURED, checked.reason
    assert settings["time-outs of zone 1"] == "udp_first = 25 s, udp_multiple = 25 s, udp_single = 25 s"
    assert left > 0


def test_dnat_remembers_closed_connections_as_long_as_the_service_says():
    with serving(scenario('mode = "dnat"\nopening_s = 5\nestablished_s = 100\nclosed_s = 25')) as (live, verified):
        settings, checked = live.settings(), verified()
        entries = live.control.call("dpctl/dump-conntrack", "-m", "-s").splitlines()
    assert checked.outcome is Outcome.MEASURED, checked.reason
    assert settings["time-outs of zone 1"].startswith("tcp_close = 25 s, tcp_established = 100 s")
    left_s = [int(seconds) for seconds in re.findall(r",timeout=(\d+),", "\n".join(entries))]
    assert left_s
    assert max(left_s) <= 25 < 30, "which is the switch's own"


@pytest.mark.parametrize(
    ("limiting", "resource"),
    [('local_ports = "2000-2004"', Resource.LOCAL_PORTS), ("max_connections = 100", Resource.TABLE)],
)
def test_what_runs_out_is_counted_where_its_limit_says(limiting, resource):
    before, seen, limits, client = overloaded(scenario(FULL_NAT + limiting), 150)
    limit = limits[resource]
    assert limit.size in (60, 50)
    (refused,) = limit.refused
    assert client.completed < client.opened
    assert seen.get(refused, 0) > before.get(refused, 0)

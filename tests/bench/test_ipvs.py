"""IPVS in a guest's kernel, connection by connection. Four boots in all."""

import pytest
from serving_tools import FULL_NAT, counted, overloaded, served, serving

from pinchpoint.host.guest_kernels import KERNELS
from pinchpoint.model.limits import Resource
from pinchpoint.model.result import Outcome
from pinchpoint.scenario import parse

pytestmark = [pytest.mark.usefixtures("nothing_left"), pytest.mark.tier2("device:ipvs"), pytest.mark.needs("guest")]
TABLES = '[guest]\nkernel = "auto"\n[verify]\nconnections = 150\ntimeout_s = 20.0\n'


def scenario(service):
    return parse(served("ipvs", service, tables=TABLES), "ipvs.toml")


def test_full_nat_in_turn_and_the_same_connections_again_after_a_flush():
    wanted = scenario(FULL_NAT + "opening_s = 30\nestablished_s = 600\nclosed_s = 100\nmax_connections = 4000")
    with serving(wanted) as (live, verified):
        settings, table = live.settings(), live.balancer()
        limits = {limit.resource: limit for limit in table.limits()}
        outcomes, tracked = [], []
        for _ in range(2):
            outcomes.append(verified())
            tracked.append(table.tracked())
            table.flush()
            tracked.append(table.tracked())
        seen = counted(live)
    assert [outcome.outcome for outcome in outcomes] == [Outcome.MEASURED] * 2, [outcome.reason for outcome in outcomes]
    assert min(tracked[0], tracked[2]) > 0 and tracked[1] == tracked[3] == 0, tracked
    assert settings["guest.kernel"] in KERNELS, "the one that was taken"
    assert settings["net.netfilter.nf_conntrack_tcp_timeout_time_wait"] == "100"
    assert settings["ipvs time-outs"] == "Timeout (tcp tcpfin udp): 600 120 300"
    assert (limits[Resource.TABLE].size, limits[Resource.TABLE].held_s) == (4000, 100.0)
    assert seen["ipvs/cpu/0/connections"] == sum(tracked)
    assert seen["host/conntrack/insert_failed"] == seen["host/conntrack/table_full"] == 0


@pytest.mark.tier1("device:ipvs", "guest:auto")
def test_dnat_by_a_hash():
    with serving(scenario('mode = "dnat"\nscheduler = "hash"')) as (live, verified):
        settings, checked = live.settings(), verified()
    assert checked.outcome is Outcome.MEASURED, checked.reason
    assert "-s mh -b mh-port" in settings["ipvs"]


def test_requests_by_udp_in_turn():
    with serving(scenario(FULL_NAT + 'transport = "udp"\nclosed_s = 60')) as (live, verified):
        settings, checked = live.settings(), verified()
    assert checked.outcome is Outcome.MEASURED, checked.reason
    assert settings["ipvs time-outs"].endswith(" 60")


def test_local_ports_that_run_out_are_counted_where_their_limit_says():
    before, seen, limits, client = overloaded(scenario(FULL_NAT + 'local_ports = "2000-2004"'), 150)
    ports = limits[Resource.LOCAL_PORTS]
    assert ports.size == 4 * 5 * 3
    (refused,) = ports.refused
    assert client.completed < client.opened
    assert seen[refused] > before[refused]
    assert seen[ports.used] <= ports.size

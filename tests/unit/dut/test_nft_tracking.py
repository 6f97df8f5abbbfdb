"""The limits of a namespace that balances, from what it reports."""

from dataclasses import replace

import pytest

from pinchpoint.dut.nft.tracking import NftBalancer, timeouts
from pinchpoint.model.errors import BenchError
from pinchpoint.model.limits import Resource
from pinchpoint.model.scenario import Backend, Mode, Range, Scheduler, Service, Transport

SERVICE = Service(
    address="10.0.0.100",
    port=80,
    scheduler=Scheduler.ROUND_ROBIN,
    mode=Mode.FULL_NAT,
    clients=Range(0x0A000101, 2),
    local=Range(0x0A0100F0, 2),
    client_port="left",
    server_port="right",
    backends=(Backend("10.1.0.1", 8080), Backend("10.1.0.2", 80)),
    local_ports=Range(2000, 40),
    closed_s=2.0,
)
CHAIN = """table ip pinchpoint-service {{
\tchain postrouting {{
\t\ttype nat hook postrouting priority srcnat; policy accept;
\t\tmeta l4proto tcp ct original ip daddr 10.0.0.100 counter packets 0 bytes 0 snat to numgen inc mod 2 map \
{{ 0 : 10.1.0.240, 1 : 10.1.0.241 }}:{ports}
\t}}
}}"""


class Kernel:
    """A namespace that remembers what it is told."""

    def __init__(self, closed="2", ports="2000-2039", entries=0, kept=0):
        self.values = {name: "120" for name in ("syn_sent", "syn_recv", "established", "close")}
        self.values |= {"time_wait": closed, "udp_timeout": closed}
        self.ports, self.entries, self.kept = ports, entries, kept

    def run(self, argv, netns=None):
        match argv:
            case ["sysctl", "-n", *names]:
                words = [name[len("net.netfilter.nf_conntrack_") :].removeprefix("tcp_timeout_") for name in names]
                return "".join(f"{self.entries if word == 'count' else self.values[word]}\n" for word in words)
            case ["sysctl", "-qw", change]:
                name, _, value = change.partition("=")
                self.values[name.rpartition("timeout_")[2]] = value
            case ["nft", "list", *_]:
                return CHAIN.format(ports=self.ports)
            case ["nft", text]:
                self.ports = text.partition("} : ")[2].split("\n")[0]
            case ["conntrack", "-F"]:
                self.entries = self.kept
            case ["conntrack", "-L"]:
                return "tcp\n" * self.entries
        return ""

    def read(self, path):
        return {"nf_conntrack_max": "1000\n", "netdev_max_backlog": "500\n"}[path.rpartition("/")[2]]

    def exists(self, _path):
        return True


def balancer(service=SERVICE, **kernel):
    return NftBalancer(Kernel(**kernel), "pp", service)


def by_resource(nat):
    return {limit.resource: limit for limit in nat.limits()}


def test_local_ports_are_places_for_each_address_and_backend_while_time_wait_lasts():
    limit = by_resource(balancer())[Resource.LOCAL_PORTS]
    assert (limit.size, limit.held_s, limit.sustained_cps) == (160, 2.0, 80.0)
    assert limit.source == "2 addresses x 40 ports x 2 backends, nf_conntrack_tcp_timeout_time_wait = 2 s"


def test_what_there_is_one_of_is_not_many():
    alone = replace(SERVICE, local=Range(0x0A0100F0, 1), backends=SERVICE.backends[:1])
    assert by_resource(balancer(alone))[Resource.LOCAL_PORTS].source.startswith("1 address x 40 ports x 1 backend, ")


def test_without_a_range_the_kernel_takes_ports_from_1024_on():
    service = replace(SERVICE, local_ports=None)
    assert by_resource(balancer(service))[Resource.LOCAL_PORTS].size == 2 * 2 * 64512


def test_the_table_is_the_host_s_and_the_backlog_has_no_size_in_connections():
    limits = by_resource(balancer())
    assert (limits[Resource.TABLE].size, limits[Resource.TABLE].held_s) == (1000, 2.0)
    assert limits[Resource.SOFTIRQ].size is None


def test_destination_nat_alone_needs_no_local_port():
    service = replace(SERVICE, mode=Mode.DNAT, local=None, local_ports=None)
    assert Resource.LOCAL_PORTS not in by_resource(balancer(service))


def test_time_outs_are_set_where_the_scenario_has_them():
    wanted = {"syn_sent": "3", "syn_recv": "3", "time_wait": "2", "close": "2"}
    assert timeouts(replace(SERVICE, opening_s=3.0)) == {
        f"net.netfilter.nf_conntrack_tcp_timeout_{state}": value for state, value in wanted.items()
    }


def test_an_exchange_by_udp_is_remembered_for_the_one_time_out_of_udp():
    service = replace(SERVICE, transport=Transport.UDP)
    assert timeouts(service) == {"net.netfilter.nf_conntrack_udp_timeout": "2"}
    assert timeouts(replace(service, closed_s=None)) == {}
    limit = by_resource(balancer(service, closed="30"))[Resource.LOCAL_PORTS]
    assert (limit.size, limit.held_s) == (160, 30.0)
    assert limit.source.endswith("nf_conntrack_udp_timeout = 30 s")
    assert balancer(service).settings()["net.netfilter.nf_conntrack_udp_timeout"] == "2"


def test_a_time_out_that_is_not_in_force_is_an_error():
    with pytest.raises(BenchError, match="time_wait: 2 was set, 120 is in force"):
        balancer(closed="120").settings()


def test_a_flush_that_leaves_connections_is_an_error(monkeypatch):
    monkeypatch.setattr("pinchpoint.dut.nft.tracking.FLUSHED_WITHIN_S", 0.05)
    with pytest.raises(BenchError, match="3 connections are in the table"):
        balancer(entries=9, kept=3).flush()
    assert balancer(entries=9).tracked() == 9


def test_ports_are_doubled_and_given_back():
    nat = balancer()
    with nat.doubled(Resource.LOCAL_PORTS) as what:
        assert what == "80 instead of 40 ports"
        assert by_resource(nat)[Resource.LOCAL_PORTS].size == 320
    assert by_resource(nat)[Resource.LOCAL_PORTS].size == 160


def test_without_a_range_of_ports_the_time_is_halved():
    nat = balancer(replace(SERVICE, local_ports=None), closed="4")
    with nat.doubled(Resource.LOCAL_PORTS) as what:
        assert what == "nf_conntrack_tcp_timeout_time_wait = 2 s instead of 4 s"
    assert by_resource(nat)[Resource.LOCAL_PORTS].held_s == 4.0


@pytest.mark.parametrize(("resource", "closed"), [(Resource.SOFTIRQ, "2"), (Resource.TABLE, "3")])
def test_what_cannot_be_doubled_is_refused(resource, closed):
    with pytest.raises(BenchError, match="cannot be doubled"), balancer(closed=closed).doubled(resource):
        pass

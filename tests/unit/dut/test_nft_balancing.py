"""A service as nftables' rules and addresses."""

from dataclasses import replace
from pathlib import PurePosixPath

import pytest
from support import scenario_of

from pinchpoint.dut import addresses
from pinchpoint.dut.nft.tracking import UNTRACKED, Rebalancing, again, ruleset, syn_proxy, sysctls
from pinchpoint.dut.places import Places
from pinchpoint.dut.services import Rebalanced
from pinchpoint.model.errors import InputError
from pinchpoint.model.scenario import Backend, Established, Mode, Range, Scheduler, Service, Transport

SERVICE = Service(
    address="10.0.0.100",
    port=80,
    scheduler=Scheduler.ROUND_ROBIN,
    mode=Mode.FULL_NAT,
    clients=Range(0x0A000101, 2),
    local=Range(0x0A0100F0, 2),
    client_port="left",
    server_port="right",
    backends=(Backend("10.1.0.1", 8080), Backend("10.1.0.1", 8081), Backend("10.1.0.2", 80)),
)


def test_full_nat_chooses_backends_and_local_addresses_in_turn():
    text = "\n".join(ruleset(SERVICE))
    ends = "0 : 10.1.0.1 . 8080, 1 : 10.1.0.1 . 8081, 2 : 10.1.0.2 . 80"
    assert f"ip daddr 10.0.0.100 tcp dport 80 counter dnat ip to numgen inc mod 3 map {{ {ends} }}" in text
    assert "snat to numgen inc mod 2 map { 0 : 10.1.0.240, 1 : 10.1.0.241 }" in text


def test_several_virtual_servers_share_one_turn():
    text = "\n".join(ruleset(replace(SERVICE, address_count=3, port_count=5)))
    assert "ip daddr 10.0.0.100-10.0.0.102 tcp dport 80-84 counter dnat ip to numgen inc mod 3 map" in text
    assert "ct original ip daddr 10.0.0.100-10.0.0.102 counter snat to" in text
    own = [line for line in addresses.batch(replace(SERVICE, address_count=2)) if line.endswith("dev left")][:2]
    assert own == ["address add 10.0.0.100/32 dev left", "address add 10.0.0.101/32 dev left"]


def test_a_weight_is_how_often_a_backend_comes_in_a_cycle_spread_evenly():
    backends = (Backend("10.1.0.1", 80, weight=4), Backend("10.1.0.2", 80, weight=2))
    text = "\n".join(ruleset(replace(SERVICE, backends=backends)))
    assert "numgen inc mod 3 map { 0 : 10.1.0.1 . 80, 1 : 10.1.0.2 . 80, 2 : 10.1.0.1 . 80 }" in text


def test_a_hash_of_the_source_is_of_the_client_s_address_alone():
    text = "\n".join(ruleset(replace(SERVICE, scheduler=Scheduler.SOURCE)))
    assert "dnat ip to jhash ip saddr mod 3 seed" in text


V6 = replace(
    SERVICE,
    address="fd00::64",
    clients=Range(0xFD000001 << 96 | 0x10, 2),
    local=Range(0xFD000002 << 96 | 0xF0, 2),
    backends=(Backend("fd00:2::1", 8080), Backend("fd00:2::2", 80)),
)


def test_a_service_of_ipv6_has_a_table_of_its_family():
    text = "\n".join(ruleset(V6))
    assert text.startswith("table ip6 pinchpoint-service {")
    assert (
        "ip6 daddr fd00::64 tcp dport 80 counter dnat ip6 to numgen inc mod 2 "
        "map { 0 : fd00:2::1 . 8080, 1 : fd00:2::2 . 80 }"
    ) in text
    assert "ct original ip6 daddr fd00::64 counter snat to numgen inc mod 2 map { 0 : fd00:2::f0" in text


def test_addresses_of_ipv6_are_there_at_once_on_ports_that_use_it():
    assert list(addresses.batch(V6)) == [
        "address add fd00::64/128 nodad dev left",
        "address add fd00:2::f0/128 nodad dev right",
        "address add fd00:2::f1/128 nodad dev right",
        "route add fd00:1::10/127 dev left",
        "route add fd00:2::1/128 dev right src fd00:2::f0",
        "route add fd00:2::2/128 dev right src fd00:2::f0",
    ]
    settings = addresses.sysctls(V6, forwards=True)
    assert settings["net/ipv6/conf/all/forwarding"] == "1"
    assert [settings[f"net/ipv6/conf/{port}/disable_ipv6"] for port in ("left", "right")] == ["0", "0"]
    assert addresses.sysctls(SERVICE, forwards=True) == {}
    nat64 = replace(SERVICE, address="fd00::64", clients=V6.clients)
    assert {name.split("/")[3] for name in addresses.sysctls(nat64, forwards=False)} == {"left"}


def test_a_hash_is_of_the_client_s_address_and_port():
    text = "\n".join(ruleset(replace(SERVICE, scheduler=Scheduler.HASH)))
    assert "dnat ip to jhash ip saddr . tcp sport mod 3" in text


def test_datagrams_are_dealt_and_translated_as_connections_are():
    text = "\n".join(ruleset(replace(SERVICE, transport=Transport.UDP, scheduler=Scheduler.HASH)))
    assert "ip daddr 10.0.0.100 udp dport 80 counter dnat ip to jhash ip saddr . udp sport mod 3" in text
    assert "meta l4proto udp ct original ip daddr 10.0.0.100 counter snat to" in text
    assert "tcp" not in text


def test_without_full_nat_the_source_stays():
    service = replace(SERVICE, mode=Mode.DNAT, local=None)
    assert "snat" not in "\n".join(ruleset(service))
    assert "route add 10.1.0.1/32 dev right" in list(addresses.batch(service))


def test_every_address_has_its_port():
    assert list(addresses.batch(SERVICE)) == [
        "address add 10.0.0.100/32 dev left",
        "address add 10.1.0.240/32 dev right",
        "address add 10.1.0.241/32 dev right",
        "route add 10.0.1.1/32 dev left",
        "route add 10.0.1.2/32 dev left",
        "route add 10.1.0.1/32 dev right src 10.1.0.240",
        "route add 10.1.0.2/32 dev right src 10.1.0.240",
    ]


def test_a_frame_of_a_connection_that_is_forgotten_is_counted_and_goes_nowhere():
    stand = Established(10, 78, 1000.0, 1.0)
    text = "\n".join(ruleset(SERVICE, stand))
    assert f"ip daddr 10.0.0.100 tcp dport 80 counter name {UNTRACKED} drop" in text
    assert UNTRACKED not in "\n".join(ruleset(SERVICE))
    assert sysctls(stand) == {"net/netfilter/nf_conntrack_tcp_loose": "0"}
    assert sysctls(None) == {}


def test_no_frame_waits_for_a_backend_to_say_where_it_is():
    lines = list(addresses.batch(SERVICE, Established(10, 78, 1000.0, 1.0)))
    wanted = [
        f"neighbour add {address} lladdr 02:00:00:00:00:03 dev right nud permanent"
        for address in ("10.1.0.1", "10.1.0.2")
    ]
    assert lines[-2:] == wanted


class Loading:
    """A host on which files are loaded."""

    def __init__(self):
        self.text, self.loaded = "", []

    def write(self, path, text):
        self.text = text

    def run(self, argv, netns):
        assert (argv[:2], netns) == (["nft", "-f"], "pp-b-dut")
        self.loaded.append(self.text.splitlines())


def test_backends_are_removed_and_added_each_in_one_transaction():
    host = Loading()
    balancer = Rebalancing(SERVICE, Places("b", PurePosixPath("/run/b"), host))
    assert isinstance(balancer, Rebalanced)
    balancer.remove(1)
    balancer.remove(0)
    balancer.add(1)
    balancer.add(0)
    dealt = [lines[1].partition("dnat ip to ")[2] for lines in host.loaded]
    assert all(lines[0] == "flush chain ip pinchpoint-service prerouting" for lines in host.loaded)
    assert dealt == [
        "numgen inc mod 2 map { 0 : 10.1.0.1 . 8080, 1 : 10.1.0.2 . 80 }",
        "numgen inc mod 1 map { 0 : 10.1.0.2 . 80 }",
        "numgen inc mod 2 map { 0 : 10.1.0.1 . 8081, 1 : 10.1.0.2 . 80 }",
        "numgen inc mod 3 map { 0 : 10.1.0.1 . 8080, 1 : 10.1.0.1 . 8081, 2 : 10.1.0.2 . 80 }",
    ]


def test_without_a_backend_no_rule_is_left():
    host = Loading()
    balancer = Rebalancing(replace(SERVICE, backends=SERVICE.backends[:1]), Places("b", PurePosixPath("/run/b"), host))
    balancer.remove(0)
    assert host.loaded == [["flush chain ip pinchpoint-service prerouting"]]


def test_a_reload_replaces_the_whole_table():
    assert list(again(SERVICE)) == ["delete table ip pinchpoint-service", *ruleset(SERVICE)]


def test_syns_of_the_service_are_not_tracked_and_the_kernel_s_own_are_dealt():
    text = "\n".join(syn_proxy(SERVICE))
    of_service = "ip daddr 10.0.0.100 tcp dport 80"
    assert f"{of_service} tcp flags & (fin|syn|rst|ack) == syn notrack" in text
    assert f"{of_service} ct state invalid,untracked synproxy mss 1460" in text
    assert f"{of_service} counter dnat ip to numgen inc mod 3" in text.partition("hook output")[2]


def test_a_proxy_of_syns_needs_a_service():
    with pytest.raises(InputError, match="expected false without"):
        scenario_of("nft", "syn_proxy = true")
    assert scenario_of("nft").dut.syn_proxy is False

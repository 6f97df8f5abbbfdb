"""A service as nftables' rules and addresses."""

from dataclasses import replace

from pinchpoint.dut import addresses
from pinchpoint.dut.nft.balancing import ruleset
from pinchpoint.model.scenario import Backend, Mode, Range, Scheduler, Service

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


def test_a_hash_is_of_the_client_s_address_and_port():
    text = "\n".join(ruleset(replace(SERVICE, scheduler=Scheduler.HASH)))
    assert "dnat ip to jhash ip saddr . tcp sport mod 3" in text


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

"""A service as a switch has it: its group and rules, what is refused, what bounds its connections."""

import re
from dataclasses import replace
from pathlib import PurePosixPath

import pytest

from pinchpoint.bench.resource import Command, TextFile
from pinchpoint.dut import registry
from pinchpoint.dut.device import Pages
from pinchpoint.dut.ovs import balancing
from pinchpoint.dut.ovs.balancing import CLOSED_S, SWEEP_S, Connections, policies
from pinchpoint.dut.ovs.places import OvsPlaces, UnixctlError
from pinchpoint.dut.places import Places
from pinchpoint.host.local import Local
from pinchpoint.model.errors import BenchError, InputError
from pinchpoint.model.limits import Resource
from pinchpoint.model.scenario import Backend, Mode, Range, Scheduler, Service, Transport
from pinchpoint.scenario import parse

SERVICE = Service(
    address="10.0.0.100",
    port=80,
    scheduler=Scheduler.HASH,
    mode=Mode.FULL_NAT,
    clients=Range(0x0A000101, 2),
    local=Range(0x0A0100F0, 2),
    client_port="left",
    server_port="right",
    backends=(Backend("10.1.0.1", 8080), Backend("10.1.0.2", 80), Backend("10.1.0.3", 80)),
)
DNAT = replace(SERVICE, mode=Mode.DNAT, local=None)
TEXT = """
measure = "verify"
[dut]
kind = "ovs"
datapath = "af_packet"
pmd_cpus = [1]
[service]
address = "10.0.0.100"
port = 80
scheduler = "hash"
local = "10.1.0.240-10.1.0.241"
[[backend]]
address = "10.1.0.1"
[[port]]
name = "left"
[[port]]
name = "right"
[engine]
cpus = [0]
"""
PLACES = OvsPlaces("b1", PurePosixPath("/run/b1"), Local())


def read(*changes):
    text = TEXT
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return parse(text, "ovs.toml")


def planned(wanted):
    return (
        registry.device_of(wanted)
        .bench(wanted, Places("b1", PLACES.directory, Local()))
        .resources(Pages(0, 0), ["engine"])
    )


@pytest.mark.parametrize("count", [1, 2, 3, 7, 64, 85, 86, 128, 129, 256])
def test_backends_share_the_values_of_the_hash_evenly(count):
    backends = tuple(Backend("10.1.0.1", 1 + number) for number in range(count))
    words = re.findall(r"weight:(\d+),.*?nat\(dst=[^)]*:(\d+)\)", balancing.group(replace(SERVICE, backends=backends)))
    weights = [int(weight) for weight, _ in words]
    by_backend = [sum(int(weight) for weight, port in words if int(port) == 1 + n) for n in range(count)]
    assert len(set(by_backend)) == 1
    assert 128 < -(-sum(weights) // min(weights)) <= 256, "so the group has 256 values, and not more than it can have"


def test_full_nat_translates_the_destination_and_then_the_source():
    text = "\n".join(balancing.rules(replace(SERVICE, local_ports=Range(2000, 10))))
    assert (
        "table=0,priority=60000,in_port={left},tcp,nw_dst=10.0.0.100,tp_dst=80,actions=ct(zone=1,nat,table=101)" in text
    )
    assert "ct_state=+trk+new,actions=group:1" in text
    assert "actions=ct(commit,zone=2,nat(src=10.1.0.240-10.1.0.241:2000-2009),table=104)" in text
    assert "in_port={right},tcp,nw_src=10.1.0.1,tp_src=8080,actions=ct(zone=2,nat,table=105)" in text


def test_datagrams_take_the_same_way_and_have_time_outs_of_udp():
    service = replace(SERVICE, transport=Transport.UDP, closed_s=4.0)
    text, of_tcp = ("\n".join(balancing.rules(wanted)) for wanted in (service, SERVICE))
    assert text == of_tcp.replace("tcp", "udp")
    assert balancing.timeouts(service) == {"udp_first": "4", "udp_multiple": "4", "udp_single": "4"}
    assert balancing.timeouts(replace(service, closed_s=None)) == {}


def test_without_full_nat_there_is_one_zone():
    text = "\n".join(balancing.rules(DNAT))
    assert "zone=2" not in text
    assert "in_port={right},tcp,nw_src=10.1.0.1,tp_src=8080,actions=ct(zone=1,nat,table=106)" in text
    assert balancing.zones(DNAT) == (1,)


def test_the_switch_answers_for_the_virtual_server_and_the_local_addresses():
    (rules,) = [
        resource
        for resource in planned(read())
        if isinstance(resource, TextFile) and resource.path.endswith("service-rules.txt")
    ]
    assert [(count, "arp_tpa={ipv4:10.0.0.100}" in rule) for rule, count, _ in rules.series] == [(1, True), (2, False)]
    assert all("in_port={" not in line for line in rules.lines), "ports by their numbers"


def test_settings_of_the_service_are_commands_to_the_switch():
    wanted = read(("port = 80\n", "port = 80\nmax_connections = 5000\nclosed_s = 7\n"))
    commands = [" ".join(resource.argv) for resource in planned(wanted) if isinstance(resource, Command)]
    assert any("dpctl/ct-set-maxconns 5000" in command for command in commands)
    zones = [command.partition("add-zone-tp netdev ")[2] for command in commands if "add-zone-tp" in command]
    assert zones == [f"zone={zone} tcp_close=7 tcp_time_wait=7" for zone in (1, 2)]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ([('scheduler = "hash"\n', "")], 'service.scheduler: expected "hash" of ovs; "round-robin" is done by'),
        ([('"af_packet"', '"kernel"')], 'dut.datapath: expected "dpdk", "af_xdp" or "af_packet"'),
        (
            [('local = "10.1.0.240-10.1.0.241"', 'mode = "dnat"\nlocal_ports = "2000-2009"')],
            'service.local_ports: expected none with mode = "dnat"',
        ),
        (
            [("pmd_cpus", "conntrack_limit = 9\npmd_cpus"), ("port = 80\n", "port = 80\nmax_connections = 9\n")],
            "dut.conntrack_limit: expected none with service.max_connections",
        ),
        ([("port = 80\n", "port = 80\nclosed_s = 1.5\n")], "service.closed_s: expected whole seconds, found 1.5"),
        (
            [
                (
                    'name = "right"',
                    'name = "right"\nbridge = "edge"\n[[bridge]]\nname = "edge"\nrules = "actions=NORMAL"',
                )
            ],
            'port[2].bridge: expected "br0", which balances the [service]',
        ),
    ],
)
def test_what_cannot_be_is_refused_with_the_reason(changes, words):
    with pytest.raises(InputError) as error:
        read(*changes)
    assert words in error.value.message


class Switch:
    """Answers its control socket."""

    def __init__(self, **answers):
        self.answers = answers
        self.asked = []

    def call(self, command, *_):
        self.asked.append(command)
        name = command.partition("/")[2].replace("-", "_")
        if name == "ct_get_sweep_interval" and name not in self.answers:
            raise UnixctlError(f"{command}: not a valid command")
        return self.answers.get(name, "")


def limits(service, **answers):
    limits_read = Connections(service, PLACES, Switch(**answers)).limits()
    return {limit.resource: limit for limit in limits_read}


def test_a_connection_with_full_nat_has_two_entries_and_occupies_them_until_they_are_swept():
    read_back = limits(SERVICE, ct_get_maxconns="3000000\n")
    assert (read_back[Resource.TABLE].size, read_back[Resource.TABLE].held_s) == (1_500_000, CLOSED_S + SWEEP_S)
    ports = read_back[Resource.LOCAL_PORTS]
    assert (ports.size, ports.held_s) == (2 * 64_512 * 3, CLOSED_S)


def test_a_switch_that_says_how_often_it_sweeps_is_believed():
    read_back = limits(replace(DNAT, closed_s=5.0), ct_get_maxconns="1000", ct_get_sweep_interval="500")
    assert [(limit.size, limit.held_s) for limit in read_back.values()] == [(1000, 5.5)]


def test_a_flush_asks_until_nothing_is_tracked():
    switch = Switch(ct_get_nconns="0\n")
    table = Connections(SERVICE, PLACES, switch)
    table.flush()
    assert switch.asked == ["dpctl/flush-conntrack", "dpctl/ct-get-nconns"]
    assert table.tracked() == 0


def test_an_answer_that_is_no_number_is_an_error():
    with pytest.raises(BenchError, match="ct-get-nconns says 'many'"):
        Connections(SERVICE, PLACES, Switch(ct_get_nconns="many")).tracked()


def test_time_outs_are_read_by_zone():
    text = "Zone:1, Timeout Policies: tcp_time_wait=7 tcp_close=7\nZone:2, Timeout Policies: system default\n"
    assert policies(text) == {1: {"tcp_close": "7", "tcp_time_wait": "7"}, 2: {}}

"""What a balancer does, as a scenario file says it."""

from dataclasses import replace

import pytest

from pinchpoint.dut import registry
from pinchpoint.dut.nft import DEVICE
from pinchpoint.measure.sockets.run import ANY, Ends, requests
from pinchpoint.model.errors import InputError
from pinchpoint.model.scenario import (
    Backend,
    Established,
    Family,
    Mode,
    ProxyHeader,
    Range,
    Scheduler,
    Segment,
    Transport,
)
from pinchpoint.scenario import parse

TEXT = """
measure = "verify"
[dut]
kind = "nft"
[service]
address = "10.0.0.100"
port = 80
clients = "10.0.1.1-10.0.1.4"
local = "10.1.0.240-10.1.0.241"
[[backend]]
address = "10.1.0.1"
port = 8080
[[backend]]
address = "10.1.0.2"
[[port]]
name = "left"
[[port]]
name = "right"
"""


STREAM = '[[stream]]\nfrom = "left"\nto = "right"\n'
NO_BACKENDS = [('[[backend]]\naddress = "10.1.0.1"\nport = 8080\n[[backend]]\naddress = "10.1.0.2"\n', "")]


def _established(text):
    return ('[[port]]\nname = "left"', f'[established]\n{text}\n[[port]]\nname = "left"')


def read(*changes):
    text = TEXT
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return parse(text, "service.toml")


def problem(*changes):
    with pytest.raises(InputError) as error:
        read(*changes)
    return error.value.message


V6 = [
    ('"10.0.0.100"', '"fd00:0::64"'),
    ('"10.0.1.1-10.0.1.4"', '"fd00:1::1-fd00:1::4"'),
    ('"10.1.0.240-10.1.0.241"', '"fd00:2::f0-fd00:2::f1"'),
    ('"10.1.0.1"', '"fd00:2::1"'),
    ('"10.1.0.2"', '"fd00:2::2"'),
]
DIRECT = [
    ('"nft"', '"reference"'),
    ('local = "10.1.0.240-10.1.0.241"\n', ""),
    ("port = 80\n", 'port = 80\nmode = "direct-return"\n'),
]


def test_a_service_of_ipv6_has_its_addresses_in_their_usual_form():
    service = read(*V6).service
    assert service is not None
    assert (service.end, service.family) == ("[fd00::64]:80", Family.IPV6)
    assert service.locals == ("fd00:2::f0", "fd00:2::f1")
    assert service.clients.as_addresses() == "fd00:1::1-fd00:1::4"
    assert [backend.end for backend in service.backends] == ["[fd00:2::1]:8080", "[fd00:2::2]:80"]


def test_the_load_of_a_service_may_have_more_cpus_than_ports():
    scenario = read(("[service]\n", "[engine]\ncpus = [2, 3, 4]\n[service]\n"))
    assert scenario.engine.cpus == (2, 3, 4)


def test_a_proxy_takes_clients_of_one_family_to_backends_of_the_other():
    service = read(*V6[:2], ('"nft"', '"haproxy"')).service
    assert service is not None
    assert service.family is Family.NAT64


def test_a_direct_return_has_backends_of_the_service_s_port():
    service = read(*DIRECT, ("port = 8080\n", "")).service
    assert service is not None
    assert (service.is_direct, service.local) == (True, None)


SEVERAL = [('"10.0.0.100"', '"6.6.247.3-6.6.247.5"'), ("port = 80\n", 'port = "80-84"\n')]
WEIGHED = ('"10.1.0.2"', '"10.1.0.2"\nweight = 2')


def test_a_range_of_addresses_and_of_ports_are_virtual_servers_of_the_same_backends():
    service = read(*SEVERAL).service
    assert service is not None
    assert (service.virtual_count, service.end) == (15, "6.6.247.3-6.6.247.5:80-84")
    assert service.listens == ("6.6.247.3:80-84", "6.6.247.4:80-84", "6.6.247.5:80-84")
    alone = read().service
    assert alone is not None
    assert (alone.virtual_count, alone.listens) == (1, ("10.0.0.100:80",))


def test_weights_are_told_without_their_common_divisor():
    service = read(('"10.1.0.1"', '"10.1.0.1"\nweight = 6'), ('"10.1.0.2"', '"10.1.0.2"\nweight = 4')).service
    assert service is not None and service.weights == (3, 2)
    alike = read(('"10.1.0.1"', '"10.1.0.1"\nweight = 6'), ('"10.1.0.2"', '"10.1.0.2"\nweight = 6')).service
    assert alike is not None and alike.weights == (1, 1)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ([*SEVERAL, ('"nft"', '"dpvs"')], "at most 1 virtual server of dpvs; haproxy, nft, nginx have several"),
        (
            [*SEVERAL, ('"verify"', '"rates"')],
            'one virtual server with measure = "rates", whose frames are all for one',
        ),
        ([('"10.0.0.100"', '"10.0.0.100-10.0.1.2"')], "10.0.1.1-10.0.1.2 is in service.clients and in service.address"),
        ([("port = 80\n", "port = 0\n")], "service.port: expected ports from 1 on"),
        (
            [WEIGHED, ('"nft"', '"dpvs"')],
            "backend[2].weight: expected 1 of dpvs; haproxy, nft, nginx, reference have weights",
        ),
        (
            [WEIGHED, ('"nft"', '"nginx"'), ("port = 80\n", 'port = 80\nscheduler = "least-connections"\n')],
            "what a weight does there is not verified",
        ),
        ([("port = 80\n", 'port = 80\nscheduler = "least-connections"\n')], "is done by haproxy, nginx"),
        ([("port = 80\n", "port = 80\nhealth_s = 1\n")], "nft has no such setting; it can be set for haproxy, nginx"),
        (
            [("port = 80\n", "port = 80\nhealth_s = 1\n"), ('"nft"', '"nginx"'), ('"verify"', '"connections"')],
            'expected none with measure = "connections"',
        ),
        (
            [("port = 80\n", 'port = 80\nscheduler = "source-hash"\n'), ('"verify"', '"change"')],
            "shares of connections are not promised",
        ),
    ],
)
def test_what_a_kind_of_balancer_cannot_is_refused_with_those_that_can(changes, words):
    assert words in problem(*changes)


def test_a_service_has_defaults_that_name_its_ports():
    service = read().service
    assert service is not None
    assert (service.scheduler, service.mode) == (Scheduler.ROUND_ROBIN, Mode.FULL_NAT)
    assert (service.client_port, service.server_port) == ("left", "right")
    assert service.clients == Range(0x0A000101, 4) and service.locals == ("10.1.0.240", "10.1.0.241")
    assert service.backends == (Backend("10.1.0.1", 8080), Backend("10.1.0.2", 80))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ([('local = "10.1.0.240-10.1.0.241"\n', "")], 'mode = "full-nat" needs addresses'),
        ([("port = 80\n", 'port = 80\nmode = "dnat"\n')], "expected none with mode"),
        ([('"10.1.0.2"', '"10.1.0.1"\nport = 8080')], 'found "10.1.0.1:8080" again'),
        ([("port = 80\n", 'port = 80\nserver_port = "left"\n')], "expected a port other than client_port"),
        ([("port = 80\n", 'port = 80\nserver_port = "middle"\n')], "the name of a [[port]] (left, right)"),
        ([("port = 80\n", 'port = 80\nscheduler = "fair"\n')], '"round-robin"'),
        ([("port = 80\n", "port = 80\nmax_connections = 9\n")], "nft has no such setting"),
        (
            [("port = 80\n", 'port = 80\nlocal_ports = "2000-2009"\nclosed_s = 100\n')],
            "which makes 40 places, each held for closed_s = 100; 300 connections at 200 per second need 300",
        ),
        ([('"nft"', '"bridge"')], "a device that balances ("),
        ([*V6, ('"nft"', '"dpvs"')], "IPv4 of dpvs; IPv6 is done by "),
        (V6[:2], "IPv4 or IPv6 of nft; NAT64 is done by envoy, haproxy, nginx"),
        (V6[:1], "addresses of the family of service.address, fd00::64"),
        (V6[:4], "an address of the family of fd00:2::1"),
        ([*V6[:2], *V6[3:]], "addresses of the backends' family, as fd00:2::1"),
        ([('"10.0.0.100"', '"::1"')], "the same of IPv6, like"),
        ([("10.0.1.4", "fd00::4")], "the same of IPv6"),
        (DIRECT, "80, the service's, with mode"),
        ([*DIRECT, ("port = 8080\n", ""), ("10.1.0.2", "10.1.0.1")], "an address of its own with mode"),
        ([*DIRECT[1:], ("port = 8080\n", "")], '"direct-return" is done by ipvs, reference'),
        ([('"10.0.0.100"', '"10.0.0"')], '"a.b.c.d"'),
        ([('"verify"', '"blocked"')], '"verify" or "burst" or "load"'),
        ([('"verify"', '"rates"'), *NO_BACKENDS], "expected at least 1 [[backend]], found none"),
        (
            [('"verify"', '"rates"'), ('[[port]]\nname = "left"', f'{STREAM}[[port]]\nname = "left"')],
            "stream[1]: expected",
        ),
        ([('"verify"', '"rates"'), _established("connections = 258_045")], "at most 258,044: service.clients has 4"),
        ([('"verify"', '"rates"'), _established("frame_bytes = 75")], "a whole number from 76 to 9,022, found 75"),
        ([_established("connections = 5")], 'expected measure = "burst"'),
    ],
)
def test_a_service_that_cannot_be_says_what_to_write(changes, words):
    assert words in problem(*changes)


def test_frames_on_connections_that_stand_follow_from_the_service():
    scenario = read(('"verify"', '"rates"'), _established("connections = 10\nframe_bytes = 128"))
    assert scenario.established == Established(10, 128, 5000.0, 20.0)
    (stream,) = scenario.streams
    assert (stream.tx_port, stream.rx_port, stream.frame_bytes, stream.flows) == ("left", "right", 128, 10)
    assert (stream.ipv4_src, stream.ipv4_dst) == (Range(0x0A000101, 4), Range(0x0A000064, 1))
    assert (stream.udp_src, stream.udp_dst) == (Range(1025, 3), Range(80, 1))
    assert stream.order[:2] == ("ipv4_src", "udp_src"), "as the engine numbers connections"
    assert isinstance(stream.segment, Segment)


def test_without_a_table_of_their_own_as_many_connections_stand_as_by_default():
    assert read(('"verify"', '"rates"')).established == Established(1000, 78, 5000.0, 20.0)
    assert read().established is None


def test_connections_that_stand_need_a_service():
    with pytest.raises(InputError, match=r"established: expected a \[service\] to which"):
        parse(
            f'measure = "rates"\n[established]\n[[port]]\nname = "left"\n[[port]]\nname = "right"\n{STREAM}', "x.toml"
        )


def test_no_frame_passes_through_a_kind_that_ends_connections(monkeypatch):
    services = replace(DEVICE.keys.services, terminates=True)
    ends = replace(DEVICE, keys=replace(DEVICE.keys, services=services))
    whole = registry.device
    monkeypatch.setattr(registry, "device", lambda kind: ends if kind == "nft" else whole(kind))
    assert read().service is not None
    said = problem(('"verify"', '"rates"'))
    assert 'or "verify": nft' in said and "nft ends each connection and opens one of its own" in said


@pytest.mark.parametrize(
    ("change", "at", "shared"),
    [
        (
            ('"10.1.0.2"', '"10.0.0.100"'),
            "backend[2].address",
            "10.0.0.100 is in backend.address and in service.address",
        ),
        (('"10.1.0.2"', '"10.1.0.241"'), "backend[2].address", "10.1.0.241 is in backend.address and in service.local"),
        (
            ('"10.0.1.1-10.0.1.4"', '"10.0.0.1-10.0.0.200"'),
            "service.clients",
            "10.0.0.100 is in service.clients and in service.address",
        ),
        (
            ('"10.0.1.1-10.0.1.4"', '"10.1.0.0-10.1.0.1"'),
            "backend[1].address",
            "10.1.0.1 is in backend.address and in service.clients",
        ),
        (
            ('"10.0.1.1-10.0.1.4"', '"10.1.0.200-10.1.0.240"'),
            "service.clients",
            "10.1.0.240 is in service.clients and in service.local",
        ),
    ],
)
def test_parties_that_share_an_address_are_refused_with_both_keys(change, at, shared):
    message = problem(change)
    assert at in message
    assert f"{shared}: each needs addresses of its own" in message


@pytest.mark.parametrize(
    ("change", "key"),
    [
        (('"10.0.0.100"', '"127.0.0.1"'), "service.address: expected a unicast address, not"),
        (('"10.0.0.100"', '"224.0.0.1"'), "service.address: expected a unicast address, not"),
        (('"10.0.0.100"', '"255.255.255.255"'), "service.address: expected a unicast address, not"),
        (('"10.1.0.2"', '"0.0.0.0"'), "backend[2].address: expected a unicast address, not"),
        (
            ('"10.1.0.240-10.1.0.241"', '"127.0.0.1-127.0.0.9"'),
            "service.local: expected unicast addresses, not a loopback",
        ),
    ],
)
def test_an_address_that_no_host_can_have_is_refused(change, key):
    assert key in problem(change)


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ("answer_bytes = 1", "expected a whole number from 64 to 1,048,576, or with a unit"),
        ("answer_bytes = 1_048_577", "expected a whole number from 64 to 1,048,576"),
        ('answer_bytes = "2 MiB"', 'found "2 MiB"'),
        ('answer_bytes = "64 KB"', 'found "64 KB"'),
        ("requests = 50\nrequest_bytes = 1440", "connections.requests: expected at most 42 of 1,440 bytes"),
    ],
)
def test_what_the_engine_can_neither_ask_nor_answer_is_refused(keys, words):
    asked = ('"verify"\n', f'"connections"\n[connections]\n{keys}\n')
    assert words in problem(asked)


def test_answers_have_units_and_several_segments_are_of_tcp_and_through_the_device():
    def asking(size):
        return ('"verify"\n', f'"connections"\n[connections]\nanswer_bytes = {size}\n')

    assert read(asking('"64 KiB"')).measure.answer_bytes == 65_536
    assert read(asking('"1MiB"')).measure.answer_bytes == 1_048_576
    for changes in ([*DIRECT, ("port = 8080\n", "")], [("port = 80\n", 'port = 80\ntransport = "udp"\n')]):
        words = problem(*changes, asking(1441))
        assert "connections.answer_bytes: expected at most 1,440 with service." in words


STAMPED = ("port = 80\n", "port = 80\ntimestamps = true\n")


def test_time_stamps_take_room_from_requests_and_from_answers_of_one_segment():
    assert read(STAMPED).service.timestamps and not read().service.timestamps
    for key in ("request_bytes", "answer_bytes"):
        asking = ('"verify"\n', f'"connections"\n[connections]\n{key} = 1429\n')
        changes = [*DIRECT, ("port = 8080\n", "")] if key == "answer_bytes" else []
        assert f"connections.{key}: expected at most 1,428 with service." in problem(*changes, STAMPED, asking)


@pytest.mark.parametrize(
    ("key", "why"),
    [
        ('protocol = "udp"', 'write service.transport = "udp"'),
        ("tls = true", "has no TLS"),
        ("tcp_tw_reuse = 1", "key of [dut]"),
    ],
)
def test_what_the_engine_does_not_speak_is_refused_with_the_reason(key, why):
    message = problem(("port = 80\n", f"port = 80\n{key}\n"))
    assert f"service.{key.partition(' ')[0]}: unknown key; " in message and why in message


UDP = ("port = 80\n", 'port = 80\ntransport = "udp"\n')


@pytest.mark.parametrize("measure", ["verify", "connections", "change"])
def test_over_udp_each_connection_is_one_request_and_its_answer(measure):
    scenario = read(UDP, ('"verify"\n', f'"{measure}"\n'))
    assert scenario.service is not None and scenario.service.transport is Transport.UDP
    assert (scenario.measure.requests, scenario.measure.hold_s) == (1, 0.0)
    assert read().service.transport is Transport.TCP


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            ('"nft"', '"haproxy"'),
            'service.transport: expected "tcp" of haproxy; "udp" is done by ipvs, nft, ovs, found "udp"',
        ),
        (('"verify"\n', '"capacity"\n'), '"tcp" with measure = "capacity": a datagram holds no connection open'),
        (('"verify"\n', '"verify"\n[verify]\nrequests = 2\n'), "verify.requests: expected 1 with service.transport"),
        (('"verify"\n', '"verify"\n[verify]\nprograms = true\n'), "verify.programs: expected false with"),
        (
            ('"verify"\n', '"connections"\n[connections]\nwork = "syn"\n'),
            'connections.work: expected "request" with service.transport = "udp", found "syn"',
        ),
        (('"verify"\n', '"change"\n[change]\nevent = "reset"\n'), "change.event: expected another with"),
        (('"udp"\n', '"udp"\ncloses = "backend"\n'), 'service.closes: expected none with transport = "udp"'),
        (('"udp"\n', '"udp"\nmode = "direct-return"\n'), 'service.mode: expected another with transport = "udp"'),
        (('"udp"\n', '"udp"\nopening_s = 3\n'), 'service.opening_s: expected none with transport = "udp"'),
        (('"nft"\n', '"nft"\nsyn_proxy = true\n'), "it has no SYNs"),
    ],
)
def test_what_only_tcp_has_is_refused_over_udp(change, words):
    assert words in problem(UDP, change)


def test_client_port_0_is_refused():
    message = problem(("port = 80\n", 'port = 80\nclient_ports = "0-0"\n'))
    assert "service.client_ports: expected ports from 1 on" in message


SOCKETS = [('"verify"\n', '"rr"\n'), ('"10.1.0.2"', '"10.1.0.2"\nport = 8080')]


@pytest.mark.parametrize(("measure", "kind"), [("rr", "rr"), ("crr", "crr"), ("bandwidth", "stream")])
def test_kernel_sockets_may_be_the_clients_and_the_backends_of_a_service(measure, kind):
    scenario = read(('"verify"\n', f'"{measure}"\n[engine]\ncpus = [0, 2]\n'), SOCKETS[1])
    assert (scenario.measure.client, scenario.measure.server) == ("left", "right")
    (asked,) = requests(Ends.of(scenario), ("ns-left", "ns-right"), "m")
    assert (asked.kind, asked.listen, asked.port, asked.target) == (kind, ANY, 8080, "10.0.0.100:80")
    assert asked.sources == ("10.0.1.1", "10.0.1.2", "10.0.1.3", "10.0.1.4")
    assert (asked.client.netns, asked.client.core, asked.server.netns, asked.server.core) == (
        "ns-left",
        0,
        "ns-right",
        2,
    )
    assert asked.close == "client"


def test_of_kernel_sockets_the_side_closes_that_the_service_says():
    scenario = read(*SOCKETS, ("port = 80\n", 'port = 80\ncloses = "backend"\n'))
    (asked,) = requests(Ends.of(scenario), ("ns-left", "ns-right"), "m")
    assert asked.close == "server"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            ('"10.1.0.2"\nport = 8080', '"10.1.0.2"\nport = 8081'),
            "backend[2].port: expected 8080, as backend[1].port is",
        ),
        (('"10.0.0.100"', '"10.0.0.100-10.0.0.101"'), 'with measure = "rr", whose clients connect to one'),
        (('"rr"\n', '"rr"\n[sockets]\nclient = "left"\n'), "sockets.client: expected none where there is a [service]"),
        (
            ('"rr"\n', '"rr"\n[sockets]\ntransport = "udp"\n'),
            'sockets.transport: expected "tcp" where there is a [service] with measure = "rr", found "udp"',
        ),
        (("port = 80\n", 'port = 80\ntransport = "udp"\n'), 'service.transport: expected "tcp" with measure = "rr"'),
        (('"10.0.1.1-10.0.1.4"', '"10.0.1.1-10.0.2.4"'), "service.clients: expected at most 256 addresses"),
        (
            ("port = 80\n", 'port = 80\nclient_ports = "2000-2999"\n'),
            "service.client_ports: expected none with measure",
        ),
        (('"nft"\n', '"haproxy"\n[[host]]\nname = "a"\naddress = "10.9.0.1/24"\ncpus = [0]\n'), "expected no [[host]]"),
        (("port = 80\n", 'port = 80\nserver_port = "left"\n'), "service.server_port: expected a port other than"),
    ],
)
def test_what_kernel_sockets_cannot_do_with_a_service_is_refused(change, words):
    assert words in problem(*SOCKETS, change)


def test_kernel_sockets_of_a_service_are_of_ipv4_and_answer_through_the_device():
    assert 'service.address: expected IPv4 on both sides with measure = "rr"' in problem(SOCKETS[0], *V6)
    assert 'service.mode: expected another with measure = "rr"' in problem(SOCKETS[0], *DIRECT, ("port = 8080\n", ""))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ([*SOCKETS], 'service.timestamps: expected false with measure = "rr", whose kernel sockets have them'),
        ([('"verify"\n', '"load"\n')], 'service.timestamps: expected false with measure = "load", whose frames'),
    ],
)
def test_time_stamps_are_asked_for_where_the_engine_opens_the_connections(changes, words):
    assert words in problem(STAMPED, *changes)


def test_without_a_service_kernel_sockets_are_between_hosts_that_are_named():
    with pytest.raises(InputError, match=r"sockets.client: missing; expected 1 to 10 letters"):
        parse('measure = "rr"\n', "x.toml")


@pytest.mark.parametrize(("kind", "form"), [("haproxy", "v1"), ("haproxy", "v2"), ("nginx", "v1")])
def test_a_proxy_may_tell_backends_their_client(kind, form):
    service = read(('"nft"', f'"{kind}"'), ("port = 80\n", f'port = 80\nproxy_protocol = "{form}"\n')).service
    assert service is not None and service.proxy_protocol is ProxyHeader(form)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ([], "nft has no such setting; it can be set for haproxy, nginx"),
        ([('"nft"', '"nginx"'), ('"v1"', '"v2"')], 'service.proxy_protocol: expected "v1" where dut.kind is "nginx"'),
        (
            [('"nft"', '"haproxy"'), ('"verify"\n', '"verify"\n[verify]\nprograms = true\n')],
            "verify.programs: expected false with service.proxy_protocol",
        ),
        (
            [('"nft"', '"haproxy"'), ('"verify"\n', '"connections"\n[connections]\nrequest_bytes = 1334\n')],
            "connections.request_bytes: expected at most 1,333 with service.proxy_protocol",
        ),
        ([('"nft"', '"haproxy"'), *SOCKETS], 'service.proxy_protocol: expected none with measure = "rr"'),
    ],
)
def test_a_header_that_nobody_sends_or_reads_is_refused(changes, words):
    assert words in problem(("port = 80\n", 'port = 80\nproxy_protocol = "v1"\n'), *changes)


TAGGED = ("port = 80\n", "port = 80\nvlan = 100\n")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ([('"nft"', '"dpvs"')], "dpvs has no such setting; it can be set for envoy, haproxy, nft, nginx"),
        ([('"verify"', '"rates"')], 'service.vlan: expected none with measure = "rates", whose frames have no tags'),
        ([('"left"', '"left"\ninterface = "eth9"')], "service.vlan: expected none with port[1].interface"),
        ([('"verify"\n', '"verify"\n[guest]\nkernel = "qemu"\n')], "service.vlan: expected none with a [guest]"),
        ([("vlan = 100", "vlan = 4095")], "service.vlan: expected a whole number from 1 to 4,094"),
    ],
)
def test_tags_that_a_bench_has_not_are_refused(changes, words):
    assert read(TAGGED).service.vlan == 100
    assert words in problem(TAGGED, *changes)

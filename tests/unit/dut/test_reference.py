"""The device of known truth: its keys, its command line, and what it prints of itself."""

from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinchpoint.bench.resource import Namespace, Relay, Veth
from pinchpoint.dut import registry
from pinchpoint.dut.device import Pages
from pinchpoint.dut.places import Places
from pinchpoint.dut.reference import Balancer, Direction, Forwarder, Gaps, parse
from pinchpoint.host.local import Local
from pinchpoint.model.causes import Sign
from pinchpoint.model.errors import DutError, InputError
from pinchpoint.model.offload import OffloadLimit
from pinchpoint.scenario import parse as parse_scenario

SCENARIO = """
[dut]
kind = "reference"
{dut}
[[port]]
name = "left"
[[port]]
name = "right"
[engine]
cpus = [0]
[[stream]]
from = "left"
to = "right"
"""
ONE = (
    '{"received":10,"sent":2,"waiting":1,"new_flows":3,"software_frames":6,'
    '"drops":{"rx":1,"too_long":0,"ring":2,"table":1,"rules":[1,1],"tx":1,"full":0}}'
)
LINE = (
    '{"type":"forward","elapsed_s":2.0,"busy_share":0.5,"gaps":{"total_s":0.001},"offloaded":true,'
    f'"directions":[{ONE},{ONE}],"truth":[{ONE},{ONE}]}}'
)


def scenario(dut=""):
    return parse_scenario(SCENARIO.format(dut=dut), "x.toml")


PLACES = Places("b1", PurePosixPath("/run/pinchpoint/b1"), Local())


def resources(dut):
    wanted = scenario(dut)
    return registry.device_of(wanted).bench(wanted, PLACES).resources(Pages(500, 500), ["engine"])


def argv(dut):
    (process,) = (resource for resource in resources(dut) if isinstance(resource, Relay))
    return process.argv


def test_every_key_is_an_option_of_the_forwarder():
    words = " ".join(
        argv(
            'rate_fps = 5e5\nring = 64\nnew_flow_us = 2.5\ndrop = "dst=198.19.0.1,every=10"\ntx_loss = 0.25\n'
            'pause_every_ms = 100\npause_ms = 0.5\noffload = "two-way"\noffload_rate_fps = 2e6\noffloaded = true\n'
            'hides = "tx"\nseed = 7'
        )
    )
    assert words.endswith(
        "--rate 500000 --ring 64 --new-flow-cost 2.5us --drop dst=198.19.0.1,every=10 --loss tx:share=0.250000000 "
        "--pause 100ms:0.5ms --offload two-way --offload-rate 2000000 --offloaded --seed 7 --hide tx"
    )


def test_its_ports_may_be_ends_of_veth_pairs():
    wanted = scenario('io = "veth"')
    device = registry.device_of(wanted)
    ends = [f"af_packet:{name}@{PLACES.dut_netns}" for name in ("left", "right")]
    assert list(argv('io = "veth"')[:4]) == ["engine", "forward", *ends]
    made = resources('io = "veth"')
    assert [resource.name for resource in made if isinstance(resource, Namespace)] == [
        PLACES.dut_netns,
        PLACES.engine_netns,
    ]
    assert sum(isinstance(resource, Veth) for resource in made) == 2
    assert not any(isinstance(resource, Veth) for resource in resources(""))
    assert device.pages(wanted) == 0, "no ring of DPDK"
    end = device.bench(wanted, PLACES).attachment(0, wanted.ports[0])
    assert (end.backend, end.device, end.netns, end.ring_behind) == ("af_packet", "left", PLACES.engine_netns, 1024)


@pytest.mark.parametrize(
    ("dut", "message"),
    [
        ('drop = "dst=everything"', "x.toml:4: dut.drop: expected a rule such as"),
        ("pause_ms = 3", "x.toml:4: dut.pause_ms: expected less than dut.pause_every_ms, found 3"),
        ("pause_every_ms = 3\npause_ms = 3", "x.toml:5: dut.pause_ms: expected less than dut.pause_every_ms, found 3"),
        ("offload_rate_fps = 1e6", 'dut.offload: expected "all" or "two-way" with dut.offload_rate_fps, found ""'),
        ("cpus = [1, 2]", "x.toml:4: dut.cpus: expected one CPU, found [1, 2]"),
        ('hides = "all"', "x.toml:4: dut.hides: expected"),
        ('datapath = "dpdk"', "dut.datapath"),
    ],
)
def test_a_wrong_key_is_named_with_its_line(dut, message):
    with pytest.raises(InputError) as refused:
        scenario(dut)
    assert message in str(refused.value)


def test_the_counters_of_an_account_lead_from_place_to_place():
    account = parse(LINE, Forwarder)
    assert account.offloaded
    seen = account.counters(("left", "right")) | account.more(("left", "right"))[0]
    at_left = {name: value for name, value in seen.items() if "/left/" in name}
    assert at_left == {
        "reference/port/left/received": 10,
        "reference/port/left/rx": 1,
        "reference/port/left/too_long": 0,
        "reference/port/left/ring": 2,
        "reference/port/left/table": 1,
        "reference/port/left/rules": 2,
        "reference/port/left/new_flows": 3,
        "reference/port/left/software_frames": 6,
        "reference/port/left/tx": 1,
        "reference/port/left/full": 0,
        "reference/port/left/sent": 2,
        "reference/port/left/accepted": 9,
        "reference/port/left/queued": 7,
        "reference/port/left/forwarded": 3,
    }


def test_of_an_offload_that_needs_a_reply_it_is_known_what_keeps_frames_in_software():
    seen = {"reference/port/left/software_frames": 60.0, "reference/port/left/queued": 80.0}
    device = registry.device("reference")
    assert device.offload_limits(seen) == {}, "a flag that lies for no reason that is known"
    assert device.offload_limits({**seen, "reference/needs_reply": 1.0}) == {OffloadLimit.ONE_WAY: 0.75}


def test_what_came_is_counted_at_one_port_and_what_left_at_the_other():
    directions = (Direction(5, 4, 0, {}, software_frames=5), Direction(0, 0, 0, {}))
    seen = Forwarder(1.0, 0.5, directions, Gaps(0.0), offloaded=False, truth=directions).counters(("left", "right"))
    assert (seen["reference/port/left/received"], seen["reference/port/right/sent"]) == (5, 4)
    assert (seen["reference/port/right/received"], seen["reference/port/left/sent"]) == (0, 0)


SERVED = """
measure = "verify"
[dut]
kind = "reference"
{dut}
[service]
address = "10.0.0.100"
port = 80
local = "10.1.0.240-10.1.0.241"
{service}
[[backend]]
address = "10.1.0.1"
port = 8080
[[backend]]
address = "10.1.0.2"
[[port]]
name = "left"
[[port]]
name = "right"
[engine]
cpus = [0]
"""


def served(dut="", service="", changed=("", "")):
    return parse_scenario(SERVED.format(dut=dut, service=service).replace(*changed), "x.toml")


def test_a_service_and_every_key_of_a_balancer_are_options():
    wanted = served(
        "rate_fps = 1e6\nring = 64\nnew_connection_us = 12.5\ntoa = true\nrewrites_seq = true\nunfair = [2, 1]\n"
        "leaks = true\nreuses_after = 5\nbreaks_payload = 6\ndrops_syn = 7\nslow_backend = 1\nslow_ms = 2.5",
        'scheduler = "hash"\nlocal_ports = "2000-2999"\nmax_connections = 500\nopening_s = 2\nestablished_s = 60\n'
        'closed_s = 5\nclient_port = "right"\nserver_port = "left"',
    )
    bench = registry.device_of(wanted).bench(wanted, Places("b1", PurePosixPath("/run/pinchpoint/b1"), Local()))
    (process,) = (resource for resource in bench.resources(Pages(500, 500), ["engine"]) if isinstance(resource, Relay))
    words = " ".join(process.argv)
    assert words.startswith("engine balance dpdk:net_vhost0,iface=/run/pinchpoint/b1/vhost-right.sock")
    assert words.endswith(
        "--service 10.0.0.100:80 --scheduler hash --backend 10.1.0.1:8080 --backend 10.1.0.2:80 "
        "--local 10.1.0.240-10.1.0.241 --local-ports 2000-2999 --connections 500 --opening-timeout 2s "
        "--established-timeout 60s --closed-timeout 5s --rate 1000000 --ring 64 --seed 1 --new-connection-cost 12.5us "
        "--toa --rewrite-seq --weights 2,1 --leak --reuse-after 5 --break-payload 6 --drop-syn 7 --slow-backend 1:2.5ms"
    )


@pytest.mark.parametrize(
    ("dut", "service", "message"),
    [
        ("new_flow_us = 1", "", "dut.new_flow_us: expected none with a [service]: the device balances"),
        ("unfair = [1]", "", "dut.unfair: expected 2 numbers, one for each [[backend]], and not only zeros"),
        ("unfair = [0, 0]", "", "dut.unfair: expected 2 numbers, one for each [[backend]], and not only zeros"),
        ("unfair = [0.5, 1]", "", "dut.unfair: expected a list of whole numbers from 0 to 1,000, found [0.5, 1]"),
        ("slow_backend = 2", "", "dut.slow_backend: expected the number of a [[backend]], 0 to 1, found 2"),
        ("", "max_connections = 5_000_000", "service.max_connections: expected at most 4,194,304 of reference"),
    ],
)
def test_what_a_balancer_cannot_be_is_named(dut, service, message):
    with pytest.raises(InputError) as refused:
        served(dut, service)
    assert message in str(refused.value)


def test_a_forwarder_has_no_key_of_a_balancer_and_toa_needs_local_addresses():
    with pytest.raises(InputError, match=r"dut\.leaks: expected none with no"):
        scenario("leaks = true")
    with pytest.raises(InputError, match=r'dut\.toa: expected none without mode = "full-nat"'):
        served("toa = true", 'mode = "dnat"', ('local = "10.1.0.240-10.1.0.241"\n', ""))


BALANCE_ONE = (
    '{"received":20,"sent":9,"consumed":2,"waiting":1,"drops":{"ring":1,"malformed":1,"checksum":0,"fragments":1,'
    '"hop_limit":0,"other":1,"too_long":0,"no_connection":1,"table_full":1,"no_local_port":1,"planted":0,'
    '"no_next_hop":0,"full":1}}'
)
BALANCE = (
    '{"type":"balance","elapsed_s":2.0,"busy_share":0.5,"gaps":{"total_s":0.001},"connections":{"created":7,"opening":1,"expired_closed":6},'
    '"table":{"size":100,"used":1},"local_ends":{"size":50,"used":1},"dealt":[4,3],"closed_timeout_s":7.0,'
    f'"directions":[{BALANCE_ONE},{BALANCE_ONE}]}}'
)


def test_the_counters_of_a_balancer_lead_from_place_to_place():
    seen = parse(BALANCE, Balancer).counters(("left", "right"))
    of = {name.rpartition("/")[2]: value for name, value in seen.items() if "/left/" in name}
    assert (of["received"], of["queued"], of["checked"], of["forwarded"], of["sent"]) == (18, 17, 14, 10, 9)
    # What waits is between the table and the other port.
    assert of["checked"] - of["forwarded"] - of["no_connection"] - of["table_full"] - of["no_local_port"] == 1
    counted = {drop.counter.rpartition("/")[2] for place in Balancer.graph().places for drop in place.drops}
    assert counted == {name for name in of if name not in ("received", "queued", "checked", "forwarded", "sent")}


@given(st.integers(0, len(BALANCE) - 1))
def test_a_damaged_account_of_a_balancer_is_an_error_that_shows_it(end):
    with pytest.raises(DutError, match="account cannot be read"):
        parse(BALANCE[:end], Balancer)


@given(st.text() | st.integers(0, len(LINE) - 1).map(lambda end: LINE[:end]))
def test_a_damaged_account_is_an_error_that_shows_it(line):
    with pytest.raises(DutError, match="account cannot be read"):
        parse(line, Forwarder)


def test_software_is_judged_by_the_frames_that_reached_it_however_many_the_ring_lost():
    signs = registry.device("reference").signs
    flooded = {
        "reference/offloaded": 1.0,
        "reference/port/left/received": 1_000_000.0,
        "reference/port/left/queued": 80_000.0,
        "reference/port/left/software_frames": 80_000.0,
    }
    assert signs(flooded) == {Sign.CLAIMED: 1.0, Sign.SOFTWARE: 1.0}
    assert signs({"reference/port/left/queued": 0.0}) == {}

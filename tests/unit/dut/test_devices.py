"""What every kind of device keeps to, and what the kernel's own devices plan and read."""

import json
import os
import re
import subprocess
from dataclasses import replace
from pathlib import PurePosixPath

import msgspec
import pytest
from support import OF_A_KIND, ONLY_SERVED, REQUIRED, scenario_of

from pinchpoint.account import ledger
from pinchpoint.bench import actions
from pinchpoint.bench.resource import AnyResource, Command, MarkedProcesses, RunDirectory, TextFile
from pinchpoint.causes.catalogue import BY_WORKLOAD
from pinchpoint.dut import registry, softirq
from pinchpoint.dut.device import Pages
from pinchpoint.dut.nft.tracking import conntrack_counters, ip_counters, named
from pinchpoint.dut.places import Places
from pinchpoint.engine.instrument import EngineResult
from pinchpoint.host.interface import CommandFailed
from pinchpoint.host.local import Local
from pinchpoint.model.causes import Sign
from pinchpoint.model.errors import InputError
from pinchpoint.model.hops import PORT, Party
from pinchpoint.scenario import parse
from pinchpoint.scenario.keys import ENGINE
from pinchpoint.scenario.keys import PORT as PORT_TABLE
from pinchpoint.scenario.plain import from_plain, to_plain

KINDS = registry.kinds()
CAUSES = [cause for rows in BY_WORKLOAD.values() for cause in rows]
KEY = re.compile(r"\b(dut|port|host|engine|service)\.(\w+)")
COMMON = {("port", key.name) for key in PORT_TABLE.keys} | {("engine", key.name) for key in ENGINE.keys}
PLACE = PurePosixPath("/run/pinchpoint/b1")
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
BACK = '[[stream]]\nfrom = "right"\nto = "left"\n'


def plan(wanted):
    return (
        registry.device_of(wanted)
        .bench(wanted, Places("b1", PLACE, Local()))
        .resources(Pages(100, 100_000), ["engine"])
    )


def argvs(wanted, program):
    return [resource.argv for resource in plan(wanted) if isinstance(resource, Command) and resource.argv[0] == program]


# The contract.


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_is_what_its_folder_is_called_and_reads_a_minimal_scenario(kind):
    device, wanted = registry.device(kind), scenario_of(kind)
    assert device.kind == kind == wanted.dut.kind
    assert device.title
    assert isinstance(wanted.dut, device.types.dut)
    assert [port.name for port in wanted.ports] == ["left", "right"]
    assert wanted.dut.cpus == (1,)
    assert device.moved(wanted, (3,)).dut.cpus == (3,)


@pytest.mark.parametrize("kind", KINDS)
def test_a_stored_scenario_is_read_as_it_was(kind):
    wanted = scenario_of(kind)
    stored = msgspec.json.decode(msgspec.json.encode(to_plain(wanted)))
    assert from_plain(stored) == wanted


@pytest.mark.parametrize("kind", KINDS)
def test_a_plan_runs_nothing_and_is_the_same_each_time(kind, monkeypatch):
    def refuse(*words, **_):
        raise AssertionError(f"planning ran {words}")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    monkeypatch.setattr(actions, "create", refuse)
    wanted = scenario_of(kind)
    planned = plan(wanted)
    assert planned == plan(wanted)
    assert [type(resource) for resource in planned[:2]] == [RunDirectory, MarkedProcesses]
    journal = msgspec.json.encode(planned)
    assert msgspec.json.decode(journal, type=list[AnyResource]) == planned, "what is not in the journal is not removed"
    assert all(resource.describe() for resource in planned)


@pytest.mark.parametrize("kind", KINDS)
def test_the_engine_opens_each_port(kind):
    wanted = scenario_of(kind)
    bench = registry.device(kind).bench(wanted, Places("b1", PLACE, Local()))
    ends = [bench.attachment(number, port) for number, port in enumerate(wanted.ports)]
    assert len({(end.backend, end.netns) for end in ends}) == 1
    assert all(name in end.device for name, end in zip(("left", "right"), ends, strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_every_place_of_the_graph_names_counters_and_every_drop_a_party(kind):
    graph = registry.device(kind).graph(scenario_of(kind))
    names = [place.name for place in graph.places]
    assert len(names) == len(set(names))
    for place in graph.places:
        assert place.entered and place.left, place.name
        drops = [*place.drops, *([place.rest] if place.rest else [])]
        for counter in (*place.entered, *place.left, *(drop.counter for drop in drops)):
            assert "/" in counter and "{" not in counter.replace(PORT, ""), counter
        assert all(drop.reason and drop.party in Party for drop in drops), place.name
    assert graph.refused.reason and graph.refused.party in Party


@pytest.mark.parametrize("kind", KINDS)
def test_a_key_of_another_kind_is_an_error_that_names_both(kind):
    own = {key.name for key in registry.device(kind).keys.dut}
    for other in KINDS:
        for key in {key.name for key in registry.device(other).keys.dut} - own:
            with pytest.raises(InputError, match=f'dut.{key}.*"{other}".*this one is "{kind}"') as error:
                scenario_of(kind, dut=f"{key} = 1")
            assert error.value.exit_code == 2


def keys_named(words):
    """The scenario's keys that advice names, by table."""
    return {(table, key) for text in words for table, key in KEY.findall(text)}


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_kind_advises_names_no_key_that_it_has_not(kind):
    device = registry.device(kind)
    advised = keys_named(words for cause in CAUSES for words in device.advice(cause.name, {}))
    own = {("dut", key.name) for key in device.keys.dut} | {("port", key.name) for key in device.keys.port}
    of_service = {("service", option) for option in (device.keys.services.options if device.keys.services else ())}
    assert advised <= own | of_service | COMMON


def test_what_a_cause_advises_for_any_device_names_keys_of_every_kind():
    assert {("port", "ring"), ("engine", "cpus")} <= keys_named(cause.mend for cause in CAUSES) <= COMMON


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_advises_against_causes_of_the_catalogue_and_says_what_its_figures_are(kind):
    device = registry.device(kind)
    assert not device.advice("no such cause", {})
    assert all(figure.title and figure.meaning for figure in device.figures.values())


@pytest.mark.parametrize("kind", KINDS)
def test_a_machine_that_lacks_something_is_told_what_provides_it(kind, monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    missing = [probe for probe in registry.device(kind).needs(scenario_of(kind), Local()) if not probe.ok]
    assert missing and all(probe.detail and probe.hint for probe in missing)


def test_an_unknown_kind_is_an_error_that_lists_the_kinds():
    with pytest.raises(InputError) as error:
        scenario_of("router")
    assert error.value.exit_code == 2
    assert all(kind in str(error.value) for kind in ("router", *KINDS))


class Failing:
    """A device of another distribution that raises while it declares itself."""

    def __init__(self, name="failing"):
        self.name = name

    def load(self):
        raise RuntimeError("no library")


def test_of_an_unknown_kind_no_other_key_is_judged():
    with pytest.raises(InputError) as raised:
        parse('title = "x"\n[dut]\nkind = "ovz"\nring = 5\n', "x.toml")
    assert "x.toml:3: dut.kind: expected" in str(raised.value)
    assert len(str(raised.value).splitlines()) == 1


@pytest.fixture
def declared(monkeypatch):
    """A list of what other distributions declare, read anew before the test and after it."""
    entry_points = []
    monkeypatch.setattr(registry, "entry_points", lambda group: entry_points)
    for cached in (registry._foreign, registry.device):
        cached.cache_clear()
    yield entry_points
    for cached in (registry._foreign, registry.device):
        cached.cache_clear()


def test_no_other_distribution_replaces_a_kind_of_this_one(declared):
    declared.append(Failing(name="ovs"))
    assert registry.device("ovs").is_default
    assert registry.kinds().count("ovs") == 1


def test_a_device_that_raises_while_it_declares_itself_is_named_with_its_error(declared):
    declared.append(Failing())
    with pytest.raises(InputError, match="'failing' cannot be used: RuntimeError: no library") as error:
        registry.device("failing")
    assert error.value.exit_code == 2


def test_a_kind_that_there_is_not_is_told_with_the_likely_one():
    with pytest.raises(InputError, match=r"no device of kind 'brigde'\n  hint: did you mean bridge\? one of: "):
        registry.device("brigde")


# The kernel's own devices.

KERNEL = tuple(
    kind for kind in KINDS if isinstance(registry.device(kind), softirq.KernelDevice) and kind not in ONLY_SERVED
)
OF_KERNEL = registry.device("bridge")


@pytest.mark.parametrize("kind", sorted({*KERNEL, *ONLY_SERVED} - {"dpvs"}))  # which polls its ports
def test_softirqs_of_every_port_are_steered_to_the_devices_cpus(kind):
    wanted = scenario_of(kind, dut="cpus = [1, 2, 33]")
    (mask,) = [
        resource for resource in plan(wanted) if isinstance(resource, TextFile) and resource.path.endswith("rps_cpus")
    ]
    assert mask.lines == ("00000002,00000006",)
    places = {argv[-1] for argv in argvs(wanted, "cp")}
    assert places == {f"/sys/class/net/{port}/queues/rx-0/rps_cpus" for port in ("left", "right")}


@pytest.mark.parametrize("kind", (*KERNEL, *ONLY_SERVED))
@pytest.mark.parametrize(
    ("dut", "more", "error"),
    [
        ("cpus = [0]", "", "engine.cpus: expected CPUs other than dut.cpus, found 0 in both"),
        ("", '[[host]]\nname = "h"\naddress = "10.0.0.1/24"\ncpus = [0]', r"expected no \[\[host\]\]"),
    ],
)
def test_what_does_not_suit_the_kernel_is_refused(kind, dut, more, error):
    with pytest.raises(InputError, match=error):
        scenario_of(kind, dut, more)


@pytest.mark.parametrize("kind", KINDS)
def test_a_layout_of_rings_is_asked_for_where_there_are_vhost_user_rings(kind):
    with_vhost = {"ovs": REQUIRED["ovs"].replace("af_packet", "dpdk"), "wire": 'io = "vhost-user"'}
    text = OF_A_KIND.format(kind=kind, dut=with_vhost.get(kind, ""), more="")
    packed = text.replace('name = "left"', 'name = "left"\nring_layout = "packed"')
    if kind in (*KERNEL, *ONLY_SERVED):
        with pytest.raises(InputError, match=r'port\[1\].ring_layout: expected "split" where'):
            parse(packed, "x.toml")
        return
    wanted = parse(packed, "x.toml")
    bench = registry.device_of(wanted).bench(wanted, Places("b1", PLACE, Local()))
    devices = [bench.attachment(number, port).device for number, port in enumerate(wanted.ports)]
    assert [device.endswith(",packed_vq=1") for device in devices] == [True, False]


def test_a_bridge_forwards_each_streams_address_to_its_port():
    back = BACK + 'eth_dst = "02:00:00:00:00:07"\n'
    entries = [argv[4:] for argv in argvs(scenario_of("bridge", more=back), "bridge") if argv[3] == "fdb"]
    assert entries == [
        ("add", "02:00:00:00:00:02", "dev", "right", "master", "static"),
        ("add", "02:00:00:00:00:07", "dev", "left", "master", "static"),
    ]


MACS = 'eth_dst = "02:00:00:00:01:00-02:00:00:00:01:03"\n'


def test_a_bridge_knows_every_address_of_a_range():
    found = [argv[5] for argv in argvs(scenario_of("bridge", more=MACS), "bridge") if argv[3] == "fdb"]
    assert found == [f"02:00:00:00:01:0{last}" for last in range(4)]


def test_destinations_in_a_list_have_a_route_each():
    text = OF_A_KIND.format(kind="nft", dut="", more="")
    listed = text.replace('"198.19.0.1-198.19.0.20"', '["198.19.0.1", "198.19.0.9"]')
    found = [line.split()[2] for line in routes(parse(listed, "x.toml")) if line.startswith("route")]
    assert found == ["198.19.0.1/32", "198.19.0.9/32"]


@pytest.mark.parametrize(
    ("kind", "more", "error"),
    [
        ("bridge", BACK, "streams to right and to left have the same eth_dst 02:00:00:00:00:02"),
        ("bridge", BACK + 'eth_dst = "ff:ff:ff:ff:ff:ff"', "ff:ff:ff:ff:ff:ff is a group address"),
        ("nft", BACK + 'eth_dst = "ff:ff:ff:ff:ff:ff"', "ff:ff:ff:ff:ff:ff is a group address"),
        ("nft", BACK, "destinations in common: 198.19.0.1-198.19.0.20 and 198.19.0.1"),
        (
            "nft",
            '[[stream]]\nfrom = "left"\nto = "right"\neth_dst = "02:00:00:00:00:07"',
            "streams from left have two eth_dst, 02:00:00:00:00:02 and 02:00:00:00:00:07",
        ),
        ("bridge", f'{MACS}{BACK}eth_dst = "02:00:00:00:01:03"', "have the same eth_dst 02:00:00:00:01:03"),
        ("bridge", 'eth_dst = { random = "02:00:00:00:01:00-02:00:00:00:02:00", count = 9 }', "entry for each address"),
        ("nft", MACS, "eth_dst of a stream from left varies"),
        ("nft", "vlan = 5", "frames of ethernet/vlan/ipv4/udp to right: this router takes IPv4 without tags"),
    ],
)
def test_streams_that_one_address_cannot_tell_apart_are_refused(kind, more, error):
    with pytest.raises(InputError, match=error):
        plan(scenario_of(kind, more=more))


def routes(wanted):
    (batch,) = [
        resource for resource in plan(wanted) if isinstance(resource, TextFile) and resource.path.endswith("routes.ip")
    ]
    return batch.lines


def test_destinations_of_streams_are_behind_their_receiving_port():
    lines = routes(scenario_of("nft"))
    assert "link set dev left address 02:00:00:00:00:02" in lines
    assert "neighbour add 169.254.0.2 lladdr 02:00:00:00:00:02 dev right nud permanent" in lines
    assert [line for line in lines if line.startswith("route")] == [
        f"route add {to} via 169.254.0.2 dev right onlink"
        for to in (
            "198.19.0.1/32",
            "198.19.0.2/31",
            "198.19.0.4/30",
            "198.19.0.8/29",
            "198.19.0.16/30",
            "198.19.0.20/32",
        )
    ]


def test_routes_of_the_file_replace_those_of_the_streams():
    lines = routes(scenario_of("nft", more='[[route]]\nto = "10.0.0.0/8"\nport = "right"\n'))
    assert [line for line in lines if line.startswith("route")] == [
        "route add 10.0.0.0/8 via 169.254.0.2 dev right onlink"
    ]


def test_a_route_names_a_port_that_is_there():
    with pytest.raises(InputError, match=r"route\[1\].port: expected the name of a \[\[port\]\] \(left, right\)"):
        scenario_of("nft", more='[[route]]\nto = "10.0.0.0/8"\nport = "third"\n')


RULES = 'rules = """\ntable ip x {\n  chain y { iifname {left} drop\n  }\n}\n"""'


def test_rules_name_ports_and_a_refused_one_is_found_in_the_scenario():
    wanted = scenario_of("nft", dut=RULES)
    (file,) = [
        resource
        for resource in plan(wanted)
        if isinstance(resource, TextFile) and resource.path.endswith("ruleset.nft")
    ]
    assert file.lines[1] == '  chain y { iifname "left" drop'
    bench = registry.device("nft").bench(wanted, Places("b1", PLACE, Local()))
    refused = CommandFailed(["nft", "-f", file.path], f"{file.path}:2:30-33: Error: no such chain\n  drop\n  ^^^^")
    line = OF_A_KIND.split("{dut}")[0].count("\n") + 4  # REQUIRED is one empty line, then `rules =`, then two of text
    assert str(bench.refusal(refused)).startswith(f"x.toml:{line}: nft refused this rule: no such chain")
    assert bench.refusal(CommandFailed(["ip", "x"], "no")) is None


@pytest.mark.parametrize(
    ("rules", "error"),
    [
        ('rules = "iifname {lefft} drop"', r"expected a port \(\{left\}, \{right\}\), found \{lefft\}"),
        ("rules = 'include \"/etc/shadow\"'", 'expected rules without the word "include"'),
        ('rules = """\ntable ip x { include \\\\\n"/etc/shadow" """', 'without the word "include"'),
    ],
)
def test_rules_that_name_what_is_not_the_scenarios_are_refused(rules, error):
    with pytest.raises(InputError, match=error):
        scenario_of("nft", dut=rules)


def test_frames_of_two_cpus_are_divided_as_the_kernel_counts_them():
    counters = {
        "host/softnet/1/processed": 600,
        "host/softnet/2/processed": 200,
        "host/link/dut/left/rx_packets": 400,
        "host/link/engine/right/rx_packets": 400,
        "host/cpu/1/softirq_ticks": 50,
        "host/softirq_time_measured": 1,
    }
    first, second = OF_KERNEL.loads(counters, 50 / TICKS_PER_S / 0.5)
    assert (first.cpu, first.received, first.busy_share) == (1, 300, 0.5)
    assert (second.name, second.received, second.busy_share) == ("softirq on CPU 2", 100, None)
    sampled = {**counters, "host/softirq_time_measured": 0}
    assert OF_KERNEL.loads(sampled, 1.0)[0].busy_share is None, "paced frames keep step with the ticks that sample"


def test_a_kernel_that_measures_idle_time_tells_what_softirqs_had_of_a_cpu():
    """Of 250 ms round a trial of 200 ms, 60 ms were idle and 10 ms of processes."""
    ticks = {"host/cpu/1/softirq_ticks": 3, "host/cpu/1/unused_ticks": 6, "host/cpu/1/processes_ticks": 1}
    seen = {"host/softnet/1/processed": 600, "elapsed_s/cpu-time": 0.25, **ticks}
    seen = {**seen, "host/softirq_time_measured": 0, "host/idle_time_measured": 1}
    (load,) = OF_KERNEL.loads(seen, 0.2)
    assert load.busy_share == pytest.approx((0.25 - 7 / TICKS_PER_S) / 0.2)
    (full,) = OF_KERNEL.loads({**seen, "host/ksoftirqd/1/run_ns": 199e6}, 0.2)
    assert full.busy_share == pytest.approx(0.995), "under overload the kernel leaves softirqs to their own thread"
    assert OF_KERNEL.loads({**seen, "host/idle_time_measured": 0}, 0.2)[0].busy_share is None


def test_softirqs_that_stop_with_frames_left_are_a_sign():
    assert OF_KERNEL.signs({"host/softnet/1/time_squeeze": 30, "elapsed_s/softnet": 0.25}) == {Sign.SQUEEZES: 120.0}
    assert OF_KERNEL.signs({"host/softnet/1/processed": 30}) == {}


def test_a_full_backlog_is_counted_once_and_is_the_devices():
    """As seen of a slow ruleset: the backlog refused 7,322 frames on the first link and 3,254 on the second."""
    counters = {
        "host/link/engine/left/tx_packets": 7891,
        "host/link/engine/left/tx_dropped": 7322,
        "host/link/dut/left/rx_packets": 7891,
        "host/link/dut/left/rx_dropped": 7322,
        "host/link/dut/right/tx_packets": 4637,
        "host/link/dut/right/tx_dropped": 3254,
        "host/link/engine/right/rx_packets": 4637,
        "host/link/engine/right/rx_dropped": 3254,
        "host/softnet/1/dropped": 10576,
    }
    nothing = EngineResult(True, 0.5, (), (), (), None, None)
    for kind in KERNEL:
        graph = registry.device(kind).graph(scenario_of(kind))
        account = ledger.build(nothing, counters, ("left", "right"), graph)
        drops = [drop for hop in account.hops for drop in hop.drops]
        assert [(drop.frames, drop.limits) for drop in drops] == [(3254, "dut")]
        assert graph.refused.party is Party.DUT


def test_what_a_rules_own_counter_drops_is_the_rules():
    graph = registry.device("nft").graph(scenario_of("nft"))
    counters = {"nft/counter/drop_scans": 7, "nft/counter/all": 100, "host/conntrack/table_full": 3}
    account = ledger.build(EngineResult(True, 0.5, (), (), (), None, None), counters, ("left", "right"), graph)
    drops = {drop.name: (drop.frames, drop.limits) for hop in account.hops for drop in hop.drops}
    assert drops == {
        "drop scans": (7, "rules"),
        "connection tracking refused the frame: table full": (3, "dut"),
    }


def test_the_kernels_files_are_read_by_their_own_headers():
    line = "00000010 00000002 00000001 " + "00000000 " * 9 + "00000003 00000000 00000000\n"
    assert softirq.softnet(line) == {3: {"processed": 16, "dropped": 2, "time_squeeze": 1}}
    assert softirq.softnet("00000010 00000002 00000001\n") == {}, "before Linux 5.10 no CPU is named"
    snmp = ["Ip: Forwarding InReceives ForwDatagrams", "Ip: 1 12 11", "Icmp: InMsgs", "Icmp: 4"]
    assert ip_counters([*snmp, "IpExt: InNoRoutes", "IpExt: 5"]) == {
        "InReceives": 12,
        "ForwDatagrams": 11,
        "InNoRoutes": 5,
    }
    tracked = ["entries  found drop insert_failed", "00000014 00000001 0000000a 0", "00000014 00000002 00000001 1"]
    assert conntrack_counters(tracked) == {"found": 3, "drop": 11, "insert_failed": 1, "table_full": 10}
    listed = [{"metainfo": {}}, {"counter": {"name": "c", "packets": 3}}, {"counter": {"name": "c", "packets": 4}}]
    assert named(json.dumps({"nftables": listed})) == {"c": 7}


def test_moving_a_device_keeps_the_rest_of_it_and_storing_it_its_rules():
    wanted = scenario_of("nft", dut=RULES)
    moved = registry.device("nft").moved(wanted, (2,))
    assert moved.dut == replace(wanted.dut, cpus=(2,))
    assert from_plain(to_plain(moved)) == moved

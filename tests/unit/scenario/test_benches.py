"""Benches with hosts, rows of bridges, tunnels and more measures: what the file means, and what it may not say."""

import pytest

from pinchpoint.dut.ovs.bulk import PREFIX
from pinchpoint.dut.ovs.ports import ends, extra_port, patch_name
from pinchpoint.dut.ovs.spec import Datapath, Patch, Tuning
from pinchpoint.measure.burst.run import Burst
from pinchpoint.measure.loss_curve.run import LossCurve
from pinchpoint.measure.sockets.run import RequestResponse
from pinchpoint.model.errors import InputError
from pinchpoint.model.scenario import NumaPlacement
from pinchpoint.scenario import parse

HOSTS = """\
measure = "rr"
numa = "same"
[dut]
datapath = "af_packet"
pmd_cpus = [0]
cascade = 3
rules = "actions=NORMAL"
[[host]]
name = "alice"
address = "192.168.7.1/24"
cpus = [0]
[[host]]
name = "bob"
bridge = "last"
address = "192.168.7.2/24"
cpus = [1]
[sockets]
client = "alice"
server = "bob"
"""

FRAMES = """\
[dut]
datapath = "dpdk"
pmd_cpus = [1, 2]
rules = "in_port={left},actions=output:{right}"
[[port]]
name = "left"
[[port]]
name = "right"
[[stream]]
from = "left"
to = "right"
"""

BURST = f'measure = "burst"\n{FRAMES}[burst]\nrepeats = 7\n'
CURVE = f'measure = "loss_curve"\n{FRAMES}[loss_curve]\nstep = 0.05\n'

BUILD = """\
measure = "build"
[dut]
datapath = "af_packet"
pmd_cpus = [0]
[build]
what = "flows"
method = "file"
count = 500_000
"""
TUNNELLED = (
    FRAMES
    + """\
[[bridge]]
name = "b"
rules = "actions=drop"
[[tunnel]]
name = "vx"
from = "br0"
to = "b"
vni = 1
"""
)
OF_THE_BENCH = (
    extra_port(7),
    "idlepeer7",
    f"{PREFIX}1",
    *(end.underlay for pair in ends(parse(TUNNELLED, "x.toml")) for end in pair[:1]),
    patch_name("a", "b"),
    patch_name("br0", "br1"),
)


def problems(text: str) -> list[str]:
    with pytest.raises(InputError) as error:
        parse(text, "x.toml")
    return error.value.message.split("\n")


def changed(text: str, old: str, new: str) -> str:
    assert old in text
    return text.replace(old, new, 1)


def test_a_cascade_is_a_row_of_bridges_joined_by_patches() -> None:
    dut = parse(HOSTS, "x.toml").dut
    assert [bridge.name for bridge in dut.bridges] == ["br0", "br1", "br2"]
    assert [[rule.text for rule in bridge.rules] for bridge in dut.bridges] == [["actions=NORMAL"]] * 3
    assert dut.patches == (Patch("br0", "br1"), Patch("br1", "br2"))


def test_last_is_the_last_bridge_of_the_row_whatever_its_length() -> None:
    assert [host.bridge for host in parse(HOSTS, "x.toml").hosts] == ["br0", "br2"]
    assert parse(changed(HOSTS, "cascade = 3", ""), "x.toml").hosts[1].bridge == "br0"
    ports = parse(changed(FRAMES, 'name = "right"', 'name = "right"\nbridge = "last"'), "x.toml").ports
    assert [port.bridge for port in ports] == ["br0", "br0"]


def test_transit_rules_name_the_bridges_on_either_side() -> None:
    rules = 'transit_rules = """\nin_port={to-previous},actions=output:{to-next}\nactions=NORMAL"""'
    bridges = parse(changed(HOSTS, "cascade = 3", f"cascade = 3\n{rules}"), "x.toml").dut.bridges
    assert [rule.text for rule in bridges[1].rules] == ["in_port={to-br0},actions=output:{to-br2}", "actions=NORMAL"]
    assert [(rule.text, rule.line) for rule in bridges[2].rules] == [("actions=NORMAL", 9)]


def test_bridges_beside_the_row_have_rules_series_patches_and_tunnels() -> None:
    more = """
[[bridge]]
name = "edge"
rules = "in_port={vx},actions=output:{to-br2}"
[[bridge.rule_series]]
rule = "in_port={to-br2},tp_dst={u16:7},actions=output:{vx}"
count = 5
[[bridge]]
name = "core"
[[bridge.rule_series]]
rule = "in_port={vx},priority={i},actions=drop"
count = 2
[[patch]]
from = "last"
to = "edge"
[[tunnel]]
name = "vx"
from = "edge"
to = "core"
vni = 7
[[arp_responder]]
bridge = "edge"
ipv4 = "192.168.7.9-192.168.7.10"
mac = "02:00:00:00:00:09"
"""
    dut = parse(HOSTS + more, "x.toml").dut
    assert [bridge.name for bridge in dut.bridges] == ["br0", "br1", "br2", "edge", "core"]
    assert [len(bridge.rules) for bridge in dut.bridges[3:]] == [1, 0]
    assert [(series.rule[:13], series.count) for bridge in dut.bridges for series in bridge.rule_series] == [
        ("in_port={to-b", 5),
        ("in_port={vx},", 2),
    ]
    assert dut.patches[-1] == Patch("br2", "edge")
    assert [(tunnel.name, tunnel.first, tunnel.second, tunnel.vni) for tunnel in dut.tunnels] == [
        ("vx", "edge", "core", 7)
    ]
    assert [(responder.bridge, responder.ipv4.count, responder.mac) for responder in dut.arp_responders] == [
        ("edge", 2, "02:00:00:00:00:09")
    ]


def test_settings_left_out_are_the_switchs_own() -> None:
    assert parse(FRAMES, "x.toml").dut.tuning == Tuning(None, None, None, None, None, None, None)
    lines = (
        "emc_insert_inv_prob = 0\nsmc = true\nflow_limit = 5\nmax_idle_ms = 9\nconntrack_limit = 7\nhw_offload = false"
    )
    tuning = parse(changed(FRAMES, "[dut]", f"[dut]\n{lines}"), "x.toml").dut.tuning
    assert tuning == Tuning(0, True, 5, 9, 7, False, None)


def test_what_sockets_exchange_depends_on_the_measure() -> None:
    scenario = parse(HOSTS, "x.toml")
    assert (type(scenario.measure), scenario.numa) == (RequestResponse, NumaPlacement.SAME)
    assert (scenario.measure.request_bytes, scenario.measure.response_bytes, scenario.measure.rate_tps) == (1, 1, None)
    stream = parse(changed(HOSTS, '"rr"', '"bandwidth"'), "x.toml").measure
    assert stream is not None
    assert (stream.request_bytes, stream.response_bytes) == (131_072, 0)


def test_a_build_needs_no_ports_and_no_rules() -> None:
    build = parse(BUILD, "x.toml").measure
    assert build is not None
    assert (build.what, build.method, build.count, build.concurrency, build.load_fps) == (
        "flows",
        "file",
        500_000,
        40,
        0.0,
    )


def test_loads_are_read_in_rising_order() -> None:
    load = parse(f'measure = "load"\n{FRAMES}[load]\nat_fps = [2e6, 1e5]\n', "x.toml").measure
    assert (load.at_fps, load.duration_s, load.repeats) == ((1e5, 2e6), 1.0, 3)


def test_queues_affinity_and_nics_of_a_port_are_read() -> None:
    lines = 'queues = 2\nrxq_affinity = "0:1,1:2"\npci = "0000:01:00.0"\nengine_pci = "0000:01:00.1"'
    port = parse(changed(FRAMES, 'name = "left"', f'name = "left"\n{lines}'), "x.toml").ports[0]
    assert (port.queues, port.rxq_affinity, port.pci, port.engine_pci) == (
        2,
        "0:1,1:2",
        "0000:01:00.0",
        "0000:01:00.1",
    )


def test_bursts_are_back_to_back_and_corrected_by_the_ndr_unless_the_file_says_otherwise() -> None:
    assert parse(BURST, "x.toml").measure == Burst(7, None, None, 1_000_000, 0.01)
    stated = parse(f"{BURST}rate_fps = 14.88e6\nthroughput_fps = 4e6\nmax_frames = 5000\n", "x.toml").measure
    assert stated == Burst(7, 14.88e6, 4e6, 5000, 0.01)
    assert not isinstance(parse(FRAMES, "x.toml").measure, Burst)


def test_a_loss_curve_begins_at_what_the_generator_reaches_unless_the_file_says_otherwise() -> None:
    assert parse(CURVE, "x.toml").measure == LossCurve(None, 0.05, 6, 1.0)
    assert parse(f'measure = "loss_curve"\n{FRAMES}', "x.toml").measure == LossCurve(None, 0.1, 6, 1.0)


@pytest.mark.parametrize("measure", ["bandwidth", "rr", "crr"])
@pytest.mark.parametrize("datapath", ["af_packet", "kernel"])
def test_engine_and_main_thread_may_share_a_cpu_where_no_frames_are_sent(measure: str, datapath: str) -> None:
    text = changed(changed(HOSTS, '"rr"', f'"{measure}"'), '"af_packet"', f'"{datapath}"')
    scenario = parse(text, "x.toml")
    assert scenario.engine.cpus == scenario.dut.pmd_cpus == (0,)
    assert scenario.dut.datapath is Datapath(datapath)


@pytest.mark.parametrize(
    ("text", "old", "new", "problem"),
    [
        (HOSTS, '"af_packet"', '"af_xdp"', "engine.cpus: expected CPUs other than dut.pmd_cpus, found 0 in both"),
        (HOSTS, 'bridge = "last"', 'bridge = "br3"', "host[2].bridge: expected the name of a bridge (br0, br1, br2)"),
        (HOSTS, 'server = "bob"', 'server = "alice"', "sockets.server: expected a host other than the client"),
        (HOSTS, 'server = "bob"', 'server = "carol"', 'expected the name of a [[host]] (alice, bob), found "carol"'),
        (HOSTS, 'name = "bob"', 'name = "alice"', 'host[2].name: expected a unique name, found "alice" again'),
        (
            HOSTS,
            "192.168.7.2/24",
            "192.168.8.2/24",
            "x.toml:15: host[2].address: expected an address in 192.168.7.0/24",
        ),
        (HOSTS, "192.168.7.2/24", "192.168.7.1/24", "host[2].address: expected a unique address"),
        (HOSTS, "192.168.7.2/24", "192.168.7.0/24", "host[2].address: expected the address of a host"),
        (HOSTS, "192.168.7.2/24", "192.168.7.2", "host[2].address: expected the address of a host"),
        (HOSTS, "192.168.7.2/24", "192.168.7.2/031", "host[2].address: expected the address of a host"),
        (
            HOSTS,
            "[sockets]",
            "[sockets]\nresponse_bytes = 0",
            "sockets.response_bytes: expected 1 or more where requests are answered",
        ),
        (HOSTS, '"rr"', '"rates"', 'sockets: expected measure = "bandwidth" or "rr" or "crr" where there is [sockets]'),
        (HOSTS, '"rr"', '"r"', 'x.toml:1: measure: expected "blocked" or "build"'),
        (HOSTS, "[sockets]", "[build]", 'build: expected measure = "build" where there is [build], found "rr"'),
        (HOSTS, "cascade = 3", "cascade = 65", "dut.cascade: expected a whole number from 1 to 64"),
        (HOSTS, "[dut]", '[dut]\ntransit_rules = ""', "dut.transit_rules: expected at least one rule"),
        (
            HOSTS,
            "[dut]",
            '[dut]\ntransit_rules = "in_port={alice},actions=drop"',
            "x.toml:4: dut.transit_rules: {alice} is unknown; known here: {to-br0}, {to-br2}",
        ),
        (HOSTS, "actions=NORMAL", "in_port={bob},actions=drop", "{bob} is unknown; known here: {alice}, {to-br1}"),
        (HOSTS, "[sockets]", '[[bridge]]\nname = "br2"\nrules = "actions=NORMAL"\n[sockets]', 'found "br2" again'),
        (HOSTS, "[sockets]", '[[bridge]]\nname = "last"\n[sockets]', "bridge[1].name: expected a different name"),
        (HOSTS, "[sockets]", '[[bridge]]\nname = "b"\n[sockets]', "bridge[1].rules: expected at least one rule"),
        (HOSTS, "[sockets]", '[[patch]]\nfrom = "br0"\nto = "br1"\n[sockets]', "no other patch joins"),
        (
            HOSTS,
            "[sockets]",
            '[[patch]]\nfrom = "br0"\nto = "br0"\n[sockets]',
            "patch[1].to: expected a bridge other than",
        ),
        (HOSTS, "[sockets]", '[[patch]]\nfrom = "br0"\nto = "x"\n[sockets]', "patch[1].to: expected the name of a"),
        (
            HOSTS,
            "[sockets]",
            '[[tunnel]]\nname = "bob"\nfrom = "br0"\nto = "br2"\nvni = 1\n[sockets]',
            'tunnel[1].name: expected a unique name, found "bob" again',
        ),
        *(
            (
                HOSTS,
                'name = "bob"',
                f'name = "{name}"',
                f'host[2].name: expected a different name: "{name}" is reserved',
            )
            for name in OF_THE_BENCH
        ),
        (
            HOSTS,
            "[sockets]",
            '[[bridge]]\nname = "idle3"\nrules = "actions=NORMAL"\n[sockets]',
            "bridge[1].name: expec",
        ),
        (
            HOSTS,
            'name = "bob"',
            'name = "vx-br0"\n[[tunnel]]\nname = "vx"\nfrom = "br0"\nto = "br2"\nvni = 1\n',
            'host[2].name: expected a different name: "vx-br0" is an end of a tunnel',
        ),
        (HOSTS, 'name = "bob"', 'name = "to-br1"', 'expected a different name: "to-br1" is the name of a bridge'),
        (
            HOSTS,
            "[sockets]",
            '[[arp_responder]]\nipv4 = "10.0.0.0-10.255.255.255"\nmac = "02:00:00:00:00:01"\n[sockets]',
            "expected at most 1,000,000 rules in all, found 16,777,216",
        ),
        (BUILD, '"file"', '"netlink"', 'build.method: expected "process" or "file" or "bundle" for flows'),
        (BUILD, '"flows"', '"veths"\nprobe_rules = 2', "build.probe_rules: expected 0 for veths, found 2"),
        (BUILD, "[build]", "[build]\nload_fps = 1e5", "port: expected at least 2 [[port]], found none"),
        (BUILD, "[build]", "[build]\nprobe_rules = 3", "port: expected at least 2 [[port]], found none"),
        (BUILD, "count = 500_000", "count = 0", "build.count: expected a whole number from 1 to 5,000,000"),
        (BUILD, "[build]", "[load]", "build: missing; expected a table [build]"),
        (FRAMES, "[dut]", 'measure = "load"\n[dut]', "load: missing; expected a table [load]"),
        (FRAMES, "[dut]", "[burst]\n[dut]", 'burst: expected measure = "burst" where there is [burst]'),
        (FRAMES, "[dut]", "[loss_curve]\n[dut]", 'loss_curve: expected measure = "loss_curve" where there is'),
        (BURST, "repeats = 7", "repeats = 0", "burst.repeats: expected a whole number from 1 to 1,000"),
        (BURST, "[burst]", '[[stream]]\nfrom = "right"\nto = "left"\n[burst]', "expected one [[stream]] with"),
        (BURST, 'name = "left"', 'name = "left"\nqueues = 2', "port[1].queues: expected 1 where a burst is sent"),
        (CURVE, "step = 0.05", "step = 0.2", "loss_curve.step: expected a number from 0.005 to 0.1"),
        (CURVE, "step = 0.05", "max_load_fps = 0", "loss_curve.max_load_fps: expected a number from 1"),
        (CURVE, '"right"\n[loss', '"rihgt"\n[loss', "stream[1].to: expected the name of a [[port]]"),
        (FRAMES, "[dut]", 'measure = "crr"\n[dut]', "host: expected at least 2 [[host]], found none"),
        (FRAMES, "[dut]", "[dut]\nextra_ports = 20001", "dut.extra_ports: expected a whole number from 0 to 20,000"),
        (
            FRAMES,
            "[dut]",
            "[dut]\nother_config = { emc-insert-inv-prob = 1 }",
            "dut.other_config: expected no emc-insert-inv-prob (use dut.emc_insert_inv_prob)",
        ),
        (FRAMES, 'name = "left"', 'name = "left"\nrxq_affinity = "0"', 'port[1].rxq_affinity: expected "queue:cpu'),
        (FRAMES, 'name = "left"', 'name = "left"\nrxq_affinity = "0:3"', "expected CPUs of dut.pmd_cpus (1, 2)"),
        (FRAMES, 'name = "left"', 'name = "left"\nrxq_affinity = "1:1"', "each queue once, from 0 to 0"),
        (FRAMES, 'name = "left"', 'name = "left"\npci = "0000:01:00.0"', "port[1].engine_pci: missing; with pci both"),
        (FRAMES, 'name = "left"', 'name = "left"\npci = "01:00.0"', "port[1].pci: expected a PCI address"),
        (FRAMES, '"dpdk"', '"af_packet"\n[engine]\nbackend = "dpdk"', "engine.backend: expected"),
        (FRAMES, "[[port]]", '[engine]\nbackend = "af_xdp"\n[[port]]', 'engine.backend: expected "auto" where'),
        (
            changed(FRAMES, '"dpdk"', '"kernel"'),
            'name = "left"',
            'name = "left"\nqueues = 2',
            'port[1].queues: expected 1 where dut.datapath is "kernel", found 2',
        ),
    ],
)
def test_what_a_bench_cannot_be_is_refused(text: str, old: str, new: str, problem: str) -> None:
    problem_lines = problems(changed(text, old, new))
    assert any(problem in line for line in problem_lines), problem_lines

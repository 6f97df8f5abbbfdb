"""`[[stream]]`: what each key makes of the frames that the engine is asked for, and what is refused."""

import json
from pathlib import Path

import msgspec
import pytest
from reference.scenario import EXAMPLE, LAYERS_EXAMPLE
from support import scenario_text

from pinchpoint.engine.streams import (
    Bursts,
    Capture,
    Captured,
    Esp,
    Ethernet,
    FieldProgram,
    Gre,
    Gtpu,
    Icmp,
    Increment,
    Ipv4,
    Ipv6,
    Layer,
    Mpls,
    Nsh,
    Op,
    Poisson,
    Pppoe,
    RandomValues,
    Rate,
    Shape,
    Size,
    Steady,
    StreamRequest,
    Tcp,
    Template,
    Udp,
    Vlan,
    Vxlan,
    Zipf,
    stream_request,
)
from pinchpoint.model import frames
from pinchpoint.model.errors import InputError
from pinchpoint.model.headers import HEADERS, KEYS
from pinchpoint.model.scenario import Range, Sizes
from pinchpoint.scenario import parse
from pinchpoint.scenario.plain import from_plain, to_plain

ROOT = Path(__file__).parents[3]
ETHERNET = Layer(ethernet=Ethernet("02:00:00:00:00:01", "02:00:00:00:00:02"))
IPV4 = Layer(ipv4=Ipv4("198.18.0.1", "198.19.0.1"))
UDP = Layer(udp=Udp(1024, 9))
USUAL = (ETHERNET, IPV4, UDP, Layer(ipv6=Ipv6("2001:2::1", "2001:2:0:1::1")))
L2_FLOWS = """
eth_src = "02:00:00:00:00:01-02:00:00:00:03:e8"
eth_dst = "02:00:00:01:00:01-02:00:00:01:03:e8"
"""


def stream(more: str):
    (made,) = parse(scenario_text(more=more), "x.toml").streams
    return made


def request(more: str) -> StreamRequest:
    return stream_request(0, stream(more), 1e6)


def layers(more: str):
    return request(more).template.layers


def problems(more: str) -> list[str]:
    with pytest.raises(InputError) as error:
        parse(scenario_text(more=more), "x.toml")
    return error.value.message.split("\n")


# What files of before ask for.


def test_a_stream_of_udp_over_ipv4_is_the_request_that_it_always_was() -> None:
    (old,) = parse(EXAMPLE, "x.toml").streams
    assert stream_request(0, old, 1.5e6) == StreamRequest(
        id=0,
        tx_port="left",
        rx_port="right",
        rate=Rate(fps=1.5e6),
        shape=Shape(steady=Steady()),
        size=Size(fixed=64),
        template=Template(layers=(ETHERNET, Layer(ipv4=Ipv4("16.0.0.1", "48.0.0.1")), Layer(udp=Udp(1025, 1000)))),
        stamped=True,
        wrong_checksums=(),
        seed=0,
        flows=65536,
        fields=(
            FieldProgram("ipv4.dst", Op(increment=Increment(1, 65535))),
            FieldProgram("ipv4.src", Op(increment=Increment(1, 255))),
            FieldProgram("udp.dst", Op(increment=Increment(1, 4))),
        ),
        tracked_flows=0,
    )


def test_a_stream_of_udp_over_ipv4_is_stored_as_it_always_was() -> None:
    (stored,) = to_plain(parse(EXAMPLE, "x.toml"))["streams"]
    before = {
        "tx_port": "left", "rx_port": "right", "frame_bytes": 64, "share": 1.0,
        "eth_src": "02:00:00:00:00:01", "eth_dst": "02:00:00:00:00:02",
        "ipv4_src": {"first": 0x10000001, "count": 255}, "ipv4_dst": {"first": 0x30000001, "count": 65535},
        "udp_src": {"first": 1025, "count": 1}, "udp_dst": {"first": 1000, "count": 4},
        "order": ["ipv4_dst", "ipv4_src", "udp_dst", "udp_src"], "flows": 65536, "segment": None, "together": False,
    }  # fmt: skip
    stored = json.loads(json.dumps(stored))
    assert {key: stored[key] for key in before} == before
    added = {
        "layers": [], "sizes": None, "burst_frames": 1, "arrivals": "steady", "seed": 0, "wrong_checksums": [],
        "pcap": None, "pcap_source": None, "pcap_others": False,
    }  # fmt: skip
    assert {key: stored[key] for key in stored.keys() - before.keys()} == added


def test_no_shipped_scenario_has_layers_of_its_own() -> None:
    files = sorted(path for path in ROOT.glob("studies/*/*.toml") if path.name != "study.toml")
    texts = [path.read_text() for path in files]
    plain = [parse(text, "x.toml") for text in texts if "[sweep" not in text and "[[stream]]" in text]
    assert plain, "some send frames"
    assert all(one.layers == () and one.sizes is None for scenario in plain for one in scenario.streams)


# What the cases of people are.


def test_a_vlan_tags_the_frames() -> None:
    asked = request("frame_bytes = 68\nvlan = 100")
    assert asked.template.layers == (ETHERNET, Layer(vlan=Vlan(100)), IPV4, UDP)
    assert (asked.size, asked.flows, asked.fields) == (Size(fixed=68), 1, ())


def test_keys_of_tcp_and_ipv6_bring_their_headers_and_the_room_for_them() -> None:
    asked = request('tcp_dst = 80\nipv6_dst = "2001:db8::1"')
    ipv6, tcp = Layer(ipv6=Ipv6("2001:2::1", "2001:db8::1")), Layer(tcp=Tcp(1024, 80))
    assert asked.template.layers == (ETHERNET, ipv6, tcp)
    assert asked.size == Size(fixed=14 + 40 + 20 + 18 + 4)


def test_ranges_of_ethernet_addresses_advance_together() -> None:
    flows = stream(L2_FLOWS)
    asked = stream_request(0, flows, 1e6)
    assert (asked.flows, asked.together) == (1000, True)
    counter = Op(increment=Increment(1, 1000))
    assert asked.fields == (FieldProgram("eth.dst", counter), FieldProgram("eth.src", counter))
    assert asked.template.layers[0] == Layer(ethernet=Ethernet("02:00:00:00:00:01", "02:00:00:01:00:01"))
    assert frames.five_tuples(flows) == 1


# What each key makes.


@pytest.mark.parametrize(
    ("line", "changed"),
    [
        ("eth_type = 0x88b5", Layer(ethernet=Ethernet("02:00:00:00:00:01", "02:00:00:00:00:02", 0x88B5))),
        ("vlan_pcp = 5", Layer(vlan=Vlan(0, 5))),
        ("vlan_dei = true", Layer(vlan=Vlan(0, dei=True))),
        ("vlan_tpid = 0x88a8", Layer(vlan=Vlan(0, tpid=0x88A8))),
        ("ipv4_ttl = 1", Layer(ipv4=Ipv4("198.18.0.1", "198.19.0.1", ttl=1))),
        ("ipv4_dscp = 46", Layer(ipv4=Ipv4("198.18.0.1", "198.19.0.1", dscp=46))),
        ("ipv4_ecn = 1", Layer(ipv4=Ipv4("198.18.0.1", "198.19.0.1", ecn=1))),
        ("ipv4_identification = 7", Layer(ipv4=Ipv4("198.18.0.1", "198.19.0.1", identification=7))),
        ("ipv4_dont_fragment = false", Layer(ipv4=Ipv4("198.18.0.1", "198.19.0.1", dont_fragment=False))),
        ('ipv6_src = "2001:db8::9"', Layer(ipv6=Ipv6("2001:db8::9", "2001:2:0:1::1"))),
        ("ipv6_hop_limit = 9", Layer(ipv6=Ipv6("2001:2::1", "2001:2:0:1::1", hop_limit=9))),
        ("ipv6_dscp = 46", Layer(ipv6=Ipv6("2001:2::1", "2001:2:0:1::1", dscp=46))),
        ("ipv6_ecn = 2", Layer(ipv6=Ipv6("2001:2::1", "2001:2:0:1::1", ecn=2))),
        ("ipv6_flow_label = 5", Layer(ipv6=Ipv6("2001:2::1", "2001:2:0:1::1", flow_label=5))),
        ("tcp_src = 5", Layer(tcp=Tcp(5, 9))),
        ("tcp_seq = 5", Layer(tcp=Tcp(1024, 9, seq=5))),
        ("tcp_ack = 5", Layer(tcp=Tcp(1024, 9, ack=5))),
        ('tcp_flags = ["psh", "ack"]', Layer(tcp=Tcp(1024, 9, flags=("psh", "ack")))),
        ("tcp_window = 5", Layer(tcp=Tcp(1024, 9, window=5))),
        ("icmp_type = 13", Layer(icmp=Icmp(13))),
        ("icmp_code = 1", Layer(icmp=Icmp(8, 1))),
        ("icmp_identifier = 5", Layer(icmp=Icmp(8, identifier=5))),
        ("icmp_sequence = 5", Layer(icmp=Icmp(8, sequence=5))),
        ("icmpv6_type = 129", Layer(icmpv6=Icmp(129))),
        ("icmpv6_sequence = 5", Layer(icmpv6=Icmp(128, sequence=5))),
    ],
)
def test_a_key_sets_its_field_and_leaves_the_others(line: str, changed: Layer) -> None:
    made = layers(line)
    assert changed in made
    assert all(layer in USUAL for layer in made if layer != changed)


def test_every_key_of_a_header_is_one_that_a_file_may_have() -> None:
    for key, (header, name) in KEYS.items():
        row = HEADERS[header].fields[name]
        example = {"boolean": True, "array": ["ack"]}.get(row.format.schema["type"], 1)
        made = layers(f"{key} = {json.dumps(example if row.default is None else row.default)}")
        assert any(getattr(layer, header) is not msgspec.UNSET for layer in made), key


@pytest.mark.parametrize(
    ("line", "op", "first"),
    [
        ('tcp_dst = "80-89"', Op(increment=Increment(1, 10)), 80),
        ("tcp_dst = { first = 89, step = -1, count = 10 }", Op(increment=Increment(-1, 10)), 89),
        ("tcp_dst = { first = 80, step = 100, count = 3 }", Op(increment=Increment(100, 3)), 80),
        ("tcp_dst = [80, 443, 8080]", Op(list=(80, 443, 8080)), 80),
        ("tcp_dst = [[80, 6], [443, 2]]", Op(list=(80, 80, 80, 443)), 80),
        ('tcp_dst = { random = "1024-65535", count = 100 }', Op(random=RandomValues(1024, 65535, 100)), 1024),
        ("tcp_dst = { zipf = 1.1, first = 80, count = 50 }", Op(zipf=Zipf(50, 1.1, 1)), 80),
    ],
)
def test_values_of_a_field_become_a_program(line: str, op: Op, first: int) -> None:
    asked = request(f"{line}\nseed = 7")
    assert asked.fields == (FieldProgram("tcp.dst", op),)
    assert (asked.template.layers[-1], asked.seed) == (Layer(tcp=Tcp(1024, first)), 7)


@pytest.mark.parametrize(
    ("line", "field", "op"),
    [
        ('ipv6_dst = "2001:db8::1-2001:db8::ff"', "ipv6.dst", Op(increment=Increment(1, 255))),
        ('ipv6_dst = "2001:db8::/120"', "ipv6.dst", Op(increment=Increment(1, 256))),
        ('ipv6_dst = ["2001:db8::5", "2001:db8::9"]', "ipv6.dst", Op(list=(5, 9))),
        ('ipv4_dst = ["10.0.0.1", "10.0.0.9"]', "ipv4.dst", Op(list=(0x0A000001, 0x0A000009))),
        ('eth_src = ["02:00:00:00:00:01", "02:00:00:00:00:05"]', "eth.src", Op(list=(0x020000000001, 0x020000000005))),
        ('vlan = "1-16"', "vlan.id", Op(increment=Increment(1, 16))),
        ("ipv4_ttl = [1, 64]", "ipv4.ttl", Op(list=(1, 64))),
    ],
)
def test_addresses_and_other_numbers_vary_alike(line: str, field: str, op: Op) -> None:
    assert request(line).fields == (FieldProgram(field, op),)


def test_a_range_in_a_table_is_the_plain_range() -> None:
    made = stream('ipv4_dst = { first = "198.19.0.1", count = 20 }')
    assert (made.layers, made.ipv4_dst, made.flows) == ((), Range(0xC6130001, 20), 20)


def test_fields_advance_in_the_order_of_the_file_else_addresses_first() -> None:
    varied = 'vlan = "1-3"\ntcp_dst = "80-81"\nipv4_src = "10.0.0.1-10.0.0.4"\n'
    assert [one.field for one in request(varied).fields] == ["ipv4.src", "tcp.dst", "vlan.id"]
    asked = request(varied + 'order = ["vlan"]\nflows = 5')
    assert ([one.field for one in asked.fields], asked.flows) == (["vlan.id", "ipv4.src", "tcp.dst"], 5)


def test_sizes_may_be_several() -> None:
    assert request('frame_bytes = "simple"').size == Size(list=((64, 7), (594, 4), (1518, 1)))
    assert request('frame_bytes = "64-1518"').size == Size(random=(64, 1518))
    assert request("frame_bytes = [64, [512, 3]]").size == Size(list=((64, 1), (512, 3)))
    made = stream('frame_bytes = "64-1518"')
    assert (made.frame_bytes, made.sizes, made.layers) == (1518, Sizes(between=(64, 1518)), ())


def test_bursts_and_wrong_checksums_are_asked_for() -> None:
    asked = request('burst_frames = 32\nwrong_checksums = ["l4"]')
    assert (asked.shape, asked.wrong_checksums) == (Shape(bursts=Bursts(32)), ("l4",))
    assert stream_request(0, stream("burst_frames = 32"), 1e9, 500).shape == Shape(bursts=Bursts(500))


def test_poisson_arrivals_are_asked_for_unless_the_measure_sends_one_burst() -> None:
    made = stream('arrivals = "poisson"')
    assert (made.layers, stream_request(0, made, 1e6).shape) == ((), Shape(poisson=Poisson()))
    assert stream_request(0, made, 1e9, 500).shape == Shape(bursts=Bursts(500))


def test_a_capture_is_replayed_at_its_times_from_the_folder_of_the_scenario() -> None:
    asked = request('pcap = "web.pcap"\npcap_source = "10.0.0.0/24"\npcap_others = true')
    file = str(Path("x.toml").absolute().parent / "web.pcap")
    assert asked.template == Template(capture=Capture(file, "10.0.0.0/24", others=True))
    assert (asked.shape, asked.size) == (Shape(captured=Captured()), Size(fixed=1518))
    assert (asked.fields, asked.flows, asked.stamped) == ((), 1, True)


@pytest.mark.parametrize(
    ("more", "shape"),
    [
        ('arrivals = "steady"', Shape(steady=Steady())),
        ('arrivals = "poisson"', Shape(poisson=Poisson())),
        ("burst_frames = 4", Shape(bursts=Bursts(4))),
    ],
)
def test_a_replay_may_have_other_times_and_a_longest_frame(more: str, shape: Shape) -> None:
    asked = request(f'pcap = "/tmp/web.pcap"\nframe_bytes = 600\n{more}')
    assert (asked.shape, asked.size, asked.template) == (
        shape,
        Size(fixed=600),
        Template(capture=Capture("/tmp/web.pcap")),
    )


def test_a_replay_survives_the_way_through_a_run_folder_and_falls_due_as_its_measure_says() -> None:
    scenario = parse(scenario_text(more='pcap = "web.pcap"'), "x.toml")
    assert from_plain(json.loads(json.dumps(to_plain(scenario)))) == scenario
    (paced,) = parse(scenario_text("recovery", 'pcap = "web.pcap"'), "x.toml").streams
    assert (paced.arrivals, paced.pcap is None) == ("steady", False)


# Lists of headers.

TUNNEL = """layers = [
    "ethernet", { vlan = { id = 10, tpid = 0x88a8 } }, "vlan", "ipv4", "udp", { vxlan = { vni = 42 } },
    "ethernet", { ipv4 = { dst = "10.0.0.1-10.0.0.9" } }, "tcp",
]
"""


def test_a_list_of_headers_is_sent_as_it_stands() -> None:
    asked = request(TUNNEL + "tcp_flags = ['ack']")
    outer = (ETHERNET, Layer(vlan=Vlan(10, tpid=0x88A8)), Layer(vlan=Vlan(0)), IPV4, Layer(udp=Udp(1024, 4789)))
    inner = (ETHERNET, Layer(ipv4=Ipv4("198.18.0.1", "10.0.0.1")), Layer(tcp=Tcp(1024, 9, flags=("ack",))))
    assert asked.template.layers == (*outer, Layer(vxlan=Vxlan(42)), *inner)
    assert asked.fields == (FieldProgram("ipv4[1].dst", Op(increment=Increment(1, 9))),)
    assert asked.size == Size(fixed=14 + 4 + 4 + 20 + 8 + 8 + 14 + 20 + 20 + 18 + 4)


@pytest.mark.parametrize(
    ("listed", "made", "headers_bytes"),
    [
        ('{ mpls = { label = 100, tc = 5 } }, { mpls = { label = 16 } }, "ipv4"',
         (Layer(mpls=Mpls(100, 5)), Layer(mpls=Mpls(16)), IPV4), 4 + 4 + 20),
        ('"vlan", { pppoe = { session_id = 7 } }, "ipv4"',
         (Layer(vlan=Vlan(0)), Layer(pppoe=Pppoe(7)), IPV4), 4 + 8 + 20),
        ('"ipv4", "udp", { gtpu = { teid = 5 } }, "ipv4"',
         (IPV4, Layer(udp=Udp(1024, 2152)), Layer(gtpu=Gtpu(5)), IPV4), 20 + 8 + 8 + 20),
        ('"ipv4", "udp", { gtpu = { teid = 5, qfi = 9, pdu_type = 1 } }, "ipv4"',
         (IPV4, Layer(udp=Udp(1024, 2152)), Layer(gtpu=Gtpu(5, 9, 1)), IPV4), 20 + 8 + 16 + 20),
        ('{ nsh = { spi = 5 } }, "ethernet", "ipv4"', (Layer(nsh=Nsh(5)), ETHERNET, IPV4), 24 + 14 + 20),
        ('{ nsh = { spi = 5, si = 9, context = "" } }, "ipv4"', (Layer(nsh=Nsh(5, 9, context="")), IPV4), 8 + 20),
        ('"ipv4", { esp = { spi = 5, sequence = 9 } }', (IPV4, Layer(esp=Esp(5, 9))), 20 + 8),
        ('"ipv4", { gre = { key = 5, sequence = 9 } }, "ethernet"',
         (IPV4, Layer(gre=Gre(5, 9)), ETHERNET), 20 + 12 + 14),
    ],
)  # fmt: skip
def test_tunnels_of_carriers_are_headers_like_any_other(
    listed: str, made: tuple[Layer, ...], headers_bytes: int
) -> None:
    asked = request(f'layers = ["ethernet", {listed}]')
    assert asked.template.layers == (ETHERNET, *made)
    assert asked.size == Size(fixed=max(64, 14 + headers_bytes + 18 + 4))


def test_labels_and_tunnel_endpoints_vary() -> None:
    asked = request('layers = ["ethernet", { mpls = { label = "16-31" } }, "ipv4", { esp = { spi = [256, 300] } }]')
    assert asked.fields == (
        FieldProgram("mpls.label", Op(increment=Increment(1, 16))),
        FieldProgram("esp.spi", Op(list=(256, 300))),
    )


@pytest.mark.parametrize("text", [LAYERS_EXAMPLE, scenario_text(more=TUNNEL), scenario_text(more=L2_FLOWS)])
def test_layers_survive_the_way_through_a_run_folder(text: str) -> None:
    scenario = parse(text, "x.toml")
    again = from_plain(json.loads(json.dumps(to_plain(scenario))))
    assert again == scenario
    for number, (mine, other) in enumerate(zip(scenario.streams, again.streams, strict=True)):
        assert stream_request(number, mine, 1.0) == stream_request(number, other, 1.0)


# What is refused.


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        (
            'ipv4_src = "10.0.0.1"\nipv6_dst = "2001:db8::1"',
            "stream[1].ipv6_dst: expected ipv4_src or ipv6_dst, found both",
        ),
        ("udp_dst = 9\ntcp_dst = 80", "stream[1].tcp_dst: expected udp_dst or tcp_dst, found both"),
        ('icmp_code = 0\nipv6_dst = "2001:db8::1"', "expected ipv6_dst or icmp_code, found both"),
        ("vlan = 4096", "stream[1].vlan: expected a whole number from 0 to 4,095"),
        ("vlan = 100\nframe_bytes = 64", "expected at least 68 (headers of 46 bytes, a signature of 18"),
        ('ipv6_dst = "2001:db8::1"\nwrong_checksums = ["ipv4"]', 'wrong_checksums: expected no "ipv4": these frames'),
        ("vlan_id = 5", "stream[1].vlan_id: unknown key; write vlan"),
        ("vxlan_vni = 5", "stream[1].vxlan_vni: unknown key; write {vxlan = {vni = ...}} in layers"),
        ("sctp_dst = 5", "stream[1].sctp_dst: unknown key; known here: from, to"),
        ('arrivals = "gamma"', 'stream[1].arrivals: expected "steady" or "poisson"'),
        ('arrivals = "captured"', 'arrivals: expected "steady" or "poisson" without pcap, found "captured"'),
        ('pcap = "x.pcap"\nudp_dst = 5', "stream[1].udp_dst: expected no udp_dst with pcap: the frames of a capture"),
        ('pcap = "x.pcap"\nframe_bytes = "simple"', "stream[1].frame_bytes: expected one size with pcap, the longest"),
        ('pcap = "x.pcap"\npcap_others = true', "stream[1].pcap_others: expected pcap_source with it"),
        ('pcap = "x.pcap"\npcap_source = "10.0.0.0/33"', "stream[1].pcap_source: expected an IP address or network"),
        ('pcap_source = "10.0.0.1"', "stream[1].pcap_source: expected pcap with it, found none"),
        ('arrivals = "poisson"\nburst_frames = 4', 'stream[1].arrivals: expected "steady" with burst_frames'),
        ("tcp_flags = ['x']", "stream[1].tcp_flags: expected a list of fin, syn"),
        ("tcp_window = '1-5'", "stream[1].tcp_window: expected a whole number from 0 to 65,535, found"),
        ("tcp_dst = []", "stream[1].tcp_dst: expected a list of values, or of [value, weight]"),
        ("tcp_dst = [[80, 0]]", "expected a list of values, or of [value, weight]"),
        ("tcp_dst = { first = 80 }", "stream[1].tcp_dst: expected a table {first, step, count}"),
        ("tcp_dst = { first = 5, step = -1, count = 9 }", "stay within 16 bits"),
        ('tcp_dst = { zipf = -1, first = 5, count = 9 }', "expected an exponent `zipf` from 0 to 20"),
        ('ipv6_dst = "2001:db8::1-2001:db9::1"', "stream[1].ipv6_dst: expected an IPv6 address"),
        ('ipv6_dst = ["2001:db8::1", "2001:db9::1"]', "expected addresses with the same first 64 bits"),
        ('ipv4_dst = "10.0.0.1/24"', "without bits set behind the prefix"),
        ('eth_src = "02:00:00:00:00:01-03:00:00:00:00:01"', "expected a unicast Ethernet address"),
        ('eth_src = { first = "02:00:00:00:00:01", step = 0x10000000000, count = 3 }', "expected unicast Ethernet"),
        ('eth_src = { first = "02:00:00:00:00:01", step = 0x8000000000, count = 5 }', "a multiple of 2^41"),
        ("layers = ['ethernet', 'ipv4', 'udp', {vxlan = {vni = 5}}, 'ethernet', 'arp']\nwrong_checksums = ['l4']",
         'wrong_checksums: expected no "l4": these frames have no such checksum'),
        ('order = ["udp_dst"]\ntcp_dst = "80-89"', "stream[1].order: expected fields of these frames, found udp_dst"),
        ('vlan = "1-3"\nflows = 4', "flows: expected at most 3, the product of what varies, vlan.id, found 4"),
        ('frame_bytes = "big"', "stream[1].frame_bytes: expected a whole number from 64 to 9,022; of several"),
        ('frame_bytes = [64, 1519]', "stream[1].frame_bytes: expected at most 1,518 (MTU 1500), found 1519"),
        ("layers = ['ipv4']", "stream[1].layers[1]: expected ethernet first, found ipv4 first"),
        ("layers = ['ethernet', 'udp']", "stream[1].layers[2]: expected udp behind ipv4 or ipv6, found udp behind"),
        ("layers = ['ethernet', 'ipx']", "stream[1].layers[2]: expected a header (ethernet, vlan"),
        ("layers = ['ethernet', {vlan = {idd = 5}}]", "layers[2].vlan.idd: unknown key; did you mean id?"),
        ("layers = ['ethernet', {vlan = {id = 5000}}]", "layers[2].vlan.id: expected a whole number from 0 to 4,095"),
        ("layers = ['ethernet', 'ipv4', 'udp', 'vxlan']", "layers[4]: missing; expected {vxlan = {vni = ...}}"),
        ("layers = ['ethernet', 'ipv4', 'udp']\ntcp_dst = 5", "tcp_dst: expected one tcp in layers, found none"),
        ("layers = ['ethernet', {mpls = {label = 0x100000}}, 'ipv4']", "layers[2].mpls.label: expected a whole number"),
        ("layers = ['ethernet', {nsh = {spi = 5, context = '00'}}, 'ipv4']", "layers[2].nsh.context: expected hexadec"),
        ("layers = ['ethernet', {mpls = {label = 5}}, 'ethernet']", "layers[3]: expected ethernet behind vxlan or"),
        ("layers = ['ethernet', {vlan = {id = 5}}]\nvlan = 6", "stream[1].vlan: expected vlan or vlan.id of layers"),
    ],
)  # fmt: skip
def test_what_cannot_be_sent_is_refused_with_its_line_and_key(more: str, problem: str) -> None:
    found = problems(more)
    assert len(found) == 1 and problem in found[0], found
    assert found[0].startswith("x.toml:")


@pytest.mark.parametrize(
    ("line", "expected"),
    [("burst_frames = 4", "burst_frames: expected 1"), ('arrivals = "poisson"', 'arrivals: expected "steady"')],
)
def test_the_schedule_of_a_measure_with_its_own_is_not_asked_for(line: str, expected: str) -> None:
    told = rf'{expected} with measure = "recovery", which says itself when'
    with pytest.raises(InputError, match=told):
        parse(scenario_text("recovery", line), "x.toml")


def live(more: str) -> str:
    return scenario_text(more=more, datapath="af_packet").replace("[engine]", '[engine]\nbackend = "xdp_live"')


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ("udp_dst = [5, 9]", "ranges"),
        ('frame_bytes = "simple"', "one size"),
        ('udp_dst = "5-9"\nudp_src = "5-9"\ntogether = true', "together = false"),
        (L2_FLOWS, "together = false (true is the default where Ethernet addresses alone vary)"),
        ('vlan = "1-9"\nvlan_pcp = "1-2"', "vlan.pcp or vlan.id to vary, not both, which share a byte"),
        ('eth_src = "02:00:ff:ff:ff:ff-02:01:00:00:00:02"',
         "values of eth.src that differ in their low 32 bits alone"),
        ('eth_src = "02:00:00:00:00:01-02:00:00:00:00:02"\neth_dst = "02:00:00:00:00:01-02:00:00:00:00:02"\n'
         'ipv4_src = "10.0.0.1-10.0.0.2"\nipv4_dst = "10.0.0.1-10.0.0.2"\nipv4_ttl = "1-2"\nipv4_dscp = "1-2"\n'
         'udp_src = "1-2"\nudp_dst = "1-2"\nipv4_identification = "1-2"', "at most 8 fields that vary"),
    ],
)  # fmt: skip
def test_frames_that_the_kernel_makes_vary_as_it_can_vary_them(more: str, expected: str) -> None:
    with pytest.raises(InputError) as error:
        parse(live(more), "x.toml")
    (found,) = error.value.message.split("\n")
    assert f'expected {expected}, where the kernel makes the frames (engine.backend = "xdp_live")' in found


def test_frames_that_the_kernel_can_make_are_taken() -> None:
    more = L2_FLOWS + 'together = false\nflows = 5\nvlan = "1-9"\nipv4_dst = "10.0.0.0/8"\nudp_dst = "1-9"'
    assert parse(live(more), "x.toml").engine.backend == "xdp_live"


# What follows from frames.


def test_the_answer_to_a_stream_has_both_ends_of_every_header_turned() -> None:
    made = stream(TUNNEL)
    back = frames.turned(made)
    assert (back.tx_port, back.rx_port, back.order) == ("right", "left", ("ipv4[1].src",))
    there, other = frames.headers(made), frames.headers(back)
    assert [header.name for header in there] == [header.name for header in other]
    inner, turned = there[-2].fields, other[-2].fields
    assert (turned["src"].written, turned["dst"].written) == (inner["dst"].written, inner["src"].written)
    assert other[4].fields["dst"].written == 4789, "the port that says what follows stays"
    assert frames.turned(back) == made


@pytest.mark.parametrize(
    ("step", "count", "group"), [(1 << 40, 3, True), (1 << 39, 5, True), (1 << 41, 2, False), (1, 99, False)]
)
def test_groups_between_the_ends_of_a_range_are_groups(step: int, count: int, group: bool) -> None:
    more = f'eth_dst = {{ first = "02:00:00:00:00:01", step = {step}, count = {count} }}'
    assert frames.is_group(frames.macs(stream(more))) is group


def test_fields_advance_in_the_order_that_the_reference_says() -> None:
    macs = 'eth_src = "02:00:00:00:00:01-02:00:00:00:00:03"\neth_dst = "02:00:00:00:00:05-02:00:00:00:00:09"\n'
    varied = [field.field for field in request(macs + 'vlan = "1-3"\nipv4_ttl = "1-3"\nudp_src = "1-3"').fields]
    assert varied == ["udp.src", "eth.dst", "eth.src", "vlan.id", "ipv4.ttl"]


def test_the_smallest_frames_of_a_stream_have_room_for_its_headers() -> None:
    assert frames.shortest(stream("vlan = 5\nframe_bytes = 1000")).frame_bytes == 68
    short = frames.shortest(stream('frame_bytes = "simple"'))
    assert (short.frame_bytes, short.sizes) == (64, None)


@pytest.mark.parametrize(
    ("more", "count"),
    [
        ('ipv4_dst = "10.0.0.1-10.0.0.9"\nvlan = "1-5"', 9),
        ('ipv4_dst = "10.0.0.1-10.0.0.9"\nudp_dst = [[5, 2], [6, 1]]', 18),
        ('ipv4_dst = "10.0.0.1-10.0.0.9"\nudp_dst = { zipf = 1, first = 5, count = 4 }', 36),
        ('udp_src = { random = "1024-1033", count = 65536 }', 10),
        ('udp_src = [5, 5, 6, 6]\nudp_dst = "1-6"\ntogether = true', 12),
        ("vlan = 5", 1),
    ],
)
def test_five_tuples_are_those_of_addresses_and_ports(more: str, count: int) -> None:
    assert frames.five_tuples(stream(more)) == count


@pytest.mark.parametrize(
    ("more", "sent", "exact"),
    [
        ('ipv4_dst = "10.0.0.1-10.0.0.9"', 4, True),
        ('ipv4_dst = "10.0.0.1-10.0.0.9"\nvlan = "1-5"\norder = ["vlan"]', 44, False),
        ('ipv4_dst = "10.0.0.1-10.0.0.9"\nvlan = "1-5"\norder = ["vlan"]', 45, True),
        ("udp_dst = [[5, 2], [6, 1]]", 2, False),
        ("udp_dst = [[5, 2], [6, 1]]", 3, True),
        ('udp_dst = { random = "1-9", count = 9 }', 1000, False),
        ("udp_dst = { zipf = 1, first = 5, count = 4 }", 1000, False),
    ],
)
def test_five_tuples_are_a_bound_where_some_are_drawn_or_come_again_before_all_were_sent(
    more: str, sent: int, exact: bool
) -> None:
    assert frames.is_exact(stream(more), sent) is exact


def test_fewer_frames_are_a_part_of_the_cycle_and_the_first_ranks() -> None:
    both = 'ipv4_dst = "10.0.0.1-10.0.0.4"\nudp_dst = { zipf = 1, first = 5, count = 100 }'
    made = frames.fewer(stream(both), 16)
    assert (made.flows, frames.five_tuples(made)) == (4, 16)
    assert stream_request(0, made, 1e6).fields[-1] == FieldProgram("udp.dst", Op(zipf=Zipf(4, 1.0, 1)))
    alone = frames.fewer(stream('ipv4_dst = "10.0.0.1-10.0.0.99"\nudp_dst = { zipf = 1, first = 5, count = 9 }'), 16)
    assert (alone.flows, frames.five_tuples(alone)) == (16, 16)


@pytest.mark.parametrize(
    ("more", "alike"),
    [
        ("ipv4_src = ['10.0.0.1', '10.0.0.9']", True),
        ('vlan = { random = "1-99", count = 9 }', True),
        ('ipv4_src = { random = "10.0.0.0/24", count = 9 }', False),
        ("udp_src = { zipf = 1, first = 5, count = 9 }", False),
    ],
)
def test_values_that_are_drawn_for_an_end_differ_at_the_other_end(more: str, alike: bool) -> None:
    assert frames.turns_alike(stream(more)) is alike

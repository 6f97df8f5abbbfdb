"""`pinchpoint import`: a profile becomes a scenario that holds what it says, or is refused with its line."""

import struct
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner
from msgspec import UNSET

from pinchpoint.cli.main import cli, main
from pinchpoint.engine.streams import stream_request
from pinchpoint.host.confined import run_confined
from pinchpoint.model.errors import RequirementError
from pinchpoint.scenario import load_sweep

OURS = Path(__file__).parent / "ours"
PACKET = 'Ether()/IP(src="10.0.0.1",dst="10.0.0.2")/UDP(sport=1,dport=2)'


@pytest.fixture(autouse=True, scope="module")
def namespaces():
    try:
        run_confined("pinchpoint.profiles.sandboxed", (str(OURS / "one_packet.py"), "0"), "a profile")
    except RequirementError as error:
        pytest.skip(error.message)


@pytest.fixture
def imported(tmp_path):
    def make(profile, *options):
        path = tmp_path / "imported.toml"
        result = CliRunner().invoke(cli, ["import", str(profile), "-o", str(path), *options], catch_exceptions=False)
        assert result.exit_code == 0, result.output
        (scenario,) = load_sweep(path).scenarios
        return scenario.streams

    return make


@pytest.fixture
def written(tmp_path, capsys):
    """The [[stream]] tables that a profile with this body of get_streams becomes, and all that is said."""

    def make(body, *options):
        path = profile_of(tmp_path, body)
        assert main(["import", str(path), *options]) == 0
        told = capsys.readouterr()
        return tomllib.loads(told.out)["stream"], told.out + told.err

    return make


def profile_of(folder, body):
    path = folder / "profile.py"
    lines = "\n".join(f"        {line}" for line in body.splitlines())
    path.write_text(
        "from trex_stl_lib.api import *\nclass P:\n    def get_streams(self, direction=0, **kwargs):\n"
        f"{lines}\ndef register():\n    return P()\n"
    )
    return path


@pytest.fixture
def refusal(tmp_path, capsys):
    """What is said of a profile whose get_streams has this body."""

    def make(body, *options):
        path = profile_of(tmp_path, body)
        assert main(["import", str(path), *options]) == 2
        return capsys.readouterr().err.removeprefix(f"pinchpoint: {path}: ")

    return make


def packet(text, vm="None"):
    return f"return [STLStream(packet=STLPktBuilder(pkt={text}, vm={vm}), mode=STLTXCont(pps=1))]"


def test_a_packet_becomes_a_stream_of_its_addresses_ports_and_size(imported):
    (stream,) = imported(OURS / "one_packet.py")
    request = stream_request(0, stream, 1.0)
    ethernet, ipv4, udp = request.template.layers
    assert (ipv4.ipv4.src, ipv4.ipv4.dst, udp.udp.src, udp.udp.dst) == ("192.0.2.1", "198.51.100.1", 4000, 9)
    assert (ethernet.ethernet.dst, stream.frame_bytes, stream.share) == ("02:00:00:00:00:aa", 14 + 20 + 8 + 50 + 4, 100)


def test_variables_step_together(imported):
    first, *_ = imported(OURS / "mix.py")
    request = stream_request(0, first, 1.0)
    assert request.together
    assert (request.flows, [(field.field, field.op.increment.count) for field in request.fields]) == (
        12,
        [("ipv4.src", 6), ("udp.dst", 4)],
    )


def sent(stream, header, field):
    """The first value of a field in the frames of a stream, and how many it has."""
    request = stream_request(0, stream, 1.0)
    (layer,) = (own for layer in request.template.layers if (own := getattr(layer, header)) is not UNSET)
    counts = [program.op.increment.count for program in request.fields if program.field == f"{header}.{field}"]
    return getattr(layer, field), *(counts or [1])


def test_what_scapy_fills_in_is_sent_as_well(imported, tmp_path):
    (stream,) = imported(profile_of(tmp_path, packet("Ether()/IP(flags='DF')/TCP(flags='')")))
    assert [sent(stream, *field)[0] for field in (("ipv4", "identification"), ("ipv4", "dont_fragment"))] == [1, True]
    assert [sent(stream, "tcp", field)[0] for field in ("window", "flags")] == [8192, ()]


def test_a_network_header_alone_claims_the_protocol_that_scapy_says(imported, tmp_path):
    (alone,) = imported(profile_of(tmp_path, packet("Ether()/IP(dst='10.0.0.1')/('x'*60)")))
    assert (sent(alone, "ipv4", "protocol"), sent(alone, "ipv4", "dont_fragment")) == ((0, 1), (False, 1))


def test_packets_that_are_padded_there_are_told(written):
    assert "# packets of 42 bytes there, padded; here their headers count the padding" in written(packet(PACKET))[1]
    assert "padded" not in written(packet(f"{PACKET}/('x'*18)"))[1]


@pytest.mark.parametrize(
    ("op", "step", "told"),
    [("inc", 1, [64, 512, 256]), ("dec", 1, [256, 512, 64]), ("inc", 2, [64, 256, 512])],
)
def test_a_list_is_walked_from_its_end_and_in_steps_as_there(written, op, step, told):
    values = f"[STLVmFlowVar('v', value_list=[64, 512, 256], size=2, op={op!r}, step={step})"
    (stream,), _ = written(packet(PACKET, f"{values}, STLVmWrFlowVar('v', 'UDP.sport')]"))
    assert stream["udp_src"] == told
    (stream,), notes = written(packet(f"{PACKET}/('x'*600)", f"{values}, STLVmTrimPktSize('v')]"))
    assert stream["frame_bytes"] == [[size + 4, 1] for size in told]
    assert "one after the other" not in notes


def test_a_variable_of_two_bytes_keeps_the_rest_of_the_address(imported):
    first, *_ = imported(OURS / "mix.py")
    assert sent(first, "ipv4", "src") == ("10.1.0.1", 6)


def varying(field, at="UDP.sport", fixup=0, pkt=PACKET, **variable):
    told = ", ".join(f"{name}={value!r}" for name, value in variable.items())
    program = f"[STLVmFlowVar('v', {told}), STLVmWrFlowVar('v', {at!r}, offset_fixup={fixup})]"
    return packet(pkt, program), field


@pytest.mark.parametrize(
    ("body", "field", "value", "flows"),
    [
        (*varying("udp_src", min_value=1000, max_value=1999, size=2, op="dec", step=2),
         {"first": 1999, "step": -2, "count": 500}, 500),
        (*varying("udp_src", min_value=1000, max_value=1999, size=2, step=3),
         {"first": 1000, "step": 3, "count": 334}, 334),
        (*varying("udp_src", min_value=1000, max_value=1007, size=2, op="random"),
         {"random": "1000-1007", "count": 8}, 8),
        (*varying("ipv4_src", "IP.src", min_value="10.0.0.0", max_value="10.255.255.255", op="random"),
         {"random": "10.0.0.0-10.255.255.255", "count": 65536}, 65536),
        (*varying("ipv4_src", "IP.src", size=1, min_value=10, max_value=12),
         {"first": "10.0.0.1", "step": 1 << 24, "count": 3}, 3),
        (*varying("eth_src", "Ether.src", 4, PACKET.replace("Ether()", 'Ether(src="02:00:00:00:00:00")'),
                  min_value=1, max_value=1000, size=2), "02:00:00:00:00:01-02:00:00:00:03:e8", 1000),
        (*varying("eth_src", 11, size=1), "02:00:00:00:00:00-02:00:00:00:00:ff", 256),
        (*varying("vlan", "Dot1Q.vlan", 0, "Ether()/Dot1Q()/IP()/UDP()", min_value=1, max_value=9, size=2), "1-9", 9),
        (*varying("ipv6_dst", "IPv6.dst", 14, 'Ether()/IPv6(dst="2001:db8::1:0")/UDP()', min_value=1, max_value=2,
                  size=2),
         "2001:db8::1:1-2001:db8::1:2", 2),
        (*varying("ipv4_ttl", "IP.ttl", size=1, min_value=5, max_value=6), "5-6", 2),
    ],
)  # fmt: skip
def test_a_variable_is_what_its_field_goes_through(written, body, field, value, flows):
    (stream,), _ = written(body)
    assert (stream[field], stream["flows"], stream["order"]) == (value, flows, [field])


def test_a_variable_that_begins_within_its_range_and_one_that_is_random_are_told(written):
    body, _ = varying("udp_src", min_value=1, max_value=9, size=2, init_value=4)
    (stream,), told = written(body)
    assert stream["udp_src"] == "1-9" and "# v begins with 4 there" in told
    body, _ = varying("ipv4_src", "IP.src", min_value=0, max_value=(1 << 32) - 1, op="random")
    assert "# v is random there; here 65536 random values repeat" in written(body)[1]
    body, _ = varying("udp_src", min_value=1000, max_value=1007, size=2, op="random")
    assert "# v is random there; here 8 random values repeat" in written(body)[1], "some of the 8 are alike"


def test_a_tag_is_a_key_and_counts_in_the_frame(written):
    tagged = 'Ether()/Dot1Q(vlan=100)/IP(src="198.18.0.1", dst="198.19.0.1")/UDP(sport=1025, dport=12)/(20*"v")'
    (stream,), told = written(packet(tagged))
    assert (stream["vlan"], stream["frame_bytes"], stream["udp_src"]) == (100, 70, 1025)
    assert "vlan_pcp" not in stream and "signature" not in told
    (stream,), told = written(packet(tagged.replace("vlan=100", "vlan=100, prio=5").replace('/(20*"v")', "")))
    assert (stream["vlan_pcp"], stream["frame_bytes"]) == (5, 68)
    assert "# frames of 64 bytes there" in told


def test_tcp_over_ipv6_has_its_addresses_ports_and_flags(written):
    (stream,), _ = written(packet('Ether()/IPv6(dst="2001:db8::1")/TCP(dport=80, flags="PA", seq=7)/("x"*20)'))
    assert (stream["ipv6_src"], stream["ipv6_dst"], stream["tcp_src"], stream["tcp_dst"]) == (
        "::1",
        "2001:db8::1",
        20,
        80,
    )
    assert (stream["tcp_flags"], stream["tcp_seq"], stream["frame_bytes"]) == (["psh", "ack"], 7, 98)


def test_a_profile_with_other_streams_for_direction_1_says_how_to_get_them(written):
    both = packet('Ether()/IP(src=("16.0.0.1", "48.0.0.1")[direction])/UDP()')
    streams, told = written(both)
    assert len(streams) == 1 and "direction 1 has 1 stream of its own; --both-ways imports them too" in told
    streams, told = written(both, "--both-ways")
    assert len(streams) == 2 and "of its own" not in told
    assert "more stream" not in written(packet(PACKET))[1]


def test_rates_become_shares(imported):
    assert [stream.share for stream in imported(OURS / "mix.py")] == [7, 4, 1]


def test_tunables_reach_an_argument_parser(imported):
    first, *_ = imported(OURS / "mix.py", "--tunable", "clients=2")
    assert sent(first, "ipv4", "src") == ("10.1.0.1", 2)


def test_tunables_reach_a_profile_without_a_parser_by_name(imported):
    (stream,) = imported(OURS / "tuples.py", "--tunable", "flows=8")
    assert stream.flows == 8


def test_a_tuple_counts_addresses_first_and_ends_at_its_limit(imported):
    (stream,) = imported(OURS / "tuples.py")
    assert (stream.order[:2], stream.flows, stream.together) == (("ipv4.src", "udp.src"), 30, False)


def test_both_ways_asks_for_both_directions(imported):
    streams = imported(OURS / "mix.py", "--both-ways")
    back = streams[3]
    assert (len(streams), back.tx_port, back.rx_port) == (6, "right", "left")
    assert sent(back, "ipv4", "dst") == ("10.1.0.1", 1)


def test_a_bench_keeps_all_but_its_streams(imported, tmp_path):
    bench = tmp_path / "bench.toml"
    bench.write_text(
        '[dut]\nkind = "wire"\n[[port]]\nname = "a"\n[[port]]\nname = "b"\n# gone\n[[stream]]\nfrom = "a"\nto = "b"\n'
        "# kept\n[search]\nmax_load_fps = 5e5\n"
    )
    (stream,) = imported(OURS / "one_packet.py", "--bench", str(bench), "--ports", "a", "b")
    written = (tmp_path / "imported.toml").read_text()
    assert ("# kept\n[search]" in written, "# gone" in written, stream.tx_port) == (True, False, "a")


def datagram(src, dst, ports):
    ip = bytes.fromhex("4500002e000100004011") + bytes(2) + bytes([*src, *dst])
    return bytes(12) + b"\x08\x00" + ip + struct.pack(">HHHH", *ports, 8 + 18, 0) + bytes(18)


def write_capture(path, frames=()):
    """Frames; without any a question and its answer."""
    client, server = (10, 0, 0, 1), (10, 0, 0, 2)
    frames = frames or (datagram(client, server, (4000, 53)), datagram(server, client, (53, 4000)))
    head = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
    path.write_bytes(head + b"".join(struct.pack("<IIII", 1, 0, len(frame), len(frame)) + frame for frame in frames))


PROFILE = """\
- duration : 1.0
  generator :
    distribution : 'seq'
    clients_start : '16.0.0.1'
    clients_end : '16.0.0.3'
    servers_start : '48.0.0.1'
    servers_end : '48.0.0.5'
    dual_port_mask : '1.0.0.0'
  cap_info :
    - name: NAME
      cps : 10.0
      ipg : 10000
      rtt : 10000
      w : 1
      limit : 15
"""


def test_the_first_frame_of_a_capture_is_a_packet(written, refusal, tmp_path):
    client, server = (10, 0, 0, 1), (10, 0, 0, 2)
    write_capture(tmp_path / "one.pcap", [datagram(client, server, (4000, port)) for port in (53, 54)])
    mode = "STLTXSingleBurst(pps=10, total_pkts=5)"
    body = f"return [STLStream(packet=STLPktBuilder(pkt='one.pcap', path_relative_to_profile=True), mode={mode})]"
    (stream,), told = written(body)
    assert (stream["ipv4_src"], stream["udp_dst"], stream["frame_bytes"], stream["share"]) == ("10.0.0.1", 53, 64, 10)
    assert "# stream 1: 10 pps" in told and "# ends after 5 packets there" in told
    (tmp_path / "one.pcap").write_bytes(b"oh")
    assert "one.pcap: byte 0" in refusal(body)


def test_captures_in_yaml_are_imported_with_what_is_sent_differently(imported, tmp_path):
    write_capture(tmp_path / "one.pcap")
    profile = tmp_path / "profile.yaml"
    profile.write_text(PROFILE.replace("NAME", "one.pcap"))
    (stream,) = imported(profile)
    assert (
        stream.ipv4_src.as_addresses(),
        stream.ipv4_dst.as_addresses(),
        stream.udp_dst.first,
        stream.flows,
        stream.share,
    ) == (
        "16.0.0.1-16.0.0.3",
        "48.0.0.1-48.0.0.5",
        53,
        15,
        10,
    )
    notes = (tmp_path / "imported.toml").read_text()
    assert "# one.pcap: dual_port_mask: ignored" in notes
    assert "# one.pcap: 1 of 2 frames go from server to client and are not sent: --both-ways sends them" in notes


def test_a_capture_of_more_frames_than_streams_is_one_of_their_sizes(imported, tmp_path):
    short = datagram((10, 0, 0, 1), (10, 0, 0, 2), (4000, 53))
    write_capture(tmp_path / "one.pcap", [short, short, short + bytes(60)] * 100)
    profile = tmp_path / "profile.yaml"
    profile.write_text(PROFILE.replace("NAME", "one.pcap"))
    (stream,) = imported(profile)
    assert (stream.sizes.mix, stream.flows, stream.udp_dst.first) == (((64, 2), (124, 1)), 15, 53)
    assert "# one.pcap: its 300 frames from the client are one stream of" in (tmp_path / "imported.toml").read_text()


def test_captures_of_more_pairs_than_a_stream_cycles_through_are_told(imported, tmp_path):
    write_capture(tmp_path / "one.pcap")
    profile = tmp_path / "profile.yaml"
    text = PROFILE.replace("NAME", "one.pcap").replace("16.0.0.3", "16.0.1.255").replace("48.0.0.5", "48.0.255.255")
    profile.write_text(text.replace("      limit : 15\n", ""))
    (stream,) = imported(profile)
    assert stream.flows == 1 << 24
    told = (tmp_path / "imported.toml").read_text()
    assert f"# repeats after {511 * 65535} packets there; here after {1 << 24}" in told


def segment(src, dst, ports, flags, data=b"", options=b""):
    length = 20 + 20 + len(options) + len(data)
    ip = struct.pack(">BBHHHBBH", 0x45, 0, length, 1, 0, 64, 6, 0) + bytes([*src, *dst])
    tcp = struct.pack(">HHIIBBHHH", *ports, 7, 0, (20 + len(options)) // 4 << 4, flags, 8192, 0, 0)
    return bytes(12) + b"\x08\x00" + ip + tcp + options + data


def test_segments_of_a_capture_keep_their_numbers_and_flags(imported, tmp_path):
    client, server = (10, 0, 0, 1), (10, 0, 0, 2)
    frames = [
        segment(client, server, (4000, 80), 0x02, options=bytes((2, 4, 5, 0xB4))),
        segment(server, client, (80, 4000), 0x12),
        segment(client, server, (4000, 80), 0x18, b"GET / HTTP/1.0\r\n\r\n"),
    ]
    write_capture(tmp_path / "one.pcap", frames)
    profile = tmp_path / "profile.yaml"
    profile.write_text(PROFILE.replace("NAME", "one.pcap"))
    syn, get = imported(profile)
    layers = [next(iter(layer.values())) for layer in syn.layers]
    assert (layers[-1]["dst"], layers[-1]["flags"], layers[-1]["seq"], layers[-1]["window"]) == (80, ["syn"], 7, 8192)
    assert next(iter(get.layers[-1].values()))["flags"] == ["psh", "ack"]
    text = (tmp_path / "imported.toml").read_text()
    assert "# TCP options there; none here" in text and "# one.pcap: TCP: segments are sent as" in text
    assert "# frames of 64 bytes there; here they have room for the engine's signature" in text


def test_both_ways_of_captures_are_clients_and_servers(imported, tmp_path):
    write_capture(tmp_path / "one.pcap")
    profile = tmp_path / "profile.yaml"
    profile.write_text(PROFILE.replace("NAME", "one.pcap"))
    there, back = imported(profile, "--both-ways")
    assert (there.tx_port, there.ipv4_dst.as_addresses(), there.udp_dst.first) == ("left", "48.0.0.1-48.0.0.5", 53)
    assert (back.tx_port, back.ipv4_src.as_addresses(), back.udp_src.first) == ("right", "48.0.0.1-48.0.0.5", 53)


def test_a_capture_is_found_from_the_directory_in_which_trex_is_run(imported, tmp_path, monkeypatch, capsys):
    (tmp_path / "cap2").mkdir()
    (tmp_path / "cap2" / "one.yaml").write_text(PROFILE.replace("NAME", "cap2/one.pcap"))
    monkeypatch.chdir(tmp_path)
    assert main(["import", "cap2/one.yaml"]) == 2
    told = capsys.readouterr().err
    assert all(str(tmp_path / place) in told for place in ("cap2/cap2/one.pcap", "cap2/one.pcap"))
    write_capture(tmp_path / "cap2" / "one.pcap")
    assert len(imported("cap2/one.yaml")) == 1


def masked(at="UDP.sport", size=1, fixup=1, **how):
    told = ", ".join(f"{name}={value!r}" for name, value in how.items())
    write = f"STLVmWrMaskFlowVar('v', {at!r}, pkt_cast_size={size}, offset_fixup={fixup}, {told})"
    return packet(PACKET, f"[STLVmFlowVar('v', size=1, min_value=1, max_value=30), {write}]")


def test_some_bits_of_a_variable_are_written_where_the_mask_keeps_them(written):
    (stream,), _ = written(masked(mask=0xFF))
    assert (stream["udp_src"], stream["flows"]) == ("1-30", 30)
    (stream,), _ = written(masked(size=2, fixup=0, mask=0xFF00, shift=8))
    assert stream["udp_src"] == {"first": 257, "step": 256, "count": 30}, "the low byte of port 1 stays"


def test_what_a_mask_leaves_of_values_is_a_list(written):
    (stream,), _ = written(masked(mask=0x1, shift=-1))
    assert stream["udp_src"] == [number >> 1 & 1 for number in range(1, 31)], "the lowest bit of port 1 is written"
    (stream,), _ = written(masked(mask=0xF0))
    assert (set(stream["udp_src"]), stream["flows"]) == ({1, 17}, 30)
    (stream,), _ = written(masked(mask=0x80))
    assert (stream["udp_src"], stream["flows"]) == (1, 1), "no value reaches that bit"


LABELS = "Ether()/MPLS(label=17, cos=1, s=0, ttl=255)/MPLS(label=0, s=1)/IP()/UDP(sport=1, dport=2)/('x'*20)"


def test_labels_are_layers_and_vary_by_a_mask(written, imported, tmp_path):
    write = "STLVmWrMaskFlowVar('v', 'MPLS:1.label', pkt_cast_size=4, mask=0xFFFFF000, shift=12)"
    program = f"[STLVmFlowVar('v', min_value=1, max_value=2000, size=2), {write}]"
    body = f"from scapy.contrib.mpls import MPLS\n{packet(LABELS, program)}"
    (stream,), _ = written(body)
    assert stream["layers"][:3] == [
        "ethernet", {"mpls": {"ttl": 255, "label": 17, "tc": 1}}, {"mpls": {"ttl": 0, "label": "1-2000"}},
    ]  # fmt: skip
    assert (stream["order"], stream["flows"]) == (["mpls[1].label"], 2000)
    assert imported(profile_of(tmp_path, body))


def test_options_of_ipv4_are_kept_and_count_in_the_packet(written, imported, tmp_path):
    text = "Ether()/IP(dst='10.0.0.2', options=IPOption(b'\\x01\\x01\\x01\\x00'))/UDP(sport=1, dport=2)"
    body = packet(f"{text}/('x'*(100-len({text})))", "[STLVmFlowVar('v', size=2), STLVmWrFlowVar('v', 38)]")
    (stream,), _ = written(body)
    assert stream["layers"][1]["ipv4"]["options"] == "01010100"
    assert (stream["layers"][2]["udp"]["src"], stream["frame_bytes"]) == ("0-255", 104), "ports begin at byte 38"
    assert imported(profile_of(tmp_path, body))


def test_more_packets_than_a_cycle_has_are_told(written):
    sources = "STLVmFlowVar('a', min_value='16.0.0.0', max_value='18.0.0.254'), STLVmWrFlowVar('a', 'IP.src')"
    (stream,), told = written(packet(PACKET, f"[{sources}]"))
    assert (stream["ipv4_src"], stream["flows"]) == ("16.0.0.0-18.0.0.254", 1 << 24)
    assert "# repeats after 33554687 packets there; here after 16777216" in told


def test_names_that_the_api_has_beside_its_calls(written):
    body = """first, most = "16.0.0.1", ipv4_str_to_num(is_valid_ipv4_ret("16.0.0.1")) + 3
vm = STLVM()
vm.var(name="ip", min_value=first, max_value=most, size=4, op="inc")
vm.repeatable_random_var(fv_name="port", size=2, min_value=1, max_value=9, limit=3, seed=0)
vm.write(fv_name="ip", pkt_offset="IP.src")
vm.write(fv_name="port", pkt_offset="UDP.sport")
vm.fix_chksum_hw(l3_offset="IP", l4_offset="UDP", l4_type=CTRexVmInsFixHwCs.L4_TYPE_UDP)
pkt = Ether()/IP()/UDP()/DNS()
return [STLStream(packet=STLPktBuilder(pkt=pkt, vm=vm), flow_stats=STLTaggedPktGroup(tpgid=0)),
        STLStream(packet=STLPktBuilder(pkt=pkt), flow_stats=STLFlowLatencyStats(pg_id=1, ieee_1588=True))]"""
    (stream, timed), _ = written(body)
    assert (stream["ipv4_src"], stream["udp_src"]) == ("16.0.0.1-16.0.0.4", {"random": "1-9", "count": 3})
    assert timed["frame_bytes"] == 64, "54 bytes with the question's header"


def test_random_values_that_repeat_and_lists_are_told_as_such(written):
    repeating = "STLVmFlowVarRepeatableRandom('v', size=2, limit=10, min_value=1, max_value=99)"
    (stream,), told = written(packet(PACKET, f"[{repeating}, STLVmWrFlowVar('v', 'UDP.sport')]"))
    assert (stream["udp_src"], stream["flows"]) == ({"random": "1-99", "count": 10}, 10)
    assert "is random there" not in told
    listed = "STLVmFlowVar('v', value_list=['10.0.0.9', '10.0.0.4'], op='inc')"
    (stream,), _ = written(packet(PACKET, f"[{listed}, STLVmWrFlowVar('v', 'IP.src')]"))
    assert (stream["ipv4_src"], stream["flows"]) == (["10.0.0.9", "10.0.0.4"], 2)
    (stream,), told = written(packet(PACKET, f"[{listed}, STLVmWrFlowVar('v', 'IP.src')]".replace("inc", "random")))
    assert "# v draws from its values there; here they come in turn" in told


def test_packets_that_are_cut_have_random_sizes_and_their_lengths_follow(written):
    program = "[STLVmFlowVar('s', min_value=60, max_value=1514, size=2, op='random'), STLVmTrimPktSize('s'),"
    program += "STLVmWrFlowVar('s', 'IP.len', add_val=-14), STLVmWrFlowVar('s', 'UDP.len', add_val=-34)]"
    (stream,), told = written(packet(f"{PACKET}/(1472*'x')", program))
    assert (stream["frame_bytes"], stream["flows"]) == ("64-1518", 1)
    assert "# sizes of 64 to 1518 bytes there" in told and "in steps" not in told
    (stream,), told = written(packet(f"{PACKET}/(9000*'x')", program.replace("random", "inc").replace("1514", "9200")))
    assert stream["frame_bytes"] == "64-9022" and "# sizes go up or down in steps there" in told
    (stream,), told = written(packet(PACKET, "[STLVmFlowVar('s', value_list=[60, 508, 60]), STLVmTrimPktSize('s')]"))
    assert stream["frame_bytes"] == [[64, 2], [512, 1]] and "in steps" not in told


def test_bursts_keep_their_length_and_their_mean_rate_and_what_ends_is_told(written):
    body = f"""p = STLPktBuilder(pkt={PACKET})
bursts = STLTXMultiBurst(pps=1000, pkts_per_burst=10, ibg=10000.0, count=5)
return [STLStream(name='a', packet=p, mode=bursts, next='b'),
        STLStream(name='b', packet=p, mode=STLTXSingleBurst(pps=500, total_pkts=7), self_start=False),
        STLStream(packet=p, mode=STLTXCont(pps=9), dummy_stream=True)]"""
    (bursts, single), told = written(body)
    assert (bursts["burst_frames"], bursts["share"]) == (10, 500), "10 ms of frames, then 10 ms without any"
    assert single["share"] == 500 and "burst_frames" not in single
    assert "# ends after 50 packets there" in told and "# ends after 7 packets there" in told
    assert "# begins when another stream ends there" in told


def test_priorities_echoes_and_identifications_are_keys(written):
    (stream,), _ = written(packet("Ether()/IP(tos=0xb9, id=7)/ICMP(id=5, seq=6)/('x'*20)"))
    assert {key: stream[key] for key in stream if key.startswith(("icmp", "ipv4_d", "ipv4_e", "ipv4_i"))} == {
        "icmp_type": 8, "icmp_identifier": 5, "icmp_sequence": 6, "ipv4_dscp": 46, "ipv4_ecn": 1,
        "ipv4_identification": 7, "ipv4_dst": "127.0.0.1", "ipv4_dont_fragment": False,
    }  # fmt: skip
    (stream,), _ = written(packet("Ether()/IPv6(tc=0xb8, fl=9)/UDP()/('x'*20)"))
    assert (stream["ipv6_dscp"], stream["ipv6_flow_label"]) == (46, 9)


QINQ = "Ether()/Dot1Q(vlan=5, id=1)/Dot1Q(vlan=6)/IP(src='10.0.0.1', dst='10.0.0.2')/UDP(sport=1, dport=2)/('x'*20)"


def test_headers_that_come_twice_are_layers(written, imported, tmp_path):
    program = "[STLVmFlowVar('v', min_value=6, max_value=9, size=2), STLVmWrFlowVar('v', 'Dot1Q:1.vlan')]"
    (stream,), _ = written(packet(QINQ, program))
    assert stream["layers"] == [
        "ethernet", {"vlan": {"id": 5, "dei": True}}, {"vlan": {"id": "6-9"}},
        {"ipv4": {"identification": 1, "dont_fragment": False, "src": "10.0.0.1", "dst": "10.0.0.2"}},
        {"udp": {"src": 1, "dst": 2}},
    ]  # fmt: skip
    assert (stream["order"], stream["flows"]) == (["vlan[1].id"], 4)
    (checked,) = imported(profile_of(tmp_path, packet(QINQ, program)))
    assert stream_request(0, checked, 1.0).flows == 4


def test_vxlan_has_its_port_and_both_addresses(written, imported, tmp_path):
    inner = "Ether(dst='02:00:00:00:00:09')/IP(dst='10.9.0.1')/UDP(sport=3, dport=4)/('x'*20)"
    body = packet(f"Ether()/IP(dst='10.0.0.2')/UDP()/VXLAN(vni=42)/{inner}")
    (stream,), _ = written(body)
    names = [next(iter(layer)) if isinstance(layer, dict) else layer for layer in stream["layers"]]
    assert names == ["ethernet", "ipv4", "udp", "vxlan", "ethernet", "ipv4", "udp"]
    assert stream["layers"][2:4] == [{"udp": {"src": 53, "dst": 4789}}, {"vxlan": {"vni": 42}}]
    assert stream["layers"][5]["ipv4"]["dst"] == "10.9.0.1"
    assert imported(profile_of(tmp_path, body))


def test_ipv6_in_ipv4_is_said_by_layers(written, imported, tmp_path):
    body = packet("Ether()/IP(dst='10.0.0.2')/IPv6(dst='2001:db8::1')/UDP(sport=1, dport=2)/('x'*20)")
    (stream,), _ = written(body)
    names = [next(iter(layer)) if isinstance(layer, dict) else layer for layer in stream["layers"]]
    assert names == ["ethernet", "ipv4", "ipv6", "udp"]
    assert imported(profile_of(tmp_path, body))


def hlt(**arguments):
    told = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
    return f"from trex_stl_lib.trex_stl_hltapi import STLHltStream\nreturn STLHltStream({told})"


UDP4 = {"l3_protocol": "ipv4", "l4_protocol": "udp"}


def test_an_hlt_stream_is_a_packet_of_its_arguments(written):
    (stream,), _ = written(hlt(frame_size=100, ip_src_addr="16.0.0.1", udp_dst_port=12, rate_pps=1000, **UDP4))
    assert (stream["frame_bytes"], stream["ipv4_src"], stream["ipv4_dst"], stream["udp_dst"], stream["share"]) == (
        100, "16.0.0.1", "192.0.0.1", 12, 1000)  # fmt: skip
    (back,), _ = written(hlt(ip_src_addr="16.0.0.1", rate_pps=1, direction=1, **UDP4))
    assert back["ipv4_dst"] == "16.0.0.1"


def test_hlt_fields_step_from_their_first_value(written):
    ports = {"tcp_src_port": 1234, "tcp_src_port_mode": "decrement", "tcp_src_port_count": 10}
    macs = {"mac_src": "0000.c0a8.0003", "mac_src_mode": "increment", "mac_src_step": 2, "mac_src_count": 5}
    (stream,), _ = written(hlt(l3_protocol="ipv4", l4_protocol="tcp", **ports, **macs))
    assert stream["tcp_src"] == {"first": 1234, "step": -1, "count": 10}
    assert stream["eth_src"] == {"first": "00:00:c0:a8:00:03", "step": 2, "count": 5}
    assert (stream["together"], stream["flows"]) == (True, 10)


def test_hlt_mixes_tags_and_sizes(written):
    streams, _ = written(hlt(length_mode="imix", rate_pps=12, **UDP4))
    assert [(stream["frame_bytes"], stream["share"]) for stream in streams] == [(64, 7), (570, 4), (1518, 1)]
    tags = {"vlan_id": "1 2", "vlan_id_mode": "increment fixed", "vlan_id_count": [4]}
    (stream,), _ = written(hlt(frame_size=100, **tags, **UDP4))
    assert stream["layers"][1:3] == [
        {"vlan": {"id": "1-4", "pcp": 1, "dei": True}},
        {"vlan": {"id": 2, "pcp": 1, "dei": True}},
    ]
    (stream,), _ = written(hlt(length_mode="random", frame_size_min=100, frame_size_max=1000, **UDP4))
    assert stream["frame_bytes"] == "100-1000"


def test_hlt_values_beyond_the_end_of_a_field_go_on_at_the_other(written):
    ports = {"udp_dst_port": 65000, "udp_dst_port_mode": "increment", "udp_dst_port_step": 300}
    (stream,), _ = written(hlt(udp_dst_port_count=3, **ports, **UDP4))
    assert (stream["udp_dst"], stream["flows"]) == ([65000, 65300, 64], 3)
    macs = {"mac_src": "10:00:00:00:00:01", "mac_src_mode": "decrement", "mac_src_step": 2, "mac_src_count": 2}
    (stream,), _ = written(hlt(**macs, **UDP4))
    assert stream["eth_src"] == ["10:00:00:00:00:01", "10:00:ff:ff:ff:ff"], "32 bits vary"


def test_hlt_priorities_tags_and_the_low_bytes_of_ipv6_steps(written):
    (stream,), _ = written(hlt(ip_dscp=10, vlan_id=5, vlan_protocol_tag_id="8100", **UDP4))
    assert (stream["ipv4_dscp"], stream["vlan"]) == (10, 5)
    (stream,), _ = written(hlt(ip_precedence=5, ip_tos_field=4, **UDP4))
    assert stream["ipv4_dscp"] == 44, "(5 << 5 | 4 << 2) >> 2"
    steps = {"ipv6_dst_mode": "increment", "ipv6_dst_step": "1::11", "ipv6_dst_count": 3}
    body = hlt(l3_protocol="ipv6", l4_protocol="udp", ipv6_dst_addr="2001:db8::1", ipv6_next_header=17, **steps)
    (stream,), _ = written(body)
    assert stream["ipv6_dst"] == {"first": "2001:db8::1", "step": 17, "count": 3}


def test_hlt_without_a_transport_has_its_network_alone(written, imported, tmp_path):
    body = hlt(ip_src_addr="10.0.0.1", ip_dst_addr="10.0.0.9", frame_size=128)
    (stream,), _ = written(body)
    told = {"src": "10.0.0.1", "dst": "10.0.0.9", "ttl": 64, "identification": 0, "dont_fragment": False, "protocol": 0}
    assert stream["layers"][-1] == {"ipv4": told}
    assert imported(profile_of(tmp_path, body))


@pytest.mark.parametrize(
    ("body", "line", "named"),
    [
        (packet("Ether()/IPv6()/ICMP()"), 4, "Ether/IPv6/ICMP"),
        (packet("Ether()/IP()/IP()/UDP()"), 4, "Ether/IP/IP/UDP"),
        (packet("Ether()/Dot1Q(vlan=5000)/IP()/UDP()"), 4, "Dot1Q(vlan=5000)"),
        (packet("Ether(type=0x0806)/IP()/UDP()"), 4, "Ether(type=2054)"),
        (packet("Ether()/IP(tos=256)/UDP()"), 4, "IP(tos=256)"),
        (packet("Ether()/IP(colour=3)/UDP()"), 4, "IP(colour=...)"),
        (packet("Ether()/IP(dst='10.0.0.0/24')/UDP()"), 4, "IP(dst='10.0.0.0/24')"),
        (packet("Ether()/IP()/VXLAN()"), 4, "VXLAN"),
        ("\n" + packet("'some.pcap'"), 5, "some.pcap: no such file; tried "),
        (packet("'../some.pcap'"), 4, "../some.pcap: expected a path below"),
        (packet("'/etc/hostname'"), 4, "/etc/hostname: expected a path below"),
        (packet("'some.pcap'", "[STLVmFlowVar('v'), STLVmWrFlowVar('v', 'IP.src')]"), 4, "captured packets do not"),
        (packet("7"), 4, "or with the path of a capture"),
        ("import scapy.contrib.gtp", 4, "import scapy.contrib"),
        (packet(PACKET, "[STLVmTrimPktSize('size')]"), 4, "size: no variable"),
        (masked(mask=0xF0).replace("max_value=30", "max_value=30, op='random'"), 4, "mask 0xf0, shift 0"),
        (masked(mask=0xA5).replace("size=1, min_value=1, max_value=30", "size=2, max_value=2000"), 4, "mask 0xa5"),
        (packet(LABELS, "[STLVmFlowVar('v'), STLVmWrFlowVar('v', 'MPLS.label')]"), 4, "expected a mask"),
        (packet(LABELS.replace("s=1", "s=0")), 4, "MPLS(s=0)"),
        (packet("Ether()/IP(options='77')/UDP()"), 4, "options of at most 40 bytes"),
        (
            "from trex_stl_lib.trex_stl_hltapi import STLHltStream\nreturn STLHltStream(colour=3)",
            5,
            "STLHltStream(colour=",
        ),
        (hlt(vlan_id=1, vlan_protocol_tag_id="9100", **UDP4), 5, "vlan_protocol_tag_id='9100'"),
        (hlt(l3_protocol="ipv6", l4_protocol="udp", ipv6_next_header=6), 5, "IPv6(nh=6)"),
        (packet(PACKET, "[STLVmFlowVar('v', size=1, op='random'),STLVmWrFlowVar('v','IP.src')]"), 4, "random, and"),
        (packet(PACKET, "[STLVmFlowVar('v', step=0),STLVmWrFlowVar('v','IP.src')]"), 4, "step 0"),
        (packet(PACKET, "[STLVmFlowVar('v', init_value=3, step=2),STLVmWrFlowVar('v','IP.src')]"), 4, "init_value 3"),
        (packet(PACKET, "[STLVmFlowVar('v', size=1),STLVmWrFlowVar('v',6)]"), 4, "expected unicast"),
        (
            packet(PACKET, "[STLVmFlowVar('v', min_value=512, max_value=1024, size=2),STLVmWrFlowVar('v',6)]"),
            4,
            "expected unicast",
        ),
        (packet(PACKET, "[STLVmFlowVar('v', size=1),STLVmWrFlowVar('v','IP.tos')]"), 4, "IP.tos varies"),
        (packet(PACKET, "[STLVmFlowVar('v', size=4),STLVmWrFlowVar('v','UDP.sport')]"), 4, "not within one field"),
        (packet(PACKET, "[STLVmWrFlowVar('v','IP.src')]"), 4, "no variable"),
        ("return [7]", 1, "found int"),
        ("return 1 +", 4, "SyntaxError"),
    ],
)
def test_what_no_stream_does_is_refused_with_its_line_and_name(refusal, body, line, named):
    said = refusal(body)
    assert said.startswith(f"line {line}: ")
    assert named in said


def test_a_tunable_that_the_profile_does_not_know_is_refused(refusal, capsys):
    assert main(["import", str(OURS / "mix.py"), "--tunable", "colour=red"]) == 2
    assert "--colour" in capsys.readouterr().err


def test_nothing_is_overwritten(tmp_path, capsys):
    there = tmp_path / "there.toml"
    there.write_text("mine")
    assert main(["import", str(OURS / "mix.py"), "-o", str(there)]) == 2
    assert there.read_text() == "mine"

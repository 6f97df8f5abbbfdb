"""`pinchpoint import`: a profile becomes a scenario that holds what it says, or is refused with its line."""

import struct
from pathlib import Path

import pytest
from click.testing import CliRunner

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
def refusal(tmp_path, capsys):
    """What is said of a profile whose get_streams has this body."""

    def make(body, *options):
        path = tmp_path / "profile.py"
        lines = "\n".join(f"        {line}" for line in body.splitlines())
        path.write_text(
            "from trex_stl_lib.api import *\nclass P:\n    def get_streams(self, direction=0, **kwargs):\n"
            f"{lines}\ndef register():\n    return P()\n"
        )
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


def test_a_variable_of_two_bytes_keeps_the_rest_of_the_address(imported):
    first, *_ = imported(OURS / "mix.py")
    assert first.ipv4_src.as_addresses() == "10.1.0.1-10.1.0.6"


def test_rates_become_shares(imported):
    assert [stream.share for stream in imported(OURS / "mix.py")] == [7, 4, 1]


def test_tunables_reach_an_argument_parser(imported):
    first, *_ = imported(OURS / "mix.py", "--tunable", "clients=2")
    assert first.ipv4_src.count == 2


def test_tunables_reach_a_profile_without_a_parser_by_name(imported):
    (stream,) = imported(OURS / "tuples.py", "--tunable", "flows=8")
    assert stream.flows == 8


def test_a_tuple_counts_addresses_first_and_ends_at_its_limit(imported):
    (stream,) = imported(OURS / "tuples.py")
    assert (stream.order[:2], stream.flows, stream.together) == (("ipv4_src", "udp_src"), 30, False)


def test_both_ways_asks_for_both_directions(imported):
    streams = imported(OURS / "mix.py", "--both-ways")
    back = streams[3]
    assert (len(streams), back.tx_port, back.rx_port, back.ipv4_dst.as_addresses()) == (6, "right", "left", "10.1.0.1")


def test_a_bench_keeps_all_but_its_streams(imported, tmp_path):
    bench = tmp_path / "bench.toml"
    bench.write_text(
        '[dut]\nkind = "wire"\n[[port]]\nname = "a"\n[[port]]\nname = "b"\n# gone\n[[stream]]\nfrom = "a"\nto = "b"\n'
        "# kept\n[search]\nmax_load_fps = 5e5\n"
    )
    (stream,) = imported(OURS / "one_packet.py", "--bench", str(bench), "--ports", "a", "b")
    written = (tmp_path / "imported.toml").read_text()
    assert ("# kept\n[search]" in written, "# gone" in written, stream.tx_port) == (True, False, "a")


def test_captures_in_yaml_are_imported_by_the_same_command(imported, tmp_path):
    udp = struct.pack(">HHHH", 4000, 53, 8 + 18, 0) + bytes(18)
    ip = bytes.fromhex("4500002e000100004011") + bytes(2) + bytes([10, 0, 0, 1, 10, 0, 0, 2])
    frame = bytes(12) + b"\x08\x00" + ip + udp
    head = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
    (tmp_path / "one.pcap").write_bytes(head + struct.pack("<IIII", 1, 0, len(frame), len(frame)) + frame)
    profile = tmp_path / "profile.yaml"
    profile.write_text(
        "- duration : 1.0\n  generator :\n    distribution : 'seq'\n    clients_start : '16.0.0.1'\n"
        "    clients_end : '16.0.0.3'\n    servers_start : '48.0.0.1'\n    servers_end : '48.0.0.5'\n  cap_info :\n"
        "    - name: one.pcap\n      cps : 10.0\n      ipg : 10000\n      rtt : 10000\n      w : 1\n      limit : 15\n"
    )
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


@pytest.mark.parametrize(
    ("body", "line", "named"),
    [
        (packet("Ether()/IPv6()/UDP()"), 4, "Ether/IPv6/UDP"),
        (packet("Ether()/Dot1Q(vlan=5)/IP()/UDP()"), 4, "Ether/Dot1Q/IP/UDP"),
        (packet("Ether()/IP(ttl=3)/UDP()"), 4, "IP(ttl=3)"),
        (packet("Ether()/IP(colour=3)/UDP()"), 4, "IP(colour=...)"),
        (packet("Ether()/IP(dst='10.0.0.0/24')/UDP()"), 4, "IP(dst='10.0.0.0/24')"),
        (packet("Ether()/IP()/VXLAN()"), 4, "VXLAN"),
        ("\n" + packet("'some.pcap'"), 5, "no capture"),
        ("import scapy.contrib.mpls", 4, "import scapy.contrib"),
        (
            f"return STLStream(packet=STLPktBuilder(pkt={PACKET}), mode=STLTXSingleBurst(total_pkts=5))",
            4,
            "single burst",
        ),
        (f"return STLStream(next='other', packet=STLPktBuilder(pkt={PACKET}))", 4, "STLStream(next='other')"),
        (packet(PACKET, "[STLVmTrimPktSize('size')]"), 4, "STLVmTrimPktSize"),
        (packet(PACKET, "[STLVmFlowVar('v', op='random'),STLVmWrFlowVar('v','IP.src')]"), 4, "op 'random'"),
        (packet(PACKET, "[STLVmFlowVar('v', step=2),STLVmWrFlowVar('v','IP.src')]"), 4, "step 2"),
        (packet(PACKET, "[STLVmFlowVar('v', size=1),STLVmWrFlowVar('v',11)]"), 4, "Ether.src varies"),
        (packet(PACKET, "[STLVmFlowVar('v', size=4),STLVmWrFlowVar('v','UDP.sport')]"), 4, "not within one field"),
        (packet(PACKET, "[STLVmFlowVar('v', size=1),STLVmWrFlowVar('v','IP.src')]"), 4, "last 3 bytes"),
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

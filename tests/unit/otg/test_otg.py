"""The tables, what they make of a configuration, and what the server answers."""

import json
import struct
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
import snappi
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET
from reference import otg as document
from starlette.testclient import TestClient

from pinchpoint.engine.protocol import OpenedPort
from pinchpoint.host.interface import CommandFailed
from pinchpoint.host.local import Local
from pinchpoint.model.errors import InputError
from pinchpoint.otg import captures, fields, plan
from pinchpoint.otg.app import LARGEST_BODY, application
from pinchpoint.otg.devices import answered, endpoints
from pinchpoint.otg.generator import Generator, Place, RefusedError, Trial, allowed, require_devices
from pinchpoint.otg.metrics import answer
from pinchpoint.otg.shape import Choice, Many, Problems, Record

DOCS = Path(__file__).parents[3] / "docs" / "otg.md"
HOME = "http://127.0.0.1:8443"
GBIT = 10**9


def opened(name, mac="02:00:00:00:00:aa", speed_bps=10 * GBIT):
    return OpenedPort(name, mac, "packet sockets", True, 1, 1024, 1024, 1518, speed_bps)


def read(body, speed_bps=10 * GBIT, problems=None):
    """The flows of a configuration between ports a and b, and what is wrong with it."""
    problems = problems or Problems()
    config = fields.CONFIG.read(body, "", problems)
    if problems.lines:
        return [], problems.lines
    ends = endpoints(config.get("devices") or (), ["a", "b"], problems)
    known = {name: opened(name, f"02:00:00:00:00:0{name}", speed_bps) for name in "ab"}
    plan.captures(config, known, problems)
    ports = plan.Ports(plan.with_speeds(config, known, problems), ends, {})
    return plan.flows(config, ports, problems), problems.lines


def flow(*packet, **keys):
    ends = {"choice": "port", "port": {"tx_name": "a", "rx_names": ["b"]}}
    packet = [{"choice": name, name: values} for name, values in packet]
    return {"name": "f", "tx_rx": ends, "metrics": {"enable": True}, **({"packet": packet} if packet else {}), **keys}


def planned(*packet, **keys):
    flows, wrong = read({"flows": [flow(*packet, **keys)]})
    assert wrong == []
    return flows[0]


def wrong(*packet, **keys):
    return read({"flows": [flow(*packet, **keys)]})[1]


def warned(body, speed_bps=10 * GBIT):
    """What is left out of a configuration that is taken."""
    problems = Problems()
    _, lines = read(body, speed_bps, problems)
    assert lines == []
    return problems.warnings


def pattern(kind, value):
    return {"choice": kind, kind: value}


ETH = ("ethernet", {})
IP = ("ipv4", {"src": pattern("value", "10.0.0.1"), "dst": pattern("value", "10.0.0.2")})


def test_a_flow_becomes_a_stream_with_the_next_port_as_its_destination():
    planned_flow = planned(
        ETH, IP, ("udp", {"dst_port": pattern("value", 80)}), rate=pattern("pps", 2000), size=pattern("fixed", 128)
    )
    layers = planned_flow.stream.template.layers
    assert layers[0].ethernet.dst == "02:00:00:00:00:0b"
    assert layers[1].ipv4.src == "10.0.0.1" and layers[2].udp.dst == 80
    assert not layers[1].ipv4.dont_fragment  # the model's default
    assert (planned_flow.stream.rate.fps, planned_flow.stream.size.fixed, planned_flow.needs_s) == (
        2000.0,
        128,
        float("inf"),
    )


def test_patterns_step_together_and_repeat_after_their_least_common_multiple():
    source = pattern("increment", {"start": 5000, "step": 2, "count": 10})
    target = pattern("values", [4000, 4044, 4060, 4074])
    stream = planned(ETH, IP, ("udp", {"src_port": source, "dst_port": target})).stream
    assert stream.together and stream.flows == 20
    assert [program.field for program in stream.fields] == ["udp.src", "udp.dst"]
    assert stream.fields[0].op.increment.step == 2 and stream.fields[1].op.list == (4000, 4044, 4060, 4074)


def test_a_decrement_is_an_increment_by_a_negative_step_and_headers_are_counted_by_kind():
    down = pattern("decrement", {"start": "10.0.0.9", "step": "0.0.0.2", "count": 3})
    tags = [
        ("vlan", {"id": pattern("value", 5)}),
        ("vlan", {"id": pattern("increment", {"start": 1, "step": 1, "count": 3})}),
    ]
    stream = planned(ETH, *tags, ("ipv4", {"src": down})).stream
    assert [program.field for program in stream.fields] == ["vlan[1].id", "ipv4.src"]
    assert stream.fields[1].op.increment.step == -2
    assert stream.template.layers[3].ipv4.src == "10.0.0.9"


def test_an_overlay_has_its_network_and_the_headers_in_it():
    networks = pattern("increment", {"start": 40, "step": 1, "count": 3})
    outer, inner = (ETH, IP, ("udp", {"dst_port": pattern("value", 4789)})), (ETH, IP, ("udp", {}))
    stream = planned(*outer, ("vxlan", {"vni": networks}), *inner, size=pattern("fixed", 256)).stream
    assert [program.field for program in stream.fields] == ["vxlan.vni"]
    assert stream.template.layers[3].vxlan.vni == 40 and len(stream.template.layers) == 7
    keyless = planned(
        ETH, IP, ("gre", {"protocol": pattern("value", 0x6558)}), *inner, size=pattern("fixed", 256)
    ).stream
    assert keyless.template.layers[2].gre.key is None


def test_labels_are_stacked_and_step():
    outer = ("mpls", {"label": pattern("value", 100), "bottom_of_stack": pattern("auto", 0)})
    inner = ("mpls", {"label": pattern("increment", {"start": 16, "count": 5}), "time_to_live": pattern("value", 9)})
    stream = planned(ETH, outer, inner, IP, ("udp", {}), size=pattern("fixed", 128)).stream
    (_, first, second, *_) = (layer.mpls for layer in stream.template.layers)
    assert (first.label, first.ttl, second.label, second.ttl) == (100, 64, 16, 9)
    assert [(program.field, program.op.increment.count) for program in stream.fields] == [("mpls[1].label", 5)]


def test_bytes_behind_the_headers_and_delays_are_left_out_with_a_warning():
    custom = ("custom", {"bytes": "00ff"})
    later = pattern("fixed_packets", {"packets": 10, "delay": pattern("microseconds", 1000)})
    assert warned({"flows": [flow(ETH, IP, ("udp", {}), custom, duration=later)]}) == [
        "flows[0].duration.fixed_packets.delay.microseconds: ignored: flows start together",
        "flows[0].packet[3].custom: ignored: payloads are zeros",
    ]
    assert wrong(ETH, custom, IP) == ["flows[0].packet[1].custom: expected behind all headers: its bytes are payload"]
    assert wrong(custom)[0].startswith("flows[0].packet[0].custom: expected behind")
    assert wrong(ETH, ("custom", {"bytes": "0"}))[0].startswith("flows[0].packet[1].custom.bytes: expected hexadecimal")


def test_an_arp_request_has_its_addresses():
    targets = {"start": "10.0.0.2", "step": "0.0.0.1", "count": 9}
    addresses = {
        "sender_hardware_addr": pattern("value", "02:00:00:00:00:01"),
        "sender_protocol_addr": pattern("value", "10.0.0.1"),
        "target_protocol_addr": pattern("increment", targets),
    }
    stream = planned(ETH, ("arp", addresses)).stream
    arp = stream.template.layers[1].arp
    assert (arp.operation, arp.sender_mac, arp.sender_ip, arp.target_ip) == (
        1,
        "02:00:00:00:00:01",
        "10.0.0.1",
        "10.0.0.2",
    )
    assert (stream.fields[0].field, stream.flows) == ("arp.target_ip", 9)


@pytest.mark.parametrize(
    ("rate", "fps"),
    [
        (pattern("pps", 5), 5.0), (pattern("bps", 672000), 1000.0), (pattern("kbps", 672), 1000.0),
        (pattern("mbps", 672), 1e6), (pattern("gbps", 1), 1e9 / 672), (pattern("percentage", 50), 5e9 / 672),
    ],
)  # fmt: skip
def test_bits_are_those_of_the_wire(rate, fps):
    assert planned(rate=rate).stream.rate.fps == pytest.approx(fps)


def test_a_number_of_packets_is_exact_and_seconds_end_within_a_longer_trial():
    counted = planned(duration=pattern("fixed_packets", {"packets": 1000}))
    assert counted.stream.limit_frames == 1000 and counted.needs_s == pytest.approx(1.0005)
    timed = planned(duration=pattern("fixed_seconds", {"seconds": 2}))
    assert timed.within(2.0) == timed.stream
    step = timed.within(5.0).shape.step
    assert (step.after_s, step.to_share) == (2.0, 0.0)


def test_bursts_leave_back_to_back_with_the_gap_between_them():
    gap = {"bursts": 3, "packets": 10, "inter_burst_gap": pattern("microseconds", 100.0)}
    planned_flow = planned(rate=pattern("percentage", 100), duration=pattern("burst", gap))
    assert planned_flow.stream.shape.bursts.frames == 10 and planned_flow.stream.limit_frames == 30
    assert planned_flow.stream.rate.fps == pytest.approx(10 / (10 * 672e-10 + 1e-4))


def test_bursts_in_frames_a_second_begin_when_they_would_and_say_that_they_leave_back_to_back():
    gap = {"bursts": 3, "packets": 10, "inter_burst_gap": pattern("microseconds", 100.0)}
    body = {"flows": [flow(rate=pattern("pps", 1000), duration=pattern("burst", gap))]}
    planned_flow = read(body)[0][0]
    assert planned_flow.stream.shape.bursts.frames == 10 and planned_flow.stream.limit_frames == 30
    assert planned_flow.stream.rate.fps == pytest.approx(10 / (10 / 1000 + 1e-4))
    assert [line.partition(":")[0] for line in warned(body)] == ["flows[0].rate"]
    plain = planned(rate=pattern("pps", 1000), duration=pattern("burst", {"bursts": 3, "packets": 10}))
    assert plain.stream.shape.steady is not UNSET and plain.stream.rate.fps == pytest.approx(1000)
    gap["inter_burst_gap"] = pattern("bytes", 1000.0)
    assert "duration.burst.inter_burst_gap.bytes: the speed of port a is not known" in read(body, None)[1][0]


def test_a_percentage_is_of_the_speed_of_layer_1_where_the_port_does_not_know_its_own():
    tenth = flow(
        size=pattern("fixed", 1500), rate=pattern("percentage", 10), duration=pattern("fixed_seconds", {"seconds": 3})
    )
    body = {"flows": [tenth], "layer1": [{"name": "ly", "port_names": ["a", "b"], "speed": "speed_1_gbps"}]}
    (planned_flow,), lines = read(body, None)
    assert lines == [] and planned_flow.stream.rate.fps == pytest.approx(8223.7, abs=0.05)
    assert int(planned_flow.stream.rate.fps * planned_flow.seconds) == 24_671
    assert "layer1.speed" in read({"flows": [tenth]}, None)[1][0]
    (planned_flow,), _ = read(body)
    assert planned_flow.stream.rate.fps == pytest.approx(82_237, abs=0.5)
    assert warned(body)[0].startswith("layer1[0].speed: ignored: port a has a speed of its own")
    body["layer1"][0]["port_names"] = ["c"]
    assert read(body)[1] == ["layer1[0].port_names[0]: 'c' is no port of this configuration"]


def test_what_a_script_can_live_without_is_a_warning():
    body = {
        "flows": [flow(metrics={"enable": True, "timestamps": True})],
        "layer1": [{"name": "ly", "port_names": ["a"], "media": "fiber", "auto_negotiate": False}],
        "captures": [{"name": "cp", "port_names": ["a", "b"], "filters": [{"choice": "ipv4", "ipv4": {}}]}],
        "options": {"port_options": {"location_preemption": True}},
    }
    places = ["flows[0].metrics.timestamps", "layer1[0].media", "captures[0].filters"]
    assert sorted(line.partition(": ")[0] for line in warned(body)) == sorted(places)
    body["captures"][0]["port_names"] = ["c"]
    assert read(body)[1] == ["captures[0].port_names[0]: 'c' is no port of this configuration"]


def test_sizes_are_lists_ranges_and_mixes():
    assert planned(size=pattern("increment", {"start": 64, "end": 70, "step": 2})).stream.size.list[-1] == (70, 1)
    assert planned(size=pattern("random", {"min": 64, "max": 128})).mean_bytes == 96
    assert planned(size=pattern("weight_pairs", pattern("predefined", "imix"))).stream.size.list[0] == (64, 7)
    pairs = [{"size": 64, "weight": 0.5}, {"size": 128, "weight": 0.25}]
    assert planned(size=pattern("weight_pairs", pattern("custom", pairs))).stream.size.list == ((64, 2), (128, 1))


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ({"flow": []}, "flow: unknown field"),
        ({"flows": [flow(colour=1)]}, "flows[0].colour: unknown field"),
        ({"flows": [flow(ETH, ("ppp", {}))]}, "flows[0].packet[1].ppp: not supported"),
        ({"flows": [flow(ETH, ("ipv4", {"options": [{"choice": "router_alert"}]}))]}, "packet[1].ipv4.options: not"),
        ({"flows": [flow(ETH, ("ipv4", {"src": {"metric_tags": [{"name": "x"}]}}))]}, "ipv4.src.metric_tags: not"),
        ({"flows": [flow(ETH, ("ipv4", {"src": pattern("value", "10.0.0")}))]}, "ipv4.src.value: expected an IPv4"),
        ({"flows": [flow(ETH, ("tcp", {"window": pattern("values", [1, 2])}))]}, "tcp.window.values: not supported"),
        ({"flows": [flow(ETH, IP, ("tcp", {}))]}, "flows[0].size: these headers and the signature"),
        ({"flows": [flow(IP)]}, "flows[0].packet[0]: expected ethernet"),
        ({"flows": [flow(size=pattern("fixed", 9000))]}, "flows[0].size: port a takes frames of at most 1518"),
        ({"flows": [flow(metrics={"rx_tx_ratio": {}})]}, "flows[0].metrics.rx_tx_ratio: not supported"),
        ({"layer1": [{"name": "x", "speed": "speed_3_gbps"}]}, "layer1[0].speed: expected one of speed_10_fd_mbps"),
        ({"flows": [{"name": "f"}]}, "flows[0].tx_rx: is missing"),
        ({"flows": [flow(tx_rx=pattern("port", {"tx_name": "c"}))]}, "tx_rx.port.tx_name: 'c' is no port"),
        ({"flows": [flow(tx_rx=pattern("device", {"tx_names": ["x"], "rx_names": ["y"]}))]}, "'x' is no device"),
        ({"flows": [flow(rate={"choice": "pps", "bps": 1000})]}, "flows[0].rate: only pps may be given"),
        ({"flows": [flow(rate={"pps": True})]}, "flows[0].rate.pps: expected an integer"),
        ({"lags": [{}]}, "lags: not supported"),
        ([], "body: expected an object"),
    ],
)
def test_what_is_not_supported_is_refused_by_its_path(body, place):
    lines = read(body)[1]
    assert any(place in line for line in lines), lines


def device(name, port, mac, address, gateway, **more):
    ip = {"name": f"{name}.ip", "address": address, "gateway": gateway, **more}
    ethernet = {"name": f"{name}.eth", "connection": pattern("port_name", port), "mac": mac, "ipv4_addresses": [ip]}
    return {"name": name, "ethernets": [ethernet]}


def test_a_flow_between_devices_takes_their_addresses_and_the_gateways_mac():
    devices = [
        device(
            "d", "a", "02:00:00:00:01:01", "10.0.0.1", "10.0.0.254", gateway_mac=pattern("value", "02:00:00:00:00:fe")
        ),
        device("e", "b", "02:00:00:00:01:02", "10.0.1.1", "10.0.1.254"),
    ]
    ends = pattern("device", {"mode": "one_to_one", "tx_names": ["d.ip"], "rx_names": ["e"]})
    config = {"devices": devices, "flows": [flow(ETH, ("ipv4", {}), ("udp", {}), tx_rx=ends)]}
    flows, lines = read(config)
    assert lines == []
    ethernet, ip = (flows[0].stream.template.layers[k] for k in (0, 1))
    assert (ethernet.ethernet.src, ethernet.ethernet.dst) == ("02:00:00:00:01:01", "02:00:00:00:00:fe")
    assert (ip.ipv4.src, ip.ipv4.dst) == ("10.0.0.1", "10.0.1.1")
    del devices[0]["ethernets"][0]["ipv4_addresses"][0]["gateway_mac"]
    assert "the gateway did not answer" in read(config)[1][0]
    devices[1]["ethernets"][0]["ipv4_addresses"][0]["address"] = "10.0.0.254"
    assert read(config)[0][0].stream.template.layers[0].ethernet.dst == "02:00:00:00:01:02"


def test_an_arp_reply_is_found_in_a_capture_behind_a_tag():
    reply = bytes(12) + bytes.fromhex("81000005080600010800060400020200000000fe0a0000fe") + bytes(28)
    padded = reply + bytes(-len(reply) % 4)
    length = 32 + len(padded)
    block = b"".join(n.to_bytes(4, "little") for n in (6, length, 0, 0, 0, len(reply), len(reply))) + padded
    block += length.to_bytes(4, "little")
    assert answered(block) == {0x0A0000FE: 0x0200000000FE}
    assert answered(block[:40]) == {}


def test_locations_name_backend_device_and_namespace():
    locations = allowed(["veth0@ns1", "localhost:5555=af_xdp:eth0,queue=2", "dpdk:net_null0,no-rx=1"])
    assert locations == {
        "veth0@ns1": Place("af_packet", "veth0", "ns1"),
        "localhost:5555": Place("af_xdp", "eth0,queue=2", None),
        "dpdk:net_null0,no-rx=1": Place("dpdk", "net_null0,no-rx=1", None),
    }
    for word in ("", "a=", "veth0@", "veth0@../x"):
        with pytest.raises(InputError):
            allowed([word])


class Interfaces:
    """A host that has lo, and one namespace with eth0."""

    def exists(self, path):
        return path in ("/sys/class/net/lo", "/run/netns/ns1")

    def run(self, argv):
        if argv != ["ip", "-n", "ns1", "link", "show", "dev", "eth0"]:
            raise CommandFailed(argv, "no such device")


def test_a_port_whose_interface_is_not_there_is_refused():
    require_devices(allowed(["lo", "af_xdp:eth0,queue=2@ns1", "eth0@ns1", "mem:pair"]), Interfaces())
    for word in ("nosuch0", "lo@ns1", "eth0@ns2"):
        with pytest.raises(InputError, match="has no interface"):
            require_devices(allowed([word]), Interfaces())


COVERED = {
    "": ("Config", fields.CONFIG),
    "control": ("ControlState", fields.CONTROL),
    "metrics": ("MetricsRequest", fields.REQUEST),
    "capture": ("CaptureRequest", fields.CAPTURED),
}  # fmt: skip


def uncovered(name, kind, path=""):
    """Fields of snappi's class, and of those below, that a table does not name."""
    types = getattr(snappi.snappi, name)._TYPES
    known = {**kind.options, **kind.always} if isinstance(kind, Choice) else kind.fields
    for key, value in types.items():
        if key == "choice":
            continue
        if key not in known:
            yield f"{path}.{key}"
            continue
        inner, type_name = known[key], value.get("type")
        inner = inner.kind if isinstance(inner, Many) else inner
        type_name = type_name if isinstance(type_name, str) else getattr(type_name, "__name__", "")
        type_name = type_name.removesuffix("Iter")
        if isinstance(inner, Record | Choice) and hasattr(snappi.snappi, type_name):
            yield from uncovered(type_name, inner, f"{path}.{key}")


@pytest.mark.parametrize("which", COVERED)
def test_every_field_that_snappi_knows_is_in_the_tables(which):
    assert list(uncovered(*COVERED[which])) == []


def test_the_table_of_conformance_is_that_of_the_code():
    text = DOCS.read_text()
    assert text[text.index(document.BEGIN) : text.index(document.END) + len(document.END)] == document.table()


@pytest.fixture
def generator(tmp_path):
    generator = Generator({"veth0": Place("af_packet", "no-such-port", None)}, 0, tmp_path, Local())
    yield generator
    generator.close()


@pytest.fixture
def client(generator):
    return TestClient(application(generator, 8443), base_url=HOME, raise_server_exceptions=False)


def sent(generator, planned, received, foreign):
    """A generator after a transmission of 1,000 frames from a to b."""
    stream = SimpleNamespace(sent=1000, received=received, lost=0, latency=None)
    ports = [
        SimpleNamespace(name="a", sent=1000, received=0, foreign=0),
        SimpleNamespace(name="b", sent=0, received=received or 0, foreign=foreign),
    ]
    generator.opened, generator.locations = {"a": opened("a"), "b": opened("b")}, {"a": "a", "b": "b"}
    generator.trial = Trial((planned,), result=SimpleNamespace(streams=[stream], ports=ports, capture=None))
    return {port["name"]: port for port in answer(generator, fields.REQUEST.read({}, "", Problems()))["port_metrics"]}


def test_a_port_counts_the_frames_of_flows_without_metrics_and_their_bytes(generator):
    planned_flow = planned(metrics=None, size=pattern("fixed", 128))
    assert planned_flow.stream.stamped and not planned_flow.counted
    port = sent(generator, planned_flow, 1000, 1)["b"]
    assert (port["frames_rx"], port["bytes_rx"]) == (1000, 128_000)


def test_a_port_whose_frames_cannot_be_told_apart_has_no_bytes(generator):
    payload = {"choice": "fixed", "fixed": {"pattern": "00"}}
    planned_flow = planned(metrics=None, size=pattern("fixed", 128), payload=payload)
    assert not planned_flow.stream.stamped
    port = sent(generator, planned_flow, None, 1001)["b"]
    assert port["frames_rx"] == 1001 and "bytes_rx" not in port


def packet_block(port, is_received, data, at_ns):
    body = struct.pack("<IIIII", port, at_ns >> 32, at_ns & 0xFFFFFFFF, len(data), len(data))
    body += data + bytes(-len(data) % 4) + struct.pack("<HHII", 2, 4, 1 if is_received else 2, 0)
    return struct.pack("<II", 6, len(body) + 12) + body + struct.pack("<I", len(body) + 12)


HEADER = struct.pack("<IIIHHQI", 0x0A0D0D0A, 28, 0x1A2B3C4D, 1, 0, (1 << 64) - 1, 28)
KEPT = HEADER + b"".join(
    packet_block(port, is_received, bytes([port, is_received]) * length, 10**18 + length)
    for port, is_received, length in ((0, False, 30), (1, True, 31), (1, False, 32), (1, True, 33))
)


def test_a_capture_has_the_frames_that_a_port_received(generator, client, tmp_path):
    sent(generator, planned(), 1000, 0)
    client.post("/control/state", json={"choice": "port", "port": pattern("capture", {"state": "start"})})
    generator._kept = generator._watched
    (tmp_path / "capture.pcapng").write_bytes(KEPT)
    reply = client.post("/monitor/capture", json={"port_name": "b"})
    assert (reply.status_code, reply.headers["content-type"]) == (200, "application/octet-stream")
    assert reply.content[:4] == b"\x4d\x3c\xb2\xa1"
    assert reply.content[24:40] == struct.pack("<IIII", 10**9, 31, 62, 62)
    assert reply.content[40:102] == b"\1\1" * 31 and len(reply.content) == 24 + 16 + 62 + 16 + 66
    generator._captures = {"b": {"format": "pcapng", "packet_size": 8}}
    kept = list(captures.frames(client.post("/monitor/capture", json={"port_name": "b"}).content))
    assert [(frame.port, frame.data, frame.time_ns) for frame in kept] == [
        (1, b"\1\1" * 4, 10**18 + 31), (1, b"\1\1" * 4, 10**18 + 33)
    ]  # fmt: skip


def test_a_capture_that_was_not_started_says_how(generator, client):
    sent(generator, planned(), 1000, 0)
    for port, what in (("c", "'c' is no port"), ("b", "start a capture")):
        assert what in client.post("/monitor/capture", json={"port_name": port}).json()["errors"][0]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example"}, 421), ({"origin": "http://evil.example"}, 403), ({"origin": HOME}, 403),
        ({"content-type": "text/plain"}, 415), ({}, 200),
    ],
)  # fmt: skip
def test_only_programs_on_this_machine_are_answered(client, headers, status):
    answer = client.post("/config", content=b"{}", headers={"content-type": "application/json", **headers})
    assert answer.status_code == status
    assert not any(name.startswith("access-control") for name in answer.headers)


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"[" * 100_000, b'{"a":1,"a":2}', b"\xff", b"NaN", b'{"ports": 1e999}', b"[]", b"null",
        b'{"flows":' + b"[" * 80 + b"]" * 80 + b"}", b'{"ports":[{"name":"a","location":"veth1"}]}',
    ],
)  # fmt: skip
def test_a_hostile_body_is_refused_with_the_models_error(client, body):
    answer = client.post("/config", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 400
    assert answer.json()["kind"] == "validation" and answer.json()["errors"]


def test_a_body_that_is_too_large_is_refused(client):
    body = b'"' + b"x" * LARGEST_BODY + b'"'
    assert client.post("/config", content=body, headers={"content-type": "application/json"}).status_code == 413


def test_a_port_that_cannot_be_opened_or_is_not_allowed_is_named(client):
    def refused(location):
        answer = client.post("/config", json={"ports": [{"name": "a", "location": location}]})
        assert answer.status_code == 400
        return answer.json()["errors"][0]

    assert refused("veth9").startswith("ports[0].location: 'veth9' is not allowed, expected one of veth0")
    assert refused("veth0").startswith("ports: engine: ")


@pytest.mark.parametrize(("path", "method"), [("/config/append", "patch"), ("/monitor/states", "post"), ("/x", "get")])
def test_what_is_not_served_says_so(client, path, method):
    answer = client.request(method, path)
    assert answer.status_code in (404, 405) and path in answer.json()["errors"][0]


def test_a_link_state_a_pause_and_an_unknown_port_are_refused_by_name(client):
    for body, place in (
        ({"choice": "port", "port": pattern("link", {"state": "down"})}, "port.link: not supported"),
        ({"choice": "port", "port": pattern("capture", {"state": "start", "port_names": ["x"]})}, "'x' is no port"),
        (
            {"choice": "traffic", "traffic": pattern("flow_transmit", {"state": "pause"})},
            "flow_transmit.state: 'pause'",
        ),
    ):
        assert place in client.post("/control/state", json=body).json()["errors"][0]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
KNOWN = json.loads(json.dumps({"flows": [flow(ETH, IP, ("udp", {"src_port": pattern("values", [1, 2])}))], "devices": [
    device("d", "a", "02:00:00:00:01:01", "10.0.0.1", "10.0.0.254")]}))  # fmt: skip


def places(value, path=()):
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one_of_it in inner:
        yield from places(one_of_it, (*path, key))


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(sorted(places(KNOWN), key=str)), JSON)
def test_whatever_stands_in_a_field_is_read_or_refused(path, value):
    if not path:
        body = value
    else:
        body = json.loads(json.dumps(KNOWN))
        inner = body
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = value
    flows, lines = read(body)
    assert flows or lines or not (isinstance(body, dict) and body.get("flows"))


def test_a_start_without_a_configuration_is_refused(tmp_path):
    generator = Generator({}, 0, tmp_path, Local())
    with pytest.raises(RefusedError, match="has no flows"):
        generator.transmit("start", [])
    generator.transmit("stop", [])
    generator.close()
    assert threading.active_count() >= 1

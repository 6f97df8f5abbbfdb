"""The seam: the golden messages are read here exactly as they are read in Rust."""

import copy
import json
import math
from dataclasses import replace
from pathlib import Path

import jsonschema
import msgspec
import pytest
from support import request, stream

from pinchpoint.engine import protocol
from pinchpoint.engine.instrument import HIGHEST_FPS, SliceCounts, Slices, duration_of
from pinchpoint.engine.streams import Rate, Size, stream_request
from pinchpoint.engine.trials import engine_result, run_message
from pinchpoint.model.scenario import Range, Stream

ROOT = Path(__file__).parents[3] / "protocol"
SCHEMA = json.loads((ROOT / "schema.json").read_text())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
SIDES = {"lab_to_engine": protocol.FromLab, "engine_to_lab": protocol.FromEngine}
# sockets.jsonl holds both sides' messages.
SOCKETS = {
    "lab_to_engine": {"sockets"},
    "engine_to_lab": {"sockets_sample", "sockets_result", "sockets_listening", "sockets_served"},
}
# connections.jsonl, too. Runs store what its results say; those stored before lack keys, which then have a default.
CONNECTIONS = {"lab_to_engine": {"connections"}, "engine_to_lab": {"connections_sample", "connections_result"}}
STORED = "connections_result"
# Keys of layers that may be left out (protocol/README.md, "Streams").
# Keys that a message may lack wherever they stand: readers take an empty list, null or zero.
OPTIONAL = {
    "limit_frames",
    "together",
    "rx_ports",
    "reordered_in_flow",
    "misdelivered",
    "ring_behind",
    "longest_frame_bytes",
    "wall_clock",
    "on_go",
    "source",
    "others",
    "cpus",
}
HAVE_DEFAULTS = {
    "ethernet": {"ethertype"},
    "vlan": {"pcp", "dei", "tpid"},
    "arp": {"operation"},
    "ipv4": {"ttl", "dscp", "ecn", "identification", "dont_fragment", "options", "protocol"},
    "ipv6": {"hop_limit", "dscp", "ecn", "flow_label", "extensions", "next_header"},
    "tcp": {"seq", "ack", "flags", "window", "options"},
    "icmp": {"code", "identifier", "sequence"},
    "icmpv6": {"code", "identifier", "sequence"},
    "geneve": {"options"},
    "gre": {"key", "sequence"},
    "mpls": {"tc", "ttl"},
    "gtpu": {"qfi", "pdu_type"},
    "nsh": {"si", "ttl", "context"},
    "esp": {"sequence"},
}


def lines(name):
    return [json.loads(line) for line in (ROOT / "golden" / f"{name}.jsonl").read_text().splitlines()]


def golden(side):
    both = {"sockets": SOCKETS, "connections": CONNECTIONS}
    return lines(side) + [
        message for name, types in both.items() for message in lines(name) if message["type"] in types[side]
    ]


def read(side, message):
    return msgspec.json.decode(json.dumps(message), type=SIDES[side])


def obeys(side, kind, message):
    """Whether a message is one of its type; quicker than asking for any type."""
    names = [f"{kind}_request"] if side == "lab_to_engine" else [f"{kind}_reply", kind]
    (definition,) = (name for name in names if name in SCHEMA["$defs"])
    return jsonschema.Draft202012Validator({**SCHEMA["$defs"][definition], "$defs": SCHEMA["$defs"]}).is_valid(message)


def is_read(side, message):
    try:
        read(side, message)
    except msgspec.ValidationError:
        return False
    return True


def objects(value, path=()):
    """The path of every object inside `value`, itself included."""
    if isinstance(value, dict):
        yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, member in inner:
        yield from objects(member, (*path, key))


def at(message, path):
    """(a copy of `message`, the object at `path` inside that copy)."""
    whole = copy.deepcopy(message)
    inner = whole
    for key in path:
        inner = inner[key]
    return whole, inner


SLICES = next(message["slices"] for message in golden("lab_to_engine") if message.get("trial") == "duet")
EVERY_MESSAGE = [
    pytest.param(side, message, id=f"{side}-{number}-{message['type']}")
    for side in SIDES
    for number, message in enumerate(golden(side), 1)
]


EVERY_PART = [
    pytest.param(side, part, id=f"{side}-{number}-{message['type']}-{place}")
    for side in SIDES
    for number, message in enumerate(golden(side), 1)
    for place, part in enumerate(
        [{**message, "streams": [stream]} for stream in message["streams"]] if message["type"] == "run" else [message]
    )
]
"""The golden messages, those with several streams once for each stream."""


@pytest.mark.parametrize(("side", "message"), EVERY_MESSAGE)
def test_every_golden_message_is_read_and_written_back_unchanged(side, message):
    assert json.loads(msgspec.json.encode(read(side, message))) == message


@pytest.mark.parametrize(("side", "message"), EVERY_MESSAGE)
def test_every_golden_message_obeys_the_schema(side, message):
    VALIDATOR.validate(message)


@pytest.mark.parametrize(("side", "message"), EVERY_PART)
def test_an_unknown_key_is_refused_wherever_it_stands(side, message):
    for path in objects(message):
        changed, inner = at(message, path)
        inner["colour"] = "red"
        assert not is_read(side, changed), path
        assert not obeys(side, message["type"], changed), path


@pytest.mark.parametrize(("side", "message"), EVERY_PART)
def test_a_missing_key_is_refused_unless_it_has_a_default(side, message):
    for path in objects(message):
        if path and path[-1] == "stats":
            continue  # counters by name: none of them must be there
        for key in at(message, path)[1]:
            changed, inner = at(message, path)
            del inner[key]
            may_lack = {"cores"} - set(path) if message["type"] == STORED else OPTIONAL
            optional = key in may_lack or (bool(path) and key in HAVE_DEFAULTS.get(path[-1], ()))
            assert obeys(side, message["type"], changed) is optional, (*path, key)
            # What a lab sends always has a version; only its reading has a default.
            is_stored = message["type"] == STORED and path
            if (message["type"] != "hello" or side != "lab_to_engine") and not is_stored:
                assert is_read(side, changed) is optional, (*path, key)


def test_a_layers_key_that_is_left_out_means_the_default_that_the_readme_and_the_schema_say():
    every_choice = next(message for message in golden("lab_to_engine") if message.get("trial") == "every-choice")
    layers = {
        next(iter(option["properties"])): next(iter(option["properties"].values()))
        for option in SCHEMA["$defs"]["layer"]["oneOf"]
    }
    layers = {name: SCHEMA["$defs"]["icmp"] if "$ref" in layer else layer for name, layer in layers.items()}
    keys = set()
    for path in objects(every_choice):
        if not path or path[-1] not in HAVE_DEFAULTS or "layers" not in path:
            continue
        changed, inner = at(every_choice, path)
        for key in HAVE_DEFAULTS[path[-1]]:
            del inner[key]
        written = json.loads(msgspec.json.encode(read("lab_to_engine", changed)))
        for key in HAVE_DEFAULTS[path[-1]]:
            assert at(written, path)[1][key] == layers[path[-1]]["properties"][key]["default"], (path, key)
        keys.add(path[-1])
    assert keys == set(HAVE_DEFAULTS)


def test_every_message_of_sockets_has_a_side_and_an_example():
    assert {message["type"] for message in lines("sockets")} == set.union(*SOCKETS.values())


@pytest.mark.parametrize(("side", "message"), [message for message in EVERY_MESSAGE if "sockets" in message.id])
def test_null_is_read_exactly_where_the_schema_has_it(side, message):
    for path in objects(message):
        for key in at(message, path)[1]:
            changed, inner = at(message, path)
            inner[key] = None
            # In a stream's request some keys must be null; elsewhere they may be.
            assert is_read(side, changed) is obeys(side, message["type"], changed), (*path, key)


@pytest.mark.parametrize("key", ["rate_tps", "warm_up_s", "duration_s", "timeout_s", "sample_interval_s"])
def test_a_workload_has_no_number_that_json_would_write_as_null(key):
    request = read("lab_to_engine", lines("sockets")[0])
    for value in (math.inf, math.nan):
        with pytest.raises(ValueError, match=f"{key}: expected a finite number"):
            msgspec.structs.replace(request, **{key: value})


@pytest.mark.parametrize(
    ("number", "key", "value"),
    [
        (0, "transport", "sctp"),
        (0, "client", {"netns": "../lab-a", "core": 0}),
        (0, "sources", ["lab-a"]),
        (0, "listen", "0.0.0.0"),
        (0, "port", 65536),
        (0, "target", "10.0.0.9"),
        (0, "target", "10.0.0.9:0"),
        (0, "target", "fe80::1:80"),
        (0, "connections", 0),
        (0, "connections", 16385),
        (0, "request_bytes", 0),
        (0, "response_bytes", 0),
        (0, "rate_tps", 0),
        (0, "warm_up_s", 86401),
        (0, "duration_s", 0),
        (0, "transactions", 0),
        (0, "timeout_s", 61),
        (0, "close", None),
        (0, "wait", "sleep"),
        (0, "repeats", 1001),
        (0, "sample_interval_s", 0),
        (2, "transport", "udp"),
        (2, "response_bytes", 1),
        (2, "rate_tps", 1.0),
        (2, "transactions", 1),
        (3, "failed", -1),
        (4, "status", "finished"),
        (4, "target", "lab-b:80"),
        (4, "runs", []),
    ],
)
def test_the_schema_refuses_workloads_that_cannot_be(number, key, value):
    message = lines("sockets")[number]
    VALIDATOR.validate(message)
    message[key] = value
    assert not VALIDATOR.is_valid(message)


def test_behind_a_target_a_server_may_have_all_addresses():
    VALIDATOR.validate(lines("sockets")[0] | {"listen": "0.0.0.0", "target": "10.0.0.100:80"})


def test_a_datagram_of_a_workload_fits_ipv4():
    message = lines("sockets")[0] | {"request_bytes": 65508}
    VALIDATOR.validate(message)
    assert not VALIDATOR.is_valid(message | {"transport": "udp"})
    VALIDATOR.validate(message | {"transport": "udp", "request_bytes": 65507})


@pytest.mark.parametrize("target", ["192.0.2.7:80", "[2001:db8::7]:80", "[fe80::7%2]:80"])
def test_a_target_is_an_address_with_a_port(target):
    VALIDATOR.validate(lines("sockets")[0] | {"target": target})


@pytest.mark.parametrize("chosen", [{}, {"fps": 1.0, "bps_l1": 1.0}, {"fps": None}, {"parsecs": 1.0}])
def test_a_choice_is_exactly_one_key(chosen):
    message = next(message for message in golden("lab_to_engine") if message["type"] == "run")
    message["streams"][0]["rate"] = chosen
    assert not is_read("lab_to_engine", message)
    assert not VALIDATOR.is_valid(message)


def test_a_choice_is_made_when_it_is_built():
    with pytest.raises(ValueError, match=r"expected one key of fps, .*; found none"):
        Rate()
    with pytest.raises(ValueError, match="found fixed, imix"):
        Size(fixed=64, imix="simple")


@pytest.mark.parametrize(
    ("side", "kind", "path", "value"),
    [
        ("lab_to_engine", "open", ("workers",), []),
        ("lab_to_engine", "open", ("ports", 0, "backend"), "socket"),
        ("lab_to_engine", "run", ("tx_burst",), 65),
        ("lab_to_engine", "run", ("latency_every",), 0),
        ("lab_to_engine", "run", ("slices",), []),
        ("lab_to_engine", "run", ("slices",), SLICES | {"length_ns": 999_999}),
        ("lab_to_engine", "run", ("slices",), SLICES | {"groups": [[0], []]}),
        ("lab_to_engine", "run", ("slices",), SLICES | {"order": []}),
        ("lab_to_engine", "run", ("slices",), SLICES | {"order": [16]}),
        ("lab_to_engine", "run", ("slices",), SLICES | {"settle_ns": -1}),
        ("lab_to_engine", "run", ("slices",), SLICES | {"hold": [[1]]}),
        ("lab_to_engine", "run", ("slices",), SLICES | {"hold": [[4021, 4021]]}),
        ("lab_to_engine", "run", ("streams", 0, "size"), {"fixed": 63}),
        ("lab_to_engine", "run", ("streams", 0, "rate"), {"line_share": 1.5}),
        ("lab_to_engine", "run", ("streams", 0, "wrong_checksums"), ["l5"]),
        ("lab_to_engine", "run", ("streams", 0, "template", "layers", 1, "ipv4", "dscp"), 64),
        ("lab_to_engine", "run", ("streams", 0, "fields", 0, "field"), "dst"),
        ("engine_to_lab", "result", ("status",), "finished"),
        ("engine_to_lab", "error", ("code",), "oops"),
    ],
)
def test_the_schema_refuses_values_that_cannot_be(side, kind, path, value):
    message = next(message for message in golden(side) if message["type"] == kind)
    *before, last = path
    changed, inner = at(message, before)
    inner[last] = value
    assert not VALIDATOR.is_valid(changed)


def test_a_stream_of_a_scenario_is_ethernet_ipv4_and_udp_at_a_steady_rate():
    request = json.loads(msgspec.json.encode(stream_request(3, stream(), 1e6)))
    assert [next(iter(layer)) for layer in request["template"]["layers"]] == ["ethernet", "ipv4", "udp"]
    assert (request["id"], request["rate"], request["shape"]) == (3, {"fps": 1e6}, {"steady": {}})
    assert (request["size"], request["stamped"], request["fields"]) == ({"fixed": 64}, True, [])


def test_a_load_without_a_rate_is_as_fast_as_it_goes():
    assert stream_request(0, stream(), None).rate is None


def test_a_streams_ranges_become_field_programs_fastest_first():
    stream = Stream(
        tx_port="left",
        rx_port="right",
        frame_bytes=64,
        share=1.0,
        eth_src="02:00:00:00:00:01",
        eth_dst="02:00:00:00:00:02",
        ipv4_src=Range(0x10000001, 255),
        ipv4_dst=Range(0x30000001, 65535),
        udp_src=Range(1025, 1),
        udp_dst=Range(12, 1),
        order=("ipv4_dst", "ipv4_src", "udp_dst", "udp_src"),
        flows=65536,
    )
    first_run = next(message for message in golden("lab_to_engine") if message["type"] == "run")
    request = json.loads(msgspec.json.encode(stream_request(0, stream, 1.5e6)))
    assert request == first_run["streams"][0], "the golden example is a stream that the lab sends"


@pytest.mark.parametrize("frames", [1, 64, 4097, 1_000_003])
def test_a_burst_is_one_group_of_exactly_its_frames_at_the_highest_rate_that_the_seam_knows(frames):
    asked = replace(request(HIGHEST_FPS, duration_of(frames, HIGHEST_FPS)), burst_frames=frames)
    message = run_message(asked)
    plain = json.loads(msgspec.json.encode(message))
    VALIDATOR.validate(plain)
    (sent,) = plain["streams"]
    assert (sent["rate"], sent["shape"]) == ({"fps": 1e9}, {"bursts": {"frames": frames}})
    assert int(sent["rate"]["fps"] * plain["duration_s"]) == frames


def test_slices_are_asked_for_in_nanoseconds_and_each_group_has_the_whole_load():
    streams = (stream(), stream(share=3.0), stream(tx_port="left_b", rx_port="right_b"))
    slices = Slices(((0, 1), (2,)), (0, 1, 1, 0), 0.02, 0.002, 0.006, ((4021,), (4022, 4023)))
    message = run_message(replace(request(4e6, streams=streams), slices=slices))
    plain = json.loads(msgspec.json.encode(message))
    VALIDATOR.validate(plain)
    assert plain["slices"] == SLICES | {"groups": [[0, 1], [2]]}
    assert [stream["rate"]["fps"] for stream in plain["streams"]] == [1e6, 3e6, 4e6]


def test_slices_are_read_in_seconds_and_null_is_nothing_known():
    plain, sliced = (
        engine_result(read("engine_to_lab", message), ())
        for message in golden("engine_to_lab")
        if message["type"] == "result" and message["trial"] != "forward-0002"
    )
    assert plain.slices == ()
    assert sliced.slices[:2] == (
        SliceCounts(0, 0.008000411, 0.011999702, 4.121e-05, 100, 0, None, 0.0),
        SliceCounts(1, 0.02800002, 0.012000109, 3.8e-05, 60, 4, 51, 2.51e-05),
    )
    assert sliced.slices[2].switch_s is None

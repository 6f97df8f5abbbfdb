"""The seam: the golden messages are read here exactly as they are read in Rust."""

import json
from pathlib import Path

import jsonschema
import msgspec
import pytest

from pinchpoint.engine import protocol
from pinchpoint.model.scenario import Range, Stream

ROOT = Path(__file__).parents[3] / "protocol"
SCHEMA = json.loads((ROOT / "schema.json").read_text())


def golden(name):
    return (ROOT / "golden" / name).read_text().splitlines()


@pytest.mark.parametrize(
    ("name", "union"),
    [("lab_to_engine.jsonl", protocol.FromLab), ("engine_to_lab.jsonl", protocol.FromEngine)],
)
def test_every_golden_message_is_read_and_written_back_unchanged(name, union):
    for line in golden(name):
        message = msgspec.json.decode(line, type=union)
        assert json.loads(msgspec.json.encode(message)) == json.loads(line)


@pytest.mark.parametrize("name", ["lab_to_engine.jsonl", "engine_to_lab.jsonl"])
def test_every_golden_message_obeys_the_schema(name):
    for line in golden(name):
        jsonschema.validate(json.loads(line), SCHEMA)


def test_an_unknown_key_is_refused_on_both_sides():
    line = '{"type":"bye","farewell":true}'
    with pytest.raises(msgspec.ValidationError, match="farewell"):
        msgspec.json.decode(line, type=protocol.FromEngine)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(json.loads(line), SCHEMA)


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
    request = protocol.stream_request(0, stream, 1e6)
    assert (request.ipv4.src, request.ipv4.dst) == ("16.0.0.1", "48.0.0.1")
    assert [(program.field, program.count) for program in request.fields] == [("ipv4.dst", 65535), ("ipv4.src", 255)]
    assert request.flows == 65536

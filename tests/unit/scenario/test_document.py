"""docs/scenario.md says what the parser does."""

from dataclasses import fields
from pathlib import Path

from reference.scenario import EXAMPLE, GUEST_EXAMPLE, LAYERS_EXAMPLE, page

from pinchpoint.dut.ovs.spec import (
    TUNING,
    ArpResponder,
    Bridge,
    OvsDut,
    OvsHost,
    OvsPort,
    Patch,
    RuleSeries,
    Tuning,
    Tunnel,
)
from pinchpoint.dut.registry import default, device
from pinchpoint.measure.registry import measures
from pinchpoint.model.headers import KEYS
from pinchpoint.model.scenario import Engine, Guest, Scenario, Search, Stream, Validity
from pinchpoint.scenario import keys, parse

DOCS = Path(__file__).parents[3] / "docs" / "scenario.md"


def test_the_page_is_the_one_that_the_parser_generates() -> None:
    assert DOCS.read_text() == page(), "run: python packaging/reference/scenario.py > docs/scenario.md"


def test_the_example_is_a_scenario() -> None:
    scenario = parse(EXAMPLE, "example.toml")
    assert scenario.dut.bridges[0].rule_series[0].count == 10_000
    assert scenario.streams[0].flows == 65_536


def test_the_example_of_a_guest_is_a_scenario() -> None:
    assert parse(GUEST_EXAMPLE, "guest.toml").guest == Guest("auto", 512)


def test_the_example_of_headers_is_a_scenario() -> None:
    scenario = parse(LAYERS_EXAMPLE, "headers.toml")
    assert [stream.flows for stream in scenario.streams] == [1000, 100_000, 9]


FOLLOWS = {"segment", "sizes"}  # from [service], and from frame_bytes
IN_LAYERS = KEYS.keys() - {field.name for field in fields(Stream)}


def test_every_field_of_the_model_has_a_key() -> None:
    tables = {table.name: table for table in keys.of_kind(default()).every if not table.is_named}
    for name, model in (
        ("port", OvsPort),
        ("patch", Patch),
        ("tunnel", Tunnel),
        ("arp_responder", ArpResponder),
        ("host", OvsHost),
        ("guest", Guest),
        ("engine", Engine),
        ("stream", Stream),
        ("search", Search),
        ("validity", Validity),
    ):
        written = {key.model_field for key in tables[name].keys} - IN_LAYERS
        assert written == {field.name for field in fields(model)} - FOLLOWS, name
    for measure in measures():
        table = measure.table(device(default()).keys)
        assert {key.model_field for key in table.keys} == {field.name for field in fields(measure.made)}, measure.name
    assert {key.model_field for key in tables["dut.rule_series"].keys} | {"line"} == {
        field.name for field in fields(RuleSeries)
    }
    assert {key.model_field for key in tables["bridge"].keys} | {"rule_series"} == {
        field.name for field in fields(Bridge)
    }
    assert {key.model_field for key in TUNING} == {field.name for field in fields(Tuning)}


def test_every_field_of_the_switch_and_the_scenario_has_a_key_or_a_table() -> None:
    top = {key.model_field for key in keys.TOP.keys} | {table.name for table in keys.of_kind(default()).every}
    made_of_the_path_and_the_sweep = {"name", "path", "point", "defaulted", "sites"}
    plurals = {"ports": "port", "hosts": "host", "streams": "stream"}
    for field in fields(Scenario):
        assert plurals.get(field.name, field.name) in top | made_of_the_path_and_the_sweep, field.name
    dut = {key.model_field for key in keys.of_kind(default()).single[1].keys} | {
        table.name for table in keys.of_kind(default()).every
    }
    of_tables = {"tuning": "smc", "bridges": "bridge", "patches": "patch", "tunnels": "tunnel", "inner": "port"}
    for field in fields(OvsDut):
        assert of_tables.get(field.name, field.name.removesuffix("s")) in dut or field.name in dut, field.name


def test_every_key_is_explained() -> None:
    text = page()
    for table in keys.of_kind(default()).every:
        for key in table.keys:
            assert key.doc.endswith("."), key.name
            assert f"| `{key.name}` |" in text

"""docs/scenario.md says what the parser does."""

from dataclasses import fields
from pathlib import Path

from pinchpoint.dut.ovs.spec import ArpResponder, Bridge, OvsDut, Patch, RuleSeries, Tuning, Tunnel
from pinchpoint.model.scenario import (
    Build,
    Engine,
    Host,
    Latency,
    Load,
    Port,
    Scenario,
    Search,
    Sockets,
    Stream,
    Validity,
)
from pinchpoint.scenario import bench_keys, keys, parse
from pinchpoint.scenario.document import EXAMPLE, page

DOCS = Path(__file__).parents[3] / "docs" / "scenario.md"


def test_the_page_is_the_one_that_the_parser_generates() -> None:
    assert DOCS.read_text() == page(), "run: python -m pinchpoint.scenario.document > docs/scenario.md"


def test_the_example_is_a_scenario() -> None:
    scenario = parse(EXAMPLE, "example.toml")
    assert scenario.dut.bridges[0].rule_series[0].count == 10_000
    assert scenario.streams[0].flows == 65_536


def test_every_field_of_the_model_has_a_key() -> None:
    for table, model in (
        (keys.PORT, Port),
        (keys.PATCH, Patch),
        (keys.TUNNEL, Tunnel),
        (keys.ARP_RESPONDER, ArpResponder),
        (keys.HOST, Host),
        (keys.LOAD, Load),
        (keys.SOCKETS, Sockets),
        (keys.BUILD, Build),
        (keys.ENGINE, Engine),
        (keys.STREAM, Stream),
        (keys.SEARCH, Search),
        (keys.VALIDITY, Validity),
        (keys.LATENCY, Latency),
    ):
        assert {key.model_field for key in table.keys} == {field.name for field in fields(model)}
    assert {key.model_field for key in keys.RULE_SERIES.keys} | {"line"} == {field.name for field in fields(RuleSeries)}
    assert {key.model_field for key in keys.BRIDGE.keys} | {"rule_series"} == {field.name for field in fields(Bridge)}
    assert {key.model_field for key in bench_keys.TUNING} == {field.name for field in fields(Tuning)}


def test_every_field_of_the_switch_and_the_scenario_has_a_key_or_a_table() -> None:
    top = {key.model_field for key in keys.TOP.keys} | {table.name for table in keys.TABLES}
    made_of_the_path_and_the_sweep = {"name", "path", "point", "defaulted"}
    plurals = {"ports": "port", "hosts": "host", "streams": "stream"}
    for field in fields(Scenario):
        assert plurals.get(field.name, field.name) in top | made_of_the_path_and_the_sweep, field.name
    dut = {key.model_field for key in keys.DUT.keys} | {table.name for table in keys.TABLES}
    of_tables = {"tuning": "smc", "bridges": "bridge", "patches": "patch", "tunnels": "tunnel"}
    for field in fields(OvsDut):
        assert of_tables.get(field.name, field.name.removesuffix("s")) in dut or field.name in dut, field.name


def test_every_key_is_explained() -> None:
    for table in keys.TABLES:
        for key in table.keys:
            assert key.doc.endswith("."), key.name
            assert f"| `{key.name}` |" in page()

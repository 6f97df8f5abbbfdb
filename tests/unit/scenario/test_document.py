"""docs/scenario.md says what the parser does."""

from dataclasses import fields
from pathlib import Path

from pinchpoint.model.scenario import Engine, Latency, Port, Search, Stream, Validity
from pinchpoint.scenario import keys, parse
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
        (keys.ENGINE, Engine),
        (keys.STREAM, Stream),
        (keys.SEARCH, Search),
        (keys.VALIDITY, Validity),
        (keys.LATENCY, Latency),
    ):
        assert {key.model_field for key in table.keys} == {field.name for field in fields(model)}


def test_every_key_is_explained() -> None:
    for table in keys.TABLES:
        for key in table.keys:
            assert key.doc.endswith("."), key.name
            assert f"| `{key.name}` |" in page()

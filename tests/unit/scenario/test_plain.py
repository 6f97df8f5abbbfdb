"""A scenario survives the way through run.json."""

import json

import pytest

from pinchpoint.model.errors import InputError
from pinchpoint.scenario import parse
from pinchpoint.scenario.document import EXAMPLE
from pinchpoint.scenario.plain import from_plain, to_plain


def test_a_scenario_survives_json() -> None:
    scenario = parse(EXAMPLE, "example.toml")
    assert from_plain(json.loads(json.dumps(to_plain(scenario)))) == scenario


def test_the_same_scenario_gives_the_same_bytes() -> None:
    assert json.dumps(to_plain(parse(EXAMPLE, "a.toml"))) == json.dumps(to_plain(parse(EXAMPLE, "a.toml")))


def test_data_of_another_shape_is_an_input_error() -> None:
    plain = to_plain(parse(EXAMPLE, "example.toml"))
    plain["ports"] = [{"name": "left", "ring": "many"}]
    with pytest.raises(InputError, match=r"ports\[0\]\.ring"):
        from_plain(plain)

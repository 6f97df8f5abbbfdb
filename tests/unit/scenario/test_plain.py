"""A scenario survives the way through run.json."""

import json

import pytest
from reference.scenario import EXAMPLE, HOSTS_EXAMPLE

from pinchpoint.keys.source import Source
from pinchpoint.model.errors import InputError
from pinchpoint.scenario import parse
from pinchpoint.scenario.plain import from_plain, to_plain
from pinchpoint.scenario.sweep import sweep_of


def test_a_scenario_survives_json() -> None:
    scenario = parse(EXAMPLE, "example.toml")
    assert from_plain(json.loads(json.dumps(to_plain(scenario)))) == scenario


def test_the_scenarios_of_a_sweep_survive_json_with_the_types_of_their_levels() -> None:
    factor = '[[sweep.factor]]\nname = "f"\nkeys = ["dut.other_config.x"]\nlevels = '
    levels = Source(EXAMPLE + factor + '[1, "1", true, "true"]\n', "x.toml")
    for scenario in (*sweep_of(Source(HOSTS_EXAMPLE, "x.toml"), False).scenarios, *sweep_of(levels, False).scenarios):
        again = from_plain(json.loads(json.dumps(to_plain(scenario))))
        assert again == scenario
        types = {name: type(level) for name, level in scenario.point.levels.items()}
        assert {name: type(level) for name, level in again.point.levels.items()} == types


def test_the_same_scenario_gives_the_same_bytes() -> None:
    assert json.dumps(to_plain(parse(EXAMPLE, "a.toml"))) == json.dumps(to_plain(parse(EXAMPLE, "a.toml")))


def test_data_of_another_shape_is_an_input_error() -> None:
    plain = to_plain(parse(EXAMPLE, "example.toml"))
    plain["ports"] = [{"name": "left", "ring": "many"}]
    with pytest.raises(InputError, match=r"ports\[0\]\.ring"):
        from_plain(plain)

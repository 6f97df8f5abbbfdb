"""What every measure keeps to."""

from dataclasses import asdict

import pytest
from support import scenario_text

from pinchpoint.dut.registry import default, device
from pinchpoint.measure.kind import asked
from pinchpoint.measure.registry import DEFAULT, find, is_search, measure_of, measures
from pinchpoint.measure.soak.run import Soak
from pinchpoint.model.errors import InputError
from pinchpoint.model.scenario import Measure
from pinchpoint.scenario import parse
from pinchpoint.scenario.plain import from_plain, to_plain

NAMES = [measure.name for measure in measures()]
HOSTS = """
[[host]]
name = "a"
address = "10.0.0.1/24"
cpus = [2]
[[host]]
name = "b"
address = "10.0.0.2/24"
cpus = [3]
[sockets]
client = "a"
server = "b"
"""
SERVED = """
title = "balanced"
measure = "{name}"
[dut]
kind = "nft"
[service]
address = "10.0.0.100"
port = 80
local = "10.1.0.240"
[[backend]]
address = "10.1.0.1"
[[port]]
name = "clients"
[[port]]
name = "servers"
"""
REQUIRED = {
    "load": "[load]\nat_fps = [1e5]",
    "blocked": '[blocked]\naction = "none"',
    "build": '[build]\nwhat = "flows"\nmethod = "file"\ncount = 3',
    **dict.fromkeys(("bandwidth", "rr", "crr"), HOSTS),
}
# What run.json held of every scenario before a measure was a folder.
OF_EARLIER_RELEASES = {
    "latency": {"at": [0.5, 0.9], "duration_s": 2.0},
    "load": {"at_fps": [], "duration_s": 1.0, "repeats": 1},
    **dict.fromkeys(("sockets", "build", "soak", "recovery", "blocked", "burst", "loss_curve")),
}


def scenario(name):
    if find(name).is_served:
        return parse(SERVED.format(name=name), "a.toml")
    text = scenario_text(name, REQUIRED.get(name, ""))
    if name in ("bandwidth", "rr", "crr"):
        text = text.replace('[[stream]]\nfrom = "left"\nto = "right"\n', "")
    return parse(text, "a.toml")


@pytest.mark.parametrize("name", NAMES)
def test_a_scenario_names_it_and_holds_what_it_says_of_it(name):
    wanted = scenario(name)
    assert isinstance(wanted.measure, Measure)
    assert measure_of(wanted).name == wanted.measure.kind == name
    assert asked(wanted, measure_of(wanted).made) is wanted.measure


@pytest.mark.parametrize("name", NAMES)
def test_it_is_stored_under_the_name_of_its_table_and_read_again(name):
    wanted = scenario(name)
    plain, table = to_plain(wanted), measure_of(wanted).table(device(default()).keys)
    assert plain["measure"] == name
    assert plain[table.name].keys() == asdict(wanted.measure).keys()
    assert from_plain(plain) == wanted
    assert from_plain({**OF_EARLIER_RELEASES, **plain}) == wanted


@pytest.mark.parametrize("name", NAMES)
def test_what_it_declares_is_whole(name):
    declared, every = find(name), {measure.name for measure in measures()}
    table = declared.table(device(default()).keys)
    assert declared.finds and not declared.finds.endswith(".")
    assert name in table.measures and set(table.measures) <= every
    assert declared.expected_s(scenario(name)) > 0
    assert declared.main or name == DEFAULT


def test_a_measure_of_another_release_is_no_search():
    assert is_search(DEFAULT)
    assert not is_search("soak")
    assert not is_search("power")


def test_a_stored_measure_that_there_is_not_is_refused_with_what_reads_it():
    with pytest.raises(InputError, match="no measure 'power'"):
        from_plain({**to_plain(scenario(DEFAULT)), "measure": "power"})


def test_another_measure_than_was_asked_for_is_an_error_that_names_both():
    with pytest.raises(InputError, match=r'a.toml: measure = "rates", expected "soak"'):
        asked(scenario(DEFAULT), Soak)

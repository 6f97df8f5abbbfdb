"""Campaign files: the units they make, and what is said of a wrong one."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import scenario_text

from pinchpoint.campaign import read
from pinchpoint.campaign.read import load
from pinchpoint.model.errors import InputError
from pinchpoint.model.scenario import EngineSite, Remote

MANY = 'ipv4_dst = "198.19.0.1-198.19.0.200"\n'
FACTOR = (
    MANY + '[sweep]\nrepeats = 2\n[[sweep.factor]]\nname = "flows"\nkeys = ["stream[1].flows"]\nlevels = [1, 2, 3]\n'
)
MACHINES = '[[machine]]\nname = "m1"\ncpus = 8\n[[machine]]\nname = "m2"\naddress = "root@m2"\nlabels = ["nic"]\n'


def program_at(build, program):
    return f"/opt/{build}/{program}"


@pytest.fixture
def campaign(tmp_path):
    """Reads a campaign over two scenario files: one swept over three levels, one plain."""
    (tmp_path / "swept.toml").write_text(scenario_text(more=FACTOR))
    (tmp_path / "plain.toml").write_text(scenario_text(more=MANY))

    def read(text, files='["swept.toml", "plain.toml"]'):
        path = tmp_path / "campaign.toml"
        path.write_text(f"scenarios = {files}\n{text}")
        return load(path, program_at)

    return read


def names(loaded):
    return [unit.name for unit in loaded.campaign.units]


def test_units_are_the_points_of_all_files_with_their_repeats(campaign):
    assert names(campaign("")) == [
        "swept.flows-1", "swept.flows-2", "swept.flows-3",
        "swept.flows-1.r2", "swept.flows-2.r2", "swept.flows-3.r2", "plain",
    ]  # fmt: skip


def test_variants_and_builds_multiply_them_and_are_put_on_their_scenarios(campaign):
    text = 'repeats = 1\nbuilds = ["old", "new"]\n[[variant]]\nname = "many"\n"stream[1].flows" = 50\n'
    loaded = campaign(text, '["plain.toml"]')
    assert names(loaded) == ["plain-many-old", "plain-many-new"]
    assert {scenario.streams[0].flows for scenario in loaded.scenarios} == {50}
    assert [str(scenario.dut.vswitchd) for scenario in loaded.scenarios] == [
        "/opt/old/ovs-vswitchd", "/opt/new/ovs-vswitchd",
    ]  # fmt: skip
    assert loaded.campaign.units[1].programs == {"dut.vswitchd": "/opt/new/ovs-vswitchd"}


def test_rules_leave_out_choose_machines_and_order(campaign):
    text = (
        'repeats = 1\n[[variant]]\nname = "a"\n"stream[1].flows" = 5\n[[variant]]\nname = "b"\n"stream[1].flows" = 6\n'
        + MACHINES
        + '[[exclude]]\nscenario = ["swept"]\n[[exclude]]\nvariant = ["a"]\nmachine = ["m1"]\n'
        + '[[need]]\nvariant = ["b"]\nlabels = ["nic"]\ncpus = 6\n[[priority]]\nvariant = ["b"]\npriority = 3\n'
    )
    a, b = campaign(text, '["swept.toml", "plain.toml"]').campaign.units
    assert (a.name, a.requirement.not_on, a.requirement.cpus) == ("plain-a", ("m1",), 2)
    assert (b.name, b.requirement.labels, b.requirement.cpus, b.priority) == ("plain-b", ("nic",), 6, 3)


def test_only_keeps_what_matches_one_of_its_tables(campaign):
    assert names(campaign('repeats = 1\n[[only]]\nscenario = ["plain"]\n')) == ["plain"]


def test_on_every_machine_each_point_is_measured_on_each(campaign):
    loaded = campaign('repeats = 1\nmeasured_on = "every"\n' + MACHINES, '["plain.toml"]')
    assert [(unit.name, unit.point, unit.requirement.only_on) for unit in loaded.campaign.units] == [
        ("plain-on-m1", "plain", ("m1",)), ("plain-on-m2", "plain", ("m2",)),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("speed = 1", "speed: unknown key"),
        ('measured_on = "all"', 'measured_on: expected "any" or "every", found "all"'),
        ('measured_on = "every"', "expected [[machine]] tables"),
        ('budget = "2 hours"', 'budget: expected a time like "90s", "10m" or "1h30m", found "2 hours"'),
        ("repeats = 0", "repeats: expected a whole number from 1 to 1,000, found 0"),
        ('[[variant]]\nname = "x"\ndut.smc = true', 'expected a key in quotes, such as "dut.smc"'),
        ('[[variant]]\nname = "x"', "variant[1]: expected a key that it sets"),
        ('[[variant]]\nname = "../x"\n"stream[1].flows" = 1', "variant[1].name: expected 1 to 32 letters"),
        ('[[variant]]\nname = "x"\n"stream[1].speed" = 1', "unknown key"),
        ('[[variant]]\nname = "x"\n"dut.vswitchd" = "/bin/sh"', "not allowed in a file; name a build"),
        ('[[machine]]\nname = "m"\naddress = "-oProxyCommand=sh"', "machine[1].address: expected HOST"),
        ('[[machine]]\nname = "m"\n[[machine]]\nname = "m"', "machine[2].name: expected a unique name"),
        ('[[exclude]]\nscenario = ["nowhere"]', "a scenario of this campaign (swept, plain)"),
        ("[[exclude]]", "expected at least one of scenario, variant, build, machine"),
        ('[control]\nscenario = "swept.toml"', "control.scenario: expected one scenario, found 3 points"),
        ('[control]\nscenario = "none.toml"', "no such file"),
        ('[[only]]\nscenario = ["plain"]\n[[exclude]]\nscenario = ["plain"]', "found 0"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(campaign, text, words):
    with pytest.raises(InputError, match=r"toml") as raised:
        campaign(text)
    assert words in raised.value.message + str(raised.value.hint)


@pytest.mark.parametrize(
    "files",
    ['["swept.toml", "swept.toml"]', '["/dev/zero"]', '["none.toml"]', "[]", '"plain.toml"', '["a\\u0000.toml"]'],
)
def test_hostile_lists_of_files_are_refused(campaign, files):
    with pytest.raises(InputError):
        campaign("", files)


def test_a_scenario_that_names_its_machine_is_refused(campaign, tmp_path):
    text = scenario_text(more="[host.far]\n").replace("[dut]", 'runs_on = "far"\n[dut]', 1)
    (tmp_path / "far.toml").write_text(text)
    with pytest.raises(InputError, match="the campaign chooses the machine"):
        campaign("", '["far.toml"]')


@given(st.text(max_size=200))
def test_whatever_stands_in_a_file_it_is_read_or_refused(tmp_path_factory, text):
    path = tmp_path_factory.mktemp("c") / "campaign.toml"
    path.write_text(text, encoding="utf-8", errors="surrogatepass") if text.isascii() else path.write_bytes(
        text.encode("utf-8", "replace")
    )
    with pytest.raises(InputError):
        load(path, program_at)


def test_a_pipe_is_not_waited_for(tmp_path):
    import os

    os.mkfifo(tmp_path / "pipe.toml")
    with pytest.raises(InputError, match="expected a campaign file"):
        load(Path(tmp_path / "pipe.toml"), program_at)


def test_more_measurements_than_allowed_are_refused_before_they_are_made(campaign, monkeypatch):
    monkeypatch.setattr(read, "MOST_UNITS", 5)
    monkeypatch.setattr(read, "_group", lambda *_: pytest.fail("units were made"))
    with pytest.raises(InputError, match="expected 1 to 5 measurements, found more"):
        campaign("", '["swept.toml"]')


@pytest.mark.parametrize("more", ["", '[control]\nscenario = "span.toml"\n'])
def test_a_bench_that_spans_hosts_is_refused_with_what_measures_it(campaign, tmp_path, monkeypatch, more):
    (tmp_path / "span.toml").write_text(scenario_text(more=MANY))
    gen, sink = (Remote(name, f"root@{name}", True, 60.0) for name in ("gen", "sink"))
    sites = (EngineSite(gen, ("left",)), EngineSite(sink, ("right",)))
    load_one = read.load_sweep

    def loaded(path, *rest):
        sweep = load_one(path, *rest)
        spans = path.stem == "span"
        return replace(sweep, scenarios=tuple(replace(one, engines=sites if spans else ()) for one in sweep.scenarios))

    monkeypatch.setattr(read, "load_sweep", loaded)
    with pytest.raises(InputError, match="its bench spans hosts") as raised:
        campaign(more, '["plain.toml"]' if more else '["span.toml"]')
    assert "pinchpoint run measures it" in str(raised.value)

"""Campaign files: the units they make, and what is said of a wrong one."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import scenario_text

from pinchpoint.campaign import read
from pinchpoint.campaign.executor import cleaning
from pinchpoint.campaign.read import load
from pinchpoint.campaign.schedule import plan_of
from pinchpoint.model.campaign import Bench
from pinchpoint.model.errors import InputError
from pinchpoint.model.site import Remote

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
        ('[[machine]]\nname = "m"\naddress = "a"\nhosts = {dut = "b"}', "expected no address where there are hosts"),
        ('[[machine]]\nname = "m"\nhosts = {lab = "b"}', "machine[1].hosts: expected a table NAME ="),
        ('[[machine]]\nname = "m"\nhosts = {gen = "b", dut = "b"}', "expected a table NAME ="),
        ('[[machine]]\nname = "m"\nhosts = {dut = "-oProxyCommand=sh"}', "expected a table NAME ="),
        ('[[machine]]\nname = "m"\naddress = "b"\n[[machine]]\nname = "n"\nhosts = {dut = "b"}', "which is m's"),
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


def test_two_files_of_one_name_are_both_named(campaign):
    with pytest.raises(InputError, match=r"found swept\.toml and more/swept\.toml"):
        campaign("", '["swept.toml", "more/swept.toml"]')


SOCKETS = """
measure = "rr"
dut = { datapath = "af_packet", pmd_cpus = [1], rules = "actions=NORMAL" }
host = [
  { name = "alice", address = "10.0.0.1/24", cpus = [0] },
  { name = "bob", address = "10.0.0.2/24", cpus = [5] },
]
sockets = { client = "alice", server = "bob" }
"""


def test_a_machine_needs_the_cpus_of_a_socket_workload_too(campaign, tmp_path):
    (tmp_path / "sockets.toml").write_text(SOCKETS)
    (unit,) = campaign("repeats = 1\n", '["sockets.toml"]').campaign.units
    assert unit.requirement.cpus == 6


SPAN = """
runs_on = "dut"
host.dut = {}
host.gen = {lease_s = 20}
host.sink = {}
dut = { kind = "bridge", cpus = [1] }
engine = { runs_on = "gen", cpus = [3] }
port = [
  { name = "left", interface = "eth1", engine_interface = "eth0" },
  { name = "right", interface = "eth2", engine_interface = "eth0", engine_runs_on = "sink" },
]
stream = [{ from = "left", to = "right" }]
"""
SITES = """
[[machine]]
name = "rack1"
hosts = { gen = "root@10.1.0.1", dut = "root@10.1.0.2", sink = "root@10.1.0.3" }
[[machine]]
name = "rack2"
sudo = false
hosts = { gen = "10.2.0.1", dut = "10.2.0.2", sink = "10.2.0.3", spare = "10.2.0.4" }
[[machine]]
name = "pair"
hosts = { gen = "10.3.0.1", dut = "10.3.0.2" }
[[machine]]
name = "plain"
address = "10.4.0.1"
"""


@pytest.fixture
def spanning(campaign, tmp_path):
    """Reads a campaign over one scenario that spans three hosts, and one that names none."""
    (tmp_path / "span.toml").write_text(SPAN)
    return lambda text: campaign("repeats = 1\n" + text, '["span.toml", "plain.toml"]')


def able(loaded, unit):
    return [bench.name for bench in loaded.campaign.benches if unit.requirement.met_by(bench)]


def test_a_unit_needs_a_site_that_has_all_hosts_of_its_scenario_and_a_plain_one_a_plain_machine(spanning):
    loaded = spanning(SITES)
    span, plain = loaded.campaign.units
    assert (span.requirement.hosts, plain.requirement.hosts) == (("dut", "gen", "sink"), ())
    assert (able(loaded, span), able(loaded, plain)) == (["rack1", "rack2"], ["plain"])


def test_a_site_gives_the_hosts_of_the_scenario_their_addresses(spanning):
    loaded = spanning(SITES)
    made = read.on_bench(loaded.scenarios[0], loaded.campaign.benches[1])
    dut, gen, sink = made.sites
    assert dut.remote == Remote("dut", "10.2.0.2", False, 60)
    assert (gen.remote, gen.ports) == (Remote("gen", "10.2.0.1", False, 20), ("left",)), "its own lease"
    assert (sink.remote.address, sink.ports) == ("10.2.0.3", ("right",))
    assert loaded.campaign.benches[1].addresses == ("10.2.0.1", "10.2.0.2", "10.2.0.3", "10.2.0.4")


def test_on_every_machine_a_point_is_measured_where_its_hosts_are(spanning):
    assert names(spanning('measured_on = "every"\n' + SITES)) == [
        "span-on-rack1", "span-on-rack2", "plain-on-plain",
    ]  # fmt: skip


@pytest.mark.parametrize("more", ["", SITES.replace("sink", "drain")])
def test_hosts_that_no_site_has_are_planned_as_impossible_with_what_to_add(spanning, more):
    loaded = spanning(more)
    plan = plan_of(loaded.campaign, read.benches_here(loaded.campaign))
    assert plan.impossible == ("span",)
    told = '[[machine]] hosts = {dut = "ADDRESS", gen = "ADDRESS", sink = "ADDRESS"}'
    assert told in plan.reasons[0]
    assert [(group.name, bool(group.machines)) for group in plan.groups] == [("span", False), ("plain", True)]


def test_a_plan_says_which_machine_can_measure_what(spanning):
    loaded = spanning(SITES)
    plan = plan_of(loaded.campaign, read.benches_here(loaded.campaign))
    assert {group.name: group.machines for group in plan.groups} == {"span": ("rack1", "rack2"), "plain": ("plain",)}
    assert plan.impossible == ()


@pytest.mark.parametrize(
    ("before", "after"),
    [('engine = { runs_on = "gen"', 'engine = { runs_on = "lab"'), ('runs_on = "dut"\n', "")],
)
def test_a_bench_that_is_in_part_on_the_labs_machine_is_refused(spanning, tmp_path, before, after):
    (tmp_path / "span.toml").write_text(SPAN.replace(before, after))
    with pytest.raises(InputError, match="stands on the lab's own machine, which all sites would share"):
        spanning(SITES)


def test_before_an_attempt_every_host_of_its_site_is_cleaned():
    site = Bench("rack", hosts={"gen": "a", "dut": "b", "spare": "c"})
    assert cleaning(site) == [["clean", "--host", address] for address in "abc"]
    assert cleaning(Bench("here")) == [["clean"]]


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


def test_a_scenario_is_told_to_be_one(tmp_path):
    (tmp_path / "one.toml").write_text(scenario_text())
    with pytest.raises(InputError, match="a scenario, not a campaign") as error:
        load(tmp_path / "one.toml", program_at)
    assert error.value.hint.startswith(f"pinchpoint run {tmp_path / 'one.toml'}")


def test_more_measurements_than_allowed_are_refused_before_they_are_made(campaign, monkeypatch):
    monkeypatch.setattr(read, "MOST_UNITS", 5)
    monkeypatch.setattr(read, "_group", lambda *_: pytest.fail("units were made"))
    with pytest.raises(InputError, match="expected 1 to 5 measurements, found more"):
        campaign("", '["swept.toml"]')

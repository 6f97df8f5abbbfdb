"""A scenario that puts its bench on another host: which it names, and what it cannot be."""

from types import SimpleNamespace

import pytest

from pinchpoint.dut import hosted
from pinchpoint.dut.registry import device_of
from pinchpoint.model.errors import InputError
from pinchpoint.model.scenario import Remote
from pinchpoint.scenario import parse
from pinchpoint.scenario.plain import from_plain, to_plain
from pinchpoint.scenario.sweep import load_sweep

BENCH = """
dut = { datapath = "af_packet", pmd_cpus = [1], rules = "actions=drop" }
engine = { cpus = [0] }
port = [{ name = "left" }, { name = "right" }]
stream = [{ from = "left", to = "right" }]
"""


def read(more, bench=BENCH):
    return parse(more + bench, "x.toml")


def test_a_host_has_the_address_sudo_and_lease_of_its_table():
    text = 'runs_on = "dut-1"\nhost.dut-1 = { kind = "ssh", address = "me@far", sudo = false, lease_s = 30 }'
    assert read(text).remote == Remote("dut-1", "me@far", sudo=False, lease_s=30)


def test_a_host_is_reached_by_its_name_where_it_has_no_address():
    assert read('runs_on = "far"\nhost.far = {}').remote == Remote("far", "far", sudo=True, lease_s=60)


def test_a_bench_stands_here_where_nothing_says_otherwise():
    assert read("host.far = {}").remote is None


def test_a_stored_scenario_keeps_its_host():
    scenario = read('runs_on = "far"\nhost.far = {}')
    assert from_plain(to_plain(scenario)) == scenario


def test_any_scenario_is_put_on_a_host_from_the_command_line(tmp_path):
    path = tmp_path / "x.toml"
    path.write_text(BENCH)
    (scenario,) = load_sweep(path, changes={"host.far.address": "me@far", "runs_on": "far"}).scenarios
    assert scenario.remote == Remote("far", "me@far", sudo=True, lease_s=60)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('runs_on = "far"', 'runs_on: expected the NAME of a [host.NAME], found "far"; this file has none'),
        ('runs_on = "far"\nhost.near = {}', "this file has near"),
        ('host."a b" = {}', "expected a name of 1 to 32 letters, digits, - or _"),
        ('host.far = { adress = "x" }', "did you mean address?"),
        ('host.far = { kind = "telnet" }', 'host.far.kind: expected "ssh"'),
        ('host.far = { address = "-oProxyCommand=x" }', "host.far.address: expected HOST, USER@HOST"),
        ("host.far = { lease_s = 1 }", "host.far.lease_s: expected"),
        ("host.far = 3", "expected a table [host.NAME]"),
        ('runs_on = "far"\nhost.far = {}\nguest = { kernel = "uml" }', "expected no [guest] where there is runs_on"),
    ],
)
def test_a_wrong_host_is_told_with_its_key(text, told):
    with pytest.raises(InputError) as caught:
        read(text)
    assert told in str(caught.value)


SOCKETS = """
measure = "bandwidth"
dut = { datapath = "af_packet", pmd_cpus = [1], rules = "actions=NORMAL" }
"""
ENDS = """
[[host]]
name = "alice"
address = "192.168.7.1/24"
cpus = [0]
[[host]]
name = "bob"
address = "192.168.7.2/24"
cpus = [0]
[sockets]
client = "alice"
server = "bob"
"""


def test_sockets_between_hosts_are_refused_there_with_the_reason():
    with pytest.raises(InputError) as caught:
        parse(f'runs_on = "far"{SOCKETS}{ENDS}', "x.toml")
    assert "sockets of other machines come later" in str(caught.value)
    assert "expected a measure that sends frames or connections" in str(caught.value)


def test_a_device_on_a_host_is_not_frozen_so_that_comparisons_go_in_turns():
    scenario = read('runs_on = "far"\nhost.far = {}')
    assert device_of(scenario).freezing(scenario).why_not


def test_an_engine_that_the_host_cannot_run_is_a_finding_and_no_error_of_the_lab(monkeypatch):
    def run(argv):
        raise OSError(8, "Exec format error", argv[0])

    monkeypatch.setattr(hosted, "find_engine", lambda: "/var/cache/pinchpoint/1/pinchpoint-engine")
    monkeypatch.setattr(hosted, "LOCAL", SimpleNamespace(run=run))
    found = hosted._engine()
    assert not found.ok
    assert found.detail == "/var/cache/pinchpoint/1/pinchpoint-engine: Exec format error"

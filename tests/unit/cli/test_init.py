"""What init chooses on machines of several shapes, and what it writes."""

import re

import pytest
from click.testing import CliRunner

from pinchpoint.bench.requirements import Probe
from pinchpoint.cli.init import init
from pinchpoint.dut import registry
from pinchpoint.dut.device import Flavour
from pinchpoint.engine import process
from pinchpoint.engine.protocol import Backend
from pinchpoint.host.facts import Machine
from pinchpoint.host.nics import Interface, Nic
from pinchpoint.host.numa import Topology
from pinchpoint.model.errors import InputError, RequirementError
from pinchpoint.run.scaffold import place
from pinchpoint.scenario import load_sweep

STARTERS = [starter for kind in registry.kinds() for starter in registry.device(kind).starters]


def machine(nodes, threads=1, isolated=()):
    """Nodes of so many CPUs; neighbours in number are threads of one core."""
    cpus = [cpu for node in nodes.values() for cpu in node]
    of = {cpu: tuple(range(cpu // threads * threads, cpu // threads * threads + threads)) for cpu in cpus}
    link = Interface("eth0", 1500, True, 10_000, True)
    nics = (Nic("0000:01:00.0", "8086", "10fb", "ixgbe", "", 0, None, {}, (link,), 0, False),)
    return Machine(Topology(nodes), of, frozenset(isolated), nics, 0, 0)


@pytest.mark.parametrize(
    ("topology", "polls", "engine", "dut"),
    [
        (machine({0: (0, 1)}), True, 0, 1),
        (machine({0: (0, 1, 2, 3)}), True, 1, 2),
        (machine({0: (0, 1, 2, 3, 4, 5)}, threads=2), True, 2, 4),
        (machine({0: (0, 1)}, threads=2), True, 0, 1),
        (machine({0: (0, 1), 1: (2, 3, 4, 5)}), True, 2, 3),
        (machine({0: (0,), 1: (1,)}), True, 0, 1),
        (machine({0: tuple(range(8))}, isolated=(5, 6)), True, 5, 6),
        (machine({0: tuple(range(8))}, isolated=(1, 2)), False, 3, 4),
    ],
    ids=["two", "four", "threads", "one core", "larger node", "two nodes", "isolated", "softirqs"],
)
def test_engine_and_device_get_two_cores_of_one_node_if_there_are(topology, polls, engine, dut):
    placed = place(topology, polls)
    assert (placed.engine, placed.dut) == (engine, dut)
    assert placed.reasons


def test_one_cpu_is_refused():
    with pytest.raises(RequirementError, match="two CPUs"):
        place(machine({0: (0,)}), True)


@pytest.fixture
def able(monkeypatch):
    """A machine that has all but what is named."""

    def make(*lacking, backends=("dpdk", "af_packet")):
        def flavours(device, host, guest=None):
            probes = tuple(Probe(name, False, "not installed") for name in lacking if name == device.kind)
            return [Flavour(starter.words, probes, device.backend, starter) for starter in device.starters]

        for kind in registry.kinds():
            monkeypatch.setattr(type(registry.device(kind)), "flavours", flavours)
        monkeypatch.setattr(
            process, "backends", lambda host: [Backend(backend, True, "", None, None) for backend in backends]
        )
        monkeypatch.setattr(process, "find_engine", lambda host: "/bin/engine")
        monkeypatch.setattr("pinchpoint.cli.init.look", lambda host: machine({0: (0, 1, 2, 3)}))
        monkeypatch.setattr("pinchpoint.cli.init._in_service", lambda lab: ["a switch is in service: left alone"])

    return make


@pytest.mark.parametrize("starter", STARTERS, ids=lambda starter: starter.title)
def test_every_form_that_a_kind_offers_is_a_scenario_of_that_kind(starter, able, tmp_path):
    able()
    path = tmp_path / "first.toml"
    result = CliRunner().invoke(init, [str(path), "--kind", starter.kind], standalone_mode=False)
    assert result.return_value == 0, result
    (scenario,) = load_sweep(path).scenarios
    assert (scenario.dut.kind, scenario.dut.cpus, scenario.engine.cpus) == (starter.kind, (2,), (1,))


def test_the_best_device_that_can_run_is_taken_and_the_file_says_why(able, tmp_path):
    able("ovs", backends=("af_packet",))
    path = tmp_path / "first.toml"
    CliRunner().invoke(init, [str(path)], standalone_mode=False)
    text = path.read_text()
    assert 'kind = "bridge"' in text
    assert "lacks ovs (not installed)" in text
    assert "NIC eth0 (ixgbe, 0000:01:00.0, up): not used" in text
    assert "a switch is in service: left alone" in text
    assert max(map(len, text.splitlines())) <= 105


def test_what_the_file_advises_for_many_five_tuples_is_a_scenario_with_as_many(able, tmp_path):
    able()
    path = tmp_path / "first.toml"
    CliRunner().invoke(init, [str(path)], standalone_mode=False)
    advised, number = re.search(
        r'give a range: (ipv4_dst = "[^"]+") makes ([\d,]+)\.', text := path.read_text()
    ).groups()
    path.write_text(text.replace('\nipv4_dst = "48.0.0.1"\n', f"\n{advised}\n"))
    (scenario,) = load_sweep(path).scenarios
    assert f"{scenario.streams[0].flows:,}" == number


def test_a_file_that_is_there_is_kept(able, tmp_path):
    able()
    path = tmp_path / "first.toml"
    path.write_text("mine")
    result = CliRunner().invoke(init, [str(path)], standalone_mode=False)
    assert isinstance(result.exception, InputError)
    assert path.read_text() == "mine"


def test_where_nothing_can_run_all_reasons_are_given(able, tmp_path):
    able(*registry.kinds(), backends=())
    result = CliRunner().invoke(init, [str(tmp_path / "x.toml")], standalone_mode=False)
    assert isinstance(result.exception, RequirementError)
    assert "--fix" in result.exception.hint
    assert list(tmp_path.iterdir()) == []


def test_a_kind_without_a_plain_scenario_is_refused_with_those_that_have_one(able):
    able()
    result = CliRunner().invoke(init, ["--kind", "nft"], standalone_mode=False)
    assert isinstance(result.exception, InputError) and "reference" in result.exception.hint

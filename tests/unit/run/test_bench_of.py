"""What a bench has of that on which a conclusion may rest."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from support import OF_A_KIND

from pinchpoint.host.numa import Topology
from pinchpoint.measure.summary import scenario_result
from pinchpoint.model.measurement import Metric
from pinchpoint.model.offload import Offload, OffloadTruth
from pinchpoint.model.study import Need
from pinchpoint.model.warning import Warn
from pinchpoint.run import scenario as running
from pinchpoint.scenario import parse
from pinchpoint.scenario.study import load_study

STUDIES = Path(__file__).parents[3] / "studies"


@pytest.fixture(autouse=True)
def two_nodes(monkeypatch):
    monkeypatch.setattr(running, "read_topology", lambda host: Topology({0: (0, 1), 1: (2, 3), 2: ()}))


def had(scenario, offload=None):
    machine = SimpleNamespace(cpus=lambda: {0, 1, 2, 3})
    return running.bench_of(SimpleNamespace(scenario=scenario, places=SimpleNamespace(outside=machine)), offload)


def bridges(datapath):
    _, (sweep,) = load_study(STUDIES / "bridge-scale", only=("bridges",), changes={"dut.datapath": datapath})
    return replace(sweep.scenarios[0], guest=None)


@pytest.mark.parametrize(("datapath", "is_in_kernel"), [("kernel", 1), ("af_packet", 0)])
def test_the_machine_and_who_forwards(datapath, is_in_kernel):
    assert had(bridges(datapath)) == {
        Need.CPUS: 4,
        Need.NUMA_NODES: 2,
        Need.KERNEL_DATAPATH: is_in_kernel,
        Need.NIC: 0,
        Need.HARDWARE_OFFLOAD: 0,
    }


def test_cpus_and_nodes_of_a_guest_are_no_physical_ones():
    more = '[guest]\nkernel = "qemu"\nnuma_nodes = 2\n'
    found = had(parse(OF_A_KIND.format(kind="bridge", dut="cpus = [3]", more=more), "x.toml"))
    assert (found[Need.CPUS], found[Need.NUMA_NODES], found[Need.KERNEL_DATAPATH]) == (1, 1, 1)


def test_ports_at_cables_are_nics():
    scenario = parse(OF_A_KIND.format(kind="bridge", dut="cpus = [3]", more=""), "x.toml")
    cabled = tuple(replace(port, interface="eth1") for port in scenario.ports)
    assert [had(scenario)[Need.NIC], had(replace(scenario, ports=cabled))[Need.NIC]] == [0, 1]


@pytest.mark.parametrize(("word", "is_there"), [(Offload.PROVEN, 1), (Offload.CLAIMED, 0), (Offload.PARTIAL, 0)])
def test_an_offload_counts_once_it_is_proven(word, is_there):
    assert had(bridges("kernel"), OffloadTruth(word, 1.0, 0.99))[Need.HARDWARE_OFFLOAD] == is_there


def test_each_number_of_an_emulated_processor_is_marked():
    scenario = parse(OF_A_KIND.format(kind="bridge", dut="cpus = [3]", more=""), "x.toml")
    plain = replace(scenario_result(scenario, 1.0), metrics=(Metric("NDR", "fps", 1e6, cautions=("one",)),))
    marked = running.as_emulated(plain)
    assert [metric.cautions for metric in marked.metrics] == [("one", Warn.EMULATED.of().text)]
    assert marked.warnings == (Warn.EMULATED.of(),)

"""What a machine lacks for a scenario, and what mends it."""

from dataclasses import replace

import pytest

from pinchpoint.bench import requirements
from pinchpoint.dut.ovs import device as needs
from pinchpoint.dut.ovs.bench import ELSEWHERE, VSWITCHD, installed
from pinchpoint.dut.ovs.spec import Bridge, Datapath, Tunnel
from pinchpoint.dut.setup import require
from pinchpoint.host.local import Local
from pinchpoint.host.machines import Machines
from pinchpoint.model.errors import RequirementError
from pinchpoint.model.scenario import Host
from pinchpoint.scenario import parse

PLAIN = """
dut = { datapath = "af_packet", pmd_cpus = [1], rules = "actions=drop" }
engine = { cpus = [0] }
port = [{ name = "left" }, { name = "right" }]
stream = [{ from = "left", to = "right" }]
"""


def scenario(datapath="af_packet", **dut):
    plain = parse(PLAIN, "x.toml")
    return replace(plain, dut=replace(plain.dut, datapath=Datapath(datapath), **dut))


class Equipped(Local):
    """A host with every program and these CPUs; `root` is put before all paths."""

    def __init__(self, cpus, root):
        self._cpus, self._root = frozenset(cpus), root

    def which(self, program):
        return f"/bin/{program}"

    def cpus(self):
        return self._cpus

    def exists(self, path):
        return super().exists(f"{self._root}{path}")


def lacking(monkeypatch, wanted, cpus=(0, 1), root=""):
    monkeypatch.setattr(requirements.os, "geteuid", lambda: 0)
    monkeypatch.setattr(needs, "program", lambda *_: requirements.Probe("ovs-vswitchd", True, "here"))
    try:
        require(wanted, Machines(Equipped(cpus, root)))
    except RequirementError as error:
        return str(error)
    return ""


def test_a_kernel_without_the_module_is_told_with_what_mends_it(monkeypatch, tmp_path):
    monkeypatch.setattr(requirements, "modules_folder", lambda host: tmp_path)
    told = lacking(monkeypatch, scenario("kernel"), root=tmp_path)
    assert "kernel module openvswitch: the running kernel" in told
    assert "apt-get install linux-image-amd64" in told
    (tmp_path / "sys/module/openvswitch").mkdir(parents=True)
    assert lacking(monkeypatch, scenario("kernel"), root=tmp_path) == ""


def test_one_cpu_is_enough_where_nothing_polls(monkeypatch):
    changed = replace(scenario(pmd_cpus=(0,)), ports=(), streams=(), hosts=(Host("a", "10.0.0.1/24", (0,)),))
    assert lacking(monkeypatch, changed, cpus=[0]) == ""
    polling = replace(changed, dut=replace(changed.dut, datapath=Datapath.AF_XDP))
    assert "two CPUs" in lacking(monkeypatch, polling, cpus=[0])


def test_a_hosts_cpu_must_be_usable(monkeypatch):
    told = lacking(monkeypatch, replace(scenario(), hosts=(Host("a", "10.0.0.1/24", (5,)),)))
    assert "CPU 5 cannot be used here" in told


@pytest.mark.parametrize(("datapath", "refused"), [("kernel", True), ("af_packet", False)])
def test_tunnels_need_a_userspace_datapath(monkeypatch, datapath, refused):
    bridges = tuple(Bridge(name, (), ()) for name in ("br0", "br1"))
    told = lacking(monkeypatch, scenario(datapath, bridges=bridges, tunnels=(Tunnel("vx", "br0", "br1", 1),)))
    assert ("tunnels: not possible with the kernel datapath" in told) is refused


def test_queues_without_a_cpu_of_the_engine_are_told_with_the_remedy(monkeypatch):
    plain = scenario("af_xdp")
    left, right = plain.ports
    two = replace(plain, ports=(replace(left, queues=2), right))
    told = lacking(monkeypatch, two)
    assert "port left has 2 queues, but the engine has 1 CPU\n" in told
    assert "list 2 CPUs in engine.cpus" in told
    assert lacking(monkeypatch, replace(two, engine=replace(two.engine, cpus=(0, 2))), cpus=(0, 1, 2)) == ""


class Fedora(Equipped):
    """A host with dnf and these programs alone; a switch says this version."""

    def __init__(self, *programs, version=""):
        super().__init__({0, 1}, "")
        self._programs, self._version = ("dnf", *programs), version

    def which(self, program):
        return program if program in self._programs else None

    def run(self, argv, **_):
        return self._version


@pytest.mark.parametrize(("datapath", "package"), [("dpdk", "openvswitch-dpdk"), ("af_packet", "openvswitch")])
def test_fedoras_switch_is_named_by_its_package(datapath, package):
    host = Fedora()
    theirs = requirements.as_here(needs.program(host, Datapath(datapath)), host)
    assert theirs.hint == f"dnf install {package}; where it has another path: --set dut.vswitchd=PATH"
    assert theirs.remedy == requirements.Remedy(dnf=(package,))


@pytest.mark.parametrize(("dpdk", "datapaths"), [("\nDPDK 24.11.1", ["dpdk", "af_packet"]), ("", ["af_packet"])])
def test_fedoras_switch_is_found_where_it_is_and_asked_for_dpdk(dpdk, datapaths):
    host = Fedora(ELSEWHERE, version=f"ovs-vswitchd (Open vSwitch) 3.6.2{dpdk}\n")
    probes = {word: needs.program(host, Datapath(word)) for word in ("dpdk", "af_packet")}
    assert [word for word, probe in probes.items() if probe.ok] == datapaths
    assert {installed(host, datapath) for datapath in Datapath} == {ELSEWHERE}


def test_debians_switch_is_never_taken_for_another():
    plain = VSWITCHD[Datapath.AF_PACKET]
    host = Fedora(ELSEWHERE, plain)
    assert (installed(host, Datapath.AF_PACKET), installed(host, Datapath.DPDK)) == (plain, VSWITCHD[Datapath.DPDK])
    assert not needs.program(host, Datapath.DPDK).ok


class Driven(Equipped):
    """A host with these files."""

    def __init__(self, *paths):
        super().__init__({0, 1}, "")
        self._paths = paths

    def exists(self, path):
        return any(name.startswith(f"{path}/") for name in self._paths)

    def names(self, folder):
        return list(dict.fromkeys(path[len(folder) + 1 :].partition("/")[0] for path in self._paths))


def test_debians_switch_with_dpdk_takes_a_driver_that_its_package_does_not_ask_for():
    path = "/usr/lib/x86_64-linux-gnu/dpdk/pmds-23.0/librte_mempool_ring.so.23.0"
    there, missing = needs.pool_driver(Driven(path)), needs.pool_driver(Driven("/usr/lib/x86_64-linux-gnu/libc.so.6"))
    assert (there.ok, there.detail) == (True, path)
    assert (missing.ok, missing.hint) == (False, "apt-get install librte-meta-mempool")
    assert missing.remedy is not None and missing.remedy.packages == ("librte-meta-mempool",)

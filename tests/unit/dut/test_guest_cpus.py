"""The NUMA nodes and virtual CPUs of a guest: how they are made, read back, and how loaded they are."""

import re
from itertools import pairwise
from pathlib import PurePosixPath

import pytest
from support import OF_A_KIND, scenario_of

from pinchpoint.bench.resource import Command, GuestKernel, Inside, TextFile
from pinchpoint.dut import registry, vm
from pinchpoint.dut.device import Live, Pages
from pinchpoint.dut.places import Places
from pinchpoint.dut.vm import GuestedLive
from pinchpoint.host.guest_kernels import KERNELS
from pinchpoint.host.local import Local
from pinchpoint.host.numa import NODES as FOLDER
from pinchpoint.host.numa import Topology
from pinchpoint.keys.source import Source
from pinchpoint.model.errors import BenchError
from pinchpoint.model.scenario import Guest
from pinchpoint.scenario import parse
from pinchpoint.scenario.sweep import sweep_of

qemu = KERNELS["qemu"]
ONE = '[guest]\nkernel = "qemu"\nmemory_mb = 321\n'
TWO = f"{ONE}numa_nodes = 2\n"
DUTS = {
    "bridge": "cpus = [3]",
    "nft": "cpus = [3]",
    "ovs": 'datapath = "kernel"\npmd_cpus = [3]\nrules = "in_port={left},actions=output:{right}"',
}
KINDS = pytest.mark.parametrize("kind", DUTS)


@pytest.fixture
def no_kvm(monkeypatch):
    monkeypatch.setattr(qemu, "_has_kvm", lambda machine: False)


@pytest.fixture
def planned(monkeypatch, no_kvm):
    """What is planned for a guest on a machine with these nodes, each with its CPUs."""

    def plan(nodes, guest=TWO, kind="bridge", top="", cpus="[3]"):
        monkeypatch.setattr(vm, "read_topology", lambda host: Topology(nodes))
        text = OF_A_KIND.format(kind=kind, dut=DUTS[kind].replace("[3]", cpus), more=guest)
        wanted = parse(top + text, "x.toml")
        return (
            registry.device_of(wanted)
            .bench(wanted, Places("b1", PurePosixPath("/x"), Local()))
            .resources(Pages(0, 0), ["engine"])
        )

    return plan


def kernel_in(made):
    (kernel,) = [resource for resource in made if isinstance(resource, GuestKernel)]
    return kernel


def words_after(kernel, option):
    return [after for word, after in pairwise(kernel.argv) if word == option]


def test_each_numa_node_has_a_cpu_in_a_socket_of_its_own_and_a_share_of_the_memory(planned):
    kernel = kernel_in(planned({0: (0, 1, 2, 3)}))
    assert words_after(kernel, "-smp") == ["2,sockets=2,cores=1,threads=1"]
    assert words_after(kernel, "-m") == ["321M"]
    assert words_after(kernel, "-numa") == [f"node,nodeid={n},cpus={n},memdev=ram{n}" for n in (0, 1)]
    sizes = ("161M", "160M")
    assert words_after(kernel, "-object") == [f"memory-backend-ram,id=ram{n},size={sizes[n]}" for n in (0, 1)]
    assert [cpu for _, cpu in kernel.threads] == [3, 3]
    assert words_after(kernel, "-accel") == ["tcg,thread=single"], "they share a CPU, and take turns"
    assert all(re.fullmatch(name, "ALL CPUs/TCG") for name, _ in kernel.threads)


def test_a_guests_node_lies_on_the_node_of_the_cpu_that_runs_its_own(planned):
    kernel = kernel_in(planned({0: (0, 1), 1: (2, 3)}, cpus="[1, 3]"))
    pinned = [[cpu for name, cpu in kernel.threads if re.fullmatch(name, f"CPU {n}/TCG")] for n in (0, 1)]
    assert pinned == [[1], [3]]
    assert words_after(kernel, "-accel") == ["tcg,thread=multi"]
    bound = [word.partition("M,")[2] for word in words_after(kernel, "-object")]
    assert bound == ["host-nodes=0,policy=bind", "host-nodes=1,policy=bind"]


@pytest.mark.parametrize(("top", "bound"), [("", []), ('numa = "same"\n', ["host-nodes=1,policy=bind"])])
def test_a_guest_with_one_node_is_bound_where_its_scenario_is_placed(planned, top, bound):
    kernel = kernel_in(planned({0: (0, 1), 1: (2, 3)}, ONE, top=top))
    assert [word.partition("M,")[2] for word in words_after(kernel, "-object")] == bound
    assert kernel.threads == ()


@KINDS
def test_every_port_of_a_guest_with_two_nodes_is_steered_to_both_cpus(planned, kind):
    inside = [resource.resource for resource in planned({0: (0, 3)}, kind=kind) if isinstance(resource, Inside)]
    masks = [resource for resource in inside if isinstance(resource, TextFile) and "rps_cpus" in resource.path]
    assert [mask.lines for mask in masks] == [("00000003",)] * 2
    copied = [resource.argv for resource in inside if isinstance(resource, Command) and resource.argv[0] == "cp"]
    assert [argv[2] for argv in copied] == [f"/sys/class/net/{port}/queues/rx-0/rps_cpus" for port in ("left", "right")]
    plain = [resource.resource for resource in planned({0: (0, 3)}, ONE, kind) if isinstance(resource, Inside)]
    assert not [resource for resource in plain if "rps_cpus" in resource.describe()], "one CPU needs no steering"


def loads_of_two(threads, softnet=(30.0, 10.0)):
    seen = {f"host/thread/{name}/run_ns": run for name, (run, _) in threads.items()}
    seen |= {f"host/thread/{name}/cpu": cpu for name, (_, cpu) in threads.items()}
    seen |= {f"guest/softnet/{n}/processed": count for n, count in enumerate(softnet)}
    wanted = scenario_of("bridge", DUTS["bridge"], TWO)
    return registry.device_of(wanted).loads(seen | {"host/link/dut/left/rx_packets": 80.0}, 1.0)


def test_the_loads_of_two_virtual_cpus_are_those_of_the_cpus_on_which_they_run():
    loads = loads_of_two({"main": (1e8, 3.0), "CPU 0/TCG": (3e8, 3.0), "CPU 1/TCG": (5e8, 2.0)})
    assert [(load.name, load.cpu, load.received) for load in loads] == [
        ("guest's CPU 0", 3, 60),
        ("guest's CPU 1", 2, 20),
    ]
    assert [load.busy_share for load in loads] == [pytest.approx(0.4), pytest.approx(0.5)]


@pytest.mark.parametrize(
    "threads",
    [
        {"main": (1e8, 3.0), "CPU 0/KVM": (3e8, 3.0), "CPU 1/KVM": (5e8, 3.0)},
        {"main": (1e8, 3.0), "ALL CPUs/TCG": (8e8, 3.0)},
    ],
)
def test_virtual_cpus_that_share_a_cpu_have_one_load(threads):
    (load,) = loads_of_two(threads)
    assert (load.name, load.cpu, load.received) == ("guest's CPUs 0, 1", 3, 80)
    assert load.busy_share == pytest.approx(0.9)


def test_a_guest_of_which_nothing_was_seen_has_no_share():
    (load,) = loads_of_two({}, softnet=())
    assert (load.cpu, load.received, load.busy_share) == (None, 0, None)


class WithNodes(Local):
    """A guest whose kernel has these nodes."""

    name = "guest"

    def __init__(self, **nodes):
        self._nodes = nodes

    def exists(self, path):
        return bool(self._nodes) if path == FOLDER else super().exists(path)

    def names(self, path):
        return [*self._nodes, "possible"] if path == FOLDER else super().names(path)

    def read(self, path):
        return self._nodes[path.split("/")[-2]] if path.startswith(FOLDER) else super().read(path)

    def cpus(self):
        return {0, 1}

    def run(self, argv, *_, **__):
        return self.mask if argv[0] == "cat" else super().run(argv)

    mask = "00000003\n"


class Forwarding(Live):
    """A device in the guest."""


def settings_of(host, nodes):
    places = Places("one", PurePosixPath("/x"), host)
    return GuestedLive(Forwarding(), places, Guest("qemu", 128, numa_nodes=nodes), ["left"]).settings()


def test_the_nodes_that_a_guest_has_are_read_back():
    settings = settings_of(WithNodes(node0="0\n", node1="1\n"), 2)
    assert (settings["guest.numa_nodes"], settings["rps_cpus of left in the guest"]) == ("2", "00000003")
    assert settings_of(WithNodes(), 1)["guest.numa_nodes"] == "1", "a kernel without NUMA has one"


@pytest.mark.parametrize(
    ("nodes", "told"),
    [
        ({"node0": "0-1"}, r"the guest has node 0 with CPU 0, 1\n"),
        ({}, r"the guest has node 0 with CPU 0, 1\n"),
        ({"node0": "0-1", "node1": ""}, r"node 0 with CPU 0, 1; node 1 with no CPU\n"),
    ],
)
def test_a_guest_with_other_nodes_than_were_asked_for_is_refused(nodes, told):
    with pytest.raises(BenchError, match=r"^guest.numa_nodes: 2 was asked for, .*" + told):
        settings_of(WithNodes(**nodes), 2)


def test_a_guest_that_steers_elsewhere_is_refused():
    host = WithNodes(node0="0", node1="1")
    host.mask = "1\n"
    with pytest.raises(BenchError, match=r"rps_cpus of left in the guest: 00000003 was set, 1 is in force"):
        settings_of(host, 2)


def test_nodes_need_a_kernel_that_was_built_for_them(monkeypatch):
    monkeypatch.setattr(Local, "which", lambda self, name: f"/bin/{name}")
    monkeypatch.setattr(Local, "exists", lambda self, path: True)
    monkeypatch.setattr(qemu, "has_module", lambda name, release: True)
    monkeypatch.setattr(qemu, "is_configured", lambda machine, option, release=None: option != "CONFIG_NUMA")
    wanted = scenario_of("bridge", DUTS["bridge"], TWO)
    missing = [probe.detail for probe in registry.device_of(wanted).needs(wanted, Local()) if not probe.ok]
    assert missing == ["the guest's kernel was built without CONFIG_NUMA"]
    single = scenario_of("bridge", DUTS["bridge"], ONE)
    assert all(probe.ok for probe in registry.device_of(single).needs(single, Local())), "one node needs none"


def test_nodes_are_a_factor():
    text = OF_A_KIND.format(kind="bridge", dut=DUTS["bridge"], more=ONE)
    text += '[[sweep.factor]]\nname = "nodes"\nkeys = ["guest.numa_nodes"]\nlevels = [1, 2]\n'
    sweep = sweep_of(Source(text, "x.toml"), quick=False)
    assert [scenario.guest.numa_nodes for scenario in sweep.scenarios] == [1, 2]

"""A whole bench in a guest: what a scenario file may say of it, and what is built."""

from itertools import pairwise
from pathlib import PurePosixPath

import pytest
from support import OF_A_KIND

from pinchpoint.bench.resource import (
    Command,
    GuestKernel,
    Host,
    Inside,
    Namespace,
    RunDirectory,
    Tap,
    TextFile,
    Veth,
)
from pinchpoint.dut import placement, registry, vm_bench
from pinchpoint.dut.device import Live, Pages
from pinchpoint.dut.placement import alike_there, placed, topology_of
from pinchpoint.dut.places import Places
from pinchpoint.dut.setup import absent_cpus, collectors, prepare
from pinchpoint.dut.vm_bench import LiveInGuest
from pinchpoint.host.guest import BenchGuest
from pinchpoint.host.guest_kernels import KERNELS
from pinchpoint.host.local import Local
from pinchpoint.host.machines import Machines
from pinchpoint.host.numa import Topology
from pinchpoint.measure.sockets.run import Ends
from pinchpoint.model.errors import BenchError, InputError
from pinchpoint.model.guest import EMULATED, PROCESSOR, Holds, When
from pinchpoint.model.scenario import Guest
from pinchpoint.observe.cpu import CpuSteal
from pinchpoint.observe.snapshot import origin
from pinchpoint.scenario import parse

RUN = PurePosixPath("/run/pinchpoint/b1")


@pytest.fixture(autouse=True)
def no_kvm(monkeypatch):
    monkeypatch.setattr(KERNELS["qemu"], "_has_kvm", lambda machine: False)


GUEST = '[guest]\nkernel = "qemu"\nnuma_nodes = 2\ncpus = 4\n'
SOCKETS = """
title = "two hosts"
measure = "{measure}"
numa = "{numa}"
{guest}
[dut]
kind = "ovs"
datapath = "kernel"
pmd_cpus = [0]
rules = "actions=NORMAL"
[[host]]
name = "client"
address = "192.168.7.1/24"
cpus = [0, 1]
[[host]]
name = "server"
address = "192.168.7.2/24"
cpus = {server}
{host}
[sockets]
client = "client"
server = "server"
connections = 2
"""


def sockets(guest=GUEST, measure="bandwidth", numa="any", host="", server="[2, 3]"):
    return parse(SOCKETS.format(measure=measure, numa=numa, guest=guest, host=host, server=server), "x.toml")


def frames(more=""):
    guest = f'[guest]\nkernel = "qemu"\nholds = "bench"\ncpus = 2\n{more}'
    return parse(OF_A_KIND.format(kind="bridge", dut="cpus = [1]", more=guest), "x.toml")


def problem_of(make, *args, **options):
    with pytest.raises(InputError) as error:
        make(*args, **options)
    return str(error.value)


@pytest.mark.parametrize("measure", ["bandwidth", "rr", "crr"])
def test_a_socket_workload_has_its_whole_bench_in_the_guest(measure):
    wanted = sockets(measure=measure)
    assert wanted.guest == Guest("qemu", 512, numa_nodes=2, holds=Holds.BENCH, cpus=4)
    assert (wanted.holds_bench, wanted.is_tapped) == (True, False)
    assert Ends.of(wanted).pairs == 2


def test_frames_have_the_device_alone_there_unless_the_file_says_otherwise():
    alone = parse(OF_A_KIND.format(kind="bridge", dut="cpus = [3]", more='[guest]\nkernel = "qemu"\n'), "x.toml")
    assert (alone.holds_bench, alone.is_tapped) == (False, True)
    assert frames().holds_bench


@pytest.mark.parametrize(
    ("guest", "problem"),
    [
        ('[guest]\nkernel = "qemu"\nholds = "device"\n', 'guest.holds: expected "bench" where a workload runs between'),
        ('[guest]\nkernel = "qemu"\nnuma_nodes = 2\ncpus = 3\n', "guest.cpus: expected a multiple of guest.numa_nodes"),
        ('[guest]\nkernel = "qemu"\ncpus = 3\n', "host[2].cpus: expected virtual CPUs of the guest, 0 to 2, found 3"),
        ('[guest]\nkernel = "uml"\ncpus = 4\n', 'guest.cpus: expected 1, or guest.kernel = "qemu"'),
        ('[guest]\nkernel = "qemu"\ncpus = 0\n', "guest.cpus: expected a whole number from 1 to 255"),
    ],
)
def test_what_cannot_be_in_a_guest_is_told_with_its_key(guest, problem):
    assert problem in problem_of(sockets, guest)


def test_a_device_alone_has_one_virtual_cpu_on_each_node():
    more = '[guest]\nkernel = "qemu"\ncpus = 2\n'
    told = problem_of(parse, OF_A_KIND.format(kind="bridge", dut="cpus = [3]", more=more), "x.toml")
    assert 'guest.cpus: expected none, or guest.holds = "bench"' in told


def test_an_end_at_a_cable_is_outside_of_every_guest():
    told = problem_of(sockets, host='interface = "eth7"\nend_interface = "eth8"')
    assert 'host[2].interface: expected none where the whole bench is in a [guest], found "eth7"' in told


def planned(wanted):
    bench = registry.device_of(wanted).bench(wanted, Places("b1", RUN, Local()))
    return bench, bench.resources(Pages(0, 0), ["engine"])


def test_everything_is_made_in_the_guest_and_nothing_is_a_tap():
    bench, made = planned(sockets())
    boot = next(number for number, resource in enumerate(made) if isinstance(resource, GuestKernel))
    inside = [resource.resource for resource in made[boot + 1 :] if isinstance(resource, Inside)]
    assert len(inside) == len(made) - boot - 1
    assert not [resource for resource in made[:boot] if isinstance(resource, Inside | Tap)]
    assert RunDirectory(str(RUN)) in inside
    assert [resource.netns for resource in inside if isinstance(resource, Host)] == [
        "pp-b1-host-client",
        "pp-b1-host-server",
    ]
    assert isinstance(bench.places.host, BenchGuest)
    assert bench.places.machine is bench.places.host
    assert bench.places.outside.name == ""


def test_ports_of_a_bench_in_a_guest_are_veth_pairs_there_and_the_engine_opens_their_ends():
    bench, made = planned(frames())
    inside = [resource.resource for resource in made if isinstance(resource, Inside)]
    assert [resource.name for resource in inside if isinstance(resource, Veth)] == ["left", "right"]
    assert Namespace(bench.places.engine_netns) in inside
    end = bench.attachment(0, bench.scenario.ports[0])
    assert (end.backend, end.device, end.netns) == ("af_packet", "left", bench.places.engine_netns)
    assert registry.device_of(frames()).graph(frames()).places[0].name == "veth"


@pytest.mark.parametrize(("rules", "is_copied"), [(1_000, False), (500_000, True)])
def test_a_long_file_is_copied_from_the_machine_and_not_sent_over_the_line(rules, is_copied):
    series = f'[[dut.rule_series]]\nrule = "ip,nw_dst={{ipv4:10.0.0.0}},actions=drop"\ncount = {rules}\n[sockets]'
    text = SOCKETS.format(measure="rr", numa="any", guest=GUEST, host="", server="[2, 3]").replace("[sockets]", series)
    made = planned(parse(text, "x.toml"))[1]
    boot = next(number for number, resource in enumerate(made) if isinstance(resource, GuestKernel))
    long = [resource for resource in made[:boot] if isinstance(resource, TextFile) and resource.series]
    copies = [resource.resource for resource in made[boot:] if isinstance(resource, Inside)]
    copies = [resource.argv for resource in copies if isinstance(resource, Command) and resource.argv[0] == "cp"]
    assert [file.path for file in long] == (["/tmp/pinchpoint-b1/rules-br0.txt"] if is_copied else [])
    assert copies == ([("cp", "/tmp/pinchpoint-b1/rules-br0.txt", f"{RUN}/rules-br0.txt")] if is_copied else [])
    assert (RunDirectory("/tmp/pinchpoint-b1") in made[:boot]) is is_copied


def words_after(argv, option):
    return [after for word, after in pairwise(argv) if word == option]


def test_a_guest_has_its_virtual_cpus_on_its_nodes_and_they_take_turns_where_there_are_too_few(monkeypatch):
    monkeypatch.setattr(Local, "cpus", lambda self: frozenset({0, 1}))
    (kernel,) = [resource for resource in planned(sockets())[1] if isinstance(resource, GuestKernel)]
    assert words_after(kernel.argv, "-smp") == ["4,sockets=2,cores=2,threads=1"]
    assert words_after(kernel.argv, "-numa") == [
        "node,nodeid=0,cpus=0-1,memdev=ram0",
        "node,nodeid=1,cpus=2-3,memdev=ram1",
    ]
    assert words_after(kernel.argv, "-accel") == ["tcg,thread=single"]
    assert words_after(kernel.argv, "-cpu") == ["max"], "DPDK, and so the engine, needs SSE4"
    assert (kernel.cpus, kernel.threads) == ((0, 1), ())


def test_its_ends_are_placed_among_the_nodes_of_the_guest():
    wanted = sockets(numa="different", server="[0, 1]")
    topology = topology_of(wanted, Local())
    assert topology.cpus == {0: (0, 1), 1: (2, 3)}
    moved, facts = placed(wanted, topology)
    assert [host.cpus for host in moved.hosts] == [(0, 1), (2, 3)]
    assert facts
    same, _ = placed(sockets(numa="same", server="[0, 1]"), topology)
    assert [host.cpus for host in same.hosts] == [(0, 1), (0, 1)]
    filled, _ = placed(sockets(numa="different", server='"all"'), topology)
    assert filled.hosts[1].cpus == (2, 3)


def test_points_on_the_nodes_of_a_guest_are_not_alike_for_the_machines_single_node(monkeypatch):
    machines = Machines(Local())
    monkeypatch.setattr(machines, "topology", lambda remote: Topology({0: (0, 1)}))
    assert alike_there([sockets(), sockets(numa="same")], machines) == {}


def test_cpus_of_a_guest_are_not_looked_for_on_the_machine(monkeypatch):
    monkeypatch.setattr(Local, "cpus", lambda self: frozenset({0}))
    assert absent_cpus(sockets(), Local()) == {}


def test_the_bench_is_read_in_the_guest_as_on_its_own_machine():
    setup = prepare(sockets(), Machines(Local()))
    (steal,) = collectors(setup, NoCounters())
    assert isinstance(steal, CpuSteal)
    assert origin(setup.places.machine) == "host"


class NoCounters(Live):
    """A device that counts nothing."""

    def collectors(self):
        return []


class OfFourCpus(Local):
    """A guest with two nodes."""

    def __init__(self, **nodes):
        self._nodes = nodes

    def names(self, path):
        return list(self._nodes) if path.endswith("/node") else super().names(path)

    def read(self, path):
        return self._nodes[path.split("/")[-2]] if "/node/" in path else super().read(path)

    def cpus(self):
        return frozenset(range(4))


def settings_of(**nodes):
    places = Places("one", PurePosixPath("/x"), OfFourCpus(**nodes))
    return LiveInGuest(NoCounters(), places, Guest("qemu", 512, None, 2, Holds.BENCH, 4)).settings()


def test_the_cpus_that_the_guest_has_are_read_back_and_its_processor_is_named():
    settings = settings_of(node0="0-1\n", node1="2-3\n")
    assert (settings["guest.cpus"], settings["guest.numa_nodes"], settings[PROCESSOR]) == ("4", "2", EMULATED)
    with pytest.raises(BenchError, match=r"guest.cpus: node 0 with CPU 0, 1; node 1 with CPU 2, 3 was asked for"):
        settings_of(node0="0-2\n", node1="3\n")


NEEDED = '[guest]\nwhen = "needed"\nkernel = "qemu"\ncpus = 4\n'


@pytest.mark.parametrize("lacking", [0, 1])
def test_a_guest_that_is_wanted_where_it_is_needed_stands_where_the_machine_lacks_something(monkeypatch, lacking):
    asked = []

    def lacks(scenario, lab):
        asked.append(scenario.guest)
        return lacking

    monkeypatch.setattr(placement, "_lacking", lacks)
    resolved = placement.chosen([sockets(NEEDED), sockets(NEEDED, "rr"), sockets(GUEST)], Local())
    assert [scenario.guest is not None for scenario in resolved] == [bool(lacking), bool(lacking), True]
    assert asked == [None], "one of each kind is asked, as it would be without a guest"
    assert all(scenario.guest.when is When.ALWAYS for scenario in resolved if scenario.guest)


def test_a_device_that_no_guest_can_hold_has_none_where_it_is_only_wanted_if_needed():
    text = SOCKETS.format(measure="rr", numa="any", guest=NEEDED, host="", server="[2, 3]")
    assert parse(text.replace('"kernel"\npmd', '"af_packet"\npmd'), "x.toml").guest is None
    with pytest.raises(InputError, match=r"guest: expected no \[guest\] where dut.datapath"):
        parse(text.replace('"kernel"\npmd', '"af_packet"\npmd').replace('"needed"', '"always"'), "x.toml")


def test_the_virtual_cpus_are_dealt_to_the_nodes_in_order():
    assert vm_bench.topology(Guest("qemu", 512, cpus=3)).cpus == {0: (0, 1, 2)}
    assert vm_bench.topology(Guest("qemu", 512, numa_nodes=2)).cpus == {0: (0,), 1: (1,)}

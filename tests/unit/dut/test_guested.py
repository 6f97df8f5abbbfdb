"""What a scenario file may say of a guest, and the bench that it makes."""

import os
import re
from pathlib import PurePosixPath

import pytest
from support import OF_A_KIND

from pinchpoint.bench.resource import Command, Daemon, GuestKernel, Inside, Namespace, RunDirectory, Tap, Uptime, Veth
from pinchpoint.dut import registry
from pinchpoint.dut.device import Pages
from pinchpoint.dut.setup import prepare
from pinchpoint.dut.wire import without_device
from pinchpoint.host import uml
from pinchpoint.host.local import LOCAL, Local
from pinchpoint.model.errors import InputError
from pinchpoint.model.scenario import Guest
from pinchpoint.observe.cpu import CpuTime
from pinchpoint.observe.host import CpuSteal, PacketThreads
from pinchpoint.scenario import parse

GUEST = '[guest]\nkernel = "uml"\nmemory_mb = 128\n'
DUTS = {
    "bridge": "cpus = [3]",
    "nft": "cpus = [3]",
    "ovs": 'datapath = "kernel"\npmd_cpus = [3]\nrules = "in_port={left},actions=output:{right}"',
}
RUN = PurePosixPath("/run/pinchpoint/b1")
KINDS = pytest.mark.parametrize("kind", DUTS)


def scenario_of(kind, dut="", more="", top="", engine=""):
    text = OF_A_KIND.format(kind=kind, dut=dut, more=more)
    return parse(top + text.replace("cpus = [0]", f"cpus = [0]\n{engine}"), "x.toml")


def guested(kind):
    return scenario_of(kind, DUTS[kind], GUEST)


def planned(kind):
    wanted = guested(kind)
    return registry.device_of(wanted).bench(wanted, "b1", RUN).resources(Pages(0, 0), ["engine"])


def test_a_scenario_without_the_table_has_no_guest():
    assert scenario_of("bridge").guest is None
    assert guested("bridge").guest == Guest("uml", 128)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[guest]\n", 'guest.kernel: missing; expected "uml"'),
        ("[guest]\nmemory_mb = 512\n", 'guest.kernel: missing; expected "uml"'),
        ('[guest]\nkernel = "qemu"\n', 'guest.kernel: expected "uml", found "qemu"'),
        ('[guest]\nkernel = "uml"\nmemory_mb = 8\n', "guest.memory_mb: expected a whole number from 64"),
        ('[guest]\nkernel = "uml"\nmodules = []\n', "guest.modules: unknown key"),
        ('[[guest]]\nkernel = "uml"\n', "guest: expected a table [guest]"),
    ],
)
def test_wrong_keys_are_told_with_their_line(text, problem):
    with pytest.raises(InputError) as error:
        scenario_of("bridge", DUTS["bridge"], text)
    (line,) = [line for line in str(error.value).splitlines() if problem in line]
    assert line.split(":")[1].strip().isdigit(), line


@pytest.mark.parametrize("kind", ["testpmd", "reference", "wire"])
def test_a_device_that_is_not_the_kernel_is_refused_a_guest(kind):
    with pytest.raises(InputError, match=rf'guest: expected no \[guest\] where dut.kind is "{kind}"'):
        scenario_of(kind, "", GUEST)


@pytest.mark.parametrize("datapath", ["dpdk", "af_xdp", "af_packet"])
def test_a_switch_whose_datapath_is_not_the_kernels_is_refused_a_guest(datapath):
    with pytest.raises(InputError, match=rf'guest: expected no \[guest\] where dut.datapath is "{datapath}"'):
        scenario_of("ovs", DUTS["ovs"].replace('"kernel"', f'"{datapath}"'), GUEST)


def test_only_measures_that_send_frames_run_with_a_guest():
    build = '[build]\nwhat = "veths"\nmethod = "netlink"\ncount = 10\n'
    with pytest.raises(InputError, match="guest: expected a measure that sends frames"):
        scenario_of("bridge", DUTS["bridge"], GUEST + build, top='measure = "build"\n')


def test_another_backend_does_not_reach_a_tap():
    with pytest.raises(InputError, match=r'engine.backend: expected "auto" or "af_packet" where there is a \[guest\]'):
        scenario_of("ovs", DUTS["ovs"], GUEST, engine='backend = "af_xdp"')


@KINDS
def test_the_guest_boots_before_what_is_in_it_and_after_its_taps(kind):
    made = planned(kind)
    names = [type(one) for one in made]
    boot = names.index(GuestKernel)
    assert set(names[boot + 1 :]) == {Inside}
    assert Inside not in names[:boot]
    assert [one.name for one in made[:boot] if isinstance(one, Tap)] == ["left", "right"]
    assert [one.name for one in made[:boot] if isinstance(one, Namespace)] == ["pp-b1-gen"]


@KINDS
def test_in_the_guest_interfaces_stand_in_the_place_of_veth_pairs(kind):
    inside = [one.resource for one in planned(kind) if isinstance(one, Inside)]
    assert not [one for one in inside if isinstance(one, Veth)]
    assert Namespace("pp-b1-gen") not in inside
    assert inside[0] == RunDirectory("/run/pinchpoint/b1")
    moved = [one.argv for one in inside if isinstance(one, Command) and "netns" in one.argv]
    assert moved == [
        ("ip", "link", "set", "dev", f"vec{n}", "netns", "pp-b1-dut", "name", name)
        for n, name in enumerate(("left", "right"))
    ]


def test_this_machines_cpus_are_its_kernels_and_not_its_daemons():
    made = planned("ovs")
    (kernel,) = [one for one in made if isinstance(one, GuestKernel)]
    assert kernel.cpus == (3,)
    inside = [one.resource for one in made if isinstance(one, Inside)]
    assert {one.cpus for one in inside if isinstance(one, Daemon)} == {None}
    assert len([one for one in inside if isinstance(one, Uptime)]) == 1


def test_what_is_made_again_with_a_switch_is_made_in_the_guest():
    wanted = guested("ovs")
    bench = registry.device_of(wanted).bench(wanted, "b1", RUN)
    made = bench.resources(Pages(0, 0), ["engine"])
    again = bench.ends_with_it(made)
    assert again
    assert set(again) <= set(made)
    assert {type(one) for one in again} == {Inside}


@KINDS
def test_the_engine_opens_taps(kind):
    setup = prepare(guested(kind))
    ends = [(port.backend, port.device, port.netns) for port in setup.engine.ports]
    assert ends == [("af_packet", name, setup.places.engine_netns) for name in ("left", "right")]
    assert setup.places.host.name == "guest"


@KINDS
def test_frames_pass_a_tap_instead_of_a_veth_pair(kind):
    graph = registry.device_of(guested(kind)).graph(guested(kind))
    assert graph.places[0].name == "tap"
    assert not [place.name for place in graph.places if "veth" in place.name]
    assert graph.refused.reason == "queue of the tap {port} full"


def test_its_load_is_that_of_its_process_on_this_machine():
    seen = {"host/thread/main/run_ns": 25e7, "host/thread/main/cpu": 3.0, "host/link/dut/left/rx_packets": 70.0}
    (load,) = registry.device_of(guested("bridge")).loads(seen, 0.5)
    assert (load.core, load.received, load.busy_share) == (3, 70, 0.5)


def test_a_missing_program_is_told_with_its_package(monkeypatch):
    monkeypatch.setattr(Local, "which", lambda self, name: None if name == uml.PROGRAM else f"/bin/{name}")
    wanted = guested("bridge")
    missing = [probe for probe in registry.device_of(wanted).needs(wanted) if not probe.ok]
    assert [(probe.name, probe.hint) for probe in missing] == [("linux.uml", "apt-get install user-mode-linux")]


def test_rules_need_a_guest_whose_kernel_has_tables_of_ipv4(monkeypatch):
    wanted = scenario_of("nft", DUTS["nft"] + '\nrules = "table ip x { }"', GUEST)
    monkeypatch.setattr(Local, "which", lambda self, name: f"/bin/{name}")
    monkeypatch.setattr(uml, "is_configured", lambda option: False)
    missing = [probe for probe in registry.device_of(wanted).needs(wanted) if not probe.ok]
    assert "the guest's kernel was built without CONFIG_NF_TABLES_IPV4" in [probe.detail for probe in missing]


def test_the_generators_ceiling_is_measured_without_a_guest():
    assert without_device(guested("bridge"), over_dpdk=False).guest is None


def test_a_guest_is_not_frozen():
    assert registry.device_of(guested("ovs")).freezing(guested("ovs")).why_not


class Elsewhere(Local):
    """This machine, known as a guest."""

    name = "guest"


def test_counters_of_a_guests_cpus_are_not_named_like_this_machines(tmp_path):
    pid = tmp_path / "pid"
    pid.write_text(str(os.getpid()))
    any_name = re.compile(".*")
    for read in (
        lambda host: CpuTime(host, sorted(LOCAL.cpus())),
        lambda host: CpuSteal(host, sorted(LOCAL.cpus())),
        lambda host: PacketThreads(host, str(pid), any_name, any_name),
    ):
        here, there = read(LOCAL).snapshot(), read(Elsewhere()).snapshot()
        for mine, theirs in ((here.counters, there.counters), (here.gauges, there.gauges)):
            assert {name.partition("/")[0] for name in mine} <= {"host"}
            assert {name.replace("host/", "guest/", 1) for name in mine} == set(theirs)

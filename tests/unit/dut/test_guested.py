"""What a scenario file may say of a guest, and the bench that it makes."""

import os
import re
from pathlib import PurePosixPath

import pytest
from support import OF_A_KIND

from pinchpoint.bench.resource import (
    Command,
    Daemon,
    GuestKernel,
    Inside,
    Namespace,
    RunDirectory,
    Tap,
    TextFile,
    Uptime,
    Veth,
)
from pinchpoint.dut import registry
from pinchpoint.dut.device import Live, Pages
from pinchpoint.dut.places import Places
from pinchpoint.dut.setup import prepare
from pinchpoint.dut.softirq import Softnet
from pinchpoint.dut.vm import GuestedLive
from pinchpoint.dut.wire import without_device
from pinchpoint.host import guest
from pinchpoint.host.guest_kernels import KERNELS, is_release
from pinchpoint.host.interface import CommandFailed
from pinchpoint.host.local import Local
from pinchpoint.host.machines import Machines
from pinchpoint.host.numa import read_topology
from pinchpoint.keys.source import Source
from pinchpoint.model.errors import BenchError, InputError
from pinchpoint.model.scenario import Guest
from pinchpoint.observe.cpu import CpuSteal, CpuTime, PacketThreads
from pinchpoint.scenario import parse
from pinchpoint.scenario.sweep import sweep_of

uml, qemu = KERNELS["uml"], KERNELS["qemu"]
GUEST = '[guest]\nkernel = "uml"\nmemory_mb = 128\n'
QEMU = GUEST.replace("uml", "qemu")
NAT = 'rules = "table ip x { chain y { type nat hook postrouting priority 100; snat to 203.0.113.1; }; }"\n'
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


def guested(kind, guest=GUEST):
    return scenario_of(kind, DUTS[kind], guest)


def planned(kind, guest=GUEST):
    wanted = guested(kind, guest)
    return registry.device_of(wanted).bench(wanted, Places("b1", RUN, Local())).resources(Pages(0, 0), ["engine"])


def test_a_scenario_without_the_table_has_no_guest():
    assert scenario_of("bridge").guest is None
    assert guested("bridge").guest == Guest("uml", 128)


def test_the_kernel_of_a_guest_is_left_open_unless_the_file_names_it():
    assert guested("bridge", "[guest]\n").guest == Guest("auto", 512)
    assert guested("bridge", '[guest]\nkernel = "auto"\nnuma_nodes = 2\n').guest == Guest("auto", 512, numa_nodes=2)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('[guest]\nkernel = "kvm"\n', 'guest.kernel: expected "auto" or "uml" or "qemu", found "kvm"'),
        (
            '[guest]\nrelease = "6.12"\nmemory_mb = 64\n',
            'guest.memory_mb: expected at least 128 where guest.kernel is "qemu", found 64',
        ),
        (
            '[guest]\nkernel = "qemu"\nmemory_mb = 64\n',
            'guest.memory_mb: expected at least 128 where guest.kernel is "qemu", found 64',
        ),
        ('[guest]\nkernel = "uml"\nmemory_mb = 8\n', "guest.memory_mb: expected a whole number from 64"),
        ('[guest]\nkernel = "uml"\nmodules = []\n', "guest.modules: unknown key"),
        ('[guest]\nkernel = "qemu"\nrelease = 6.12\n', "guest.release: expected a release in quotes, like"),
        ('[guest]\nkernel = "qemu"\nrelease = "../6.12"\n', "guest.release: expected a release in quotes, like"),
        (
            '[guest]\nkernel = "uml"\nrelease = "6.12"\n',
            'guest.release: expected none, or guest.kernel = "qemu", of which there are several, found "6.12"',
        ),
        ('[[guest]]\nkernel = "uml"\n', "guest: expected a table [guest]"),
        (
            '[guest]\nkernel = "uml"\nnuma_nodes = 2\n',
            'guest.numa_nodes: expected 1, or guest.kernel = "qemu": "uml" has one CPU and one NUMA node, found 2',
        ),
        ('[guest]\nkernel = "qemu"\nnuma_nodes = 0\n', "guest.numa_nodes: expected a whole number from 1 to 128"),
        ('[guest]\nkernel = "qemu"\nnuma_nodes = "2"\n', "guest.numa_nodes: expected a whole number from 1 to 128"),
        (
            '[guest]\nkernel = "qemu"\nnuma_nodes = 3\nmemory_mb = 180\n',
            "guest.memory_mb: expected at least 192 where guest.numa_nodes is 3, found 180",
        ),
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
    names = [type(resource) for resource in made]
    boot = names.index(GuestKernel)
    assert set(names[boot + 1 :]) == {Inside}
    assert Inside not in names[:boot]
    assert [resource.name for resource in made[:boot] if isinstance(resource, Tap)] == ["left", "right"]
    assert [resource.name for resource in made[:boot] if isinstance(resource, Namespace)] == ["pp-b1-gen"]


@KINDS
def test_in_the_guest_interfaces_stand_in_the_place_of_veth_pairs(kind):
    inside = [resource.resource for resource in planned(kind) if isinstance(resource, Inside)]
    assert not [resource for resource in inside if isinstance(resource, Veth)]
    assert Namespace("pp-b1-gen") not in inside
    assert inside[0] == RunDirectory("/run/pinchpoint/b1")
    moved = [resource.argv for resource in inside if isinstance(resource, Command) and "netns" in resource.argv]
    assert moved == [
        ("ip", "link", "set", "dev", f"vec{n}", "netns", "pp-b1-dut", "name", name)
        for n, name in enumerate(("left", "right"))
    ]


def test_this_machines_cpus_are_its_kernels_and_not_its_daemons():
    made = planned("ovs")
    (kernel,) = [resource for resource in made if isinstance(resource, GuestKernel)]
    assert kernel.cpus == (3,)
    inside = [resource.resource for resource in made if isinstance(resource, Inside)]
    assert {resource.cpus for resource in inside if isinstance(resource, Daemon)} == {None}
    assert len([resource for resource in inside if isinstance(resource, Uptime)]) == 1


def test_what_is_made_again_with_a_switch_is_made_in_the_guest():
    wanted = guested("ovs")
    bench = registry.device_of(wanted).bench(wanted, Places("b1", RUN, Local()))
    made = bench.resources(Pages(0, 0), ["engine"])
    again = bench.ends_with_it(made)
    assert again
    assert set(again) <= set(made)
    assert {type(resource) for resource in again} == {Inside}


@KINDS
def test_the_engine_opens_taps(kind):
    setup = prepare(guested(kind), Machines(Local()))
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
    assert (load.cpu, load.received, load.busy_share) == (3, 70, 0.5)


def test_a_missing_program_is_told_with_its_package(monkeypatch):
    monkeypatch.setattr(Local, "which", lambda self, name: None if name == uml.PROGRAM else f"/bin/{name}")
    wanted = guested("bridge")
    missing = [probe for probe in registry.device_of(wanted).needs(wanted, Local()) if not probe.ok]
    assert [(probe.name, probe.hint) for probe in missing] == [("linux.uml", "apt-get install user-mode-linux")]


def test_user_mode_linux_is_preloaded_with_what_processors_with_amx_need_where_that_is_built(monkeypatch, tmp_path):
    def argv():
        (kernel,) = [resource for resource in planned("bridge") if isinstance(resource, GuestKernel)]
        return kernel.argv[len(guest.OWN_NAMESPACE) :]

    monkeypatch.setattr(uml, "_PTRACE", tmp_path / "uml-ptrace.so")
    assert argv()[0] == uml.PROGRAM
    (tmp_path / "uml-ptrace.so").write_text("")
    assert argv()[:3] == ("env", f"LD_PRELOAD={tmp_path}/uml-ptrace.so", uml.PROGRAM)


@pytest.fixture
def no_kvm(monkeypatch):
    monkeypatch.setattr(qemu, "_has_kvm", lambda machine: False)


def of_qemu():
    (kernel,) = [resource for resource in planned("bridge", QEMU) if isinstance(resource, GuestKernel)]
    return kernel


def test_an_emulated_guest_is_bare_ends_with_its_namespace_and_listens_nowhere(no_kvm):
    kernel = of_qemu()
    words, line = kernel.argv, " ".join(kernel.argv)
    assert words[:5] == (*guest.OWN_NAMESPACE, "qemu-system-x86_64")
    assert kernel.cpus == (3,)
    assert {"-nodefaults", "-no-user-config", "-no-reboot", "-sandbox"} <= set(words)
    assert "readonly=on" in line
    assert words[words.index("-accel") + 1] == "tcg,thread=multi"
    assert words[words.index("-m") + 1] == "128M"
    assert not re.search(r"server|listen|hostfwd|vnc|-netdev user|vhost=on", line)
    assert words.count(f"socket,id=line,fd={guest.LINE}") == 1


def test_the_taps_are_the_interfaces_of_an_emulated_guest_in_their_order(no_kvm):
    argv = of_qemu().argv
    taps = [word for word in argv if word.startswith("tap,")]
    assert taps == [
        f"tap,id=net{n},ifname={name},script=no,downscript=no,vhost=off,vnet_hdr=off"
        for n, name in enumerate(("left", "right"))
    ]
    inside = [resource.resource for resource in planned("bridge", QEMU) if isinstance(resource, Inside)]
    moved = [resource.argv[4] for resource in inside if isinstance(resource, Command) and "netns" in resource.argv]
    assert moved == ["eth0", "eth1"]


def test_kvm_that_offers_no_cpu_of_a_64_bit_kernel_is_not_used(monkeypatch):
    asked = []

    def refuses(self, argv, **options):
        asked.append(argv)
        raise CommandFailed(argv, "doesn't support requested feature: CPUID.01H:ECX.pni")

    monkeypatch.setattr(Local, "exists", lambda self, path: True)
    monkeypatch.setattr(Local, "run", refuses)
    assert qemu.runs_on(Local()) == "TCG, emulated"
    assert "kvm64,enforce" in asked[0][-1]
    monkeypatch.setattr(Local, "run", lambda self, argv, **options: "")
    assert qemu.runs_on(Local()) == "KVM"


def test_the_load_of_an_emulated_guest_is_that_of_its_threads_on_the_busiest_cpu(no_kvm):
    threads = {"main": (1e8, 3.0), "CPU 0/TCG": (3e8, 3.0)}
    seen = {f"host/thread/{name}/run_ns": run for name, (run, _) in threads.items()}
    seen |= {f"host/thread/{name}/cpu": cpu for name, (_, cpu) in threads.items()}
    (load,) = registry.device_of(guested("bridge", QEMU)).loads(seen, 1.0)
    assert (load.cpu, load.busy_share) == (3, pytest.approx(0.4))
    (load,) = registry.device_of(guested("bridge", QEMU)).loads(seen | {"host/thread/main/cpu": 2.0}, 1.0)
    assert (load.cpu, load.busy_share) == (3, pytest.approx(0.3))


def test_the_threads_that_forward_are_known_by_name():
    assert qemu.VCPU.fullmatch("CPU 0/TCG")
    assert qemu.VCPU.fullmatch("CPU 11/KVM")
    assert qemu.VCPU.fullmatch("ALL CPUs/TCG")
    assert not qemu.VCPU.fullmatch("call_rcu")
    assert not uml.VCPU.fullmatch("linux.uml")


def test_a_missing_kernel_is_told_with_the_command_that_provides_it(monkeypatch, tmp_path, no_kvm):
    monkeypatch.setattr(Local, "which", lambda self, name: f"/bin/{name}")
    monkeypatch.setattr(qemu, "_FOLDER", tmp_path / "guest-kernel")
    wanted = guested("bridge", QEMU)
    missing = [probe for probe in registry.device_of(wanted).needs(wanted, Local()) if not probe.ok]
    assert ("kernel for qemu", "packaging/guest-kernel") in [(probe.name, probe.hint) for probe in missing]


@pytest.fixture
def kernels(monkeypatch, tmp_path, no_kvm):
    """A folder that holds Debian's own kernel, of 6.1; returns what adds another."""
    monkeypatch.setattr(qemu, "_FOLDER", tmp_path / "guest-kernel")
    monkeypatch.setattr(Local, "which", lambda self, name: f"/bin/{name}")

    def add(name, release):
        (tmp_path / name / "modules" / release).mkdir(parents=True)
        for file in ("vmlinuz", "initrd", "config"):
            (tmp_path / name / file).write_text("")
        (tmp_path / name / "modules" / release / "bridge.ko.xz").write_text("")

    add("guest-kernel", "6.1.0-56-amd64")
    return add


def of_release(release):
    return guested("bridge", f'{QEMU}release = "{release}"\n')


def test_a_release_that_is_not_there_is_told_with_the_command_that_provides_it(kernels):
    wanted = of_release("6.12")
    missing = {probe.name: probe.hint for probe in registry.device_of(wanted).needs(wanted, Local()) if not probe.ok}
    assert missing["kernel 6.12 for qemu"] == "packaging/guest-kernel --release 6.12"


@pytest.mark.parametrize(
    ("release", "folder"),
    [("6.1", "guest-kernel"), ("6.1.0-56-amd64", "guest-kernel"), ("6.12", "guest-kernel-6.12")],
)
def test_a_guest_boots_the_release_that_its_scenario_names(kernels, tmp_path, release, folder):
    kernels("guest-kernel-6.12", "6.12.95+deb12-amd64")
    wanted = of_release(release)
    assert all(probe.ok for probe in registry.device_of(wanted).needs(wanted, Local()) if "kernel" in probe.name)
    made = registry.device_of(wanted).bench(wanted, Places("b1", RUN, Local())).resources(Pages(0, 0), ["engine"])
    (kernel,) = [resource for resource in made if isinstance(resource, GuestKernel)]
    (first,) = [
        resource for resource in made if isinstance(resource, TextFile) and resource.path.endswith("guest-init")
    ]
    assert str(tmp_path / folder / "vmlinuz") in kernel.argv
    assert f"{tmp_path / folder / 'modules'} " in first.lines[0]


def test_releases_are_a_factor():
    text = OF_A_KIND.format(kind="bridge", dut=DUTS["bridge"], more=QEMU)
    text += '[[sweep.factor]]\nname = "kernel"\nkeys = ["guest.release"]\nlevels = ["6.1", "6.12"]\n'
    sweep = sweep_of(Source(text, "x.toml"), quick=False)
    assert [scenario.guest.release for scenario in sweep.scenarios] == ["6.1", "6.12"]


@pytest.mark.parametrize(
    ("release", "wanted", "is_it"),
    [
        ("6.12.95+deb12-amd64", "6.12", True),
        ("6.12.95+deb12-amd64", "6.1", False),
        ("6.12.95+deb12-amd64", "6.12.9", False),
        ("6.1.0-56-amd64", "6.1.0-56-amd64", True),
    ],
)
def test_a_release_is_named_by_its_beginning_as_a_whole(release, wanted, is_it):
    assert is_release(release, wanted) is is_it


@pytest.mark.parametrize(("text", "there"), [("CONFIG_NF_TABLES_IPV4=y", True), ("CONFIG_NF_TABLES=m", False)])
def test_what_debians_kernel_supports_is_read_from_its_configuration(monkeypatch, tmp_path, text, there):
    config = tmp_path / "config"
    monkeypatch.setattr(qemu, "_FOLDER", tmp_path)
    assert not qemu.is_configured(Local(), "CONFIG_NF_TABLES_IPV4"), "there is no kernel"
    config.write_text(f"# x\n{text}\n")
    assert qemu.is_configured(Local(), "CONFIG_NF_TABLES_IPV4") is there


def test_rules_are_taken_by_a_guest_whose_kernel_has_tables(monkeypatch):
    wanted = scenario_of("nft", f"{DUTS['nft']}\n{NAT}", QEMU)
    monkeypatch.setattr(Local, "which", lambda self, name: f"/bin/{name}")
    monkeypatch.setattr(Local, "exists", lambda self, path: True)
    monkeypatch.setattr(qemu, "is_configured", lambda machine, option, release: option == "CONFIG_NF_TABLES_IPV4")
    assert all(probe.ok for probe in registry.device_of(wanted).needs(wanted, Local()))


@pytest.mark.parametrize("word", KERNELS)
def test_every_kernel_is_documented_and_begins_with_the_agent(word):
    assert KERNELS[word].ABOUT
    assert KERNELS[word].init_line().startswith("exec /bin/sh /")
    assert len({KERNELS[word].interface(n) for n in range(3)}) == 3


def test_rules_need_a_guest_whose_kernel_has_tables_of_ipv4(monkeypatch):
    wanted = scenario_of("nft", DUTS["nft"] + '\nrules = "table ip x { }"', GUEST)
    monkeypatch.setattr(Local, "which", lambda self, name: f"/bin/{name}")
    monkeypatch.setattr(uml, "is_configured", lambda machine, option, release: False)
    missing = [probe for probe in registry.device_of(wanted).needs(wanted, Local()) if not probe.ok]
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
        lambda host: CpuTime(host, sorted(Local().cpus())),
        lambda host: CpuSteal(host, sorted(Local().cpus())),
        lambda host: PacketThreads(host, str(pid), any_name, any_name),
    ):
        here, there = read(Local()).snapshot(), read(Elsewhere()).snapshot()
        for mine, theirs in ((here.counters, there.counters), (here.gauges, there.gauges)):
            assert {name.partition("/")[0] for name in mine} <= {"host"}
            assert {name.replace("host/", "guest/", 1) for name in mine} == set(theirs)


class InTheGuest(Live):
    """Read in the guest."""

    def collectors(self):
        return [CpuTime(Local(), [0])]

    witnesses = collectors


def of_another_release(wanted):
    here = Guest("qemu", 128, wanted, len(read_topology(Local()).cpus))
    return GuestedLive(InTheGuest(), Places("one", PurePosixPath("/x"), Local()), here)


def test_the_release_that_runs_is_read_back():
    runs = os.uname().release
    assert of_another_release(None).settings()["guest.release"] == runs
    assert of_another_release(None).settings()["guest.kernel"] == "qemu"
    assert of_another_release(runs).settings()["guest.release"] == runs
    with pytest.raises(BenchError, match=r"guest.release: 0.1 was asked for") as error:
        of_another_release("0.1").settings()
    assert error.value.hint == "packaging/guest-kernel --release 0.1"


@pytest.mark.parametrize("read", ["collectors", "witnesses"])
def test_the_guests_process_is_read_nearest_to_the_traffic(read, tmp_path):
    """Reading what is in the guest is work for its CPU, which would count as load."""
    live = GuestedLive(InTheGuest(), Places("one", PurePosixPath(tmp_path), Local()), Guest("uml", 128))
    assert [type(reader) for reader in getattr(live, read)()] == [CpuTime, PacketThreads]
    live = GuestedLive(InTheGuest(), Places("one", PurePosixPath(tmp_path), Local()), Guest("qemu", 128, numa_nodes=2))
    assert [type(reader) for reader in getattr(live, read)()] == [CpuTime, Softnet, PacketThreads]

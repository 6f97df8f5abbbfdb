"""What a machine must have for a bench: every probe names what is missing and the command that provides it."""

import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pinchpoint.bench.hugepages import available
from pinchpoint.dut.ovs import bench as ovs
from pinchpoint.dut.ovs.daemons import POLLED
from pinchpoint.dut.ovs.programs import told_version, what_is_wrong
from pinchpoint.model.errors import RequirementError
from pinchpoint.model.scenario import Datapath, Scenario

_PACKAGES = {
    "ovs-vsctl": "openvswitch-switch",
    "ovs-ofctl": "openvswitch-switch",
    "ovsdb-server": "openvswitch-switch",
    "ovsdb-tool": "openvswitch-switch",
    "ip": "iproute2",
    "ss": "iproute2",
    "sysctl": "procps",
    "taskset": "util-linux",
    "ethtool": "ethtool",
}


@dataclass(frozen=True)
class Probe:
    """One finding about this machine."""

    name: str
    ok: bool
    detail: str
    hint: str = ""  # the command that provides it
    needed: bool = True  # False: no scenario can ask for it


def probe(
    datapath: Datapath,
    cpus: Sequence[int] = (),
    hugepages: int = 0,
    least_cpus: int = 2,
    vswitchd: str | None = None,
) -> Iterator[Probe]:
    """What a bench with this datapath needs: `cpus` in use, `hugepages` of 2 MiB in all, a switch's own program."""
    yield _root()
    yield from (_command(name, package) for name, package in _PACKAGES.items())
    yield _own_vswitchd(vswitchd, datapath) if vswitchd else _vswitchd(datapath)
    yield _cpus(cpus, least_cpus)
    if datapath is Datapath.DPDK:
        yield _hugepages(hugepages)
    if datapath is Datapath.KERNEL:
        yield _kernel_module("openvswitch")


def require_together(a: Scenario, b: Scenario) -> None:
    """As `require`, of two benches at once. Raises RequirementError."""
    require(a)
    require(b)
    if lacking := lacking_together(a, b):
        raise lacking


def lacking_together(a: Scenario, b: Scenario) -> RequirementError | None:
    """What is missing for two benches at once, where each alone could be built; None if there is memory for both."""
    pages = ovs.hugepages_needed(a) + ovs.hugepages_needed(b)
    if not pages or (found := _hugepages(pages)).ok:
        return None
    return RequirementError(
        f"not enough memory for both benches at once: {found.detail}",
        f"free memory, then sysctl vm.nr_hugepages={pages}; or use less: "
        "--set dut.memory_mb=512 --set engine.memory_mb=256",
    )


def require(scenario: Scenario) -> None:
    """Raises RequirementError naming all that is missing, each with its remedy."""
    datapath, hosts = scenario.dut.datapath, (cpu for host in scenario.hosts for cpu in host.cpus)
    cpus = (*scenario.engine.cpus, *scenario.dut.pmd_cpus, *hosts)
    least = 2 if _needs_two_cpus(scenario) else 1
    probes = probe(datapath, cpus, ovs.hugepages_needed(scenario), least, scenario.dut.vswitchd)
    missing = [probe for probe in (*probes, *_tunnels(scenario), *queues(scenario)) if not probe.ok]
    if missing:
        lines = "".join(f"\n  {p.name}: {p.detail}" + (f"\n    hint: {p.hint}" if p.hint else "") for p in missing)
        raise RequirementError(f"{scenario.path} cannot run on this machine:{lines}")


def _tunnels(scenario: Scenario) -> Iterator[Probe]:
    if scenario.dut.tunnels and scenario.dut.datapath is Datapath.KERNEL:
        detail = "not possible with the kernel datapath: the kernel delivers packets for its own addresses itself"
        yield Probe("tunnels", False, detail, 'set dut.datapath = "af_packet", "af_xdp" or "dpdk"')


def queues(scenario: Scenario) -> Iterator[Probe]:
    """Ports with more queues than the engine has CPUs to drive them."""
    cpus = scenario.engine.cpus
    for port in scenario.ports:
        if port.queues > len(cpus):
            counted = f"{len(cpus)} CPU" + ("s" if len(cpus) > 1 else "")
            detail = f"port {port.name} has {port.queues} queues, but the engine has {counted}"
            hint = f"list {port.queues} CPUs in engine.cpus, since each queue needs its own; or use fewer queues"
            yield Probe("queues", False, detail, hint)


def _needs_two_cpus(scenario: Scenario) -> bool:
    """Whether anything polls: an engine with ports, or PMD threads."""
    return bool(scenario.ports) or scenario.dut.datapath in POLLED


def _root() -> Probe:
    ok = os.geteuid() == 0
    return Probe(
        "root", ok, "yes" if ok else "missing; namespaces, hugepages and CPU pinning need it", "sudo pinchpoint ..."
    )


def _command(name: str, package: str) -> Probe:
    path = shutil.which(name)
    return Probe(name, path is not None, path or "not installed", f"apt-get install {package}")


def _vswitchd(datapath: Datapath) -> Probe:
    path = Path(ovs.VSWITCHD[datapath])
    package = path.parent.name
    return Probe(
        path.name, path.exists(), str(path) if path.exists() else f"{path}: not installed", f"apt-get install {package}"
    )


def _own_vswitchd(path: str, datapath: Datapath) -> Probe:
    """A program given as dut.vswitchd is asked for its name and version before it runs as the switch."""
    wrong = what_is_wrong(path, datapath)
    hint = "set dut.vswitchd to the path of an ovs-vswitchd; for dpdk, of one built with DPDK"
    return Probe("dut.vswitchd", not wrong, f"{path}: {wrong or told_version(path)}", hint)


def _cpus(cpus: Sequence[int], least: int) -> Probe:
    usable = os.sched_getaffinity(0)
    missing = sorted(set(cpus) - usable)
    have = ", ".join(map(str, sorted(usable)))
    if missing:
        wanted = ", ".join(map(str, missing))
        hint = "change engine.cpus, dut.pmd_cpus or host.cpus to usable CPUs; engine and switch need one each"
        return Probe("CPUs", False, f"CPU {wanted} cannot be used here; usable: {have}", hint)
    return Probe("CPUs", len(usable) >= least, f"usable: {have}", "a switch and its load generator need two CPUs")


def _kernel_module(name: str) -> Probe:
    """Loaded, built in, or loadable."""
    if Path("/sys/module", name).exists():
        return Probe(f"kernel module {name}", True, "loaded")
    release = os.uname().release
    folder = Path("/lib/modules", release)
    if any(folder.rglob(f"{name}.ko*")):
        return Probe(f"kernel module {name}", True, "can be loaded")
    detail = f"the running kernel {release} has no module {name}: no {name}.ko in {folder}"
    hint = (
        'apt-get install linux-image-amd64, boot that kernel, modprobe openvswitch; or set dut.datapath = "af_packet"'
    )
    return Probe(f"kernel module {name}", False, detail, hint)


def _hugepages(pages: int) -> Probe:
    name = "hugepages"
    try:
        free = available()
    except OSError:
        hint = 'boot a kernel with CONFIG_HUGETLBFS, or set dut.datapath = "af_packet"'
        return Probe(name, False, "this kernel has no 2 MiB hugepages", hint)
    memory = _available_mb() // 2
    if free + memory < pages:
        detail = f"{pages} of 2 MiB needed; {free} are free and there is memory for {memory} more"
        hint = f'free memory, then sysctl vm.nr_hugepages={pages}; or set dut.datapath = "af_packet"'
        return Probe(name, False, detail, hint)
    return Probe(name, True, f"{free} of 2 MiB free, memory for {memory} more; a run reserves and returns its own")


def _available_mb() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) // 1024
    return 0

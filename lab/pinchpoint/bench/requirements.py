"""What a machine must have for a bench: every probe names what is missing and the command that provides it."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from pinchpoint.host.cpu_settings import BOOST, GOVERNOR, ISOLATED, NO_TURBO, SIBLINGS, TURBO, cpu_settings
from pinchpoint.host.facts import modules_folder
from pinchpoint.host.guest_kernels import KERNELS
from pinchpoint.host.hugepages import available
from pinchpoint.host.interface import PROC, SYS, CommandFailed, Host
from pinchpoint.host.processes import kib
from pinchpoint.model import units
from pinchpoint.model.errors import RequirementError
from pinchpoint.model.scenario import Guest, Scenario


@dataclass(frozen=True)
class Remedy:
    """What `pinchpoint doctor --fix` can provide without a decision of the user's beyond yes."""

    packages: tuple[str, ...] = ()  # of Debian
    dnf: tuple[str, ...] = ()  # the same of Fedora and its like; empty: not known
    distributions: tuple[str, ...] = ()  # of Python, with their versions as pip takes them
    modules: tuple[str, ...] = ()  # of the running kernel


@dataclass(frozen=True)
class Probe:
    """One finding about a machine."""

    name: str
    ok: bool
    detail: str
    hint: str = ""  # the command that provides it
    needed: bool = True  # False: no scenario can ask for it
    remedy: Remedy | None = None  # None: nothing that could be done for the user, or it is not known
    mark: str = "not here"  # of one that is neither ok nor needed


_STEADY: Final[Mapping[str, tuple[str, str]]] = {  # what a fact says on a steady host, and what makes it so
    GOVERNOR: ("performance", "cpupower frequency-set -g performance (apt-get install linux-cpupower)"),
    TURBO: ("off", f"echo 1 | sudo tee {NO_TURBO}; where that file is absent: echo 0 | sudo tee {BOOST}"),
    SIBLINGS: ("none", "keep the siblings of the device's and the engine's CPUs idle (lscpu -e), or boot with nosmt"),
    ISOLATED: (r"\d.*", "boot with isolcpus=, nohz_full= and rcu_nocbs= for the CPUs of device and engine"),
}


_DNF: Final[Mapping[str, tuple[str, ...]]] = {  # packages that Fedora calls otherwise than Debian
    "conntrack": ("conntrack-tools",),
    "dpdk-dev": ("dpdk",),
    "iproute2": ("iproute", "iproute-tc"),
    "iptables": ("iptables-nft",),
    "procps": ("procps-ng",),
    "qemu-system-x86": ("qemu-system-x86-core",),
    "user-mode-linux": (),
}


def queues(scenario: Scenario) -> Iterator[Probe]:
    """Ports with more queues than the engine has CPUs to drive them."""
    cpus = scenario.engine.cpus
    for port in scenario.ports:
        if port.queues > len(cpus):
            detail = f"port {port.name} has {port.queues} queues, but the engine has {units.counted(len(cpus), 'CPU')}"
            hint = f"list {port.queues} CPUs in engine.cpus, since each queue needs its own; or use fewer queues"
            yield Probe("queues", False, detail, hint)


def root(host: Host) -> Probe:
    """Whether this process may build benches; on another host its agent is root, or nothing is asked of it."""
    ok = bool(host.name) or os.geteuid() == 0
    detail = "yes" if ok else "missing; namespaces, hugepages and CPU pinning need it"
    return Probe("root", ok, detail, "sudo pinchpoint ...")


def command(host: Host, name: str, package: str, dnf: str = "") -> Probe:
    """Whether a program is installed; `package` provides it, `dnf` on Fedora where `_DNF` cannot name it."""
    path = host.which(name)
    return packaged(name, path is not None, path or "not installed", package, dnf)


def packaged(name: str, ok: bool, detail: str, package: str, dnf: str = "") -> Probe:
    """A finding about something that a Debian package provides; `dnf` as of `command`."""
    names = (dnf,) if dnf else _DNF.get(package, (package,))
    return Probe(name, ok, detail, f"apt-get install {package}", remedy=Remedy(packages=(package,), dnf=names))


def as_here(probe: Probe, host: Host) -> Probe:
    """The finding with the command of the host's own package manager, where that is dnf."""
    if probe.remedy is None or not probe.remedy.dnf or host.which("apt-get") or not host.which("dnf"):
        return probe
    apt, dnf = (" ".join(names) for names in (probe.remedy.packages, probe.remedy.dnf))
    hint = probe.hint.replace(f"apt-get install {apt}", f"dnf install {dnf}")
    return replace(probe, hint=hint, remedy=replace(probe.remedy, packages=()))


def cpus(host: Host, cpus: Sequence[int], least: int) -> Probe:
    """Whether these CPUs can be used, and there are `least` of them."""
    usable = host.cpus()
    missing = sorted(set(cpus) - usable)
    have = ", ".join(map(str, sorted(usable)))
    if missing:
        wanted = ", ".join(map(str, missing))
        hint = "change the CPUs of engine, dut and hosts to usable ones; a device that polls needs its own"
        return Probe("CPUs", False, f"CPU {wanted} cannot be used here; usable: {have}", hint)
    return Probe("CPUs", len(usable) >= least, f"usable: {have}", "a switch and its load generator need two CPUs")


def steadiness(host: Host) -> Iterator[Probe]:
    """How the CPUs are set, and what makes rates steadier; a scenario runs with any of it."""
    for name, told in cpu_settings(host).items():
        steady, hint = _STEADY.get(name, (".*", ""))
        yield Probe(name, bool(re.fullmatch(steady, told)), told, hint, needed=False, mark="unsteady")


def kernel_module(host: Host, name: str, otherwise: str, guest: Guest | None = None) -> Probe:
    """Whether it is loaded, built in, or can be loaded; `otherwise` says how to do without it."""
    if guest:
        kernel = KERNELS[guest.kernel]
        there = kernel.has_module(name, guest.release)
        detail = "can be loaded in the guest" if there else f"the guest's kernel has no module {name}"
        return Probe(f"kernel module {name}", there, detail, f"{kernel.provided_by(guest.release)}; or {otherwise}")
    if host.exists(f"{SYS}/module/{name}"):
        return Probe(f"kernel module {name}", True, "loaded")
    release, folder = host.release(), modules_folder(host)
    if host.exists(folder) and host.run(["find", f"{folder}/", "-name", f"{name}.ko*"]).strip():
        return Probe(f"kernel module {name}", True, "can be loaded")
    detail = f"the running kernel {release} has no module {name}: no {name}.ko in {folder}"
    hint = f"apt-get install linux-image-amd64, boot that kernel, modprobe {name}; or {otherwise}"
    return Probe(f"kernel module {name}", False, detail, hint)


def tried(host: Host, name: str, argv: Sequence[str], options: str) -> Probe:
    """Whether the kernel does what a command asks of it; `options`: those with which a kernel is built that does."""
    try:
        host.run(argv)
    except (CommandFailed, RequirementError) as error:
        hint = f"boot a kernel with {options}, as apt-get install linux-image-amd64 provides"
        return Probe(name, False, error.message, hint)
    return Probe(name, True, "there")


def hugepages(host: Host, pages: int, otherwise: str) -> Probe:
    """Whether there is memory for `pages` of 2 MiB; `otherwise` says how to do without them."""
    name = "hugepages"
    try:
        free = available(host)
    except OSError:
        hint = f"boot a kernel with CONFIG_HUGETLBFS, or {otherwise}"
        return Probe(name, False, "this kernel has no 2 MiB hugepages", hint)
    memory = kib(host.read(f"{PROC}/meminfo"), "MemAvailable") // 2048
    if free + memory < pages:
        detail = f"{pages} of 2 MiB needed; {free} are free and there is memory for {memory} more"
        hint = f"free memory, then sysctl vm.nr_hugepages={pages}; or {otherwise}"
        return Probe(name, False, detail, hint)
    return Probe(name, True, f"{free} of 2 MiB free, memory for {memory} more; a run reserves and returns its own")

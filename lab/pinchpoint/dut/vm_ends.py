"""Ends of a socket workload that are virtual machines (`host.vm`): kernels of their own, with one interface, `eth0`.

Towards a switch with DPDK that is a vhost-user interface, of which qemu is the server; towards another one a tap in the
switch's namespace. The end's engine runs in the machine, reached over its line (`host/guest_program.py`).

`cpus` of such an end are this machine's: virtual CPU n runs on the n-th of them.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from pinchpoint.bench.requirements import Probe
from pinchpoint.bench.resource import AnyResource, Command, GuestKernel, Inside, Namespace, Tap, TextFile
from pinchpoint.bench.resource import Host as VethHost
from pinchpoint.dut import vm
from pinchpoint.dut.attach import STANDARD_MTU
from pinchpoint.dut.device import Device, RawScenario
from pinchpoint.dut.places import Places
from pinchpoint.host.guest_kernels import KERNELS, BootPlan
from pinchpoint.host.interface import Host as Machine
from pinchpoint.keys import kinds
from pinchpoint.keys.reader import Element
from pinchpoint.model.guest import EMULATED, PROCESSOR, REAL
from pinchpoint.model.scenario import Host, Scenario

WORDS: Final = tuple(KERNELS)
"""The kernels that `host.vm` names."""
OWN: Final = (GuestKernel, Inside)
"""What a machine is made of, beside its interface; it outlives a switch that is started again."""
_MEMORY_MB = 512
_ELSEWHERE = ("interface", "end_interface", "runs_on")


def machines_of(scenario: Scenario) -> tuple[Host, ...]:
    """The ends that are virtual machines."""
    return tuple(host for host in scenario.hosts if host.vm)


def check(raw: RawScenario, device: Device) -> None:
    """Whether ends that shall be virtual machines can be; problems are noted."""
    ends = [host for host in raw.hosts if host.values.get("vm")]
    for host in ends:
        if raw.tables["guest"].get("kernel"):
            raw.problem((*host.at, "vm"), "expected none where there is a [guest]: an end there is a namespace")
        if raw.tables[""].get("runs_on"):
            told = "expected none where there is runs_on: the line to a virtual machine ends on the lab's machine"
            raw.problem((*host.at, "vm"), told)
        if host.values.get("cpus") == ():
            raw.mismatch((*host.at, "cpus"), "a list of CPU numbers where the end is a virtual machine", kinds.ALL)
        if not KERNELS[host.values["vm"]].HAS_CPUS:
            _check_uml(host, raw, device)
    for host in raw.hosts if ends else ():
        for key in _ELSEWHERE:
            if host.values.get(key):
                raw.mismatch((*host.at, key), "none where an end is a virtual machine", host.values[key])


def _check_uml(host: Element, raw: RawScenario, device: Device) -> None:
    word, cpus = host.values["vm"], host.values.get("cpus", ())
    if len(cpus) > 1:
        raw.mismatch((*host.at, "cpus"), f'one CPU where vm is "{word}"', list(cpus))
    if why := device.why_no_guest(raw.dut):
        told = f'expected another than "{word}" where {why}: its interface always leaves checksums open '
        told += "(ethtool's tx-checksum-ip-generic is fixed), and a switch in userspace does not complete them"
        raw.problem((*host.at, "vm"), told)


def needs(scenario: Scenario, machine: Machine) -> Iterator[Probe]:
    """What the machine must have for them."""
    if words := dict.fromkeys(host.vm for host in scenario.hosts if host.vm):
        yield from vm.probes(machine, [KERNELS[word] for word in words], nodes=1)


def taps(scenario: Scenario, places: Places) -> Iterator[Tap]:
    """Their interfaces at a switch without DPDK, by which it has its ports."""
    return (Tap(end.name, places.dut_netns, STANDARD_MTU) for end in machines_of(scenario))


def machines(scenario: Scenario, places: Places, *, over_rings: bool, offloads: bool) -> Iterator[AnyResource]:
    """The machines, each with its namespace, interface and address; after the switch's ports, which connect to rings.

    Without `offloads` the checksums of what they send are complete.
    """
    for end in machines_of(scenario):
        yield from _booted(end, places, over_rings)
        netns, name = places.host_netns(end.name), VethHost.INTERFACE
        given = KERNELS[end.vm or ""].interface(0)
        inside: list[AnyResource] = [
            Namespace(netns),
            Command(("ip", "link", "set", "dev", given, "netns", netns, "name", name)),
            Command(("ip", "-n", netns, "address", "add", end.address, "dev", name)),
            Command(("ip", "-n", netns, "link", "set", "dev", name, "up")),
            *([] if offloads else [Command(("ethtool", "-K", name, "tx", "off", "tso", "off"), netns)]),
        ]
        yield from (Inside(resource, end.name) for resource in inside)


def _booted(end: Host, places: Places, over_rings: bool) -> Iterator[AnyResource]:
    kernel, word, cpus = KERNELS[end.vm or ""], f"vm-{end.name}", end.cpus
    folder = f"{places.directory}/{word}"
    init, log = f"{folder}-init", f"{folder}.log"
    taps, rings = ((), (places.vhost_socket(end.name),)) if over_rings else ((end.name,), ())
    here = (places.outside, folder, init, _MEMORY_MB, STANDARD_MTU)
    plan = BootPlan(*here, taps=taps, rings=rings, cpus_each=len(cpus))
    threads = tuple((kernel.thread(number), cpu) for number, cpu in enumerate(cpus)) if len(cpus) > 1 else ()
    files = (places.pidfile(word), places.pidfile(f"{word}-kernel"), log)
    yield TextFile(init, (kernel.init_line(),))
    yield GuestKernel(kernel.command(plan), *files, places.bench_id, places.dut_netns, cpus, threads, name=end.name)


def settings(scenario: Scenario, places: Places) -> Mapping[str, str]:
    """The kernel of each as it names itself, and whether a processor is emulated."""
    if not (ends := machines_of(scenario)):
        return {}
    is_emulated = any(KERNELS[end.vm or ""].is_emulated(places.outside) for end in ends)
    told = {f"virtual machine {end.name}": f"{end.vm}, {places.vms[end.name].release()}" for end in ends}
    return {**told, PROCESSOR: EMULATED if is_emulated else REAL}

"""Guests in the path: a forwarder between two vhost-user ports of the switch, as a network function is.

wire -> switch -> guest -> switch -> wire is what ovs_perf, vsperf and FD.io CSIT call PVP; with two guests, PVVP. A
guest is the server of both sockets; the switch connects to them, also after a restart.

container   DPDK's testpmd over virtio-user
vm          a kernel under qemu, which bridges its two interfaces, booted as ends in virtual machines are
            (`guest_kernels.Qemu`), but without an agent: a daemon, also on a host that has no line to the lab
"""

from collections.abc import Iterator
from typing import Final

from pinchpoint.bench.requirements import Probe
from pinchpoint.bench.resource import AnyResource, Daemon, TextFile
from pinchpoint.dut import vm
from pinchpoint.dut.attach import STANDARD_MTU, pages_of
from pinchpoint.dut.device import programs
from pinchpoint.dut.ovs.places import OvsPlaces
from pinchpoint.dut.ovs.spec import GUEST_MB, VM, OvsPort, spec
from pinchpoint.dut.program import START_TIMEOUT_S, await_start, detached
from pinchpoint.dut.testpmd import BUFFERS_PER_MB, PROGRAM, STATS_PERIOD_S, Ports, ask
from pinchpoint.host.guest_kernels import KERNELS, BootPlan
from pinchpoint.host.interface import Host, text_at
from pinchpoint.model.guest import EMULATED, PROCESSOR, REAL
from pinchpoint.model.scenario import Scenario

Ends = tuple[OvsPort, OvsPort]
COUNTERS: Final = "testpmd/port/"
"""How the counters of a guest's ports begin."""
_VM_MB: Final = 256
_BOOT_S: Final = 240.0  # emulated beside threads that poll
_FORWARDS: Final = "pinchpoint: forwards"  # on its console
_KERNEL: Final = KERNELS["qemu"]
_STANDING_S: Final = {True: _KERNEL.STANDING_S, False: 6.0}  # of a machine; of testpmd, which ends within three seconds


def spare_cpu(scenario: Scenario, host: Host) -> int:
    """For what forwards beside the PMD threads: the lowest CPU that neither engine nor switch has, else their last."""
    free = host.cpus() - {*scenario.engine_cpus_at(scenario.site), *spec(scenario).pmd_cpus}
    return min(free) if free else spec(scenario).pmd_cpus[-1]


def needs(scenario: Scenario, host: Host) -> Iterator[Probe]:
    """The forwarders, and what detaches them."""
    machines = {_is_machine(ends) for ends in spec(scenario).guests}
    if machines:
        yield from programs(host, {"start-stop-daemon": "dpkg"})
    if False in machines:
        yield from programs(host, {PROGRAM: "dpdk-dev"})
    if True in machines:
        yield from vm.kernel_probes(host, _KERNEL)


def pages(scenario: Scenario) -> int:
    """2 MiB pages of all guests: a machine has memory of the usual size."""
    return sum(pages_of(GUEST_MB) for ends in spec(scenario).guests if not _is_machine(ends))


def standing_s(scenario: Scenario) -> float:
    """How long all take to begin and to end."""
    return sum(_STANDING_S[_is_machine(ends)] for ends in spec(scenario).guests)


def _is_machine(ends: Ends) -> bool:
    return ends[0].forwards_in == VM


def resources(scenario: Scenario, places: OvsPlaces) -> list[AnyResource]:
    """A forwarder for each guest. They come after the switch's ports, which connect to them."""
    made: list[AnyResource] = []
    for ends in spec(scenario).guests:
        made += [TextFile(_init(places, ends), tuple(_script()))] if _is_machine(ends) else []
        made.append(_daemon(scenario, places, ends))
    return made


def _daemon(scenario: Scenario, places: OvsPlaces, ends: Ends) -> Daemon:
    name, cpu = _name(ends), _cpu(scenario, places, ends)
    log = f"{places.directory}/{name}.log"
    if _is_machine(ends):
        return detached(places, name, log, _machine(places, ends), cpus=(cpu,))
    control = scenario.engine.cpus[0]  # DPDK moves only the forwarding thread off this CPU
    folder = (("RUNTIME_DIRECTORY", str(places.directory)),)
    return detached(places, name, log, tuple(_testpmd(places, ends, control, cpu)), cpus=(control,), environment=folder)


def _cpu(scenario: Scenario, places: OvsPlaces, ends: Ends) -> int:
    own = ends[0].forward_cpu
    return spare_cpu(scenario, places.machine) if own is None else own


def _testpmd(places: OvsPlaces, ends: Ends, control: int, cpu: int) -> Iterator[str]:
    ring = str(min(port.ring for port in ends))  # no driver takes more than its ring has
    yield from (PROGRAM, "-l", f"{control},{cpu}", "--main-lcore", str(control), "--no-pci", "--in-memory")
    # A ring's other end maps few files (vhost-user has eight regions at most); the prefix tells telemetries apart.
    yield from ("--single-file-segments", "-m", str(GUEST_MB), f"--file-prefix={_name(ends)}")
    for number, port in enumerate(ends):
        socket = f"path={places.vhost_socket(port.name)},server=1,queues=1,queue_size={port.ring}"
        yield f"--vdev=net_virtio_user{number},{socket}"
    yield from ("--", "--forward-mode=io", "--nb-cores=1", f"--rxd={ring}", f"--txd={ring}")
    yield from (f"--total-num-mbufs={BUFFERS_PER_MB * GUEST_MB}", "--disable-link-check")
    yield f"--stats-period={STATS_PERIOD_S}"


def _machine(places: OvsPlaces, ends: Ends) -> tuple[str, ...]:
    """It waits at each socket until the switch is there."""
    rings = [places.vhost_socket(port.name) for port in ends]
    here = (places.machine, str(places.directory), _init(places, ends))
    return _KERNEL.command(BootPlan(*here, _VM_MB, STANDARD_MTU, rings=rings, has_line=False))


def _init(places: OvsPlaces, ends: Ends) -> str:
    """The shell script with which a machine begins."""
    return f"{places.directory}/{_name(ends)}.sh"


def _script() -> Iterator[str]:
    """It is the machine's first program, and does not end."""
    yield "set -e"  # where something fails it ends, and with it the machine
    yield "export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    yield from ("mount -t proc proc /proc", "mount -t sysfs sys /sys", "mount -t tmpfs run /run")
    yield f"mkdir -p /run/guest/lib && ln -s {_KERNEL.modules(None)} /run/guest/lib/modules"
    yield "modprobe -d /run/guest bridge"
    yield "ip link add name forward type bridge mcast_snooping 0"
    yield from (f"ip link set dev eth{number} master forward up" for number in (0, 1))
    yield "ip link set dev forward up"
    yield f"echo '{_FORWARDS}'"
    yield "while :; do sleep 3600; done"


def _name(ends: Ends) -> str:
    return f"guest-{ends[0].name}"


def _telemetry(places: OvsPlaces, ends: Ends) -> str:
    return f"{places.directory}/dpdk/{_name(ends)}/dpdk_telemetry.v2"


def settings(scenario: Scenario, places: OvsPlaces) -> dict[str, str]:
    """Whether the processor of machines in the path is emulated; nothing without one."""
    if not any(map(_is_machine, spec(scenario).guests)):
        return {}
    return {PROCESSOR: EMULATED if _KERNEL.is_emulated(places.machine) else REAL}


class GuestPorts(Ports):
    """Frames in and out of both ports of a container."""

    def __init__(self, scenario: Scenario, places: OvsPlaces, ends: Ends) -> None:
        self.name = f"guest between {ends[0].name} and {ends[1].name}"
        names, cpu = [port.name for port in ends], _cpu(scenario, places, ends)
        super().__init__(places.host, _telemetry(places, ends), names, [cpu])


def collectors(scenario: Scenario, places: OvsPlaces) -> list[GuestPorts]:
    """Of every container; what a machine drops itself is not counted anywhere."""
    return [GuestPorts(scenario, places, ends) for ends in spec(scenario).guests if not _is_machine(ends)]


def await_links(scenario: Scenario, places: OvsPlaces) -> None:
    """Return once every guest forwards, with the switch at both of its ends. Raises DutError."""
    for ends in spec(scenario).guests:
        daemon, is_machine = _daemon(scenario, places, ends), _is_machine(ends)

        def forwards(ends: Ends = ends, log: str = daemon.log, is_machine: bool = is_machine) -> bool:
            return _FORWARDS in text_at(places.host, log) if is_machine else _is_linked(places, ends)

        lacking = f"{_name(ends)} does not forward"
        await_start(daemon, places.host, forwards, lacking, _BOOT_S if is_machine else START_TIMEOUT_S)


def _is_linked(places: OvsPlaces, ends: Ends) -> bool:
    path = _telemetry(places, ends)
    return all(ask(places.host, path, f"/ethdev/link_status,{number}")["status"] == "UP" for number in (0, 1))

"""Guests in the path: a forwarder between two vhost-user ports of the switch, as a network function in a container has.

wire -> switch -> guest -> switch -> wire is what ovs_perf, vsperf and FD.io CSIT call PVP; with two guests, PVVP. The
forwarder is DPDK's testpmd over virtio-user, the server of both sockets as a virtual machine would be: the switch
connects to it, also after a restart.
"""

from collections.abc import Iterator

from pinchpoint.bench.requirements import Probe
from pinchpoint.bench.resource import Daemon
from pinchpoint.dut.attach import pages_of
from pinchpoint.dut.device import programs
from pinchpoint.dut.ovs.places import OvsPlaces
from pinchpoint.dut.ovs.spec import GUEST_MB, OvsPort, spec
from pinchpoint.dut.program import await_start, detached
from pinchpoint.dut.testpmd import BUFFERS_PER_MB, PROGRAM, STATS_PERIOD_S, Ports, ask
from pinchpoint.host.interface import Host
from pinchpoint.model.scenario import Scenario

Ends = tuple[OvsPort, OvsPort]
COUNTERS = "testpmd/port/"
"""How the counters of a guest's ports begin."""


def spare_cpu(scenario: Scenario, host: Host) -> int:
    """For what forwards beside the PMD threads: the lowest CPU that neither engine nor switch has, else their last."""
    free = host.cpus() - {*scenario.engine.cpus, *spec(scenario).pmd_cpus}
    return min(free) if free else spec(scenario).pmd_cpus[-1]


def needs(scenario: Scenario, host: Host) -> Iterator[Probe]:
    """The forwarder, and what detaches it."""
    if spec(scenario).guests:
        yield from programs(host, {PROGRAM: "dpdk-dev", "start-stop-daemon": "dpkg"})


def pages(scenario: Scenario) -> int:
    """2 MiB pages of all guests."""
    return len(spec(scenario).guests) * pages_of(GUEST_MB)


def daemons(scenario: Scenario, places: OvsPlaces) -> list[Daemon]:
    """A forwarder for each guest. They come after the switch's ports, which connect to them."""
    return [_daemon(scenario, places, ends) for ends in spec(scenario).guests]


def _daemon(scenario: Scenario, places: OvsPlaces, ends: Ends) -> Daemon:
    control, own = scenario.engine.cpus[0], ends[0].forward_cpu
    cpu = spare_cpu(scenario, places.machine) if own is None else own
    name, ring = _name(ends), min(port.ring for port in ends)  # no driver takes more than its ring has
    words = [PROGRAM, "-l", f"{control},{cpu}", "--main-lcore", str(control), "--no-pci", "--in-memory"]
    # A ring's other end maps few files (vhost-user has eight regions at most); the prefix tells telemetries apart.
    words += ["--single-file-segments", "-m", str(GUEST_MB), f"--file-prefix={name}"]
    for number, port in enumerate(ends):
        socket = f"path={places.vhost_socket(port.name)},server=1,queues=1,queue_size={port.ring}"
        words.append(f"--vdev=net_virtio_user{number},{socket}")
    words += ["--", "--forward-mode=io", "--nb-cores=1", f"--rxd={ring}", f"--txd={ring}"]
    words += [f"--total-num-mbufs={BUFFERS_PER_MB * GUEST_MB}"]
    words += ["--disable-link-check", f"--stats-period={STATS_PERIOD_S}"]
    folder = (("RUNTIME_DIRECTORY", str(places.directory)),)
    log = f"{places.directory}/{name}.log"
    return detached(places, name, log, words, cpus=(control,), environment=folder)


def _name(ends: Ends) -> str:
    return f"guest-{ends[0].name}"


def _telemetry(places: OvsPlaces, ends: Ends) -> str:
    return f"{places.directory}/dpdk/{_name(ends)}/dpdk_telemetry.v2"


class GuestPorts(Ports):
    """Frames in and out of both ports of a guest."""

    def __init__(self, scenario: Scenario, places: OvsPlaces, ends: Ends) -> None:
        self.name = f"guest between {ends[0].name} and {ends[1].name}"
        names, own = [port.name for port in ends], ends[0].forward_cpu
        cpu = spare_cpu(scenario, places.machine) if own is None else own
        super().__init__(places.host, _telemetry(places, ends), names, [cpu])


def collectors(scenario: Scenario, places: OvsPlaces) -> list[GuestPorts]:
    """Of every guest."""
    return [GuestPorts(scenario, places, ends) for ends in spec(scenario).guests]


def await_links(scenario: Scenario, places: OvsPlaces) -> None:
    """Return once the switch is at both ends of every guest. Raises DutError."""
    for ends, daemon in zip(spec(scenario).guests, daemons(scenario, places), strict=True):
        path = _telemetry(places, ends)

        def is_up(path: str = path) -> bool:
            asked = (ask(places.host, path, f"/ethdev/link_status,{number}") for number in (0, 1))
            return all(link["status"] == "UP" for link in asked)

        await_start(daemon, places.host, is_up, f"{_name(ends)} is not connected to the switch")

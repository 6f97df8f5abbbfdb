"""A balancer in XDP between two veth ports: the kernel runs a small program for each frame that comes to the clients'
port, before its stack sees the frame.

`pinchpoint-engine balance-xdp` loads the program and holds it there. A segment to the virtual server gets the Ethernet
address of the backend to which a table of Maglev's hash leads, and leaves by the servers' port; backends answer the
client themselves. It has no state: no table can be full, and a flush has nothing to forget. The kernel answers those
who ask for the service's address. Sources: Eisenbud et al., Maglev, NSDI 2016; bpf-helpers(7), ip-link(8).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from pinchpoint.bench.actions import ask_relay
from pinchpoint.bench.requirements import Probe
from pinchpoint.bench.resource import AnyResource, Relay
from pinchpoint.dut import addresses, attach, checks, softirq
from pinchpoint.dut.device import Bench, Keys, Pages, RawScenario, Types, programs
from pinchpoint.dut.services import Services, served
from pinchpoint.host.interface import Host
from pinchpoint.keys.reader import Values
from pinchpoint.model.hops import Place
from pinchpoint.model.limits import Limit, Resource
from pinchpoint.model.scenario import DIRECT_MAC, Guest, Mode, Scenario, Scheduler
from pinchpoint.observe.relay import parse_account
from pinchpoint.observe.snapshot import Collector, Snapshot

PROCESS: Final = "xdp"
COMMAND: Final = "balance-xdp"
OWN_MAC: Final = "02:00:00:00:0a:01"  # from which frames leave to the backends


@dataclass(frozen=True)
class XdpDut(softirq.KernelDut):
    """A program at a port, and the CPUs on which the kernel runs it."""

    cpus: tuple[int, ...]
    kind: str = "xdp"


class Account(msgspec.Struct, frozen=True, tag=COMMAND):
    """What the engine prints of the program."""

    balanced: int  # segments that were sent to a backend


class Balanced(Collector):
    """What the program counts."""

    name = "xdp"

    def __init__(self, host: Host, process: Relay, port: str) -> None:
        """`port`: at which it is."""
        self._host, self._process, self._port = host, process, port

    def read(self, at_s: float) -> Snapshot:
        """`xdp/port/NAME/balanced`: segments of the service that came to the port and were sent to a backend."""
        told = parse_account(ask_relay(self._process, self._host), Account, "XDP balancer")
        return Snapshot(at_s, {f"xdp/port/{self._port}/balanced": told.balanced})


class Stateless:
    """A balancer that remembers no connection."""

    def limits(self) -> tuple[Limit, ...]:
        """The backlog of its CPUs alone."""
        return (Limit(Resource.SOFTIRQ, None, None, "netdev_max_backlog", refused=("host/link/*/rx_dropped",)),)

    def flush(self) -> None:
        """There is nothing to forget."""

    def tracked(self) -> int:
        """No connection."""
        return 0


class XdpLive(softirq.KernelLive):
    """A program that is attached."""

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        self._process = process(bench, ())

    def own(self) -> list[Collector]:
        """The program's counter."""
        return [Balanced(self.places.machine, self._process, served(self._scenario).client_port)]

    def balancer(self) -> Stateless:
        """It, without any state."""
        return Stateless()


def process(bench: Bench, engine: Sequence[str]) -> Relay:
    """What loads the program and counts."""
    service, places = served(bench.scenario), bench.places
    ends = ("--from", service.client_port, "--to", service.server_port, "--netns", places.dut_netns)
    macs = [word for number in range(len(service.backends)) for word in ("--backend", DIRECT_MAC.format(number))]
    argv = (*engine, COMMAND, *ends, "--service", service.end, "--own", OWN_MAC, *macs)
    pairs = [(service.client_port, service.server_port)]
    return attach.engine_process(places, PROCESS, argv, pairs, bench.scenario.dut.cpus[0], awaited=True)


class XdpBench(softirq.KernelBench):
    """One bench of a balancer in XDP, planned."""

    live_type = XdpLive

    def resources(self, pages: Pages, engine: Sequence[str]) -> list[AnyResource]:
        """Ports, the service's address, the program."""
        return [
            *softirq.ports(self.scenario, self.places, pages),
            *addresses.ip_batch(self.places, "addresses.ip", addresses.batch(served(self.scenario))),
            process(self, engine),
        ]


class XdpDevice(softirq.KernelDevice):
    """The kind `xdp`: a program of the engine's at a port, with direct return."""

    bench_type = XdpBench
    forwards = Place("XDP program", ("xdp/port/{port}/balanced",), softirq.SENT_OR_DROPPED)
    settles = (*softirq.SETTLES, "xdp/")

    def check(self, raw: RawScenario) -> None:
        """Two ports and a service."""
        super().check(raw)
        checks.two_ports(raw)
        if raw.measure and not raw.tables.get("service"):
            problem = f'expected a measure that opens connections where dut.kind is "{self.kind}": it only balances'
            raw.problem(("measure",), problem)

    def why_no_guest(self, dut: Values) -> str:
        """The engine, which loads it, runs on this machine."""
        return "the engine loads its program into this machine's kernel"

    def needs(self, scenario: Scenario, host: Host) -> Iterator[Probe]:
        """Its programs, and receive packet steering."""
        return self.probes(host)

    def probes(self, host: Host, guest: Guest | None = None) -> Iterator[Probe]:
        """The same for every scenario."""
        yield from programs(host, {"ip": "iproute2", "taskset": "util-linux"})
        yield softirq.steering(host)


_KEYS = Keys(dut=(softirq.CPUS,), services=Services((Scheduler.HASH,), (Mode.DIRECT,)))
DEVICE = XdpDevice("xdp", "a balancer in XDP: Maglev's hash, direct return", Types(XdpDut), _KEYS)

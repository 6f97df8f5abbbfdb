"""The reference device as a kind: its process, its hop graph."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pinchpoint.bench.relay import relay_memory_mb
from pinchpoint.bench.requirements import Probe, command, hugepages
from pinchpoint.bench.resource import AnyResource, Relay
from pinchpoint.dut import checks
from pinchpoint.dut.attach import by_dpdk, foundation, pages_of
from pinchpoint.dut.device import (
    Attachment,
    Defaults,
    Freezing,
    Pages,
    PlainBench,
    PlainLive,
    RawScenario,
    Read,
    Seen,
    Types,
)
from pinchpoint.dut.places import Places
from pinchpoint.dut.reference import balanced, balancing
from pinchpoint.dut.reference.account import Ports
from pinchpoint.dut.reference.spec import KEYS, ReferenceDut, spec
from pinchpoint.dut.services import Balancer
from pinchpoint.dut.starter import Starter
from pinchpoint.host.interface import Host
from pinchpoint.keys.source import Source
from pinchpoint.model.causes import Experiment, Sign
from pinchpoint.model.hops import DropCounter, DropKind, HopGraph, Party, Place, Refused
from pinchpoint.model.scenario import Port, Scenario
from pinchpoint.model.trial import ThreadLoad
from pinchpoint.observe.snapshot import Collector

PROCESS = "reference"
_PORT = "reference/port/{port}/"
LARGEST_RING = 4096  # of a counter-experiment: more would be a rate of its own in a trial of a tenth of a second


class ReferenceLive(PlainLive):
    """A reference device that stands."""

    words = "a reference device"

    def __init__(self, ports: Ports) -> None:
        self.ports = ports

    def collectors(self) -> list[Collector]:
        return [self.ports]

    def ready(self) -> Mapping[str, str]:
        """Whether it says that it offloads."""
        return {"reference offloaded": "yes" if self.ports.account().offloaded else "no"}


class BalancingLive(PlainLive):
    """A reference balancer that stands."""

    words = "a reference balancer"

    def __init__(self, ports: balanced.BalancedPorts, balancer: Balancer) -> None:
        self._ports, self._balancer = ports, balancer

    def collectors(self) -> list[Collector]:
        return [self._ports]

    def balancer(self) -> Balancer:
        return self._balancer


@dataclass(frozen=True)
class ReferenceBench(PlainBench):
    """A reference device, planned."""

    def resources(self, pages: Pages, engine: Sequence[str]) -> list[AnyResource]:
        """What every bench has, its hugepages and the process."""
        return [*foundation(self.places, pages, _pages(self.scenario)), self._process(engine)]

    def attachment(self, number: int, port: Port) -> Attachment:
        """The far end of its vhost-user port. Raises InputError."""
        return replace(by_dpdk(self.scenario, self.places, number, port), ring_behind=spec(self.scenario).ring)

    def facts(self) -> Mapping[str, str]:
        """What is true of it, as its options."""
        return {"reference": " ".join(self._options())}

    def open(self) -> ReferenceLive | BalancingLive:
        """It answers once the engine has opened its ports."""
        host, process = self.places.host, self._process(())
        left, right = self._names()
        if self.scenario.service is None:
            return ReferenceLive(Ports(host, process, (left, right)))
        ports = balanced.BalancedPorts(host, process, (left, right))
        return BalancingLive(ports, balancing.ReferenceBalancer(ports, host, process))

    def _options(self) -> tuple[str, ...]:
        dut, service = spec(self.scenario), self.scenario.service
        return tuple(balancing.options(dut, service) if service else dut.options())

    def _names(self) -> list[str]:
        """Its ports; of a balancer, that of the clients first."""
        service = self.scenario.service
        return [service.client_port, service.server_port] if service else [port.name for port in self.scenario.ports]

    def _process(self, engine: Sequence[str]) -> Relay:
        places, dut, names = self.places, spec(self.scenario), self._names()
        command = "balance" if self.scenario.service else "forward"
        ring = str(max(port.ring for port in self.scenario.ports))
        ports = [
            f"dpdk:net_vhost{number},iface={places.vhost_socket(name)},queues=1,client=1"
            for number, name in enumerate(names)
        ]
        eal = f"--no-pci --in-memory --single-file-segments -m {relay_memory_mb(len(ports))}"
        options = ("--core", str(dut.cpus[0]), "--idle", "spin", "--json", "--eal", eal)
        rings = ("--rx-ring", ring, "--tx-ring", ring, "--link-timeout", f"{Relay.LINK_TIMEOUT_S:g}s")
        return Relay(
            name=PROCESS,
            argv=(*engine, command, *ports, *options, *rings, *self._options()),
            directions=((names[0], names[1]), (names[1], names[0])),
            pidfile=places.pidfile(PROCESS),
            account=f"{places.directory}/{PROCESS}.account",
            log=f"{places.directory}/{PROCESS}.log",
            bench_id=places.bench_id,
            cpu=dut.cpus[0],
            awaited=False,  # its links come up when the engine opens its own ends
        )


def _pages(scenario: Scenario) -> int:
    return pages_of(scenario.engine.memory_mb + relay_memory_mb(len(scenario.ports)))


@dataclass(frozen=True)
class ReferenceDevice(Defaults):
    """The kind `reference`: the engine as a device whose faults and counters are exactly what the scenario plants."""

    def read(self, raw: RawScenario, source: Source) -> Callable[[], Read]:
        """A forwarder or a balancer between two ports."""
        why, dut = 'dut.kind is "reference"', raw.dut
        checks.own_cpus(raw, source, "cpus", polls=True)
        checks.no_nics(raw, source, why)
        checks.no_hosts(raw, source, "reference")
        checks.names(raw, source)
        checks.two_ports(raw, source)
        checks.one_queue(raw, source, why)
        if len(dut.get("cpus", ())) > 1:
            source.mismatch(("dut", "cpus"), "one CPU", list(dut["cpus"]))
        every_ms, pause_ms = dut.get("pause_every_ms"), dut.get("pause_ms", 0.0)
        if dut.get("offload_rate_fps") is not None and not dut.get("offload"):
            source.mismatch(("dut", "offload"), '"all" or "two-way" with dut.offload_rate_fps', "")
        if (every_ms or 0.0) <= pause_ms and (every_ms is not None or pause_ms):
            source.mismatch(("dut", "pause_ms"), "less than dut.pause_every_ms", pause_ms)
        balancing.check(raw, source)
        return lambda: Read(ReferenceDut(**dut), tuple(Port(**port.values) for port in raw.ports))

    def needs(self, scenario: Scenario, host: Host) -> Iterator[Probe]:
        """Hugepages, and taskset to pin the process."""
        yield command(host, "taskset", "util-linux")
        yield hugepages(host, _pages(scenario), "set engine.memory_mb to less")

    def starters(self) -> Iterator[Starter]:
        """At a rate that every machine forwards."""
        yield Starter(
            rank=50,
            kind=self.kind,
            words="the engine's reference device",
            why="a forwarder of known truth, to see whether the lab finds what is true",
            title="Reference device, 500 kpps",
            dut='kind = "reference"\nrate_fps = 500_000\nring = 1024\ncpus = {cpus}',
            polls=True,
            backend="dpdk",
            ring=1024,
        )

    def pages(self, scenario: Scenario) -> int:
        """Those of device and engine."""
        return _pages(scenario)

    def moved(self, scenario: Scenario, cpus: tuple[int, ...]) -> Scenario:
        """The scenario with its process on another CPU."""
        return replace(scenario, dut=replace(spec(scenario), cpus=cpus))

    def bench(self, scenario: Scenario, places: Places) -> ReferenceBench:
        return ReferenceBench(scenario, places)

    def freezing(self, scenario: Scenario) -> Freezing:
        """By stopping its one process."""
        return Freezing(PROCESS)

    def graph(self, scenario: Scenario) -> HopGraph:
        """Receives, queues, looks up, sends; each place has its own drop counters."""
        if scenario.service is not None:
            return balanced.graph()

        def drop(counter: str, reason: str, party: Party, kind: DropKind = DropKind.OTHER) -> DropCounter:
            return DropCounter(_PORT + counter, reason, party, kind)

        came, accepted, queued, forwarded, sent = (
            (_PORT + counter,) for counter in ("received", "accepted", "queued", "forwarded", "sent")
        )
        lost = drop("rx", "lost behind the ring of {port}", Party.DUT)
        too_long = drop("too_long", "too long for the port opposite {port}", Party.RULES, DropKind.MTU)
        ring = drop("ring", "ring of the device behind {port} full", Party.DUT, DropKind.RECEIVE_RING)
        table = drop("table", "lost in the table behind {port}", Party.DUT)
        rules = drop("rules", "dropped by a rule behind {port}", Party.RULES, DropKind.RULE)
        unsent = drop("tx", "lost before {port}", Party.DUT)
        full = drop("full", "transmit ring of {port} full", Party.ENGINE, DropKind.TRANSMIT_RING)
        return HopGraph(
            Refused("receive ring of {port} full", Party.DUT),
            (
                Place("device receives", came, accepted, (lost, too_long)),
                Place("device ring", accepted, queued, (ring,)),
                Place("device table", queued, forwarded, (table, rules)),
                Place("device sends", forwarded, sent, (unsent, full)),
            ),
            ("reference/port/",),
        )

    def loads(self, seen: Seen, traffic_s: float) -> tuple[ThreadLoad, ...]:
        """Its one thread, which counts no cycles."""
        received = [int(frames) for name, frames in seen.items() if name.endswith("/received")]
        return (ThreadLoad("reference device", None, sum(received)),) if received else ()

    def signs(self, seen: Seen) -> Mapping[Sign, float]:
        """What it claims of its offload, and what software handled of the frames that its ring could hold."""
        counts = [
            (name.rpartition("/")[2], frames) for name, frames in seen.items() if name.startswith("reference/port/")
        ]
        software, handled = (
            sum(n for name, n in counts if name == counter) for counter in ("software_frames", "queued")
        )
        shares = {Sign.SOFTWARE: software / handled} if handled else {}
        return shares | ({Sign.CLAIMED: seen["reference/offloaded"]} if "reference/offloaded" in seen else {})

    def experiments(self, scenario: Scenario) -> Mapping[Experiment, Scenario]:
        """Nothing planted but its rate; a ring that bridges its pauses."""
        dut = spec(scenario)
        plain = replace(
            dut, drop="", new_flow_us=0.0, rx_loss=0.0, table_loss=0.0, tx_loss=0.0, pause_every_ms=None, pause_ms=0.0
        )
        duts = {Experiment.PLAIN: plain, Experiment.LARGE_RING: replace(dut, ring=max(dut.ring, LARGEST_RING))}
        return {kind: replace(scenario, dut=changed) for kind, changed in duts.items() if changed != dut}


DEVICE = ReferenceDevice("reference", "a forwarder or a balancer of known truth", Types(ReferenceDut), KEYS)

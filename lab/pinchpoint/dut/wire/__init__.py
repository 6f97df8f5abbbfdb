"""No device at all: the engine's ports are joined to each other, so that its own ceiling is measured like any rate.

veth        the two ends of one pair are the two ports
vhost-user  the engine serves the sockets as always; `pinchpoint-engine relay` connects to both, as a switch would,
            and copies what comes. It may be slower than the switch
NICs        need a cable between the engine's own ports, which nobody has plugged in

Where `pinchpoint-engine inspect` watches the wire, another generator can take the ports
(`run/external_generator.py`).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from pinchpoint.bench.actions import ask_relay
from pinchpoint.bench.relay import plain_frames, relay_memory_mb
from pinchpoint.bench.requirements import Probe, command, hugepages
from pinchpoint.bench.resource import AnyResource, Namespace, Relay, Veth
from pinchpoint.dut import checks
from pinchpoint.dut.attach import by_dpdk, by_veth, foundation, mtu, pages_of
from pinchpoint.dut.device import Attachment, Defaults, Keys, Pages, PlainBench, PlainLive, RawScenario, Read, Types
from pinchpoint.dut.places import Places
from pinchpoint.dut.starter import Starter
from pinchpoint.engine.process import find_engine
from pinchpoint.host.interface import Host
from pinchpoint.keys import kinds
from pinchpoint.keys.key import Key
from pinchpoint.keys.source import Source
from pinchpoint.model.errors import RequirementError
from pinchpoint.model.hops import DropCounter, DropKind, HopGraph, Party, Place, Refused
from pinchpoint.model.scenario import Port, Scenario
from pinchpoint.observe.printed import Links
from pinchpoint.observe.relay import Inspected, Relays, parse_account
from pinchpoint.observe.snapshot import Collector

RELAY, INSPECTOR = "relay", "inspector"
INSPECTED_RING = 32_768  # frames: what comes while the inspector's core is away
# One frame in so many is parsed where DPDK sends them. 29 divides no 2^n - 1 below 2^28: no power-of-two cycle escapes.
INSPECTED_OF_MANY = "29"
_WITHOUT = "--no-ceiling leaves the comparison with the ceiling out"
VHOST_USER, VETH = "vhost-user", "veth"
_RELAYED, _CARRIED = "host/relay/*/*/received", "host/relay/*/*/sent"


@dataclass(frozen=True)
class WireDut:
    """No device: the ports joined to one another by veth pairs or by a relay."""

    io: str  # VHOST_USER or VETH
    cpus: tuple[int, ...]  # of the relay; idle over veth
    inspects: bool = False  # what the ports send is watched, on `cpus`
    kind: str = "wire"

    @property
    def polls(self) -> bool:
        """Whether a relay polls the ports."""
        return self.io == VHOST_USER


def without_device(scenario: Scenario, over_dpdk: bool) -> Scenario:
    """The scenario with its ports joined where the device would be; `over_dpdk`: the engine drives them by DPDK.

    Raises RequirementError where they cannot be joined.
    """
    joined(scenario)
    wire = WireDut(VHOST_USER if over_dpdk else VETH, scenario.dut.cpus)
    return replace(scenario, dut=wire, hosts=(), guest=None)


def dut_of(scenario: Scenario) -> WireDut:
    """The scenario's device, which is of this kind."""
    assert isinstance(scenario.dut, WireDut)
    return scenario.dut


def inspected(scenario: Scenario) -> Scenario:
    """A wire whose ports are watched, for another generator than the engine."""
    return replace(scenario, dut=replace(dut_of(scenario), inspects=True))


def joined(scenario: Scenario) -> tuple[tuple[str, str], ...]:
    """The pairs of ports that the streams join. Raises RequirementError where there are none."""
    cannot = "the generator's ceiling cannot be measured"
    if any(port.engine_pci for port in scenario.ports):
        raise RequirementError(
            f"{cannot}: a NIC needs a cable back to the engine",
            "join the engine's two NICs and measure with `pinchpoint-engine send`; or --no-ceiling",
        )
    partner: dict[str, str] = {}
    for stream in scenario.streams:
        if stream.tx_port == stream.rx_port:
            raise RequirementError(f"{cannot}: a stream of port {stream.tx_port} returns to that port", _WITHOUT)
        for end, other in ((stream.tx_port, stream.rx_port), (stream.rx_port, stream.tx_port)):
            if partner.setdefault(end, other) != other:
                raise RequirementError(
                    f"{cannot}: port {end} has streams with two others, {partner[end]} and {other}, and without a "
                    "switch their frames cannot be separated",
                    _WITHOUT,
                )
    if scenario.dut.polls and any(port.queues > 1 for port in scenario.ports):
        raise RequirementError(f"{cannot}: a relay supports one queue per port", _WITHOUT)
    return tuple((port, other) for port, other in partner.items() if port <= other)


class WireLive(PlainLive):
    """Joined ports that stand."""

    words = "a wire"

    def __init__(self, scenario: Scenario, places: Places, relay: Relay | None) -> None:
        self._scenario, self._places, self._relay = scenario, places, relay

    def collectors(self) -> list[Collector]:
        """The relay's counters, or those of the links."""
        if self._relay is not None:
            return [Relays(self._places.host, [self._relay])]
        return [
            Links(
                self._places.machine, self._places.engine_netns, "engine", [port.name for port in self._scenario.ports]
            )
        ]

    def inspected(self) -> Inspected:
        """What an inspector has seen so far. Raises DutError."""
        assert self._relay is not None
        return parse_account(ask_relay(self._relay, self._places.host), Inspected, "inspector")


@dataclass(frozen=True)
class WireBench(PlainBench):
    """One bench of joined ports, planned."""

    def resources(self, pages: Pages, engine: Sequence[str]) -> list[AnyResource]:
        """A veth pair or a relay for each pair of ports, or what inspects them. Raises RequirementError."""
        pairs = joined(self.scenario)
        base = foundation(self.places, pages, _pages(self.scenario))
        if self.scenario.dut.polls:
            return [*base, self._relay(pairs, engine)]
        queues = {port.name: port.queues for port in self.scenario.ports}
        netns, size = self.places.engine_netns, mtu(self.scenario)
        veths = [Veth(first, netns, second, netns, size, max(queues[first], queues[second])) for first, second in pairs]
        if not dut_of(self.scenario).inspects:
            return [*base, Namespace(netns), *veths]
        plain = [plain_frames(name, netns) for pair in pairs for name in pair]
        return [*base, Namespace(netns), *veths, *plain, self._inspector(pairs, engine)]

    def _inspector(self, pairs: Sequence[tuple[str, str]], engine: Sequence[str]) -> Relay:
        """Beside the links: each end of a pair receives what the other sends."""
        names = [name for pair in pairs for name in pair]
        ports = [f"af_packet:{name}@{self.places.engine_netns}" for name in names]
        ring = str(INSPECTED_RING)
        options = ("--core", str(self.scenario.dut.cpus[0]), "--rx-ring", ring, "--json")
        argv = (*(engine or [find_engine(self.places.machine)]), "inspect", *ports, *options)
        return self._process(INSPECTOR, argv, pairs, awaited=True)

    def _process(self, name: str, argv: tuple[str, ...], pairs: Sequence[tuple[str, str]], awaited: bool) -> Relay:
        places = self.places
        return Relay(
            name=name,
            argv=argv,
            directions=tuple(way for first, second in pairs for way in ((first, second), (second, first))),
            pidfile=places.pidfile(name),
            account=f"{places.directory}/{name}.account",
            log=f"{places.directory}/{name}.log",
            bench_id=places.bench_id,
            cpu=self.scenario.dut.cpus[0],
            awaited=awaited,
        )

    def _relay(self, pairs: Sequence[tuple[str, str]], engine: Sequence[str]) -> Relay:
        places, dut = self.places, dut_of(self.scenario)
        ring = str(max(port.ring for port in self.scenario.ports))
        ports = [
            f"dpdk:net_vhost{number},iface={places.vhost_socket(name)},queues=1,client=1"
            for number, name in enumerate(name for pair in pairs for name in pair)
        ]
        eal = f"--no-pci --in-memory --single-file-segments -m {relay_memory_mb(len(ports))}"
        work = ("inspect", "--forward", "--every", INSPECTED_OF_MANY) if dut.inspects else ("relay", "--patience", "0s")
        options = ("--core", str(dut.cpus[0]), "--idle", "spin", "--json", "--eal", eal)
        rings = ("--rx-ring", ring, "--tx-ring", ring, "--link-timeout", f"{Relay.LINK_TIMEOUT_S:g}s")
        # Its links come up when the engine opens its own ends.
        return self._process(RELAY, (*engine, work[0], *ports, *work[1:], *options, *rings), pairs, awaited=False)

    def attachment(self, number: int, port: Port) -> Attachment:
        """The far end of the relay's vhost-user port, or an end of the pair. Raises InputError."""
        if self.scenario.dut.polls:
            return by_dpdk(self.scenario, self.places, number, port)
        return by_veth(self.scenario, self.places, port, "af_packet")

    def open(self) -> WireLive:
        """The relay or the inspector, if one stands; a veth pair needs none."""
        pairs, relay = joined(self.scenario), None
        if self.scenario.dut.polls:
            relay = self._relay(pairs, ())
        elif dut_of(self.scenario).inspects:
            relay = self._inspector(pairs, ())
        return WireLive(self.scenario, self.places, relay)


def _pages(scenario: Scenario) -> int:
    if not scenario.dut.polls:
        return 0
    return pages_of(scenario.engine.memory_mb + relay_memory_mb(len(scenario.ports)))


@dataclass(frozen=True)
class WireDevice(Defaults):
    """The kind `wire`: no device between the ports, for the ceiling of a generator."""

    def read(self, raw: RawScenario, source: Source) -> Callable[[], Read]:
        """Ports joined to one another, over veth or vhost-user."""
        checks.own_cpus(raw, source, "cpus", polls=raw.dut.get("io") == VHOST_USER)
        if raw.dut.get("io") == VETH:
            checks.no_vhost(raw, source, f'dut.io is "{VETH}"')
        else:
            checks.no_nics(raw, source, 'dut.kind is "wire"')
        checks.no_hosts(raw, source, "wire")
        checks.names(raw, source)
        if raw.dut.get("io") == VHOST_USER:
            checks.one_queue(raw, source, 'dut.io is "vhost-user"')
        return lambda: Read(WireDut(raw.dut["io"], raw.dut["cpus"]), tuple(Port(**port.values) for port in raw.ports))

    def starters(self) -> Iterator[Starter]:
        """A first scenario on a veth pair alone."""
        yield Starter(
            rank=60,
            kind=self.kind,
            words="no device, a veth pair",
            why="what the kernel's links carry before any device on them is accused",
            title="No device, veth",
            dut='kind = "wire"\nio = "veth"\ncpus = {cpus}',
            polls=False,
            backend="af_packet",
        )

    def needs(self, scenario: Scenario, host: Host) -> Iterator[Probe]:
        """ip, for a watched veth pair ethtool, for vhost-user hugepages."""
        yield command(host, "ip", "iproute2")
        if dut_of(scenario).inspects and not scenario.dut.polls:
            yield command(host, "ethtool", "ethtool")
        if pages := _pages(scenario):
            yield hugepages(host, pages, 'set dut.io = "veth"')

    def pages(self, scenario: Scenario) -> int:
        """Those of relay and engine."""
        return _pages(scenario)

    def moved(self, scenario: Scenario, cpus: tuple[int, ...]) -> Scenario:
        """The scenario with its relay on other CPUs."""
        return replace(scenario, dut=replace(dut_of(scenario), cpus=cpus))

    def bench(self, scenario: Scenario, places: Places) -> WireBench:
        return WireBench(scenario, places)

    def graph(self, scenario: Scenario) -> HopGraph:
        """The relay; over veth nothing counts beside the ports' own ends."""
        if not scenario.dut.polls:
            return HopGraph(Refused("socket of {port} took no more", Party.HOST, DropKind.KERNEL_QUEUE), ())
        relay = Place(
            "relay",
            (_RELAYED,),
            (_CARRIED,),
            (
                DropCounter(
                    "host/relay/*/*/dropped",
                    "the relay's receiving port took no more",
                    Party.ENGINE,
                    DropKind.TRANSMIT_RING,
                ),
                DropCounter("host/relay/*/*/too_long", "too long for the relay's port", Party.RULES, DropKind.MTU),
            ),
        )
        return HopGraph(Refused("receive ring of {port} full", Party.ENGINE), (relay,), ("host/relay/",))


_KEYS = Keys(
    dut=(
        Key(
            "io",
            kinds.word(VHOST_USER, VETH),
            f'"{VETH}": two ports are the ends of one veth pair; "{VHOST_USER}": a relay copies between their rings.',
            VETH,
        ),
        Key(
            "cpus", kinds.cpus(), "CPUs of the relay; over veth, of which the distance to the engine's is probed.", [1]
        ),
    ),
)
DEVICE = WireDevice("wire", "no device: the ports are joined", Types(WireDut), _KEYS)

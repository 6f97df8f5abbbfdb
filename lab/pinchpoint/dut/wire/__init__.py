"""No device at all: the engine's ports are joined to each other, so that its own ceiling is measured like any rate.

veth        the two ends of one pair are the two ports
vhost-user  the engine serves the sockets as always; `pinchpoint-engine relay` connects to both, as a switch would,
            and copies what comes. It may be slower than the switch
NICs        need a cable between the engine's own ports, which nobody has plugged in

Where `pinchpoint-engine inspect` watches the wire, another generator can take the ports
(`run/external_generator.py`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from pinchpoint.bench.actions import ask_relay
from pinchpoint.bench.requirements import Probe, hugepages
from pinchpoint.bench.resource import AnyResource, Namespace, Relay, Veth
from pinchpoint.dut import attach, checks, device
from pinchpoint.dut.device import Attachment, Keys, Pages, RawScenario, Starter, Types, dut_of, programs
from pinchpoint.engine.process import find_engine
from pinchpoint.host.interface import Host
from pinchpoint.keys import kinds
from pinchpoint.keys.key import Key
from pinchpoint.model.errors import RequirementError
from pinchpoint.model.hops import DropCounter, DropKind, HopGraph, Party, Place, Refused
from pinchpoint.model.scenario import Guest, Port, Scenario
from pinchpoint.observe.relay import Inspected, Relays, parse_account
from pinchpoint.observe.snapshot import Collector

RELAY, INSPECTOR = "relay", "inspector"
INSPECTED_RING = 32_768  # frames: what comes while the inspector's core is away
# One frame in so many is parsed where DPDK sends them. 29 divides no 2^n - 1 below 2^28: no power-of-two cycle escapes.
INSPECTED_OF_MANY = "29"
_WITHOUT = "--no-ceiling leaves the comparison with the ceiling out"
VHOST_USER, VETH = "vhost-user", "veth"


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
    return replace(scenario, dut=WireDut(VHOST_USER if over_dpdk else VETH, scenario.dut.cpus), hosts=(), guest=None)


def inspected(scenario: Scenario) -> Scenario:
    """A wire whose ports are watched, for another generator than the engine."""
    return replace(scenario, dut=replace(dut_of(scenario, WireDut), inspects=True))


def joined(scenario: Scenario) -> tuple[tuple[str, str], ...]:
    """The pairs of ports that the streams join. Raises RequirementError where there are none."""
    cannot = "the generator's ceiling cannot be measured"
    if any(scenario.link(port).far.nic for port in scenario.ports):
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


class WireLive(device.Live):
    """Joined ports that stand."""

    words = "a wire"

    def __init__(self, bench: device.Bench, relay: Relay | None) -> None:
        self._scenario, self._places, self._relay = bench.scenario, bench.places, relay

    def collectors(self) -> list[Collector]:
        """The relay's counters, or those of the links."""
        if self._relay is not None:
            return [Relays(self._places.host, [self._relay])]
        return [*attach.engine_links(self._scenario, self._places)]

    def inspected(self) -> Inspected:
        """What an inspector has seen so far. Raises DutError."""
        assert self._relay is not None
        return parse_account(ask_relay(self._relay, self._places.host), Inspected, "inspector")


class WireBench(device.Bench):
    """One bench of joined ports, planned."""

    def resources(self, pages: Pages, engine: Sequence[str]) -> list[AnyResource]:
        """A veth pair or a relay for each pair of ports, or what inspects them. Raises RequirementError."""
        pairs = joined(self.scenario)
        base = attach.foundation(self.places, pages, DEVICE.pages(self.scenario))
        if self.scenario.dut.polls:
            return [*base, self._process(pairs, engine)]
        queues = {port.name: port.queues for port in self.scenario.ports}
        netns, size = self.places.engine_netns, attach.mtu(self.scenario)
        veths = [Veth(first, netns, second, netns, size, max(queues[first], queues[second])) for first, second in pairs]
        if not dut_of(self.scenario, WireDut).inspects:
            return [*base, Namespace(netns), *veths]
        plain = [attach.plain_frames(name, netns) for pair in pairs for name in pair]
        return [*base, Namespace(netns), *veths, *plain, self._process(pairs, engine)]

    def _process(self, pairs: Sequence[tuple[str, str]], engine: Sequence[str]) -> Relay:
        """A relay between rings; or an inspector beside links, whose ends receive what the others send."""
        dut, names = dut_of(self.scenario, WireDut), [name for pair in pairs for name in pair]
        if dut.polls:
            rings, options = attach.at_vhost_sockets(self.scenario, self.places, names)
            watching, relaying = ("inspect", "--forward", "--every", INSPECTED_OF_MANY), ("relay", "--patience", "0s")
            word, *rest = watching if dut.inspects else relaying
            # Its links come up when the engine opens its own ends.
            argv = (*engine, word, *rings, *rest, *options)
            return attach.engine_process(self.places, RELAY, argv, pairs, dut.cpus[0], awaited=False)
        links = [f"af_packet:{name}@{self.places.engine_netns}" for name in names]
        options = ("--core", str(dut.cpus[0]), "--rx-ring", str(INSPECTED_RING), "--json")
        argv = (*(engine or [find_engine(self.places.machine)]), "inspect", *links, *options)
        return attach.engine_process(self.places, INSPECTOR, argv, pairs, dut.cpus[0], awaited=True)

    def attachment(self, number: int, port: Port) -> Attachment:
        """The far end of the relay's vhost-user port, or an end of the pair. Raises InputError."""
        if self.scenario.dut.polls:
            return attach.by_dpdk(self.scenario, self.places, number, port)
        return attach.by_veth(self.scenario, self.places, port, "af_packet")

    def open(self) -> WireLive:
        """The relay or the inspector, if one stands; a veth pair needs none."""
        pairs, has_process = joined(self.scenario), self.scenario.dut.polls or dut_of(self.scenario, WireDut).inspects
        return WireLive(self, self._process(pairs, ()) if has_process else None)


class WireDevice(device.Device):
    """The kind `wire`: no device between the ports, for the ceiling of a generator."""

    bench_type = WireBench

    def check(self, raw: RawScenario) -> None:
        """Ports joined to one another, over veth or vhost-user."""
        checks.own_cpus(raw, "cpus", polls=raw.dut.get("io") == VHOST_USER)
        if raw.dut.get("io") == VETH:
            checks.no_vhost(raw, f'dut.io is "{VETH}"')
        else:
            checks.no_nics(raw, 'dut.kind is "wire"')
        checks.no_hosts(raw, "wire")
        checks.names(raw)
        if raw.dut.get("io") == VHOST_USER:
            checks.one_queue(raw, 'dut.io is "vhost-user"')

    def needs(self, scenario: Scenario, host: Host) -> Iterator[Probe]:
        """ip, for a watched veth pair ethtool, for vhost-user hugepages."""
        watched = {"ethtool": "ethtool"} if dut_of(scenario, WireDut).inspects and not scenario.dut.polls else {}
        yield from programs(host, {"ip": "iproute2", **watched})
        if pages := self.pages(scenario):
            yield hugepages(host, pages, 'set dut.io = "veth"')

    def probes(self, host: Host, guest: Guest | None = None) -> Iterator[Probe]:
        """Of an unwatched veth pair."""
        return programs(host, {"ip": "iproute2"})

    def pages(self, scenario: Scenario) -> int:
        """Those of relay and engine."""
        return attach.vhost_pages(scenario) if scenario.dut.polls else 0

    def graph(self, scenario: Scenario) -> HopGraph:
        """The relay; over veth nothing counts beside the ports' own ends."""
        if not scenario.dut.polls:
            return HopGraph(attach.LINK_REFUSED, ())
        drops = (
            ("host/relay/*/*/dropped", "the relay's receiving port took no more", Party.ENGINE, DropKind.TRANSMIT_RING),
            ("host/relay/*/*/too_long", "too long for the relay's port", Party.RULES, DropKind.MTU),
        )
        received, sent = ("host/relay/*/*/received",), ("host/relay/*/*/sent",)
        relay = Place("relay", received, sent, tuple(DropCounter(*row) for row in drops))
        return HopGraph(Refused("receive ring of {port} full", Party.ENGINE), (relay,), ("host/relay/",))


_KEYS = Keys(
    dut=(
        Key("io", kinds.word(VHOST_USER, VETH),
            f'"{VETH}": two ports are the ends of one veth pair; "{VHOST_USER}": a relay copies between their rings.',
            VETH),
        Key("cpus", kinds.cpus(), "CPUs of the relay; over veth, of which the distance to the engine's is probed.",
            [1]),
    ),
)  # fmt: skip
_STARTER = Starter(rank=60, kind="wire", words="no device, a veth pair", title="No device, veth",
    why="what the kernel's links carry before any device on them is accused",
    dut='kind = "wire"\nio = "veth"\ncpus = {cpus}')  # fmt: skip
DEVICE = WireDevice("wire", "no device: the ports are joined", Types(WireDut), _KEYS, starters=(_STARTER,))

"""A forwarder whose truth is known: rate, ring, losses, pauses; its counters may lie (`pinchpoint-engine forward`).
With a [service] it is a balancer whose limits, time-outs and faults are known (`pinchpoint-engine balance`).

What the lab says of it can be compared with what is true, with real frames. A trial of T seconds loses nothing at up
to `dut.rate_fps` + `dut.ring` / T: what the ring holds when the sending ends is still forwarded.

`spec`  what a scenario says of it: its keys, and the engine's options

The running device prints an account of itself, whose counters may lie, and the truth.
"""

import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import ClassVar, Final, Generic, TypeVar

import msgspec

from pinchpoint.bench.actions import ask_relay, daemon_pid
from pinchpoint.bench.requirements import Probe, command, hugepages
from pinchpoint.bench.resource import AnyResource, Namespace, Relay
from pinchpoint.dut import attach, checks, device
from pinchpoint.dut.device import Attachment, Freezing, Pages, RawScenario, Seen, Types, dut_of, programs
from pinchpoint.dut.reference.spec import KEYS, VETH, ReferenceDut, balancing_options, check_balancing
from pinchpoint.dut.services import await_forgotten
from pinchpoint.host.interface import Host
from pinchpoint.model.causes import Experiment, Sign
from pinchpoint.model.errors import BenchError
from pinchpoint.model.hops import PORT, DropCounter, DropKind, HopGraph, Party, Place, Refused
from pinchpoint.model.limits import Limit, Resource
from pinchpoint.model.offload import OffloadLimit
from pinchpoint.model.scenario import Guest, Port, Scenario
from pinchpoint.model.trial import ThreadLoad
from pinchpoint.observe.relay import Gaps, parse_account
from pinchpoint.observe.snapshot import Collector, Snapshot

_TABLE_USED: Final = "reference/table/used"
_LOCAL_USED: Final = "reference/local/used"
_REFUSED: Final = "reference/port/*/"
_NEEDS_REPLY: Final = "reference/needs_reply"
_FLUSH_S: Final = 2.0
_PORT: Final = "reference/port/{port}/"
_STATES: Final = ("opening", "established", "closed")
Rows = Mapping[str, tuple[str, Party, DropKind]]
"""What a place drops: by the counter of a port, the reason, who is responsible, and what was short."""

_RING: Final = {"ring": ("ring of the device behind {port} full", Party.DUT, DropKind.RECEIVE_RING)}
_FULL: Final = {"full": ("transmit ring of {port} full", Party.ENGINE, DropKind.TRANSMIT_RING)}
_FORWARDS: Final[Mapping[str, Rows]] = {
    "device receives": {
        "rx": ("lost behind the ring of {port}", Party.DUT, DropKind.OTHER),
        "too_long": ("too long for the port opposite {port}", Party.RULES, DropKind.MTU),
    },
    "device ring": _RING,
    "device table": {
        "table": ("lost in the table behind {port}", Party.DUT, DropKind.OTHER),
        "rules": ("dropped by a rule behind {port}", Party.RULES, DropKind.RULE),
    },
    "device sends": {"tx": ("lost before {port}", Party.DUT, DropKind.OTHER), **_FULL},
}
_BALANCES: Final[Mapping[str, Rows]] = {
    "device ring": _RING,
    "device checks": {
        "malformed": ("a header does not fit behind {port}", Party.RULES, DropKind.MALFORMED),
        "checksum": ("wrong checksum of an IP header behind {port}", Party.RULES, DropKind.MALFORMED),
        "fragments": ("fragment behind {port}", Party.RULES, DropKind.MALFORMED),
        "hop_limit": ("time to live over behind {port}", Party.RULES, DropKind.MALFORMED),
        "other": ("not of the service, behind {port}", Party.RULES, DropKind.RULE),
        "too_long": ("too long for the port opposite {port}", Party.RULES, DropKind.MTU),
    },
    "device table": {
        "no_connection": ("of no connection, behind {port}", Party.DUT, DropKind.TRACKING),
        "table_full": ("no place in the table, behind {port}", Party.DUT, DropKind.TRACKING),
        "no_local_port": ("no local port, behind {port}", Party.DUT, DropKind.TRACKING),
        "planted": ("SYN dropped on purpose behind {port}", Party.DUT, DropKind.OTHER),
        "no_next_hop": ("nobody told where the backend is, behind {port}", Party.HOST, DropKind.OTHER),
    },
    "device sends": _FULL,
}


class Direction(msgspec.Struct, frozen=True):
    """received = sent + consumed + waiting + drops, in frames, of the truth; what the device says may not add up."""

    received: int
    sent: int
    waiting: int
    drops: dict[str, int | tuple[int, ...]]  # by place; those of rules one by one
    consumed: int = 0  # of a balancer: ARP that was for it
    new_flows: int = 0  # of a forwarder
    software_frames: int = 0  # of a forwarder


class Account(msgspec.Struct, frozen=True):
    """Since it started. The first direction is from the first port, of a balancer that of the clients."""

    WORDS: ClassVar[str]
    PLACES: ClassVar[Mapping[str, Rows]]  # in a row, each with what it drops
    COUNTERS: ClassVar[tuple[str, ...]]  # of frames before each place, and behind the last one

    elapsed_s: float
    busy_share: float  # in turns that moved frames
    directions: tuple[Direction, Direction]  # as the device says
    gaps: Gaps  # turns of its loop that took longer than 20 us

    @classmethod
    def graph(cls) -> HopGraph:
        """Its places, each between two counters, with its own drop counters."""
        steps = zip(cls.PLACES.items(), pairwise(cls.COUNTERS), strict=True)
        places = (Place(name, (_PORT + came,), (_PORT + left,), _drops(rows)) for (name, rows), (came, left) in steps)
        return HopGraph(Refused("receive ring of {port} full", Party.DUT), tuple(places), ("reference/port/",))

    def counters(self, names: tuple[str, str]) -> dict[str, int]:
        """`reference/port/NAME/COUNTER`, frames: what came at the port it came from, what left at the other.

        Those behind a place are as many as came, without what it dropped; before the last one, as many as it sent and
        dropped.
        """
        counters = dict[str, int]()
        *inner, last = self.PLACES.values()
        *passed, forwarded, sent = self.COUNTERS
        for direction, source, target in zip(self.directions, names, reversed(names), strict=True):
            drops = {name: n if isinstance(n, int) else sum(n) for name, n in direction.drops.items()}
            frames, came, left = direction.received - direction.consumed, _at(source), _at(target)
            for counter, rows in zip(passed, inner, strict=True):
                dropped = {name: drops.get(name, 0) for name in rows}
                counters |= {came + counter: frames, **{came + name: n for name, n in dropped.items()}}
                frames -= sum(dropped.values())
            unsent = {name: drops.get(name, 0) for name in last}
            counters |= {left + name: n for name, n in unsent.items()}
            counters |= {left + forwarded: direction.sent + sum(unsent.values()), left + sent: direction.sent}
        return counters


def _drops(rows: Rows) -> tuple[DropCounter, ...]:
    return tuple(DropCounter(_PORT + name, *row) for name, row in rows.items())


def _at(port: str) -> str:
    return _PORT.replace(PORT, port)


class Forwarder(Account, frozen=True, tag="forward"):
    """Of a forwarder."""

    WORDS: ClassVar[str] = "reference device"
    PLACES: ClassVar[Mapping[str, Rows]] = _FORWARDS
    COUNTERS: ClassVar[tuple[str, ...]] = ("received", "accepted", "queued", "forwarded", "sent")

    offloaded: bool  # as the device says
    truth: tuple[Direction, Direction]

    def more(self, names: tuple[str, str]) -> tuple[dict[str, int], dict[str, float]]:
        """Counters `reference/port/NAME/{new_flows,software_frames}`; gauge `reference/offloaded`."""
        counters = {
            f"{_at(name)}{field}": getattr(direction, field)
            for name, direction in zip(names, self.directions, strict=True)
            for field in ("new_flows", "software_frames")
        }
        return counters, {"reference/offloaded": float(self.offloaded)}


class Space(msgspec.Struct, frozen=True):
    """Of which every connection occupies a place."""

    size: int
    used: int


class Balancer(Account, frozen=True, tag="balance"):
    """Of a balancer."""

    WORDS: ClassVar[str] = "reference balancer"
    PLACES: ClassVar[Mapping[str, Rows]] = _BALANCES
    COUNTERS: ClassVar[tuple[str, ...]] = ("received", "queued", "checked", "forwarded", "sent")

    connections: dict[str, int]
    table: Space
    local_ends: Space | None  # of all backends together; None without full-NAT
    dealt: tuple[int, ...]  # connections, by backend
    closed_timeout_s: float

    def more(self, names: tuple[str, str]) -> tuple[dict[str, int], dict[str, float]]:
        """Counters `reference/connections/NAME`, `reference/dealt/BACKEND`; gauges of places in use."""
        counts = {f"reference/connections/{name}": n for name, n in self.connections.items() if name not in _STATES}
        dealt = {f"reference/dealt/{number}": count for number, count in enumerate(self.dealt)}
        local = {_LOCAL_USED: float(self.local_ends.used)} if self.local_ends else {}
        return counts | dealt, {_TABLE_USED: float(self.table.used), **local}


Told = TypeVar("Told", Forwarder, Balancer)


def parse(line: str, kind: type[Told]) -> Told:
    """A line of the account file. Raises DutError."""
    return parse_account(line, kind, kind.WORDS)


class Ports(Collector, Generic[Told]):
    """What the device says of its ports, and a balancer of its connections."""

    def __init__(
        self, host: Host, relay: Relay, names: tuple[str, str], kind: type[Told], needs_reply: bool = False
    ) -> None:
        """`needs_reply`: its offload takes a flow only once its reply was seen."""
        self._host, self._relay, self._names, self._needs_reply = host, relay, names, needs_reply
        self._kind: type[Told] = kind
        self.name = kind.WORDS

    def account(self) -> Told:
        """The account so far. Raises DutError."""
        return parse(ask_relay(self._relay, self._host), self._kind)

    def read(self, at_s: float) -> Snapshot:
        """See `counters` and `more` of its account.

        `reference/busy_ns`: time in turns that moved frames; `reference/gaps_ns`: in turns that took longer than 20 us.
        Gauge `reference/needs_reply`: 1, of an offload that needs a reply.
        """
        told = self.account()
        more, gauges = told.more(self._names)
        gauges |= {_NEEDS_REPLY: 1.0} if self._needs_reply else {}
        spent = {
            "reference/busy_ns": round(told.busy_share * told.elapsed_s * 1e9),
            "reference/gaps_ns": round(told.gaps.total_s * 1e9),
        }
        return Snapshot(at_s, {**told.counters(self._names), **more, **spent}, gauges)


class ReferenceLive(device.Live):
    """A reference device that stands, as a forwarder."""

    words = "a reference device"

    def __init__(self, ports: Ports[Forwarder]) -> None:
        self.ports = ports

    def collectors(self) -> list[Collector]:
        return [self.ports]

    def ready(self) -> Mapping[str, str]:
        """Whether it says that it offloads."""
        return {"reference offloaded": "yes" if self.ports.account().offloaded else "no"}


class BalancingLive(device.Live):
    """A reference balancer that stands; it answers once the engine has opened its ports."""

    words = "a reference balancer"

    def __init__(self, ports: Ports[Balancer], host: Host, relay: Relay) -> None:
        self.ports, self._host, self._relay = ports, host, relay

    def collectors(self) -> list[Collector]:
        return [self.ports]

    def limits(self) -> tuple[Limit, ...]:
        """Its table and its local addresses and ports, as its account has them. Raises DutError."""
        told = self.ports.account()
        held_s = told.closed_timeout_s
        settings = "max_connections, closed_s"
        table = Limit(Resource.TABLE, told.table.size, held_s, settings, _TABLE_USED, (f"{_REFUSED}table_full",))
        worker = Limit(Resource.WORKER, None, None, "rate_fps, new_connection_us", refused=(f"{_REFUSED}ring",))
        if told.local_ends is None:
            return (table, worker)
        source, no_port = "local, local_ports, for each backend; closed_s", (f"{_REFUSED}no_local_port",)
        return table, worker, Limit(Resource.LOCAL_PORTS, told.local_ends.size, held_s, source, _LOCAL_USED, no_port)

    def flush(self) -> None:
        """Have it forget all connections, and wait until it has. Raises BenchError."""
        self._host.signal([daemon_pid(self._relay, self._host)], signal.SIGUSR2)
        if left := await_forgotten(self.tracked, _FLUSH_S, 0.002):
            raise BenchError(f"the reference balancer still remembers {left:,} connections after a flush")

    def tracked(self) -> int:
        """Places of its table that are occupied."""
        return self.ports.account().table.used


PROCESS = "reference"
LARGEST_RING = 4096  # of a counter-experiment: more would be a rate of its own in a trial of a tenth of a second


class ReferenceBench(device.Bench):
    """A reference device, planned."""

    def resources(self, pages: Pages, engine: Sequence[str]) -> list[AnyResource]:
        """What every bench has, its hugepages or its links, and the process."""
        base = attach.foundation(self.places, pages, DEVICE.pages(self.scenario))
        if self.scenario.dut.io == VETH:
            base += [Namespace(self.places.dut_netns), *attach.veths(self.scenario, self.places)]
        return [*base, self._process(engine)]

    def attachment(self, number: int, port: Port) -> Attachment:
        """The far end of its vhost-user port or of its veth pair. Raises InputError."""
        if self.scenario.dut.io == VETH:
            end = attach.by_veth(self.scenario, self.places, port, "af_packet")
        else:
            end = attach.by_dpdk(self.scenario, self.places, number, port)
        return replace(end, ring_behind=dut_of(self.scenario, ReferenceDut).ring)

    def facts(self) -> Mapping[str, str]:
        """What is true of it, as its options."""
        return {"reference": " ".join(self._options())}

    def open(self) -> ReferenceLive | BalancingLive:
        """It answers once the engine has opened its ports."""
        host, process = self.places.host, self._process(())
        if self.scenario.service is None:
            needs_reply = dut_of(self.scenario, ReferenceDut).offload == "two-way"
            return ReferenceLive(Ports(host, process, self._names(), Forwarder, needs_reply))
        return BalancingLive(Ports(host, process, self._names(), Balancer), host, process)

    def _options(self) -> tuple[str, ...]:
        dut, service = dut_of(self.scenario, ReferenceDut), self.scenario.service
        return tuple(balancing_options(dut, service) if service else dut.options())

    def _names(self) -> tuple[str, str]:
        """Its ports; of a balancer, that of the clients first."""
        service, (left, right) = self.scenario.service, self.scenario.ports
        return (service.client_port, service.server_port) if service else (left.name, right.name)

    def _process(self, engine: Sequence[str]) -> Relay:
        names, word = self._names(), "balance" if self.scenario.service else "forward"
        is_linked = self.scenario.dut.io == VETH
        ends = attach.at_veths if is_linked else attach.at_vhost_sockets
        ports, options = ends(self.scenario, self.places, names)
        argv = (*engine, word, *ports, *options, *self._options())
        cpu = self.scenario.dut.cpus[0]
        # Links of vhost-user come up when the engine opens its own ends.
        return attach.engine_process(self.places, PROCESS, argv, [names], cpu, awaited=is_linked)


_PAGES: Final = attach.pages_of(device.ENGINE_MEMORY_MB + attach.relay_memory_mb(2))


class ReferenceDevice(device.Device):
    """The kind `reference`: the engine as a device whose faults and counters are exactly what the scenario plants."""

    bench_type = ReferenceBench
    backend = "dpdk"

    def check(self, raw: RawScenario) -> None:
        """A forwarder or a balancer between two ports."""
        dut = raw.dut
        checks.between_ports(
            raw, self.kind, polls=True, ringless=f'dut.io is "{VETH}"' if dut.get("io") == VETH else ""
        )
        if len(dut.get("cpus", ())) > 1:
            raw.mismatch(("dut", "cpus"), "one CPU", list(dut["cpus"]))
        every_ms, pause_ms = dut.get("pause_every_ms"), dut.get("pause_ms", 0.0)
        if dut.get("offload_rate_fps") is not None and not dut.get("offload"):
            raw.mismatch(("dut", "offload"), '"all" or "two-way" with dut.offload_rate_fps', "")
        if (every_ms or 0.0) <= pause_ms and (every_ms is not None or pause_ms):
            raw.mismatch(("dut", "pause_ms"), "less than dut.pause_every_ms", pause_ms)
        check_balancing(raw)

    def needs(self, scenario: Scenario, host: Host) -> Iterator[Probe]:
        """Hugepages or ip, and taskset to pin the process."""
        if scenario.dut.io == VETH:
            return programs(host, {"taskset": "util-linux", "ip": "iproute2"})
        return self.probes(host, None, attach.vhost_pages(scenario))

    def probes(self, host: Host, guest: Guest | None = None, pages: int = _PAGES) -> Iterator[Probe]:
        """What a device of default sizes needs."""
        yield command(host, "taskset", "util-linux")
        yield hugepages(host, pages, "set engine.memory_mb to less")

    def pages(self, scenario: Scenario) -> int:
        """Those of device and engine."""
        return 0 if scenario.dut.io == VETH else attach.vhost_pages(scenario)

    def freezing(self, scenario: Scenario) -> Freezing:
        """By stopping its one process."""
        return Freezing(PROCESS)

    def graph(self, scenario: Scenario) -> HopGraph:
        """Receives, queues, looks up, sends; each place has its own drop counters."""
        graph = (Forwarder if scenario.service is None else Balancer).graph()
        return replace(graph, refused=attach.LINK_REFUSED) if scenario.dut.io == VETH else graph

    def loads(self, seen: Seen, traffic_s: float) -> tuple[ThreadLoad, ...]:
        """Its one thread, which counts no cycles."""
        received = [int(frames) for name, frames in seen.items() if name.endswith("/received")]
        return (ThreadLoad("reference device", None, sum(received)),) if received else ()

    def signs(self, seen: Seen) -> Mapping[Sign, float]:
        """What it claims of its offload, and what software handled of the frames that its ring could hold."""
        counts = [(name.rpartition("/")[2], n) for name, n in seen.items() if name.startswith("reference/port/")]
        software, handled = (sum(n for key, n in counts if key == word) for word in ("software_frames", "queued"))
        shares = {Sign.SOFTWARE: software / handled} if handled else {}
        return shares | ({Sign.CLAIMED: seen["reference/offloaded"]} if "reference/offloaded" in seen else {})

    def offload_limits(self, seen: Seen) -> Mapping[OffloadLimit, float]:
        """Of an offload that needs a reply, all that software handled."""
        software = self.signs(seen).get(Sign.SOFTWARE)
        return {OffloadLimit.ONE_WAY: software} if software and _NEEDS_REPLY in seen else {}

    def experiments(self, scenario: Scenario) -> Mapping[Experiment, Scenario]:
        """Nothing planted but its rate; a ring that bridges its pauses."""
        dut = dut_of(scenario, ReferenceDut)
        plain = replace(
            dut, drop="", new_flow_us=0.0, rx_loss=0.0, table_loss=0.0, tx_loss=0.0, pause_every_ms=None, pause_ms=0.0
        )
        duts = {Experiment.PLAIN: plain, Experiment.LARGE_RING: replace(dut, ring=max(dut.ring, LARGEST_RING))}
        return {kind: replace(scenario, dut=changed) for kind, changed in duts.items() if changed != dut}


# At a rate that every machine forwards.
_STARTER = device.Starter(rank=50, kind="reference", words="the engine's reference device",
    title="Reference device, 500 kpps", why="a forwarder of known truth, to check what the lab finds",
    dut='kind = "reference"\nrate_fps = 500_000\nring = 1024\ncpus = {cpus}',
    polls=True, ring=1024)  # fmt: skip
_TITLE = "a forwarder or a balancer of known truth"
DEVICE = ReferenceDevice("reference", _TITLE, Types(ReferenceDut), KEYS, starters=(_STARTER,))

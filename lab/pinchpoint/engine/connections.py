"""Connections over frames: what the engine is asked for, its account and its samples (protocol/README.md)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from pinchpoint.engine.streams import Message, Part, Status
from pinchpoint.model.errors import EngineError
from pinchpoint.model.scenario import DIRECT_MAC, Closer, Established, Range, Segment, Service, Stream, Transport

SPARE_S = 30.0  # for links that come up, and a host that is busy
RING = 4096  # frames, of ports that are no rings of a device
SAMPLED_S = 0.1
LEAST_BYTES, MOST_BYTES = 64, 1440  # of a request and an answer: what they say, one segment of either family
MOST_ANSWER = 1 << 20  # bytes, in segments of `MOST_BYTES`, which are sent again where they are lost
MOST_ASKED = 61_438  # bytes of all requests of a connection: its sequence numbers tell it from others
ASKED_S = 2.0  # until a kernel asks once more where a backend is that was not there before (arp(7), retrans_time)
CHECKS = 3  # of each backend by the balancer, before the first connection is due
_DATAGRAMS = "udp"  # the kind of work that is one request and its answer
# How a connection may fail: fields of its client's account.
_FAILURES = ("refused", "reset", "timed_out_connecting", "timed_out_answering", "timed_out_closing", "unfinished")


@dataclass(frozen=True)
class Load:
    """Connections to open: how many, at which rate, and what each of them does."""

    connections: int
    rate_cps: float
    requests: int
    timeout_s: float
    work: str = "request"  # a kind, or several with weights: `request:98,reset:2`
    hold_s: float = 0.0  # for which each is held open,
    hold_before: int = 0  # before this request, counted from 0
    ramp_s: float = 0.0  # from 0 to the rate
    client_ports: Range | None = None  # None: the engine's own, from the first on
    one_isn: bool = False  # one initial sequence number for all (docs/engine.md)
    in_order: bool = False  # whether the account lists which backend each reached,
    is_sampled: bool = False  # and what was counted every `SAMPLED_S`
    request_bytes: int = LEAST_BYTES
    answer_bytes: int = LEAST_BYTES

    def divided(self, cores: Sequence[int], service: Service) -> Sequence[int]:
        """The cores that open them: each has ports, or addresses, of the client.

        Those that are held, or listed in order, have one: which source ports backends see twice, how many are open at
        once and which came first is not known of several (docs/engine.md).
        """
        ports = self.client_ports or service.client_ports
        return cores[:1] if self.hold_s or self.in_order else cores[: max(ports.count, service.clients.count)]

    @property
    def opening_s(self) -> float:
        """How long they are being opened: a ramp opens half as many as its time at the rate would."""
        return self.connections / self.rate_cps + self.ramp_s / 2

    @property
    def lasting_s(self) -> float:
        """Seconds from the first connection's time to the last one's end, at most."""
        return self.opening_s + self.hold_s + self.timeout_s


class Tuples:
    """Client ports for loads in turn, so that no tuple comes again before all have been used."""

    def __init__(self, clients: int, ports: Range) -> None:
        """`clients` addresses, each with these ports."""
        self._clients, self._ports, self._next = clients, ports, 0

    def take(self, connections: int) -> Range:
        """Ports of every client that give as many tuples, not used by the loads before as far as there are some.

        All of them where even these are too few.
        """
        wanted = min(-(-connections // self._clients), self._ports.count)
        if self._next + wanted > self._ports.count:
            self._next = 0
        ports = Range(self._ports.first + self._next, wanted)
        self._next += wanted
        return ports


class Kept(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of what the engine says of a load, which runs store: a key that a run stored before has its default."""


class Times(Kept, frozen=True):
    """Since a connection was due, nanoseconds."""

    count: int
    p50: int
    p99: int
    max: int
    min: int = 0
    mean: float = 0.0
    p90: int = 0
    p999: int = 0


class Source(Kept, frozen=True):
    """An address that backends saw."""

    address: str
    count: int


class Sources(Kept, frozen=True):
    """Connections by the address that the backend saw; `others` came from addresses that are not listed."""

    listed: tuple[Source, ...]
    others: int
    unlisted: int = 0  # addresses that are not listed, as far as they were counted one by one


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """What is counted of connections while they are opened, and in the end."""

    opened: int
    shortfall: int
    answered: int
    refused: int
    reset: int
    timed_out_connecting: int
    timed_out_answering: int
    timed_out_closing: int
    wrong_backend: int
    backends: tuple[int, ...]  # that answered, up to the last that did


class Client(Counts, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What became of the connections: opened = completed + refused + reset + timed out + unfinished."""

    established: int
    stamped: int = 0  # of these, whose SYN's answer had a time stamp
    completed: int
    unfinished: int
    wrong_payload: int
    toa_right: int
    toa_wrong: int
    duplicated: int
    foreign: int
    local: Sources
    connect_ns: Times | None
    answer_ns: Times | None
    close_ns: Times | None
    first_byte_ns: Times | None = None  # of the first answer, where it is several segments
    delivered_bytes: int = 0  # of answers, in order and once
    goodput_bps: float | None = None  # from when the first connection was due until the last byte
    most_open: int = 0  # at the same time
    unsent: int = 0  # segments of connections under way that the port did not take
    retransmitted: int = 0  # segments
    early: int = 0  # segments that came before what they answer
    stale: int = 0  # of an earlier connection of the tuple
    late: int = 0  # of a connection that had ended
    reused: int | None = None  # whose backend saw the address and port of another open one; None: not looked at
    order: tuple[int | None, ...] | None = None  # backend by opening; None: no right first answer

    @property
    def failures(self) -> dict[str, int]:
        """How connections failed, by words; those that did."""
        return {name.replace("_", " "): count for name in _FAILURES if (count := getattr(self, name))}


class Others(Kept, frozen=True):
    """Frames at one port that were no segments."""

    port: str
    fragments: int
    wrong_checksums: int
    malformed: int
    segments: int = 0  # of TCP, with right headers and checksums
    answered: int = 0  # questions where an address is
    other: int = 0


class Gaps(Kept, frozen=True):
    """Times in which the engine's loop stood still against its will."""

    count: int = 0
    total_s: float = 0.0
    longest_s: float = 0.0
    threshold_s: float = 0.0  # from which a pause is one; 0: a run stored before it was kept


class Core(Kept, frozen=True):
    """How the loop of one of the engine's cores ran."""

    core: int
    busy_share: float
    gaps: Gaps
    idle: str = ""  # what it does when nothing has arrived
    elapsed_s: float = 0.0
    away_share: float = 0.0  # of the time, given away because nothing came
    longest_away_s: float = 0.0
    turns: int = 0


class PortCounts(Kept, frozen=True):
    """What one port counted."""

    name: str
    rx_missed: int | None = None  # frames that its receive ring had no place for; None: it does not say
    stats: dict[str, int] = msgspec.field(default_factory=dict)
    mode: str = ""  # who drives it
    down_s: float = 0.0  # for which it had no link
    failure: str | None = None  # why it had none last

    @property
    def not_taken(self) -> int:
        """How often it did not take all that was to be sent: what is behind it was full."""
        return self.stats.get("tx_no_buffers", 0) + self.stats.get("tx_ring_full", 0)


class Backend(Kept, frozen=True):
    """What reached one backend."""

    syns: int
    requests: int
    retransmitted: int = 0  # segments of answers
    stamped: int = 0  # SYNs with a time stamp
    fins: int = 0
    closed: int = 0
    resets: int = 0
    toa: int = 0  # requests with a TOA option
    down: int = 0  # segments that came while it was down


class Server(Kept, frozen=True):
    """All backends, in the service's order."""

    backends: tuple[Backend, ...]
    elsewhere: int = 0  # segments for no backend
    unacknowledged: int = 0  # of no connection
    wrong_payload: int = 0
    unsent: int = 0  # answers that the port did not take
    sources: Sources = Sources((), 0)  # SYNs by the address that they came from


class Sample(Counts, frozen=True, kw_only=True):
    """Counts since the first connection was due, as of `elapsed_s`; by backend where there are several."""

    elapsed_s: float
    completed: int = 0
    kept: tuple[int, ...] = ()  # answered by the backend that the tuple's connection before had, by that backend
    left: tuple[int, ...] = ()  # and by another one


class Handed(Kept, frozen=True):
    """Segments that arrived at another core of the engine than that of their connection."""

    segments: int
    lost: int  # for want of room between the two


class Account(msgspec.Struct, frozen=True):
    """What became of all connections of a load, and how the engine ran meanwhile."""

    elapsed_s: float
    client: Client | None
    others: tuple[Others, ...]
    busy_share: float = 0.0  # of the time, in turns that moved frames
    gaps: Gaps = Gaps()
    ports: tuple[PortCounts, ...] = ()
    returned: int | None = None  # segments that backends gave to the client past the device; None: it is on their way
    next_hop: str | None = None  # the Ethernet address to which the client's frames went
    server: Server | None = None
    handed: Handed | None = None  # None: one core opened all connections
    samples: tuple[Sample, ...] = ()  # of a load that is sampled
    cores: tuple[Core, ...] = ()  # of the engine; none in a run stored before they were kept

    @property
    def missed(self) -> int:
        """Frames that reached the engine and that it had no room for."""
        return sum(port.rx_missed or 0 for port in self.ports) + (self.handed.lost if self.handed else 0)

    @property
    def retransmitted(self) -> int:
        """Segments of answers that backends sent again."""
        return sum(backend.retransmitted for backend in self.server.backends) if self.server else 0

    @property
    def answered(self) -> tuple[int, ...]:
        """Connections by the backend that answered, of each backend; the client lists them up to the last one used."""
        used = self.client.backends if self.client else ()
        return (*used, *[0] * (len(self.server.backends) - len(used))) if self.server else used

    def of_client(self, address: str = "the service's address") -> Client:
        """The client's account. Raises EngineError where it never began."""
        if self.client is None:
            raise EngineError(f"nobody answered for {address}: the engine found no way to the service")
        return self.client


class Retry(Part, frozen=True):
    """When a segment without an answer is sent again."""

    after_s: float
    times: int


class Outage(Part, frozen=True):
    """A time at which a backend does not answer, since the first connection was due."""

    backend: int
    from_s: float
    until_s: float | None  # None: to the end
    resets: bool  # it answers by resets; otherwise not at all


RETRY = Retry(0.5, 100)  # of a SYN that is not answered, until the connection has timed out


class ConnectionsRequest(Message, frozen=True, tag="connections"):
    """One load of connections: the client behind the first of the ports, the backends behind the second."""

    trial: str
    ports: tuple[str, ...]
    to: str  # address and port of the service, or ranges
    clients: str
    client_ports: str
    backends: tuple[str, ...]
    rate_cps: int
    count: int
    timeout_s: float
    work: str
    requests: int
    request_bytes: int
    answer_bytes: int
    next_hop: str | None  # Ethernet or IP address to which frames go; None: that of the service
    ramp_s: float
    lead_s: float  # for which backends answer before the first connection is due
    hold_s: float
    hold_before: int
    close: Literal["client", "backend"]
    retry: Retry | None
    late: bool  # whether connections are opened that are late
    sequence: tuple[int, int] | None  # first numbers of the client and of the backends
    seed: int
    one_isn: bool
    sample_interval_s: float | None
    by_tuple: bool  # whether samples count who stays with the backend that its tuple had before
    order: bool
    direct_return: bool
    timestamps: bool
    mac: str | None  # None: that of the port
    server_mac: str | None
    down: tuple[Outage, ...]

    def __post_init__(self) -> None:
        """Raises ValueError for NaN and infinity: JSON has neither."""
        for name in ("timeout_s", "ramp_s", "lead_s", "hold_s", "sample_interval_s"):
            value = getattr(self, name)
            if value is not None and not math.isfinite(value):
                raise ValueError(f"{name}: expected a finite number, got {value}")


class ConnectionsSample(Message, frozen=True, tag="connections_sample"):
    """Counts of the load that runs; not an account."""

    trial: str
    elapsed_s: float
    opened: int
    shortfall: int
    established: int
    answered: int
    completed: int
    refused: int
    reset: int
    timed_out_connecting: int
    timed_out_answering: int
    timed_out_closing: int
    wrong_backend: int
    backends: tuple[int, ...]
    kept: tuple[int, ...]
    left: tuple[int, ...]
    down: tuple[int, ...]

    def counts(self) -> Sample:
        """As they are kept."""
        return msgspec.convert(self, Sample, from_attributes=True)


_SHARED = sorted(set(Account.__struct_fields__) - {"samples", "cores"})


class ConnectionsResult(Message, frozen=True, tag="connections_result"):
    """The engine's account of one load."""

    trial: str
    status: Status
    reason: str | None
    core: int
    idle: str
    elapsed_s: float
    busy_share: float
    away_share: float
    longest_away_s: float
    turns: int
    gaps: Gaps
    ports: tuple[PortCounts, ...]
    client: Client | None
    next_hop: str | None
    server: Server | None
    others: tuple[Others, ...]
    returned: int | None
    handed: Handed | None
    cores: tuple[Core, ...] | UnsetType = UNSET  # where there are several

    def account(self, samples: Sequence[Sample] = ()) -> Account:
        """As it is kept, with these samples."""
        kept = Account(**{name: getattr(self, name) for name in _SHARED})
        own = self.cores or (msgspec.convert(self, Core, from_attributes=True),)
        return msgspec.structs.replace(kept, samples=tuple(samples), cores=own)


def request(trial: str, ports: tuple[str, str], service: Service, load: Load) -> ConnectionsRequest:
    """What the engine is asked for; `ports`: the client's, and that of the backends."""
    client_ports = load.client_ports or service.client_ports
    return ConnectionsRequest(
        trial=trial,
        ports=ports,
        to=service.end,
        clients=service.clients.as_addresses(),
        client_ports=_ports(client_ports),
        backends=tuple(backend.end for backend in service.backends),
        next_hop=None,
        retry=None,
        late=False,
        sequence=None,
        seed=1,
        by_tuple=False,
        mac=None,
        down=(),
        rate_cps=max(1, round(load.rate_cps)),
        count=load.connections,
        timeout_s=load.timeout_s,
        work=_DATAGRAMS if service.transport is Transport.UDP else load.work,
        requests=load.requests,
        request_bytes=load.request_bytes,
        answer_bytes=load.answer_bytes,
        ramp_s=load.ramp_s,
        lead_s=0.0 if service.health_s is None else ASKED_S + CHECKS * service.health_s,
        hold_s=load.hold_s,
        hold_before=load.hold_before,
        close="backend" if service.closes is Closer.BACKEND else "client",
        one_isn=load.one_isn,
        sample_interval_s=SAMPLED_S if load.is_sampled else None,
        order=load.in_order,
        direct_return=service.is_direct,
        timestamps=service.timestamps,
        server_mac=DIRECT_MAC.format(0) if service.is_direct else None,
    )


def _ports(ports: Range) -> str:
    return f"{ports.first}-{ports.last}"


def left(wanted: Established, client_ports: Range | None = None) -> Load:
    """Connections that are opened and then left alone."""
    return Load(wanted.connections, wanted.rate_cps, 1, wanted.timeout_s, work="abandon", client_ports=client_ports)


def leaving(asked: ConnectionsRequest, wanted: Established, stream: Stream) -> ConnectionsRequest:
    """The same, of connections on which `stream`, of TCP, can be sent afterwards.

    Connection number n has the n-th five-tuple of the stream, and its sequence numbers end where the stream's are.
    """
    segment = stream.segment or Segment(1, 1)
    return msgspec.structs.replace(
        asked,
        client_ports=_ports(stream.udp_src) if stream.udp_src else asked.client_ports,
        late=True,
        retry=RETRY,
        sequence=(segment.seq - 1, segment.ack - 1),
        mac=stream.eth_src,
        server_mac=wanted.server_mac,
    )


def watched(asked: ConnectionsRequest, outages: Sequence[Outage], *, by_tuple: bool) -> ConnectionsRequest:
    """The same, of connections that are watched; `by_tuple`: where tuples come again."""
    return msgspec.structs.replace(asked, sample_interval_s=SAMPLED_S, by_tuple=by_tuple, down=tuple(outages))

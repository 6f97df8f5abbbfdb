"""Connections over frames: the engine's command `connect`, its account and its samples (docs/engine.md)."""

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import msgspec

from pinchpoint.host.interface import CommandFailed, Environment, Host
from pinchpoint.host.processes import end_processes
from pinchpoint.model.errors import EngineError
from pinchpoint.model.scenario import DIRECT_MAC, Closer, Established, Range, Segment, Service, Stream, Transport

SPARE_S = 30.0  # for the start of the engine, its links, and a host that is busy
RING = 4096
RETRY = "500ms:100"  # of a SYN that is not answered, until the connection has timed out
LINK_S = 20.0  # a switch looks for a vhost server about once a second
SAMPLED_S = 0.1
LEAST_BYTES, MOST_BYTES = 64, 1440  # of a request and an answer: what they say, one segment of either family
MOST_ANSWER = 1 << 20  # bytes, in segments of `MOST_BYTES`, which are sent again where they are lost
MOST_ASKED = 61_438  # bytes of all requests of a connection: its sequence numbers tell it from others
ASKED_S = 2.0  # until a kernel asks once more where a backend is that was not there before (arp(7), retrans_time)
CHECKS = 3  # of each backend by the balancer, before the first connection is due
_GRACE_S = 2.0  # between SIGTERM, at which the engine prints its account, and SIGKILL
_SAMPLE = b'{"type":"sample"'
_DATAGRAMS = "udp"  # the kind of work that is one request and its answer
# How a connection may fail: fields of its client's account.
_FAILURES = ("refused", "reset", "timed_out_connecting", "timed_out_answering", "timed_out_closing", "unfinished")


@dataclass(frozen=True)
class Dpdk:
    """How the engine opens ports of DPDK."""

    eal: Sequence[str]  # arguments of its environment layer
    ring: int  # frames in a port's rings: a vhost-user port takes no more than it has


@dataclass(frozen=True)
class Load:
    """Connections to open: how many, at which rate, and what each of them does."""

    connections: int
    rate_cps: float
    requests: int
    timeout_s: float
    work: str = "request"  # as `connect --work` has it: a kind, or several with weights
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


class Times(msgspec.Struct, frozen=True):
    """Since a connection was due, nanoseconds."""

    count: int
    p50: int
    p99: int
    max: int


class Source(msgspec.Struct, frozen=True):
    """An address that backends saw."""

    address: str
    count: int


class Sources(msgspec.Struct, frozen=True):
    """Connections by the address that the backend saw; `others` came from addresses that are not listed."""

    listed: tuple[Source, ...]
    others: int


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


class Client(Counts, frozen=True, kw_only=True):
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
    reused: int | None = None  # whose backend saw the address and port of another open one; None: not looked at
    order: tuple[int | None, ...] | None = None  # backend by opening; None: no right first answer

    @property
    def failures(self) -> dict[str, int]:
        """How connections failed, by words; those that did."""
        return {name.replace("_", " "): count for name in _FAILURES if (count := getattr(self, name))}


class Others(msgspec.Struct, frozen=True):
    """Frames at one port that were no segments."""

    port: str
    fragments: int
    wrong_checksums: int
    malformed: int
    segments: int = 0  # of TCP, with right headers and checksums
    answered: int = 0  # questions where an address is


class Gaps(msgspec.Struct, frozen=True):
    """Times in which the engine's loop stood still against its will."""

    count: int = 0
    total_s: float = 0.0
    longest_s: float = 0.0


class PortCounts(msgspec.Struct, frozen=True):
    """What one port counted."""

    name: str
    rx_missed: int | None = None  # frames that its receive ring had no place for; None: it does not say
    stats: dict[str, int] = msgspec.field(default_factory=dict)

    @property
    def not_taken(self) -> int:
        """How often it did not take all that was to be sent: what is behind it was full."""
        return self.stats.get("tx_no_buffers", 0) + self.stats.get("tx_ring_full", 0)


class Backend(msgspec.Struct, frozen=True):
    """What reached one backend."""

    syns: int
    requests: int
    retransmitted: int = 0  # segments of answers
    stamped: int = 0  # SYNs with a time stamp


class Server(msgspec.Struct, frozen=True):
    """All backends, in the order of the command line."""

    backends: tuple[Backend, ...]


class Sample(Counts, frozen=True, kw_only=True):
    """Counts since the first connection was due, as of `elapsed_s`; by backend where there are several."""

    elapsed_s: float
    completed: int = 0
    kept: tuple[int, ...] = ()  # answered by the backend that the tuple's connection before had, by that backend
    left: tuple[int, ...] = ()  # and by another one


class Handed(msgspec.Struct, frozen=True):
    """Segments that arrived at another core of the engine than that of their connection."""

    segments: int
    lost: int  # for want of room between the two


class Account(msgspec.Struct, frozen=True):
    """The last line that the command prints."""

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


def command(
    engine: Sequence[str],
    cores: Sequence[int],
    ends: Sequence[str],
    service: Service,
    load: Load,
    dpdk: Dpdk | None = None,
) -> list[str]:
    """The command line: the client behind the first of the ports `ends`, the backends behind the second.

    `cores`: as many as the load can be divided among (`Load.divided`). `dpdk`: where the ports are DPDK's.
    """
    ring = str(dpdk.ring if dpdk else RING)
    backends = [word for backend in service.backends for word in ("--backend", backend.end)]
    ports = load.client_ports or service.client_ports
    return [
        *(*engine, "connect", *ends, "--to", service.end, "--clients", service.clients.as_addresses(), *backends),
        *(("--direct-return", "--server-mac", DIRECT_MAC.format(0)) if service.is_direct else ()),
        *("--rate", str(max(1, round(load.rate_cps))), "--count", str(load.connections)),
        *("--requests", str(load.requests), "--timeout", f"{load.timeout_s}s", "--json"),
        *("--cores", ",".join(map(str, load.divided(cores, service)))),
        *("--request-size", str(load.request_bytes), "--answer-size", str(load.answer_bytes)),
        *("--work", _DATAGRAMS if service.transport is Transport.UDP else load.work, "--ramp", f"{load.ramp_s}s"),
        *(("--close", service.closes) if service.closes is not Closer.CLIENT else ()),
        *(("--timestamps",) if service.timestamps else ()),
        *(("--lead", f"{ASKED_S + CHECKS * service.health_s:.1f}s") if service.health_s is not None else ()),
        *("--hold", f"{load.hold_s}s", "--hold-before", str(load.hold_before)),
        *("--client-ports", f"{ports.first}-{ports.last}", *(["--one-isn"] if load.one_isn else [])),
        *("--rx-ring", ring, "--tx-ring", ring, *(["--order"] if load.in_order else [])),
        *(("--sample", f"{SAMPLED_S}s") if load.is_sampled else ()),
        *(("--eal", " ".join(dpdk.eal), "--link-timeout", f"{LINK_S:g}s") if dpdk else ()),
    ]


def left(wanted: Established, client_ports: Range | None = None) -> Load:
    """Connections that are opened and then left alone."""
    return Load(wanted.connections, wanted.rate_cps, 1, wanted.timeout_s, work="abandon", client_ports=client_ports)


def standing(
    engine: Sequence[str],
    core: int,
    ends: Sequence[str],
    service: Service,
    established: Established,
    stream: Stream,
    dpdk: Dpdk | None = None,
) -> list[str]:
    """The command line that leaves connections behind on which `stream`, of TCP, can be sent.

    Connection number n has the n-th five-tuple of the stream, and its sequence numbers end where the stream's are.
    """
    segment, ports = stream.segment or Segment(1, 1), stream.udp_src or service.client_ports
    return [
        *command(engine, [core], ends, service, left(established, ports), dpdk),
        *("--late", "--retry", RETRY, "--sequence", f"{segment.seq - 1}:{segment.ack - 1}"),
        *("--mac", stream.eth_src, "--server-mac", established.server_mac),
    ]


def connect(host: Host, argv: Sequence[str], environment: Environment, load: Load) -> Account:
    """Open the connections and wait until each has ended. Raises EngineError."""
    try:
        said = host.run(argv, environment=environment, timeout_s=load.lasting_s + SPARE_S)
    except CommandFailed as error:
        raise EngineError(f"the engine opened no connections: {error.output}") from error
    account = parse(said)
    return msgspec.structs.replace(account, samples=tuple(_samples(said))) if load.is_sampled else account


def parse(said: str) -> Account:
    """The account in what the command printed. Raises EngineError."""
    last = said.strip().rpartition("\n")[2]
    try:
        return msgspec.json.decode(last, type=Account)
    except msgspec.MsgspecError as error:
        raise EngineError(f"the engine's account cannot be read: {error}: {last[:200]}") from error


def _samples(said: str) -> Iterator[Sample]:
    """Those in what the command printed. Raises EngineError."""
    return (_sample(line) for line in said.encode().splitlines() if line.startswith(_SAMPLE))


def _sample(line: bytes) -> Sample:
    try:
        return msgspec.json.decode(line, type=Sample)
    except msgspec.MsgspecError as error:
        raise EngineError(f"a sample of the engine cannot be read: {error}: {line[:200]!r}") from error


@dataclass(frozen=True)
class Outage:
    """A time at which a backend does not answer, since the first connection was due."""

    backend: int
    from_s: float
    until_s: float
    resets: bool  # it answers by resets; otherwise not at all

    @property
    def word(self) -> str:
        """As the engine's command line has it."""
        return f"{self.backend}@{self.from_s:.3f}s-{self.until_s:.3f}s" + (":reset" if self.resets else "")


def options(by_tuple: bool, outages: Sequence[Outage]) -> list[str]:
    """What follows the `command` of connections that are watched; `by_tuple`: where tuples come again."""
    down = [word for outage in outages for word in ("--backend-down", outage.word)]
    return ["--sample", f"{SAMPLED_S}s", *(["--by-tuple"] if by_tuple else []), *down]


class Watched:
    """An engine that opens connections. Its output goes to files of a folder that goes with the bench."""

    def __init__(self, host: Host, argv: Sequence[str], environment: Environment, path: str) -> None:
        self._host = host
        self._output, self._errors = f"{path}.jsonl", f"{path}.log"
        self._pid = host.spawn(argv, environment, self._output, self._errors)
        self._has_ended, self._read, self._rest = False, 0, b""
        self.samples: list[Sample] = []
        self.began: float | None = None  # when the first connection was due, on the monotonic clock

    def look(self) -> bool:
        """Take in what was printed; returns whether it still runs. Raises EngineError."""
        self._has_ended = self._has_ended or self._host.ended(self._pid)
        with suppress(FileNotFoundError):
            text = self._host.read_bytes(self._output, self._read)
            self._read += len(text)
            *lines, self._rest = (self._rest + text).split(b"\n")
            for line in lines:
                self._take(line)
        return not self._has_ended

    def _take(self, line: bytes) -> None:
        if not line.startswith(_SAMPLE):
            return
        sample = _sample(line)
        # A sample is read late, never early: the earliest start is the nearest to the truth.
        began = time.monotonic() - sample.elapsed_s
        self.began = began if self.began is None else min(began, self.began)
        self.samples.append(sample)

    def account(self) -> Account:
        """The whole account, once it has ended. Raises EngineError."""
        said = self._host.read(self._output)
        if not said.strip().startswith("ready"):
            raise EngineError(f"the engine opened no connections: {self._host.read(self._errors).strip()}")
        return parse(said)

    def end(self) -> None:
        """End it if it runs. Raises BenchError if it cannot be ended."""
        if not self._has_ended:
            end_processes(self._host, [self._pid], _GRACE_S)
            self._has_ended = self._host.ended(self._pid)

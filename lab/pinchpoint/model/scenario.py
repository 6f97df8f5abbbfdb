"""What the user asked for: one scenario with every default filled in."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Literal, Protocol, runtime_checkable

from pinchpoint.model import addresses
from pinchpoint.model.guest import Guest as Guest
from pinchpoint.model.guest import Holds
from pinchpoint.model.service import NAT as NAT
from pinchpoint.model.service import Backend as Backend
from pinchpoint.model.service import Closer as Closer
from pinchpoint.model.service import Family as Family
from pinchpoint.model.service import Mode as Mode
from pinchpoint.model.service import ProxyHeader as ProxyHeader
from pinchpoint.model.service import Scheduler as Scheduler
from pinchpoint.model.service import Transport as Transport
from pinchpoint.model.service import weights as weights
from pinchpoint.model.site import Link, LinkEnd, Site

MOST_PROBED: Final = 64
"""Pairs of cores that the engine probes around a trial at most (protocol/schema.json)."""


class NumaPlacement(StrEnum):
    """Where the two ends of the traffic run, by NUMA node."""

    ANY = "any"  # on the CPUs that the scenario names
    SAME = "same"  # both on one node
    DIFFERENT = "different"  # on two nodes


@dataclass(frozen=True)
class Range:
    """`count` consecutive values from `first`: addresses or ports as numbers (`pinchpoint.model.addresses`)."""

    first: int
    count: int

    @property
    def last(self) -> int:
        """The last value of the range."""
        return self.first + self.count - 1

    def as_addresses(self) -> str:
        """The range as `A` or `A-B`, of either family, e.g. `10.0.0.1-10.0.0.9`."""
        first, last = addresses.shown(self.first), addresses.shown(self.last)
        return first if self.count == 1 else f"{first}-{last}"


@runtime_checkable
class Dut(Protocol):
    """What a scenario says of its device. Every kind of device has a frozen dataclass of its own, in its folder."""

    @property
    def kind(self) -> str:
        """The value of `dut.kind`."""

    @property
    def cpus(self) -> tuple[int, ...]:
        """The CPUs on which it forwards; the distance of each to the engine's first is probed."""

    @property
    def polls(self) -> bool:
        """Whether threads of it poll its ports: nothing else may run on their CPUs."""

    @property
    def io(self) -> str:
        """How frames reach it, in one word of its scenario file."""


SPLIT, PACKED = "split", "packed"  # layouts of a virtqueue


@dataclass(frozen=True)
class Port:
    """One port of the DUT, with the engine at its other end."""

    name: str
    ring: int  # descriptors of each ring between engine and DUT
    queues: int  # receive queues of the DUT's port
    pci: str | None  # a NIC of the device's host instead of a vhost-user or veth port (dpdk only)
    engine_pci: str | None  # of the engine's host, the NIC at the other end of the cable
    ring_layout: str = SPLIT  # of vhost-user rings
    no_iommu: bool = False  # its NICs may be given to processes without an IOMMU
    interface: str | None = None  # of the device's host, instead of what the bench would make
    engine_interface: str | None = None  # of the engine's host, at the other end of the cable
    engine_runs_on: str | None = None  # the host of the engine's end by name; None: that of `[engine]`

    @property
    def shared_nics(self) -> tuple[str, ...]:
        """PCI addresses of what serves the port and keeps its driver, on the device's host; of kinds that have that."""
        return ()


@dataclass(frozen=True)
class Host:
    """A network namespace with one interface on a bridge: an end of socket workloads."""

    name: str
    address: str  # IPv4 with prefix length, e.g. "192.168.7.1/24"
    cpus: tuple[int, ...]  # where its workload threads run; none: all of its machine, until it is placed
    interface: str | None = None  # of the device's host, the end of a cable, instead of a veth pair
    end_interface: str | None = None  # of the host's machine, at the other end of the cable
    runs_on: str | None = None  # the machine that it is on by name; None: the device's
    pinned: bool = True  # each thread to one of `cpus`; else the kernel moves it among them
    vm: str | None = None  # the kernel of the virtual machine that it is: host/guest_kernels.py; None: a namespace


DIRECT_MAC: Final = "02:00:00:00:0b:{:02x}"
"""The Ethernet address of a backend by its number, for direct return: IP addresses cannot identify it there."""


@dataclass(frozen=True)
class Service:
    """One virtual server, or several with the same backends, and what is behind it."""

    address: str  # of several virtual servers the first
    port: int  # of several the first
    scheduler: Scheduler
    mode: Mode
    clients: Range  # addresses that connections come from
    local: Range | None  # addresses that backends see; of full-NAT
    client_port: str  # the port of the device behind which the clients are
    server_port: str  # and the one with the backends
    backends: tuple[Backend, ...] = ()
    local_ports: Range | None = None  # of each local address; None: the device's own
    max_connections: int | None = None  # places in its table; None: the device's own
    opening_s: float | None = None  # for which it remembers a SYN that is not followed up
    established_s: float | None = None  # a connection on which nothing is sent
    closed_s: float | None = None  # one that has closed
    client_ports: Range = Range(1025, 64511)  # of each client address
    address_count: int = 1  # virtual servers in a row from `address`
    port_count: int = 1  # and in a row from `port`, of each address
    health_s: float | None = None  # how often the balancer checks its backends; None: never
    closes: Closer = Closer.CLIENT
    timestamps: bool = False  # whether the engine's segments have TCP time stamps
    transport: Transport = Transport.TCP
    proxy_protocol: ProxyHeader | None = None  # the header that backends get first; None: none
    vlan: int | None = None  # the tag of every frame at both ports; None: none

    @property
    def virtual_count(self) -> int:
        """How many virtual servers there are."""
        return self.address_count * self.port_count

    @property
    def virtual(self) -> Range:
        """The addresses of the virtual servers."""
        return Range(addresses.number(self.address), self.address_count)

    @property
    def shown_ports(self) -> str:
        """Their ports: `80` or `80-84`."""
        return str(self.port) if self.port_count == 1 else f"{self.port}-{self.port + self.port_count - 1}"

    @property
    def listens(self) -> tuple[str, ...]:
        """The ports of each virtual address in one word: `10.0.0.1:80-84`."""
        each = (addresses.shown(self.virtual.first + n) for n in range(self.address_count))
        return tuple(f"{addresses.bracketed(address)}:{self.shown_ports}" for address in each)

    @property
    def weights(self) -> tuple[int, ...]:
        """Connections of each backend in a cycle of weighted round robin."""
        return weights(self.backends)

    @property
    def locals(self) -> tuple[str, ...]:
        """The addresses that backends see, one by one; none without full-NAT."""
        local = self.local
        return tuple(addresses.shown(local.first + n) for n in range(local.count)) if local else ()

    @property
    def end(self) -> str:
        """Its address and port in one word, of several as ranges: `10.0.0.1-10.0.0.3:80-84`."""
        return f"{addresses.bracketed(self.virtual.as_addresses())}:{self.shown_ports}"

    @property
    def family(self) -> Family:
        """Of its addresses and its backends'."""
        return Family.of(self.address, self.backends[0].address if self.backends else self.address)

    @property
    def is_direct(self) -> bool:
        """Whether backends answer the client past the device."""
        return self.mode is Mode.DIRECT


@dataclass(frozen=True)
class Established:
    """Connections through a service that stand while frames are measured."""

    connections: int
    frame_bytes: int  # of each frame that is sent on them, including the 4-byte frame check sequence
    rate_cps: float  # at which they are opened
    timeout_s: float
    server_mac: str = "02:00:00:00:00:03"  # of all backends


@dataclass(frozen=True)
class Segment:
    """What a TCP segment says of its place in a connection; the same in each."""

    seq: int
    ack: int


@dataclass(frozen=True)
class Sizes:
    """The sizes of a stream whose frames have several, in bytes with the check sequence."""

    mix: tuple[tuple[int, int], ...] = ()  # each with its weight
    between: tuple[int, int] | None = None  # random ones, the smallest and the largest

    @property
    def words(self) -> str:
        """For people, e.g. `64 x 7, 594 x 4, 1518 x 1` or `64-1518`."""
        return "-".join(map(str, self.between or ())) or ", ".join(f"{size} x {weight}" for size, weight in self.mix)


ChecksumKind = Literal["ipv4", "l4"]
Arrivals = Literal["steady", "poisson", "captured"]
Layers = tuple[Mapping[str, Mapping[str, Any]], ...]
"""Headers, the outermost first, each as {name: fields}; values as a scenario file writes them (`model.headers`)."""


@dataclass(frozen=True)
class Stream:
    """Frames from one port to another, cycling through the values of their fields: `model.frames` reads them.

    They are UDP or TCP over IPv4 with ranges of addresses and ports, unless `layers` says what they are.
    """

    tx_port: str
    rx_port: str
    frame_bytes: int  # including the 4-byte frame check sequence; the largest of `sizes`
    share: float  # of the trial's load, relative to the other streams
    eth_src: str  # of the first frame
    eth_dst: str
    ipv4_src: Range | None  # None: `layers` say
    ipv4_dst: Range | None
    udp_src: Range | None
    udp_dst: Range | None
    order: tuple[str, ...]  # which range moves first, e.g. ("ipv4_dst", "ipv4_src"); of layers ("ipv6.dst", "vlan.id")
    flows: int  # frames after which all fields repeat
    segment: Segment | None = None  # of TCP, whose ports are then those of `udp_src` and `udp_dst`; None: UDP
    together: bool = False  # the ranges advance together, by one with every frame, instead of one after the other
    layers: Layers = ()
    sizes: Sizes | None = None  # None: all have frame_bytes
    burst_frames: int = 1  # that fall due together
    arrivals: Arrivals = "steady"
    pcap: str | None = None  # the capture that is replayed in place of what the fields above say, from the root
    pcap_source: str | None = None  # who sent the frames; None: anybody
    pcap_others: bool = False  # all frames but those
    seed: int = 0  # of all that is random
    wrong_checksums: tuple[ChecksumKind, ...] = ()


@dataclass(frozen=True)
class Engine:
    """The traffic engine's resources."""

    cpus: tuple[int, ...]
    memory_mb: int  # hugepage memory of the engine (dpdk only)
    backend: str  # "auto": the datapath's own; or "af_packet", "af_xdp", "xdp_live"
    runs_on: str | None = None  # its host by name; None: the device's
    clock_error_us: float | None = None  # by which the clocks of a latency may be apart; None: not known, or one clock
    latency_clock: str = "engine"  # says when frames arrive: "engine", "kernel", "nic"


class SearchMethod(StrEnum):
    """Who chooses the loads of a search, and decides about them."""

    THRESHOLD = "threshold"  # our own: a statistical model of loss against load, with an interval
    MLRSEARCH = "mlrsearch"  # the library of FD.io CSIT


@dataclass(frozen=True)
class Search:
    """How the loss-free rate is looked for. Defaults of what only MLRsearch uses are CSIT's goals."""

    method: SearchMethod
    confidence: float  # of every rate's interval (threshold only)
    max_traffic_s: float  # seconds of valid trials, warm-up not counted, after which the answer is given (threshold)
    min_load_fps: float
    max_load_fps: float
    loss_ratios: tuple[float, ...]  # 0 is the NDR, others are PDRs
    trial_duration_s: float
    initial_trial_duration_s: float
    duration_sum_s: float
    exceed_ratio: float
    relative_width: float
    preceding_targets: int
    expansion_coefficient: int
    max_duration_s: float  # wall-clock bound of one search
    max_repeats: int  # of one invalid trial
    drain_s: float


@dataclass(frozen=True)
class Validity:
    """Which trials are discarded, and when a verdict is refused."""

    shortfall_ratio: float  # offered may fall short of intended by this share though the engine's core ran
    gap_shortfall_ratio: float  # and by this share in all, if the host took the engine's core meanwhile
    unexplained_ratio: float  # of a search's offered frames, that may be lost without a counter that names them
    quiet_within_s: float  # at most, waited before a trial for a moment in which no neighbour slows the DUT's core


@runtime_checkable
class Measure(Protocol):
    """What a scenario finds out. Every measure has a frozen dataclass of its own, in its folder."""

    @property
    def kind(self) -> str:
        """The value of `measure`."""


@dataclass(frozen=True)
class Between:
    """Of a measure whose traffic runs between two hosts, by their names; of others it enters and leaves at ports."""

    client: str
    server: str


@dataclass(frozen=True)
class Batch:
    """Of a measure that makes items in bulk."""

    what: str  # a word of the device or of the bench, e.g. "flows", "veths"
    method: str  # e.g. "process", "file", "netlink"
    count: int
    concurrency: int  # of method "process"


@dataclass(frozen=True)
class Change:
    """Of a measure in which something happens to the device."""

    action: str  # a word of the device's actions
    count: int  # of an action that has many
    settings: Mapping[str, str]  # those to change; of an action that changes some


Level = bool | int | float | str


class Relative(StrEnum):
    """Whether the points of a sweep are measured as ratios to a reference, in alternating slices."""

    NO = "no"
    BESIDE = "beside"  # and each point's own rates
    ALONE = "alone"  # the reference's own rates, and of every other point the ratio only
    TRIED = "tried"  # counter-experiments, by trials in turns with the one bench that is explained; no word of a sweep


@dataclass(frozen=True)
class Point:
    """Where a scenario stands in its file's sweep; a scenario without sweep is the only point of its own."""

    group: str  # the file's stem
    levels: Mapping[str, Level]  # factor -> level
    repeat: int = 1
    relative: Relative = Relative.NO
    reference: str = ""  # the scenario that is planned as the group's reference; empty: no ratio is measured


@dataclass(frozen=True)
class Scenario:
    """Everything one scenario file says, defaults filled in."""

    name: str  # the file's stem, with the point's levels if it is one of a sweep
    title: str
    path: str
    measure: Measure
    numa: NumaPlacement
    dut: Dut
    ports: tuple[Port, ...]
    hosts: tuple[Host, ...]
    engine: Engine
    streams: tuple[Stream, ...]
    search: Search
    validity: Validity
    point: Point
    guest: Guest | None = None  # None: the device runs on this machine's own kernel
    sites: tuple[Site, ...] = (Site(),)  # the machines of its bench, the device's first
    service: Service | None = None  # what a balancer does; None: the measure sends no connections
    established: Established | None = None  # connections on which the streams are sent; None: streams of their own
    defaulted: frozenset[str] = field(default_factory=frozenset)  # keys the file did not set

    @property
    def smallest_ring(self) -> int:
        """Between engine and DUT, in frames."""
        return min(port.ring for port in self.ports)

    @property
    def holds_bench(self) -> bool:
        """Whether the whole bench is in its guest: all CPUs are then that guest's."""
        return self.guest is not None and self.guest.holds is Holds.BENCH

    @property
    def is_tapped(self) -> bool:
        """Whether its guest has the device alone: each port is a tap, and `dut.cpus` are outside of the guest."""
        return self.guest is not None and self.guest.holds is Holds.DEVICE

    @property
    def site(self) -> Site:
        """The device's."""
        return self.sites[0]

    @property
    def is_multi_host(self) -> bool:
        """Whether its bench stands on several machines: CPUs of the same number are then several, too."""
        return len(self.sites) > 1

    def site_of(self, part: Port | Host) -> Site:
        """Of the engine at a port's other end, or of an end of a socket workload."""
        others = self.sites[1:]
        named = (site for site in others if part.name in (site.ports if isinstance(part, Port) else site.ends))
        return next(named, self.site)

    def ports_at(self, site: Site) -> tuple[Port, ...]:
        """The ports whose other ends the engine of a site has; none: no engine is there."""
        return tuple(port for port in self.ports if self.site_of(port) == site)

    def ends_at(self, site: Site) -> tuple[Host, ...]:
        """The ends of a socket workload that are at a site."""
        return tuple(host for host in self.hosts if self.site_of(host) == site)

    def link(self, part: Port | Host) -> Link:
        """What joins the device to a port's engine, or to an end of a socket workload."""
        far = self.site_of(part)
        if isinstance(part, Port):
            near = LinkEnd(self.site, part.pci, part.interface, part.shared_nics)
            return Link(near, LinkEnd(far, part.engine_pci, part.engine_interface))
        return Link(LinkEnd(self.site, None, part.interface), LinkEnd(far, None, part.end_interface))

    @property
    def links(self) -> tuple[Link, ...]:
        """All of its bench, those of its ports first."""
        return (*map(self.link, self.ports), *map(self.link, self.hosts))

    @property
    def is_cabled(self) -> bool:
        """Whether links of its bench are lent: then a second bench cannot have them."""
        return any(link.is_lent for link in self.links)

    def has_engine_at(self, site: Site) -> bool:
        """Whether an engine of its bench runs at a site, for ports or for an end of a socket workload."""
        return not self.is_multi_host or bool(self.ports_at(site) or self.ends_at(site))

    def engine_cpus_at(self, site: Site) -> tuple[int, ...]:
        """CPUs of the engine at a site; of one among several machines, as many as its ports have queues."""
        cpus = self.engine.cpus
        return cpus[: sum(port.queues for port in self.ports_at(site))] if self.is_multi_host else cpus

    def cpus_at(self, site: Site) -> frozenset[int]:
        """All CPUs of a site that the scenario names: of its engine, of ends there, and the device's where that is."""
        device = self.dut.cpus if site == self.site else ()
        ends = (cpu for end in self.ends_at(site) for cpu in end.cpus)
        return frozenset((*self.engine_cpus_at(site), *device, *ends))

    @property
    def probed_cores(self) -> tuple[tuple[int, int], ...]:
        """The engine's first core with each core of the device: the pairs that are probed around every trial.

        None of a bench on several machines: cores of two share no cache line.
        """
        if self.is_multi_host:
            return ()
        return tuple((self.engine.cpus[0], cpu) for cpu in self.dut.cpus[:MOST_PROBED])


@dataclass(frozen=True)
class Factor:
    """One thing that a sweep varies."""

    name: str
    unit: str
    levels: tuple[Level, ...]
    falling: bool  # more of it never raises the rate: what --budget may rely on
    keys: tuple[str, ...] = ()  # the scenario keys that its levels set, e.g. "dut.tuning.smc"


@dataclass(frozen=True)
class Sweep:
    """The scenarios that one file makes, in the order of its levels, and how they are to be run."""

    group: str
    title: str
    factors: tuple[Factor, ...]
    scenarios: tuple[Scenario, ...]  # one a point, repeat 1
    repeats: int
    order: str  # "interleaved": all points, then all again; "random": the same, shuffled; "listed": point by point
    seed: int

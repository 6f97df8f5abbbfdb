"""What the user asked for: one scenario with every default filled in."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from ipaddress import IPv4Address


class Datapath(StrEnum):
    """How the DUT's ports are attached: the one word that changes a bench's I/O."""

    DPDK = "dpdk"  # vhost-user rings, polled by PMD threads
    AF_PACKET = "af_packet"  # veth pairs, served by ovs-vswitchd's main thread


@dataclass(frozen=True)
class RuleSeries:
    """One OpenFlow rule repeated `count` times; placeholders take i = first, first + 1, ..."""

    rule: str
    count: int
    first: int = 0
    line: int | None = None  # place in the scenario file, for errors


@dataclass(frozen=True)
class Rule:
    """One OpenFlow rule as ovs-ofctl reads it; `{name}` stands for a port's number."""

    text: str
    line: int | None = None  # place in the scenario file, for errors


@dataclass(frozen=True)
class OvsDut:
    """A private Open vSwitch with the userspace datapath."""

    datapath: Datapath
    pmd_cpus: tuple[int, ...]  # CPUs of the PMD threads (af_packet: of the main thread)
    memory_mb: int  # hugepage memory of the switch (dpdk only)
    other_config: Mapping[str, str]  # Open_vSwitch other_config, applied as written
    rules: tuple[Rule, ...]
    rule_series: tuple[RuleSeries, ...]


@dataclass(frozen=True)
class Port:
    """One port of the DUT, with the engine at its other end."""

    name: str
    ring: int  # descriptors of each ring between engine and DUT


@dataclass(frozen=True)
class Range:
    """`count` consecutive values from `first`: addresses as IPv4, ports as numbers."""

    first: int
    count: int

    @property
    def last(self) -> int:
        """The last value of the range."""
        return self.first + self.count - 1

    def as_ipv4(self) -> str:
        """The range as `a.b.c.d` or `a.b.c.d-e.f.g.h`."""
        first, last = IPv4Address(self.first), IPv4Address(self.last)
        return str(first) if self.count == 1 else f"{first}-{last}"


@dataclass(frozen=True)
class Stream:
    """UDP over IPv4 frames from one port to another, cycling through five-tuples."""

    tx_port: str
    rx_port: str
    frame_bytes: int  # including the 4-byte frame check sequence
    share: float  # of the trial's load, relative to the other streams
    eth_src: str
    eth_dst: str
    ipv4_src: Range
    ipv4_dst: Range
    udp_src: Range
    udp_dst: Range
    order: tuple[str, ...]  # which range moves first, e.g. ("ipv4_dst", "ipv4_src")
    flows: int  # five-tuples in the cycle


@dataclass(frozen=True)
class Engine:
    """The traffic engine's resources."""

    cpus: tuple[int, ...]
    memory_mb: int  # hugepage memory of the engine (dpdk only)


@dataclass(frozen=True)
class Search:
    """How the loss-free rate is looked for. Defaults are CSIT's goals for MLRsearch."""

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
    """When a trial's loss may be called the DUT's loss."""

    shortfall_ratio: float  # offered may fall short of intended by this share though the engine's core ran
    gap_shortfall_ratio: float  # and by this share in all, if the host took the engine's core meanwhile
    unexplained_frames: int  # the ledger may miss this many frames (counter read skew)


@dataclass(frozen=True)
class Latency:
    """At which shares of the NDR latency is measured."""

    at: tuple[float, ...]
    duration_s: float


@dataclass(frozen=True)
class Scenario:
    """Everything one scenario file says, defaults filled in."""

    name: str  # the file's stem
    title: str
    path: str
    dut: OvsDut
    ports: tuple[Port, ...]
    engine: Engine
    streams: tuple[Stream, ...]
    search: Search
    validity: Validity
    latency: Latency
    defaulted: frozenset[str] = field(default_factory=frozenset)  # keys the file did not set

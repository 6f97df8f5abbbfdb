"""What a scenario says of a private Open vSwitch."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from pinchpoint.model.scenario import Host, Port, Range, Scenario


class Datapath(StrEnum):
    """How the DUT's ports are attached: the one word that changes a bench's I/O."""

    DPDK = "dpdk"  # vhost-user rings or NICs by PCI address, polled by PMD threads
    AF_XDP = "af_xdp"  # veth pairs through AF_XDP sockets, polled by PMD threads
    AF_PACKET = "af_packet"  # veth pairs, served by ovs-vswitchd's main thread
    KERNEL = "kernel"  # veth pairs through the kernel's openvswitch module
    TC = "tc"  # the same, with megaflows in the kernel's traffic control, as for a NIC that offloads them


VDPA: Final = "vdpa"
"""The kind of a port whose rings a function of a NIC serves."""
POLLED: Final = frozenset({Datapath.DPDK, Datapath.AF_XDP})
"""Datapaths whose ports are polled by PMD threads."""
IN_KERNEL: Final = frozenset({Datapath.KERNEL, Datapath.TC})
"""Datapaths that are the kernel's own."""


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
class Bridge:
    """One bridge with its rules; `fail_mode=secure`, so that nothing else forwards."""

    name: str
    rules: tuple[Rule, ...]
    rule_series: tuple[RuleSeries, ...]


@dataclass(frozen=True)
class Patch:
    """Two bridges joined by a pair of patch ports, each named `to-` and the other bridge."""

    first: str
    second: str


@dataclass(frozen=True)
class Tunnel:
    """A VXLAN tunnel between two bridges, over an underlay that the bench builds."""

    name: str  # of the tunnel's port in the rules of either bridge
    first: str
    second: str
    vni: int


@dataclass(frozen=True)
class ArpResponder:
    """Addresses for which a bridge itself answers ARP, by one rule of table 0 each."""

    bridge: str
    ipv4: Range
    mac: str


@dataclass(frozen=True)
class ExtraPorts:
    """Ports of the first bridge that carry nothing."""

    count: int
    kind: str  # "internal" or "veth"


@dataclass(frozen=True)
class Tuning:
    """Settings of the switch, applied, read back and recorded; None leaves the switch's default."""

    emc_insert_inv_prob: int | None  # one in this many new flows enters the exact match cache; 0: none
    smc: bool | None  # signature match cache
    flow_limit: int | None  # megaflows
    max_idle_ms: int | None  # until an unused megaflow is removed
    conntrack_limit: int | None  # connections
    hw_offload: bool | None
    tc_policy: str | None  # whether tc may forward in software, in hardware, or in both


CONFIG_KEYS: Final = {
    "emc_insert_inv_prob": "emc-insert-inv-prob", "smc": "smc-enable", "flow_limit": "flow-limit",
    "max_idle_ms": "max-idle", "hw_offload": "hw-offload", "tc_policy": "tc-policy",
}  # fmt: skip
"""Open_vSwitch other_config: the key in which each setting stands in the database."""


@dataclass(frozen=True)
class OvsDut:
    """A private Open vSwitch."""

    datapath: Datapath
    pmd_cpus: tuple[int, ...]  # CPUs that forward; without PMD threads, those of the main thread
    memory_mb: int  # hugepage memory of the switch (dpdk only)
    other_config: Mapping[str, str]  # Open_vSwitch other_config, applied as written
    tuning: Tuning
    bridges: tuple[Bridge, ...]  # the first is br0
    patches: tuple[Patch, ...]
    tunnels: tuple[Tunnel, ...]
    arp_responders: tuple[ArpResponder, ...]
    extra_ports: ExtraPorts
    vswitchd: str | None = None  # the switch's program, an absolute path; None: the installed one of the datapath
    kind: str = "ovs"

    @property
    def cpus(self) -> tuple[int, ...]:
        """Those of its PMD threads, or of its main thread where there are none."""
        return self.pmd_cpus

    @property
    def polls(self) -> bool:
        """Whether it has PMD threads."""
        return self.datapath in POLLED

    @property
    def io(self) -> str:
        """The datapath's word, e.g. `dpdk`."""
        return str(self.datapath)


@dataclass(frozen=True, kw_only=True)
class OvsPort(Port):
    """A port of one of the switch's bridges."""

    bridge: str
    rxq_affinity: str  # "queue:cpu,..." as pmd-rxq-affinity; empty: the switch decides
    kind: str | None = None  # VDPA; None: as the datapath has its ports
    pf: str | None = None  # of VDPA: the NIC's physical function, a PCI address
    vf: str | None = None  # its virtual function that serves the rings
    representor: int | None = None  # of that function in the switch


@dataclass(frozen=True, kw_only=True)
class OvsHost(Host):
    """A host on one of the switch's bridges."""

    bridge: str


def spec(scenario: Scenario) -> OvsDut:
    """The scenario's device, which is of this kind."""
    assert isinstance(scenario.dut, OvsDut)
    return scenario.dut


def ports(scenario: Scenario) -> tuple[OvsPort, ...]:
    """The scenario's ports, as this kind has them."""
    return tuple(port for port in scenario.ports if isinstance(port, OvsPort))


def hosts(scenario: Scenario) -> tuple[OvsHost, ...]:
    """The scenario's hosts, as this kind has them."""
    return tuple(host for host in scenario.hosts if isinstance(host, OvsHost))


def ends(scenario: Scenario) -> list[str]:
    """The ports at which traffic enters or leaves the switch."""
    return [*(port.name for port in scenario.ports), *(host.name for host in scenario.hosts)]


def pinned_queues(affinity: str) -> list[tuple[int, int]]:
    """(queue, CPU) of each pair of a port's pmd-rxq-affinity."""
    pairs = (pair.split(":") for pair in affinity.split(",") if pair.strip())
    return [(int(queue), int(cpu)) for queue, cpu in pairs]


def rules(scenario: Scenario) -> int:
    """OpenFlow rules of all bridges as the scenario gives them."""
    bridges = spec(scenario).bridges
    return sum(len(bridge.rules) + sum(series.count for series in bridge.rule_series) for bridge in bridges)

"""What a scenario says of a private Open vSwitch, and the keys by which it says so."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from pinchpoint.dut.device import Items, Keys, Types
from pinchpoint.dut.nics import Cards, at
from pinchpoint.dut.ovs import nic_keys
from pinchpoint.dut.ovs.nic_keys import OvsNic as OvsNic
from pinchpoint.dut.services import TRACKING, Services
from pinchpoint.keys import kinds
from pinchpoint.keys.key import Key, Table, Unset
from pinchpoint.model.scenario import NAT, Host, Port, Range, Scenario, Scheduler


class Datapath(StrEnum):
    """How the DUT's ports are attached: the one word that changes a bench's I/O."""

    DPDK = "dpdk"  # vhost-user rings or NICs by PCI address, polled by PMD threads
    AF_XDP = "af_xdp"  # veth pairs through AF_XDP sockets, polled by PMD threads
    AF_PACKET = "af_packet"  # veth pairs, served by ovs-vswitchd's main thread
    KERNEL = "kernel"  # veth pairs through the kernel's openvswitch module
    TC = "tc"  # the same, with megaflows in the kernel's traffic control, as for a NIC that offloads them


VDPA: Final = "vdpa"
"""The kind of a port whose rings a function of a NIC serves."""
VHOST, VETH, AFXDP, TAP, INTERNAL = "vhost-user", "veth", "afxdp", "tap", "internal"
"""Kinds of ports; of a datapath's own ports VHOST, AFXDP or VETH."""
LINKED: Final = frozenset({VETH, AFXDP})
"""Kinds whose port is one end of a veth pair."""
MADE_BY_SWITCH: Final = frozenset({TAP, INTERNAL})
"""Kinds whose interface the switch makes: what is sent into it, the switch receives."""
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
    meters: tuple[Rule, ...] = ()
    groups: tuple[Rule, ...] = ()


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


@dataclass(frozen=True, kw_only=True)
class OvsPort(Port):
    """A port of one of the switch's bridges."""

    bridge: str
    rxq_affinity: str  # "queue:cpu,..." as pmd-rxq-affinity; empty: the switch decides
    kind: str | None = None  # None: as the datapath has its ports
    pf: str | None = None  # of VDPA: the NIC's physical function, a PCI address
    vf: str | None = None  # its virtual function that serves the rings
    representor: int | None = None  # of that function in the switch
    devargs: str = ""  # of a NIC, for its driver: "KEY=VALUE,..."
    mtu: int | None = None  # None: the switch's own, 1500
    vlan_mode: str | None = None  # this and the next two: ovs-vswitchd.conf.db(5), Port, "VLAN Configuration"
    tag: int | None = None
    trunks: tuple[int, ...] = ()
    ingress_policing_rate: int | None = None  # kbit/s
    ingress_policing_burst: int | None = None  # kbit
    qos: Mapping[str, str] = field(default_factory=dict)  # `type`, and other_config of the QoS row
    forwards_to: str | None = None  # the port at which its guest gives out what it got here
    forwards_in: str = "container"  # or VM
    forward_cpu: int | None = None  # of that guest; None: one that nobody has, or else the last of pmd_cpus

    @property
    def shared_nics(self) -> tuple[str, ...]:
        """Both functions of VDPA."""
        return tuple(address for address in (self.pf, self.vf) if address)


@dataclass(frozen=True)
class Mirror:
    """Copies of frames for one port."""

    name: str
    bridge: str
    select: tuple[str, ...]  # ports whose frames, both ways, are copied; none: all of the bridge
    output: str  # the port that gets the copies


@dataclass(frozen=True)
class Bond:
    """Several ports as one."""

    name: str
    ports: tuple[str, ...]
    mode: str
    lacp: str


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
    nics: tuple[OvsNic, ...] = ()  # beside those of ports
    xdp_mode: str | None = None  # of its ports (af_xdp only); None: the best that each can
    kind: str = "ovs"
    mirrors: tuple[Mirror, ...] = ()
    bonds: tuple[Bond, ...] = ()
    inner: tuple[OvsPort, ...] = ()  # ports with a guest at their other end, not the engine

    @property
    def guests(self) -> tuple[tuple[OvsPort, OvsPort], ...]:
        """The two ports of each guest in the path."""
        by_name = {port.name: port for port in self.inner}
        return tuple((port, by_name[port.forwards_to]) for port in self.inner if port.forwards_to)

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


def every_port(scenario: Scenario) -> tuple[OvsPort, ...]:
    """The same, and those of guests in the path."""
    return (*ports(scenario), *spec(scenario).inner)


def hosts(scenario: Scenario) -> tuple[OvsHost, ...]:
    """The scenario's hosts, as this kind has them."""
    return tuple(host for host in scenario.hosts if isinstance(host, OvsHost))


def cards(scenario: Scenario) -> Cards:
    """NICs of the switch's machine: those of ports, and of `[[nic]]`."""
    here, nics = at(scenario, scenario.site), spec(scenario).nics
    return replace(
        here,
        of_device={**here.of_device, **{nic.name: nic.address for nic in nics}},
        without_iommu=here.without_iommu.union(nic.address for nic in nics if nic.no_iommu),
    )


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


FIRST_BRIDGE: Final = "br0"
LAST_BRIDGE: Final = "last"
DEFAULT_MB: Final = 1024
GUEST_MB: Final = 128  # hugepage memory of a container in the path
CONTAINER, VM = "container", "vm"
"""What a guest in the path is."""
LARGEST_FRAME: Final = 9022  # at the largest MTU that a port may have
MOST_RULES: Final = 1_000_000
_INT32: Final = 2**31 - 1
_UINT32: Final = 2**32 - 1

_SET_BY_THE_BENCH: Final = {
    "dpdk-init": "set by dut.datapath",
    **dict.fromkeys(("dpdk-socket-mem", "dpdk-alloc-mem"), "use dut.memory_mb"),
    **dict.fromkeys(("pmd-cpu-mask", "dpdk-lcore-mask"), "use dut.pmd_cpus"),
    "dpdk-extra": "it could load foreign code into the switch",
    **dict.fromkeys(("dpdk-hugepage-dir", "vhost-sock-dir"), "the bench keeps to its own folders"),
    **{name: f"use dut.{key}" for key, name in CONFIG_KEYS.items()},
}

RESERVED_CONFIG: Final = {
    key: "the switch takes it only when it starts"
    for key in _SET_BY_THE_BENCH
    if key.startswith(("dpdk-", "vhost-")) or key in ("hw-offload", "tc-policy")
}
"""Settings that cannot change while the switch runs."""

BEST_EFFORT: Final = "best-effort"
XDP_MODES: Final = ("native-with-zerocopy", "native", "generic", BEST_EFFORT)
_OWN = Unset("the switch's own")

TUNING: Final = (
    Key("emc_insert_inv_prob", kinds.integer(0, _UINT32),
        "One in this many new flows is added to the exact match cache; 0: none.", _OWN),
    Key("smc", kinds.boolean(), "Whether the signature match cache is used.", _OWN),
    Key("flow_limit", kinds.integer(1, _INT32), "Limit of megaflows in the datapath.", _OWN),
    Key("max_idle_ms", kinds.integer(1, _INT32), "Idle time after which a megaflow is removed, milliseconds.", _OWN),
    Key("conntrack_limit", kinds.integer(1, _INT32), "Limit of tracked connections.", _OWN),
    Key("hw_offload", kinds.boolean(), "Whether megaflows are offloaded to the NIC.", _OWN),
    Key("tc_policy", kinds.word("none", "skip_sw", "skip_hw"),
        "Where tc forwards: anywhere, not in software, or not in hardware (tc only).", _OWN),
)  # fmt: skip

_TABLES_OF_A_BRIDGE = (
    Key("meters", kinds.lines(),
        "Meters that its rules name, one a line, as `ovs-ofctl add-meter` reads them and `dump-meters` prints them: "
        "`meter=1,pktps,band=type=drop,rate=1000`.", ""),
    Key("groups", kinds.lines(),
        "Groups that its rules name, one a line, as `ovs-ofctl add-groups` reads them and `dump-groups` prints them: "
        "`group_id=7,type=all,bucket=output:{right}`.", ""),
)  # fmt: skip

_DUT = (
    Key("datapath", kinds.word("dpdk", "af_xdp", "af_packet", "kernel", "tc"),
        '"dpdk": vhost-user rings, or NICs, polled by PMD threads; "af_xdp": veth pairs through AF_XDP sockets, '
        'polled by PMD threads; "af_packet": veth pairs served by the switch\'s main thread; "kernel": veth '
        'pairs through the kernel\'s openvswitch module; "tc": the same with hw_offload, so that megaflows become '
        "filters of the kernel's traffic control, and of NICs that take them."),
    Key("pmd_cpus", kinds.cpus(),
        "CPUs that forward: those of the PMD threads, or without any those of the main thread."),
    Key("vswitchd", kinds.absolute_path(),
        "The switch's program, e.g. your own build. Taken from the command line only (`--set "
        "dut.vswitchd=/path/to/ovs-vswitchd`): a file must not choose what runs as root. Its version and hash are "
        "recorded.", Unset("the installed one"), command_line_only=True, program="ovs-vswitchd"),
    Key("memory_mb", kinds.integer(64, 1_048_576), "Hugepage memory of the switch, MiB (dpdk only).",
        DEFAULT_MB),
    *TUNING,
    Key("xdp_mode", kinds.word(*XDP_MODES),
        "How AF_XDP reaches the ports (af_xdp only): by the driver without or with a copy, or in the kernel's generic "
        "way; a port that cannot is an error. The mode in use is among the settings.", Unset(BEST_EFFORT)),
    Key("other_config", kinds.config(_SET_BY_THE_BENCH),
        "Settings of the switch (Open_vSwitch other_config), applied as written. Refused, because the "
        "bench sets them: " + ", ".join(_SET_BY_THE_BENCH) + ".", {}),
    Key("rules", kinds.lines(),
        "OpenFlow rules of br0, one a line, as `ovs-ofctl add-flows` reads them. Blank lines, lines that begin with # "
        "and what `dump-flows` prints besides the rules are skipped; `{left}` stands for the number of the port named "
        "left.", ""),
    *_TABLES_OF_A_BRIDGE,
    Key("cascade", kinds.integer(1, 64),
        'Bridges in a row, br0, br1, ..., each joined to the next by patch ports; `bridge = "last"` is the '
        "last of them.", 1),
    Key("transit_rules", kinds.lines(),
        "The rules of every bridge of the row but the first. `{to-previous}` and `{to-next}` stand for the patch "
        "ports towards br0 and towards the last bridge. The last bridge gets no rule that names `{to-next}`.",
        "actions=NORMAL"),
    Key("extra_ports", kinds.integer(0, 20_000), "Number of ports of br0 without traffic.", 0),
    Key("extra_ports_kind", kinds.word("internal", "veth"), "The kind of these ports.", "internal"),
)  # fmt: skip

_SERIES_KEYS = (
    Key("rule", kinds.text(kinds.LONGEST_RULE), "The rule."),
    Key("count", kinds.integer(0, MOST_RULES), "How many copies; with 0 the rule is left out."),
    Key("first", kinds.integer(0, 2**32 - 1), "The first i.", 0),
)

RULE_SERIES = Table("dut.rule_series",
    "One rule of br0 repeated many times; i counts from `first`. Besides port names, the rule may hold `{i}`, "
    "`{u16:1000}` (1000 + i, up to 65535), `{ipv4:48.0.0.1}` (that address + i) and `{mac:02:00:00:00:00:00}` "
    "(that address + i).", _SERIES_KEYS, at_most=64)  # fmt: skip

BRIDGE = Table("bridge", "A bridge besides br0 and its row.", (
    Key("name", kinds.bridge_name(), "Used in ports, hosts, patches and tunnels."),
    Key("rules", kinds.lines(), "Its OpenFlow rules, written as those of the DUT.", ""),
    *_TABLES_OF_A_BRIDGE,
), at_most=256)  # fmt: skip

BRIDGE_SERIES = Table("bridge.rule_series",
    "One rule of the bridge above it repeated many times, as in `[[dut.rule_series]]`.",
    _SERIES_KEYS, at_most=64)  # fmt: skip

_A_BRIDGE = kinds.bridge_name(LAST_BRIDGE)
_ENDS = (Key("from", _A_BRIDGE, "One bridge.", field="first"), Key("to", _A_BRIDGE, "The other.", field="second"))

PATCH = Table("patch",
    "Two bridges joined by a pair of patch ports. In the rules of a bridge, `{to-br1}` stands for the port towards "
    "the bridge br1, also in the row that `dut.cascade` makes.", _ENDS, at_most=256)  # fmt: skip

TUNNEL = Table("tunnel", "A VXLAN tunnel between two bridges, over an underlay that the bench builds.", (
    Key("name", kinds.port_name(), "In braces, its port in the rules of either bridge."),
    *_ENDS,
    Key("vni", kinds.integer(0, 2**24 - 1), "The VXLAN network identifier (RFC 7348)."),
), at_most=256)  # fmt: skip

NIC = nic_keys.table(Key("bridge", _A_BRIDGE, "The bridge it belongs to.", FIRST_BRIDGE))

ARP_RESPONDER = Table("arp_responder", "Addresses for which a bridge itself answers ARP requests, by one rule of "
    "table 0 each.", (
    Key("bridge", _A_BRIDGE, "The bridge that answers.", FIRST_BRIDGE),
    Key("ipv4", kinds.ipv4_range(), "The addresses."),
    Key("mac", kinds.mac(), "The answer."),
), at_most=64)  # fmt: skip

MIRROR = Table("mirror", "Copies of a bridge's frames for one of its ports.", (
    Key("name", kinds.port_name(), "Its name in the database."),
    Key("select", kinds.listed("a list of port names", kinds.port_name(), may_be_empty=True),
        "Ports whose frames, in both directions, are copied; none: all of the bridge.", []),
    Key("to", kinds.port_name(), "The port that gets the copies; nothing else is sent to it.", field="output"),
), at_most=16)  # fmt: skip

BOND = Table("bond", "Ports that the switch bonds. Rules see a member's number as `in_port`; NORMAL sends to bonds.", (
    Key("name", kinds.port_name(), "Its name in the database."),
    Key("ports", kinds.listed("a list of port names", kinds.port_name()), "Its members, of one bridge."),
    Key("mode", kinds.word("active-backup", "balance-slb", "balance-tcp"),
        "How members share the load; `balance-tcp` needs LACP.", "active-backup"),
    Key("lacp", kinds.word("off", "passive", "active"), "Whether it negotiates by LACP.", "off"),
), at_most=16)  # fmt: skip

_BITS = 2**31 - 1
_NO_LIMIT = Unset("no limit")
_PORT = (
    Key("bridge", _A_BRIDGE, "The bridge it belongs to.", FIRST_BRIDGE),
    Key("rxq_affinity", kinds.affinity(), "Which of dut.pmd_cpus polls which queue (OVS's pmd-rxq-affinity).", ""),
    Key("kind", kinds.word(VDPA, VETH, AFXDP, TAP, INTERNAL),
        '"veth": a veth pair that the switch\'s main thread serves; "afxdp": one that a PMD thread polls; "tap", '
        '"internal": an interface that the switch makes, served by its main thread; so ports of several kinds may be '
        'on one bridge. "vdpa": a vhost-user socket whose rings a virtual function of a NIC serves: `type=dpdkvdpa`, '
        "with `pf`, `vf` and `representor`. Forks of Open vSwitch have it; another is refused once it runs.",
        Unset("as dut.datapath says")),
    Key("pf", kinds.pci_address(), "The NIC's physical function, in switchdev mode (vdpa only).", Unset("none")),
    Key("vf", kinds.pci_address(), "Its virtual function (vdpa only).", Unset("none")),
    Key("representor", kinds.integer(0, 4095), "The number of that function's representor (vdpa only).", Unset("none")),
    Key("devargs", nic_keys.DEVARGS,
        "Arguments of the driver of the port's NIC (DPDK's devargs, behind its address; `pci` only).", ""),
    Key("mtu", kinds.integer(576, LARGEST_FRAME - 18), "Its MTU (mtu_request).", Unset("1500")),
    Key("vlan_mode", kinds.word("access", "trunk", "native-tagged", "native-untagged", "dot1q-tunnel"),
        "How NORMAL treats its VLANs (ovs-vswitchd.conf.db(5), Port). QinQ is dot1q-tunnel; `dut.other_config` then "
        "needs vlan-limit = 2.", Unset("access with a tag, else trunk")),
    Key("tag", kinds.integer(0, 4095), "Its VLAN: of an access port, or the native or the outer one.", Unset("none")),
    Key("trunks", kinds.listed("a list of VLANs from 0 to 4095", kinds.integer(0, 4095), 4096, may_be_empty=True),
        "VLANs of a trunk; none: all.", []),
    Key("ingress_policing_rate", kinds.integer(1, _BITS),
        "What it receives beyond this rate, kbit/s, is dropped.", _NO_LIMIT),
    Key("ingress_policing_burst", kinds.integer(1, _BITS), "The burst that is let through, kbit.",
        Unset("the switch's own")),
    Key("qos", kinds.config({}),
        "What it sends is policed or shaped: `type` and other_config of a QoS row, e.g. "
        '`{ type = "egress-policer", cir = 1250000, cbs = 2048 }` with DPDK.', {}),
    Key("forwards_to", kinds.port_name(),
        "The other port of a guest, which gives out there what it gets here, and the other way round (with DPDK only). "
        "No stream begins or ends at these two: wire, guest, wire is PVP.", Unset("the engine is at its other end")),
    Key("forwards_in", kinds.word(CONTAINER, VM),
        'What that guest is. "container": `dpdk-testpmd` between two virtio-user ports; "vm": a virtual machine under '
        "qemu, whose kernel bridges its two interfaces (`packaging/guest-kernel`). Without KVM it is emulated, and "
        "slow.", CONTAINER),
    Key("forward_cpu", kinds.integer(0, kinds.HIGHEST_CPU), "The CPU of that guest.",
        Unset("the lowest that neither engine nor switch has, else the last of dut.pmd_cpus")),
)  # fmt: skip

_HOST = (Key("bridge", _A_BRIDGE, "The bridge it is on.", FIRST_BRIDGE),)

_ACTIONS = {
    "add-flows": "`count` OpenFlow rules are added in one bundle",
    "del-flows": "`count` OpenFlow rules are deleted, none of which forwards the frames",
    "add-ports": "`count` internal ports are added in one transaction",
    "del-ports": "`count` internal ports are deleted",
    "flush-flows": "the datapath's flows are flushed and learnt again",
    "rebalance": "receive queues are reassigned to the PMD threads",
    "settings": "`settings` (Open_vSwitch other_config) are applied, and reverted once the traffic has ended",
    "restart": "the switch is restarted on its database, and its rules are added again",
}
NEEDS_PMD: Final = ("rebalance",)

TYPES = Types(OvsDut, OvsPort, OvsHost)
KEYS = Keys(
    dut=_DUT,
    port=_PORT,
    host=_HOST,
    arrays=(RULE_SERIES, BRIDGE, BRIDGE_SERIES, PATCH, TUNNEL, NIC, ARP_RESPONDER, MIRROR, BOND),
    actions=_ACTIONS,
    settings=kinds.config(RESERVED_CONFIG),
    cabled=lambda dut: dut.get("datapath", "dpdk") != "dpdk",
    services=Services((Scheduler.HASH,), NAT, TRACKING, has_udp=True),
    items={
        "flows": Items("OpenFlow rules", ("process", "file", "bundle"), "the bridge's tables, asked by OpenFlow, held"),
        "ports": Items("ports of the first bridge", ("process", "transaction"), "the datapath showed", {
            "process": "because each ovs-vsctl reads the whole database, and the switch goes through all its ports "
                       "each time",
            "transaction": "because the userspace datapath goes through all its ports for each one that it adds",
        }),
    },
)  # fmt: skip

"""The keys that say what is built: the switch, its bridges and ports, hosts, the engine."""

from typing import Final

from pinchpoint.scenario import kinds
from pinchpoint.scenario.key import Key, Table, Unset

FIRST_BRIDGE: Final = "br0"
LAST_BRIDGE: Final = "last"
MOST_RULES: Final = 1_000_000
_INT32: Final = 2**31 - 1
_UINT32: Final = 2**32 - 1

_SET_BY_THE_BENCH: Final = {
    "dpdk-init": "set by dut.datapath",
    "dpdk-socket-mem": "use dut.memory_mb",
    "dpdk-alloc-mem": "use dut.memory_mb",
    "pmd-cpu-mask": "use dut.pmd_cpus",
    "dpdk-lcore-mask": "use dut.pmd_cpus",
    "dpdk-extra": "it could load foreign code into the switch",
    "dpdk-hugepage-dir": "the bench keeps to its own folders",
    "vhost-sock-dir": "the bench keeps to its own folders",
    "emc-insert-inv-prob": "use dut.emc_insert_inv_prob",
    "smc-enable": "use dut.smc",
    "flow-limit": "use dut.flow_limit",
    "max-idle": "use dut.max_idle_ms",
    "hw-offload": "use dut.hw_offload",
}

RESERVED_CONFIG: Final = {
    key: "the switch takes it only when it starts"
    for key in _SET_BY_THE_BENCH
    if key.startswith(("dpdk-", "vhost-")) or key == "hw-offload"
}
"""Settings that cannot change while the switch runs."""

_OWN = Unset("the switch's own")

TUNING: Final = (
    Key(
        "emc_insert_inv_prob",
        kinds.integer(0, _UINT32),
        "One in this many new flows is added to the exact match cache; 0: none.",
        _OWN,
    ),
    Key("smc", kinds.boolean(), "Whether the signature match cache is used.", _OWN),
    Key("flow_limit", kinds.integer(1, _INT32), "Limit of megaflows in the datapath.", _OWN),
    Key("max_idle_ms", kinds.integer(1, _INT32), "Idle time after which a megaflow is removed, milliseconds.", _OWN),
    Key("conntrack_limit", kinds.integer(1, _INT32), "Limit of tracked connections.", _OWN),
    Key("hw_offload", kinds.boolean(), "Whether megaflows are offloaded to the NIC.", _OWN),
)

DUT = Table(
    "dut",
    "The device under test. Its first bridge is br0.",
    (
        Key("kind", kinds.word("ovs"), "A private Open vSwitch.", "ovs"),
        Key(
            "datapath",
            kinds.word("dpdk", "af_xdp", "af_packet", "kernel"),
            '"dpdk": vhost-user rings, or NICs, polled by PMD threads; "af_xdp": veth pairs through AF_XDP sockets, '
            'polled by PMD threads; "af_packet": veth pairs served by the switch\'s main thread; "kernel": veth '
            "pairs through the kernel's openvswitch module.",
        ),
        Key(
            "pmd_cpus",
            kinds.cpus(),
            "CPUs that forward: those of the PMD threads, or with af_packet and kernel those of the main thread.",
        ),
        Key(
            "vswitchd",
            kinds.absolute_path(),
            "The switch's program, e.g. of a build of one's own. Taken from the command line only (`--set "
            "dut.vswitchd=/path/to/ovs-vswitchd`): a file must not choose what runs as root. Its version and hash are "
            "recorded.",
            Unset("the installed one"),
        ),
        Key("memory_mb", kinds.integer(64, 1_048_576), "Hugepage memory of the switch, MiB (dpdk only).", 1024),
        *TUNING,
        Key(
            "other_config",
            kinds.config(_SET_BY_THE_BENCH),
            "Settings of the switch (Open_vSwitch other_config), applied as written. Refused, because the "
            "bench sets them: " + ", ".join(_SET_BY_THE_BENCH) + ".",
            {},
        ),
        Key(
            "rules",
            kinds.lines(),
            "OpenFlow rules of br0, one a line, as `ovs-ofctl add-flows` reads them. Blank lines and lines that "
            "begin with # are skipped; `{left}` stands for the number of the port named left.",
            "",
        ),
        Key(
            "cascade",
            kinds.integer(1, 64),
            'Bridges in a row, br0, br1, ..., each joined to the next by patch ports; `bridge = "last"` is the '
            "last of them.",
            1,
        ),
        Key(
            "transit_rules",
            kinds.lines(),
            "The rules of every bridge of the row but the first. `{to-previous}` and `{to-next}` stand for the patch "
            "ports towards br0 and towards the last bridge. The last bridge gets no rule that names `{to-next}`.",
            "actions=NORMAL",
        ),
        Key("extra_ports", kinds.integer(0, 20_000), "Number of ports of br0 without traffic.", 0),
        Key("extra_ports_kind", kinds.word("internal", "veth"), "The kind of these ports.", "internal"),
    ),
)

_SERIES_KEYS = (
    Key("rule", kinds.text(kinds.LONGEST_RULE), "The rule."),
    Key("count", kinds.integer(0, MOST_RULES), "How many copies; with 0 the rule is left out."),
    Key("first", kinds.integer(0, 2**32 - 1), "The first i.", 0),
)

RULE_SERIES = Table(
    "dut.rule_series",
    "One rule of br0 repeated many times; i counts from `first`. Besides port names, the rule may hold `{i}`, "
    "`{u16:1000}` (1000 + i, up to 65535), `{ipv4:48.0.0.1}` (that address + i) and `{mac:02:00:00:00:00:00}` "
    "(that address + i).",
    _SERIES_KEYS,
    at_most=64,
)

BRIDGE = Table(
    "bridge",
    "A bridge beside br0 and its row.",
    (
        Key("name", kinds.bridge_name(), "Used in ports, hosts, patches and tunnels."),
        Key("rules", kinds.lines(), "Its OpenFlow rules, written as those of the DUT.", ""),
    ),
    at_most=256,
)

BRIDGE_SERIES = Table(
    "bridge.rule_series",
    "One rule of the bridge above it repeated many times, as in `[[dut.rule_series]]`.",
    _SERIES_KEYS,
    at_most=64,
)

_A_BRIDGE = kinds.bridge_name(LAST_BRIDGE)

PATCH = Table(
    "patch",
    "Two bridges joined by a pair of patch ports. In the rules of a bridge, `{to-br1}` stands for the port towards "
    "the bridge br1, also in the row that `dut.cascade` makes.",
    (
        Key("from", _A_BRIDGE, "One bridge.", field="first"),
        Key("to", _A_BRIDGE, "The other.", field="second"),
    ),
    at_most=256,
)

TUNNEL = Table(
    "tunnel",
    "A VXLAN tunnel between two bridges, over an underlay that the bench builds.",
    (
        Key("name", kinds.port_name(), "In braces, its port in the rules of either bridge."),
        Key("from", _A_BRIDGE, "One bridge.", field="first"),
        Key("to", _A_BRIDGE, "The other.", field="second"),
        Key("vni", kinds.integer(0, 2**24 - 1), "The VXLAN network identifier (RFC 7348)."),
    ),
    at_most=256,
)

ARP_RESPONDER = Table(
    "arp_responder",
    "Addresses for which a bridge itself answers ARP requests, by one rule of table 0 each.",
    (
        Key("bridge", _A_BRIDGE, "The bridge that answers.", FIRST_BRIDGE),
        Key("ipv4", kinds.ipv4_range(), "The addresses."),
        Key("mac", kinds.mac(unicast=True), "The answer."),
    ),
    at_most=64,
)

PORT = Table(
    "port",
    "A port of the DUT; the traffic engine is at its other end. Measures that send frames need two.",
    (
        Key("name", kinds.port_name(), "Used in streams and, in braces, in rules."),
        Key(
            "ring",
            kinds.power_of_two(64, 32768),
            "Descriptors of each ring between engine and DUT: the frames it can absorb.",
            1024,
        ),
        Key("bridge", _A_BRIDGE, "The bridge it belongs to.", FIRST_BRIDGE),
        Key("queues", kinds.integer(1, 64), "Receive queues of the DUT's port (dpdk and af_xdp).", 1),
        Key(
            "rxq_affinity",
            kinds.affinity(),
            "Which of dut.pmd_cpus polls which queue (OVS's pmd-rxq-affinity).",
            "",
        ),
        Key(
            "pci",
            kinds.pci_address(),
            "A NIC of the DUT, instead of a vhost-user port (dpdk only).",
            Unset("no NIC"),
        ),
        Key(
            "engine_pci",
            kinds.pci_address(),
            "The engine's NIC at the other end of its cable.",
            Unset("no NIC"),
        ),
    ),
    at_most=64,
)

HOST = Table(
    "host",
    "A network namespace with one interface on a bridge: an end of a socket workload, which needs two.",
    (
        Key("name", kinds.port_name(), "Used in [sockets] and, in braces, in rules."),
        Key("bridge", _A_BRIDGE, "The bridge it is on.", FIRST_BRIDGE),
        Key("address", kinds.interface_address(), "Its IPv4 address, with the prefix's length."),
        Key("cpus", kinds.cpus(), "Where its workload runs."),
    ),
    at_most=256,
)

ENGINE = Table(
    "engine",
    "The traffic engine.",
    (
        Key(
            "cpus",
            kinds.cpus(),
            "CPUs of the engine; the ports are dealt to them in turn, so there may be no more CPUs than ports. None "
            "may be among dut.pmd_cpus, except with af_packet and kernel for the measures bandwidth, rr, crr and "
            "build.",
            [0],
        ),
        Key("memory_mb", kinds.integer(64, 1_048_576), "Hugepage memory of the engine, MiB (dpdk only).", 256),
        Key(
            "backend",
            kinds.word("auto", "af_packet", "af_xdp", "xdp_live"),
            'How it sends and receives; "auto": as suits the datapath, the only way with dpdk.',
            "auto",
        ),
    ),
)

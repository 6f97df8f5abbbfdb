"""Every key of a scenario file, once: parsing, errors and docs/scenario.md are driven by this table."""

from dataclasses import dataclass
from typing import Final

from pinchpoint.scenario import kinds
from pinchpoint.scenario.kinds import Kind


@dataclass(frozen=True)
class Required:
    """A key that the file must set."""


@dataclass(frozen=True)
class Computed:
    """A default that follows from other keys; `words` say how."""

    words: str


REQUIRED: Final = Required()


@dataclass(frozen=True)
class Key:
    """One key: `default` as it would stand in the file, `field` its name in the model."""

    name: str
    kind: Kind
    doc: str
    default: object = REQUIRED
    field: str = ""

    @property
    def model_field(self) -> str:
        """The name of the model's field."""
        return self.field or self.name


@dataclass(frozen=True)
class Table:
    """One table, or (at_most > 0) an array of tables with up to that many elements."""

    name: str  # dotted; empty for the top of the file
    doc: str
    keys: tuple[Key, ...]
    at_most: int = 0

    @property
    def header(self) -> str:
        """As it stands in the file."""
        return f"[[{self.name}]]" if self.at_most else f"[{self.name}]"


RANGES: Final = ("ipv4_dst", "ipv4_src", "udp_dst", "udp_src")
MOST_FLOWS: Final = 16_777_216
MOST_RULES: Final = 1_000_000
FRAME_LIMIT: Final = {"ovs": 1518}
"""The largest frame, in bytes, that each kind of DUT takes with its ports' default MTU of 1500."""

_SET_BY_THE_BENCH: Final = {
    "dpdk-init": "set by dut.datapath",
    "dpdk-socket-mem": "use dut.memory_mb",
    "dpdk-alloc-mem": "use dut.memory_mb",
    "pmd-cpu-mask": "use dut.pmd_cpus",
    "dpdk-lcore-mask": "use dut.pmd_cpus",
    "dpdk-extra": "it could load foreign code into the switch",
    "dpdk-hugepage-dir": "the bench keeps to its own folders",
    "vhost-sock-dir": "the bench keeps to its own folders",
}

TOP = Table(
    "",
    "",
    (Key("title", kinds.text(), "What the scenario shows, in a few words.", Computed("the file's name")),),
)

DUT = Table(
    "dut",
    "The device under test.",
    (
        Key("kind", kinds.word("ovs"), "A private Open vSwitch with the userspace datapath.", "ovs"),
        Key(
            "datapath",
            kinds.word("dpdk", "af_packet"),
            '"dpdk": vhost-user rings polled by PMD threads; "af_packet": veth pairs served by the '
            "switch's main thread.",
        ),
        Key(
            "pmd_cpus",
            kinds.cpus(),
            "CPUs that forward: those of the PMD threads, or with af_packet those of the main thread.",
        ),
        Key("memory_mb", kinds.integer(64, 1_048_576), "Hugepage memory of the switch, MiB (dpdk only).", 1024),
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
            "OpenFlow rules, one a line, as `ovs-ofctl add-flows` reads them. Blank lines and lines that "
            "begin with # are skipped; `{left}` stands for the number of the port named left.",
            "",
        ),
    ),
)

RULE_SERIES = Table(
    "dut.rule_series",
    "One rule repeated many times; i counts from `first`. Besides port names, the rule may hold `{i}`, "
    "`{ipv4:48.0.0.1}` (that address + i) and `{mac:02:00:00:00:00:00}` (that address + i).",
    (
        Key("rule", kinds.text(kinds.LONGEST_RULE), "The rule."),
        Key("count", kinds.integer(1, MOST_RULES), "How often it is repeated."),
        Key("first", kinds.integer(0, 2**32 - 1), "The first i.", 0),
    ),
    at_most=64,
)

PORT = Table(
    "port",
    "A port of the DUT; the traffic engine is at its other end. There are at least two.",
    (
        Key("name", kinds.port_name(), "Used in streams and, in braces, in rules."),
        Key(
            "ring",
            kinds.power_of_two(64, 32768),
            "Descriptors of each ring between engine and DUT: the frames it can absorb.",
            1024,
        ),
    ),
    at_most=64,
)

ENGINE = Table(
    "engine",
    "The traffic engine.",
    (
        Key(
            "cpus",
            kinds.cpus(),
            "CPUs of the engine, none of them among dut.pmd_cpus; the ports are dealt to them in turn, so there "
            "may be no more CPUs than ports.",
            [0],
        ),
        Key("memory_mb", kinds.integer(64, 1_048_576), "Hugepage memory of the engine, MiB (dpdk only).", 256),
    ),
)

STREAM = Table(
    "stream",
    "UDP over IPv4 frames from one port to another. There is at least one. The defaults are the addresses "
    "and the discard port that RFC 2544 (C.2.2) and RFC 863 set aside.",
    (
        Key("from", kinds.port_name(), "The port where the frames enter the DUT.", field="tx_port"),
        Key("to", kinds.port_name(), "The port where they should come out.", field="rx_port"),
        Key(
            "frame_bytes",
            kinds.integer(64, 9022),
            "Frame size with its 4 bytes of check sequence; at most "
            + " and ".join(f"{limit} for {kind}" for kind, limit in FRAME_LIMIT.items())
            + ".",
            64,
        ),
        Key("share", kinds.number(0.001, 1000), "Of the load, relative to the other streams.", 1.0),
        Key("eth_src", kinds.mac(unicast=True), "Source of every frame.", "02:00:00:00:00:01"),
        Key("eth_dst", kinds.mac(), "Destination of every frame.", "02:00:00:00:00:02"),
        Key("ipv4_src", kinds.ipv4_range(), "Source addresses.", "198.18.0.1"),
        Key("ipv4_dst", kinds.ipv4_range(), "Destination addresses.", "198.19.0.1"),
        Key("udp_src", kinds.udp_range(), "Source ports.", 1024),
        Key("udp_dst", kinds.udp_range(), "Destination ports.", 9),
        Key(
            "order",
            kinds.order(RANGES),
            "Which range moves fastest, which next; names left out follow in the order of the default.",
            list(RANGES),
        ),
        Key(
            "flows",
            kinds.integer(1, MOST_FLOWS),
            "Five-tuples in the cycle; at most the product of the four ranges.",
            Computed("the product of the four ranges"),
        ),
    ),
    at_most=256,
)

SEARCH = Table(
    "search",
    "How NDR and PDR are looked for: MLRsearch, with the goals of FD.io CSIT as defaults. Trial length is "
    "part of a rate's definition: never compare rates across lengths.",
    (
        Key("min_load_fps", kinds.number(1, 1e9), "Lowest load tried, frames per second.", 10_000.0),
        Key("max_load_fps", kinds.number(1, 1e9), "Highest load tried, frames per second.", 20e6),
        Key(
            "loss_ratios",
            kinds.numbers(0, 1, below=True),
            "One goal each: 0 is the NDR, others are PDRs.",
            [0.0, 0.005],
        ),
        Key("trial_duration_s", kinds.number(0.05, 3600), "Length of a full trial, seconds.", 1.0),
        Key(
            "initial_trial_duration_s",
            kinds.number(0.05, 3600),
            "Length of the first, rough trials, seconds; at most trial_duration_s.",
            1.0,
        ),
        Key(
            "duration_sum_s",
            kinds.number(0.05, 86_400),
            "Seconds of trials at one load that decide about it; at least trial_duration_s.",
            21.0,
        ),
        Key(
            "exceed_ratio",
            kinds.number(0, 1, below=True),
            "Share of those seconds that may lose too much before the load counts as too high.",
            0.5,
        ),
        Key(
            "relative_width",
            kinds.number(0.0001, 0.5),
            "The search ends when the bounds are this close, relative to the upper one.",
            0.005,
        ),
        Key("preceding_targets", kinds.integer(0, 8), "Coarser searches made first, to save time in all.", 2),
        Key("expansion_coefficient", kinds.integer(2, 16), "How fast the bounds move outwards.", 2),
        Key("max_duration_s", kinds.number(1, 86_400), "The search gives up after this time, seconds.", 600.0),
        Key("max_repeats", kinds.integer(0, 100), "How often one invalid trial is repeated.", 8),
        Key("drain_s", kinds.number(0, 60), "Wait for frames still on their way, seconds.", 0.1),
    ),
)

VALIDITY = Table(
    "validity",
    "When a trial's loss may be called the DUT's loss.",
    (
        Key(
            "shortfall_ratio",
            kinds.number(0, 1, below=True),
            "Share of the intended frames that the engine may fail to offer although its core ran.",
            0.001,
        ),
        Key(
            "gap_shortfall_ratio",
            kinds.number(0, 1, below=True),
            "Share that it may fail to offer in all, the host having taken its core; rates are told as offered.",
            0.05,
        ),
        Key(
            "unexplained_frames",
            kinds.integer(0, 1_000_000_000),
            "Frames that the ledger may leave unexplained.",
            0,
        ),
    ),
)

LATENCY = Table(
    "latency",
    "Where latency is measured, once the NDR is known.",
    (
        Key(
            "at",
            kinds.numbers(0.001, 1, may_be_empty=True),
            "Shares of the NDR; [] measures none.",
            [0.5, 0.9],
        ),
        Key("duration_s", kinds.number(0.05, 3600), "Length of each, seconds.", 2.0),
    ),
)

TABLES: Final = (TOP, DUT, RULE_SERIES, PORT, ENGINE, STREAM, SEARCH, VALIDITY, LATENCY)

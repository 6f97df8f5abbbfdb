"""Every key of a scenario file, once: parsing, errors and docs/scenario.md are driven by this table."""

from dataclasses import dataclass, replace
from functools import cache

from pinchpoint.dut import registry, vm, vm_ends
from pinchpoint.dut.device import ENGINE_MEMORY_MB
from pinchpoint.dut.registry import device
from pinchpoint.keys import kinds
from pinchpoint.keys.key import Computed, Key, Table, Unset
from pinchpoint.keys.source import Source
from pinchpoint.measure import registry as measures
from pinchpoint.model.groups import grouped
from pinchpoint.model.guest import Holds, When
from pinchpoint.model.measurement import CONFIDENCE
from pinchpoint.model.scenario import PACKED, SPLIT, NumaPlacement, Scenario, SearchMethod
from pinchpoint.scenario import sweep_keys
from pinchpoint.scenario.service_keys import BACKEND, ESTABLISHED, NOT_MEASURED, SERVICE
from pinchpoint.scenario.stream_keys import FRAMES, STREAM, WRITTEN_ELSEWHERE


def dut_table(kind: str) -> Table:
    """`[dut]` of a device of that kind."""
    words = "; ".join(f'"{kind}": {device(kind).title}' for kind in registry.kinds())
    key = Key("kind", kinds.word(*registry.kinds()), f"What it is. {words}.", registry.default())
    return Table("dut", f"The device under test: {device(kind).title}.", (key, *device(kind).keys.dut))


def port_table(kind: str) -> Table:
    """`[[port]]` of a device of that kind."""
    return replace(PORT, keys=(*PORT.keys, *device(kind).keys.port))


PORT = Table(
    "port",
    "A port of the DUT; the traffic engine is at its other end. Measures that send frames need two.",
    (
        Key("name", kinds.port_name(), "Used in streams and, in braces, in rules."),
        Key("ring", kinds.power_of_two(64, 32768),
            "Descriptors of each ring between engine and DUT: the frames it can absorb.", 1024),
        Key("queues", kinds.integer(1, 64),
            "Receive queues of the DUT's port: more than one where its ports are polled.", 1),
        Key("pci", kinds.pci_address(),
            "A NIC of the DUT's host, instead of a vhost-user port (with DPDK only).", Unset("no NIC")),
        Key("engine_pci", kinds.pci_address(),
            "The NIC at the other end of the cable, on the engine's host. Between two hosts, an interface may be at "
            "the other end instead.", Unset("no NIC")),
        Key("no_iommu", kinds.boolean(),
            "Where the machine has no IOMMU: use the port's NICs all the same while the bench stands, by vfio where "
            "the kernel was built for that, else by uio_pci_generic. They can then reach any memory.", False),
        Key("interface", kinds.interface_name(),
            "An interface of the DUT's host that exists already, such as the end of a cable to another host, instead "
            "of a veth pair. The bench moves it into its namespace and gives it back as it was: name, MTU, state, "
            "addresses.", Unset("a veth pair")),
        Key("engine_interface", kinds.interface_name(),
            "The interface at the other end of the cable, on the engine's host. Between two hosts, a NIC may be at "
            "the other end instead.", Unset("a veth pair")),
        Key("engine_runs_on", kinds.machine_name(),
            "The host of the engine at this port's other end; \"lab\": the machine on which the lab runs. Two ports "
            "with two hosts have two engines: one sends a stream, the other one receives it.", Unset("engine.runs_on")),
        Key("ring_layout", kinds.word(SPLIT, PACKED),
            "Of a vhost-user port's rings (Virtio 1.1, 2.6 and 2.7). It changes what the DUT's side costs, too.",
            SPLIT),
    ),
    at_most=64,
)  # fmt: skip

HOST = Table(
    "host",
    "A network namespace with one interface on a bridge: an end of a socket workload, which needs two. It is on the "
    "DUT's host or, by `runs_on`, on a machine of its own.",
    (
        Key("name", kinds.port_name(), "Used in [sockets] and, in braces, in rules."),
        Key("address", kinds.interface_address(), "Its IPv4 address, with the prefix's length."),
        Key("cpus", kinds.cpus_or_all(),
            'Where its workload runs: CPUs of the machine that it is on; "all": every one that may be used there, of '
            "one NUMA node where `numa` says so. Two pinned ends that have all share them out."),
        Key("pinned", kinds.boolean(),
            "Whether each thread of its workload is kept to a CPU of its own; false: the kernel moves it among `cpus`.",
            True),
        Key("interface", kinds.interface_name(),
            "An interface of the DUT's host that exists already, the end of a cable to this end of the workload, "
            "instead of a veth pair. The bench moves it into its namespace and gives it back as it was.",
            Unset("a veth pair")),
        Key("end_interface", kinds.interface_name(),
            "The interface at the other end of that cable, on the machine of this end; it has the address meanwhile.",
            Unset("a veth pair")),
        Key("vm", kinds.word(*vm_ends.WORDS),
            "The kernel of the virtual machine that this end is, instead of a namespace (docs/guests.md). It reaches a "
            "switch with DPDK by vhost-user rings, another one by a tap; `cpus` are those of this machine on which its "
            'virtual CPUs run, one on each. "uml" only where the kernel forwards.', Unset("a namespace")),
        Key("runs_on", kinds.machine_name(),
            'The machine of this end: a Host of ssh_config, or "lab": the one on which the lab runs.',
            Unset("the DUT's host")),
    ),
    at_most=256,
)  # fmt: skip

MACHINE = Table(
    "host",
    "Another machine; `runs_on` puts the bench there, device and engine. It is reached by OpenSSH's client with your "
    "own configuration, keys and jump hosts; nothing is installed there but the engine's file. A file "
    "that has [[host]], an end of a socket workload, cannot have it: each `runs_on` is then a Host of ssh_config, with "
    "the defaults of these keys.",
    (
        Key("kind", kinds.word("ssh"), 'How it is reached. "ssh": OpenSSH\'s client, without questions.', "ssh"),
        Key("address", kinds.destination(),
            "As for ssh(1): HOST, USER@HOST, or a Host of ssh_config.", Computed("NAME")),
        Key("sudo", kinds.boolean(), "Whether a user other than root becomes root there by `sudo -n`.", True),
        Key("lease_s", kinds.number(5, 3600),
            "Seconds. When the host has not heard of the lab for so long, it ends the engine and undoes the bench.",
            60),
    ),
    is_named=True,
)  # fmt: skip

GUEST = Table(
    "guest",
    "A kernel of its own, in which the device or the whole bench runs instead of on this machine's: for modules that "
    "this kernel lacks, another release, or more CPUs and NUMA nodes than this machine has. Only devices that are the "
    "kernel itself run there, with measures that send frames and with socket workloads. Numbers of an emulated "
    "processor are marked, and not compared with others.",
    (
        Key("kernel", kinds.word(*vm.kernels()),
            " ".join(f'"{word}": {about}.' for word, about in vm.kernels().items()), vm.DEFAULT),
        Key("when", kinds.word(*When),
            '"needed": only where this machine lacks what the device needs, such as a module of its kernel, the same '
            "for all points of a run; a device that no guest can hold then has none.", str(When.ALWAYS)),
        Key("release", kinds.kernel_release(),
            'The release of the kernel, or the beginning of it, e.g. "6.12" (qemu only). `packaging/guest-kernel '
            "--release 6.12` provides it. The result records the release that runs.", Unset("that of the Debian here")),
        Key("memory_mb", kinds.integer(64, 1_048_576), "Its memory, MiB; at least 64 for each NUMA node.", 512),
        Key("numa_nodes", kinds.integer(1, 128),  # qemu's MAX_NODES
            "Its NUMA nodes, each with its share of the virtual CPUs and of the memory (more than 1: qemu only). With "
            "the device alone each has one virtual CPU, to which the device's CPUs are dealt in turn; a node's memory "
            "is taken near to that CPU, and in the guest each flow is forwarded on one of them. The result records the "
            "nodes that the guest has.", 1),
        Key("holds", kinds.word(*Holds),
            'What is in it. "device": the device alone; the engine is outside, each port is a tap, and the device\'s '
            'CPUs are those of this machine on which its virtual CPUs run. "bench": device, engine and the ends of '
            "socket workloads; all CPUs that the file names are virtual ones, and run on any of this machine.",
            Computed("bench with bandwidth, rr, crr; else device")),
        Key("cpus", kinds.integer(1, 255),
            'Its virtual CPUs, dealt to its NUMA nodes evenly (more than 1: qemu only). They may be more than this '
            'machine has. With `holds = "bench"`.', Unset("one for each NUMA node")),
    ),
    is_optional=True,
)  # fmt: skip

ENGINE = Table(
    "engine",
    "The traffic engine.",
    (
        Key("cpus", kinds.cpus(),
            "CPUs of the engine; the queues of the ports are dealt to them in turn, and each must have one, except "
            "where a [service] is loaded: each CPU has a queue of both ports, as far as these have several. None may "
            "be a CPU of a device that polls; of another one only with the measures bandwidth, rr, crr and build.",
            [0]),
        Key("memory_mb", kinds.integer(64, 1_048_576),
            "Hugepage memory of the engine, MiB (with DPDK only).", ENGINE_MEMORY_MB),
        Key("backend", kinds.word("auto", "af_packet", "af_xdp", "xdp_live"),
            'How it sends and receives; "auto": as suits the device, the only way with DPDK.', "auto"),
        Key("runs_on", kinds.machine_name(),
            "The host on which it runs; \"lab\": the machine on which the lab runs. `cpus` are that host's. Every "
            "port then has an `interface` and an `engine_interface`.", Unset("the DUT's host")),
        Key("clock_error_us", kinds.number(0, 1e9),
            "By how much the clocks of the hosts of two engines, or those of a NIC and its host, may be apart, "
            "microseconds: the bound that PTP, chrony or phc2sys gives. One-way latency is reported with it as its "
            "error.",
            Unset("not known: no latency where two engines measure")),
        Key("latency_clock", kinds.word("engine", "kernel", "nic"),
            'Whose clock says when a frame arrives. "engine": when the engine takes it; "kernel": when the kernel '
            'takes it from the device, so that a busy engine adds nothing; "nic": when the NIC receives it, by a clock '
            "that phc2sys keeps at the system's: `clock_error_us` says how exactly, and every port has an "
            "`engine_interface`. The last two need packet sockets.", "engine"),
    ),
)  # fmt: skip

SEARCH = Table(
    "search",
    "How NDR and PDR are looked for. Trial length is part of a rate's definition: never compare rates across "
    "lengths. Keys that only MLRsearch uses have the goals of FD.io CSIT as defaults.",
    (
        Key("method", kinds.word(*SearchMethod),
            '"threshold": a statistical model of loss against load; "mlrsearch": the library of FD.io CSIT.',
            SearchMethod.THRESHOLD.value),
        Key("confidence", kinds.number(0.5, 0.999), "Of the interval around each rate (threshold only).", CONFIDENCE),
        Key("max_traffic_s", kinds.number(0.05, 86_400),
            "Seconds of valid trials after which the answer is given with the interval reached (threshold only).",
            50.0),
        Key("min_load_fps", kinds.number(1, 1e9), "Lowest load tried, frames per second.", 10_000.0),
        Key("max_load_fps", kinds.number(1, 1e9), "Highest load tried, frames per second.", 20e6),
        Key("loss_ratios", kinds.shares(),
            "One goal each: 0 is the NDR, others are PDRs; 0.005 is 0.5 %.", [0.0, 0.005]),
        Key("trial_duration_s", kinds.number(0.05, 3600), "Length of a full trial, seconds.", 1.0),
        Key("initial_trial_duration_s", kinds.number(0.05, 3600),
            "Length of the first, rough trials, seconds; at most trial_duration_s.", 1.0),
        Key("duration_sum_s", kinds.number(0.05, 86_400),
            "Seconds of trials at one load that decide about it; at least trial_duration_s.", 21.0),
        Key("exceed_ratio", kinds.number(0, 1, below=True),
            "Share of those seconds that may lose too much before the load counts as too high.", 0.5),
        Key("relative_width", kinds.number(0.0001, 0.5),
            "The search ends when the ends of the interval (mlrsearch: the bounds; CSIT takes 0.005) are this close, "
            "relative to the upper one.", 0.01),
        Key("preceding_targets", kinds.integer(0, 8), "How many coarser searches are made first, to save time.", 2),
        Key("expansion_coefficient", kinds.integer(2, 16), "How fast the bounds move outwards.", 2),
        Key("max_duration_s", kinds.number(1, 86_400), "The search gives up after this time, seconds.", 600.0),
        Key("max_repeats", kinds.integer(0, 100), "How often one invalid trial is repeated.", 8),
        Key("drain_s", kinds.number(0, 60), "Wait for frames still on their way, seconds.", 0.1),
    ),
    measures=FRAMES,
)  # fmt: skip

VALIDITY = Table(
    "validity",
    "Which trials are discarded, and when a verdict is refused.",
    (
        Key("shortfall_ratio", kinds.number(0, 1, below=True),
            "Share of the intended frames that the engine may fail to offer although its core ran.", 0.001),
        Key("gap_shortfall_ratio", kinds.number(0, 1, below=True),
            "Share that it may fail to offer in all where the host took its core; rates are offered rates.", 0.07),
        Key("unexplained_ratio", kinds.number(0, 1),
            "Share of a search's offered frames that may be lost without a counter that names them. Above it the "
            "verdict is refused, with the place where frames vanish; the rate stands.", 1e-4),
        Key("quiet_within_s", kinds.number(0, 2),
            "Before a trial, wait at most this long for a moment in which no neighbour slows the switch's core, "
            "seconds. This measures the device without neighbours, not the device on this host as it is.",
            0.0),
    ),
    removed={
        "unexplained_frames": "write unexplained_ratio, a share of the search's offered frames (default 0.0001): "
        "frames that no counter names no longer discard a trial",
    },
)  # fmt: skip

TOP = Table(
    "",
    "",
    (
        Key("title", kinds.text(), "What the scenario shows, in a few words.", Computed("the file's name")),
        Key("measure", kinds.word(*(measure.name for measure in measures.measures())),
            "; ".join(f'"{measure.name}": {measure.finds}' for measure in measures.measures()) + ".", measures.DEFAULT),
        Key("numa", kinds.word(*NumaPlacement),
            'Where the two ends of the traffic run: "any": on the CPUs named here; "same": both on one NUMA node; '
            "\"different\": on two. Between hosts, the switch and the relay are on the server's node.", "any"),
        Key("runs_on", kinds.machine_name(),
            "The host on which the bench stands: the device and, unless `engine.runs_on` says otherwise, the engine. "
            "CPUs, nodes and programs are that host's.", Unset("this machine")),
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Tables:
    """The tables of scenario files for a kind of device."""

    single: tuple[Table, ...]
    arrays: tuple[Table, ...]
    every: tuple[Table, ...]  # in the order of docs/scenario.md


@cache
def of_kind(kind: str) -> Tables:
    """Those of a kind that there is. Raises InputError where its device cannot be used."""
    declared = device(kind).keys
    dut, own = dut_table(kind), declared.arrays
    of_measures = {table.name: table for table in (measure.table(declared) for measure in measures.measures())}
    own_tables = (SEARCH, VALIDITY, *of_measures.values())
    ends = (port_table(kind), replace(HOST, keys=(*HOST.keys, *declared.host)))
    services = (SERVICE, BACKEND, ESTABLISHED)
    every = (TOP, dut, *own, *ends, *services, MACHINE, GUEST, ENGINE, STREAM, *own_tables, *sweep_keys.TABLES)
    return Tables((TOP, dut, SERVICE, ESTABLISHED, GUEST, ENGINE, *own_tables), (*own, *ends, BACKEND, STREAM), every)


def kind_of(source: Source) -> str:
    """The kind of device that a file names; the default one where it names none, or one that there is not."""
    dut = source.data.get("dut")
    kind = dut.get("kind") if isinstance(dut, dict) else None
    return kind if isinstance(kind, str) and kind in registry.kinds() else registry.default()


@cache
def known() -> tuple[Table, ...]:
    """The tables of all kinds: what a study, which does not know the kind of each file, may name."""
    return tuple(table for kind in registry.kinds() for table in of_kind(kind).every)


@cache
def foreign(kind: str) -> dict[str, str]:
    """Keys and tables that a file of this kind has not, though one would look for them, each with what to say of it."""
    mine = _names(kind)
    of_others = grouped((name, f'"{other}"') for other in registry.kinds() for name in _names(other) - mine)
    told = f'this one is "{kind}"'
    elsewhere = {name: f"it belongs to a device of kind {' or '.join(of)}, {told}" for name, of in of_others.items()}
    return {**WRITTEN_ELSEWHERE, **NOT_MEASURED, **elsewhere}


def _names(kind: str) -> set[str]:
    """Of every table and of every key, dotted."""
    tables = of_kind(kind).every
    return {name for table in tables for name in (table.name, *(f"{table.name}.{key.name}" for key in table.keys))}


@cache
def by_hand() -> frozenset[str]:
    """Keys that only the command line may set, such as `dut.PROGRAM`."""
    return frozenset(f"dut.{key.name}" for kind in registry.kinds() for key in _by_hand(kind))


def chosen_by_hand(scenario: Scenario) -> list[tuple[str, str]]:
    """Those of a scenario that are set, each with its value."""
    values = ((key, getattr(scenario.dut, key.model_field)) for key in _by_hand(scenario.dut.kind))
    return [(f"dut.{key.name}", str(value)) for key, value in values if value is not None]


def _by_hand(kind: str) -> list[Key]:
    return [key for key in device(kind).keys.dut if key.command_line_only]


def program_key(scenario: Scenario) -> tuple[str, str] | None:
    """The key that chooses the device's program, and how its file is called; None where there is no such key."""
    keys = (key for key in _by_hand(scenario.dut.kind) if key.program)
    return next(((f"dut.{key.name}", key.program) for key in keys), None)

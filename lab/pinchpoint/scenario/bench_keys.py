"""The keys that say what is built, for every kind of device: the device's kind, ports, hosts, the engine."""

from dataclasses import replace

from pinchpoint.dut import registry, vm
from pinchpoint.dut.device import ENGINE_MEMORY_MB
from pinchpoint.dut.registry import device
from pinchpoint.keys import kinds
from pinchpoint.keys.key import Computed, Key, Table, Unset
from pinchpoint.model.scenario import PACKED, SPLIT


def dut(kind: str) -> Table:
    """`[dut]` of a device of that kind."""
    words = "; ".join(f'"{kind}": {device(kind).title}' for kind in registry.kinds())
    key = Key("kind", kinds.word(*registry.kinds()), f"What it is. {words}.", registry.default())
    return Table("dut", f"The device under test: {device(kind).title}.", (key, *device(kind).keys.dut))


def port(kind: str) -> Table:
    """`[[port]]` of a device of that kind."""
    return replace(PORT, keys=(*PORT.keys, *device(kind).keys.port))


def host(kind: str) -> Table:
    """`[[host]]` of a device of that kind."""
    return replace(HOST, keys=(*HOST.keys, *device(kind).keys.host))


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
        Key("cpus", kinds.cpus(), "Where its workload runs: CPUs of the machine that it is on."),
        Key("interface", kinds.interface_name(),
            "An interface of the DUT's host that exists already, the end of a cable to this end of the workload, "
            "instead of a veth pair. The bench moves it into its namespace and gives it back as it was.",
            Unset("a veth pair")),
        Key("end_interface", kinds.interface_name(),
            "The interface at the other end of that cable, on the machine of this end; it has the address meanwhile.",
            Unset("a veth pair")),
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
        Key("sudo", kinds.boolean(), "Whether `sudo -n` makes the user root there who is not.", True),
        Key("lease_s", kinds.number(5, 3600),
            "Seconds. When the host has not heard of the lab for so long, it ends the engine and undoes the bench.",
            60),
    ),
    is_named=True,
)  # fmt: skip

GUEST = Table(
    "guest",
    "A kernel of its own, in which the device runs instead of on this machine's: for modules that this kernel lacks, "
    "or another release. The device's CPUs are those of this machine on which its virtual CPUs run. Each port is a "
    "tap. Only devices that are the kernel itself run there, and only with measures that send frames.",
    (
        Key("kernel", kinds.word(*vm.kernels()),
            " ".join(f'"{word}": {about}.' for word, about in vm.kernels().items()), vm.DEFAULT),
        Key("release", kinds.kernel_release(),
            'The release of the kernel, or the beginning of it, e.g. "6.12" (qemu only). `packaging/guest-kernel '
            "--release 6.12` provides it. The result records the release that runs.", Unset("that of the Debian here")),
        Key("memory_mb", kinds.integer(64, 1_048_576), "Its memory, MiB; at least 64 for each NUMA node.", 512),
        Key("numa_nodes", kinds.integer(1, 128),  # qemu's MAX_NODES
            "Its NUMA nodes, each with one virtual CPU and its share of the memory (more than 1: qemu only). The "
            "device's CPUs are dealt to the virtual ones in turn; a node's memory is taken near to that CPU. In the "
            "guest each flow is forwarded on one of them. The result records the nodes that the guest has.", 1),
    ),
    is_optional=True,
)  # fmt: skip

ENGINE = Table(
    "engine",
    "The traffic engine.",
    (
        Key("cpus", kinds.cpus(),
            "CPUs of the engine; the ports are dealt to them in turn, so there may be no more CPUs than ports. None "
            "may be a CPU of a device that polls; of another one only with the measures bandwidth, rr, crr and build.",
            [0]),
        Key("memory_mb", kinds.integer(64, 1_048_576),
            "Hugepage memory of the engine, MiB (with DPDK only).", ENGINE_MEMORY_MB),
        Key("backend", kinds.word("auto", "af_packet", "af_xdp", "xdp_live"),
            'How it sends and receives; "auto": as suits the device, the only way with DPDK.', "auto"),
        Key("runs_on", kinds.machine_name(),
            "The host on which it runs; \"lab\": the machine on which the lab runs. `cpus` are that host's. Every "
            "port then has an `interface` and an `engine_interface`.", Unset("the DUT's host")),
        Key("clock_error_us", kinds.number(0, 1e9),
            "By how much the clocks of the hosts of two engines may be apart, microseconds: the bound that PTP or "
            "chrony gives. One-way latency is reported with it as its error.",
            Unset("not known: no latency where two engines measure")),
    ),
)  # fmt: skip

"""What a bench is made of. Every resource is data: it can be listed, journalled and removed.

A resource names everything that is needed to remove it, so that `pinchpoint clean`
can do so in another process, after a crash, from the journal alone.
"""

from typing import ClassVar

import msgspec

from pinchpoint.host.interface import COMMAND_TIMEOUT_S, shell_line
from pinchpoint.host.processes import ENVIRONMENT_MARK
from pinchpoint.model import units


class Resource(msgspec.Struct, frozen=True, tag_field="kind", forbid_unknown_fields=True):
    """Base of all resources; `describe` is the line that `--dry-run` prints."""

    def describe(self) -> str:
        """What would have to be typed to make this by hand."""
        raise NotImplementedError


class RunDirectory(Resource, frozen=True, tag="run_directory"):
    """A folder for sockets, databases and logs of this bench."""

    path: str

    def describe(self) -> str:
        return f"mkdir {self.path}"


def folder_of_copies(bench_id: str) -> RunDirectory:
    """What the machine hands to a guest that holds the bench: guests see its /tmp (guest_init.sh)."""
    return RunDirectory(f"/tmp/pinchpoint-{bench_id}")


class MarkedProcesses(Resource, frozen=True, tag="marked_processes"):
    """Every process with this bench's mark in its environment, the engine's included."""

    bench_id: str

    def describe(self) -> str:
        return f"mark processes with {ENVIRONMENT_MARK}={self.bench_id}"


class Hugepages(Resource, frozen=True, tag="hugepages"):
    """2 MiB pages added to the host's pool and given back at the end."""

    before: int
    after: int
    needed: int = 0  # that have to be available once they are added; 0: as many as are added

    def describe(self) -> str:
        return f"sysctl vm.nr_hugepages={self.after}    # was {self.before}"


class Namespace(Resource, frozen=True, tag="namespace"):
    """A network namespace with lo up and IPv6 off, so that no frame is the kernel's own idea."""

    name: str

    def describe(self) -> str:
        return f"ip netns add {self.name}"


class Veth(Resource, frozen=True, tag="veth"):
    """A veth pair, one end in each of two namespaces, both up."""

    name: str
    netns: str
    peer: str
    peer_netns: str
    mtu: int
    queues: int = 1  # of each end, in each direction

    def describe(self) -> str:
        queues = " ".join(f"num{way}queues {self.queues}" for way in ("tx", "rx"))
        near = f"name {self.name} netns {self.netns} mtu {self.mtu} {queues}"
        return f"ip link add {near} type veth peer name {self.peer} netns {self.peer_netns} mtu {self.mtu} {queues}"


class LentInterface(Resource, frozen=True, tag="lent_interface"):
    """An interface of the host that the bench moves into one of its namespaces, and gives back as it was.

    A namespace that is deleted takes a veth end with it, so that comes after this is removed.
    """

    interface: str  # its name on the host
    netns: str
    name: str  # there
    mtu: int  # there
    mtu_before: int
    was_up: bool
    addresses: tuple[tuple[str, ...], ...]  # each as the words that ip-address(8) takes
    steering: str = ""  # CPUs to which its receive packets were steered (rps_cpus); empty: it has no such file
    mac: str = ""  # before; empty: not known
    was_promiscuous: bool = False
    offloads: tuple[tuple[str, str], ...] = ()  # ("tx", "on"), ...: as `ethtool -K` takes them
    stamped_before: str = ""  # what it stamped of what it received, a number of `hwstamp_ctl -r`; empty: left as it is

    def describe(self) -> str:
        before = ", ".join(("up" if self.was_up else "down", *(words[0] for words in self.addresses)))
        lent = f"ip link set dev {self.interface} netns {self.netns} name {self.name} mtu {self.mtu} up"
        stamps = f"; ip netns exec {self.netns} hwstamp_ctl -i {self.name} -r 1" if self.stamped_before else ""
        return f"{lent}{stamps}    # was mtu {self.mtu_before}, {before}"


class Host(Resource, frozen=True, tag="host"):
    """A namespace with one addressed interface, `eth0`, whose other end lies in the switch's namespace.

    Without `offloads` its checksums are complete when they leave it (ethtool(8), tx off),
    and its segments fit the link.
    """

    netns: str
    address: str  # IPv4 with prefix length
    peer: str
    peer_netns: str
    mtu: int
    offloads: bool

    INTERFACE: ClassVar[str] = "eth0"

    def describe(self) -> str:
        link = f"ip link add name {self.peer} netns {self.peer_netns} mtu {self.mtu} type veth"
        link += f" peer name {self.INTERFACE} netns {self.netns} mtu {self.mtu}"
        address = f"ip -n {self.netns} address add {self.address} dev {self.INTERFACE}"
        offloads = "" if self.offloads else f"; ip netns exec {self.netns} ethtool -K {self.INTERFACE} tx off tso off"
        return f"ip netns add {self.netns}; {link}; {address}{offloads}"


class TextFile(Resource, frozen=True, tag="text_file"):
    """A file inside the run directory. `lines` is a recipe: its expansion may be long."""

    path: str
    lines: tuple[str, ...]
    series: tuple[tuple[str, int, int], ...] = ()  # (template, count, first)

    def describe(self) -> str:
        total = len(self.lines) + sum(count for _, count, _ in self.series)
        return f"write {self.path}    # {units.counted(total, 'line')}"


class Command(Resource, frozen=True, tag="command"):
    """A command whose effect lives inside another resource and ends with it."""

    argv: tuple[str, ...]
    netns: str | None = None
    environment: tuple[tuple[str, str], ...] = ()
    timeout_s: float = COMMAND_TIMEOUT_S

    def describe(self) -> str:
        return shell_line(self.argv, self.netns, None)


class Daemon(Resource, frozen=True, tag="daemon"):
    """A daemon that detaches itself once it is ready and writes its pid to `pidfile`."""

    GRACE_S: ClassVar[float] = 3.0  # between SIGTERM and SIGKILL

    name: str
    argv: tuple[str, ...]
    pidfile: str
    log: str
    bench_id: str
    netns: str | None = None
    cpus: tuple[int, ...] | None = None
    environment: tuple[tuple[str, str], ...] = ()
    memory_nodes: tuple[int, ...] | None = None  # NUMA nodes that its memory is taken from; None: any

    def describe(self) -> str:
        line = shell_line(self.argv, self.netns, self.cpus)
        if self.memory_nodes is None:
            return line
        return f"{line}    # memory of NUMA node {', '.join(map(str, self.memory_nodes))}"


class Relay(Resource, frozen=True, tag="relay"):
    """A process that stays in the foreground and copies frames between pairs of ports (`pinchpoint-engine relay`).

    It exists once it has written `ready` to `account`: its ports are open and their links up; one that is
    not `awaited` once it runs, since its links come up only with what is started after it. To that file it
    appends its account so far, one line of JSON, on every SIGUSR1 and when it ends.
    """

    GRACE_S: ClassVar[float] = 3.0  # between SIGTERM and SIGKILL
    LINK_TIMEOUT_S: ClassVar[float] = 20.0  # for one vhost-user port: the switch looks about once a second

    name: str
    argv: tuple[str, ...]
    directions: tuple[tuple[str, str], ...]  # (from, to), words for people, in the order of the account
    pidfile: str
    account: str
    log: str
    bench_id: str
    cpu: int
    environment: tuple[tuple[str, str], ...] = ()
    awaited: bool = True

    def describe(self) -> str:
        return f"{shell_line(self.argv, None, (self.cpu,))} > {self.account} &"


class TapLinks(Resource, frozen=True, tag="tap_links"):
    """The taps that a userspace switch makes for its internal ports, however many.

    Planned after the switch, they are removed before it ends: together, in a moment. A switch that
    ends with them leaves them to the kernel, which takes 20 ms for each.
    """

    netns: str

    def describe(self) -> str:
        return f"taps of internal ports in {self.netns}    # made by the switch, removed together"


class Tap(Resource, frozen=True, tag="tap"):
    """A tap: what is sent into it, the program that opens it reads as frames, and the other way round."""

    name: str
    netns: str
    mtu: int

    def describe(self) -> str:
        return f"ip -n {self.netns} tuntap add dev {self.name} mode tap    # mtu {self.mtu}, up"


class GuestKernel(Resource, frozen=True, tag="guest_kernel"):
    """A kernel of its own, as a process of this machine; all that is in it ends with it.

    It exists once its agent answers. `argv` holds the name of the line to the agent in braces (`host/guest.py`).
    """

    BOOT_TIMEOUT_S: ClassVar[float] = 240.0  # emulated, 16 to 34 s were seen with three busy threads to a core
    GRACE_S: ClassVar[float] = 0.0  # between SIGTERM and SIGKILL: nothing of it lasts

    argv: tuple[str, ...]
    pidfile: str
    kernel_pidfile: str  # of the process that is the kernel; the other one waits for its end
    log: str
    bench_id: str
    netns: str
    cpus: tuple[int, ...]
    threads: tuple[tuple[str, int], ...] = ()  # (pattern of the name, CPU) of those that are kept to one of `cpus`
    name: str = ""  # among the bench's guests

    def describe(self) -> str:
        kept = "; ".join(f"thread {name} on CPU {cpu}" for name, cpu in self.threads)
        return f"{shell_line(self.argv, self.netns, self.cpus)} &" + (f"    # {kept}" if kept else "")


class NoIommu(Resource, frozen=True, tag="no_iommu"):
    """Leave for vfio to give devices to processes without an IOMMU: such a device can reach any memory."""

    before: str  # what the module's parameter was; empty: the module was not loaded

    def describe(self) -> str:
        return "modprobe vfio enable_unsafe_noiommu_mode=1    # was " + (self.before or "not loaded")


class Nic(Resource, frozen=True, tag="nic"):
    """A network card in the bench's hands; as it was found, it is given back.

    With `driver` that one is bound in the place of its own. Without, its own stays, and its interface goes to `netns`.
    """

    address: str  # of PCI, with its domain
    bench_id: str  # whose processes may have it open
    driver: str  # e.g. vfio-pci; empty: the one that is bound stays
    driver_before: str  # empty: there was none
    override_before: str = ""  # the one driver that could be bound; empty: any
    interface: str = ""  # empty: there was none
    mtu: int = 0
    is_up: bool = False
    addresses: tuple[str, ...] = ()  # with the lengths of their prefixes
    routes: tuple[str, ...] = ()  # as `ip route replace` takes them, without the interface
    netns: str = ""  # where the interface goes; empty: it stays

    def describe(self) -> str:
        was = self.driver_before or "no driver"
        if self.interface:
            was += f", {self.interface} {'up' if self.is_up else 'down'}, MTU {self.mtu}"
            was += "".join(f", {address}" for address in self.addresses)
        if self.driver:
            return f"bind {self.address} to {self.driver}    # was {was}"
        moved = f"; ip link set dev {self.interface} netns {self.netns}" if self.netns else ""
        return f"take {self.address}, driver stays{moved}    # {was}"


class Uptime(Resource, frozen=True, tag="uptime"):
    """A kernel that has run for so long."""

    seconds: int

    def describe(self) -> str:
        return f"wait until the kernel has run for {self.seconds} s"


class Inside(Resource, frozen=True, tag="inside"):
    """A resource of a guest of the bench, made there. It ends with the guest, or before it where a plan says so."""

    resource: "AnyResource"
    guest: str = ""  # its name among the bench's guests

    def describe(self) -> str:
        return f"in the guest{f' {self.guest}' if self.guest else ''}: {self.resource.describe()}"


AnyResource = (
    RunDirectory | MarkedProcesses | Hugepages | Namespace | Veth | LentInterface | Host | TextFile | Command | Daemon
    | Relay | TapLinks | Tap | GuestKernel | NoIommu | Nic | Uptime | Inside
)  # fmt: skip

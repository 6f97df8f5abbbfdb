"""Devices that are the kernel itself, between veth ports: where their softirqs run, how loaded those CPUs are.

Over veth the receive softirq runs on the CPU that sends, which is the engine's. Receive packet steering (RPS;
Documentation/networking/scaling.rst) moves it: the frames of each flow wait in the backlog of one of the chosen CPUs,
are forwarded there, and cross the second veth link there too. `/proc/net/softnet_stat` counts the frames of a CPU on
both links, and those of every other interface of the host.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import ClassVar

from pinchpoint.bench.requirements import Probe
from pinchpoint.bench.resource import AnyResource, Command, Namespace, TextFile
from pinchpoint.dut import checks
from pinchpoint.dut.attach import by_veth, engine_links, foundation, trunk, veths
from pinchpoint.dut.device import Attachment, Bench, Device, Live, Pages, RawScenario, Seen, between
from pinchpoint.dut.places import Places
from pinchpoint.host.interface import PROC, CommandFailed, Host
from pinchpoint.host.interfaces import steering_file
from pinchpoint.keys import kinds
from pinchpoint.keys.key import Key
from pinchpoint.keys.reader import Values
from pinchpoint.model.causes import Sign
from pinchpoint.model.errors import BenchError, InputError, PinchpointError
from pinchpoint.model.frames import is_group, macs
from pinchpoint.model.hops import DropCounter, DropKind, HopGraph, Party, Place, Refused
from pinchpoint.model.limits import Limit, Resource
from pinchpoint.model.scenario import Guest, Port, Scenario
from pinchpoint.model.trial import BusyBy, ThreadLoad
from pinchpoint.observe.cpu import IRQ_TIME, CpuTime, is_configured, ticks_to_seconds
from pinchpoint.observe.printed import Links, Queues
from pinchpoint.observe.snapshot import Collector, Forwarding, Snapshot, origin, paths

CPUS = Key("cpus", kinds.cpus(),
    "CPUs on which the kernel forwards. Over veth the receive softirq runs on the CPU that sends, unless receive "
    "packet steering moves it: these CPUs are set as rps_cpus of every port. One flow is always on one CPU.",
    [1])  # fmt: skip
RECEIVED = "host/link/dut/{port}/rx_packets"
SENT_OR_DROPPED = ("host/link/dut/{port}/tx_packets", "host/link/dut/{port}/tx_dropped")
SETTLES = ("host/link/", "host/queue/")
_QUEUE = "host/queue/dut/{port}"
_MEASURED = "softirq_time_measured"
BACKLOG = f"{PROC}/sys/net/core/netdev_max_backlog"
REFUSED = Refused("backlog of {port} full", Party.DUT, DropKind.KERNEL_QUEUE)
"""Sending over veth runs the receive path as far as the backlog: a send that fails has found that full."""

# The interface's own rx_dropped holds what its backlog refused (which the engine also knows as refused) and frames
# that no protocol took: it is left out, so that no frame is counted twice.
RECEIVE = Place("veth", ("host/link/engine/{port}/tx_packets",), (RECEIVED,))
SEND = Place("veth to the engine", SENT_OR_DROPPED, ("host/link/engine/{port}/rx_packets",), (
    DropCounter(SENT_OR_DROPPED[1], "backlog behind {port} full", Party.DUT, DropKind.KERNEL_QUEUE),
))  # fmt: skip


def forwarding(name: str, drops: Iterable[tuple[str, str, Party, DropKind]] = ()) -> Place:
    """The place between receiving and sending; `drops`: counter, reason, who is responsible, what was short."""
    return Place(name, (RECEIVED,), SENT_OR_DROPPED, tuple(DropCounter(*row) for row in drops))


def check(raw: RawScenario, kind: str) -> None:
    """Ports over veth with one queue each, the engine on other CPUs, its backend one that sends over veth."""
    why = f'dut.kind is "{kind}"'
    checks.between_ports(raw, kind, polls=False, ringless=why, are_two=False)
    backend = raw.tables["engine"].get("backend", "auto")
    if backend not in ("auto", "af_packet"):
        raw.mismatch(("engine", "backend"), f'"auto" or "af_packet" where {why}', backend)


def require_unicast(scenario: Scenario, why: str) -> None:
    """Raises InputError where a stream is sent to a group address; `why` ends its sentence."""
    for stream in scenario.streams:
        if is_group(to := macs(stream)):
            told = f"{scenario.path}: eth_dst = {to.written} is a group address, {why}"
            raise InputError(told, "give every stream a unicast eth_dst")


def steering(host: Host, guest: Guest | None = None) -> Probe:
    """Whether the kernel can choose the CPU of received frames; that of a guest is `vm`'s affair."""
    if guest:
        return Probe("receive packet steering", True, "not needed with a guest")
    there = host.exists(steering_file("lo"))
    detail = "there" if there else "this kernel has no rps_cpus: softirqs would run on the engine's CPU"
    return Probe("receive packet steering", there, detail, "boot a kernel with CONFIG_SMP and CONFIG_RPS")


def tags(scenario: Scenario, host: Host) -> Iterator[Probe]:
    """Whether the kernel has VLAN interfaces, where frames of the service have tags."""
    if not (scenario.service and scenario.service.vlan):
        return
    # None: its configuration cannot be read.
    there = any(is_configured(host, f"CONFIG_VLAN_8021Q={how}") is not False for how in "ym")
    detail = "there" if there else "this kernel was built without CONFIG_VLAN_8021Q"
    yield Probe("VLAN interfaces", there, detail, "leave out service.vlan, or boot a kernel that has them")


def cpu_mask(cpus: Sequence[int]) -> str:
    """CPUs as the kernel writes them: hexadecimal, 32 bits to a group, e.g. `1,00000000` for CPU 32."""
    bits = sum(1 << cpu for cpu in set(cpus))
    groups = [f"{bits >> shift & 0xFFFFFFFF:08x}" for shift in range(0, max(1, bits.bit_length()), 32)]
    return ",".join(reversed(groups))


def ports(scenario: Scenario, places: Places, pages: Pages) -> list[AnyResource]:
    """The device's namespace with its ports, their softirqs steered to its CPUs."""
    joined = [*foundation(places, pages), Namespace(places.dut_netns), *veths(scenario, places)]
    cpus = _cpus(scenario)
    names = [trunk(scenario, port) for port in scenario.ports]
    return [*joined, *(steer(names, cpus, places, "rps_cpus") if cpus else ())]


def _cpus(scenario: Scenario) -> tuple[int, ...]:
    """Those of the device, of its own kernel; none of one alone in a guest: they are of the machine around it."""
    return () if scenario.is_tapped else scenario.dut.cpus


def steer(names: Sequence[str], cpus: Sequence[int], places: Places, file: str) -> list[AnyResource]:
    """What makes the kernel steer what these ports receive to these CPUs; `file`: of the bench, with their mask."""
    mask = f"{places.directory}/{file}"
    copies = (Command(("cp", mask, steering_file(port)), places.dut_netns) for port in names)
    return [TextFile(mask, (cpu_mask(cpus),)), *copies]


def steered(host: Host, netns: str, port: str, cpus: Sequence[int], where: str = "") -> dict[str, str]:
    """To which CPUs what a port receives is steered, as read back. Raises BenchError where they are others."""
    name, wanted = f"rps_cpus of {port}{where}", cpu_mask(cpus)
    mask = host.run(["cat", steering_file(port)], netns).strip()
    if int(mask.replace(",", ""), 16) != int(wanted.replace(",", ""), 16):
        raise BenchError(f"{name}: {wanted} was set, {mask} is in force")
    return {name: mask}


def received(seen: Seen) -> float:
    """Frames that the device's ends of its ports received."""
    return sum(between(seen, "host/link/dut/", "/rx_packets").values())


def load_by_time(name: str, cpu: float | None, frames: float, spent_s: float | None, traffic_s: float) -> ThreadLoad:
    """The load of what had a CPU for `spent_s` seconds of `traffic_s`; None: not known."""
    share = None if spent_s is None or traffic_s <= 0 else min(1.0, max(0.0, spent_s / traffic_s))
    by = None if share is None else BusyBy.PROCESSOR_TIME
    return ThreadLoad(name, None if cpu is None else int(cpu), int(frames), busy_share=share, busy_by=by)


def _spent_s(cpu: int, seen: Seen) -> float | None:
    """Seconds that softirqs had the CPU; None where its kernel does not measure that.

    A kernel without CONFIG_IRQ_TIME_ACCOUNTING looks at what runs at each tick of its timer, with which paced frames
    keep step: 20,000 frames a second were seen to take none of the time in one trial and all of it in the next. Where
    it measures idle time, softirqs had what neither that nor processes explain, and at least the run time of ksoftirqd,
    to which the kernel leaves them under overload.
    """
    ticks = seen.get(f"host/cpu/{cpu}/softirq_ticks")
    if ticks is not None and seen.get(f"host/{_MEASURED}"):
        return ticks_to_seconds(ticks)
    unused, others = (seen.get(f"host/cpu/{cpu}/{name}_ticks") for name in ("unused", "processes"))
    elapsed_s = seen.get("elapsed_s/cpu-time")
    if unused is None or others is None or elapsed_s is None or not seen.get("host/idle_time_measured"):
        return None
    return max(elapsed_s - ticks_to_seconds(unused + others), seen.get(f"host/ksoftirqd/{cpu}/run_ns", 0.0) / 1e9)


_QUEUED = (f"{_QUEUE}/packets", f"{_QUEUE}/shaped", f"{_QUEUE}/full")
QUEUES = Place("queueing disciplines", _QUEUED, (f"{_QUEUE}/packets",), (
    DropCounter(f"{_QUEUE}/shaped", "beyond the rate limit of {port}", Party.RULES, DropKind.POLICER),
    DropCounter(f"{_QUEUE}/filtered", "a filter at {port}", Party.RULES, DropKind.RULE),
    DropCounter(f"{_QUEUE}/full", "queue of {port} full", Party.DUT, DropKind.KERNEL_QUEUE),
))  # fmt: skip
"""Between a device and its port (tc(8)); veth has none unless somebody adds one."""
QDISC = Limit(
    Resource.QDISC, None, None, "of the ports (tc)", refused=("host/queue/dut/*/shaped", "host/queue/dut/*/full")
)
"""What it takes from the connections of a balancer."""


class Softnet(Collector):
    """What the softirqs of each CPU did with received frames, whatever their interface."""

    name = "softnet"
    FILE = f"{PROC}/net/softnet_stat"

    def __init__(self, host: Host, cpus: Sequence[int]) -> None:
        self._host, self._cpus = host, frozenset(cpus)
        self._origin = origin(host)
        self._measured = float(is_configured(host, IRQ_TIME) is True)
        self._threads: dict[int, str] | None = None

    def can_run(self) -> str | None:
        """Always, on Linux with its CPU in the last column (5.10)."""
        try:
            is_named = bool(softnet(self._host.read(self.FILE)))
            return None if is_named else f"{self.FILE}: names no CPU; it does from Linux 5.10"
        except OSError as error:
            return str(error)

    def forwarding(self) -> Forwarding:
        """The softirqs of its CPUs."""
        return Forwarding(cpus=tuple(sorted(self._cpus)))

    def read(self, at_s: float) -> Snapshot:
        """`host/softnet/N/{processed,dropped,time_squeeze}`, `host/ksoftirqd/N/run_ns`.

        dropped: the CPU's backlog was full; time_squeeze: a softirq ended by its time or budget with frames left.
        Gauge `host/softirq_time_measured`: 0 where the kernel only samples it, or where that is not known.
        """
        by_cpu = softnet(self._host.read(self.FILE))
        counters = paths(f"{self._origin}/softnet", {cpu: by_cpu[cpu] for cpu in by_cpu if cpu in self._cpus})
        if self._threads is None:
            self._threads = _ksoftirqds(self._host, self._cpus)
        for cpu, place in self._threads.items():
            with suppress(OSError, ValueError):  # no scheduler statistics (CONFIG_SCHED_INFO)
                run_ns = self._host.read(f"{place}/schedstat").split()[0]
                counters[f"{self._origin}/ksoftirqd/{cpu}/run_ns"] = int(run_ns)
        return Snapshot(at_s, counters, {f"{self._origin}/{_MEASURED}": self._measured})


def _ksoftirqds(host: Host, cpus: Collection[int]) -> dict[int, str]:
    """The place in /proc of each CPU's ksoftirqd. They begin with the kernel: the first of their name are they."""
    wanted, places = {f"ksoftirqd/{cpu}": cpu for cpu in cpus}, dict[int, str]()
    for number in sorted((name for name in host.names(PROC) if name.isdigit()), key=int):
        if len(places) == len(wanted):
            break
        with suppress(OSError):
            if (cpu := wanted.get(host.read(f"{PROC}/{number}/comm").strip())) is not None:
                places.setdefault(cpu, f"{PROC}/{number}")
    return places


def softnet(text: str) -> dict[int, dict[str, int]]:
    """`/proc/net/softnet_stat`: CPU -> counters (net/core/net-procfs.c, softnet_seq_show)."""
    names = ("processed", "dropped", "time_squeeze")
    rows = ([int(word, 16) for word in line.split()] for line in text.splitlines())
    return {row[12]: dict(zip(names, row, strict=False)) for row in rows if len(row) > 12}


class KernelDut:
    """What a scenario says of such a device: it runs when frames come, over veth pairs to the engine's namespace."""

    polls = False
    io = "veth"


class KernelLive(Live):
    """A namespace that forwards; a kind adds its own counters and settings."""

    def __init__(self, bench: Bench) -> None:
        self._scenario, self.places = bench.scenario, bench.places
        self.words = f"a {bench.scenario.dut.kind}"

    def collectors(self) -> list[Collector]:
        """The links' counters at both ends, the kind's own, the CPUs'."""
        names, places = [port.name for port in self._scenario.ports], self.places
        ends = [*engine_links(self._scenario, places), Links(places.host, places.dut_netns, "dut", names)]
        return [Queues(places.host, places.dut_netns, "dut", names), *ends, *self.own(), *self.witnesses()]

    def run(self, *argv: str) -> str:
        """What a command prints in the device's namespace. Raises CommandFailed or RequirementError."""
        return self.places.host.run(argv, self.places.dut_netns)

    def own(self) -> list[Collector]:
        """Counters of this kind alone."""
        return []

    def witnesses(self) -> list[Collector]:
        """What the softirqs did."""
        host = self.places.host
        cpus = _cpus(self._scenario) or tuple(sorted(host.cpus()))
        return [CpuTime(host, cpus), Softnet(host, cpus)]

    def settings(self) -> Mapping[str, str]:
        """Where the softirqs of each port run. Raises BenchError where they run elsewhere."""
        host, cpus, settings = self.places.host, _cpus(self._scenario), dict[str, str]()
        for port in self._scenario.ports if cpus else ():
            settings |= steered(host, self.places.dut_netns, trunk(self._scenario, port), cpus)
        return settings | backlog_of(host)


def backlog_of(host: Host) -> dict[str, str]:
    """The host's: the bench leaves it as it is, a container does not see it."""
    return {"net.core.netdev_max_backlog": host.read(BACKLOG).strip()} if host.exists(BACKLOG) else {}


class KernelBench(Bench):
    """One bench of such a device, planned; a kind adds its resources."""

    live_type: ClassVar[type[KernelLive]]

    def open(self) -> Live:
        """The device, now that it stands. Raises DutError where it does not serve."""
        return self.live_type(self)

    def attachment(self, number: int, port: Port) -> Attachment:
        """The far end of a veth pair. Raises InputError."""
        return by_veth(self.scenario, self.places, port, "af_packet")

    def refusal(self, error: CommandFailed) -> PinchpointError | None:
        """CPUs that the kernel does not steer to."""
        if error.argv[0] != "cp":
            return None
        return BenchError(
            f"{self.scenario.path}: dut.cpus: the kernel refused to run softirqs there: {error.output}",
            "name CPUs that are not isolated (isolcpus=, nohz_full=): receive packet steering leaves those out",
        )


class KernelDevice(Device):
    """A kind of such a device; each says where it forwards."""

    forwards: ClassVar[Place]
    settles: ClassVar[tuple[str, ...]] = SETTLES

    def check(self, raw: RawScenario) -> None:
        """Its ports and its CPUs."""
        check(raw, self.kind)

    def why_no_guest(self, dut: Values) -> str:
        """Any guest's kernel is one."""
        return ""

    def graph(self, scenario: Scenario) -> HopGraph:
        """From port to port."""
        return HopGraph(REFUSED, (RECEIVE, self.forwards, QUEUES, SEND), self.settles)

    def loads(self, seen: Seen, traffic_s: float) -> tuple[ThreadLoad, ...]:
        """The softirqs of each CPU: their share of its time, and of the frames received.

        The kernel counts frames by CPU for the whole host and on both links, so the ports' frames are divided among
        the CPUs in the proportion of those.
        """
        handled = {int(cpu): n for cpu, n in between(seen, "host/softnet/", "/processed").items()}
        frames, everything = received(seen), sum(handled.values()) or 1.0
        return tuple(
            load_by_time(f"softirq on CPU {cpu}", cpu, frames * count / everything, _spent_s(cpu, seen), traffic_s)
            for cpu, count in sorted(handled.items())
        )

    def signs(self, seen: Seen) -> Mapping[Sign, float]:
        """How often softirqs stopped with frames still waiting."""
        squeezes, elapsed_s = between(seen, "host/softnet/", "/time_squeeze"), seen.get("elapsed_s/softnet")
        return {Sign.SQUEEZES: sum(squeezes.values()) / elapsed_s} if squeezes and elapsed_s else {}

"""Devices that are the kernel itself, between veth ports: where their softirqs run, how loaded those CPUs are.

Over veth the receive softirq runs on the CPU that sends, which is the engine's. Receive packet steering (RPS;
Documentation/networking/scaling.rst) moves it: the frames of each flow wait in the backlog of one of the chosen CPUs,
are forwarded there, and cross the second veth link there too. `/proc/net/softnet_stat` counts the frames of a CPU on
both links, and those of every other interface of the host.
"""

import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from pinchpoint.bench.requirements import Probe
from pinchpoint.bench.resource import AnyResource, Command, Namespace, TextFile
from pinchpoint.dut import checks
from pinchpoint.dut.attach import by_veth, foundation, veths
from pinchpoint.dut.device import Attachment, Pages, PlainBench, PlainLive, RawScenario, Seen
from pinchpoint.dut.multi_host import engine_links
from pinchpoint.dut.places import Places
from pinchpoint.host.interface import PROC, SYS, CommandFailed, Host
from pinchpoint.keys import kinds
from pinchpoint.keys.key import Key
from pinchpoint.keys.source import Source
from pinchpoint.model.causes import Sign
from pinchpoint.model.errors import BenchError, PinchpointError
from pinchpoint.model.hops import DropCounter, DropKind, Party, Place, Refused
from pinchpoint.model.scenario import Guest, Port, Scenario
from pinchpoint.model.trial import BusyBy, ThreadLoad
from pinchpoint.observe.cpu import CpuTime, irq_time_is_separate, ticks_to_seconds
from pinchpoint.observe.printed import Links, Queues
from pinchpoint.observe.snapshot import Collector, Forwarding, Snapshot, origin

CPUS = Key(
    "cpus",
    kinds.cpus(),
    "CPUs on which the kernel forwards. Over veth the receive softirq runs on the CPU that sends, unless receive "
    "packet steering moves it: these CPUs are set as rps_cpus of every port. One flow is always on one CPU.",
    [1],
)
RECEIVED, SENT = "host/link/dut/{port}/rx_packets", "host/link/dut/{port}/tx_packets"
SETTLES = ("host/link/", "host/queue/")
_QUEUE = "host/queue/dut/{port}"
_MEASURED = "softirq_time_measured"
_BACKLOG = f"{PROC}/sys/net/core/netdev_max_backlog"
REFUSED = Refused("backlog of {port} full", Party.DUT, DropKind.KERNEL_QUEUE)
"""Sending over veth runs the receive path as far as the backlog: a send that fails has found that full."""

# The interface's own rx_dropped holds what its backlog refused (which the engine also knows as refused) and frames
# that no protocol took: it is left out, so that no frame is counted twice.
RECEIVE = Place("veth", ("host/link/engine/{port}/tx_packets",), (RECEIVED,))
SEND = Place(
    "veth to the engine",
    (SENT, "host/link/dut/{port}/tx_dropped"),
    ("host/link/engine/{port}/rx_packets",),
    (DropCounter("host/link/dut/{port}/tx_dropped", "backlog behind {port} full", Party.DUT, DropKind.KERNEL_QUEUE),),
)


def check(raw: RawScenario, source: Source, kind: str) -> None:
    """Ports over veth with one queue each, the engine on other CPUs, its backend one that sends over veth."""
    why = f'dut.kind is "{kind}"'
    checks.own_cpus(raw, source, "cpus", polls=False)
    checks.no_vhost(raw, source, why)
    checks.no_hosts(raw, source, kind)
    checks.names(raw, source)
    checks.one_queue(raw, source, why)
    backend = raw.tables["engine"].get("backend", "auto")
    if backend not in ("auto", "af_packet"):
        source.mismatch(("engine", "backend"), f'"auto" or "af_packet" where {why}', backend)


def steering(host: Host, guest: Guest | None = None) -> Probe:
    """Whether the kernel can choose the CPU of received frames; that of a guest is `guest_cpus`'s affair."""
    if guest:
        return Probe("receive packet steering", True, "this machine's is not needed with a guest")
    there = host.exists(f"{SYS}/class/net/lo/queues/rx-0/rps_cpus")
    detail = "there" if there else "this kernel has no rps_cpus: softirqs would run on the engine's CPU"
    return Probe("receive packet steering", there, detail, "boot a kernel with CONFIG_SMP and CONFIG_RPS")


def cpu_mask(cpus: Sequence[int]) -> str:
    """CPUs as the kernel writes them: hexadecimal, 32 bits to a group, e.g. `1,00000000` for CPU 32."""
    bits = sum(1 << cpu for cpu in set(cpus))
    groups = [f"{bits >> shift & 0xFFFFFFFF:08x}" for shift in range(0, max(1, bits.bit_length()), 32)]
    return ",".join(reversed(groups))


def as_number(mask: str) -> int:
    """CPUs as the kernel writes them, as bits."""
    return int(mask.replace(",", ""), 16)


def ports(scenario: Scenario, places: Places, pages: Pages) -> list[AnyResource]:
    """The device's namespace with its ports, their softirqs steered to its CPUs."""
    mask = f"{places.directory}/rps_cpus"
    joined = [*foundation(places, pages), Namespace(places.dut_netns), *veths(scenario, places)]
    if scenario.guest:  # these CPUs are this machine's
        return joined
    return [
        *joined,
        TextFile(mask, (cpu_mask(scenario.dut.cpus),)),
        *(Command(("cp", mask, steering_file(port.name)), places.dut_netns) for port in scenario.ports),
    ]


def steering_file(port: str) -> str:
    """Where the kernel keeps the CPUs to which it steers what a port receives."""
    return f"{SYS}/class/net/{port}/queues/rx-0/rps_cpus"


def loads(seen: Seen, traffic_s: float) -> tuple[ThreadLoad, ...]:
    """The softirqs of each CPU: their share of its time, and of the frames received.

    The kernel counts frames by CPU for the whole host and on both links, so the ports' frames are divided among
    the CPUs in the proportion of those.
    """
    processed = {
        int(name.split("/")[2]): count
        for name, count in seen.items()
        if name.startswith("host/softnet/") and name.endswith("/processed")
    }
    received = sum(n for name, n in seen.items() if name.startswith("host/link/dut/") and name.endswith("/rx_packets"))
    everything = sum(processed.values())
    return tuple(
        _load(cpu, int(received * count / everything) if everything else 0, seen, traffic_s)
        for cpu, count in sorted(processed.items())
    )


def _load(cpu: int, received: int, seen: Seen, traffic_s: float) -> ThreadLoad:
    spent_s = _spent_s(cpu, seen) if traffic_s > 0 else None
    share = None if spent_s is None else min(1.0, max(0.0, spent_s / traffic_s))
    by = None if share is None else BusyBy.PROCESSOR_TIME
    return ThreadLoad(f"softirq on CPU {cpu}", cpu, received, busy_share=share, busy_by=by)


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


def signs(seen: Seen) -> Mapping[Sign, float]:
    """What softirqs tell of themselves: how often they stopped with frames still waiting."""
    squeezes = [n for name, n in seen.items() if name.startswith("host/softnet/") and name.endswith("/time_squeeze")]
    elapsed_s = seen.get("elapsed_s/softnet")
    return {Sign.SQUEEZES: sum(squeezes) / elapsed_s} if squeezes and elapsed_s else {}


QUEUES = Place(
    "queueing disciplines",
    (f"{_QUEUE}/packets", f"{_QUEUE}/shaped", f"{_QUEUE}/full"),
    (f"{_QUEUE}/packets",),
    (
        DropCounter(f"{_QUEUE}/shaped", "beyond the rate limit of {port}", Party.RULES, DropKind.POLICER),
        DropCounter(f"{_QUEUE}/filtered", "a filter at {port}", Party.RULES, DropKind.RULE),
        DropCounter(f"{_QUEUE}/full", "queue of {port} full", Party.DUT, DropKind.KERNEL_QUEUE),
    ),
)
"""Between a device and its port (tc(8)); veth has none unless somebody adds one."""


class Softnet:
    """What the softirqs of each CPU did with received frames, whatever their interface."""

    name = "softnet"
    FILE = f"{PROC}/net/softnet_stat"

    def __init__(self, host: Host, cpus: Sequence[int]) -> None:
        self._host, self._cpus = host, frozenset(cpus)
        self._origin = origin(host)
        self._measured = float(irq_time_is_separate(host) is True)
        self._threads: dict[int, str] | None = None

    def can_run(self) -> str | None:
        """Always, on Linux with its CPU in the last column (5.10)."""
        try:
            return (
                None if softnet(self._host.read(self.FILE)) else f"{self.FILE}: names no CPU; it does from Linux 5.10"
            )
        except OSError as error:
            return str(error)

    def forwarding(self) -> Forwarding:
        """The softirqs of its CPUs."""
        return Forwarding(cpus=tuple(sorted(self._cpus)))

    def snapshot(self) -> Snapshot:
        """`host/softnet/N/{processed,dropped,time_squeeze}`, `host/ksoftirqd/N/run_ns`.

        dropped: the CPU's backlog was full; time_squeeze: a softirq ended by its time or budget with frames left.
        Gauge `host/softirq_time_measured`: 0 where the kernel only samples it, or where that is not known.
        """
        at_s = time.monotonic()
        counters = {
            f"{self._origin}/softnet/{cpu}/{name}": value
            for cpu, values in softnet(self._host.read(self.FILE)).items()
            if cpu in self._cpus
            for name, value in values.items()
        }
        if self._threads is None:
            self._threads = _ksoftirqds(self._host, self._cpus)
        for cpu, place in self._threads.items():
            with suppress(OSError, ValueError):  # no scheduler statistics (CONFIG_SCHED_INFO)
                counters[f"{self._origin}/ksoftirqd/{cpu}/run_ns"] = int(
                    self._host.read(f"{place}/schedstat").split()[0]
                )
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
    counters = {}
    for line in text.splitlines():
        words = [int(word, 16) for word in line.split()]
        if len(words) > 12:
            counters[words[12]] = dict(zip(("processed", "dropped", "time_squeeze"), words, strict=False))
    return counters


class KernelLive(PlainLive):
    """A namespace that forwards; a kind adds its own counters and settings."""

    def __init__(self, scenario: Scenario, places: Places) -> None:
        self._scenario, self.places = scenario, places
        self.words = f"a {scenario.dut.kind}"

    def collectors(self) -> list[Collector]:
        """The links' counters at both ends, the kind's own, the CPUs'."""
        names, places = [port.name for port in self._scenario.ports], self.places
        ends = [*engine_links(self._scenario, places), Links(places.host, places.dut_netns, "dut", names)]
        queues = Queues(places.host, places.dut_netns, "dut", names)
        return [queues, *ends, *self.own(), *self.witnesses()]

    def own(self) -> list[Collector]:
        """Counters of this kind alone."""
        return []

    def witnesses(self) -> list[Collector]:
        """What the softirqs did."""
        host = self.places.host
        cpus = self._scenario.dut.cpus if self._scenario.guest is None else sorted(host.cpus())
        return [CpuTime(host, cpus), Softnet(host, cpus)]

    def settings(self) -> Mapping[str, str]:
        """Where the softirqs of each port run. Raises BenchError where they run elsewhere."""
        wanted, in_force = cpu_mask(self._scenario.dut.cpus), {}
        for port in self._scenario.ports if self._scenario.guest is None else ():
            mask = self.places.host.run(["cat", steering_file(port.name)], self.places.dut_netns).strip()
            if as_number(mask) != as_number(wanted):
                raise BenchError(f"rps_cpus of {port.name}: {wanted} was set, {mask} is in force")
            in_force[f"rps_cpus of {port.name}"] = mask
        if self.places.host.exists(_BACKLOG):  # the host's: the bench leaves it as it is, a container does not see it
            in_force["net.core.netdev_max_backlog"] = self.places.host.read(_BACKLOG).strip()
        return in_force


@dataclass(frozen=True)
class KernelBench(PlainBench):
    """One bench of such a device, planned; a kind adds its resources."""

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

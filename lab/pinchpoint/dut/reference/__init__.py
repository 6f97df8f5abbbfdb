"""A forwarder whose truth is known: rate, ring, losses, pauses; its counters may lie (`pinchpoint-engine forward`).
With a [service] it is a balancer whose limits, time-outs and faults are known (`pinchpoint-engine balance`).

What the lab says of it can be compared with what is true, with real frames. A trial of T seconds loses nothing at up
to `dut.rate_fps` + `dut.ring` / T: what the ring holds when the sending ends is still forwarded.

`spec`     what a scenario says of it: its keys, and the engine's options
`account`  what the running device prints of itself, and the truth; its hop graphs
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from pinchpoint.bench.requirements import Probe, command, hugepages
from pinchpoint.bench.resource import AnyResource, Relay
from pinchpoint.dut import attach, checks
from pinchpoint.dut.device import Attachment, Bench, Device, Freezing, Pages, RawScenario, Seen, Starter, Types, dut_of
from pinchpoint.dut.reference import account
from pinchpoint.dut.reference.spec import KEYS, ReferenceDut, balancing_options, check_balancing
from pinchpoint.host.interface import Host
from pinchpoint.model.causes import Experiment, Sign
from pinchpoint.model.hops import HopGraph
from pinchpoint.model.scenario import Port, Scenario
from pinchpoint.model.trial import ThreadLoad

PROCESS = "reference"
LARGEST_RING = 4096  # of a counter-experiment: more would be a rate of its own in a trial of a tenth of a second


class ReferenceBench(Bench):
    """A reference device, planned."""

    def resources(self, pages: Pages, engine: Sequence[str]) -> list[AnyResource]:
        """What every bench has, its hugepages and the process."""
        return [*attach.foundation(self.places, pages, attach.vhost_pages(self.scenario)), self._process(engine)]

    def attachment(self, number: int, port: Port) -> Attachment:
        """The far end of its vhost-user port. Raises InputError."""
        end = attach.by_dpdk(self.scenario, self.places, number, port)
        return replace(end, ring_behind=dut_of(self.scenario, ReferenceDut).ring)

    def facts(self) -> Mapping[str, str]:
        """What is true of it, as its options."""
        return {"reference": " ".join(self._options())}

    def open(self) -> account.ReferenceLive | account.BalancingLive:
        """It answers once the engine has opened its ports."""
        host, process = self.places.host, self._process(())
        if self.scenario.service is None:
            return account.ReferenceLive(account.Ports(host, process, self._names(), account.Forwarder))
        return account.BalancingLive(account.Ports(host, process, self._names(), account.Balancer), host, process)

    def _options(self) -> tuple[str, ...]:
        dut, service = dut_of(self.scenario, ReferenceDut), self.scenario.service
        return tuple(balancing_options(dut, service) if service else dut.options())

    def _names(self) -> tuple[str, str]:
        """Its ports; of a balancer, that of the clients first."""
        service, (left, right) = self.scenario.service, self.scenario.ports
        return (service.client_port, service.server_port) if service else (left.name, right.name)

    def _process(self, engine: Sequence[str]) -> Relay:
        names, word = self._names(), "balance" if self.scenario.service else "forward"
        ports, options = attach.at_vhost_sockets(self.scenario, self.places, names)
        argv = (*engine, word, *ports, *options, *self._options())
        # Its links come up when the engine opens its own ends.
        return attach.engine_process(self.places, PROCESS, argv, [names], self.scenario.dut.cpus[0], awaited=False)


class ReferenceDevice(Device):
    """The kind `reference`: the engine as a device whose faults and counters are exactly what the scenario plants."""

    bench_type = ReferenceBench

    def check(self, raw: RawScenario) -> None:
        """A forwarder or a balancer between two ports."""
        dut = raw.dut
        checks.between_ports(raw, self.kind, polls=True)
        if len(dut.get("cpus", ())) > 1:
            raw.mismatch(("dut", "cpus"), "one CPU", list(dut["cpus"]))
        every_ms, pause_ms = dut.get("pause_every_ms"), dut.get("pause_ms", 0.0)
        if dut.get("offload_rate_fps") is not None and not dut.get("offload"):
            raw.mismatch(("dut", "offload"), '"all" or "two-way" with dut.offload_rate_fps', "")
        if (every_ms or 0.0) <= pause_ms and (every_ms is not None or pause_ms):
            raw.mismatch(("dut", "pause_ms"), "less than dut.pause_every_ms", pause_ms)
        check_balancing(raw)

    def needs(self, scenario: Scenario, host: Host) -> Iterator[Probe]:
        """Hugepages, and taskset to pin the process."""
        yield command(host, "taskset", "util-linux")
        yield hugepages(host, attach.vhost_pages(scenario), "set engine.memory_mb to less")

    def pages(self, scenario: Scenario) -> int:
        """Those of device and engine."""
        return attach.vhost_pages(scenario)

    def freezing(self, scenario: Scenario) -> Freezing:
        """By stopping its one process."""
        return Freezing(PROCESS)

    def graph(self, scenario: Scenario) -> HopGraph:
        """Receives, queues, looks up, sends; each place has its own drop counters."""
        return (account.Forwarder if scenario.service is None else account.Balancer).graph()

    def loads(self, seen: Seen, traffic_s: float) -> tuple[ThreadLoad, ...]:
        """Its one thread, which counts no cycles."""
        received = [int(frames) for name, frames in seen.items() if name.endswith("/received")]
        return (ThreadLoad("reference device", None, sum(received)),) if received else ()

    def signs(self, seen: Seen) -> Mapping[Sign, float]:
        """What it claims of its offload, and what software handled of the frames that its ring could hold."""
        counts = [(name.rpartition("/")[2], n) for name, n in seen.items() if name.startswith("reference/port/")]
        software, handled = (sum(n for key, n in counts if key == word) for word in ("software_frames", "queued"))
        shares = {Sign.SOFTWARE: software / handled} if handled else {}
        return shares | ({Sign.CLAIMED: seen["reference/offloaded"]} if "reference/offloaded" in seen else {})

    def experiments(self, scenario: Scenario) -> Mapping[Experiment, Scenario]:
        """Nothing planted but its rate; a ring that bridges its pauses."""
        dut = dut_of(scenario, ReferenceDut)
        plain = replace(
            dut, drop="", new_flow_us=0.0, rx_loss=0.0, table_loss=0.0, tx_loss=0.0, pause_every_ms=None, pause_ms=0.0
        )
        duts = {Experiment.PLAIN: plain, Experiment.LARGE_RING: replace(dut, ring=max(dut.ring, LARGEST_RING))}
        return {kind: replace(scenario, dut=changed) for kind, changed in duts.items() if changed != dut}


# At a rate that every machine forwards.
_STARTER = Starter(rank=50, kind="reference", words="the engine's reference device", title="Reference device, 500 kpps",
    why="a forwarder of known truth, to see whether the lab finds what is true",
    dut='kind = "reference"\nrate_fps = 500_000\nring = 1024\ncpus = {cpus}',
    polls=True, backend="dpdk", ring=1024)  # fmt: skip
_TITLE = "a forwarder or a balancer of known truth"
DEVICE = ReferenceDevice("reference", _TITLE, Types(ReferenceDut), KEYS, starters=(_STARTER,))

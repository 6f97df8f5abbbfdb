"""Trials out of the simulated engine, for tests of search and validity."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from simulated import SimulatedInstrument, Truth

from pinchpoint.account.validity import judge
from pinchpoint.dut import registry
from pinchpoint.engine.instrument import EngineResult, TrialRequest
from pinchpoint.model.scenario import Range, Scenario, Search, SearchMethod, Stream, Validity
from pinchpoint.model.trial import Drop, Hop, Ledger, Sample, Trial, Witness
from pinchpoint.scenario import parse

RULES = Validity(shortfall_ratio=0.001, gap_shortfall_ratio=0.05, quiet_within_s=0.0, unexplained_ratio=1e-4)


def scenario_text(measure: str = "rates", more: str = "", datapath: str = "dpdk") -> str:
    """The smallest scenario that sends frames: one stream from left to right."""
    return f"""
title = "simulated"
measure = "{measure}"
[dut]
kind = "ovs"
datapath = "{datapath}"
pmd_cpus = [1]
rules = "in_port={{left}},actions=output:{{right}}"
[[port]]
name = "left"
[[port]]
name = "right"
[engine]
cpus = [0]
[[stream]]
from = "left"
to = "right"
{more}
"""


REQUIRED = {"ovs": 'datapath = "af_packet"\npmd_cpus = [1]\nrules = "actions=NORMAL"'}  # keys of [dut], by its kind
OF_A_KIND = """
title = "two ports"
[dut]
kind = "{kind}"
{dut}
[[port]]
name = "left"
[[port]]
name = "right"
[engine]
cpus = [0]
[[stream]]
from = "left"
to = "right"
ipv4_dst = "198.19.0.1-198.19.0.20"
{more}
"""

ONLY_SERVED = tuple(
    kind for kind in registry.kinds() if (can := registry.device(kind).keys.services) and can.is_required
)
"""Kinds that do nothing but balance a service."""
SERVED = """
[service]
address = "10.0.0.100"
port = 80
clients = "10.0.1.1-10.0.1.4"
local = "10.1.0.240"
[[backend]]
address = "10.1.0.1"
[[backend]]
address = "10.1.0.2"
"""


def served_text(kind: str, dut: str = "") -> str:
    """A service of two backends behind a device of a kind that balances."""
    service = SERVED
    if kind == "xdp":
        service = service.replace('local = "10.1.0.240"', 'mode = "direct-return"\nscheduler = "hash"')
    return 'measure = "verify"' + OF_A_KIND.partition("[[stream]]")[0].format(kind=kind, dut=dut) + service


def scenario_of(kind: str, dut: str = "", more: str = "") -> Scenario:
    """Two ports of a device of any kind, and one stream of 20 destinations from left to right; or a service."""
    if kind in ONLY_SERVED:
        return parse(served_text(kind, dut) + more, "x.toml")
    return parse(OF_A_KIND.format(kind=kind, dut=f"{REQUIRED.get(kind, '')}\n{dut}", more=more), "x.toml")


TWO_PORTS = parse(scenario_text(), "simulated.toml")


def search_with(**changes: object) -> Search:
    """CSIT's goals, except for `changes`."""
    fields: dict[str, object] = {
        "method": SearchMethod.MLRSEARCH,
        "confidence": 0.95,
        "max_traffic_s": 60.0,
        "min_load_fps": 10_000.0,
        "max_load_fps": 20e6,
        "loss_ratios": (0.0, 0.005),
        "trial_duration_s": 1.0,
        "initial_trial_duration_s": 1.0,
        "duration_sum_s": 21.0,
        "exceed_ratio": 0.5,
        "relative_width": 0.005,
        "preceding_targets": 2,
        "expansion_coefficient": 2,
        "max_duration_s": 600.0,
        "max_repeats": 8,
        "drain_s": 0.1,
    }
    return Search(**(fields | changes))  # type: ignore[arg-type]


def stream(share: float = 1.0, tx_port: str = "left", rx_port: str = "right") -> Stream:
    """A stream of 64-byte frames with one five-tuple."""
    single = Range(1, 1)
    order = ("ipv4_dst", "ipv4_src", "udp_dst", "udp_src")
    source, destination = "02:00:00:00:00:01", "02:00:00:00:00:02"
    return Stream(tx_port, rx_port, 64, share, source, destination, single, single, single, single, order, 1)


def request(load_fps: float, duration_s: float = 1.0, streams: tuple[Stream, ...] | None = None) -> TrialRequest:
    """A request for one trial."""
    return TrialRequest("t", 1, duration_s, 0.1, load_fps, streams or (stream(),), ((0, 1),))


@dataclass
class Bench:
    """A simulated bench that remembers every trial it ran; `measure` is a search's Measure."""

    truth: Truth
    names_losses: bool = True  # whether counters of the DUT name what it loses
    rules: Validity = RULES
    slices: int = 0  # samples of each trial; 0: none
    trials: list[Trial] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.instrument = SimulatedInstrument(self.truth)
        self.instrument.open()

    def now_s(self) -> float:
        return self.instrument.now_s()

    def measure(self, duration_s: float, load_fps: float) -> Trial:
        samples: list[Sample] = []
        asked = request(load_fps, duration_s)
        if self.slices:
            asked = replace(asked, sample_s=duration_s / self.slices)
        result = self.instrument.run(asked, samples.append)
        trial = replace(self._trial(result, duration_s, load_fps), samples=tuple(samples))
        self.trials.append(trial)
        return trial

    def _trial(self, result: EngineResult, duration_s: float, load_fps: float) -> Trial:
        ledger = ledger_of(result, names_losses=self.names_losses)
        steal: Mapping[int, float] = {}
        witness = Witness(
            result.workers,
            self.instrument.dut_threads,
            steal,
            result.cache_line_before_ns,
            result.cache_line_after_ns,
        )
        judgement = judge(result, ledger, witness, load_fps, self.truth.ring, self.rules)
        return Trial(
            id=f"t-{len(self.trials):04d}",
            scenario="t",
            phase="search",
            repeat=0,
            started="",
            duration_s=duration_s,
            load_fps=load_fps,
            sent_duration_s=result.sent_duration_s,
            wall_s=duration_s,
            intended=sum(stream.intended or 0 for stream in result.streams),
            offered=ledger.offered,
            received=ledger.received,
            streams=result.streams,
            ledger=ledger,
            witness=witness,
            threads=(),
            observed={},
            validity=judgement.validity,
            reason=judgement.reason,
            cause=judgement.cause,
        )


def ledger_of(result: EngineResult, *, names_losses: bool = True) -> Ledger:
    """The account of a simulated trial."""
    offered = sum(stream.offered for stream in result.streams)
    refused = sum(stream.refused for stream in result.streams)
    received = sum(stream.received or 0 for stream in result.streams)
    inside = offered - refused - received
    drops = (
        Drop("receive ring full", refused, "engine refused", "dut"),
        Drop("lost inside", inside, "simulated", "dut"),
    )
    named = tuple(drop for drop in drops if drop.frames and names_losses)
    return Ledger(offered, received, (Hop("dut", offered, received, named),))

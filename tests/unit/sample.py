"""A run of three scenarios, all of it made up: for tests of the store and the report.

`forward` ends at the generator, `snat-255` and `snat-65536` at the PMD core;
every kind of invalid trial occurs. `sample_run()` is the same at every call.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pinchpoint.dut.ovs import DEVICE
from pinchpoint.measure.rates.run import of_rates
from pinchpoint.model.result import (
    CacheLine,
    LatencyPoint,
    Limit,
    Outcome,
    Rate,
    RateStatus,
    RunInfo,
    RunResult,
    ScenarioResult,
    Verdict,
)
from pinchpoint.model.trial import (
    BusyBy,
    Drop,
    Hop,
    Jump,
    LatencySummary,
    Ledger,
    Loopback,
    StreamCounts,
    ThreadLoad,
    ThreadWitness,
    Trial,
    TrialValidity,
    Witness,
    WorkerWitness,
)
from pinchpoint.model.warning import Warn
from pinchpoint.store.codec import SCHEMA

RUN_ID = "synthetic-sample-20260102T030405Z"
DURATION_S = 1.0
LOOPBACK = Loopback(frames=5000, min_ns=90, p50_ns=210, p99_ns=480, max_ns=2100)


@dataclass(frozen=True)
class Truth:
    """What one made-up DUT can do."""

    name: str
    title: str
    capacity_fps: float
    generator_fps: float
    base_ns: float
    loads: tuple[float, ...]  # of the search, in order


FORWARD = Truth(
    "forward",
    "Synthetic sample: port to port, one rule",
    8.4e6,
    7.1e6,
    5200,
    (10e6, 7.1e6, 7.1e6, 7.05e6, 7.1e6, 6.9e6, 7.1e6),
)
SNAT_255 = Truth(
    "snat-255",
    "Synthetic sample: source NAT, 255 five-tuples",
    3.1e6,
    7.1e6,
    7400,
    (
        7.1e6,
        3.5e6,
        2.6e6,
        3.05e6,
        3.12e6,
        3.08e6,
        3.1e6,
        3.115e6,
        3.12e6,
        3.1e6,
        3.1e6,
        3.115e6,
        3.15e6,
        3.17e6,
    ),
)
SNAT_65536 = Truth(
    "snat-65536",
    "Synthetic sample: source NAT, 65,536 five-tuples",
    1.55e6,
    6.4e6,
    11800,
    (
        6.4e6,
        3.1e6,
        1.4e6,
        1.5e6,
        1.6e6,
        1.55e6,
        1.558e6,
        1.55e6,
        1.55e6,
        1.558e6,
        1.55e6,
        1.62e6,
        1.58e6,
        1.57e6,
    ),
)
SPOILT: Mapping[str, tuple[TrialValidity, str]] = {
    "snat-255-0006": (
        TrialValidity.NOISY_HOST,
        "core 0 lost 4.20 ms in 3 gaps at 0.412 s: the hypervisor took the CPU (steal 4.10 ms)",
    ),
    "snat-255-0009": (
        TrialValidity.COUNTER_MISMATCH,
        "1,204 frames unexplained, more than the 64 allowed: a counter was read before it settled",
    ),
    "snat-65536-0006": (
        TrialValidity.NOISY_HOST,
        "cache-line distance went from 31.0 ns to 158 ns during the trial: the cores moved apart",
    ),
    "snat-65536-0011": (TrialValidity.ABORTED, "stopped by SIGINT 0.310 s after its start"),
}


def _fraction(seed: int) -> float:
    """A repeatable number in 0..1."""
    return math.modf(abs(math.sin(seed * 12.9898) * 43758.5453))[0]


def _latency(truth: Truth, load_fps: float, count: int) -> LatencySummary:
    queue = 1 / max(0.05, 1.02 - load_fps / truth.capacity_fps)
    quantiles = [0.0, *(1 - 10 ** (-step / 4) for step in range(1, 4 * 6)), 1.0]

    def at(quantile: float) -> int:
        nines = 7.0 if quantile == 1 else -math.log10(1 - quantile)
        return int(truth.base_ns * (1 + 0.03 * queue * nines + 0.00004 * queue * 6.2**nines))

    return LatencySummary(
        count=count,
        min_ns=at(0),
        mean_ns=at(0.5) * 1.07,
        p50_ns=at(0.5),
        p90_ns=at(0.9),
        p99_ns=at(0.99),
        p999_ns=at(0.999),
        p9999_ns=at(0.9999),
        max_ns=at(1),
        curve=tuple((round(quantile, 9), at(quantile)) for quantile in quantiles),
    )


def ledger(offered: int, refused: int, dropped: int, received: int) -> Ledger:
    sent = offered - refused
    ring = Drop("receive ring of left full", refused, "engine refused", "dut")
    transmit = Drop("transmit ring of right full", dropped, "ovs_tx_failure_drops", "engine")
    return Ledger(
        offered,
        received,
        (
            Hop("engine sends", offered, sent, (ring,) if refused else ()),
            Hop("switch receives", sent, sent),
            Hop("datapath", sent, None),
            Hop("switch sends", sent, sent - dropped, (transmit,) if dropped else ()),
            Hop("engine receives", sent - dropped, received),
        ),
    )


def _thread(truth: Truth, rate_fps: float) -> ThreadLoad:
    received = int(rate_fps * DURATION_S)
    nat = truth is not FORWARD
    passes = received * 2 if nat else received
    few = truth is SNAT_255
    return ThreadLoad(
        name="pmd core 1",
        cpu=1,
        received=received,
        recirculated=received if nat else 0,
        busy_share=min(0.999, rate_fps / truth.capacity_fps),
        busy_by=BusyBy.CYCLES,
        cycles_per_packet=2.6e9 / truth.capacity_fps,
        clock_hz=2.6e9,
        slow_path=3 if nat else 0,
        detail={
            "simple_match_hits": 0 if nat else received,
            "emc_hits": int(passes * 0.93) if few else int(passes * 0.04) if nat else 0,
            "megaflow_hits": passes - int(passes * (0.93 if few else 0.04)) - 3 if nat else 0,
            "upcalls": 3 if nat else 0,
            "lost_upcalls": 0,
        },
    )


def _witness(truth: Truth, number: int, validity: TrialValidity) -> Witness:
    noisy = validity is TrialValidity.NOISY_HOST
    before = 31 + 2 * _fraction(number)
    far = noisy and truth is SNAT_65536
    worker = WorkerWitness(
        core=0,
        busy_share=0.71,
        gap_threshold_ns=20_000,
        gaps=3 if noisy else number % 3,
        gap_total_ns=4_200_000 if noisy else 22_000 * (number % 3),
        gap_max_ns=2_900_000 if noisy else 23_000 * min(1, number % 3),
        gap_max_at_s=0.412 if number % 3 or noisy else None,
        steal_s=0.0041 if noisy else 0.0,
        voluntary_switches=0,
        involuntary_switches=5 if noisy else number % 2,
        ports=("left", "right"),
        gaps_longest=((0.412, 2_900_000), (0.101, 700_000)) if noisy else (),
        frequency_hz=2_600_000_000,
    )
    thread = ThreadWitness("pmd-c01/id:9", 1, None, 0)
    after = 158.0 if far else before + 0.4
    return Witness((worker,), (thread,), {0: 0.0041 if noisy else 0.0, 1: 0.0}, before, after, LOOPBACK)


def _trial(truth: Truth, number: int, phase: str, load_fps: float) -> Trial:
    trial_id = f"{truth.name}-{number:04d}"
    validity, reason = SPOILT.get(trial_id, (TrialValidity.VALID, ""))
    duration_s = 0.31 if validity is TrialValidity.ABORTED else DURATION_S
    intended = int(load_fps * DURATION_S)
    offered = int(min(load_fps, truth.generator_fps) * duration_s)
    if validity is TrialValidity.VALID and load_fps > truth.generator_fps * 1.001:
        validity = TrialValidity.GENERATOR_LIMITED
        reason = f"offered {offered:,} of {intended:,} frames: the engine fell behind"
    carried = min(offered, int(truth.capacity_fps * duration_s))
    refused = offered - carried
    if 0 < refused < offered * 0.01:
        refused = int(offered * 10 ** (900 * refused / offered - 9)) + number % 5
    dropped = 0 if refused == 0 else 12 + number
    missing = {TrialValidity.NOISY_HOST: 8121, TrialValidity.COUNTER_MISMATCH: 1204}.get(validity, 0)
    received = offered - refused - dropped - missing
    latency = _latency(truth, load_fps, received)
    stream = StreamCounts(
        0, "left", "right", intended, offered, refused, intended - offered, offered - refused, received,
        offered - refused - received, 0, 0, 0, latency, 0, 0,
        Jump(missing, 0.41) if missing else None, replace(latency, min_ns=0, mean_ns=120.5, curve=()),
    )  # fmt: skip
    return Trial(
        id=trial_id,
        scenario=truth.name,
        phase=phase,
        repeat=1 if number in (7, 10) and truth is SNAT_255 else 0,
        started=f"2026-01-02T03:{4 + number // 20:02d}:{(5 + 2 * number) % 60:02d}Z",
        duration_s=DURATION_S,
        load_fps=load_fps,
        sent_duration_s=duration_s,
        wall_s=duration_s + 0.42,
        intended=intended,
        offered=offered,
        received=received,
        streams=(stream,),
        ledger=ledger(offered, refused, dropped, received),
        witness=_witness(truth, number, validity),
        threads=(_thread(truth, min(load_fps, truth.capacity_fps, truth.generator_fps)),),
        observed={"ovs.left.rx_packets": offered - refused, "ovs.emc_hits": 0.5 * received},
        validity=validity,
        reason=reason,
    )


def trials_of(truth: Truth, ndr_fps: float) -> tuple[Trial, ...]:
    """One ceiling trial, the search, then latency at 50 % and 90 % of the NDR."""
    plan = [("ceiling", truth.generator_fps), *(("search", load) for load in truth.loads)]
    plan += [("latency", 0.5 * ndr_fps), ("latency", 0.9 * ndr_fps)]
    return tuple(_trial(truth, number, phase, load) for number, (phase, load) in enumerate(plan))


def _result(truth: Truth, trials: Sequence[Trial], rates: tuple[Rate, ...], verdict: Verdict) -> ScenarioResult:
    invalid: dict[str, int] = {}
    for trial in trials:
        if trial.validity is not TrialValidity.VALID:
            invalid[trial.validity.value] = invalid.get(trial.validity.value, 0) + 1
    ndr = rates[0].lower_fps or 0.0
    points = tuple(
        LatencyPoint(round(trial.load_fps / ndr, 3), trial.load_fps, trial.id, trial.latency, "", LOOPBACK)
        for trial in trials
        if trial.phase == "latency"
    )
    far = 0.05 if truth is SNAT_65536 else 0.0
    return ScenarioResult(
        scenario=truth.name,
        title=truth.title,
        group=truth.name,
        levels={},
        repeat=1,
        measure="rates",
        outcome=Outcome.MEASURED,
        reason="",
        metrics=of_rates(rates, points, None, DEVICE),
        rates=rates,
        latency=points,
        threads=(_thread(truth, ndr),),
        verdict=verdict,
        generator_ceiling_fps=truth.generator_fps,
        trials=len(trials),
        invalid_trials=invalid,
        traffic_s=math.fsum(trial.sent_duration_s for trial in trials),
        wall_s=math.fsum(trial.wall_s for trial in trials) + 9.5,
        cache_line=CacheLine(31.9, 31.0, 158.0 if far else 33.4, 2 * len(trials), far, ""),
        warnings=(Warn.OTHER.of("the cores were far apart (158 ns) for 5 % of the probes"),) if far else (),
    )


def rate(loss_ratio: float, lower: float | None, upper: float | None, status: RateStatus, reason: str = "") -> Rate:
    """An NDR or PDR with one-second trials and 21 s of them."""
    return Rate(loss_ratio, status, lower, upper, DURATION_S, 21.0, reason)


def _forward() -> tuple[ScenarioResult, tuple[Trial, ...]]:
    trials = trials_of(FORWARD, 7.1e6)
    reason = "the engine offered no more than 7.10 Mpps"
    rates = tuple(rate(ratio, 7.1e6, None, RateStatus.AT_LEAST, reason) for ratio in (0.0, 0.005))
    verdict = Verdict(
        Limit.GENERATOR,
        "The traffic engine ran out first: it offers 7.10 Mpps and the switch carried all of it.",
        (
            "PMD core 1 was busy 84.5 % at 7.10 Mpps.",
            "No frame was lost in 6 judged trials at 7.10 Mpps or less.",
        ),
        ("PMD core: 15.5 % idle.", "Host: no steal time, largest loop gap 46.0 us."),
        ("forward-0002", "forward-0003"),
    )
    return _result(FORWARD, trials, rates, verdict), trials


def _snat_255() -> tuple[ScenarioResult, tuple[Trial, ...]]:
    trials = trials_of(SNAT_255, 3.1e6)
    rates = (rate(0.0, 3.1e6, 3.115e6, RateStatus.FOUND), rate(0.005, 3.12e6, 3.15e6, RateStatus.FOUND))
    verdict = Verdict(
        Limit.FORWARDING_CORE,
        "PMD core 1 is saturated: 99.9 % busy at 839 cycles per packet is 3.10 Mpps at 2.60 GHz.",
        (
            "Lost frames are the receive ring of left refusing them: the PMD came too late.",
            "EMC serves 93.0 % of the lookups; each packet makes two passes (conntrack).",
        ),
        (
            "Generator: its ceiling on this bench is 7.10 Mpps, 2.29 times the NDR.",
            "Host: steal only in trial 6.",
        ),
        ("snat-255-0007", "snat-255-0008"),
    )
    return _result(SNAT_255, trials, rates, verdict), trials


def _snat_65536() -> tuple[ScenarioResult, tuple[Trial, ...]]:
    trials = trials_of(SNAT_65536, 1.55e6)
    rates = (rate(0.0, 1.55e6, 1.558e6, RateStatus.FOUND), rate(0.005, 1.558e6, 1.57e6, RateStatus.FOUND))
    verdict = Verdict(
        Limit.FORWARDING_CORE,
        "PMD core 1 is saturated: 99.9 % busy at 1,677 cycles per packet is 1.55 Mpps at 2.60 GHz.",
        ("EMC serves 4.0 % of the lookups: 65,536 five-tuples do not fit its 8,192 entries.",),
        ("Generator: its ceiling on this bench is 6.40 Mpps, 4.13 times the NDR.",),
        ("snat-65536-0005", "snat-65536-0007"),
    )
    return _result(SNAT_65536, trials, rates, verdict), trials


def _effective(truth: Truth, flows: int) -> dict[str, object]:
    return {
        "name": truth.name,
        "title": truth.title,
        "path": f"{truth.name}.toml",
        "dut": {
            "datapath": "dpdk",
            "pmd_cpus": [1],
            "memory_mb": 512,
            "other_config": {},
            "bridges": [
                {
                    "name": "br0",
                    "rules": [{"text": "in_port={left},actions=output:{right}", "line": 9}],
                    "rule_series": [],
                }
            ],
        },
        "ports": [{"name": "left", "ring": 1024}, {"name": "right", "ring": 1024}],
        "engine": {"cpus": [0], "memory_mb": 256},
        "streams": [{"tx_port": "left", "rx_port": "right", "frame_bytes": 64, "share": 1.0, "flows": flows}],
        "search": {"min_load_fps": 10000.0, "max_load_fps": 1e7, "loss_ratios": [0.0, 0.005],
                   "trial_duration_s": 1.0, "duration_sum_s": 21.0, "relative_width": 0.005},
        "validity": {"shortfall_ratio": 0.001, "unexplained_frames": 64},
        "latency": {"at": [0.5, 0.9], "duration_s": 1.0},
        "defaulted": ["dut.memory_mb", "engine.memory_mb", "search.relative_width", "validity"],
    }  # fmt: skip


def sample_run() -> tuple[RunInfo, RunResult, tuple[Trial, ...]]:
    """The whole made-up run: three scenarios, finished."""
    scenarios = (_forward(), _snat_255(), _snat_65536())
    truths = ((FORWARD, 1), (SNAT_255, 255), (SNAT_65536, 65536))
    info = RunInfo(
        schema=SCHEMA,
        run_id=RUN_ID,
        started="2026-01-02T03:04:05Z",
        argv=("pinchpoint", "run", "studies/synthetic-sample"),
        scenarios=tuple(_effective(truth, flows) for truth, flows in truths),
        sweeps=(),
        study=None,
        sources={f"{truth.name}.toml": f'title = "{truth.title}"\n\n[dut]\nkind = "ovs"\n' for truth, _ in truths},
        plans={
            truth.name: (
                "create private ovs database",
                "start ovsdb-server",
                "start ovs-vswitchd with PMD on CPU 1",
                "add bridge br0 (netdev)",
                "add port left (dpdkvhostuserclient)",
                "add port right (dpdkvhostuserclient)",
                "add 1 rule",
            )
            for truth, _ in truths
        },
        versions={"pinchpoint": "0.1.0", "engine": "0.1.0", "ovs": "3.1.0", "dpdk": "22.11.11"},
        host={
            "cpu": "synthetic 2-core sample CPU",
            "kernel": "6.1.0",
            "os": "Debian 12",
            "memory": "8.00 GiB",
        },
    )
    trials = tuple(trial for _, made in scenarios for trial in made)
    return info, RunResult(SCHEMA, RUN_ID, True, tuple(result for result, _ in scenarios), (), ()), trials

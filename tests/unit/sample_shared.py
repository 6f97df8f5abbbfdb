"""A made-up run on a shared machine: a DUT whose capacity moves, and one scenario for every status of a rate.

`shared_run()` is the same at every call. The capacity jumps between two distances of the cores and walks
between the jumps; a staircase of 0.2 s trials follows it (6 % up after no loss, down to what came back after a loss).
"""

import math
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from statistics import median

import sample

from pinchpoint.dut.ovs import DEVICE
from pinchpoint.measure.rates.run import of_rates
from pinchpoint.model.result import (
    Band,
    CacheLine,
    Limit,
    LossFloor,
    ModeRates,
    Moment,
    Rate,
    RateStatus,
    ReceiveRate,
    RunInfo,
    RunResult,
    ScenarioResult,
    Verdict,
)
from pinchpoint.model.scenario import SearchMethod
from pinchpoint.model.trial import Cause, Trial, TrialValidity
from pinchpoint.model.warning import Warn
from pinchpoint.store.codec import SCHEMA

INFO, RESULT, TRIALS = sample.sample_run()
BEGAN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
STEP_UP = 1.06
TRIAL_S = 0.2
NOISY = "the engine's core stood still for 31.0 ms of 200 ms, longer than its ring absorbs (7.30 ms)"


def _capacities(seed: int, near_fps: float, far_fps: float, trials: int) -> list[tuple[float, bool]]:
    """Capacity and whether the cores are far, trial by trial."""
    rng, walk, far = random.Random(seed), 0.0, False
    made = []
    for _ in range(trials):
        far = far if rng.random() > 0.06 else not far
        walk = 0.9 * walk + rng.gauss(0, 0.035)
        made.append(((far_fps if far else near_fps) * math.exp(walk), far))
    return made


def _trials(name: str, near_fps: float, far_fps: float, seed: int, count: int = 96) -> list[Trial]:
    template, rng, load_fps = TRIALS[3], random.Random(seed + 1), 2.0 * near_fps
    made = []
    for number, (capacity_fps, far) in enumerate(_capacities(seed, near_fps, far_fps, count), 1):
        noisy = rng.random() < 0.06
        offered = int(load_fps * TRIAL_S)
        received = min(offered, int(capacity_fps * TRIAL_S))
        distance_ns = 151.0 if far else 25.2
        witness = replace(template.witness, cache_line_before_ns=distance_ns, cache_line_after_ns=distance_ns + 0.4)
        refused = offered - received
        ledger = sample.ledger(offered, refused, 0, received)
        made.append(
            replace(
                template, id=f"{name}-{number:04d}", scenario=name, phase="search", repeat=0,
                started=(BEGAN + timedelta(seconds=0.55 * number)).isoformat(), duration_s=TRIAL_S, load_fps=load_fps,
                sent_duration_s=TRIAL_S, wall_s=0.42, intended=offered, offered=offered, received=received,
                ledger=ledger, witness=witness, reason=NOISY if noisy else "",
                validity=TrialValidity.NOISY_HOST if noisy else TrialValidity.VALID,
                cause=Cause.SENDER_STOOD_STILL if noisy else None,
            )
        )  # fmt: skip
        load_fps = load_fps * STEP_UP if received == offered else received / TRIAL_S
    return made


def _quantile(ordered: Sequence[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def _rate(trials: Sequence[Trial], loss_ratio: float = 0.0, factor: float = 1.0) -> Rate:
    carried = sorted(factor * trial.received / TRIAL_S for trial in trials if trial.validity is TrialValidity.VALID)
    middle = median(carried)
    return Rate(
        loss_ratio=loss_ratio, status=RateStatus.FOUND, lower_fps=0.965 * middle, upper_fps=1.04 * middle,
        trial_duration_s=TRIAL_S, duration_sum_s=0.0, reason="", estimate_fps=middle, confidence=0.95,
        method=SearchMethod.THRESHOLD,
        band=Band(_quantile(carried, 0.1), _quantile(carried, 0.9)), unusable_share=0.0,
    )  # fmt: skip


def _mrr(ndr_fps: float) -> ReceiveRate:
    """A tenth above the NDR, at three times of it."""
    fps = 1.1 * ndr_fps
    return ReceiveRate(3 * ndr_fps, fps, 0.98 * fps, 1.02 * fps, Band(0.97 * fps, 1.03 * fps), 7, TRIAL_S, 0.95)


def _modes(trials: Sequence[Trial]) -> tuple[ModeRates, ...]:
    valid = [trial for trial in trials if trial.validity is TrialValidity.VALID]
    made = []
    for label, distance_ns in (("cores 25 ns apart", 25.2), ("cores 151 ns apart", 151.0)):
        own = [trial for trial in valid if trial.witness.cache_line_before_ns == distance_ns]
        middle = median(trial.received / TRIAL_S for trial in own)
        mode = ModeRates(label, distance_ns, len(own), len(own) * TRIAL_S, (), share=len(own) / len(valid))
        made.append(replace(mode, median_fps=middle))
    return tuple(made)


def _track(trials: Sequence[Trial]) -> tuple[Moment, ...]:
    """The threshold at each trial: what the three around it carried."""
    carried = [trial.received / TRIAL_S for trial in trials]
    middles = [median(carried[max(0, place - 1) : place + 2]) for place in range(len(trials))]
    return tuple(
        Moment(trial.id, round(0.55 * place, 2), 0.93 * middle, middle, 1.07 * middle)
        for place, (trial, middle) in enumerate(zip(trials, middles, strict=True))
        if trial.validity is TrialValidity.VALID
    )


def _result(name: str, title: str, near_fps: float, far_fps: float, seed: int) -> tuple[ScenarioResult, list[Trial]]:
    base = RESULT.scenarios[1]
    trials = _trials(name, near_fps, far_fps, seed)
    rates = (_rate(trials), _rate(trials, 0.005, 1.012))
    ndr_fps = rates[0].quoted_fps or 0.0
    cycles = 2.6e9 / ndr_fps
    latency = tuple(replace(point, load_fps=point.share * ndr_fps) for point in base.latency)
    invalid = Counter(str(trial.validity) for trial in trials if trial.validity is not TrialValidity.VALID)
    headline = f"PMD core 1 is saturated: 99.8 % busy at {cycles:,.0f} cycles per packet."
    made = replace(
        base, scenario=name, title=title, group=name, rates=rates, latency=latency, modes=_modes(trials),
        track=_track(trials), mrr=_mrr(ndr_fps), unexplained_share=2.1e-6,
        metrics=of_rates(rates, latency, None, DEVICE), trials=len(trials), invalid_trials=dict(invalid),
        threads=tuple(replace(load, busy_share=0.998, cycles_per_packet=cycles) for load in base.threads),
        traffic_s=len(trials) * TRIAL_S, wall_s=0.55 * len(trials) + 9.0, generator_ceiling_fps=2.1 * near_fps,
        verdict=replace(base.verdict, headline=headline) if base.verdict else None,
        cache_line=CacheLine(25.2, 24.6, 151.4, 2 * len(trials), 0.4, ""), warnings=(),
    )  # fmt: skip
    return made, trials


def _without_rate(name: str, title: str, rate: Rate, why: str, limit: Limit) -> ScenarioResult:
    verdict = Verdict(limit, why, (), (), ())
    return replace(
        RESULT.scenarios[1], scenario=name, title=title, group=name, rates=(rate,), latency=(), modes=(), track=(),
        metrics=of_rates((rate,), (), None, DEVICE), verdict=verdict, trials=12, invalid_trials={}, warnings=(),
        traffic_s=2.4, wall_s=8.0,
    )  # fmt: skip


def shared_run() -> tuple[RunInfo, RunResult, tuple[Trial, ...]]:
    """Three scenarios of a quickstart on a machine that others share."""
    made = [
        _result("1-forward", "Forwarding, one five-tuple", 5.3e6, 4.2e6, 11),
        _result("2-snat-255", "Source NAT, 255 five-tuples", 2.5e6, 1.9e6, 12),
        _result("3-snat-65536", "Source NAT, 65,536 five-tuples", 0.86e6, 0.66e6, 13),
    ]
    results, trials = tuple(result for result, _ in made), tuple(trial for _, own in made for trial in own)
    names = [(result.scenario, result.title) for result in results]
    scenarios = tuple({**INFO.scenarios[0], "name": name, "title": title} for name, title in names)
    plans = {name: next(iter(INFO.plans.values())) for name, _ in names}
    run_id = "quickstart-20260102T030405Z"
    info = replace(INFO, run_id=run_id, scenarios=scenarios, plans=plans, sources={},
                   argv=("pinchpoint", "run", "studies/quickstart"))  # fmt: skip
    return info, RunResult(SCHEMA, run_id, True, results), trials


def every_status() -> RunResult:
    """One scenario for each way in which a rate can end."""
    shared = shared_run()[1].scenarios[1]
    nothing = replace(shared.rates[0], lower_fps=None, upper_fps=None, estimate_fps=None, band=None)
    floor = LossFloor(loss_ratio=0.00123, lower=0.00101, upper=0.00145, load_fps=10e3, trials=12)
    least = replace(nothing, status=RateStatus.AT_LEAST, lower_fps=7.1e6, reason="the engine offered no more")
    below = replace(nothing, status=RateStatus.BELOW_MINIMUM, upper_fps=10e3, reason="even 10.0 kpps lost frames")
    always = replace(nothing, status=RateStatus.LOSES_ALWAYS, floor=floor)
    refused = replace(nothing, status=RateStatus.REFUSED, reason="ovs-vswitchd died")
    ended = (
        _without_rate("at-least", "The generator is the limit", least, "The engine offers no more.", Limit.GENERATOR),
        _without_rate("below", "Below the lowest load", below, "The rules drop every frame.", Limit.NAMED_DROP),
        _without_rate("loses-always", "Random loss", always, "Frames are lost at any load.", Limit.NAMED_DROP),
        _without_rate("refused", "The device died", refused, "No load could be judged.", Limit.UNEXPLAINED),
    )
    told = ("the switch missed frames", "the engine's core stood still", "two modes", "a neighbour")
    many = tuple(map(Warn.OTHER.of, told))
    return RunResult(SCHEMA, "statuses-20260102T030405Z", True, (replace(shared, warnings=many), *ended))

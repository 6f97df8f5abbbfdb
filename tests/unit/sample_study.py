"""A made-up study run: sweeps with published figures, repeats, a generator that ends first, points that cannot run.

`base` and `raw` (rates by five-tuples), `rules` (bandwidth by rules and connections,
seven repeats, a factor that the datapath does not see), `build` (methods).
`study_run()` is the same at every call; nothing in it was measured.
"""

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import sample

from pinchpoint.dut.ovs import DEVICE
from pinchpoint.findings.curves import curves
from pinchpoint.findings.findings import findings
from pinchpoint.measure.rates.run import of_rates
from pinchpoint.model.measurement import Metric
from pinchpoint.model.result import Limit, Outcome, Rate, RateStatus, RunInfo, RunResult, ScenarioResult, Verdict
from pinchpoint.model.scenario import Factor, Level
from pinchpoint.model.study import FindingRequest, Published, PublishedPoint, Study, SweepInfo
from pinchpoint.model.trial import Trial
from pinchpoint.store.codec import SCHEMA

RUN_ID = "synthetic-study-20260102T030405Z"
TUPLES = Factor("five-tuples", "", (1, 512, 1024, 5120, 32768, 65536, 262144), falling=True)
RULES = Factor("rules", "", (0, 1, 1000, 10_000, 100_000, 500_000), falling=True)
CONNECTIONS = Factor("connections", "", (1, 32, 64), falling=False, keys=("sockets.connections",))
NUMA = Factor("numa", "", ("any", "different"), falling=False)
METHOD = Factor("method", "", ("process", "file", "bundle"), falling=False)
ITEMS = Factor("items", "", (1000, 10_000, 100_000, 500_000), falling=False)
CLOCK_HZ = 2.6e9
CYCLES = {"base": (700, 710, 730, 820, 1400, 1660, 2150), "raw": (330, 330, 335, 360, 420, 450, 470)}
GENERATOR_FPS = 7.1e6
PUBLISHED_BASE = {512: 1.1e6, 1024: 1.0e6, 5120: 0.9e6, 32768: 0.8e6, 65536: 0.8e6, 262144: 0.6e6}
PUBLISHED_BUILD = {1000: 1.0, 10_000: 9.0, 100_000: 84.0, 500_000: 552.0}


def _unit(group: str, levels: Mapping[str, Level], repeat: int, measure: str) -> ScenarioResult:
    name = "-".join(
        [f"{group}.{'-'.join(f'{factor}-{level}' for factor, level in levels.items())}"]
        + ([f"r{repeat}"] if repeat > 1 else [])
    )
    return ScenarioResult(
        scenario=name, title=f"Synthetic study: {group}", rates=(), latency=(), threads=(), verdict=None,
        generator_ceiling_fps=None, trials=0, invalid_trials={}, traffic_s=0.0, wall_s=4.0, cache_line=None,
        warnings=(), group=group, levels=levels, repeat=repeat, measure=measure,
    )  # fmt: skip


def _rates(group: str) -> Iterator[tuple[ScenarioResult, tuple[Trial, ...]]]:
    for level, cycles in zip(TUPLES.levels, CYCLES[group], strict=True):
        unit = _unit(group, {"five-tuples": level}, 1, "rates")
        capacity = CLOCK_HZ / cycles
        truth = sample.Truth(unit.scenario, unit.title, capacity, GENERATOR_FPS, 5e3 + 4 * cycles, _loads(capacity))
        reached = min(capacity, GENERATOR_FPS)
        trials = sample.trials_of(truth, reached)
        yield _measured(unit, reached, capacity, cycles, int(level), trials), trials


def _loads(capacity: float) -> tuple[float, ...]:
    return tuple(min(GENERATOR_FPS, capacity * part) for part in (2.0, 1.2, 0.8, 0.99, 1.004, 1.0, 1.004, 1.0))


def _measured(
    unit: ScenarioResult, reached: float, capacity: float, cycles: int, tuples: int, trials: Sequence[Trial]
) -> ScenarioResult:
    limited = capacity > GENERATOR_FPS
    reason = "the engine offered no more than 7.10 Mpps" if limited else ""
    status = RateStatus.AT_LEAST if limited else RateStatus.FOUND
    rates = tuple(
        Rate(loss, status, reached * better, None if limited else reached * better * 1.004, 1.0, 21.0, reason)
        for loss, better in ((0.0, 1.0), (0.005, 1.0 if limited else 1.01))
    )
    emc = min(0.99, 6000 / tuples)
    extra = (
        Metric("cycles per packet", "cycles", float(cycles), cycles * 0.99, cycles * 1.01, "of the judged trials"),
        Metric("thread busy", "share", min(0.999, reached / capacity)),
        Metric("lookup share of EMC", "share", emc),
        Metric("lookup share of megaflow classifier", "share", 0.999 - emc),
        Metric("lookup share of upcalls", "share", 0.001),
        Metric("datapath flows", "count", 4.0),
        Metric("datapath masks", "count", 2.0),
        Metric("conntrack entries", "count", float(tuples if unit.group == "base" else 0)),
    )
    shares = {"threads": (sample._thread(sample.SNAT_65536, reached),), "trials": len(trials)}
    headline = (
        "The traffic engine ran out first: it offers 7.10 Mpps and the switch carried all of it."
        if limited
        else f"PMD core 1 is saturated: 99.9 % busy at {cycles:,} cycles per packet is {reached / 1e6:.2f} Mpps."
    )
    limit = Limit.GENERATOR if limited else Limit.FORWARDING_CORE
    verdict = Verdict(limit, headline, ("Lost frames are the receive ring of left refusing them.",), (), ())
    return replace(
        unit, rates=rates, metrics=(*of_rates(rates, (), None, DEVICE), *extra), verdict=verdict,
        generator_ceiling_fps=GENERATOR_FPS, **shares,  # type: ignore[arg-type]
    )  # fmt: skip


def _bandwidth() -> Iterator[ScenarioResult]:
    noise = random.Random(4)
    for repeat in range(1, 8):
        for rules in RULES.levels:
            for connections in CONNECTIONS.levels:
                levels = {"rules": rules, "connections": connections}
                goodput = 2.4e9 * min(int(connections), 2) ** 0.2 * noise.gauss(1.0, 0.015)
                yield replace(
                    _unit("rules", levels, repeat, "bandwidth"),
                    metrics=(
                        Metric("goodput", "bit/s", goodput),
                        Metric("latency p50", "ns", 54e3 * int(connections) ** 0.5 * noise.gauss(1, 0.02)),
                        Metric("datapath flows", "count", 2.0),
                        Metric("datapath masks", "count", 1.0),
                    ),
                    verdict=Verdict(
                        Limit.SENDER_CORE, "The client's thread is saturated: 99.0 % of CPU 0.", (), (), ()
                    ),
                )


def _numa() -> Iterator[ScenarioResult]:
    yield replace(
        _unit("numa", {"numa": "any"}, 1, "bandwidth"),
        metrics=(Metric("goodput", "bit/s", 2.41e9, 2.3e9, 2.5e9, "lowest and highest of 3 windows"),),
    )
    yield replace(
        _unit("numa", {"numa": "different"}, 1, "bandwidth"),
        outcome=Outcome.IMPOSSIBLE,
        reason="impossible here: this machine has only one NUMA node",
    )


def _build() -> Iterator[ScenarioResult]:
    each = {"process": 1.1e-3, "file": 9e-6, "bundle": 1.4e-5}
    for items in ITEMS.levels:
        for method in METHOD.levels:
            unit = _unit("build", {"items": items, "method": method}, 1, "build")
            if method == "process" and items == 500_000:
                reason = "the budget of 10 min was used"
                yield replace(unit, outcome=Outcome.SKIPPED, reason=reason)
                continue
            seconds = each[str(method)] * int(items) * (1 + math.log10(int(items)) / 40)
            made = (
                Metric("time per item", "s", seconds / int(items), note="one build"),
                Metric("build time", "s", seconds),
            )
            yield replace(unit, metrics=made)


def _published() -> Iterator[Published]:
    for group, metric, unit, factor, title, points in (
        ("base", "NDR", "fps", "five-tuples", "highest rate that finished in time", PUBLISHED_BASE),
        ("build", "build time", "s", "items", "40 processes at a time", PUBLISHED_BUILD),
    ):
        made = tuple(PublishedPoint({factor: level}, value) for level, value in points.items())
        yield Published(group, metric, unit, factor, title, made)


def _study() -> Study:
    asked = [
        ("fall", "base", "NDR", "five-tuples", ""), ("knee", "base", "NDR", "five-tuples", ""),
        ("compare", "base", "NDR", "five-tuples", "raw"), ("cost", "base", "NDR", "five-tuples", "raw"),
        ("caches", "base", "", "five-tuples", ""), ("flat", "rules", "goodput", "rules", "connections=1"),
        ("method", "build", "time per item", "method", ""),
        ("growth", "build", "time per item", "items", "method=file"),
        ("impossible", "", "", "", ""), ("limit", "raw", "NDR", "", ""),
    ]  # fmt: skip
    return Study(
        name="synthetic-study",
        title="What connection tracking costs (synthetic sample)",
        about="A made-up study for tests of the report: nothing in it was measured.",
        source="an invented 32-core server with an invented NIC",
        published=tuple(_published()),
        findings=tuple(FindingRequest(*finding) for finding in asked),
        quick=True,
    )


SWEEPS = (
    SweepInfo("base", "One SNAT rule, by five-tuples", "rates", (TUPLES,), 1, "interleaved", 1),
    SweepInfo("raw", "No connection tracking, by five-tuples", "rates", (TUPLES,), 1, "interleaved", 1),
    SweepInfo("rules", "TCP bandwidth by rules that no frame needs", "bandwidth", (RULES, CONNECTIONS), 7, "random", 1),
    SweepInfo("numa", "TCP bandwidth by NUMA placement", "bandwidth", (NUMA,), 1, "interleaved", 1),
    SweepInfo("build", "How fast rules are made", "build", (ITEMS, METHOD), 1, "interleaved", 1),
)


def study_run() -> tuple[RunInfo, RunResult, tuple[Trial, ...]]:
    """The whole made-up run with its curves and findings, finished."""
    base, raw = list(_rates("base")), list(_rates("raw"))
    results = (*(result for result, _ in (*base, *raw)), *_bandwidth(), *_numa(), *_build())
    info, _, _ = sample.sample_run()
    study = _study()
    drawn = curves(SWEEPS, results)
    plain = dict(info.scenarios[1])
    told = replace(
        info,
        run_id=RUN_ID,
        argv=("pinchpoint", "study", "run", "synthetic-study", "--quick"),
        scenarios=tuple(
            {**plain, "name": result.scenario, "title": result.title,
             "point": {"group": result.group, "levels": dict(result.levels), "repeat": result.repeat}}
            for result in results
        ),
        plans={result.scenario: info.plans["snat-255"] for result in results},
        sweeps=SWEEPS,
        study=study,
    )  # fmt: skip
    trials = tuple(trial for _, made in (*base, *raw) for trial in made)
    return told, RunResult(SCHEMA, RUN_ID, True, results, drawn, findings(study, drawn)), trials

"""A made-up run of measures other than rates: windows of which some were disturbed, a build, given rates."""

from dataclasses import replace

import sample

from pinchpoint.model.measurement import Measurement, Metric
from pinchpoint.model.result import Limit, RunInfo, RunResult, ScenarioResult, Verdict
from pinchpoint.model.trial import TrialValidity
from pinchpoint.model.warning import Warn

T3 = "lowest and highest of 3 windows"


def _result(name: str, title: str, measure: str, metrics: tuple[Metric, ...]) -> ScenarioResult:
    return ScenarioResult(
        scenario=name, title=title, rates=(), latency=(), threads=(), verdict=None, generator_ceiling_fps=None,
        trials=0, invalid_trials={}, traffic_s=6.0, wall_s=9.0, cache_line=None, warnings=(), group=name,
        measure=measure, metrics=metrics,
    )  # fmt: skip


def _windows() -> ScenarioResult:
    made = (
        Metric("goodput", "bit/s", 1.61e9, 1.52e9, 1.69e9, T3),
        Metric("retransmits", "count", 4.0, 1.0, 7.0, T3),
        Metric("client busy", "share", 0.755, 0.725, 0.784, f"{T3}; mean of 2 threads, the busiest 80.1 %"),
        Metric("relay busy", "share", 0.995, 0.991, 0.998, T3),
        Metric("CPU 0: softirq", "share", 0.486, 0.473, 0.498, T3),
        Metric("datapath flows", "count", 2.0, 2.0, 2.0, f"{T3}; that carried packets"),
    )
    return replace(
        _result("stream", "Synthetic sample: one stream of bytes", "bandwidth", made),
        trials=4,
        invalid_trials={"noisy_host": 1},
        verdict=Verdict(Limit.RELAY_CORE, "the relay is saturated: 99.5 % busy on CPU 0", (), (), ("stream-0001",)),
        warnings=(
            Warn.WINDOWS_REPEATED.of("processes outside the bench took 15.0 % of one CPU", discarded=1, windows=4),
        ),
    )


def _transactions() -> ScenarioResult:
    made = (
        Metric("transactions", "1/s", 8490.0, note="one window"),
        Metric("latency p50", "ns", 47.2e3, note="one window"),
        Metric("latency p90", "ns", 51.0e3, note="one window"),
        Metric("latency p99", "ns", 6.73e6, note="one window"),
        Metric("latency p99.9", "ns", 13.5e6, note="one window"),
        Metric("failed share", "share", 0.0, note="one window"),
    )
    verdict = Verdict(Limit.PLANNED_RATE, "8,500 a second were planned, 8,490 were made", (), (), ())
    return replace(_result("requests", "Synthetic sample: requests", "rr", made), trials=1, verdict=verdict)


def _build() -> ScenarioResult:
    made = (
        Metric("build time", "s", 2.97, note="until the last command returned"),
        Metric("visible time", "s", 3.03, note="until the datapath showed all items"),
        Metric("build rate", "1/s", 1680.0),
        Metric("lab peak memory", "bytes", 120e6),
        Metric("blocked time", "s", 0.012, note="lost frames / offered rate"),
        Metric("removal time", "s", 2.57, note="until the datapath showed none of them"),
    )
    return _result("rules", "Synthetic sample: 5,000 rules by a file", "build", made)


def _load() -> ScenarioResult:
    how = "median, lowest and highest of 3 trials"
    made = (
        Metric("cycles per packet at 100 kpps", "cycles", 910.0, 890.0, 940.0, how),
        Metric("thread busy at 100 kpps", "share", 0.035, 0.034, 0.036, how),
        Metric("loss at 100 kpps", "share", 0.0, 0.0, 0.0, how),
        Metric("cycles per packet", "cycles", 910.0),
    )
    return replace(_result("given", "Synthetic sample: a given rate", "load", made), trials=3)


def _measurement(number: int, value: float, validity: TrialValidity, reason: str) -> Measurement:
    return Measurement(
        id=f"stream-{number:04d}", scenario="stream", kind="bandwidth", repeat=max(1, number - 1),
        started="2026-01-02T03:04:05+00:00", wall_s=2.2,
        metrics=(Metric("goodput", "bit/s", value), Metric("CPU 0: busy", "share", 1.0)),
        account={}, observed={}, threads=(), validity=validity, reason=reason,
    )  # fmt: skip


def measures_run() -> tuple[RunInfo, RunResult, tuple[Measurement, ...]]:
    """The whole made-up run, finished."""
    info, result, _ = sample.sample_run()
    results = (_windows(), _transactions(), _build(), _load())
    busy = "processes outside the bench took 15.0 % of one CPU"
    made = (
        _measurement(1, 1.21e9, TrialValidity.NOISY_HOST, busy),
        *(_measurement(n, v, TrialValidity.VALID, "") for n, v in ((2, 1.60e9), (3, 1.62e9), (4, 1.61e9))),
    )
    told = replace(
        info, scenarios=tuple({"name": result.scenario, "title": result.title} for result in results), plans={}
    )
    return told, replace(result, scenarios=results), made

"""Made-up results and curves for tests of curves and findings."""

from collections.abc import Mapping, Sequence

from pinchpoint.model.measurement import CONFIDENCE, Bound, Estimate, Metric
from pinchpoint.model.result import Limit, Outcome, Rate, RateStatus, ScenarioResult, Verdict
from pinchpoint.model.scenario import Factor, Level
from pinchpoint.model.study import (
    Curve,
    CurvePoint,
    FindingRequest,
    Published,
    PublishedPoint,
    Refusal,
    Study,
    SweepInfo,
)

FLOWS = Factor("five-tuples", "", (512, 4096, 65536), falling=True)


def sweep(*factors: Factor, group: str = "base") -> SweepInfo:
    return SweepInfo(group, "Synthetic sweep", "rates", factors, 1, "interleaved", 1)


def result(
    levels: Mapping[str, Level],
    metrics: Sequence[Metric],
    *,
    repeat: int = 1,
    outcome: Outcome = Outcome.MEASURED,
    rates: tuple[Rate, ...] = (),
) -> ScenarioResult:
    verdict = Verdict(Limit.FORWARDING_CORE, "PMD core 1 is saturated.", (), (), ())
    return ScenarioResult(
        scenario="-".join(["base", *(str(level) for level in levels.values()), f"r{repeat}"]),
        title="Synthetic", rates=rates, latency=(), threads=(),
        verdict=verdict if outcome is Outcome.MEASURED else None,
        generator_ceiling_fps=None, trials=0, invalid_trials={}, traffic_s=0.0, wall_s=0.0, cache_line=None,
        warnings=(), group="base", levels=levels, repeat=repeat, outcome=outcome,
        reason="" if outcome is Outcome.MEASURED else "this machine has one NUMA node", metrics=tuple(metrics),
    )  # fmt: skip


def ndr(
    value: float, high: float | None = None, note: str = "bounds of the search", bound: Bound = Bound.FOUND
) -> Metric:
    return Metric("NDR", "fps", value, value, high, note, bound)


def refusals(*names: str, reason: str) -> dict[str, dict[str, object]]:
    """The fields of a point that was refused a number of these metrics."""
    refusal = Refusal(reason, 1, 1)
    return {"notes": dict.fromkeys(names, str(refusal)), "cautions": {}, "refusals": dict.fromkeys(names, refusal)}


def rate(status: RateStatus, lower: float | None, upper: float | None, reason: str = "") -> Rate:
    return Rate(0.0, status, lower, upper, 1.0, 21.0, reason)


def number(
    value: float, width: float | None = 0.02, *, unit: str = "fps", n: int = 3, bound: Bound = Bound.FOUND
) -> Estimate:
    """An estimate with an interval of +- `width`, relative; None: without one."""
    low = None if width is None or bound is Bound.BELOW else value * (1 - width)
    high = None if width is None or bound is Bound.AT_LEAST else value * (1 + width)
    return Estimate(unit, value, low, high, n, "95 %", bound=bound, level=CONFIDENCE)


def within(low: float, high: float) -> Estimate:
    """Ends of a number that was refused."""
    return Estimate("fps", (low * high) ** 0.5, low, high, 3, "refused a number", bound=Bound.BETWEEN)


def curve(
    estimates: Mapping[Level, Mapping[str, Estimate]],
    group: str = "base",
    factor: Factor | None = None,
    **changes: object,
) -> Curve:
    """A curve along one factor: level -> metric -> estimate."""
    along = factor or Factor("five-tuples", "", tuple(estimates), falling=True)
    points = tuple(point({along.name: level}, estimate, **changes) for level, estimate in estimates.items())
    return Curve(group, "Synthetic sweep", "rates", (along,), points)


def point(levels: Mapping[str, Level], estimates: Mapping[str, Estimate], **changes: object) -> CurvePoint:
    fields = {
        "outcome": "measured", "reason": "", "verdict": "PMD core 1 is saturated.", "invisible": "",
        "scenarios": ("s",), "limit": "forwarding_core", **changes,
    }  # fmt: skip
    return CurvePoint(levels=levels, estimates=estimates, **fields)  # type: ignore[arg-type]


def published(
    points: Mapping[Level, float],
    *,
    group: str = "base",
    metric: str = "NDR",
    factor: str = "five-tuples",
    unit: str = "fps",
    others: Mapping[str, Level] | None = None,
) -> Published:
    made = tuple(PublishedPoint({factor: level, **(others or {})}, value) for level, value in points.items())
    return Published(group, metric, unit, factor, "published", made)


def study(
    kind: str, *figures: Published, group: str = "base", metric: str = "NDR", factor: str = "", against: str = ""
) -> Study:
    """A study that asks for one sentence."""
    request = FindingRequest(kind, group, metric, factor, against)
    return Study("synthetic", "Synthetic", "About.", "Elsewhere.", figures, (request,), quick=False)

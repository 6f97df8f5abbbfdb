"""Results in the result model of FD.io CSIT (UTI, test case, version 1.5.1: docs/model, resources/model_schema).

What the model requires and a run does not hold is not invented: the part is left out, and named.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from pinchpoint.export.tables import Stored, when
from pinchpoint.model import hdr, units
from pinchpoint.model.errors import InputError
from pinchpoint.model.measurement import Metric
from pinchpoint.model.result import LatencyPoint, Outcome, Rate, RateStatus, ScenarioResult
from pinchpoint.model.trial import StreamCounts, Trial, TrialValidity

VERSION: Final = "1.5.1"
_PDR: Final = 0.005  # the loss ratio of the model's PDR
_LAB: Final = ("pinchpoint", "python", "MLRsearch", "iproute2", "engine", "backend ", "port ")
_LOADS: Final = {"pdr_0": 0.0, "pdr_10": 0.1, "pdr_50": 0.5, "pdr_90": 0.9}  # shares of the PDR
_NEAR, _NEAR_ZERO = 0.1, 0.02  # by which a load may differ from its share, of that and of the PDR
_LOWEST: Final = 0.01  # share of the PDR that stands for 0: the engine sends something


@dataclass
class TestCase:
    """One scenario as the model's test case, and what had to be left out."""

    name: str
    document: dict[str, Any] | None  # None: the model has no type of test for it
    left_out: list[str] = field(default_factory=list)


def of_run(run: Stored) -> Iterator[TestCase]:
    """A test case for each scenario of the run, in order."""
    for result in run.result.scenarios:
        yield _test_case(run, result)


def _test_case(run: Stored, result: ScenarioResult) -> TestCase:
    test_type = {"rates": "ndrpdr", "bandwidth": "hoststack"}.get(result.measure)
    if test_type is None:
        return TestCase(result.scenario, None, [f"measure {result.measure}: the model has no such type of test"])
    left_out: list[str] = ["telemetry: runs keep counters by trial, not as OpenMetrics lines"]
    measured = result.outcome is Outcome.MEASURED
    outcome = _result(run, result, left_out) if measured else {"type": "unknown"}
    name = _name(result.scenario)
    began = _began(run, result)
    passed = measured and outcome["type"] != "unknown"
    levels = [f"{name}={level}" for name, level in result.levels.items()]
    document = {
        "duration": result.wall_s,
        "dut_type": run.device(result.scenario).get("kind", "unknown"),
        "dut_version": _dut_version(run),
        "end_time": _time(began + timedelta(seconds=result.wall_s)),
        "hosts": ["localhost"],
        "message": "" if passed else result.reason or _why(result),
        "passed": passed,
        "result": outcome,
        "start_time": _time(began),
        "tags": [result.measure, result.group or result.scenario, *levels],
        "telemetry": [],
        "test_documentation": result.title,
        "test_id": f"{_name(run.info.run_id)}.{name}",
        "test_name_long": f"pinchpoint-{name}",
        "test_name_short": f"{name}-{test_type}",
        "test_type": test_type,
        "tg_type": "PINCHPOINT",
        "tg_version": run.info.versions.get("engine", "unknown"),
        "version": VERSION,
    }
    return TestCase(result.scenario, document, left_out)


def _result(run: Stored, result: ScenarioResult, left_out: list[str]) -> dict[str, Any]:
    if result.measure == "bandwidth":
        return _goodput(result, left_out)
    ndr, pdr = (next((rate for rate in result.rates if rate.loss_ratio == ratio), None) for ratio in (0.0, _PDR))
    bounds = {"ndr": _bounds(ndr), "pdr": _bounds(pdr)}
    missing = [name for name, bound in bounds.items() if bound is None]
    if missing:
        left_out.append(f"result: {' and '.join(missing)}: no rate with both bounds, which the type ndrpdr requires")
        return {"type": "unknown"}
    ndr_fps = ndr.quoted_fps if ndr is not None and ndr.quoted_fps else 0.0
    pdr_fps = pdr.lower_fps if pdr is not None and pdr.lower_fps else 0.0
    return {"type": "ndrpdr", **bounds, **_latencies(run, result, ndr_fps, pdr_fps, left_out)}


def _latencies(
    run: Stored, result: ScenarioResult, ndr_fps: float, pdr_fps: float, left_out: list[str]
) -> dict[str, Any]:
    """By direction, at each of the model's loads; the first stream's direction is forward."""
    trials = {trial.id: trial for trial in run.trials if trial.scenario == result.scenario}
    timed = [trials.get(point.trial_id) if point else None for point in _points(result, pdr_fps)]
    latencies: dict[str, Any] = {}
    for name, is_forward in (("latency_forward", True), ("latency_reverse", False)):
        numbers = [_numbers(trial, is_forward) if trial else None for trial in timed]
        if all(numbers):
            latencies[name] = dict(zip(_LOADS, numbers, strict=True))
    if "latency_forward" not in latencies:
        missing = [share for share, trial in zip(_LOADS.values(), timed, strict=True) if trial is None]
        left_out.append(f"latency_forward, latency_reverse: {_why_no_latency(missing, ndr_fps, pdr_fps)}")
    return latencies


def _why_no_latency(missing: Sequence[float], ndr_fps: float, pdr_fps: float) -> str:
    """Which of the model's loads, shares of the PDR, have no latency, and which shares of the NDR they are."""
    if not missing:
        return "a stream has no latency histogram"
    loads = ", ".join(f"{share * 100:g} % ({units.fps(share * pdr_fps)})" if share else "0 %" for share in missing)
    told = f"the model requires latency at 0, 10, 50 and 90 % of the PDR; missing: {loads}"
    shares = [max(share, _LOWEST) * pdr_fps / ndr_fps for share in missing] if ndr_fps else []
    if not shares:
        return told
    if max(shares) > 1:
        return f"{told}; latency is measured up to the NDR, {units.fps(ndr_fps)}"
    return f"{told}; as shares of the NDR: latency.at = [{', '.join(f'{share:.3g}' for share in shares)}]"


def _points(result: ScenarioResult, pdr_fps: float) -> Iterator[LatencyPoint | None]:
    """For each of the model's loads the nearest at which latency was measured; None: none is near."""
    usable = [point for point in result.latency if point.latency and point.validity is TrialValidity.VALID]
    for share in _LOADS.values():
        near = max(_NEAR_ZERO, _NEAR * share) * pdr_fps
        distances = {abs(point.load_fps - share * pdr_fps): point for point in usable}
        yield distances[min(distances)] if distances and min(distances) <= near else None


def _numbers(trial: Trial, is_forward: bool) -> dict[str, Any] | None:
    """The latency of one direction in microseconds; None if a stream was not timed. Raises InputError."""
    streams = [stream for stream in trial.streams if (stream.tx_port == trial.streams[0].tx_port) is is_forward]
    timed = [stream.latency for stream in streams if stream.latency_histogram and stream.latency]
    frames = sum(latency.count for latency in timed)
    if not frames or len(timed) < len(streams):
        return None
    mean_ns = math.fsum(latency.mean_ns * latency.count for latency in timed) / frames
    return {
        "avg": round(mean_ns / 1000),
        "hdrh": hdr.encode(_microseconds(trial.id, streams)),
        "max": math.ceil(max(latency.max_ns for latency in timed) / 1000),
        "min": max(0, min(latency.min_ns for latency in timed) // 1000),
        "unit": "us",
    }


def _microseconds(trial: str, streams: Sequence[StreamCounts]) -> Counter[int]:
    counts: Counter[int] = Counter()
    for stream in streams:
        try:
            times = hdr.decode(stream.latency_histogram)
        except ValueError as error:
            raise InputError(f"trials.jsonl, trial {trial}: latency_histogram: {error}") from error
        for ns, count in times.items():
            counts[round(ns / 1000)] += count
    return counts


def _bounds(rate: Rate | None) -> dict[str, Any] | None:
    """Both ends, aggregate, in packets per second; None without two."""
    if rate is None or rate.status is not RateStatus.FOUND or (known := rate.interval) is None:
        return None
    ends = {"lower": known.low, "upper": known.high}
    return {end: {"rate": {"value": value, "unit": "pps"}} for end, value in ends.items()}


def _goodput(result: ScenarioResult, left_out: list[str]) -> dict[str, Any]:
    metrics: Mapping[str, Metric] = {metric.name: metric for metric in result.metrics}
    if "goodput" not in metrics:
        left_out.append("result: no goodput, which the type hoststack requires")
        return {"type": "unknown"}
    goodput: dict[str, Any] = {"type": "hoststack", "bandwidth": {"value": metrics["goodput"].value, "unit": "bps"}}
    if "retransmits" in metrics:
        goodput["retransmits"] = {"value": metrics["retransmits"].value, "unit": "packets"}
    return goodput


def _why(result: ScenarioResult) -> str:
    open_rates = (rate for rate in result.rates if rate.status is not RateStatus.FOUND)
    reasons = [f"{rate.name}: {rate.reason or rate.status}" for rate in open_rates]
    return "; ".join(reasons) or "no result of a type that the model has"


def _began(run: Stored, result: ScenarioResult) -> datetime:
    known = [began for scenario, began, _ in run.times if scenario == result.scenario]
    return min(known) if known else when(run.info.started) or datetime.fromtimestamp(0, UTC)


def _time(at: datetime) -> str:
    return at.isoformat().replace("+00:00", "Z")


def _dut_version(run: Stored) -> str:
    """Everything that is no part of the lab, as it was recorded."""
    versions = [f"{name}: {value}" for name, value in run.info.versions.items() if not name.startswith(_LAB)]
    return "; ".join(versions) or "not recorded"


def _name(text: str) -> str:
    """As the model's names are: lower case, without spaces."""
    return re.sub(r"\s", "_", text.lower())

"""Results in the result model of FD.io CSIT (UTI, test case, version 1.4.0: docs/model, resources/model_schema).

What the model requires and a run does not hold is not invented: the part is left out, and named.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from pinchpoint.export.tables import Stored, when
from pinchpoint.model.measurement import Metric
from pinchpoint.model.result import Outcome, Rate, RateStatus, ScenarioResult

VERSION: Final = "1.4.0"
_PDR: Final = 0.005  # the loss ratio of the model's PDR
_LAB: Final = ("pinchpoint", "python", "MLRsearch", "iproute2", "engine", "backend ", "port ")
_LATENCY: Final = "latency_forward, latency_reverse: the model requires an HDR histogram, and runs keep quantiles"


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
    outcome = _result(result, left_out) if measured else {"type": "unknown"}
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


def _result(result: ScenarioResult, left_out: list[str]) -> dict[str, Any]:
    if result.measure == "bandwidth":
        return _goodput(result, left_out)
    left_out.append(_LATENCY)
    ndr, pdr = (next((rate for rate in result.rates if rate.loss_ratio == ratio), None) for ratio in (0.0, _PDR))
    bounds = {"ndr": _bounds(ndr), "pdr": _bounds(pdr)}
    missing = [name for name, bound in bounds.items() if bound is None]
    if missing:
        left_out.append(f"result: {' and '.join(missing)}: no rate with both bounds, which the type ndrpdr requires")
        return {"type": "unknown"}
    return {"type": "ndrpdr", **bounds}


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

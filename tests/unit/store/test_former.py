"""Files of schemas 1 to 3 come in today's words; exports go on saying those of 1 and 2."""

import json
from dataclasses import replace

import pytest
from sample import sample_run
from stored_runs import history

from pinchpoint.export import Stored, frame, openmetrics
from pinchpoint.findings.trend import trends
from pinchpoint.model import former
from pinchpoint.model.causes import Sign, Signs, Suspicion, Turned, Turns
from pinchpoint.model.errors import InputError
from pinchpoint.model.hops import DropKind
from pinchpoint.model.measurement import Metric
from pinchpoint.model.result import Limit, RunResult, ScenarioResult
from pinchpoint.model.study import CurvePoint, FindingRequest
from pinchpoint.model.trial import BusyBy, Drop, ThreadLoad, Trial
from pinchpoint.store.folder import RESULT, TRIAL

POLLS = {
    "name": "PMD core 1", "core": 1, "received": 1000, "recirculated": 0, "busy_share": 0.9, "cycles_per_packet": 300.0,
    "simple_match_hits": None, "emc_hits": 900, "smc_hits": None, "megaflow_hits": 90, "upcalls": 8, "lost_upcalls": 2,
    "clock_hz": 2.6e9, "ports": ["left"],
}  # fmt: skip
SLEEPS = {"name": "main thread", "core": None, "received": 5, "busy_share": 0.2}


def test_the_caches_of_a_thread_are_its_detail_and_its_slow_path_counts_what_was_lost() -> None:
    read = former.renewed(POLLS, ThreadLoad)
    assert read == {
        "name": "PMD core 1", "cpu": 1, "received": 1000, "recirculated": 0, "busy_share": 0.9, "busy_by": "cycles",
        "cycles_per_packet": 300.0, "clock_hz": 2.6e9, "ports": ["left"], "slow_path": 10,
        "detail": {"emc_hits": 900, "megaflow_hits": 90, "upcalls": 8, "lost_upcalls": 2},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("changed", "busy_by"), [({}, BusyBy.PROCESSOR_TIME), ({"busy_share": None}, None), ({"clock_hz": 2e9}, "cycles")]
)
def test_a_thread_without_a_clock_was_busy_by_its_processor_time(changed: dict[str, object], busy_by: object) -> None:
    read = former.renewed({**SLEEPS, **changed}, ThreadLoad)
    assert (read["busy_by"], read["slow_path"], read["detail"]) == (busy_by, None, {})


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("PMD busy", "thread busy"),
        ("PMD busy at 20.0 kpps", "thread busy at 20.0 kpps"),
        ("PMD core 1: PMD busy", "PMD core 1: thread busy"),
        ("EMC share", "lookup share of EMC"),
        ("megaflow share at 100 kpps", "lookup share of megaflow classifier at 100 kpps"),
        ("upcall share", "lookup share of upcalls"),
    ],
)
def test_a_former_metric_is_the_one_of_today_and_is_exported_by_its_former_name(old: str, new: str) -> None:
    assert (former.metric(old), former.metric(new)) == (new, new)
    assert (former.exported_metric(new), former.exported_metric(old)) == (old, old)


@pytest.mark.parametrize(
    "name", ["NDR", "client busy", "the PMD busy loop", "PMD busy, EMC share", "", "queue share a:0"]
)
def test_any_other_metric_and_any_other_text_stays(name: str) -> None:
    assert former.metric(name) == former.exported_metric(name) == name


def test_words_of_enums_are_mapped_wherever_they_are_stored() -> None:
    drop = {"name": "lost", "frames": 1, "counter": "c", "limits": "dut", "kind": "upcalls"}
    assert former.renewed(drop, Drop)["kind"] == DropKind.SLOW_PATH
    signs = {
        "values": {
            "upcalls for each frame": 0.1,
            "exact-match cache without new entries": 1.0,
            "cycles per packet": 9.0,
        },
        "lost": {"upcalls": 0.5, "MTU": 0.5},
    }
    read = former.renewed({"before": signs, "dropped_after": {"upcalls": 1.0}}, Turns)
    assert read["before"]["values"] == {Sign.SLOW_PATH: 0.1, Sign.CYCLES: 9.0}
    assert read["before"]["lost"] == {DropKind.SLOW_PATH: 0.5, DropKind.MTU: 0.5}
    assert read["dropped_after"] == {DropKind.SLOW_PATH: 1.0}


def test_words_that_are_stored_as_text_are_mapped_only_where_they_stand() -> None:
    point = {"limit": "pmd_core", "estimates": {"PMD busy": {}}, "notes": {"EMC share": "upcalls"}}
    assert former.renewed(point, CurvePoint) == {
        "limit": "forwarding_core", "estimates": {"thread busy": {}}, "notes": {"lookup share of EMC": "upcalls"},
    }  # fmt: skip
    suspicion = {"cause": "upcalls", "title": "upcalls", "experiment": "few flows"}
    assert former.renewed(suspicion, Suspicion) == {**suspicion, "cause": "slow-path"}
    request = {"kind": "fall", "metric": "EMC share", "against": "PMD busy"}
    assert former.renewed(request, FindingRequest)["against"] == "thread busy"


def test_counters_and_plain_data_are_a_devices_own() -> None:
    kept = {"observed": {"ovs/pmd/core1/upcalls": 1.0}, "pmds": "no list", "validity": 7}
    assert former.renewed(kept, Trial) == {**{key: kept[key] for key in ("observed", "validity")}, "threads": "no list"}


def old(result: RunResult) -> bytes:
    """A result as schema 2 had it."""
    plain = json.loads(RESULT.encode(result, ""))
    for scenario in plain["scenarios"]:
        scenario["pmds"] = [_as_it_was(load) for load in scenario.pop("threads")]
        scenario["warnings"] = [warning["text"] for warning in scenario["warnings"]]
        for metric in scenario["metrics"]:
            metric["name"] = former.exported_metric(metric["name"])
    return json.dumps({**plain, "schema": 2}).encode()


def _as_it_was(load: dict[str, object]) -> dict[str, object]:
    detail = load.pop("detail")
    assert isinstance(detail, dict)
    return {name: value for name, value in load.items() if name not in ("cpu", "busy_by", "slow_path")} | {
        **detail,
        "core": load["cpu"],
    }


def test_a_trend_goes_on_over_runs_of_both_schemas() -> None:
    runs = []
    for number, (info, result) in enumerate(history([3e6] * 24)):
        (scenario,) = result.scenarios
        busy = Metric("thread busy", "share", 0.5 + 0.001 * (number % 3) + 0.2 * (number >= 12))
        result = replace(result, scenarios=(replace(scenario, metrics=(*scenario.metrics, busy)),))
        runs.append((info, RESULT.decode(old(result), "") if number < 12 else result))
    (trend,) = trends(runs, metrics=["thread busy"])
    assert ([segment.first for segment in trend.segments], trend.left_out) == ([0, 12], ())


def test_what_is_malformed_in_an_older_file_is_named_with_its_place() -> None:
    plain = json.loads(old(sample_run()[1]))
    plain["scenarios"][1]["pmds"][0]["emc_hits"] = "many"
    with pytest.raises(InputError, match=r"at \$\.scenarios\[1\]\.threads\[0\]\.detail\[\.\.\.\]: Expected `float`"):
        RESULT.decode(json.dumps(plain).encode(), "here")
    trial = json.loads(TRIAL.encode(sample_run()[2][0], ""))
    with pytest.raises(InputError, match=r"unknown field `colour`"):
        TRIAL.decode(json.dumps({**trial, "schema": 2, "colour": 1}).encode(), "here")


def measured(result: ScenarioResult) -> Stored:
    info, run, _ = sample_run()
    return Stored(info, replace(run, scenarios=(result,)))


def test_exports_say_the_former_words() -> None:
    snat = sample_run()[1].scenarios[1]
    assert snat.verdict is not None and snat.verdict.limit is Limit.FORWARDING_CORE
    suspicion = Suspicion("slow-path", "", 0.5, (), "")
    own = Metric("PMD core 1: thread busy", "share", 0.9)
    run = measured(replace(snat, metrics=(own,), verdict=replace(snat.verdict, suspicions=(suspicion,))))
    scenarios = frame("scenarios", [run])
    assert (scenarios.column("limit"), scenarios.column("causes")) == (("pmd_core",), ('["upcalls"]',))
    assert frame("metrics", [run]).column("metric") == ("PMD core 1: PMD busy",)
    assert "pinchpoint_pmd_core_1_pmd_busy_ratio" in openmetrics.of_runs([run])


def test_a_counter_experiment_of_schema_2_is_read_whole() -> None:
    snat = sample_run()[1].scenarios[1]
    turned = Turned(1.5, 8, 8, True, False, False)
    seen = Signs({Sign.SLOW_PATH: 0.1}, {DropKind.SLOW_PATH: 1.0})
    turns = Turns(1e6, 8, turned, turned, turned, seen, seen, {DropKind.SLOW_PATH: 1.0}, {})
    result = replace(sample_run()[1], scenarios=(replace(snat, turns=turns),))
    text = (
        old(result)
        .replace(str(Sign.SLOW_PATH).encode(), b"upcalls for each frame")
        .replace(b'"slow path"', b'"upcalls"')
    )
    assert RESULT.decode(text, "") == result

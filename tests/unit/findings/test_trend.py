"""What may be compared over stored runs is; what may not is named."""

from dataclasses import replace

import pytest
from stored_runs import HOST, VERSIONS, history, stored_run
from sweeps import base

from pinchpoint.findings.trend import StoredRun, trends
from pinchpoint.model.errors import InputError
from pinchpoint.model.measurement import Bound, Metric
from pinchpoint.model.scenario import SearchMethod
from pinchpoint.scenario.plain import to_plain


def test_runs_are_taken_in_the_order_of_their_start_and_a_fall_is_worse() -> None:
    (trend,) = trends(history([3.0e6] * 12 + [2.8e6] * 8)[::-1])
    assert [run.run_id for run in trend.runs] == [f"forward-{number:03d}" for number in range(20)]
    assert [(segment.first, segment.end) for segment in trend.segments] == [(0, 12), (12, 20)]
    (change,) = trend.changes
    assert (change.run_id, change.worse, trend.worse) == ("forward-012", True, True)
    assert change.ratio == pytest.approx(2.8 / 3.0, abs=0.01)
    assert trend.segments[1].interval == "95 %, of the median by ranks over 8 runs"
    assert trend.definition.startswith("loss ratio 0: at most half of the 1 s trials")


def test_a_rise_is_no_worse_and_neither_is_a_fall_that_was_mended() -> None:
    (risen,) = trends(history([3.0e6] * 10 + [3.3e6] * 10))
    assert [change.worse for change in risen.changes] == [False]
    (mended,) = trends(history([3.0e6] * 12 + [2.7e6] * 8 + [3.0e6] * 8))
    assert ([change.worse for change in mended.changes], mended.worse) == ([True, False], False)


def test_more_of_a_cost_is_worse() -> None:
    runs = []
    for number, (info, result) in enumerate(history([3e6] * 24)):
        cost = 100 + number % 3 + 20 * (number >= 12)
        (scenario,) = result.scenarios
        metric = Metric("cycles per packet", "cycles", float(cost))
        runs.append((info, replace(result, scenarios=(replace(scenario, metrics=(*scenario.metrics, metric)),))))
    (trend,) = trends(runs, metrics=["cycles per packet"])
    assert (trend.unit, trend.definition, trend.worse) == ("cycles", "", True)


def test_a_steady_series_has_one_level_and_too_few_runs_say_so() -> None:
    (steady,) = trends(history([3e6] * 25))
    assert (len(steady.segments), steady.changes, steady.too_few) == (1, (), False)
    (few,) = trends(history([3e6] * 5 + [1e6] * 4))
    assert (few.too_few, few.changes, few.worse) == (True, (), False)


def test_another_scenario_is_left_out_and_what_differs_is_told() -> None:
    runs = [*history([3e6] * 10), stored_run(3, 9e6, ring=64)]
    (trend,) = trends(runs)
    assert len(trend.runs) == 10
    assert trend.left_out == ("forward-003: another scenario: port[1].ring 64, now 4,096; port[2].ring 64, now 4,096",)


def test_an_emulated_processor_is_left_out_of_the_trend_of_a_real_one() -> None:
    runs = history([3e6] * 11)
    info, result = runs[4]
    emulated = replace(result.scenarios[0], settings={"guest.kernel": "qemu", "guest.processor": "emulated"})
    (trend,) = trends([*runs[:4], (info, replace(result, scenarios=(emulated,))), *runs[5:]])
    assert (len(trend.runs), trend.left_out) == (
        10, ("forward-004: another machine: guest.processor emulated, now real",),
    )  # fmt: skip


def test_another_definition_of_the_rate_is_left_out() -> None:
    runs = [*history([3e6] * 10), stored_run(20, 4e6, method=SearchMethod.THRESHOLD)]
    (trend,) = trends(runs)
    assert [run.run_id for run in trend.runs] == ["forward-020"]
    assert len(trend.left_out) == 10
    assert trend.left_out[0].startswith("forward-000: another definition: loss ratio 0: at most half of the 1 s")


def test_a_rate_that_is_a_bound_or_refused_is_no_point() -> None:
    runs = history([3e6] * 10)
    info, result = runs[4]
    (scenario,) = result.scenarios
    least = Metric("NDR", "fps", 5e6, 5e6, None, "at least: the generator offered no more", Bound.AT_LEAST)
    least = replace(scenario, metrics=(least,))
    runs[4] = (info, replace(result, scenarios=(least,)))
    (trend,) = trends(runs)
    assert len(trend.runs) == 9
    assert trend.left_out == ("forward-004: at least: the generator offered no more",)


def test_a_number_without_an_undisturbed_trial_behind_it_is_no_point() -> None:
    """As `compare` has it: a change of the host would be reported as the switch's."""
    runs = []
    for number, (info, result) in enumerate(history([3e6] * 10)):
        (scenario,) = result.scenarios
        metric = Metric("cycles per packet", "cycles", 100.0)
        if number == 9:
            why = ("the host was disturbed in all 3 trials",)
            metric = Metric("cycles per packet", "cycles", 900.0, cautions=why, disturbed=True)
        runs.append((info, replace(result, scenarios=(replace(scenario, metrics=(*scenario.metrics, metric)),))))
    (trend,) = trends(runs, metrics=["cycles per packet"])
    assert [run.value for run in trend.runs] == [100.0] * 9
    assert trend.left_out == ("forward-009: the host was disturbed in all 3 trials",)


def test_host_switch_and_modes_of_the_cores_are_told_where_they_change() -> None:
    runs = history([3e6] * 10)
    later = {"host": {**HOST, "kernel": "6.2.0", "memory": "15.5 GiB"}, "versions": {**VERSIONS, "switch br": "3.2.0"}}
    runs += [stored_run(number, 2.7e6 + 1e3 * number, distance_ns=140.0, **later) for number in range(10, 20)]
    (trend,) = trends(runs)
    assert trend.changes[0].changed == (
        "kernel 6.1.0 -> 6.2.0",
        "switch br 3.1.0 -> 3.2.0",
        "cores apart 30 ns -> 140 ns",
    )
    assert not any(run.changed for run in trend.runs if run.run_id != trend.changes[0].run_id)


def written(run: StoredRun, **changes: object) -> StoredRun:
    """The run of a scenario with other values; None: without the key, as a version writes it that has no such key."""
    info, result = run
    plain = {key: value for key, value in {**info.scenarios[0], **changes}.items() if value is not None}
    return replace(info, scenarios=(plain,)), result


def test_keys_that_only_one_version_writes_are_no_difference_where_the_file_left_them_to_their_default() -> None:
    runs = history([3e6] * 3)
    runs[0] = written(runs[0], numa=None)
    (trend,) = trends(runs)
    assert trend.left_out == ()
    chosen = [written(run, numa="same", defaulted=[]) for run in runs[1:]]
    (trend,) = trends([runs[0], *chosen])
    assert trend.left_out == ("forward-000: another scenario: numa none, now same",)


def test_a_setting_that_only_one_run_has_is_another_scenario() -> None:
    runs = history([3e6] * 4)
    runs[1] = written(runs[1], **to_plain(base(dut__other_config={"pmd-auto-lb": "true"})))
    (trend,) = trends(runs)
    assert trend.left_out == ("forward-001: another scenario: dut.other_config.pmd-auto-lb true, now none",)
    (trend,) = trends(runs[:2])
    assert trend.left_out == ("forward-000: another scenario: dut.other_config.pmd-auto-lb none, now true",)


def test_a_table_that_only_one_run_has_is_another_scenario() -> None:
    runs = history([3e6] * 3)
    runs[2] = written(runs[2], soak={"share": 0.9})
    (trend,) = trends(runs)
    assert trend.left_out[0] == "forward-000: another scenario: soak.share none, now 0.9"


def test_rules_are_told_by_their_text() -> None:
    runs = history([3e6] * 3)
    both = "in_port={left},actions=output:{right}\npriority=9,actions=drop"
    runs[0] = written(runs[0], **to_plain(base(dut__rules=both)))
    (trend,) = trends(runs)
    assert trend.left_out == ("forward-000: another scenario: rules of br0 priority=9,actions=drop, now none",)


def test_what_defines_a_number_is_told_as_another_definition() -> None:
    runs = history([3e6] * 3)
    runs[0] = written(runs[0], **to_plain(base(search__trial_duration_s=0.5)))
    (trend,) = trends(runs)
    now = f"{base().search.trial_duration_s:g}"
    assert trend.left_out == (f"forward-000: another definition: search.trial_duration_s 0.5, now {now}",)


def test_unknown_names_and_no_runs_are_refused() -> None:
    with pytest.raises(InputError, match="no run has measured absent\n  hint: measured: 1-forward"):
        trends(history([3e6]), scenarios=["absent"])
    with pytest.raises(InputError, match="1-forward: no metric PDR\n  hint: did you mean NDR\\? its metrics: NDR"):
        trends(history([3e6]), metrics=["PDR"])
    with pytest.raises(InputError, match="no run has measured anything"):
        trends([])
    info, result = stored_run(1, 3e6)
    with pytest.raises(InputError, match="started: 'yesterday' is no time"):
        trends([(replace(info, started="yesterday"), result)])

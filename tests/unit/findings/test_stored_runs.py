"""Two stored runs: numbers of one definition and one mode are compared, unpaired, and everything else is reported."""

from dataclasses import replace

import pytest
from comparisons import result_of, run_info
from sweeps import base, factor, sweep

from pinchpoint.findings.stored_runs import of_runs
from pinchpoint.model.comparison import ComparisonKind, Decision
from pinchpoint.model.errors import InputError
from pinchpoint.model.measurement import Metric
from pinchpoint.model.result import Band, Rate, RateStatus, ReceiveRate, RunResult
from pinchpoint.run.order import units
from pinchpoint.store.codec import SCHEMA


def run(values, run_id="run", scenario=None, trial_s=1.0, **cores):
    """A run of one scenario, repeated: its NDRs."""
    plain = scenario or base()
    repeats = [
        replace(plain, name=f"{plain.name}.r{n}", point=replace(plain.point, repeat=n)) for n in range(len(values))
    ]
    results = []
    for unit, value in zip(repeats, values, strict=True):
        rate = Rate(0.0, RateStatus.FOUND, value, value, trial_s, 21.0, "")
        results.append(replace(result_of(unit, value, name="NDR", **cores), rates=(rate,)))
    return run_info(repeats, run_id=run_id), RunResult(SCHEMA, run_id, True, tuple(results))


A = run([8.0e6, 8.1e6, 7.9e6, 8.05e6])


def main(comparison):
    return comparison.scenarios[0].metrics[0]


def test_ratio_has_the_worst_ends_of_both_intervals_and_says_that_it_is_unpaired():
    comparison = of_runs(A, run([6.0e6, 6.1e6, 5.9e6, 6.05e6], "other"))
    metric = main(comparison)
    assert comparison.kind is ComparisonKind.UNPAIRED
    assert metric.decision is Decision.LOWER
    assert metric.better is False
    assert metric.low < 6.0 / 8.0 < metric.high
    assert metric.low == pytest.approx(metric.b.low / metric.a.high)
    notes = comparison.scenarios[0].notes
    assert notes[0].startswith("unpaired")
    (defined,) = comparison.scenarios[0].definitions
    assert defined.startswith("NDR: loss ratio 0: ") and "1 s trials" in defined


def test_no_difference_says_what_could_hide():
    metric = main(of_runs(A, run([8.02e6, 8.1e6, 7.95e6, 8.0e6])))
    assert metric.decision is Decision.NOT_FOUND
    assert "cannot be excluded" in metric.sentence


def test_rates_of_different_trial_lengths_are_refused_with_both_definitions():
    longer = replace(base(), search=replace(base().search, trial_duration_s=10.0))
    metric = main(of_runs(A, run([8e6] * 3, scenario=longer, trial_s=10.0)))
    assert metric.decision is Decision.REFUSED
    assert metric.ratio is None
    assert "search.trial_duration_s is" in metric.sentence


def test_a_definition_is_read_from_the_results_where_the_scenarios_do_not_tell_it():
    metric = main(of_runs(A, run([8e6] * 3, trial_s=10.0)))
    assert metric.decision is Decision.REFUSED
    assert "10 s trials" in metric.sentence


def overloaded(trial_s):
    """A run whose MRR is of trials of this length; its scenario does not tell."""
    info, result = run([8e6] * 3)
    mrr = ReceiveRate(2e7, 9e6, 8.9e6, 9.1e6, Band(8.8e6, 9.2e6), 7, trial_s, 0.95)
    metric = Metric("MRR", "fps", 9e6, 8.9e6, 9.1e6)
    scenarios = tuple(replace(scenario, mrr=mrr, metrics=(*scenario.metrics, metric)) for scenario in result.scenarios)
    return info, replace(result, scenarios=scenarios)


def test_mrrs_of_different_trial_lengths_are_refused_with_both_definitions():
    mrr = next(metric for metric in of_runs(overloaded(0.2), overloaded(1.0), ["MRR"]).scenarios[0].metrics)
    assert (mrr.metric, mrr.decision, mrr.ratio) == ("MRR", Decision.REFUSED, None)
    assert "A is forwarded under overload in 0.2 s trials, B is forwarded under overload in 1 s trials" in mrr.sentence
    same = next(metric for metric in of_runs(overloaded(0.2), overloaded(0.2), ["MRR"]).scenarios[0].metrics)
    assert same.ratio == 1.0


def in_guest(kernel, values=(8.0e6, 8.1e6, 7.9e6)):
    info, result = run(values)
    settings = {"guest.kernel": kernel, "guest.release": "6.1.0"} if kernel else {}
    return info, replace(result, scenarios=tuple(replace(scenario, settings=settings) for scenario in result.scenarios))


def test_numbers_from_guests_of_different_kernels_are_refused():
    metric = main(of_runs(in_guest("uml"), in_guest("qemu")))
    assert (metric.decision, metric.ratio) == (Decision.REFUSED, None)
    assert "guest.kernel is uml in A and qemu in B" in metric.sentence


@pytest.mark.parametrize("kernels", [("uml", "uml"), ("qemu", "")])
def test_numbers_from_guests_of_one_kernel_or_of_one_that_is_unknown_are_compared(kernels):
    assert main(of_runs(*map(in_guest, kernels))).ratio is not None


@pytest.mark.parametrize("other", ["real", ""])
def test_numbers_of_an_emulated_processor_are_refused_beside_those_of_a_real_one(other):
    def on(processor):
        info, result = run((8.0e6, 8.1e6, 7.9e6))
        settings = {"guest.processor": processor} if processor else {}
        return info, replace(result, scenarios=tuple(replace(each, settings=settings) for each in result.scenarios))

    metric = main(of_runs(on("emulated"), on(other)))
    assert (metric.decision, metric.ratio) == (Decision.REFUSED, None)
    assert "guest.processor is emulated in A and real in B" in metric.sentence
    assert main(of_runs(on("emulated"), on("emulated"))).ratio is not None


def test_numbers_of_different_modes_of_the_cores_are_not_compared():
    metric = main(of_runs(run([8e6] * 3, distance_ns=25.0), run([4e6] * 3, distance_ns=150.0)))
    assert metric.decision is Decision.REFUSED
    assert "different modes" in metric.sentence


def test_single_measurements_without_interval_decide_nothing():
    a, b = run([8e6]), run([4e6])
    assert main(of_runs(a, b)).decision is Decision.TOO_FEW
    assert main(of_runs(a, b)).sentence == "B is 50.0 % lower: no interval is known"


@pytest.mark.parametrize(
    ("a", "b", "decided"), [(2, 2, False), (3, 3, False), (3, 5, True), (4, 4, True), (2, 4, False)]
)
def test_ranges_of_few_repeats_decide_only_where_chance_seldom_parts_them(a, b, decided):
    higher, lower = ([base * (1 + n / 1000) for n in range(count)] for base, count in ((8e6, a), (4e6, b)))
    metric = main(of_runs(run(higher), run(lower)))
    assert (metric.decision is Decision.LOWER) is decided
    assert ("too few to decide" in metric.sentence) is not decided


def test_points_are_found_by_group_and_levels_and_the_others_are_named():
    def swept(levels):
        made = units([sweep(factor(levels))])
        return run_info(made), RunResult(SCHEMA, "run", True, tuple(result_of(unit, 500.0) for unit in made))

    comparison = of_runs(swept([1, 2, 3]), swept([2, 3, 4]))
    assert [dict(part.levels) for part in comparison.scenarios] == [{"rules": 2}, {"rules": 3}]
    assert (comparison.only_a, comparison.only_b) == (("g-rules-1",), ("g-rules-4",))


def test_two_runs_of_one_scenario_each_are_compared_whatever_they_are_called():
    other = replace(base(), name="mine", point=replace(base().point, group="mine"))
    comparison = of_runs(A, run([8e6] * 3, scenario=other))
    assert len(comparison.scenarios) == 1


def test_a_setting_that_only_one_run_has_is_told_with_the_scenario():
    tuned = base(dut__other_config={"pmd-auto-lb": "true"})
    for before, after, words in (
        (A, run([8e6] * 3, scenario=tuned), ("none", "true")),
        (run([8e6] * 3, scenario=tuned), A, ("true", "none")),
    ):
        (told,) = of_runs(before, after).scenarios[0].differences.scenario
        assert (told.what, told.a, told.b) == ("dut.other_config.pmd-auto-lb", *words)


def test_scenarios_of_different_names_are_compared_where_they_are_chosen():
    a, b = (run([8e6] * 3, name) for name in "ab")
    b = (b[0], replace(b[1], scenarios=tuple(replace(one, group="other") for one in b[1].scenarios)))
    names = [result.scenarios[0].scenario for _, result in (a, b)]
    (part,) = of_runs(a, b, pairs=[(names[0], names[1])]).scenarios
    assert (part.a, part.b) == (names[0], names[1])
    with pytest.raises(InputError, match="b has no scenario nope"):
        of_runs(a, b, pairs=[(names[0], "nope")])

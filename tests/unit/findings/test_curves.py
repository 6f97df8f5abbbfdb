"""Curves: repeats become estimates, and no point is left out or made to look better than it is."""

import random
from dataclasses import replace

import pytest
from points import FLOWS, ndr, rate, result, sweep

from pinchpoint.dut.ovs import DEVICE
from pinchpoint.dut.ovs.collectors import FlowDump
from pinchpoint.findings.curves import MOST_LISTED, curves, metrics_of
from pinchpoint.measure.rates.run import of_rates
from pinchpoint.model.measurement import Bound, Metric
from pinchpoint.model.result import Limit, Outcome, RateStatus, ScenarioResult, Verdict
from pinchpoint.model.scenario import Factor
from pinchpoint.model.study import Curve, Need, Refusal
from pinchpoint.stats.estimate import bound_of, estimate


def _one(*results: ScenarioResult, factors: tuple[Factor, ...] = (FLOWS,)) -> Curve:
    (drawn,) = curves([sweep(*factors)], results)
    return drawn


def test_points_stand_in_the_order_of_their_levels_whatever_order_they_ran_in() -> None:
    ran = [result({"five-tuples": level}, [ndr(1e6)]) for level in (65536, 512, 4096)]
    assert [point.levels["five-tuples"] for point in _one(*ran).points] == [512, 4096, 65536]


def test_several_factors_are_ordered_by_the_first_then_the_next() -> None:
    streams = Factor("streams", "", (1, 32), falling=False)
    ran = [result({"five-tuples": a, "streams": b}, [ndr(1e6)]) for b in (32, 1) for a in (4096, 512)]
    levels = [tuple(point.levels.values()) for point in _one(*ran, factors=(FLOWS, streams)).points]
    assert levels == [(512, 1), (512, 32), (4096, 1), (4096, 32)]


def test_other_groups_and_points_not_run_yet_are_left_out() -> None:
    stranger = replace(result({"five-tuples": 512}, [ndr(1e6)]), group="mac")
    assert [len(curve.points) for curve in curves([sweep(FLOWS), sweep(group="mac")], [stranger])] == [0, 1]


def test_one_repeat_has_the_bounds_of_its_search() -> None:
    estimated = _one(result({"five-tuples": 512}, [ndr(3.1e6, 3.2e6)])).points[0].estimates["NDR"]
    assert (estimated.value, estimated.low, estimated.high, estimated.n) == (3.1e6, 3.1e6, 3.2e6, 1)
    assert (estimated.interval, estimated.trimmed_mean) == ("bounds of the search", None)


def test_a_single_metric_without_interval_claims_none() -> None:
    estimated = estimate([Metric("cycles per packet", "cycles", 840.0)])
    assert (estimated.low, estimated.high, estimated.interval) == (None, None, "")


def test_two_repeats_show_their_range() -> None:
    estimated = estimate([ndr(3.0e6, 3.1e6), ndr(3.3e6, 3.4e6)])
    assert (estimated.value, estimated.low, estimated.high) == (3.15e6, 3.0e6, 3.4e6)
    assert estimated.interval == "lowest and highest of 2 repeats"


@pytest.mark.parametrize(
    ("n", "words"),
    [(3, "lowest and highest of 3 repeats"), (5, "lowest and highest of 5 repeats")]
    + [(n, f"95 %, of the median by ranks over {n} repeats") for n in (6, 7)],
)
def test_the_interval_says_what_it_is(n: int, words: str) -> None:
    estimated = estimate([Metric("goodput", "bit/s", 1e9 + 1e6 * i) for i in range(n)])
    assert estimated.interval == words
    assert estimated.low is not None and estimated.high is not None and estimated.low < estimated.value < estimated.high


def test_equal_repeats_are_never_sharper_than_their_searches() -> None:
    estimated = estimate([ndr(3.0e6, 3.1e6)] * 6)
    assert (estimated.low, estimated.high) == (3.0e6, 3.1e6)
    assert estimated.interval.endswith("widened by each one's own bounds")


def test_the_published_way_stands_beside_from_five_repeats() -> None:
    metrics = [Metric("goodput", "bit/s", value) for value in (10.0, 20.0, 30.0, 40.0, 900.0)]
    assert estimate(metrics).trimmed_mean == 30.0
    assert estimate(metrics[:4]).trimmed_mean is None


def test_an_interval_of_amounts_does_not_reach_below_zero() -> None:
    assert estimate([Metric("blocked time", "s", value) for value in (0.0, 0.0, 3.0)]).low == 0.0


@pytest.mark.parametrize("n", [6, 7, 10])
def test_the_interval_covers_the_truth_in_95_of_100_sweeps(n: int) -> None:
    numbers, covered = random.Random(7), 0
    for _ in range(2000):
        estimated = estimate([Metric("goodput", "bit/s", numbers.gauss(50.0, 3.0)) for _ in range(n)])
        assert estimated.low is not None and estimated.high is not None
        covered += estimated.low <= 50.0 <= estimated.high
    assert covered / 2000 == pytest.approx(0.95, abs=0.02)


def test_one_repeat_at_its_ceiling_leaves_the_estimate_open_above() -> None:
    estimated = estimate([ndr(3.0e6, 3.1e6), ndr(3.0e6, None, "at least", Bound.AT_LEAST), ndr(3.0e6, 3.1e6)])
    assert (estimated.bound, estimated.high) == (Bound.AT_LEAST, None)


def test_a_refused_number_is_never_shown_as_found() -> None:
    point = _one(result({"five-tuples": 512}, [ndr(3.1e6, 3.2e6, "no quiet trial", Bound.REFUSED)])).points[0]
    estimated = point.estimates["NDR"]
    assert (estimated.bound, estimated.low, estimated.high) == (Bound.BETWEEN, 3.1e6, 3.2e6)
    assert point.notes["NDR"] == "refused: no quiet trial"


def test_numbers_refused_in_all_repeats_lie_between_their_lowest_and_highest_end() -> None:
    refused = [
        ndr(3.1e6, 3.2e6, "two modes", Bound.REFUSED),
        ndr(1.5e6, 2e6, "two modes", Bound.REFUSED),
        replace(ndr(0.0, None, "no", Bound.REFUSED), low=None),
    ]
    ran = [result({"five-tuples": 512}, [rate], repeat=number) for number, rate in enumerate(refused, start=1)]
    estimated = _one(*ran).points[0].estimates["NDR"]
    assert (estimated.bound, estimated.low, estimated.high, estimated.n) == (Bound.BETWEEN, 1.5e6, 3.2e6, 2)
    open_above = result({"five-tuples": 512}, [ndr(3e6, None, "at the ceiling", Bound.REFUSED)], repeat=4)
    assert "NDR" not in _one(*ran, open_above).points[0].estimates


def test_a_repeat_with_one_end_leaves_the_median_open_at_the_other() -> None:
    estimated = estimate([ndr(3.0e6, 3.1e6), replace(ndr(3.0e6, None), note=""), ndr(3.0e6, 3.1e6)])
    assert (estimated.bound, estimated.low, estimated.high) == (Bound.FOUND, 3.0e6, None)


def test_a_refused_repeat_is_not_averaged_and_is_reported() -> None:
    levels = {"five-tuples": 512}
    refused = ndr(9e6, 9e6, "steal", Bound.REFUSED)
    ran = [result(levels, [ndr(3e6, 3.1e6)], repeat=1), result(levels, [refused], repeat=2)]
    point = _one(*ran).points[0]
    assert (point.estimates["NDR"].value, point.estimates["NDR"].n) == (3e6, 1)
    assert point.notes["NDR"] == "refused in 1 of 2 repeats: steal"
    assert point.refusals["NDR"] == Refusal("steal", 1, 2)


def test_rates_without_a_lower_bound_are_reported_too() -> None:
    below = rate(RateStatus.BELOW_MINIMUM, None, 1e4, "even 10 kpps lost")
    refused = rate(RateStatus.REFUSED, None, None, "no quiet trial")
    points = _one(result({"five-tuples": 512}, [], rates=(below,)), result({"five-tuples": 4096}, [], rates=(refused,)))
    first, second = points.points
    assert (first.estimates["NDR"].bound, first.estimates["NDR"].low) == (Bound.BELOW, None)
    assert second.estimates == {} and second.notes["NDR"] == "refused: no quiet trial"


@pytest.mark.parametrize("status", list(RateStatus))
def test_a_metric_of_a_rate_is_read_as_the_rate_whether_or_not_its_run_stored_that(status: RateStatus) -> None:
    quoted = rate(status, 3e6, 3.1e6, "reason")
    (metric,) = of_rates((quoted,), (), None, DEVICE)
    bounds = {RateStatus.BELOW_MINIMUM: "below", RateStatus.LOSES_ALWAYS: "refused"}
    assert bound_of(metric).value == bounds.get(status, status.value)
    older = result({"five-tuples": 512}, [replace(metric, bound=None)], rates=(quoted,))
    assert [bound_of(metric) for metric in metrics_of(older)] == [metric.bound]


@pytest.mark.parametrize(
    ("low", "high", "bound"),
    [(1.0, 3.0, Bound.FOUND), (None, None, Bound.FOUND), (1.0, None, Bound.AT_LEAST), (None, 3.0, Bound.BELOW)],
)
def test_a_metric_that_does_not_say_how_to_read_it_is_read_by_its_ends(
    low: float | None, high: float | None, bound: Bound
) -> None:
    assert bound_of(Metric("longest stop", "s", 2.0, low, high, "at least, below, refused")) is bound


@pytest.mark.parametrize(("invalid", "disturbed"), [(2, True), (1, False), (0, False)])
def test_of_older_runs_a_workload_without_a_valid_window_is_disturbed(invalid: int, disturbed: bool) -> None:
    unmeasured = result({}, [Metric("goodput", "bit/s", 9e9, note="every window was disturbed by the host")])
    unmeasured = replace(unmeasured, measure="bandwidth", trials=2, invalid_trials={"noisy_host": invalid})
    assert [metric.disturbed for metric in metrics_of(unmeasured)] == [disturbed]


@pytest.mark.parametrize("outcome", [Outcome.IMPOSSIBLE, Outcome.SKIPPED, Outcome.FAILED])
def test_points_without_a_number_stay_with_their_reason(outcome: Outcome) -> None:
    point = _one(result({"five-tuples": 512}, [], outcome=outcome)).points[0]
    assert (point.outcome, point.reason, point.estimates) == (outcome.value, "this machine has one NUMA node", {})


def test_a_point_is_measured_if_one_repeat_was_and_says_what_the_others_were() -> None:
    levels = {"five-tuples": 512}
    ran = [result(levels, [], outcome=Outcome.FAILED), result(levels, [ndr(3e6, 3.1e6)], repeat=2)]
    point = _one(*ran).points[0]
    assert (point.outcome, point.estimates["NDR"].n, len(point.scenarios)) == ("measured", 1, 2)
    assert point.notes[""] == "1 of 2 repeats failed: this machine has one NUMA node"


def _seen(flows: float, masks: float, *more: Metric) -> list[Metric]:
    return [Metric("datapath flows", "count", flows), Metric("datapath masks", "count", masks), *more]


def test_a_factor_that_the_datapath_never_sees_is_named_with_its_numbers() -> None:
    rules = Factor("rules", "", (0, 500_000), falling=True)
    ran = [result({"rules": level}, _seen(2, 1)) for level in rules.levels]
    first, last = _one(*ran, factors=(rules,)).points
    assert first.invisible == ""
    assert last.invisible == (
        "500,000 rules, but 2 datapath flows and 1 mask carried the traffic, as with 0: "
        "the datapath did not see the factor"
    )


@pytest.mark.parametrize(
    "after",
    [
        _seen(65_536, 1),
        _seen(2, 40),
        _seen(2, 1, Metric("conntrack entries", "count", 65_536)),
        _seen(2, 1, Metric("lookup share of EMC", "share", 0.1)),
    ],
)
def test_whatever_changed_in_the_datapath_shows_that_it_saw_the_factor(after: list[Metric]) -> None:
    before = _seen(2, 1, Metric("conntrack entries", "count", 512), Metric("lookup share of EMC", "share", 0.99))
    ran = [result({"five-tuples": 512}, before), result({"five-tuples": 65536}, after)]
    assert _one(*ran).points[1].invisible == ""


@pytest.mark.parametrize(
    ("after", "is_unseen"),
    [
        (Metric("goodput", "bit/s", 0.27e9, 0.26e9, 0.28e9), False),
        (Metric("goodput", "bit/s", 0.27e9), False),
        (Metric("goodput", "bit/s", 0.98e9, 0.97e9, 0.99e9), True),
        (Metric("goodput", "bit/s", 0.9e9, 0.8e9, 1.1e9), True),
    ],
    ids=["falls", "falls, no interval", "by 2 %", "within its interval"],
)
def test_a_factor_that_moves_the_rate_was_not_missed(after: Metric, is_unseen: bool) -> None:
    """As it was seen: 500 more ports took 73 % of the goodput, and "the datapath did not see the factor"."""
    ports = Factor("ports", "", (0, 500), falling=True)
    before = Metric("goodput", "bit/s", 1e9, 0.99e9, 1.01e9)
    ran = [result({"ports": level}, _seen(2, 1, goodput)) for level, goodput in ((0, before), (500, after))]
    assert bool(_one(*ran, factors=(ports,)).points[1].invisible) is is_unseen


def test_a_point_has_the_least_that_the_benches_of_its_repeats_had() -> None:
    benches = ({Need.CPUS: 64, Need.NIC: 0}, {Need.CPUS: 2, Need.NIC: 0})
    ran = [replace(result({"five-tuples": 512}, [], repeat=n), bench=bench) for n, bench in enumerate(benches, 1)]
    assert _one(*ran).points[0].bench == {Need.CPUS: 2, Need.NIC: 0}
    assert _one(ran[0], replace(ran[1], bench=None)).points[0].bench is None


@pytest.mark.parametrize(
    ("factor", "first", "second"),
    [
        (Factor("frame size", "B", (64, 1518), falling=True), 64, 1518),
        (Factor("datapath", "", ("dpdk", "af_xdp"), falling=False), "dpdk", "af_xdp"),
        (Factor("rules", "", (1, 5), falling=True), 1, 5),
    ],
)
def test_factors_of_which_no_flow_is_expected_are_not_blamed(factor: Factor, first: int, second: int) -> None:
    ran = [result({factor.name: level}, _seen(2, 1)) for level in (first, second)]
    assert [point.invisible for point in _one(*ran, factors=(factor,)).points] == ["", ""]


@pytest.mark.parametrize(
    ("keys", "blamed"),
    [
        (("sockets.connections",), False),
        (("load.at_fps", "search.max_load_fps"), False),
        (("sockets.connections", "dut.rule[1].count"), True),
        (("stream[1].flows",), True),
        ((), True),
    ],
)
def test_a_factor_of_the_workload_alone_is_not_looked_for_in_the_datapath(keys: tuple[str, ...], blamed: bool) -> None:
    factor = Factor("connections", "", (1, 1000), falling=False, keys=keys)
    ran = [result({factor.name: level}, _seen(2, 1)) for level in factor.levels]
    assert bool(_one(*ran, factors=(factor,)).points[1].invisible) is blamed


def test_without_observed_flows_nothing_is_said_about_them() -> None:
    ran = [result({"five-tuples": level}, [ndr(3e6)]) for level in (512, 65536)]
    assert [point.invisible for point in _one(*ran).points] == ["", ""]


DISTURBED = "every window was disturbed by the host"


def test_a_disturbed_repeat_is_left_out_while_there_is_another_and_reported() -> None:
    levels = {"five-tuples": 512}
    ran = [
        result(levels, [Metric("goodput", "bit/s", value, disturbed=disturbed)], repeat=repeat)
        for repeat, (value, disturbed) in enumerate(((2e9, False), (9e9, True), (2e9, False)), 1)
    ]
    point = _one(*ran).points[0]
    assert (point.estimates["goodput"].value, point.estimates["goodput"].n) == (2e9, 2)
    assert point.notes["goodput"] == "1 of 3 repeats left out: disturbed by the host"


def test_a_number_that_rests_on_disturbed_measurements_alone_says_so() -> None:
    metric = Metric("goodput", "bit/s", 9e9, 8e9, 1e10, "lowest and highest", cautions=(DISTURBED,), disturbed=True)
    point = _one(result({"five-tuples": 512}, [metric])).points[0]
    assert point.estimates["goodput"].value == 9e9
    assert point.to_mind("goodput") == (DISTURBED,)


def test_words_of_a_note_alone_are_nothing_to_mind() -> None:
    """No sentence drives logic: the words that a caution uses mean nothing in a note."""
    note = "refused; cannot be told; disturbed by the host; not stationary; lost 3 % of its frames"
    metric = Metric("goodput", "bit/s", 9e9, 8e9, 1e10, note)
    point = _one(result({"five-tuples": 512}, [metric])).points[0]
    assert point.estimates["goodput"].bound is Bound.FOUND
    assert (point.to_mind("goodput"), point.refusals) == ((), {})


def test_of_a_point_stored_without_cautions_every_note_is_minded() -> None:
    point = replace(_one(result({}, [ndr(3e6, 3.1e6)])).points[0], cautions=None, notes={"NDR": "two modes"})
    assert (point.to_mind("NDR"), point.to_mind("")) == (("two modes",), ())


def test_five_tuples_that_were_never_sent_are_reported_for_the_whole_point() -> None:
    note = "the trial ended before all 65,536 had been sent"
    sent = Metric("five-tuples sent", "count", 9000, cautions=(note,))
    point = _one(result({"five-tuples": 65536}, [ndr(3e6, 3.1e6), sent])).points[0]
    assert point.notes[""] == note and point.to_mind("") == (note,) and "NDR" in point.estimates


def test_notes_of_all_repeats_are_kept_once_each() -> None:
    ran = [
        result({"five-tuples": 512}, [Metric("thread busy", "share", 0.9, note=note)], repeat=repeat)
        for repeat, note in enumerate(("PMD core 1", "PMD core 2", "PMD core 1"), 1)
    ]
    assert _one(*ran).points[0].notes == {"thread busy": "PMD core 1; PMD core 2"}


def test_at_least_in_one_repeat_and_below_in_another_give_no_number() -> None:
    levels = {"five-tuples": 512}
    below = rate(RateStatus.BELOW_MINIMUM, None, 1e4, "even 10 kpps lost")
    ran = [result(levels, [ndr(5.05e6, None, "at least", Bound.AT_LEAST)]),
           result(levels, [], repeat=2, rates=(below,))]  # fmt: skip
    point = _one(*ran).points[0]
    assert "NDR" not in point.estimates
    assert point.notes["NDR"] == "unknown: at least 5.05 Mpps in 1 of 2 repeats, below 10.0 kpps in 1"


def test_masks_of_too_many_flows_are_said_to_be_not_counted() -> None:
    assert MOST_LISTED == FlowDump.MOST_FLOWS
    ran = [result({"five-tuples": level}, [Metric("datapath flows", "count", level)]) for level in (512, 65536)]
    assert [dict(point.notes) for point in _one(*ran).points] == [
        {}, {"": "masks not counted: more than 20,000 flows"}
    ]  # fmt: skip


def test_a_point_has_the_limits_of_all_its_repeats() -> None:
    first, second = (result({"five-tuples": 512}, [ndr(3e6)], repeat=repeat) for repeat in (1, 2))
    second = replace(second, verdict=Verdict(Limit.GENERATOR, "The generator is saturated.", (), (), ()))
    (made,) = curves([sweep(FLOWS)], [first, second])
    assert (made.points[0].limit, made.points[0].limits) == ("forwarding_core", ("forwarding_core", "generator"))


def test_the_largest_of_several_repeats_is_the_largest_of_all() -> None:
    together = estimate([Metric("latency max", "ns", value) for value in (1e6, 9e6, 2e6)])
    assert (together.value, together.low, together.high, together.n) == (9e6, None, None, 3)


def test_the_level_of_an_interval_is_that_of_as_many_repeats() -> None:
    metrics = [Metric("NDR", "fps", value) for value in (1.0, 2.0, 3.0, 4.0, 5.0, 6.0)]
    assert estimate(metrics[:2]).level == 0.5
    assert (estimate(metrics).level or 0.0) >= 0.95
    assert estimate([Metric("goodput", "bit/s", 2.0, 1.0, 3.0, level=0.75)]).level == 0.75

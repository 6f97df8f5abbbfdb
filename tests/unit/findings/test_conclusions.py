"""Conclusions of an original: decided by the interval of a ratio, and only on a bench that has what they rest on."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from points import curve, number, point, published, refusals

from pinchpoint.findings.conclusions import judged
from pinchpoint.model.measurement import Bound
from pinchpoint.model.scenario import Factor, Level
from pinchpoint.model.study import (
    Conclusion,
    ConclusionOutcome,
    Curve,
    FindingRequest,
    JudgedConclusion,
    Need,
    Published,
    Study,
)

CONFIRMED, CONTRADICTED = ConclusionOutcome.CONFIRMED, ConclusionOutcome.CONTRADICTED
OPEN = ConclusionOutcome.NOT_DECIDABLE
FEW, MANY = {"five-tuples": 255}, {"five-tuples": 65_536}
SMALL, LARGE = {Need.CPUS: 2, Need.KERNEL_DATAPATH: 0}, {Need.CPUS: 64, Need.KERNEL_DATAPATH: 1}
BEYOND = "the interval extends beyond the expected range; more repeats narrow it"
HALVED = {255: {"NDR": number(3.1e6)}, 65_536: {"NDR": number(1.55e6)}}  # 0.5 x [0.48 .. 0.52]


def concluded(
    *curves: Curve,
    over: Mapping[str, Level] = MANY,
    under: Mapping[str, Level] = FEW,
    against: str = "",
    metric: str = "NDR",
    least: float | None = None,
    most: float | None = None,
    needs: Mapping[Need, int] | None = None,
    figures: tuple[Published, ...] = (),
    quick: bool = False,
) -> JudgedConclusion:
    """One conclusion about `base`, judged."""
    request = FindingRequest("compare", "base", metric, "", against, over, under)
    conclusion = Conclusion("It falls.", "a table", request, least, most, needs or {})
    study = Study("synthetic", "Synthetic", "About.", "Elsewhere.", figures, (), quick, (conclusion,))
    (found,) = judged(study, curves)
    return found


@pytest.mark.parametrize(
    ("least", "most", "outcome"),
    [
        (None, 0.8, CONFIRMED),
        (0.45, 0.55, CONFIRMED),
        (0.9, None, CONTRADICTED),
        (None, 0.3, CONTRADICTED),
        (None, 0.5, OPEN),
        (0.5, 0.8, OPEN),
    ],
)
def test_the_interval_lies_within_outside_or_across_what_is_expected(
    least: float | None, most: float | None, outcome: ConclusionOutcome
) -> None:
    found = concluded(curve(HALVED), least=least, most=most)
    assert found.outcome is outcome
    assert (found.ours[""].value, found.repeats) == (pytest.approx(0.5), 3)
    assert found.reasons == ((BEYOND,) if outcome is OPEN else ())


def test_the_originals_ratio_is_that_of_its_figures_at_both_levels() -> None:
    figures = (published({255: 1.2e6, 4096: 1.1e6, 65_536: 0.6e6}),)
    assert concluded(curve(HALVED), most=0.8, figures=figures).theirs == {"": 0.5}
    assert concluded(curve({}), most=0.8, figures=figures).theirs == {"": 0.5}, "nothing of ours is needed for it"
    assert concluded(curve(HALVED), most=0.8, figures=(published({255: 1.2e6}),)).theirs == {}


def test_a_conclusion_without_a_point_has_the_originals_ratio_at_each_further_level() -> None:
    one = published({255: 1.2e6, 65_536: 0.6e6}, others={"connections": 1})
    two = published({255: 1.2e6, 65_536: 0.3e6}, others={"connections": 2})
    assert concluded(figures=(one, two)).theirs == {"connections 1": 0.5, "connections 2": 0.25}


def test_where_a_point_is_missing_only_what_the_groups_other_benches_lack_is_asked_for() -> None:
    needs, one = {Need.CPUS: 64, Need.KERNEL_DATAPATH: 1}, {255: HALVED[255]}
    assert concluded(curve(one, bench=SMALL), needs=needs).lacks == {Need.CPUS: 2, Need.KERNEL_DATAPATH: 0}
    assert concluded(curve(one, bench=LARGE), needs=needs).lacks == {}
    nothing = concluded(needs=needs)
    assert (nothing.lacks, nothing.outcome) == ({Need.CPUS: None, Need.KERNEL_DATAPATH: None}, OPEN)


@pytest.mark.parametrize(("least", "most"), [(None, 0.8), (0.9, None)], ids=["would fit", "would not"])
def test_a_bench_that_lacks_what_a_conclusion_rests_on_decides_nothing_and_says_what_was_seen(
    least: float | None, most: float | None
) -> None:
    needs = {Need.CPUS: 64, Need.KERNEL_DATAPATH: 1}
    found = concluded(curve(HALVED, bench=SMALL), least=least, most=most, needs=needs)
    assert (found.outcome, found.lacks) == (OPEN, {Need.CPUS: 2, Need.KERNEL_DATAPATH: 0})
    assert found.ours[""].value == pytest.approx(0.5)
    decided = concluded(curve(HALVED, bench=LARGE), least=least, most=most, needs=needs)
    assert (decided.outcome, decided.lacks) == (CONFIRMED if most else CONTRADICTED, {})


def test_what_a_bench_had_is_unknown_of_a_run_that_did_not_record_it() -> None:
    found = concluded(curve(HALVED), least=0.9, needs={Need.CPUS: 1})
    assert (found.outcome, found.reasons) == (OPEN, ("the run does not record what its benches had",))
    assert concluded(curve(HALVED), least=0.9).outcome is CONTRADICTED, "that rests on nothing"


def test_an_offload_that_was_proven_at_one_of_two_points_is_there() -> None:
    plain = curve(HALVED, bench={Need.HARDWARE_OFFLOAD: 0})
    first = replace(plain.points[0], bench={Need.HARDWARE_OFFLOAD: 1})
    once, needs = replace(plain, points=(first, *plain.points[1:])), {Need.HARDWARE_OFFLOAD: 1}
    assert concluded(once, least=0.9, needs=needs).outcome is CONTRADICTED
    assert concluded(plain, least=0.9, needs=needs).outcome is OPEN


@pytest.mark.parametrize(
    ("limit", "words"),
    [("relay_core", "relay's core"), ("generator", "traffic generator"), ("host", "measuring host")],
)
def test_a_rate_that_something_else_ended_decides_nothing(limit: str, words: str) -> None:
    found = concluded(curve(HALVED, limit=limit), most=0.8)
    assert found.outcome is OPEN
    assert found.reasons == (f"the NDR at five-tuples 65,536 was limited by the {words}, not by the device",)
    cycles = {level: {"cycles per packet": number(1e3 * n, unit="cycles")} for n, level in enumerate((255, 65_536), 1)}
    assert concluded(curve(cycles, limit=limit), metric="cycles per packet", least=1.5).outcome is CONFIRMED


@pytest.mark.parametrize(("least", "most", "outcome"), [(3, None, CONFIRMED), (None, 3, CONTRADICTED), (8, None, OPEN)])
def test_a_ratio_that_is_a_bound_is_open_at_its_end(
    least: float | None, most: float | None, outcome: ConclusionOutcome
) -> None:
    bound = {65_536: {"NDR": number(7e6, bound=Bound.AT_LEAST)}, 255: {"NDR": number(1e6)}}
    assert concluded(curve(bound), least=least, most=most).outcome is outcome


@pytest.mark.parametrize("limit", ["planned_rate", "generator"])
def test_a_rate_that_something_else_ended_in_one_repeat_decides_nothing(limit: str) -> None:
    found = concluded(curve(HALVED, limits=("forwarding_core", limit)), most=0.8)
    assert found.outcome is OPEN
    latency = {level: {"latency p99": number(1e3 * n, unit="ns")} for n, level in enumerate((255, 65_536), 1)}
    own = concluded(curve(latency, limits=(limit,)), metric="latency p99", least=1.5)
    assert own.outcome is (CONFIRMED if limit == "planned_rate" else OPEN)


@pytest.mark.parametrize("metric", ["NDR", ""])
def test_a_caution_about_a_number_or_its_point_decides_nothing_and_is_the_reason(metric: str) -> None:
    found = concluded(curve(HALVED, cautions={metric: ("disturbed by the host.",)}), most=0.8)
    assert (found.outcome, found.reasons) == (OPEN, ("the NDR at five-tuples 65,536: disturbed by the host",))
    assert concluded(curve(HALVED, cautions={"PDR 0.5 %": ("x",)}), most=0.8).outcome is CONFIRMED


@pytest.mark.parametrize("level", [0.5, None])
def test_the_range_of_two_repeats_is_no_interval(level: float | None) -> None:
    twice = {n: {"NDR": replace(number(rate, n=2), level=level)} for n, rate in ((255, 3.1e6), (65_536, 1.55e6))}
    conclusion = concluded(curve(twice), most=0.8)
    why = "the NDR at five-tuples 65,536 has no 95 % interval, only the range of 2 repeats; use --repeats 6"
    assert (conclusion.outcome, conclusion.reasons) == (OPEN, (why,))


def test_the_range_of_a_single_benchs_windows_is_no_interval() -> None:
    few = {n: {"NDR": replace(number(rate, n=1), level=0.75)} for n, rate in ((255, 3.1e6), (65_536, 1.55e6))}
    (why,) = concluded(curve(few), most=0.8).reasons
    assert why.endswith("has no 95 % interval, only the range of few measurements on one bench; use --repeats 6")
    own = {n: {"NDR": replace(number(rate, n=1), level=None)} for n, rate in ((255, 3.1e6), (65_536, 1.55e6))}
    assert concluded(curve(own), most=0.8).outcome is CONFIRMED, "the interval of a search"


def test_single_measurements_without_an_interval_decide_nothing() -> None:
    once = {level: {"NDR": number(rate, None)} for level, rate in ((255, 3e6), (65_536, 1e6))}
    found = concluded(curve(once), most=0.8)
    assert (found.outcome, found.reasons) == (OPEN, ("a single measurement has no interval; use --repeats 6",))


def test_a_point_that_is_missing_is_named() -> None:
    few = curve({255: HALVED[255]})
    assert concluded(few, most=0.8, quick=True).reasons == ("no point of base at five-tuples 65,536 in the short form",)
    assert concluded(few, most=0.8).reasons == ("no point of base at five-tuples 65,536",)
    assert concluded(most=0.8).reasons == ("no point of base at five-tuples 65,536",)


def test_a_point_without_a_number_says_why() -> None:
    refused = point(MANY, {}, **refusals("NDR", reason="no quiet trial"))
    lost = point(MANY, {}, outcome="impossible", reason="this machine has one NUMA node")
    whole = curve(HALVED)
    for missing, reason in (
        (refused, "no NDR at five-tuples 65,536: refused: no quiet trial"),
        (lost, "five-tuples 65,536: this machine has one NUMA node"),
    ):
        found = concluded(replace(whole, points=(whole.points[0], missing)), most=0.8)
        assert (found.outcome, found.ours, found.reasons) == (OPEN, {}, (reason,))


def _by_connections(*after: float) -> Curve:
    ports, connections = Factor("ports", "", (0, 500), falling=True), Factor("connections", "", (1, 32), falling=False)
    goodput = {(0, 1): 1e9, (0, 32): 1e9, (500, 1): after[0], (500, 32): after[1]}
    points = [
        point({"ports": levels[0], "connections": levels[1]}, {"goodput": number(bps, 0.01, unit="bit/s")})
        for levels, bps in goodput.items()
    ]
    return Curve("base", "", "bandwidth", (ports, connections), tuple(points))


@pytest.mark.parametrize(
    ("after", "outcome"),
    [((1e9, 0.99e9), CONFIRMED), ((1e9, 0.3e9), CONTRADICTED), ((1e9, 0.95e9), OPEN)],
)
def test_of_several_pairs_all_must_fit_and_one_can_contradict(
    after: tuple[float, float], outcome: ConclusionOutcome
) -> None:
    by_connections = _by_connections(*after)
    found = concluded(by_connections, over={"ports": 500}, under={"ports": 0}, metric="goodput", least=0.95, most=1.05)
    assert found.outcome is outcome
    assert list(found.ours) == ["connections 1", "connections 32"]


def test_two_points_may_differ_in_several_factors() -> None:
    over, under = {"ports": 500, "connections": 32}, {"ports": 0, "connections": 1}
    found = concluded(_by_connections(1e9, 2e9), over=over, under=under, metric="goodput", least=1.8)
    assert (found.outcome, list(found.ours)) == (CONFIRMED, [""])


def test_two_groups_are_compared_at_the_levels_that_are_named() -> None:
    mac = curve({65_536: {"NDR": number(3.1e6)}}, "mac", Factor("rules", "", (65_536,), falling=True))
    found = concluded(curve(HALVED), mac, under={"rules": 65_536}, against="mac", most=0.8)
    assert (found.outcome, found.ours[""].value) == (CONFIRMED, pytest.approx(0.5))


def test_within_a_curve_of_relative_rates_these_are_compared() -> None:
    relative = {
        255: {"NDR": number(3e6), "relative rate": number(1.0, 0.0, unit="x")},
        65_536: {"relative rate": number(0.4, unit="x")},
    }
    found = concluded(curve(relative), most=0.5)
    assert (found.outcome, found.ours[""].value) == (CONFIRMED, pytest.approx(0.4))
    other = concluded(curve(relative), curve(relative, "mac"), under=MANY, against="mac", most=0.5)
    assert other.reasons == ("no NDR at five-tuples 65,536",), "of two curves the references differ"

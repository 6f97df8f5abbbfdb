"""Findings: each sentence with its numbers, and none where a number is missing."""

from dataclasses import replace

import pytest
from points import curve, number, point, published, refusals, study, within

from pinchpoint.findings.findings import KINDS, direction, findings
from pinchpoint.model.measurement import Bound, Estimate, lookup_share
from pinchpoint.model.result import Limit
from pinchpoint.model.scenario import Factor
from pinchpoint.model.study import Curve, CurvePoint, Finding, Study

DISTURBED = "every window was disturbed by the host"
FALLING = curve({255: {"NDR": number(3.1e6)}, 4096: {"NDR": number(2.9e6)}, 65536: {"NDR": number(1.55e6)}})


def _texts(asked: Study, *curves: Curve) -> list[str]:
    return [finding.text for finding in findings(asked, curves)]


EMC, CLASSIFIER = lookup_share("EMC"), lookup_share("megaflow classifier")


def test_fall_says_how_far_within_which_bounds_and_what_was_published() -> None:
    (text,) = _texts(study("fall", published({255: 1.1e6, 65536: 0.8e6})), FALLING)
    assert text == (
        "base: from 255 five-tuples to 65,536 five-tuples the NDR falls 2.00 x [1.92 .. 2.08], "
        "3.10 Mpps [3.04 to 3.16 Mpps, n = 3] to 1.55 Mpps [1.52 to 1.58 Mpps, n = 3]; "
        "published: falls 1.38 x."
    )


def test_fall_compares_over_the_published_levels_where_ours_differ() -> None:
    (text,) = _texts(study("fall", published({4096: 1.0e6, 65536: 0.8e6})), FALLING)
    assert "; published: falls 1.25 x from 4,096 to 65,536, ours there: falls 1.87 x [1.80 .. 1.95]." in text
    (text,) = _texts(study("fall", published({512: 1.0e6, 262144: 0.5e6})), FALLING)
    assert text.endswith("; published: falls 2.00 x from 512 to 262,144.")


def test_the_fall_of_a_rate_is_told_of_relative_rates_where_no_fewer_points_have_one() -> None:
    reference = Estimate("x", 1.0, 1.0, 1.0, 1, "the reference")
    points = {1: {"NDR": number(3.1e6), "relative rate": reference}, 4096: {"relative rate": number(0.32, unit="x")}}
    (text,) = _texts(study("fall", published({1: 1.1e6, 4096: 0.8e6})), curve(points))
    assert text == (
        "base: from 1 five-tuple to 4,096 five-tuples the forwarded rate under overload falls 3.12 x [3.06 .. 3.19]; "
        "published: falls 1.38 x."
    )
    every = points | {64: {"NDR": number(2e6)}, 4096: points[4096] | {"NDR": number(1e6)}}
    points = {level: every[level] for level in (1, 64, 4096)}
    assert "the NDR falls 3.10 x" in _texts(study("fall"), curve(points))[0], "three points have it, two the ratio"


def test_fall_within_the_interval_is_no_fall() -> None:
    level = curve({1: {"NDR": number(3.1e6, 0.05)}, 64: {"NDR": number(3.0e6, 0.05)}})
    assert "does not change beyond its interval: it falls 1.03 x [0.935 .. 1.14]" in _texts(study("fall"), level)[0]


def test_a_rise_is_called_a_rise() -> None:
    rising = curve({1: {"NDR": number(1e6)}, 64: {"NDR": number(2e6)}})
    assert "the NDR rises 2.00 x [1.92 .. 2.08]" in _texts(study("fall"), rising)[0]


def test_a_fall_from_the_generators_ceiling_is_at_least_that_far() -> None:
    open_above = curve({255: {"NDR": number(7e6, bound=Bound.AT_LEAST)}, 65536: {"NDR": number(1e6)}})
    assert "the NDR falls at least 7.00 x, at least 7.00 Mpps to 1.00 Mpps" in _texts(study("fall"), open_above)[0]


def test_a_fall_between_two_ceilings_is_unknown() -> None:
    both = curve({level: {"NDR": number(7e6 - level, bound=Bound.AT_LEAST)} for level in (1, 64)})
    (finding,) = findings(study("fall"), [both])
    assert finding.warning and "is unknown: something else was the limit at both ends" in finding.text


def test_fall_speaks_of_each_series_or_of_the_one_that_is_fixed() -> None:
    rules, streams = Factor("rules", "", (0, 1000), falling=True), Factor("streams", "", (1, 32), falling=False)
    points = [
        point({"rules": a, "streams": b}, {"goodput": number(1e9 * b / (1 + a / 1000), unit="bit/s")})
        for a in (0, 1000)
        for b in (1, 32)
    ]
    both = Curve("rules", "", "bandwidth", (rules, streams), tuple(points))
    asked = {"group": "rules", "metric": "goodput", "factor": "rules"}
    texts = _texts(study("fall", **asked), both)
    assert [text.split(":")[0] for text in texts] == ["rules (streams 1)", "rules (streams 32)"]
    figures = (
        published({0: 40e9, 1000: 39e9}, group="rules", metric="goodput", factor="rules", others={"streams": 1}),
        published({0: 40e9, 1000: 20e9}, group="rules", metric="goodput", factor="rules", others={"streams": 32}),
    )
    (text,) = _texts(study("fall", *figures, **asked, against="streams=32"), both)
    assert "32.0 Gbit/s [31.4 to 32.6 Gbit/s, n = 3] to 16.0 Gbit/s" in text
    assert text.endswith("published: falls 2.00 x.")


def test_knee_is_where_the_most_is_lost_for_each_doubling() -> None:
    (text,) = _texts(study("knee"), FALLING)
    assert text == (
        "base: the NDR drops most between 4,096 and 65,536 five-tuples: 1.87 x [1.80 .. 1.95] over 4.0 doublings, "
        "14.5 % for each."
    )


def test_a_level_curve_has_no_knee() -> None:
    assert _texts(study("knee"), curve({level: {"NDR": number(3e6)} for level in (1, 2, 4)})) == []
    assert _texts(study("knee"), curve({level: {"NDR": number(3e6)} for level in ("dpdk", "af_xdp")})) == []
    assert _texts(study("knee"), curve({0: {"NDR": number(3e6)}, 4: {"NDR": number(1e6)}})) == []


def test_compare_sets_two_groups_side_by_side_at_their_largest_common_level() -> None:
    mac = curve({255: {"NDR": number(2.5e6)}, 65536: {"NDR": number(3.1e6)}}, "mac")
    figures = (published({65536: 0.8e6}), published({65536: 1.0e6}, group="mac"))
    (text,) = _texts(study("compare", *figures, group="mac", against="base"), mac, FALLING)
    assert text == (
        "The NDR of mac is 2.00 x [1.92 .. 2.08] that of base at 65,536 five-tuples: "
        "3.10 Mpps [3.04 to 3.16 Mpps, n = 3] and 1.55 Mpps [1.52 to 1.58 Mpps, n = 3]; published: 1.25 x."
    )


def test_compare_says_at_which_levels_two_groups_have_only_ratios_to_references_of_their_own() -> None:
    reference, fallen = Estimate("x", 1.0, 1.0, 1.0, 1, "the reference"), {"relative rate": number(0.2, unit="x")}
    points = {1: {"NDR": number(3e6), "relative rate": reference}, 65536: fallen}
    first, second = findings(study("compare", group="mac", against="base"), [curve(points, "mac"), curve(points)])
    assert first.text.startswith("The NDR of mac is 1.00 x")
    assert "mac and base are not compared at 65,536 five-tuples" in second.text
    assert second.warning


def test_compare_sets_two_points_side_by_side_by_the_levels_that_are_named() -> None:
    asked = study("compare", published({255: 1.1e6, 4096: 1.0e6}))
    (request,) = asked.findings
    request = replace(request, over={"five-tuples": 4096}, under={"five-tuples": 255})
    (text,) = _texts(replace(asked, findings=(request,)), FALLING)
    assert text == (
        "The NDR of base at five-tuples 4,096 is 0.935 x [0.899 .. 0.974] that of base at five-tuples 255: "
        "2.90 Mpps [2.84 to 2.96 Mpps, n = 3] and 3.10 Mpps [3.04 to 3.16 Mpps, n = 3]; published: 0.909 x."
    )


def test_compare_of_groups_without_factor_takes_their_only_points() -> None:
    alone = [
        Curve(name, "", "rates", (), (point({}, {"NDR": number(rate)}),)) for name, rate in (("a", 2e6), ("b", 1e6))
    ]
    (text,) = _texts(study("compare", group="a", against="b"), *alone)
    assert text.startswith("The NDR of a is 2.00 x [1.92 .. 2.08] that of b: ")


def test_total_adds_up_two_groups_at_each_common_level_and_says_the_share_of_the_first() -> None:
    count = Factor("count", "", (100, 1000), falling=False)
    of = {"unit": "s", "n": 1}
    veths = curve({n: {"build time": number(n / 10, **of)} for n in (100, 1000)}, "veths", count)
    flows = curve({n: {"build time": number(n / 1000, **of)} for n in (200, 1000)}, "flows", count)
    shared = {"metric": "build time", "factor": "count", "unit": "s"}
    figures = [published({1000: s}, group=group, **shared) for group, s in (("veths", 47.0), ("flows", 1.0))]
    asked = study("total", *figures, group="veths", metric="build time", factor="count", against="flows")
    assert _texts(asked, veths, flows) == [
        "The build time of veths and flows together: 101 s, 99.0 % of it veths, at count 1,000 "
        "(published: 48.0 s, 97.9 %)."
    ]
    assert "(published" not in _texts(replace(asked, published=tuple(figures[:1])), veths, flows)[0]


def test_compare_with_a_ceiling_is_a_bound_and_with_two_is_unknown() -> None:
    ceiling = curve({65536: {"NDR": number(7e6, bound=Bound.AT_LEAST)}}, "raw")
    assert (
        "is at least 4.52 x that of base" in _texts(study("compare", group="raw", against="base"), ceiling, FALLING)[0]
    )
    assert "is at most 0.221 x that of raw" in _texts(study("compare", against="raw"), ceiling, FALLING)[0]
    other = curve({65536: {"NDR": number(6e6, bound=Bound.AT_LEAST)}})
    (finding,) = findings(study("compare", group="raw", against="base"), [ceiling, other])
    assert finding.warning and "is unknown" in finding.text


def _costing(group: str, cycles: float, rate: float, bound: Bound = Bound.FOUND) -> Curve:
    estimates = {"NDR": number(rate, bound=bound), "cycles per packet": number(cycles, unit="cycles")}
    return curve({65536: estimates}, group)


def test_cost_names_the_cycles_and_how_much_of_the_loss_they_explain() -> None:
    (text,) = _texts(study("cost", against="raw"), _costing("base", 1600, 1.5e6), _costing("raw", 400, 6e6))
    assert text.startswith("A packet of base costs 1,200 cycles more than one of raw at 65,536 five-tuples (")
    assert "the cycles predict a NDR 4.00 x [3.84 .. 4.16] lower, measured: 4.00 x" in text
    assert text.endswith("they explain 100 % of the loss of rate.")


def test_cost_leaves_open_what_a_ceiling_hides() -> None:
    curves = _costing("base", 1600, 1.5e6), _costing("raw", 400, 4e6, Bound.AT_LEAST)
    (text,) = _texts(study("cost", against="raw"), *curves)
    assert "measured: at least 2.67 x lower (the generator was the limit" in text and "explain 100" not in text


def test_cost_without_rates_still_tells_the_cycles_and_without_cycles_nothing() -> None:
    bare = [curve({1: {"cycles per packet": number(c, unit="cycles")}}, g) for g, c in (("base", 900), ("raw", 1000))]
    (text,) = _texts(study("cost", against="raw"), *bare)
    assert "costs 100 cycles fewer than one of raw" in text and "predict" not in text
    assert _texts(study("cost", against="raw"), FALLING, replace(FALLING, group="raw")) == []


def test_caches_tells_who_answered_at_both_ends() -> None:
    few = {
        EMC: number(0.93, unit="share"),
        CLASSIFIER: number(0.07, unit="share"),
    }
    many = {
        EMC: number(0.0004, unit="share"),
        CLASSIFIER: number(0.9996, unit="share"),
    }
    (text,) = _texts(study("caches"), curve({255: few, 65536: many}))
    assert text == (
        "base: lookups were answered by EMC 93.0 % and megaflow classifier 7.00 % at 255 five-tuples, "
        "by megaflow classifier 100 % at 65,536 five-tuples."
    )
    assert _texts(study("caches"), FALLING) == []


def test_flat_states_the_bound_and_warns_if_the_datapath_did_not_see_the_factor() -> None:
    level = curve({0: {"NDR": number(3e6)}, 500_000: {"NDR": number(3.01e6)}})
    unseen = replace(level.points[1], invisible="500,000 rules, but 2 datapath flows carried the traffic")
    figures = published({0: 44.56, 500_000: 44.1})
    told, warned = findings(study("flat", figures), [replace(level, points=(level.points[0], unseen))])
    assert (
        "no effect on the NDR within +-4.4 %: +0.3 % [-3.6 .. +4.4 %]; published: -1.0 % from 0 to 500,000."
        in told.text
    )
    assert warned.warning and warned.text.startswith("base: 500,000 rules, but 2 datapath flows")


def test_flat_says_so_when_there_is_an_effect() -> None:
    (text,) = _texts(study("flat"), FALLING)
    assert "the NDR changes: -50.0 % [-52.0 .. -48.0 %]" in text


def test_growth_of_the_time_per_item_stands_beside_the_published_one() -> None:
    items = Factor("items", "", (1000, 500_000), falling=False)
    time = {1000: {"time per item": number(1e-5, unit="s")}, 500_000: {"time per item": number(2e-5, unit="s")}}
    figures = published({1000: 1.004, 500_000: 552.0}, group="flows", metric="build time", factor="items", unit="s")
    asked = study("growth", figures, group="flows", metric="time per item", factor="items")
    (text,) = _texts(asked, curve(time, "flows", items))
    assert "the time per item grows from 1,000 items to 500,000 items: 10.0 us" in text
    assert text.endswith("2.00 x [1.92 .. 2.08]; published: 1.10 x from 1,000 to 500,000.")


def test_published_growth_is_that_between_our_levels_and_rests_on_no_rounded_second() -> None:
    time = {level: {"time per item": number(1e-5, unit="s")} for level in (1000, 10_000, 500_000)}
    seconds = {10: 0.0, 1000: 1.0, 10_000: 9.0, 500_000: 552.0, 5_000_000: 20_859.0}
    figures = published(seconds, metric="build time", unit="s")
    (text,) = _texts(study("growth", figures, metric="time per item"), curve(time))
    assert text.endswith("; published: 1.23 x from 10,000 to 500,000.")


def test_growth_within_the_interval_is_none() -> None:
    time = {level: {"time per item": number(1e-5 * (1 + level / 1e7), 0.05, unit="s")} for level in (1, 1000)}
    (text,) = _texts(study("growth", metric="time per item"), curve(time))
    assert "stays the same within its interval" in text


def test_of_a_curve_that_was_measured_at_one_level_the_number_there_stands_beside_the_published_one() -> None:
    cores = Factor("cores", "", (1, 4), falling=False)
    points = (
        point({"cores": 1}, {"NDR throughput": number(4e8, unit="bit/s")}),
        point({"cores": 4}, {}, outcome="impossible", reason="this machine has 2 CPUs", limit=""),
    )
    figures = published({1: 0.77e9, 4: 2.66e9}, metric="NDR throughput", factor="cores", unit="bit/s")
    asked = study("growth", figures, metric="NDR throughput", factor="cores")
    (text,) = _texts(asked, Curve("base", "Synthetic sweep", "rates", (cores,), points))
    measured = "400 Mbit/s [392 to 408 Mbit/s, n = 3]"
    assert text.startswith(f"base: the NDR throughput is {measured} at 1 core, the only level")
    assert text.endswith("; published: 770 Mbit/s.")


def test_methods_are_ordered_by_what_they_cost() -> None:
    method = Factor("method", "", ("process", "file", "bundle"), falling=False)
    time = {name: {"build time": number(s, unit="s")} for name, s in (("process", 9.0), ("file", 1.0), ("bundle", 1.5))}
    (text,) = _texts(study("method", metric="build time", factor="method"), curve(time, factor=method))
    assert text.startswith("base, build time: file is best with 1.00 s")
    assert text.index("bundle 1.50 s") < text.index("process 9.00 s") and "(9.00 x [8.65 .. 9.37] as much)" in text


def test_methods_may_be_groups() -> None:
    groups = [curve({5000: {"build rate": number(r, unit="1/s")}}, g) for g, r in (("process", 90), ("file", 9e4))]
    (text,) = _texts(
        study("method", group="process", metric="build rate", factor="five-tuples", against="file"), *groups
    )
    assert text.startswith("build rate at 5,000: file is best with 90.0 k/s") and "less)" in text


def test_impossible_points_are_named_once_a_reason() -> None:
    numa = Factor("numa", "", ("any", "different"), falling=False)
    here = point({"numa": "any"}, {"NDR": number(1e6)})
    lost = point({"numa": "different"}, {}, outcome="impossible", reason="this machine has one NUMA node", limit="")
    broken = point({"numa": "same"}, {}, outcome="failed", reason="ovs-vswitchd ended", limit="")
    both = findings(study("impossible", group=""), [Curve("rules", "", "rates", (numa,), (here, lost, broken))])
    assert [finding.text for finding in both] == [
        "rules (numa different) could not run here: this machine has one NUMA node.",
        "rules (numa same) failed: ovs-vswitchd ended.",
    ]
    assert all(finding.warning for finding in both)
    other = replace(broken, outcome="impossible", reason="this machine has two CPUs")
    (one,) = findings(study("impossible", group=""), [Curve("rules", "", "rates", (numa,), (here, lost, other))])
    assert one.text == "rules (numa different, same) could not run here; the first: this machine has one NUMA node."


def test_limit_counts_verdicts_and_names_what_is_only_at_least() -> None:
    mixed = curve({1: {"NDR": number(7e6, bound=Bound.AT_LEAST)}, 64: {"NDR": number(3e6)}, 128: {"NDR": number(2e6)}})
    points = (replace(mixed.points[0], limit="generator"), *mixed.points[1:])
    counted, open_above = findings(study("limit"), [replace(mixed, points=points)])
    assert counted.text == "base: of 3 points with a verdict, forwarding core at 2, traffic generator at 1."
    assert open_above.warning and open_above.text.startswith('base (five-tuples 1): its number is "at least"')


def test_refused_numbers_are_reported_and_not_counted_as_found() -> None:
    refused = curve({1: {}, 64: {}}, **refusals("NDR", "PDR 0.5 %", reason="no quiet trial"))
    lost, counted = findings(study("limit", metric=""), [refused])
    assert lost.warning and lost.text == (
        "base (five-tuples 1, 64): no number, the bench could not support one: no quiet trial."
    )
    assert counted.text == "base: all 2 points pinched by forwarding core."


def test_a_limit_that_all_verdicts_name_is_no_count_of_itself() -> None:
    (alone,) = findings(study("limit"), [curve({1: {"NDR": number(7e6)}})])
    assert alone.text == "base: pinched by forwarding core."
    found = curve({1: {"NDR": number(7e6)}, 64: {"NDR": number(3e6)}})
    few = replace(found, points=(found.points[0], replace(found.points[1], limit="")))
    (counted,) = findings(study("limit"), [few])
    assert counted.text == "base: 1 of 2 points has a verdict: pinched by forwarding core."


def test_of_rates_that_were_refused_a_number_the_change_lies_between_two_ends() -> None:
    (finding,) = findings(study("fall"), [curve({1: {"NDR": within(4e6, 8e6)}, 64: {"NDR": within(1e6, 2e6)}})])
    assert (
        "the NDR falls between 2.00 and 8.00 x, somewhere in 4.00 to 8.00 Mpps to somewhere in 1.00 to 2.00 Mpps"
        in (finding.text)
    )
    (finding,) = findings(study("fall"), [curve({1: {"NDR": within(4e6, 8e6)}, 64: {"NDR": within(3e6, 5e6)}})])
    assert "does not change beyond its interval" in finding.text


def test_no_sentence_rests_on_the_middle_of_a_refused_number() -> None:
    refused = curve({1: {"NDR": number(9e6)}, 1024: {"NDR": within(1e6, 4e6)}})
    assert findings(study("knee"), [refused]) == ()
    ceiling = number(9e6, bound=Bound.AT_LEAST)
    (lost,) = findings(study("fall"), [curve({1: {"NDR": ceiling}, 64: {"NDR": within(1e6, 2e6)}})])
    assert lost.warning and "is unknown: a number was refused" in lost.text


def test_every_limit_has_words() -> None:
    assert all(limit.words for limit in Limit)


@pytest.mark.parametrize("kind", list(KINDS))
def test_what_is_missing_gives_no_sentence(kind: str) -> None:
    asked = study(kind, group="absent", metric="NDR", factor="five-tuples", against="raw")
    assert _texts(asked, FALLING) == []
    assert _texts(study(kind, metric="absent", factor="absent", against="base"), replace(FALLING, points=())) == []


@pytest.mark.parametrize("kind", list(KINDS))
def test_zeros_and_single_points_break_nothing(kind: str) -> None:
    asked = study(kind, published({1: 0.0, 64: 0.0}), factor="five-tuples", against="raw")
    for levels in ({1: {"NDR": number(0.0)}}, {1: {"NDR": number(0.0, None)}, 64: {"NDR": number(0.0, None)}}):
        flat = curve(levels, limit="")
        assert not any("nan" in text or "inf" in text for text in _texts(asked, flat, replace(flat, group="raw")))


def test_an_unknown_kind_and_a_repeated_request_add_nothing() -> None:
    assert _texts(study("prophecy"), FALLING) == []
    asked = study("fall")
    assert len(_texts(replace(asked, findings=asked.findings * 2), FALLING)) == 1


PATH = Factor("path", "", ("af_xdp", "tap", "dpdk"), falling=False)


def _method(metric: str, *estimates: Estimate) -> Finding:
    levels = {level: {metric: estimate} for level, estimate in zip(PATH.levels, estimates, strict=False)}
    (finding,) = findings(study("method", metric=metric, factor="path"), [curve(levels, factor=PATH)])
    return finding


@pytest.mark.parametrize("metric", ["thread busy at 20.0 kpps", "PMD core 1: thread busy", "loss at 20.0 kpps"])
def test_a_thread_that_is_less_busy_and_a_path_that_loses_less_is_better(metric: str) -> None:
    finding = _method(metric, number(0.9, unit="share"), number(0.3, unit="share"))
    assert finding.text.startswith(f"base, {metric}: tap is best with 30.0 %") and "as much)" in finding.text


def test_of_cache_shares_and_rates_the_larger_is_better() -> None:
    assert "tap is best" in _method(EMC, number(0.1, unit="share"), number(0.9, unit="share")).text


def test_a_path_is_not_best_over_one_that_is_only_at_least() -> None:
    finding = _method("NDR", number(5e6), number(4e6, bound=Bound.AT_LEAST), number(1e6))
    assert finding.warning and finding.text == (
        "base, NDR: the best is unknown, among af_xdp 5.00 Mpps [4.90 to 5.10 Mpps, n = 3]; tap at least 4.00 Mpps; "
        "behind: dpdk 1.00 Mpps [0.980 to 1.020 Mpps, n = 3]."
    )
    assert "af_xdp is best" in _method("NDR", number(5e6, bound=Bound.AT_LEAST), number(4e6)).text


def _paths(*points: CurvePoint) -> tuple[Finding, ...]:
    return findings(study("method", metric="NDR", factor="path"), [Curve("base", "", "rates", (PATH,), points)])


def test_a_path_that_was_refused_a_number_leaves_open_which_is_best() -> None:
    """As it was seen: the fastest of three paths had been refused a number, and the next one was called best."""
    refused = point({"path": "dpdk"}, {}, **refusals("NDR", reason="no valid trial at 5.90 Mpps in 9 tries"))
    (finding,) = _paths(
        point({"path": "af_xdp"}, {"NDR": number(744e3, bound=Bound.AT_LEAST)}),
        point({"path": "tap"}, {"NDR": within(109e3, 213e3)}),
        refused,
    )
    assert finding.warning and finding.text == (
        "base, NDR: the best is unknown, among af_xdp at least 744 kpps; "
        "dpdk unknown (refused: no valid trial at 5.90 Mpps in 9 tries); "
        "behind: tap somewhere in 109.00 to 213.00 kpps."
    )


def test_a_path_that_failed_was_tried_and_one_that_this_machine_lacks_was_not() -> None:
    numbers = [point({"path": "af_xdp"}, {"NDR": number(5e6)}), point({"path": "tap"}, {"NDR": number(1e6)})]
    failed = point({"path": "dpdk"}, {}, outcome="failed", reason="the switch died\n  hint: see its log")
    (finding,) = _paths(*numbers, failed)
    assert finding.warning and "dpdk unknown (the switch died); behind: tap" in finding.text
    (finding,) = _paths(*numbers, replace(failed, outcome="impossible"))
    assert not finding.warning and finding.text.startswith("base, NDR: af_xdp is best")


@pytest.mark.parametrize(
    ("limit", "words"),
    [("relay_core", "relay's core"), ("generator", "traffic generator"), ("host", "measuring host")],
)
def test_a_rate_that_something_else_ended_is_not_ranked(limit: str, words: str) -> None:
    """As it was seen: af_xdp was called best, and dpdk's number was the relay's."""
    others = point({"path": "tap"}, {"NDR": number(1e6)}), point({"path": "dpdk"}, {"NDR": number(4e6)}, limit=limit)
    (found,) = _paths(point({"path": "af_xdp"}, {"NDR": number(5e6)}), *others)
    assert found.warning and found.text == (
        "base, NDR: the best is unknown, among af_xdp 5.00 Mpps [4.90 to 5.10 Mpps, n = 3]; "
        f"dpdk 4.00 Mpps [3.92 to 4.08 Mpps, n = 3] (limited by the {words}); "
        "behind: tap 1.00 Mpps [0.980 to 1.020 Mpps, n = 3]."
    )
    (alone,) = _paths(*(replace(other, limit=limit) for other in others))
    assert alone.warning and "is best" not in alone.text and alone.text.count("limited by the") == 2


def test_what_a_packet_costs_is_ranked_whatever_ended_the_rate() -> None:
    numbers = {level: {"cycles per packet": number(c, unit="cycles")} for level, c in (("tap", 900), ("dpdk", 300))}
    asked = study("method", metric="cycles per packet", factor="path")
    (found,) = findings(asked, [curve(numbers, factor=PATH, limit="generator")])
    assert found.text.startswith("base, cycles per packet: dpdk is best with 300 cycles")


def test_published_ratios_stand_beside_those_of_methods() -> None:
    figures = published({"dpdk": 14e6, "af_xdp": 3.27e6}, factor="path")
    numbers = {level: {"NDR": number(fps)} for level, fps in (("af_xdp", 1e6), ("tap", 0.5e6), ("dpdk", 4.9e6))}
    (found,) = findings(study("method", figures, metric="NDR", factor="path"), [curve(numbers, factor=PATH)])
    assert "(4.90 x [4.71 .. 5.10] less; published: 4.28 x)" in found.text
    assert found.text.count("published") == 1, "the original has no tap"


def test_without_any_number_nothing_is_ranked() -> None:
    assert _paths(point({"path": "af_xdp"}, {}), point({"path": "tap"}, {})) == ()


@pytest.mark.parametrize("unknown", [{}, {"NDR": within(1e6, 3e6)}], ids=["no number", "between"])
def test_no_step_is_the_largest_while_one_beside_it_is_unknown(unknown: dict[str, Estimate]) -> None:
    whole = {level: {"NDR": number(3e6 / n)} for n, level in enumerate((1, 16, 256), start=1)}
    assert len(findings(study("knee"), [curve(whole)])) == 1
    assert findings(study("knee"), [curve(whole | {16: unknown})]) == ()


def test_overlapping_intervals_leave_open_which_is_best() -> None:
    finding = _method("NDR", number(5e6, 0.05), number(5.2e6, 0.05))
    assert finding.warning and "the best is unknown, among tap" in finding.text


def test_a_fall_to_zero_is_a_fall() -> None:
    (finding,) = findings(
        study("fall", metric=EMC),
        [
            curve(
                {
                    1: {EMC: number(1.0, None, unit="share")},
                    64: {EMC: number(0.0, None)},
                }
            )
        ],
    )
    assert not finding.warning and finding.text == (
        "base: from 1 five-tuple to 64 five-tuples the lookup share of EMC falls from 100 % [n = 3, no interval] to 0."
    )


@pytest.mark.parametrize(
    ("after", "width", "words"),
    [
        (3.005e6, 0.005, "the NDR changes by less than 2 %: +0.2 % ["),
        (3.01e6, 0.02, "no effect on the NDR within +-4.4 %: +0.3 % ["),
        (3.3e6, 0.1, "an effect on the NDR is not excluded, the interval is too wide: +10.0 % ["),
        (3.03e6, 0.002, "the NDR changes: +1.0 % [+0.6 .. +1.4 %]"),
        (3.03e6, None, "an effect on the NDR is not excluded, no interval is known: +1.0 %."),
    ],
)
def test_flat_says_no_more_than_the_interval_allows(after: float, width: float | None, words: str) -> None:
    (text,) = _texts(study("flat"), curve({0: {"NDR": number(3e6, width)}, 9: {"NDR": number(after, width)}}))
    assert words in text


def test_cost_and_caches_leave_out_points_whose_rate_was_refused() -> None:
    seen = {"cycles per packet": number(900, unit="cycles"), EMC: number(0.9, unit="share")}
    refused = curve({1: seen, 64: seen}, **refusals("NDR", reason="no quiet trial"))
    (cost,) = findings(study("cost", against="raw"), [refused, replace(refused, group="raw")])
    assert cost.warning and cost.text.endswith("is unknown, since the cycles belong to no rate: no quiet trial.")
    (caches,) = findings(study("caches"), [refused])
    assert caches.warning and "caches at 2 of 2 points are excluded" in caches.text


@pytest.mark.parametrize(
    ("metric", "cautions", "minded"),
    [
        ("NDR", {"NDR": (DISTURBED,)}, True),
        ("", {"": ("the trial ended before all 64 had been sent",)}, True),
        ("thread busy", {"thread busy": (DISTURBED,)}, False),
        ("NDR", {}, False),
    ],
)
def test_a_sentence_that_rests_on_doubtful_numbers_is_followed_by_a_warning(
    metric: str, cautions: dict[str, tuple[str, ...]], minded: bool
) -> None:
    noted = {metric: "; ".join(("bounds of the search", *cautions.get(metric, ())))}
    first = replace(FALLING.points[0], notes=noted, cautions=cautions)
    told = findings(study("fall"), [replace(FALLING, points=(first, *FALLING.points[1:]))])
    warned = [finding.text for finding in told if finding.warning]
    assert warned == ([f"base (five-tuples 255): {cautions[metric][0]}."] if minded else [])


def test_flat_says_that_one_bench_each_tells_nothing_of_the_next() -> None:
    before, after = number(3e6, 0.001), number(2e6, 0.001)
    once = curve({0: {"NDR": replace(before, n=1)}, 9: {"NDR": replace(after, n=1)}})
    often = curve({0: {"NDR": replace(before, n=5)}, 9: {"NDR": replace(after, n=5)}})
    assert "one bench each" in _texts(study("flat"), once)[0]
    assert "one bench each" not in _texts(study("flat"), often)[0]


@pytest.mark.parametrize(
    ("metric", "unit", "less"),
    [
        ("loss-free load", "fps", False),
        ("loss at 90 % load", "share", True),
        ("windows with loss", "share", True),
        ("mean time between losses", "s", False),
        ("longest loss-free stretch", "s", False),
        ("corrected buffer time", "s", False),
        ("blocked time", "s", True),
    ],
)
def test_which_way_is_better_is_told_by_what_is_measured(metric, unit, less):
    assert (direction(metric, unit) < 0) is less


def test_which_balancers_did_what_their_services_say() -> None:
    def served(group: str, outcome: str, reason: str = "") -> Curve:
        return Curve(group, "", "verify", (), (point({}, {}, outcome=outcome, reason=reason),))

    curves = (
        served("a", "measured"),
        served("b", "wrong", "busiest backend: 3 / 0 / 0, not in turn."),
        served("c", "failed"),
    )
    found = findings(study("verified", group="a", metric="", against="b, c, d"), curves)
    assert [(finding.text, finding.warning) for finding in found] == [
        ("1 of 2 did all that their services say: a.", False),
        ("b did not do what its service says: busiest backend: 3 / 0 / 0, not in turn.", True),
    ]
    assert not findings(study("verified", group="c", metric=""), curves)

"""A comparison out of slices: what it says, and when it says that there is no ratio."""

from dataclasses import replace

import pytest
from comparisons import paired_run
from slices import constant, stretch

from pinchpoint.findings.paired_benches import of_duet, why_hopeless
from pinchpoint.model.comparison import ComparisonKind, Decision, HoldsFor, Method
from pinchpoint.model.duet import FORWARDED


def compared(*stretches, **request):
    info, result = paired_run([1.0], [1.0], method=Method.DUET, slices_s=30.0, **request)
    comparison = of_duet(info, result, stretches)
    (part,) = comparison.scenarios
    (metric,) = part.metrics
    return comparison, part, metric


def changed(whole, side="", **fields):
    return replace(whole, slices=tuple(replace(part, **fields) if side in part.side else part for part in whole.slices))


def test_it_names_its_metric_and_kind_and_both_rates_with_the_band_of_the_time():
    comparison, part, metric = compared(stretch(constant(2e6), ratio=0.98, scatter=0.02))
    assert comparison.kind is ComparisonKind.DUET
    assert (metric.metric, metric.unit, metric.decision) == (FORWARDED, "fps", Decision.LOWER)
    assert metric.n == part.duet.quads_used == 750
    assert "16 blocks of 750 quads" in metric.method
    assert metric.a.value == pytest.approx(2e6, rel=0.01)
    assert metric.a.low < metric.a.value < metric.a.high
    assert "cycles per packet are unknown" in part.notes[-1]
    assert "forwarded rate under overload, not the loss-free rate" in part.notes[-2]


def on_benches(number, ratio):
    return replace(stretch(constant(), ratio=ratio, length_s=5, seed=number, scatter=0.02), benches=number)


def test_two_benches_of_one_file_that_differ_by_two_per_cent_are_no_difference_of_the_files():
    ratios = (0.975, 0.968, 0.998, 1.006, 1.016, 1.011, 1.022, 0.997)  # eight times A with A on a real switch
    _, part, metric = compared(*(on_benches(number, ratio) for number, ratio in enumerate(ratios, 1)))
    assert metric.decision is Decision.NOT_FOUND
    assert metric.low < 0.99 and metric.high > 1.01
    assert "8 times two benches" in metric.method and part.duet.benches == 8
    _, _, alone = compared(on_benches(1, ratios[0]))
    assert alone.decision is Decision.LOWER, "what one standing pair says of itself"
    assert alone.better is None, "one build does not tell the build from the change"


def test_an_interval_that_is_only_of_the_benches_that_stood_says_so():
    _, part, metric = compared(on_benches(1, 0.98))
    assert metric.holds_for is HoldsFor.BENCHES
    assert metric.sentence.startswith("of these two benches, B is 2.")
    _, part, metric = compared(*(on_benches(number, 0.98) for number in range(1, 6)))
    assert (metric.holds_for, metric.decision) == (HoldsFor.BENCHES, Decision.LOWER), "five builds are too few"
    assert any("two builds of one file differ" in note for note in part.notes)
    _, part, metric = compared(*(on_benches(number, 0.98) for number in range(1, 9)))
    assert (metric.decision, metric.holds_for, metric.better) == (Decision.LOWER, HoldsFor.NEXT_BUILD, False)
    assert not any("built anew" in note for note in part.notes)


def test_a_margin_is_judged_in_quads():
    _, _, metric = compared(stretch(constant(), length_s=10), margin=0.001)
    assert "quads would decide" in metric.sentence


@pytest.mark.parametrize(
    ("stretches", "why"),
    [
        ([], "no slice was measured"),
        ([stretch(constant(), length_s=2, gaps=1.0)], "every slice was discarded (the engine's core stood still"),
        ([changed(stretch(constant(), length_s=2), "B", received=0)], "A or B forwarded nothing"),
        ([stretch(constant(20e6), length_s=2, scatter=0, ratio=1.0)], ""),
    ],
)
def test_without_a_ratio_it_says_why(stretches, why):
    _, _, metric = compared(*stretches)
    assert (metric.decision is Decision.REFUSED) is bool(why)
    assert why in metric.sentence


def test_a_generator_that_does_not_overload_is_the_limit_and_no_ratio_is_given():
    whole = stretch(constant(), length_s=10)
    kept = [replace(part, received=part.offered) if place % 9 == 0 else part for place, part in enumerate(whole.slices)]
    _, _, metric = compared(replace(whole, slices=tuple(kept)))
    assert metric.decision is Decision.REFUSED
    assert "could not overload" in metric.sentence


def test_few_slices_claim_nothing_and_say_so():
    _, _, metric = compared(stretch(constant(), ratio=0.5, length_s=2))
    assert metric.decision is Decision.TOO_FEW
    assert "an interval at 95 % needs 6" in metric.sentence


def test_slices_that_will_give_no_ratio_are_known_after_one_stretch():
    whole = stretch(constant(), length_s=2.5)
    assert not why_hopeless([whole])
    kept = [replace(part, received=part.offered) if place % 3 == 0 else part for place, part in enumerate(whole.slices)]
    assert "could not overload the devices" in why_hopeless([replace(whole, slices=tuple(kept))])


def test_a_host_that_leaves_no_slice_in_peace_is_given_five_seconds():
    disturbed = stretch(constant(), length_s=2.5, gaps=1.0)
    assert not why_hopeless([disturbed])
    assert "0 of 496 slices could be used (the engine's core stood still" in why_hopeless([disturbed, disturbed])

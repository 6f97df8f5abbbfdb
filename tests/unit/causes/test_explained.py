"""Suspicions and what the counter-experiments made of them."""

from dataclasses import replace
from itertools import product

import pytest
from trials import thread_load

from pinchpoint.causes.catalogue import CATALOGUE, OWN_SPEED, by_name
from pinchpoint.causes.experiments import explanation
from pinchpoint.model.causes import (
    CYCLES,
    FORWARDED,
    Experiment,
    Sign,
    Signs,
    Standing,
    Suspicion,
    Turned,
    Turns,
)
from pinchpoint.model.duet import RELATIVE
from pinchpoint.model.hops import DropKind
from pinchpoint.model.measurement import Bound, Metric
from pinchpoint.model.result import Band, Limit, Outcome, Rate, RateStatus, ScenarioResult, Verdict
from pinchpoint.stats.paired import CERTAIN


def suspected(name):
    cause = OWN_SPEED if name == OWN_SPEED.name else by_name(name)
    return Suspicion(cause.name, cause.title, 0.5, (), cause.mend, cause.experiment)


def ndr(low, high, status=RateStatus.FOUND, band=None):
    estimate = None if status is not RateStatus.FOUND else (low + high) / 2
    return Rate(0.0, status, low, high, 0.2, 2.0, "", estimate_fps=estimate, band=band)


def result(name="x", causes=(), rates=(), metrics=(), outcome=Outcome.MEASURED, reason="", threads=()):
    verdict = Verdict(Limit.FORWARDING_CORE, "", (), (), (), tuple(map(suspected, causes)))
    return ScenarioResult(
        scenario=name,
        title=name,
        rates=tuple(rates),
        latency=(),
        threads=tuple(threads),
        verdict=verdict,
        generator_ceiling_fps=None,
        trials=0,
        invalid_trials={},
        traffic_s=0.0,
        wall_s=0.0,
        cache_line=None,
        warnings=(),
        metrics=tuple(metrics),
        outcome=outcome,
        reason=reason,
    )


def ratio(value, low, high):
    return result("x.tried", metrics=[Metric(RELATIVE, "x", value, low, high)])


def standing_of(cause, counter, **unchanged):
    experiment = suspected(cause).experiment
    made = {} if counter is None else {experiment: counter}
    return explanation(result(causes=[cause], **unchanged), made).branches[0]


@pytest.mark.parametrize(
    ("ratios", "standing"),
    [
        ((2.0, 1.9, 2.1), Standing.CONFIRMED),
        ((1.0, 0.98, 1.02), Standing.EXCLUDED),
        ((0.5, 0.4, 0.6), Standing.EXCLUDED),  # slower without it
        ((1.1, 0.9, 1.3), Standing.UNDECIDED),
    ],
)
def test_a_prediction_that_came_true_confirms_and_one_that_did_not_excludes(ratios, standing):
    assert standing_of("recirculation", ratio(*ratios)).standing is standing


@pytest.mark.parametrize(
    ("ratios", "standing"),
    [
        ((2.0, 1.95, 2.05), Standing.EXCLUDED),
        ((1.0, 0.98, 1.02), Standing.EXCLUDED),
        ((9.0, 8.5, 9.5), Standing.CONFIRMED),
    ],
)
def test_twice_the_frames_of_traffic_both_ways_are_no_offload(ratios, standing):
    assert standing_of("one-way", ratio(*ratios)).standing is standing


@pytest.mark.parametrize(
    ("cause", "low", "standing"),
    [
        ("recirculation", 1.9, Standing.CONFIRMED),  # it forwards more, however much
        ("recirculation", 0.9, Standing.UNDECIDED),
        ("own-speed", 1.9, Standing.EXCLUDED),
        ("own-speed", 1.0, Standing.UNDECIDED),
    ],
)
def test_a_bench_that_the_engine_could_not_overload_gives_a_bound(cause, low, standing):
    bound = Metric(RELATIVE, "x", low, low, None, "not overloaded", Bound.AT_LEAST)
    assert standing_of(cause, result("x.tried", metrics=[bound])).standing is standing


def test_what_a_cause_explains_is_the_time_that_its_absence_saves():
    assert standing_of("recirculation", ratio(4.0, 3.9, 4.1)).explains == 0.75


def test_the_devices_own_speed_is_confirmed_where_plain_forwarding_is_no_faster():
    assert standing_of("own-speed", ratio(1.02, 0.99, 1.05)).standing is Standing.CONFIRMED
    assert standing_of("own-speed", ratio(3.0, 2.9, 3.1)).standing is Standing.EXCLUDED


def test_rings_are_judged_by_loss_free_rates_over_the_whole_of_their_bands():
    small = [ndr(1.0e6, 1.1e6, band=Band(0.9e6, 1.3e6))]
    faster = result("x.tried", rates=[ndr(2.0e6, 2.2e6, band=Band(1.8e6, 2.4e6))])
    branch = standing_of("small-ring", faster, rates=small)
    assert branch.standing is Standing.CONFIRMED
    assert branch.tried.low == pytest.approx(1.8 / 1.3)
    alike = result("x.tried", rates=[ndr(1.2e6, 1.3e6)])
    assert standing_of("small-ring", alike, rates=small).standing is Standing.UNDECIDED


def test_a_bench_that_always_loses_and_then_does_not_confirms():
    before = [ndr(None, None, RateStatus.LOSES_ALWAYS)]
    branch = standing_of("mtu", result("x.tried", rates=[ndr(1e6, 1.1e6)]), rates=before)
    assert branch.standing is Standing.CONFIRMED
    still = standing_of("mtu", result("x.tried", rates=before), rates=before)
    assert still.standing is Standing.EXCLUDED


def test_what_was_not_measured_is_not_tried_with_the_reason():
    skipped = result("x.tried", outcome=Outcome.SKIPPED, reason="no time")
    assert standing_of("masks", skipped).reason == "no time"
    assert "few five-tuples" in standing_of("masks", None).reason
    assert standing_of("policer", None).standing is Standing.NOT_TRIED


def test_a_ratio_that_was_refused_is_undecided_and_says_why():
    refused = result("x.tried", metrics=[Metric(RELATIVE, "x", 0.0, note="not overloaded", bound=Bound.REFUSED)])
    branch = standing_of("recirculation", refused)
    assert (branch.standing, branch.reason) == (Standing.UNDECIDED, "not overloaded")


def test_confirmed_causes_come_first_and_those_that_explain_most():
    unchanged = result(causes=["recirculation", "masks", "policer"])
    made = {Experiment.NO_TRACKING: ratio(2.0, 1.9, 2.1), Experiment.FEW_FLOWS: ratio(3.0, 2.9, 3.1)}
    explained = explanation(unchanged, made)
    assert [branch.suspicion.cause for branch in explained.branches] == ["masks", "recirculation", "policer"]


def test_a_pass_costs_what_is_saved_without_it():
    load = replace(thread_load(0.99, 1200.0), received=1000, recirculated=3000)
    unchanged = result(causes=["recirculation"], threads=[load])
    cost = explanation(unchanged, {Experiment.NO_TRACKING: ratio(4.0, 3.0, 6.0)}).passes
    assert (cost.passes, cost.cycles, cost.each) == (4.0, 1200.0, 300.0)
    assert (cost.low, cost.high) == (pytest.approx(800 / 3), pytest.approx(1000 / 3))


def test_without_a_verdict_there_is_nothing_to_explain():
    assert explanation(replace(result(), verdict=None), {}) is None


NOT_SEEN = Turned(None, 0, 0, False, False, False)
BETTER = Turned(2.0, 10, 10, True, False, False, True)
NO_BETTER = Turned(1.0, 10, 0, False, True, False)
SAME = Turned(1.0, 10, 0, False, True, False, True)
HOLDS = Turned(1.0, 10, 5, False, False, False, True)
WORSE = Turned(0.5, 10, 0, False, True, True)


NO_SIGNS = Signs()


def in_turns(rate=NOT_SEEN, cycles=NOT_SEEN, loss=NOT_SEEN, before=NO_SIGNS, after=NO_SIGNS, drops=({}, {})):
    made = Turns(1e6, 8, rate, cycles, loss, before, after, *drops)
    return replace(result("x.tried"), turns=made)


@pytest.mark.parametrize(
    ("cause", "figures", "standing"),
    [
        ("recirculation", {"rate": BETTER}, Standing.CONFIRMED),
        ("recirculation", {"cycles": BETTER}, Standing.CONFIRMED),  # the generator was the limit of the rate
        ("recirculation", {"rate": NO_BETTER}, Standing.EXCLUDED),
        ("recirculation", {}, Standing.UNDECIDED),
        ("recirculation", {"loss": BETTER}, Standing.UNDECIDED),
        ("small-ring", {"loss": BETTER}, Standing.CONFIRMED),
        ("small-ring", {"loss": NO_BETTER}, Standing.EXCLUDED),
        ("small-ring", {"rate": BETTER}, Standing.UNDECIDED),
        ("own-speed", {"rate": NO_BETTER}, Standing.CONFIRMED),
        ("own-speed", {"rate": BETTER}, Standing.EXCLUDED),
        ("own-speed", {"rate": NO_BETTER, "cycles": BETTER}, Standing.UNDECIDED),
        ("recirculation", {"rate": NO_BETTER, "cycles": BETTER}, Standing.UNDECIDED),  # they contradict each other
    ],
)
def test_trials_in_turns_are_judged_by_the_figure_that_the_cause_is_about(cause, figures, standing):
    assert standing_of(cause, in_turns(**figures)).standing is standing


@pytest.mark.parametrize(
    ("after", "rate", "standing"),
    [
        (0.0, BETTER, Standing.CONFIRMED),
        (0.0, HOLDS, Standing.CONFIRMED),
        (0.0, NOT_SEEN, Standing.UNDECIDED),
        (0.0, NO_BETTER, Standing.UNDECIDED),  # it may have fallen
        (0.25, NOT_SEEN, Standing.EXCLUDED),
        (0.1, NOT_SEEN, Standing.UNDECIDED),
        (0.0, WORSE, Standing.UNDECIDED),  # what was dropped there is lost elsewhere
    ],
)
def test_a_counter_of_drops_that_vanishes_is_the_proof(after, rate, standing):
    drops = ({DropKind.RULE: 0.25}, {DropKind.RULE: after})
    assert standing_of("rule-drop", in_turns(rate=rate, drops=drops)).standing is standing


def test_a_full_table_is_confirmed_by_a_rate_that_falls_once_it_has_room():
    full, roomy = Signs({Sign.TRACKED_OF_LIMIT: 1.0}), Signs({Sign.TRACKED_OF_LIMIT: 0.1})
    made = in_turns(rate=WORSE, before=full, after=roomy)
    assert standing_of("tracking-limit", made).standing is Standing.CONFIRMED
    still_full = in_turns(rate=WORSE, before=full, after=full)
    assert standing_of("tracking-limit", still_full).standing is Standing.UNDECIDED


@pytest.mark.parametrize(("rate", "standing"), [(SAME, Standing.UNDECIDED), (NOT_SEEN, Standing.CONFIRMED)])
def test_what_a_packet_costs_tells_of_a_full_table_unless_the_rate_surely_stays(rate, standing):
    full, roomy = Signs({Sign.TRACKED_OF_LIMIT: 1.0}), Signs({Sign.TRACKED_OF_LIMIT: 0.1})
    branch = standing_of("tracking-limit", in_turns(rate=rate, cycles=WORSE, before=full, after=roomy))
    assert branch.standing is standing


def test_slices_do_not_confirm_a_full_table_whose_signature_stayed():
    full = Signs({Sign.TRACKED_OF_LIMIT: 1.0})
    changed = replace(ratio(2.0, 1.9, 2.1), turns=in_turns(before=full, after=full).turns)
    assert standing_of("tracking-limit", changed).standing is Standing.UNDECIDED


@pytest.mark.parametrize(
    ("slices", "standing", "figure"),
    [
        ((2.0, 1.9, 2.1), Standing.CONFIRMED, FORWARDED),
        ((1.03, 0.99, 1.08), Standing.CONFIRMED, CYCLES),
        ((1.0, 0.98, 1.02), Standing.UNDECIDED, FORWARDED),
    ],
)
def test_the_figure_that_is_shown_is_the_one_that_the_standing_rests_on(slices, standing, figure):
    branch = standing_of("recirculation", replace(ratio(*slices), turns=in_turns(cycles=BETTER).turns))
    assert (branch.standing, branch.tried.figure) == (standing, figure)


def test_a_full_table_shows_the_figure_that_differs():
    full, roomy = Signs({Sign.TRACKED_OF_LIMIT: 1.0}), Signs({Sign.TRACKED_OF_LIMIT: 0.1})
    branch = standing_of("tracking-limit", in_turns(rate=NO_BETTER, cycles=WORSE, before=full, after=roomy))
    assert (branch.standing, branch.tried.figure, branch.tried.ratio) == (Standing.CONFIRMED, CYCLES, 0.5)


def test_a_counter_that_vanishes_is_no_proof_where_slices_forward_less():
    drops = ({DropKind.RULE: 0.25}, {})
    slower = replace(ratio(0.7, 0.6, 0.8), turns=in_turns(rate=HOLDS, drops=drops).turns)
    assert standing_of("rule-drop", slower).standing is Standing.UNDECIDED


FULL, ROOMY = Signs({Sign.TRACKED_OF_LIMIT: 1.0}), Signs({Sign.TRACKED_OF_LIMIT: 0.1})
FLAGS = ("is_better", "is_no_better", "is_worse", "is_no_worse")


def bets_that_confirm(cause):
    """The single bets of which each confirms the cause with no other evidence of chance."""
    for figure, flag, kinds in product(("rate", "cycles", "loss"), FLAGS, ((), by_name(cause).drops)):
        drops = (dict.fromkeys(kinds, 0.25), {})
        turned = in_turns(**{figure: replace(NOT_SEEN, **{flag: True})}, before=FULL, after=ROOMY, drops=drops)
        if standing_of(cause, turned).standing is Standing.CONFIRMED:
            yield figure, flag


@pytest.mark.parametrize("cause", [cause.name for cause in (*CATALOGUE, OWN_SPEED) if cause.experiment])
def test_all_ways_to_confirm_a_cause_err_in_5_percent_together(cause):
    bets = set(bets_that_confirm(cause))
    nothing = in_turns(before=FULL, after=ROOMY).turns
    slices = (replace(ratio(*each), turns=nothing) for each in ((9.0, 8.5, 9.5), (1.0, 0.98, 1.02)))
    is_by_slices = any(standing_of(cause, each).standing is Standing.CONFIRMED for each in slices)
    assert bets
    assert len(bets) / CERTAIN + 0.025 * is_by_slices <= 0.05


def test_a_bench_that_is_its_own_reference_has_no_ratio():
    own = replace(ratio(1.0, 1.0, 1.0), reference="x.tried")
    assert standing_of("recirculation", own).standing is Standing.UNDECIDED


def test_a_gain_in_turns_says_what_the_cause_explains():
    assert standing_of("recirculation", in_turns(rate=BETTER)).explains == 0.5

"""Whether a run has an answer, and why not."""

from dataclasses import replace

import pytest
from sample import rate, sample_run

from pinchpoint.findings.answers import is_answered, why_unanswered
from pinchpoint.model.causes import Branch, Explanation, Standing, Suspicion
from pinchpoint.model.duet import RELATIVE
from pinchpoint.model.measurement import Bound, Metric
from pinchpoint.model.result import Limit, Outcome, RateStatus

RESULT = sample_run()[1]
FOUND = RESULT.scenarios[1]
REFUSED = replace(FOUND, rates=(rate(0.0, None, None, RateStatus.REFUSED, "no quiet trial in 3 tries."),), metrics=())


def run_of(*scenarios, explanations=()):
    return replace(RESULT, scenarios=scenarios, explanations=explanations)


def reasons(result, explains=False):
    return [*why_unanswered(result, explains=explains)]


def test_some_scenario_with_a_number_is_an_answer():
    assert is_answered(run_of(REFUSED, FOUND), explains=False)
    least = replace(FOUND, rates=(rate(0.0, 7.1e6, None, RateStatus.AT_LEAST),))
    assert is_answered(run_of(least), explains=False)


def test_rates_that_are_all_refused_are_none_and_scenarios_of_one_reason_are_told_together():
    result = run_of(REFUSED, replace(REFUSED, scenario="other"))
    assert not is_answered(result, explains=False)
    assert reasons(result) == ["snat-255, other: NDR refused: no quiet trial in 3 tries"]


def test_a_relative_rate_is_a_number_where_the_search_has_none():
    relative = Metric(RELATIVE, "x", 0.5, bound=Bound.FOUND)
    assert is_answered(run_of(replace(REFUSED, metrics=(relative,))), explains=False)
    assert not is_answered(run_of(replace(REFUSED, metrics=(replace(relative, bound=Bound.REFUSED),))), explains=False)


@pytest.mark.parametrize(
    ("outcome", "told"),
    [
        (Outcome.IMPOSSIBLE, ["snat-255: impossible here: one NUMA node"]),
        (Outcome.SKIPPED, ["snat-255: skipped: impossible here: one NUMA node"]),
        (Outcome.FAILED, []),
    ],
)
def test_what_was_not_measured_is_no_answer(outcome, told):
    result = run_of(replace(FOUND, outcome=outcome, reason="impossible here: one NUMA node"))
    assert not is_answered(result, explains=False)
    assert reasons(result) == told


def test_a_device_that_is_wrong_is_an_answer_and_a_run_of_nothing_is_none():
    assert is_answered(run_of(replace(FOUND, outcome=Outcome.WRONG)), explains=False)
    assert not is_answered(run_of(), explains=False)
    assert reasons(run_of()) == ["nothing was measured"]


def explained(*standings, unchanged=FOUND):
    suspicion = Suspicion("c", "short of ring", 0.5, (), "")
    branches = tuple(Branch(suspicion, standing, "") for standing in standings)
    return run_of(unchanged, explanations=(Explanation(unchanged.scenario, branches),))


@pytest.mark.parametrize("standing", [Standing.CONFIRMED, Standing.EXCLUDED])
def test_a_cause_that_is_decided_explains_a_rate(standing):
    assert is_answered(explained(Standing.UNDECIDED, standing), explains=True)


def test_a_rate_of_which_no_cause_is_decided_is_not_explained():
    result = explained(Standing.UNDECIDED)
    assert is_answered(result, explains=False) and not is_answered(result, explains=True)
    assert reasons(result, explains=True) == [
        "snat-255: no cause is confirmed or excluded; short of ring: undecided, the interval allows both answers"
    ]


def test_where_no_cause_could_be_tried_the_verdicts_limit_decides():
    assert is_answered(explained(Standing.NOT_TRIED), explains=True)
    assert not is_answered(explained(Standing.NOT_TRIED, Standing.UNDECIDED), explains=True)
    unnamed = replace(FOUND, verdict=replace(FOUND.verdict, limit=Limit.UNEXPLAINED))
    result = explained(Standing.NOT_TRIED, unchanged=unnamed)
    assert not is_answered(result, explains=True)
    (reason,) = reasons(result, explains=True)
    assert reason.startswith("snat-255: no cause is confirmed or excluded; short of ring: not tried")


def test_a_limit_without_causes_explains_a_rate_unless_it_is_unexplained():
    assert is_answered(explained(), explains=True)
    unnamed = replace(FOUND.verdict, limit=Limit.UNEXPLAINED, headline="unexplained: no counter names 7 frames")
    result = explained(unchanged=replace(FOUND, verdict=unnamed))
    assert not is_answered(result, explains=True)
    assert reasons(result, explains=True) == ["snat-255: unexplained: no counter names 7 frames"]


def test_a_refused_rate_is_not_explained_and_says_why():
    result = explained(Standing.CONFIRMED, unchanged=REFUSED)
    assert not is_answered(result, explains=True)
    assert reasons(result, explains=True) == ["snat-255: NDR refused: no quiet trial in 3 tries"]

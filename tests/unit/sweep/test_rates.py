"""What the measure rates tells of the switch: at its NDR, or nothing."""

import trials
from support import TWO_PORTS as SCENARIO

from pinchpoint.model.result import Rate, RateStatus
from pinchpoint.search import SearchOutcome
from pinchpoint.sweep import rates
from pinchpoint.sweep.scenario import first_lines

DROWNED = trials.trial(
    5000.0, counts=trials.stream_counts(offered=5000, received=400), pmds=[trials.pmd(1.0, 900.0)], number=1
)
CLEAN = trials.trial(1000.0, pmds=[trials.pmd(0.4, 300.0)], number=2)
SLOWER = trials.trial(500.0, pmds=[trials.pmd(0.2, 310.0)], number=3)


def summary(ndr, *searched):
    outcome = SearchOutcome((ndr,), None)
    return rates._summary(SCENARIO, searched, rates._Found(outcome, searched), (), 1.0)


def named(result):
    """The metrics of the switch: which trials were set aside is the host's."""
    return {metric.name: metric.value for metric in result.metrics if metric.name != "trials set aside"}


def test_without_an_ndr_no_other_trial_speaks_for_the_switch():
    for status, upper in ((RateStatus.REFUSED, None), (RateStatus.BELOW_MINIMUM, 5000.0)):
        result = summary(Rate(0.0, status, None, upper, 1.0, 3.0, "noisy"), DROWNED)
        assert result.pmds == ()
        assert named(result) == {}


def test_at_the_ndr_the_trial_of_the_highest_load_that_kept_the_goal_speaks():
    for status, upper in ((RateStatus.FOUND, 5000.0), (RateStatus.AT_LEAST, None)):
        result = summary(Rate(0.0, status, 1000.0, upper, 1.0, 3.0, ""), DROWNED, SLOWER, CLEAN)
        assert result.pmds == CLEAN.pmds
        assert named(result)["cycles per packet"] == 300


def test_an_attached_text_that_is_cut_says_how_much():
    text = "".join(f"flow {number}\n" for number in range(10))
    assert first_lines(text, len(text)) == text
    assert first_lines(text, 15) == "flow 0\nflow 1\n(cut here: 8 more lines, 56 characters)\n"
    assert first_lines("x" * 20, 15) == "(cut here: 1 more lines, 20 characters)\n"

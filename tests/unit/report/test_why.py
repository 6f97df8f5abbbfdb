"""The sentences of a tree of causes."""

from pinchpoint.model.causes import FORWARDED, LOSS, Branch, Experiment, Explanation, Standing, Suspicion, Tried
from pinchpoint.report.why import why_view


def sentence(experiment, figure, gain, pairs=8):
    tried = Tried(experiment, "x.tried", figure, gain, None, None, "", pairs)
    suspicion = Suspicion("c", "a cause", 0.5, (), "mend it", experiment)
    return why_view(Explanation("x", (Branch(suspicion, Standing.CONFIRMED, "", tried),))).branches[0].sentence


def test_a_gain_in_turns_names_its_figure_and_how_many_pairs_show_it():
    assert sentence(Experiment.LARGE_RING, LOSS, 1000.0) == (
        "confirmed: a cause. With the largest ring: loss better x 1,000 in the median of 8 pairs of trials in turns"
    )


def test_a_gain_of_the_rate_says_at_least_how_much_of_the_time_is_explained():
    assert "at least 50.0 % of the time for a frame" in sentence(Experiment.FEW_FLOWS, FORWARDED, 2.0)

"""The loss curve counts trials: its points, their intervals, and what is marked."""

import pytest
from sample_shared import shared_run

from pinchpoint.model.result import LossShare
from pinchpoint.report.loss_figures import interval, losing_figure, points, usable

_, RESULT, TRIALS = shared_run()
FOUND = RESULT.scenarios[0]
OWN = [trial for trial in TRIALS if trial.scenario == FOUND.scenario]


def test_every_usable_trial_is_in_one_point_and_points_rise_with_the_load() -> None:
    tried = usable(OWN)
    curve = points(tried, 0.0)
    assert sum(point.trials for point in curve) == len(tried)
    assert sum(point.losing for point in curve) == sum(trial.lost > 0 for trial in tried)
    assert [point.load_fps for point in curve] == sorted(point.load_fps for point in curve)


def test_the_interval_is_wilsons() -> None:
    assert interval(LossShare(1e6, 5, 10)).figures == pytest.approx((0.5, 0.2366, 0.7634), abs=1e-3)
    assert interval(LossShare(1e6, 0, 10)).figures == pytest.approx((0.0, 0.0, 0.2775), abs=1e-3)


def test_trials_without_loss_stand_at_the_bottom_and_rate_mrr_and_band_are_marked() -> None:
    figure = losing_figure(FOUND, OWN)
    assert figure is not None
    heights = {trace["name"]: set(trace["y"]) for trace in figure["data"]}
    assert heights["a trial that loses"] == {1.0} and heights["a trial that does not"] == {0.0}
    assert [shape["type"] for shape in figure["layout"]["shapes"]] == ["rect", "line", "line"]
    assert [note["text"].split()[0] for note in figure["layout"]["annotations"]] == ["NDR", "MRR"]


def test_few_trials_make_no_curve() -> None:
    assert losing_figure(FOUND, OWN[:7]) is None
    assert losing_figure(None, OWN) is None

"""Loss over time as a plot: axes with units, disturbed windows marked, texts escaped."""

from dataclasses import asdict, replace

from trials import measurement, trial

from pinchpoint.measure.soak.metrics import Window
from pinchpoint.model.trial import Sample, TrialValidity
from pinchpoint.report.trial_figures import over_time_figure


def window(number, lost=0, validity=TrialValidity.VALID, span_s=10.0):
    first = Window(span_s * (number - 1), span_s, 1e6, 1000, lost, 0.0, 0.0, 0.0, 0.0, None)
    account, reason = asdict(first), "<b>busy" if validity is TrialValidity.NOISY_HOST else ""
    return measurement("soak", number, validity, reason, id=f"w{number}", account=account)


def test_windows_stand_at_their_middle_with_their_loss_and_disturbed_ones_apart():
    figure = over_time_figure([], [window(1), window(2, 10), window(3, 20, TrialValidity.NOISY_HOST)])
    assert [(trace["name"], trace["x"], trace["y"]) for trace in figure["data"]] == [
        ("window, valid", [5.0, 15.0], [0.0, 1.0]),
        ("window, disturbed by the host", [25.0], [2.0]),
    ]
    assert figure["layout"]["xaxis"]["title"]["text"] == "time since the beginning of the soak, s"
    assert figure["layout"]["yaxis"]["title"]["text"] == "lost, % of offered"
    assert "&lt;b&gt;busy" in figure["data"][1]["text"][0]


def test_an_hour_is_told_in_minutes_and_a_day_in_hours():
    for span_s, unit in ((600.0, "min"), (6000.0, "h")):
        figure = over_time_figure([], [window(number, span_s=span_s) for number in (1, 2, 3)])
        assert figure["layout"]["xaxis"]["title"]["text"].endswith(f", {unit}")


def test_a_trial_seen_over_time_is_a_line_of_what_it_lost_between_samples():
    samples = (Sample(0.1, 100, 0), Sample(0.2, 200, 50), Sample(0.3, 250, 50))
    figure = over_time_figure([replace(trial(), phase="recovery", samples=samples)], [])
    (line,) = figure["data"]
    assert (line["x"], line["y"]) == ([0.2, 0.3], [50.0, 0.0])


def test_without_windows_and_samples_there_is_no_plot():
    assert over_time_figure([trial()], []) is None

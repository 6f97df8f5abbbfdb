"""What is shown of measures other than rates."""

from dataclasses import replace

import pytest
from sample_measures import measures_run

from pinchpoint.model.measurement import Metric
from pinchpoint.model.trial import TrialValidity
from pinchpoint.report.number_views import figure, main_columns, main_metrics, metrics_view

_, RESULT, MADE = measures_run()
WINDOWS, TRANSACTIONS, BUILD, LOAD = RESULT.scenarios


def view_of(result):
    return metrics_view(result.metrics, result.measure)


@pytest.mark.parametrize(
    ("result", "names"),
    [
        (WINDOWS, ["goodput", "retransmits", "client busy", "relay busy"]),
        (
            TRANSACTIONS,
            ["transactions", "latency p50", "latency p90", "latency p99", "latency p99.9", "failed share"],
        ),
        (BUILD, ["build time", "visible time", "build rate", "blocked time", "removal time"]),
        (LOAD, ["cycles per packet at 100 kpps", "thread busy at 100 kpps", "loss at 100 kpps"]),
    ],
)
def test_each_measure_tells_what_it_is_about_first(result, names):
    assert [row.name for row in view_of(result).main] == names
    assert len(view_of(result).every) == len(result.metrics)


def test_a_measure_without_any_known_metric_shows_its_first_ones():
    unknown = [Metric(f"m{n}", "s", 1.0) for n in range(9)]
    assert [metric.name for metric in main_metrics("bandwidth", unknown)] == ["m0", "m1", "m2", "m3"]


def test_what_all_metrics_share_is_told_once():
    view = view_of(WINDOWS)
    assert view.about == "lowest and highest of 3 windows"
    assert [row.note for row in view.main] == ["", "", "mean of 2 threads, the busiest 80.1 %", ""]
    assert [row.interval for row in view.every[:2]] == ["1.52 to 1.69 Gbit/s", "1.00 to 7.00"]
    assert view_of(BUILD).about == ""


def test_one_metric_alone_keeps_its_note_and_none_gives_no_rows():
    alone = view_of(replace(WINDOWS, metrics=(Metric("goodput", "bit/s", 1e9, note="one window"),)))
    assert (alone.about, alone.main[0].note, alone.main[0].interval) == ("", "one window", "")
    assert view_of(replace(WINDOWS, metrics=())).every == ()


def test_measurements_stand_with_their_main_figure():
    assert main_columns(MADE) == ("goodput",)
    figures = [figure(measurement, "goodput")[0] for measurement in MADE]
    assert figures == ["1.21 Gbit/s", "1.60 Gbit/s", "1.62 Gbit/s", "1.61 Gbit/s"]


def test_a_measurement_that_found_nothing_keeps_its_row():
    aborted = replace(MADE[0], metrics=(), validity=TrialValidity.ABORTED, reason="ovs-vswitchd died")
    assert main_columns([aborted, MADE[1]]) == ("goodput",) and figure(aborted, "goodput") == ("-", "")

"""OpenMetrics text, read by the parser of prometheus_client."""

from dataclasses import replace

import pytest
import sample
import sample_measures
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from pinchpoint.export import Stored, openmetrics
from pinchpoint.model.causes import Suspicion
from pinchpoint.model.measurement import Metric
from pinchpoint.model.trial import Drop, Hop, ThreadLoad
from pinchpoint.model.watch import RecordHead, Watched


def families(text):
    return {family.name: family for family in text_string_to_metric_families(text)}


@pytest.fixture(scope="module")
def windows():
    info, result, made = sample_measures.measures_run()
    times = [f"2026-01-02T03:04:{second:02d}+00:00" for second in (20, 15, 10, 5)]
    made = tuple(replace(window, started=time) for window, time in zip(made, times, strict=True))
    return Stored(info, result, measurements=made)


def test_every_figure_of_a_run_is_a_point_at_the_time_it_was_known():
    info, result, trials = sample.sample_run()
    by_family = families(openmetrics.of_runs([Stored(info, result, trials)]))
    points = by_family["pinchpoint_ndr_frames_per_second"].samples
    (value,) = (point for point in points if point.labels["scenario"] == "snat-255" and point.labels["of"] == "value")
    ends = [trial for trial in trials if trial.scenario == "snat-255"]
    assert value.value == 3.1e6 and value.timestamp is not None
    assert float(value.timestamp) > len(ends)


def test_each_window_is_a_point_in_the_order_of_time(windows):
    by_family = families(openmetrics.of_runs([windows]))
    points = by_family["pinchpoint_window_bandwidth_goodput_bits_per_second"].samples
    assert len(points) == 4
    valid = [float(point.timestamp) for point in points if point.labels["validity"] == "valid"]
    assert valid == sorted(valid)


def test_times_in_nanoseconds_become_seconds(windows):
    points = families(openmetrics.of_runs([windows]))["pinchpoint_latency_p50_seconds"].samples
    assert points[0].value == pytest.approx(47.2e-6)


def test_hostile_names_stay_within_their_quotation_marks(windows):
    first = replace(windows.result.scenarios[0], scenario='a"} 1\n# EOF\\', metrics=(Metric('x"y\n{z', "count", 1.0),))
    text = openmetrics.of_runs([replace(windows, result=replace(windows.result, scenarios=(first,)), measurements=())])
    (point,) = families(text)["pinchpoint_x_y_z_count"].samples
    assert point.labels["scenario"] == 'a"} 1\n# EOF\\'


def test_a_watch_counts_up_from_reading_to_reading_and_gauges_are_of_the_last():
    head = RecordHead(1, "reference", "", "/run/x", ("left",), "lab", "2026-01-02T03:04:05Z")
    totals = openmetrics.WatchTotals(head)
    drop = Drop("receive ring of left full", 3, "rx_dropped", "dut")
    for busy in (0.25, 0.5):
        hops = (Hop("switch receives", 100, 97, (drop,)), Hop("datapath", 97, None))
        load = ThreadLoad("PMD core 1", 1, 97, busy_share=busy)
        totals.add(Watched(1.0, hops, (load,), {}, (Suspicion("busy", "Busy", 0.5, (), ""),)))
    by_family = families(totals.text())
    frames = {
        (sample.labels["hop"], sample.labels["way"]): sample.value
        for sample in by_family["pinchpoint_watch_hop_frames"].samples
    }
    assert frames == {("switch receives", "in"): 200, ("switch receives", "out"): 194, ("datapath", "in"): 194}
    assert [sample.value for sample in by_family["pinchpoint_watch_dropped_frames"].samples] == [6]
    assert [sample.value for sample in by_family["pinchpoint_watch_thread_busy_ratio"].samples] == [0.5]

"""The timeline of a run as a Chrome trace: what stored trials hold, at the times that they hold."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import sample

from pinchpoint.cli.main import main
from pinchpoint.export import Stored, perfetto
from pinchpoint.model.duet import MEASURED, Slice, Slicing, Stretch
from pinchpoint.model.errors import InputError
from pinchpoint.model.trial import Sample

GOLDEN = Path(__file__).parents[3] / "tests" / "golden" / "run"
INFO, RESULT, TRIALS = sample.sample_run()


def stored(*trials, **more):
    return Stored(INFO, RESULT, trials, **more)


def of_phase(trace, phase):
    return [event for event in trace["traceEvents"] if event["ph"] == phase]


def tracks(trace):
    """Slices as (process, track, name, begin, length), in microseconds."""
    names = {(event["pid"], event.get("tid")): event["args"]["name"] for event in of_phase(trace, "M")}
    for event in of_phase(trace, "X"):
        process, track = names[event["pid"], None], names[event["pid"], event["tid"]]
        yield process, track, event["name"], event["ts"], event["dur"]


def counters(trace, name):
    """(when, values) of a counter."""
    return [(event["ts"], event["args"]) for event in of_phase(trace, "C") if event["name"] == name]


@pytest.fixture(scope="module")
def golden(tmp_path_factory):
    file = tmp_path_factory.mktemp("trace") / "run.json"
    assert main(["export", str(GOLDEN), "--format", "perfetto", "-o", str(file)]) == 0
    return json.loads(file.read_text())


def test_trials_and_measurements_stand_where_they_were_called_for(golden):
    assert golden["otherData"] == {"begins": "2026-01-02T03:04:05+00:00"}
    whole = [slice for slice in tracks(golden) if slice[1] in ("trials", "measurements")]
    assert whole == [
        ("flows.items-1000", "measurements", "build 1", 0, 410_000),
        ("snat-255", "trials", "search 3.08 Mpps", 12e6, 1_420_000),
        ("snat-255", "trials", "search 3.12 Mpps", 16e6, 1_420_000),
    ]


def test_each_gap_of_the_engine_that_is_kept_has_its_time_and_length(golden):
    gaps = [(begin, length) for _, track, _, begin, length in tracks(golden) if track == "engine core 0"]
    assert gaps == [(12_412_000, 2900), (12_101_000, 700), (16_412_000, 23)]


def test_threads_count_from_the_begin_of_a_trial(golden):
    (at_us, first), (_, second) = counters(golden, "pmd core 1")
    assert (at_us, first["busy, %"]) == (12e6, pytest.approx(99.35, abs=0.01))
    assert second["received"] == 3_100_000


def test_drops_rise_at_the_end_of_the_trial_that_lost_them(golden):
    ring, transmit = "engine sends: receive ring of left full", "switch sends: transmit ring of right full"
    assert counters(golden, "drops") == [(16e6, {ring: 0, transmit: 0}), (17.42e6, {ring: 70, transmit: 20})]


def test_a_trial_says_how_late_its_first_frame_may_have_been(golden):
    about = next(event["args"] for event in golden["traceEvents"] if event["name"] == "search 3.08 Mpps")
    assert about["first_frame_within_s"] == pytest.approx(0.42)
    assert about["validity"] == "noisy_host"


def test_samples_are_slices_that_meet_with_what_was_counted_between_them():
    samples = (Sample(0.1, 100, 0, received=100), Sample(0.3, 300, 7, 0.002, 0.002, 293), Sample(0.4, 400, None, 0.002))
    trace = perfetto.of_runs([stored(replace(TRIALS[0], samples=samples))])
    shown = [(name, begin, length) for _, track, name, begin, length in tracks(trace) if track == "samples"]
    assert shown == [("lossless", 0, 100e3), ("loses", 100e3, 200e3), ("lost is not countable", 300e3, 100e3)]
    about = [event["args"] for event in trace["traceEvents"] if event["name"] == "loses"]
    assert about == [{"offered": 200, "received": 193, "lost": 7, "gaps_s": 0.002, "gap_max_s": 0.002}]


def test_slices_of_two_benches_have_a_track_each():
    parts = tuple(Slice(side, at_s, 0.005, 50, 0, 49, 0.0, True) for side, at_s in (("A", 0.001), ("B", 0.007)))
    stretch = Stretch("s1", MEASURED, "2026-01-02T03:04:05Z", 0.5, 1e6, 256, Slicing(0.005, 0.001, 0.0), parts)
    trace = perfetto.of_runs([stored(stretches=(stretch,))])
    shown = [(track, begin, length) for _, track, _, begin, length in tracks(trace)]
    assert shown == [("stretches", 0, 500e3), ("slices of A", 1e3, 5e3), ("slices of B", 7e3, 5e3)]


def test_processes_of_several_runs_are_told_apart_by_the_run():
    other = Stored(replace(INFO, run_id="other"), RESULT, TRIALS[:1])
    names = {process for process, *_ in tracks(perfetto.of_runs([stored(TRIALS[0]), other]))}
    assert names == {f"{INFO.run_id} forward", "other forward"}


def test_what_has_no_time_is_left_out_and_a_run_of_nothing_else_is_refused():
    timeless = replace(TRIALS[0], started="")
    assert len(list(tracks(perfetto.of_runs([stored(timeless, TRIALS[1])])))) >= 1
    with pytest.raises(InputError, match="nothing that has a time"):
        perfetto.of_runs([stored(timeless)])

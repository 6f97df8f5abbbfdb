"""Recordings are whole up to their last line; what is no recording is named with its line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinchpoint.model.errors import InputError
from pinchpoint.model.watch import Reading, RecordHead
from pinchpoint.store.codec import SCHEMA
from pinchpoint.store.recording import Recorder, is_recording, read

HEAD = RecordHead(SCHEMA, "ovs", "dpdk", "/run/x", ("a", "b"), "here", "2026-01-02T03:04:05+00:00", {"switch": "3.1"})
READINGS = [Reading(1000.0 + at, 1.0, {"x": at}, {"y": 0.5}, ("z",) if at else ()) for at in range(3)]


@pytest.fixture
def recorded(tmp_path):
    path = tmp_path / "r.jsonl"
    recorder = Recorder(path, HEAD)
    for reading in READINGS:
        recorder.keep(reading)
    recorder.close()
    return path


def test_what_is_recorded_is_read_again(recorded):
    head, readings = read(recorded)
    assert (head, list(readings)) == (HEAD, READINGS)


def test_a_recording_is_never_overwritten(recorded):
    with pytest.raises(InputError, match="exists already"):
        Recorder(recorded, HEAD)


@pytest.mark.parametrize("cut", [1, 10, 40])
def test_a_last_line_that_was_cut_off_is_left_out(recorded, cut):
    recorded.write_bytes(recorded.read_bytes()[:-cut])
    _, readings = read(recorded)
    assert list(readings) == READINGS[:2]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "r.jsonl:1: expected the head"),
        (b"no JSON\n", "r.jsonl:1"),
        (b'{"schema": 999}\n', "r.jsonl:1"),
        (b"\xff\xfe\n", "r.jsonl:1"),
    ],
)
def test_what_is_no_recording_is_refused(tmp_path, content, words):
    path = tmp_path / "r.jsonl"
    path.write_bytes(content)
    with pytest.raises(InputError, match=words):
        read(path)


def test_a_recording_is_told_from_text_by_its_begin(recorded, tmp_path):
    text = tmp_path / "stats.txt"
    text.write_text("pmd thread numa_id 0 core_id 2:\n")
    assert is_recording(recorded)
    assert not is_recording(text)
    with pytest.raises(InputError, match="No such file"):
        is_recording(tmp_path / "absent")


def test_a_recording_of_an_earlier_version_has_none_of_what_was_added(recorded):
    head, readings = read(recorded)
    assert (head.unread, head.are_totals, [reading.unpaired for reading in readings]) == ({}, False, [()] * 3)


def test_a_damaged_line_is_named(recorded):
    lines = recorded.read_bytes().split(b"\n")
    lines[2] = b'{"at_s": "never"}'
    recorded.write_bytes(b"\n".join(lines))
    _, readings = read(recorded)
    with pytest.raises(InputError, match=r"r\.jsonl:3"):
        list(readings)


@pytest.mark.parametrize(("at_s", "elapsed_s"), [(-1, 1), (1e300, 1), (1, 0), (1, -5), (1, 1e300)])
def test_times_that_no_clock_shows_are_refused(recorded, at_s, elapsed_s):
    line = b'{"schema": 1, "at_s": %g, "elapsed_s": %g, "differences": {}, "gauges": {}}' % (at_s, elapsed_s)
    recorded.write_bytes(recorded.read_bytes() + line + b"\n")
    with pytest.raises(InputError, match="expected"):
        list(read(recorded)[1])


@given(st.binary(max_size=300))
def test_hostile_bytes_are_read_or_refused(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("r") / "r.jsonl"
    path.write_bytes(content)
    with pytest.raises(InputError):
        list(read(path)[1])

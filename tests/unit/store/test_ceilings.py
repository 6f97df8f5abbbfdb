"""The cache of ceilings: a day, and hostile until parsed."""

import contextlib
import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinchpoint.model.errors import InputError, StoreError
from pinchpoint.model.result import Ceiling
from pinchpoint.run import ceiling as ceilings

NOW = datetime(2026, 1, 2, 12, tzinfo=UTC)


def ceiling(hours_old=1.0, **changes):
    fields = {"fps": 9e6, "key": "a key", "distance_ns": 30.0, "received_fps": 9e6} | changes
    return Ceiling(measured=(NOW - timedelta(hours=hours_old)).isoformat(), **fields)


def test_what_was_written_is_read_for_a_day(tmp_path):
    path = tmp_path / "new" / "ceilings.json"
    assert ceilings.read_ceilings(path, NOW) == ()
    ceilings.write_ceilings(path, [ceiling(1), ceiling(23.9), ceiling(24), ceiling(-1)])
    assert ceilings.read_ceilings(path, NOW) == (ceiling(1), ceiling(23.9))
    assert [path.name for path in path.parent.iterdir()] == ["ceilings.json"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "Input data was truncated"),
        ("[]", "Expected `object`"),
        ('{"schema": 99, "ceilings": []}', "written in schema 99"),
        ('{"schema": 1, "ceilings": [{"fps": 1}]}', "missing required field"),
        ('{"schema": 1, "ceilings": [], "x": 1}', "unknown field `x`"),
        ("fps=-1", "expected rates and distances above 0"),
        ("fps=0", "expected rates and distances above 0"),
        ("distance_ns=-3.0", "expected rates and distances above 0"),
        ("measured=yesterday", "expected a time, found 'yesterday'"),
        ("x" * (ceilings.MOST_BYTES + 1), "larger than"),
    ],
)
def test_a_broken_file_is_named_with_what_is_wrong(tmp_path, text, words):
    path = tmp_path / "ceilings.json"
    if "=" in text:
        name, _, value = text.partition("=")
        ceilings.write_ceilings(path, [ceiling()])
        content = json.loads(path.read_text())
        content["ceilings"][0][name] = value if name == "measured" else float(value)
        text = json.dumps(content)
    path.write_text(text)
    with pytest.raises(InputError, match=r"ceilings\.json") as raised:
        ceilings.read_ceilings(path, NOW)
    assert words in str(raised.value)


@given(st.binary(max_size=200))
def test_no_content_raises_anything_else(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("hostile") / "ceilings.json"
    path.write_bytes(data)
    with contextlib.suppress(InputError):
        ceilings.read_ceilings(path, NOW)


def test_a_folder_that_takes_nothing_is_named(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(StoreError, match="--no-ceiling"):
        ceilings.write_ceilings(blocked / "ceilings.json", [ceiling()])
    with pytest.raises(InputError):
        ceilings.read_ceilings(blocked / "ceilings.json", NOW)


def test_a_link_that_waits_where_a_process_would_write_is_not_followed(tmp_path):
    path, victim = tmp_path / "ceilings.json", tmp_path / "victim"
    victim.write_text("untouched")
    foreseen = tmp_path / f"{path.name}.{os.getpid()}"
    foreseen.symlink_to(victim)
    ceilings.write_ceilings(path, [ceiling()])
    assert victim.read_text() == "untouched"
    assert ceilings.read_ceilings(path, NOW) == (ceiling(),)
    assert {path.name for path in tmp_path.iterdir()} == {path.name, victim.name, foreseen.name}


def test_what_could_not_be_put_in_place_is_removed(tmp_path):
    path = tmp_path / "ceilings.json"
    path.mkdir()
    with pytest.raises(StoreError, match=r"ceilings\.json"):
        ceilings.write_ceilings(path, [ceiling()])
    assert [path.name for path in tmp_path.iterdir()] == [path.name]


def test_the_cache_stands_where_the_desktop_says():
    assert ceilings.ceilings_file({"XDG_CACHE_HOME": "/c", "HOME": "/h"}) == Path("/c/pinchpoint/ceilings.json")
    assert ceilings.ceilings_file({"HOME": "/h"}) == Path("/h/.cache/pinchpoint/ceilings.json")
    assert ceilings.ceilings_file({"XDG_CACHE_HOME": "relative", "HOME": "/h"}).is_relative_to("/h/.cache")

"""What changed between readings, and over parts of time that follow each other."""

import pytest

from pinchpoint.observe.snapshot import Observation, Snapshot, difference, together


def test_of_a_sparse_source_what_was_not_there_was_zero_and_of_others_it_is_unknown():
    before = {"old": 5}
    after = {"old": 7, "new": 3}
    assert difference(Snapshot(0.0, before), Snapshot(1.0, after)).differences == {"old": 2}
    change = difference(Snapshot(0.0, before, sparse=True), Snapshot(1.0, after, sparse=True))
    assert change.differences == {"old": 2, "new": 3}


def test_parts_add_up_and_the_last_one_tells_the_state():
    first = Observation(1.0, {"ended": 10, "lasting": 1}, {"elapsed_s/cpu": 1.0, "host/process/lab/cpu": 0.0})
    second = Observation(2.5, {"begun": 4, "lasting": 2}, {"elapsed_s/cpu": 2.5, "host/process/lab/cpu": 1.0})
    both = together([first, second])
    state = {"elapsed_s/cpu": 3.5, "host/process/lab/cpu": 1.0}
    assert both == Observation(3.5, {"ended": 10, "lasting": 3, "begun": 4}, state)
    assert together([first]) == first


def test_a_counter_that_fell_was_reset_and_is_named_instead_of_counted():
    change = difference(Snapshot(0.0, {"a": 100, "b": 5}), Snapshot(1.0, {"a": 3, "b": 5}))
    assert change.differences == {"b": 0}
    assert change.went_back == ("a",)
    assert change.flat() == {"b": 0}


@pytest.mark.parametrize(("before", "after"), [(5, 4), (900, 0), (10_000_000, 9_600_000)])
def test_a_derived_counter_that_slips_back_has_not_grown_and_was_not_reset(before, after):
    derived = frozenset({"busy"})
    found = difference(Snapshot(0.0, {"busy": before}), Snapshot(1.0, {"busy": after}, derived=derived))
    assert (found.differences, found.went_back) == ({"busy": 0}, ())


def test_a_derived_counter_that_falls_was_reset_and_so_was_any_other_that_slips():
    fell = difference(Snapshot(0.0, {"busy": 90_000}), Snapshot(1.0, {"busy": 3}, derived=frozenset({"busy"})))
    assert (fell.differences, fell.went_back) == ({}, ("busy",))
    assert difference(Snapshot(0.0, {"packets": 5}), Snapshot(1.0, {"packets": 4})).went_back == ("packets",)


def test_what_is_at_one_end_alone_came_or_went_meanwhile():
    found = difference(Snapshot(0.0, {"old": 1, "both": 1}), Snapshot(1.0, {"new": 9, "both": 2}))
    assert (found.differences, found.unpaired) == ({"both": 1}, ("new", "old"))
    sparse = difference(Snapshot(0.0, {}, sparse=True), Snapshot(1.0, {"new": 9}, sparse=True))
    assert sparse.unpaired == (), "absent means zero"
    assert together([found, found]).unpaired == ("new", "old")


def test_a_sparse_counter_that_vanished_was_reset_too():
    change = difference(Snapshot(0.0, {"a": 100}, sparse=True), Snapshot(1.0, {"b": 1}, sparse=True))
    assert (change.differences, change.went_back) == ({"b": 1}, ("a",))
    assert difference(Snapshot(0.0, {"a": 100}), Snapshot(1.0, {})).went_back == (), "not listed is not known"


def test_parts_keep_what_went_back_in_any_of_them():
    first, second = Observation(1.0, {}, {}, ("a",)), Observation(1.0, {}, {}, ("a", "b"))
    assert together([first, second]).went_back == ("a", "b")

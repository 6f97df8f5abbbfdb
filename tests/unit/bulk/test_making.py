"""One making, timed: until the command returned, until all shows; and where it stops."""

import time

import pytest

from pinchpoint.bulk import making
from pinchpoint.bulk.making import Watch, timed_make, timed_removal
from pinchpoint.model.errors import DutError


class Slow:
    """Ten items that show one by one, each time that somebody looks."""

    def __init__(self):
        self.there = 0

    def make(self, watch):
        for number in range(1, 11):
            watch.reach(number)

    def remove(self, watch):
        self.there = 0

    def shown(self):
        self.there += 2
        return self.there


def test_items_that_show_later_make_the_visible_time_longer():
    made = timed_make(Slow(), 10)
    assert made.visible_s > made.returned_s > 0
    assert made.steps[0] == (0, 0.0)
    assert made.steps[-1] == (10, made.returned_s)


def test_the_last_look_s_own_time_is_told():
    slow = Slow()

    def shown():
        time.sleep(0.05)
        return 10

    slow.shown = shown
    made = timed_make(slow, 10)
    assert 0.05 <= made.look_s <= made.visible_s - made.returned_s + 1e-9


def test_items_that_never_show_are_told_with_their_number(monkeypatch):
    monkeypatch.setattr(making, "allowed_s", lambda count: 0.02)
    stuck = Slow()
    stuck.shown = lambda: 7
    with pytest.raises(DutError, match=r"7 of 10 items are visible"):
        timed_make(stuck, 10)


def test_removal_waits_until_nothing_shows():
    left = iter([3, 1, 0])
    gone = Slow()
    gone.shown = lambda: next(left)
    assert timed_removal(gone, 10).visible_s > 0
    assert list(left) == []


def test_whatever_checks_can_stop_the_making():
    def check():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        timed_make(Slow(), 10, check)


def test_a_watch_looks_seldom_and_passes_over_no_answer():
    looks = []
    watch = Watch(100)

    def shown():
        looks.append(watch.elapsed_s)

    while watch.elapsed_s < 0.1:
        watch.look(shown)
    assert 1 <= len(looks) <= 10
    assert watch.steps(0.1) == ((0, 0.0), (100, 0.1))

"""Machines by ssh as a campaign's loop sees them: what is lost, what failed, and what comes back."""

import time

import pytest

from pinchpoint.campaign import executor as processes
from pinchpoint.campaign.executor import MISSED_S, Ended, Gone, Joined, Order, Processes
from pinchpoint.model.campaign import Bench
from pinchpoint.store.campaign import CampaignFolder
from pinchpoint.store.folder import RunFolder

FAR, HERE = Bench("far", address="root@far"), Bench("here")


class Attempts:
    """Attempts that end at once with that exit code."""

    code = 0

    def __init__(self, *_):
        self.stopped = False

    def ended(self):
        return 130 if self.stopped else Attempts.code

    def said(self):
        return "the end"

    def stop(self):
        self.stopped = True


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """The file that is there while the machine by ssh answers."""
    path = tmp_path / "answers"
    path.touch()
    monkeypatch.setattr(processes, "asking", lambda bench: ("sh", "-c", f"echo no route; test -e {path}"))
    monkeypatch.setattr(processes, "Attempt", Attempts)
    monkeypatch.setattr(processes, "ASKED_EVERY_S", 0.01)
    return path


@pytest.fixture
def begin(machine, tmp_path):
    made = []

    def start(*benches):
        made.append(Processes(CampaignFolder(RunFolder(tmp_path)), benches))
        return made[-1]

    yield start
    for started in made:
        started.close()


def next_of(executor):
    until_s = time.monotonic() + 30
    while time.monotonic() < until_s:
        if events := list(executor.wait(0.2)):
            return events
    raise AssertionError("nothing happened")


def attempt_on_far(executor, code):
    Attempts.code = code
    executor.start(Order("x.a1", FAR, {}, {}, True))


def test_a_machine_joins_once_it_answers_and_this_one_at_once(begin):
    executor = begin(FAR, HERE)
    assert executor.absent_s == MISSED_S
    assert next_of(executor) == [Joined(HERE)]
    assert next_of(executor) == [Joined(FAR)]
    assert (executor.grace_s, executor.absent_s) == (0, 0), "no other may come"


def test_a_machine_that_never_answered_is_unusable_with_what_it_said(begin, machine):
    machine.unlink()
    executor = begin(FAR)
    assert next_of(executor) == [Gone("far", "no route", is_unusable=True)]
    assert executor.absent_s == 0


def test_an_attempt_that_failed_on_a_machine_that_answers_has_failed(begin):
    executor = begin(FAR)
    next_of(executor)
    attempt_on_far(executor, 4)
    assert next_of(executor) == [Ended("x.a1", "far", 4, {}, "the end")]


def test_a_machine_that_does_not_answer_after_an_attempt_failed_is_lost_awaited_and_joins_again(begin, machine):
    executor = begin(FAR)
    next_of(executor)
    attempt_on_far(executor, 4)
    machine.unlink()
    assert next_of(executor) == [Gone("far", "no route")]
    assert executor.grace_s > 0
    assert executor.wait(0.2) == (), "its loss is reported once"
    machine.touch()
    assert next_of(executor) == [Joined(FAR)]
    assert executor.grace_s == 0


def test_what_only_a_lost_machine_can_measure_waits_for_a_time(begin, machine, monkeypatch):
    monkeypatch.setattr(processes, "MISSED_S", 0.0)
    executor = begin(FAR)
    next_of(executor)
    attempt_on_far(executor, 4)
    machine.unlink()
    next_of(executor)
    assert executor.grace_s == 0


@pytest.mark.parametrize("code", [0, 9, 130, -15])
def test_an_attempt_that_ended_in_order_or_was_interrupted_asks_nobody(begin, machine, code):
    executor = begin(FAR)
    next_of(executor)
    machine.unlink()
    attempt_on_far(executor, code)
    assert next_of(executor) == [Ended("x.a1", "far", code, {}, "the end")]


def test_a_stop_waits_for_no_answer(begin, monkeypatch):
    executor = begin(FAR)
    next_of(executor)
    monkeypatch.setattr(processes, "asking", lambda bench: ("sleep", "1000"))
    attempt_on_far(executor, 4)
    assert executor.wait(0.3) == ()
    executor.stop()
    assert next_of(executor) == [Ended("x.a1", "far", 4, {}, "the end")]

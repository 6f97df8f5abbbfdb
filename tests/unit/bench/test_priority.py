"""Priorities of this process and of its session are as they were, however the blocks are nested."""

import os
import subprocess
import time
from pathlib import Path

import pytest

from pinchpoint.host import priority
from pinchpoint.host.priority import (
    HIGHEST,
    beside,
    busy_beside,
    lower_left_session,
    preferred,
    session_as_new,
    session_nice,
    session_preferred,
)

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may raise a priority")
OF_A_USER = 3  # any nice value but 0


@pytest.fixture
def nice():
    """The session's nice value, when asked for; it begins as a user may have set it."""
    before = session_nice()
    if before is None:
        pytest.skip("this kernel does not weigh sessions (sched_autogroup_enabled)")
    set_nice(OF_A_USER)
    yield session_nice
    set_nice(before)


def set_nice(value):
    Path("/proc/self/autogroup").write_text(str(value))


@pytest.fixture
def alone(monkeypatch):
    """Nothing else of the session is busy, whatever runs beside these tests."""
    monkeypatch.setattr(priority, "busy_beside", lambda *_: False)


@pytest.mark.parametrize(
    ("nice", "policies"), [(HIGHEST, [os.SCHED_RR, os.SCHED_OTHER]), (-10, []), (0, [])], ids=["bench", "switch", "any"]
)
def test_whoever_reads_beside_a_bench_gets_turns_and_beside_a_switch_in_service_none(monkeypatch, nice, policies):
    made = []
    monkeypatch.setattr(os, "getpriority", lambda which, process: nice)
    monkeypatch.setattr(os, "sched_setscheduler", lambda process, policy, param: made.append(policy))
    with beside(4711):
        assert made == policies[:1]
    assert made == policies


def test_whoever_had_real_time_turns_before_has_them_with_their_priority_afterwards(monkeypatch):
    made = []
    monkeypatch.setattr(os, "getpriority", lambda *_: HIGHEST)
    monkeypatch.setattr(os, "sched_getscheduler", lambda _: os.SCHED_FIFO)
    monkeypatch.setattr(os, "sched_getparam", lambda _: os.sched_param(50))
    monkeypatch.setattr(os, "sched_setscheduler", lambda _, policy, param: made.append((policy, param.sched_priority)))
    with beside(4711):
        pass
    assert made == [(os.SCHED_RR, os.sched_get_priority_min(os.SCHED_RR)), (os.SCHED_FIFO, 50)]


def test_whoever_may_not_ask_for_turns_goes_without(monkeypatch):
    def refused(*_):
        raise PermissionError

    monkeypatch.setattr(os, "getpriority", lambda *_: HIGHEST)
    monkeypatch.setattr(os, "sched_setscheduler", refused)
    with beside(4711), beside(None):
        pass


def test_the_session_is_raised_only_while_frames_are_sent(nice, alone):
    with preferred():
        assert os.getpriority(os.PRIO_PROCESS, 0) == HIGHEST
        with preferred():  # a bench beside another one
            assert nice() == OF_A_USER
            with session_preferred():
                assert nice() == HIGHEST
                with session_as_new():  # a daemon starts while frames are sent
                    assert nice() == 0
                assert nice() == HIGHEST
            assert nice() == OF_A_USER
        assert os.getpriority(os.PRIO_PROCESS, 0) == HIGHEST
    assert os.getpriority(os.PRIO_PROCESS, 0) != HIGHEST
    assert nice() == OF_A_USER


def test_a_session_with_a_busy_program_of_the_users_is_left_as_it_is(nice):
    with preferred(), subprocess.Popen(["nice", "-n", "39", "yes"], stdout=subprocess.DEVNULL) as busy:
        try:
            wait_until(lambda: busy_beside(os.getsid(0), HIGHEST))
            with session_preferred():
                assert nice() == OF_A_USER
        finally:
            busy.kill()


STAT = "{pid} (a) b) {state} 1 1 {session} 0 -1 0 0 0 0 0 0 0 0 0 20 {nice} 1 0"


@pytest.mark.parametrize(
    ("state", "session", "nice", "is_busy"),
    [("R", 7, 5, True), ("S", 7, 5, False), ("R", 8, 5, False), ("R", 7, HIGHEST, False)],
)
def test_busy_is_who_is_of_the_session_about_to_run_and_comes_after_the_bench(tmp_path, state, session, nice, is_busy):
    place = process(tmp_path, STAT.format(pid=5, state=state, session=session, nice=nice))
    assert busy_beside(7, HIGHEST, place) is is_busy


@pytest.mark.parametrize("content", ["", None, "1 (a) R", "no stat at all"])
def test_a_process_that_ends_meanwhile_is_not_busy(tmp_path, content):
    assert not busy_beside(7, HIGHEST, process(tmp_path, content))


def process(folder, stat):
    """What stands for /proc with one process; None: it has ended."""
    (folder / "5").mkdir()
    (folder / "self").mkdir()
    if stat is not None:
        (folder / "5" / "stat").write_text(stat)
    return folder


def wait_until(condition):
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_without_the_right_to_raise_nothing_changes(monkeypatch):
    def refuse(*_):
        raise PermissionError

    before = os.getpriority(os.PRIO_PROCESS, 0)
    monkeypatch.setattr(os, "setpriority", refuse)
    with preferred(), session_preferred():
        assert os.getpriority(os.PRIO_PROCESS, 0) == before


def test_a_kernel_without_autogroups_has_no_session_to_raise(tmp_path):
    assert session_nice(tmp_path / "autogroup") is None
    (tmp_path / "autogroup").write_text("")
    assert session_nice(tmp_path / "autogroup") is None


def test_a_session_that_a_killed_run_left_raised_is_an_ordinary_one_again(nice, alone):
    set_nice(HIGHEST)
    with preferred(), session_preferred():
        assert nice() == HIGHEST
    assert nice() == 0, "what was found is not what the user had set"


def test_a_raised_session_with_a_busy_program_is_lowered_at_once(nice, monkeypatch):
    monkeypatch.setattr(priority, "busy_beside", lambda *_: True)
    set_nice(HIGHEST)
    with preferred(), session_preferred():
        assert nice() == 0


def test_only_a_session_that_is_raised_is_lowered(nice):
    assert not lower_left_session()
    assert nice() == OF_A_USER
    set_nice(HIGHEST)
    assert lower_left_session()
    assert nice() == 0

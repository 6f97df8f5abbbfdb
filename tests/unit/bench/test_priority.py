"""Priorities of this process and of its session are as they were, however the blocks are nested."""

import os

import pytest

from pinchpoint.host.local import LOCAL
from pinchpoint.host.priority import HIGHEST, preferred, session_as_new, session_nice, session_preferred

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may raise a priority")
OF_A_USER = 3  # any nice value but 0


@pytest.fixture
def nice():
    """The session's nice value, when asked for; it begins as a user may have set it."""
    before = session_nice(LOCAL, os.getpid())
    if before is None:
        pytest.skip("this kernel does not weigh sessions (sched_autogroup_enabled)")
    set_nice(OF_A_USER)
    yield lambda: session_nice(LOCAL, os.getpid())
    set_nice(before)


def set_nice(value):
    LOCAL.write("/proc/self/autogroup", str(value))


def test_the_session_is_raised_only_while_frames_are_sent(nice):
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


def test_without_the_right_to_raise_nothing_changes(monkeypatch):
    def refuse(*_):
        raise PermissionError

    before = os.getpriority(os.PRIO_PROCESS, 0)
    monkeypatch.setattr(os, "setpriority", refuse)
    with preferred(), session_preferred():
        assert os.getpriority(os.PRIO_PROCESS, 0) == before


@pytest.mark.parametrize("content", ["", None])
def test_a_kernel_without_autogroups_has_no_session_to_raise(content):
    assert session_nice(Answering(content), 1) is None


class Answering:
    def __init__(self, content):
        self.content = content

    def read(self, path):
        if self.content is None:
            raise FileNotFoundError(path)
        return self.content

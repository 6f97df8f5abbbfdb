"""Priorities of this process and of its session are as they were, however the blocks are nested."""

import os
from pathlib import Path

import pytest

from pinchpoint.host.priority import HIGHEST, preferred, session_as_new, session_preferred

AUTOGROUP = Path("/proc/self/autogroup")

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not AUTOGROUP.exists(), reason="needs root and a kernel with autogroups"
)


def session_nice():
    return int(AUTOGROUP.read_text().split()[-1])


def test_the_session_is_raised_only_while_frames_are_sent():
    assert session_nice() == 0
    with preferred():
        assert os.getpriority(os.PRIO_PROCESS, 0) == HIGHEST
        with preferred():  # a bench beside another one
            assert session_nice() == 0
            with session_preferred():
                assert session_nice() == HIGHEST
                with session_as_new():  # a daemon starts while frames are sent
                    assert session_nice() == 0
                assert session_nice() == HIGHEST
            assert session_nice() == 0
        assert session_nice() == 0
        assert os.getpriority(os.PRIO_PROCESS, 0) == HIGHEST
    assert os.getpriority(os.PRIO_PROCESS, 0) != HIGHEST
    assert session_nice() == 0


def test_without_the_right_to_raise_nothing_changes(monkeypatch):
    def refuse(*_):
        raise PermissionError

    monkeypatch.setattr(os, "setpriority", refuse)
    with preferred(), session_preferred():
        assert session_nice() == os.getpriority(os.PRIO_PROCESS, 0)

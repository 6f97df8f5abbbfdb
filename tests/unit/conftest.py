"""Unit tests touch no program that only some machines have, and wait for no disk."""

import os
import shutil
import sys
from pathlib import Path

import pytest

# What every Debian has, to stand for programs that a test starts and stops; and what reads the man pages.
ESSENTIAL = """
    awk bash cat chmod cp cut dirname dpkg-deb du echo env find flock grep head id kill ln ls mkdir mkfifo mktemp mv
    nice readlink realpath rm rmdir sed setsid sh sleep sort stat tail tar taskset tee timeout touch tr true uname wc
    xargs yes groff grotty preconv soelim tbl troff
"""


@pytest.fixture(scope="session", autouse=True)
def without_programs(tmp_path_factory):
    """The search path holds what every Debian has and the environment's own programs; writing waits for no disk."""
    programs = tmp_path_factory.mktemp("programs")
    for name in ESSENTIAL.split():
        if path := shutil.which(name):
            (programs / name).symlink_to(path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{Path(sys.executable).parent}:{programs}")
        patch.setattr(os, "fsync", lambda _: None)
        yield

"""User-mode Linux where the kernel sets extended state only as a whole, as with AMX: planted by `amx_kernel.c`."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pinchpoint.host import uml

pytestmark = [pytest.mark.tier1("user-mode Linux on a processor with AMX"), pytest.mark.needs("uml")]
TOOLS = Path(__file__).parents[1]
REFUSED = 14  # EFAULT


@pytest.fixture(scope="module")
def amx(tmp_path_factory):
    """A library that makes ptrace(2) as on such a processor."""
    library = tmp_path_factory.mktemp("amx") / "amx-kernel.so"
    words = ("cc", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", library, TOOLS / "amx_kernel.c")
    subprocess.run(words, check=True)
    return library


@pytest.fixture
def with_shim(amx):
    """The same, and before it what `make setup` has built."""
    (_, preload) = uml.preloaded()
    return f"{preload.removeprefix('LD_PRELOAD=')} {amx}"


def traced(preload):
    """What a process finds that sets 2,696 bytes of another one's state."""
    environment = {**os.environ, "LD_PRELOAD": str(preload)}
    words = (sys.executable, "-S", TOOLS / "tracer.py")
    return json.loads(subprocess.run(words, env=environment, check=True, stdout=subprocess.PIPE).stdout)


def test_the_rest_of_the_state_stays_where_the_beginning_is_set(amx, with_shim):
    assert traced(amx)["error"] == REFUSED
    found = traced(with_shim)
    assert (found["error"], found["length"]) == (0, 11008)
    assert found["register"] == 0x42, "that of the shorter state"
    assert found["rest"] == [0xA5], "all of it as it was"


def test_what_the_kernel_takes_and_other_requests_pass_through():
    (_, preload) = uml.preloaded()
    plain, found = traced(""), traced(preload.removeprefix("LD_PRELOAD="))
    assert found == plain
    assert (found["error"], found["register"]) == (0, 0x42)
    assert (found["peeked"], found["errno"]) == (0x5AFE_C0DE, 0)


def booted(preload, init):
    """What user-mode Linux prints, whose first program is a script."""
    init.write_text("echo the first program runs >/dev/tty0\npoweroff -f\n")
    words = (uml.PROGRAM, "mem=64M", "rootfstype=hostfs", "rootflags=/", "ro", "quiet", "panic=-1", "console=tty0")
    words += ("con=null", "con0=null,fd:1", "ssl=null", "init=/bin/sh", "--", init)
    environment = {**os.environ, "LD_PRELOAD": str(preload)}
    session = {"stdin": subprocess.DEVNULL, "start_new_session": True}  # a panic ends its process group
    done = subprocess.run(words, env=environment, stdout=subprocess.PIPE, text=True, timeout=60, **session)
    return done.stdout


def test_user_mode_linux_panics_without_it_and_boots_with_it(amx, with_shim, tmp_path):
    panicked = booted(amx, tmp_path / "init")
    assert "ptrace set fp regs failed, errno = 14" in panicked
    assert "Kernel panic - not syncing: Attempted to kill init!" in panicked
    assert "the first program runs" in booted(with_shim, tmp_path / "init")

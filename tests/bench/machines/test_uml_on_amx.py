"""User-mode Linux where the kernel sets extended state only as a whole, as with AMX: planted by `amx_kernel.c`."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from bench_tools import run

from pinchpoint.host.guest_kernels import KERNELS, booted
from pinchpoint.host.local import Local

pytestmark = [pytest.mark.tier2("user-mode Linux on a processor with AMX"), pytest.mark.needs("uml")]
uml, qemu = KERNELS["uml"], KERNELS["qemu"]
TOOLS = Path(__file__).parents[1]
IN_USER_MODE_LINUX = TOOLS.parents[1] / "packaging/in-user-mode-linux"
REFUSED = 14  # EFAULT
SAID = "ptrace set fp regs failed, errno = 14"
PANIC = "Kernel panic - not syncing: Attempted to kill init!"
SCENARIO = """
[guest]
kernel = "{kernel}"
memory_mb = 128
[dut]
kind = "bridge"
cpus = [1]
[[port]]
name = "left"
[[port]]
name = "right"
[[stream]]
from = "left"
to = "right"
"""


@pytest.fixture(scope="module")
def amx(tmp_path_factory):
    """A library that makes ptrace(2) as on such a processor."""
    library = tmp_path_factory.mktemp("amx") / "amx-kernel.so"
    words = ("cc", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", library, TOOLS / "amx_kernel.c")
    subprocess.run(words, check=True)
    return library


@pytest.fixture
def on_such_a_processor(amx, tmp_path, monkeypatch):
    """Every user-mode Linux is started there. Returns how: with or without what else it is preloaded with."""
    real = subprocess.run(["which", uml.PROGRAM], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()

    def start(with_shim):
        program = tmp_path / uml.PROGRAM
        before = "${LD_PRELOAD:-} " if with_shim else ""
        program.write_text(f'#!/bin/sh\nLD_PRELOAD="{before}{amx}" exec {real} "$@"\n')
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    return start


def preload():
    """What `make setup` has built."""
    (_, word) = uml.preloaded()
    return word.removeprefix("LD_PRELOAD=")


def traced(preload):
    """What a process finds that sets 2,696 bytes of another one's state."""
    environment = {**os.environ, "LD_PRELOAD": str(preload)}
    words = (sys.executable, "-S", TOOLS / "tracer.py")
    return json.loads(subprocess.run(words, env=environment, check=True, stdout=subprocess.PIPE).stdout)


@pytest.mark.tier1("user-mode Linux on a processor with AMX")
def test_the_rest_of_the_state_stays_where_the_beginning_is_set(amx):
    assert traced(amx)["error"] == REFUSED
    trace = traced(f"{preload()} {amx}")
    assert (trace["error"], trace["length"]) == (0, 11008)
    assert trace["register"] == 0x42, "that of the shorter state"
    assert trace["rest"] == [0xA5], "all of it as it was"


def test_what_the_kernel_takes_and_other_requests_pass_through():
    plain, preloaded = traced(""), traced(preload())
    assert preloaded == plain
    assert (preloaded["error"], preloaded["register"]) == (0, 0x42)
    assert (preloaded["peeked"], preloaded["errno"]) == (0x5AFE_C0DE, 0)


@pytest.mark.tier1("user-mode Linux on a processor with AMX")
def test_user_mode_linux_panics_without_it_and_boots_with_it(on_such_a_processor):
    on_such_a_processor(with_shim=False)
    why = booted(Local(), "uml", 120.0).why_not
    assert why.splitlines()[0] == f"the guest's kernel does not boot here: {PANIC} exitcode=0x0000000b"
    assert SAID in why
    on_such_a_processor(with_shim=True)
    assert booted(Local(), "uml", 120.0).why_not == ""


@pytest.mark.parametrize(("with_shim", "program"), [(True, uml.PROGRAM), (False, qemu.PROGRAM)])
def test_where_the_file_leaves_the_kernel_open_one_is_taken_that_boots(
    on_such_a_processor, with_shim, program, tmp_path
):
    on_such_a_processor(with_shim)
    path = tmp_path / "guest.toml"
    path.write_text(SCENARIO.format(kernel="auto"))
    done = run("run", path, "--dry-run")
    assert done.returncode == 0, done.stderr
    assert f" {program} " in done.stdout


@pytest.mark.usefixtures("nothing_left")
def test_a_file_that_names_user_mode_linux_ends_with_what_the_machine_lacks(on_such_a_processor, tmp_path):
    on_such_a_processor(with_shim=False)
    path = tmp_path / "uml.toml"
    path.write_text(SCENARIO.format(kernel="uml"))
    done = run("run", path, "--out", tmp_path / "runs")
    assert done.returncode == 3
    assert PANIC in done.stderr and SAID in done.stderr


@pytest.mark.subject(target="test-guests")
def test_a_command_that_does_not_get_its_kernel_is_told_the_panic(on_such_a_processor):
    on_such_a_processor(with_shim=False)
    done = subprocess.run([IN_USER_MODE_LINUX, "true"], stderr=subprocess.PIPE, text=True, timeout=120)
    told, *printed = done.stderr.splitlines()
    assert (done.returncode, told) == (125, f"user-mode Linux: {PANIC} exitcode=0x0000000b")
    assert any(SAID in line for line in printed)

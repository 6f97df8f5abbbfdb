"""The script that runs a command in a user-mode Linux, as far as it goes without one."""

import os
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "packaging" / "in-user-mode-linux"


def run(*arguments, path=None):
    environment = {**os.environ, "PATH": f"{path}:{os.environ['PATH']}"} if path else None
    return subprocess.run(
        [SCRIPT, *arguments], env=environment, capture_output=True, text=True, check=False, timeout=30
    )


@pytest.mark.parametrize("arguments", [(), ("--memory", "1G"), ("--nonsense", "true")])
def test_without_a_command_it_tells_its_usage(arguments):
    done = run(*arguments)
    assert done.returncode == 2
    assert done.stderr.startswith("usage: ")


def test_a_kernel_that_panics_is_quoted(tmp_path):
    kernel = tmp_path / "linux.uml"
    says = "out of reach\nKernel panic - not syncing: Attempted to kill init!\nStack:\n 606944ba"
    kernel.write_text(f"#!/bin/sh\ncat >&2 <<'EOF'\n{says}\nEOF\nkill -ABRT $$\n")
    kernel.chmod(0o755)
    done = run("true", path=tmp_path)
    told, before, panic = done.stderr.splitlines()
    assert (done.returncode, told) == (125, "user-mode Linux: Kernel panic - not syncing: Attempted to kill init!")
    assert (before, panic) == ("out of reach", "Kernel panic - not syncing: Attempted to kill init!")


def test_a_signal_before_the_kernel_starts_ends_it_without_a_complaint(tmp_path):
    for name, body in (("linux.uml", "exit 1"), ("chmod", "kill -TERM $PPID")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / name).chmod(0o755)
    done = run("true", path=tmp_path)
    assert (done.returncode, done.stderr) == (130, "")

"""A kernel that is booted once to see whether it boots; a shell stands for it."""

import os
import time
from types import SimpleNamespace

import pytest

from pinchpoint.host import guest, guest_kernels
from pinchpoint.host.guest_kernels import KERNELS
from pinchpoint.host.local import Local
from pinchpoint.host.processes import alive, session

SOON_S = 10.0


@pytest.fixture
def boot(monkeypatch, tmp_path):
    """Boots a kernel that is a script, to which the file of the first program is "$1"."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)  # in no namespace

    def command(script):
        def of(plan):
            return (*guest.OWN_NAMESPACE, "bash", "-c", f"echo $$ >{tmp_path}/pid; {script}", guest.LINE, plan.init)

        return of

    def boot(script, timeout_s=SOON_S):
        kernel = SimpleNamespace(LINE="/dev/null", LEAST_MB=64, command=command(script))
        monkeypatch.setattr(guest_kernels, "KERNELS", {**KERNELS, "mine": kernel})
        try:
            return guest_kernels.booted(Local(), "mine", timeout_s)
        finally:
            assert not alive(Local(), session(Local(), int((tmp_path / "pid").read_text()))), "nothing of it is left"

    return boot


def test_one_whose_first_program_speaks_boots_and_is_ended(boot):
    booted = boot('exec 3<>"$1" 4>&"$0"; sleep 600 & echo ready >&4; sleep 600')
    assert (booted.why_not, booted.is_late) == ("", False)


@pytest.mark.parametrize("after", ["exit 1", "sleep 600 & sleep 600"])
def test_one_that_panics_is_told_by_its_panic_whether_it_ends_or_not(boot, after):
    booted = boot(f"echo Kernel panic - not syncing: no; {after}")
    assert booted.why_not.splitlines()[0] == "the guest's kernel does not boot here: Kernel panic - not syncing: no"
    assert not booted.is_late


def test_one_that_ends_without_a_word_is_told_so(boot):
    assert boot("exit 1").why_not == "the guest ended while it booted; it printed nothing"


def test_one_that_takes_too_long_is_late_and_not_called_broken(boot):
    begin = time.monotonic()
    booted = boot("sleep 600", timeout_s=0.3)
    assert booted.is_late
    assert time.monotonic() - begin >= 0.3

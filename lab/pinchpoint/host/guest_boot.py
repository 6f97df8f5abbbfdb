"""Whether a guest's kernel boots on this machine: it is booted once, until its first program speaks over the line."""

import os
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from pinchpoint.host.guest import OWN_NAMESPACE, Guest
from pinchpoint.host.guest_kernels import KERNELS
from pinchpoint.host.guest_line import READY
from pinchpoint.host.interface import Host
from pinchpoint.host.processes import end_processes, session
from pinchpoint.model.errors import BenchError, PinchpointError

_MTU = 1500


@dataclass(frozen=True)
class Boot:
    """How long a guest's kernel took to boot, in seconds, or why it did not."""

    took_s: float
    why_not: str = ""  # what ended it; empty: it boots
    is_late: bool = False  # nothing ended it but the time: the machine may be busy


def booted(machine: Host, word: str, timeout_s: float) -> Boot:
    """The kernel of that word, booted on `machine` with its least memory and no interface; it is gone on return.

    On an idle machine user-mode Linux takes a second or two, an emulated kernel five to ten.
    """
    kernel, guest = KERNELS[word], Guest(machine)
    with tempfile.TemporaryDirectory(prefix="pinchpoint-boot-") as folder:
        init = f"{folder}/init"
        # The line stays open: what a terminal has not sent is lost when it is closed.
        machine.write(init, f"exec 3<>{kernel.LINE}\necho {READY.decode()} >&3\nsleep {timeout_s:g}\n")
        argv = kernel.command(machine, folder, init, kernel.LEAST_MB, _MTU, ())
        if os.geteuid() != 0:
            argv = argv[len(OWN_NAMESPACE) :]  # its own group of processes does as well
        began = time.monotonic()
        try:
            pid = guest.start(argv, (), f"{folder}/log")
            try:
                guest.await_ready(partial(machine.ended, pid), timeout_s)
            finally:
                with suppress(BenchError):  # they end later on a busy machine, which says nothing of the boot
                    end_processes(machine, session(machine, pid), grace_s=0.0)
                machine.ended(pid)
        except PinchpointError as error:
            return Boot(time.monotonic() - began, error.message, isinstance(error, BenchError))
        finally:
            guest.close()
    return Boot(time.monotonic() - began)

"""Runs a module of the lab's that confines itself (`confinement`), with a limit of time, and reads what it printed."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import pinchpoint
from pinchpoint.host.confinement import CPU_S, CPU_SPENT, KILLED, NO_NAMESPACES, OUTPUT_BYTES
from pinchpoint.model.errors import InputError, RequirementError

LONGEST_S: Final = 30.0
_MOST_WORDS: Final = 2000


def run_confined(module: str, arguments: Sequence[str], subject: str, longest_s: float = LONGEST_S) -> bytes:
    """What `main` of a module printed that calls `confinement.enter`; `subject` is the file that it reads, in errors.

    The module is imported from the lab's package, with Python's standard library and nothing else.

    Raises InputError where it does not end as it should, RequirementError where the kernel offers no namespaces.
    """
    root = str(Path(pinchpoint.__file__).parents[1])
    program = f"import sys; sys.path.insert(0, {root!r}); from {module} import main; main()"
    with tempfile.TemporaryDirectory(prefix="pinchpoint-confined-") as folder:
        output, errors = Path(folder, "output"), Path(folder, "errors")
        argv = (sys.executable, "-I", "-S", "-B", "-c", program, *arguments)
        with output.open("wb") as told, errors.open("wb") as wrong:
            process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=told, stderr=wrong, start_new_session=True
            )
        code = _await(process, longest_s)
        said = errors.read_bytes()[-_MOST_WORDS:].decode(errors="replace").strip()
        if code is None:
            raise InputError(f"{subject}: stopped: it did not end within {longest_s:g} s")
        if code == CPU_SPENT:
            raise InputError(f"{subject}: stopped: it used {CPU_S} s of CPU time and had not ended")
        if code == NO_NAMESPACES:
            raise RequirementError(
                f"{subject}: it is run without privileges only, which the kernel does not offer: {said}",
                "run as root, or sysctl kernel.unprivileged_userns_clone=1; Linux 5.12 or newer",
            )
        if code == KILLED:
            raise InputError(f"{subject}: stopped: the kernel ended it by a signal")
        printed = output.read_bytes()
        if code != 0:
            raise InputError(f"{subject}: stopped: {said.splitlines()[-1] if said else f'exit code {code}'}")
        if len(printed) >= OUTPUT_BYTES:
            raise InputError(f"{subject}: stopped: it says more than {OUTPUT_BYTES >> 20} MiB")
        return printed


def _await(process: "subprocess.Popen[bytes]", longest_s: float) -> int | None:
    """Its exit code; None: it took too long. Either way, nothing that it started is left."""
    try:
        return process.wait(longest_s)
    except subprocess.TimeoutExpired:
        return None
    finally:
        if process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

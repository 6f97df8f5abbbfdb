"""One run of the program `pinchpoint`, as a user starts it, and what it stored."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from pinchpoint.model.errors import PinchpointError
from pinchpoint.model.result import RunResult
from pinchpoint.store.folder import RunFolder

LONGEST_S = 900.0
_UNDOING_S = 60.0


def stored(verb: str, scenario: Path, passes: Sequence[int]) -> tuple[RunFolder, RunResult]:
    """What `pinchpoint run` or `explain` says of a scenario, without the generator's ceiling.

    Exit codes other than those in `passes`, a traceback and a missing result raise PinchpointError. Whatever ends
    the benchmark ends the program first, which then removes its bench.
    """
    program, out = Path(sys.executable).with_name("pinchpoint"), scenario.with_suffix("")
    command = [str(word) for word in (program, verb, scenario, "--out", out, "--no-ceiling")]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        try:
            _, errors = process.communicate(timeout=LONGEST_S)
        finally:
            if process.poll() is None:
                process.terminate()
                process.communicate(timeout=_UNDOING_S)
    if process.returncode not in passes or "Traceback" in errors:
        raise PinchpointError(f"pinchpoint {verb} {scenario.name} ended with {process.returncode}:\n{errors[-2000:]}")
    (run,) = out.iterdir()
    folder = RunFolder.open(run)
    result = folder.read_result()
    if result is None:
        raise PinchpointError(f"pinchpoint {verb} {scenario.name} stored no result:\n{errors[-2000:]}")
    return folder, result

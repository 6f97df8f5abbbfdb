"""`make bench`: the engine against its peers, building against plain commands, and the lab's own time per trial."""

import statistics
import sys
import tempfile
from pathlib import Path

import build_rows
import engine_rows
import lab_overhead

from pinchpoint.model.errors import PinchpointError

AIM_MS = 200


def overhead() -> str:
    """The lab's own time per trial, in a run of its own, which takes the machine's lock itself."""
    print("the lab's overhead per trial", file=sys.stderr)
    with tempfile.TemporaryDirectory() as name:
        each_ms = [each_s * 1e3 for each_s in lab_overhead.overheads_s(Path(name) / "runs")]
    told = f"{statistics.median(each_ms):.0f} ({min(each_ms):.0f}-{max(each_ms):.0f}) ms"
    return f"the lab per trial, beyond traffic and drain: {told}; aim: under {AIM_MS} ms"


def main() -> int:
    """Print the table, and a line for the lab."""
    arguments = build_rows.chosen(build_rows.options(__doc__, engine_rows.ROUNDS))
    lab = overhead()
    outcomes = engine_rows.measure(arguments.rounds, arguments.only, engine_rows.sample_s(arguments.smoke))
    outcomes += build_rows.measure(min(arguments.rounds, build_rows.ROUNDS), arguments.only, arguments.scale)
    engine_rows.tell(outcomes, arguments.rounds, arguments.json)
    # With --json, stdout is for a program.
    print(lab, file=sys.stderr if arguments.json else sys.stdout)
    return engine_rows.exit_code(outcomes, arguments.smoke)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PinchpointError as error:
        sys.exit(str(error))

#!/usr/bin/env python3
"""`tests/parts.py STEP...`: make targets, step by step, and print at the end how long each took.

A step is one target, or several rows of targets that are made at the same time: `test-unit,lint+test-rust` makes lint
and then test-rust beside test-unit. The first row is seen as it prints, the others once all have ended.
Ends with the first step that fails, as make does; with `make -k` the others are made nevertheless.
"""

import os
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path

ROOT = Path(__file__).parents[1]


def clock(seconds):
    """Minutes and seconds."""
    return f"{int(seconds) // 60:3d}:{int(seconds) % 60:02d}"


class Parts:
    """The targets that have been made: seconds, and exit codes of those that failed."""

    def __init__(self, environment, goes_on):
        self.spent, self.failed = {}, {}
        self._environment, self._goes_on = environment, goes_on

    def step(self, rows):
        """Make the rows at the same time."""
        with ExitStack() as files:
            outputs = [None, *(files.enter_context(tempfile.TemporaryFile()) for _ in rows[1:])]
            threads = [threading.Thread(target=self._row, args=each) for each in zip(rows, outputs, strict=True)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            for output in outputs[1:]:
                output.seek(0)
                sys.stdout.buffer.write(output.read())
                sys.stdout.flush()

    def _row(self, targets, output):
        for target in targets:
            began = time.monotonic()
            command = ["make", "--no-print-directory", target]
            to_output = {} if output is None else {"stdout": output, "stderr": subprocess.STDOUT}
            code = subprocess.run(command, cwd=ROOT, env=self._environment, **to_output).returncode
            self.spent[target] = time.monotonic() - began
            if code:
                self.failed[target] = code
                if not self._goes_on:
                    return


def main(steps):
    """Make them; returns the exit code of one that failed, or 0."""
    goes_on, began = "k" in os.environ.get("MAKEFLAGS", "").partition(" ")[0], time.monotonic()
    with tempfile.NamedTemporaryFile("r") as skipped:
        parts = Parts({**os.environ, "PINCHPOINT_SKIPPED": skipped.name}, goes_on)
        try:
            for step in steps:
                parts.step([row.split("+") for row in step.split(",")])
                if parts.failed and not goes_on:
                    break
        finally:
            for target, seconds in parts.spent.items():
                print(f"{clock(seconds)}  {target}" + " (failed)" * (target in parts.failed))
            print(f"{clock(time.monotonic() - began)}  in all")
            print(skipped.read() or "nothing was skipped")
    return next(iter(parts.failed.values()), 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

#!/usr/bin/env python3
"""`tests/parts.py PART...`: make each of these targets in turn, and print at the end how long each took.

Ends with the first that fails, as make does; with `make -k` the others are made nevertheless.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]


def clock(seconds):
    """Minutes and seconds."""
    return f"{int(seconds) // 60:3d}:{int(seconds) % 60:02d}"


def main(parts):
    """Make them; returns the exit code of the first that failed, or 0."""
    goes_on = "k" in os.environ.get("MAKEFLAGS", "").partition(" ")[0]
    spent, failed = {}, {}
    with tempfile.NamedTemporaryFile("r") as skipped:
        try:
            for part in parts:
                began = time.monotonic()
                environment = {**os.environ, "PINCHPOINT_SKIPPED": skipped.name}
                code = subprocess.run(["make", "--no-print-directory", part], cwd=ROOT, env=environment).returncode
                spent[part] = time.monotonic() - began
                if code:
                    failed[part] = code
                    if not goes_on:
                        break
        finally:
            print(*(f"{clock(spent[part])}  {part}" + " (failed)" * (part in failed) for part in spent), sep="\n")
            print(f"{clock(sum(spent.values()))}  in all")
            print(skipped.read() or "nothing was skipped", end="\n" * 1)
    return next(iter(failed.values()), 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

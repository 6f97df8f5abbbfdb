"""Printing for people: tables that line up, plain when piped, NO_COLOR honoured (rich does both)."""

import sys
from pathlib import Path

from rich.console import Console

from pinchpoint.model.result import RunResult
from pinchpoint.report import render_table

PIPED_WIDTH = 200


def print_result(result: RunResult, folder: Path) -> None:
    """The table of a run, and where its report is."""
    # A pipe has no width: wide enough that nothing is wrapped or cut.
    console = Console(highlight=False, width=None if sys.stdout.isatty() else PIPED_WIDTH)
    console.print(render_table(result))
    report = folder / "report.html"
    if report.exists():
        console.print(f"Report: {report}")

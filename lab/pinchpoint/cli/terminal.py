"""Printing for people: tables that line up, plain when piped, NO_COLOR honoured (rich does both)."""

from pathlib import Path

from rich.console import Console

from pinchpoint.model.result import RunResult
from pinchpoint.report import render_table


def print_result(result: RunResult, folder: Path) -> None:
    """The table of a run, and where its report is."""
    console = Console(highlight=False, soft_wrap=not Console().is_terminal)
    console.print(render_table(result))
    report = folder / "report.html"
    if report.exists():
        console.print(f"Report: {report}")

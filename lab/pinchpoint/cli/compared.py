"""Showing a comparison, and its exit code."""

import sys
from pathlib import Path

import click
from rich.console import Console

from pinchpoint.cli.terminal import PIPED_WIDTH
from pinchpoint.model.comparison import Comparison
from pinchpoint.report import render_comparison_table
from pinchpoint.run.compared import comparison_of, worse
from pinchpoint.store.folder import COMPARISON, RunFolder

WORSE = 8
"""The exit code of a comparison that --fail-if-worse does not let pass."""


def show_comparison(found: Comparison, as_json: bool, folder: Path | None = None) -> None:
    """Print it; `folder` is where its page stands."""
    if as_json:
        click.echo(COMPARISON.encode(found, "comparison"))
        return
    console = Console(highlight=False, width=None if sys.stdout.isatty() else PIPED_WIDTH)
    console.print(render_comparison_table(found))
    if folder is not None and (page := folder / "comparison.html").exists():
        console.print(f"Report: {page}")


def gate(found: Comparison, limit: float | None) -> int:
    """0, or WORSE where a judged metric is worse than `limit` allows or could not be judged; reported on stderr."""
    against = [] if limit is None else list(worse(found, limit))
    for line in against:
        click.echo(f"pinchpoint: {line}", err=True)
    return WORSE if against else 0


def gate_of(folder: RunFolder) -> int:
    """The same of a run, which holds the limit it was asked for; 0 for a run without a comparison."""
    found, request = comparison_of(folder), folder.read_info().comparison
    return gate(found, request.fail_if_worse) if found is not None and request is not None else 0

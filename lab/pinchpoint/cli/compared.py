"""Showing a comparison, and its exit code."""

import sys
from pathlib import Path

import click
from rich.console import Console

from pinchpoint.cli.terminal import PIPED_WIDTH
from pinchpoint.findings.judging import is_answer, judged, percent, why_undecided
from pinchpoint.model.comparison import Comparison, Judged, State
from pinchpoint.model.errors import UNDECIDED, WORSE
from pinchpoint.report import render_comparison_table
from pinchpoint.run.stored import StoredRun
from pinchpoint.store.folder import COMPARISON


def show_comparison(comparison: Comparison, as_json: bool, folder: Path | None = None) -> None:
    """Print it; `folder` is where its page stands."""
    if as_json:
        click.echo(COMPARISON.encode(comparison, "comparison"))
        return
    console = Console(highlight=False, width=None if sys.stdout.isatty() else PIPED_WIDTH)
    console.print(render_comparison_table(comparison))
    if folder is not None and (page := folder / "comparison.html").exists():
        console.print(f"Report: {page}")


def gate(comparison: Comparison, limit: float | None) -> int:
    """The exit code, with its reason on stderr: 0, or UNDECIDED without a ratio.

    With a `limit` (a share): WORSE if a judged metric is worse by more, UNDECIDED if one cannot be judged against it.
    """
    by_metric = judged(comparison, limit or 0.0)
    against = [judgement for judgement in by_metric if limit is not None and judgement.state is State.REGRESSION]
    open_ones = [judgement.metric for judgement in by_metric if _is_open(judgement, limit)]
    lines = [
        f"{judgement.metric.metric}: B is worse by more than {percent(limit or 0.0)}: {judgement.metric.sentence}"
        for judgement in against
    ]
    lines += [f"could not be decided: {why_undecided(metric)}" for metric in open_ones]
    lines += [] if by_metric else ["could not be decided: no metric could be judged"]
    for line in lines:
        click.echo(f"pinchpoint: {line}", err=True)
    return WORSE if against else UNDECIDED if lines else 0


def _is_open(judgement: Judged, limit: float | None) -> bool:
    return not is_answer(judgement.metric) or (limit is not None and judgement.state is State.UNDECIDED)


def gate_of(stored: StoredRun) -> int:
    """The same of a run, which holds the limit it was asked for; 0 for a run without a comparison."""
    comparison, request = stored.comparison, stored.info.comparison
    return gate(comparison, request.fail_if_worse) if comparison is not None and request is not None else 0

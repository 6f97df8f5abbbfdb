"""Printing for people: tables that line up, plain when piped, NO_COLOR honoured (rich does both); files they name."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from rich.console import Console, RenderableType
from rich.live import Live

from pinchpoint.findings.comparing import is_answer, judged, percent, why_undecided
from pinchpoint.model.comparison import Comparison, Judged, State
from pinchpoint.model.errors import UNDECIDED, WORSE, StoreError
from pinchpoint.model.result import RunResult
from pinchpoint.report import render_comparison_table, render_table
from pinchpoint.run.stored import StoredRun
from pinchpoint.store.folder import COMPARISON

_PIPED_WIDTH = 200


def console() -> Console:
    """Standard output. A pipe has no width: it is taken to be so wide that nothing is wrapped or cut."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else _PIPED_WIDTH)


def tell(message: str, hint: str = "") -> None:
    """On standard error, beside the results."""
    click.echo(f"pinchpoint: {message}\n  hint: {hint}" if hint else f"pinchpoint: {message}", err=True)


@contextmanager
def redrawn(on: Console) -> Iterator[Callable[[RenderableType], None]]:
    """What draws in place of what it drew before, on a terminal; gone at the end.

    Redrawn when it is called only: a clock that moved during a trial would take time from a measuring core.
    """
    with Live(console=on, auto_refresh=False, transient=True) as live:
        yield lambda shown: live.update(shown, refresh=True)


def print_result(result: RunResult, folder: Path) -> None:
    """The table of a run, and where its report is."""
    _print_table(render_table(result), folder / "report.html")


def show_comparison(comparison: Comparison, as_json: bool, folder: Path | None = None) -> None:
    """Print it; `folder` is where its page stands."""
    if as_json:
        click.echo(COMPARISON.encode(comparison, "comparison"))
    else:
        _print_table(render_comparison_table(comparison), None if folder is None else folder / "comparison.html")


def _print_table(table: RenderableType, page: Path | None) -> None:
    out = console()
    out.print(table)
    if page is not None and page.exists():
        out.print(f"Report: {page}")


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
        tell(line)
    return WORSE if against else UNDECIDED if lines else 0


def _is_open(judgement: Judged, limit: float | None) -> bool:
    return not is_answer(judgement.metric) or (limit is not None and judgement.state is State.UNDECIDED)


def gate_of(stored: StoredRun) -> int:
    """The same of a run, which holds the limit it was asked for; 0 for a run without a comparison."""
    comparison, request = stored.comparison, stored.info.comparison
    return gate(comparison, request.fail_if_worse) if comparison is not None and request is not None else 0


def write_text(path: Path, text: str, option: str, mode: str = "w") -> None:
    """Write a file that `option` names. Raises StoreError."""
    try:
        with path.open(mode, encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror}", f"choose another file for {option}") from error

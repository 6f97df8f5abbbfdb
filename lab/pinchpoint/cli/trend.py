"""`pinchpoint trend`: where the level of a metric changed over stored runs."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import msgspec
from rich.console import Console

from pinchpoint.cli.parameters import MetricName
from pinchpoint.cli.terminal import PIPED_WIDTH
from pinchpoint.model.errors import UNDECIDED, WORSE, InputError, StoreError
from pinchpoint.model.result import RunInfo, RunResult
from pinchpoint.report.trend import render_junit, render_trends
from pinchpoint.store.folder import RunFolder


@click.command(short_help="Where a number changed over stored runs.")
@click.argument(
    "paths", nargs=-1, required=True, type=click.Path(exists=True, file_okay=False, path_type=Path), metavar="RUNS..."
)
@click.option("--scenario", "scenarios", multiple=True, metavar="NAME", help="This scenario only; may be given again.")
@click.option(
    "--metric",
    "metrics",
    type=MetricName(),
    multiple=True,
    metavar="NAME",
    help="This metric, e.g. NDR; may be given again. Else every rate, or the first metric.",
)
@click.option(
    "--junit",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write JUnit's XML: a test case for each metric, failed where it got worse.",
)
@click.option("--json", "as_json", is_flag=True, help="For machines.")  # fmt: skip
def trend(
    paths: tuple[Path, ...], scenarios: tuple[str, ...], metrics: tuple[str, ...], junit: Path | None, as_json: bool
) -> int:
    """Find change points over RUNS: run folders, or folders of them, in the order of their start.

    Only runs of the newest one's scenario and definition are compared; the others are named. Exit code 8
    if the latest level of a metric is worse than the one before it, 9 if no series has enough runs. At most 2 of 100
    series without a change raise an alarm; at least 10 runs are needed.
    """
    from pinchpoint.findings.trend import trends  # numpy is not to be imported by `pinchpoint --help`

    measured = trends(list(_read(paths)), scenarios, metrics)
    if junit is not None:
        _write(junit, render_junit(measured))
    if as_json:
        click.echo(msgspec.json.encode(measured))
    else:
        live = sys.stdout.isatty()
        console = Console(highlight=False, width=None if live else PIPED_WIDTH)
        console.print(render_trends(measured, bars=live))
    if any(trend.worse for trend in measured):
        return WORSE
    return UNDECIDED if all(trend.too_few for trend in measured) else 0


def _read(paths: Sequence[Path]) -> Iterator[tuple[RunInfo, RunResult]]:
    """Every run below `paths` once; one of which nothing has finished is passed over."""
    folders = dict.fromkeys(folder.resolve() for path in paths for folder in _folders(path))
    for path in folders:
        folder = RunFolder.open(path)
        result = folder.read_result()
        if result is not None:
            yield folder.read_info(), result


def _folders(path: Path) -> list[Path]:
    if (path / "run.json").is_file():
        return [path]
    folders = sorted(inner.parent for inner in path.glob("*/run.json"))
    if not folders:
        hint = "give run folders, or the folder that they are in: pinchpoint trend runs"
        raise InputError(f"{path}: neither a run folder nor a folder of run folders (no run.json)", hint)
    return folders


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror}", "choose another file for --junit") from error

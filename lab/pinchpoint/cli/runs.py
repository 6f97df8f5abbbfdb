"""`pinchpoint runs`: the stored runs, by the names under which other commands take them."""

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec
from rich import box
from rich.console import Console
from rich.table import Table

from pinchpoint.cli.parameters import LAST, RUNS, stored_runs
from pinchpoint.cli.terminal import PIPED_WIDTH

if TYPE_CHECKING:
    from pinchpoint.serve.index import Row


@click.command(short_help="List stored runs, the newest first.")
@click.argument(
    "folder",
    default=str(RUNS),
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="[FOLDER]",
)
@click.option("--json", "as_json", is_flag=True, help="For machines.")
def runs(folder: Path, as_json: bool) -> int:
    """List the runs in FOLDER (runs), the newest first.

    Commands that read a run take @last for the newest of those in runs/, @last-1 for the one before, and so on.
    """
    rows = stored_runs(folder)
    if as_json:
        click.echo(msgspec.json.encode([asdict(row) for row in rows]))
        return 0
    console = Console(highlight=False, width=None if sys.stdout.isatty() else PIPED_WIDTH)
    console.print(_table(rows) if rows else f"{folder}: no runs yet")
    return 0


def _table(rows: "list[Row]") -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("run", "started", "what", "result", "pinched by"):
        table.add_column(heading, overflow="fold")
    for number, row in enumerate(rows):
        started = row.started[:16].replace("T", " ")
        result = row.error or row.number or row.state
        if row.state != "finished" and row.number:
            result = f"{row.number} ({row.state})"
        name = f"{LAST}-{number}" if number else LAST
        table.add_row(f"{name}  {row.id}", started, row.title, result, row.verdicts)
    return table

"""`pinchpoint export`: stored runs for other programs."""

import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import click

from pinchpoint.api.calls import stored
from pinchpoint.cli.parameters import RunPath
from pinchpoint.export import TABLES, Frame, Stored, csit, frame, openmetrics
from pinchpoint.model.errors import InputError, StoreError
from pinchpoint.model.units import counted
from pinchpoint.store.bundle import opened

FORMATS = ("parquet", "arrow", "csv", "csit", "openmetrics")
EXAMPLE = "pinchpoint export RUN --format parquet -o results"


@click.command(short_help="Stored runs as Parquet, Arrow, CSV, CSIT JSON or OpenMetrics.")
@click.argument("paths", nargs=-1, required=True, type=RunPath(), metavar="RUN...")
@click.option(
    "--format", "kind", type=click.Choice(FORMATS), default="parquet", show_default=True, help="What to write."
)
@click.option(
    "--table",
    "names",
    type=click.Choice(tuple(TABLES)),
    multiple=True,
    metavar="TABLE",
    help=f"{', '.join(TABLES)}: this one only; may be given again. [default: each that has rows] Of parquet, arrow "
    "and csv.",
)
@click.option(
    "-o",
    "--out",
    "output",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="A new folder; for one table, or openmetrics, a new file. [default for one file: standard output]",
)
def export(paths: tuple[Path, ...], kind: str, names: tuple[str, ...], output: Path | None) -> int:
    """Write what run folders or bundles RUN hold as tables with documented columns and units, all runs together.

    parquet, arrow and csv write one file a table; csit one JSON file a scenario, in FD.io CSIT's result model;
    openmetrics one text with a point for each figure and each window. Nothing that exists is overwritten.
    """
    if names and kind in ("csit", "openmetrics"):
        raise InputError(f"--table: {kind} has no tables", "leave it out, or choose parquet, arrow or csv")
    with ExitStack() as stack:
        runs = [stored(stack.enter_context(opened(path))) for path in paths]
        if kind == "openmetrics":
            _put_file(openmetrics.of_runs(runs).encode(), output)
        elif kind == "csit":
            _csit(runs, output)
        else:
            _tables(runs, kind, names, output)
    return 0


def _tables(runs: Sequence[Stored], kind: str, names: Sequence[str], output: Path | None) -> None:
    frames = {name: frame(name, runs) for name in dict.fromkeys(names or TABLES)}
    if len(frames) == 1:
        ((_, only),) = frames.items()
        if kind != "csv" and (output is None and sys.stdout.isatty()):
            raise InputError(f"{kind} is binary, and standard output is a terminal", f"give -o FILE.{kind}")
        _put_file(_bytes(only, kind), output)
        return
    folder = _needed(output)
    filled = frames if names else {name: frame for name, frame in frames.items() if len(frame)}
    _put_all(folder, {f"{name}.{kind}": _bytes(frame, kind) for name, frame in filled.items()})
    for name, written in filled.items():
        click.echo(f"{folder / f'{name}.{kind}'}: {counted(len(written), 'row')}", err=True)


def _bytes(frame: Frame, kind: str) -> bytes:
    if kind == "csv":
        return frame.to_csv().encode()
    return frame.to_parquet() if kind == "parquet" else frame.to_ipc()


def _csit(runs: Sequence[Stored], output: Path | None) -> None:
    cases = [(run.info.run_id, case) for run in runs for case in csit.of_run(run)]
    for _, case in cases:
        for line in case.left_out:
            click.echo(f"{case.name}: left out: {line}", err=True)
    files = {f"{run}.{case.name}.json": _json(case.document) for run, case in cases if case.document is not None}
    if not files:
        raise InputError("no scenario of these runs has a type of test in CSIT's model", "rates and bandwidth have one")
    if output is None and len(files) == 1:
        _put_file(next(iter(files.values())), None)
    else:
        _put_all(_needed(output), files)


def _json(document: Mapping[str, object]) -> bytes:
    return (json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()


def _needed(output: Path | None) -> Path:
    if output is None:
        raise InputError("several files need a folder", f"give -o FOLDER, e.g. {EXAMPLE}")
    return output


def _put_file(data: bytes, output: Path | None) -> None:
    if output is None:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return
    try:
        with output.open("xb") as file:
            file.write(data)
    except FileExistsError as error:
        raise InputError(f"{output}: exists already", "give -o another name") from error
    except OSError as error:
        raise StoreError(f"cannot write {output}: {error.strerror}", "give -o another place") from error


def _put_all(folder: Path, files: Mapping[str, bytes]) -> None:
    try:
        folder.mkdir(parents=True)
    except FileExistsError as error:
        raise InputError(f"{folder}: exists already", "give -o another name") from error
    except OSError as error:
        raise StoreError(f"cannot make {folder}: {error.strerror}", "give -o another place") from error
    for name, data in files.items():
        _put_file(data, folder / name)

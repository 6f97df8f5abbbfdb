"""Stored runs for other programs and other places: `pinchpoint export`; `pack` and `unpack`, a run as one file."""

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import click

from pinchpoint import __version__
from pinchpoint.api.calls import stored
from pinchpoint.cli.options import FILE, FOLDER, RUNS, RunPath
from pinchpoint.cli.run import write_report
from pinchpoint.export import TABLES, Frame, Stored, csit, frame, openmetrics
from pinchpoint.model.errors import InputError, StoreError
from pinchpoint.model.units import counted, quantity
from pinchpoint.run.stored import StoredRun
from pinchpoint.store import anonymous, bundle
from pinchpoint.store.bundle import opened
from pinchpoint.store.folder import RunFolder

FORMATS = ("parquet", "arrow", "csv", "csit", "openmetrics")
EXAMPLE = "pinchpoint export RUN --format parquet -o results"


@click.command(short_help="Stored runs as Parquet, Arrow, CSV, CSIT JSON or OpenMetrics.")
@click.argument("paths", nargs=-1, required=True, type=RunPath(), metavar="RUN...")
@click.option("--format", "kind", type=click.Choice(FORMATS), default="parquet", show_default=True,
              help="What to write.")  # fmt: skip
@click.option("--table", "names", type=click.Choice(tuple(TABLES)), multiple=True, metavar="TABLE",
              help=f"{', '.join(TABLES)}: this one only; may be given again. [default: each that has rows] Of parquet, "
                   "arrow and csv.")  # fmt: skip
@click.option("-o", "--out", "output", type=click.Path(path_type=Path), metavar="PATH",
              help="A new folder; for one table, or openmetrics, a new file. [default for one file: standard "
                   "output]")  # fmt: skip
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
    with _making(output, "write"), output.open("xb") as file:
        file.write(data)


@contextmanager
def _making(path: Path, verb: str) -> Iterator[None]:
    """What exists is not overwritten. Raises InputError, StoreError."""
    try:
        yield
    except FileExistsError as error:
        raise InputError(f"{path}: exists already", "give -o another name") from error
    except OSError as error:
        raise StoreError(f"cannot {verb} {path}: {error.strerror}", "give -o another place") from error


def _put_all(folder: Path, files: Mapping[str, bytes]) -> None:
    with _making(folder, "make"):
        folder.mkdir(parents=True)
    for name, data in files.items():
        _put_file(data, folder / name)


ENDING = ".pinchpoint.zip"


@click.command(short_help="One run as one file, to be read or repeated elsewhere.")
@click.argument("run_folder", type=RunPath(file_okay=False), metavar="RUN")
@click.option("-o", "--out", "output", type=click.Path(path_type=Path), metavar="FILE",
              help=f"The bundle; nothing is overwritten. [default: RUN{ENDING}, here]")  # fmt: skip
@click.option("--anonymous", "is_anonymous", is_flag=True,
              help="Replace addresses, names and logins of hosts, UUIDs and home folders, consistently.")  # fmt: skip
@click.option("--name", "names", multiple=True, metavar="WORD", help="With --anonymous: replace WORD, too.")
def pack(run_folder: Path, output: Path | None, is_anonymous: bool, names: tuple[str, ...]) -> int:
    """Put the run folder RUN into one file: scenarios, results, every trial, versions, logs.

    The same folder makes the same file. `pinchpoint unpack FILE` makes the folder again; show and export read the file.
    """
    if names and not is_anonymous:
        raise InputError("--name says what --anonymous replaces", "give both")
    folder = RunFolder.open(run_folder)
    files, run_id = bundle.files_of(folder), folder.read_info().run_id
    target = output or Path(f"{run_folder.resolve().name}{ENDING}")
    if is_anonymous:
        host = os.uname().nodename
        names_found = anonymous.found_in(files, (host, host.partition(".")[0], *names))
        files, run_id = names_found.files(files), names_found.text(run_id)
    size = bundle.pack(run_id, files, __version__, target, anonymous=is_anonymous)
    try:
        with opened(target) as again:
            stored(again)
    except BaseException:
        target.unlink(missing_ok=True)
        raise
    click.echo(f"{target}: {counted(len(files), 'file')}, {quantity(size, 'bytes')}")
    return 0


@click.command(short_help="Make the run folder of a bundle.")
@click.argument("file", type=FILE, metavar="FILE")
@click.option("-o", "--out", "output", type=FOLDER, default=str(RUNS), show_default=True, metavar="DIR",
              help="Make the run folder in DIR; an existing one is never overwritten.")  # fmt: skip
def unpack(file: Path, output: Path) -> int:
    """Make the run folder that FILE, a bundle of `pinchpoint pack`, holds, and its report anew.

    A bundle is checked as it is read: one with names that lead outside, links, files that it does not name, wrong
    digests, or sizes that would fill the disk is refused, and leaves nothing behind.
    """
    folder = bundle.unpack(file, output)
    click.echo(f"Report: {write_report(StoredRun(folder))}")
    return 0

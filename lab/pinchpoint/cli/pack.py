"""`pinchpoint pack` and `unpack`: a run as one file, and back."""

import os
from pathlib import Path

import click

from pinchpoint import __version__
from pinchpoint.api.calls import stored
from pinchpoint.cli.parameters import RUNS, RunPath
from pinchpoint.cli.run import write_report
from pinchpoint.model import units
from pinchpoint.model.errors import InputError
from pinchpoint.run.stored import StoredRun
from pinchpoint.store import anonymous, bundle
from pinchpoint.store.folder import RunFolder

ENDING = ".pinchpoint.zip"


@click.command(short_help="One run as one file, to be read or repeated elsewhere.")
@click.argument("run_folder", type=RunPath(file_okay=False), metavar="RUN")
@click.option(
    "-o",
    "--out",
    "output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help=f"The bundle; nothing is overwritten. [default: RUN{ENDING}, here]",
)
@click.option(
    "--anonymous",
    "is_anonymous",
    is_flag=True,
    help="Replace addresses, names and logins of hosts, UUIDs and home folders, consistently.",
)
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
        with bundle.opened(target) as again:
            stored(again)
    except BaseException:
        target.unlink(missing_ok=True)
        raise
    click.echo(f"{target}: {units.counted(len(files), 'file')}, {units.octets(size)}")
    return 0


@click.command(short_help="Make the run folder of a bundle.")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE")
@click.option(
    "-o",
    "--out",
    "output",
    type=click.Path(file_okay=False, path_type=Path),
    default=str(RUNS),
    show_default=True,
    metavar="DIR",
    help="Make the run folder in DIR; an existing one is never overwritten.",
)
def unpack(file: Path, output: Path) -> int:
    """Make the run folder that FILE, a bundle of `pinchpoint pack`, holds, and its report anew.

    A bundle is checked as it is read: one with names that lead outside, links, files that it does not name, wrong
    digests, or sizes that would fill the disk is refused, and leaves nothing behind.
    """
    folder = bundle.unpack(file, output)
    click.echo(f"Report: {write_report(StoredRun(folder))}")
    return 0

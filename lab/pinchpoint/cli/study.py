"""`pinchpoint study`: the shipped experiments, and running one of them."""

import textwrap
from pathlib import Path

import click
import msgspec

from pinchpoint.cli import options, program
from pinchpoint.cli.options import Groups, How, StudyName, how_options, json_option
from pinchpoint.cli.program import Program
from pinchpoint.cli.run import CONTINUES, conduct, resumed
from pinchpoint.host.local import Local
from pinchpoint.host.machines import Machines
from pinchpoint.model import units
from pinchpoint.model.errors import InputError

WIDTH = 100  # characters


@click.group(short_help="Published experiments, repeated here.")
def study() -> None:
    """List and run studies: folders of scenarios that repeat a published experiment."""


@study.command(name="list", short_help="What there is, and how long it takes.")
@json_option
def list_studies(as_json: bool) -> int:
    """Print every shipped study: its name and title, what it reproduces, its points and about how long it takes."""
    machines, shipped = Machines(Local()), options.study_folders().items()
    if as_json:
        click.echo(msgspec.json.encode([_plain(name, folder, machines) for name, folder in shipped]))
        return 0
    for name, folder in shipped:
        paragraphs = (
            textwrap.wrap(text, WIDTH - 2, subsequent_indent="  ", break_on_hyphens=False)
            for text in _about(folder, machines)
        )
        click.echo("\n  ".join((name, *(line for lines in paragraphs for line in lines))))
    return 0


def _plain(name: str, folder: Path, machines: Machines) -> dict[str, object]:
    full, quick = program.of_study(folder), program.of_study(folder, quick=True)
    groups = [{"name": sweep.group, "points": len(sweep.scenarios), "repeats": sweep.repeats} for sweep in full.sweeps]
    title, source = (full.study.title, full.study.source) if full.study else ("", "")
    times = {"expected_s": full.expected_s(machines), "quick_expected_s": quick.expected_s(machines)}
    return {"name": name, "title": title, "reproduces": source, "groups": groups, **times}


def _about(folder: Path, machines: Machines) -> list[str]:
    try:
        full, quick = program.of_study(folder), program.of_study(folder, quick=True)
    except InputError as error:
        return [f"cannot be read: {problem}" for problem in str(error).splitlines()]
    groups = ", ".join(sweep.group for sweep in full.sweeps)
    lines = [f"groups: {groups}", _length(full, quick, machines)]
    if full.study is not None:
        lines = [full.study.title, f"reproduces: {full.study.source}", *lines]
    return [line for line in lines if line]


def _length(full: Program, quick: Program, machines: Machines) -> str:
    text, short_s = full.describe(machines), quick.expected_s(machines)
    if _size(full) != _size(quick) or units.duration(full.expected_s(machines)) != units.duration(short_s):
        text += f"; --quick: {quick.describe(machines)}"
    return text


def _size(form: Program) -> tuple[int, int]:
    return len(form.sweeps), len(form.units)


@study.command(short_help="Run a study.")
@click.argument("name", required=False, type=StudyName(), metavar="[NAME]")
@click.option("--only", type=Groups(), metavar="GROUP,...", help="These groups of the study, not all.")
@how_options()
def run(name: str | None, only: tuple[str, ...] | None, how: How) -> int:
    """Run the shipped study NAME, or the one in the folder NAME.

    What this machine cannot run is reported as impossible, with the reason, and the rest continues.
    """
    if bool(name) == bool(how.resume):
        raise InputError("give either a study or --resume RUN", "pinchpoint study list")
    if how.resume:
        if only:
            raise InputError("--only applies to new runs only", CONTINUES)
        return resumed(how)
    assert name is not None
    return conduct(program.of_study(options.study_folder(name), how.quick, only or (), how.changes), how)

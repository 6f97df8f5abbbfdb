"""Commands that look or tidy: check, show, report, clean."""

import os
from collections.abc import Sequence
from pathlib import Path

import click
import msgspec

from pinchpoint.bench import builder
from pinchpoint.cli import program
from pinchpoint.cli.hosts import host_at, host_option
from pinchpoint.cli.parameters import RunPath
from pinchpoint.cli.run import print_stored, write_report
from pinchpoint.dut.registry import device_of
from pinchpoint.host.local import Local
from pinchpoint.host.machines import Machines
from pinchpoint.host.priority import lower_left_session
from pinchpoint.model import units
from pinchpoint.model.errors import BenchError, InputError, RequirementError
from pinchpoint.model.scenario import Factor, Sweep
from pinchpoint.report.forms import Form, render_form
from pinchpoint.run.stored import StoredRun
from pinchpoint.scenario.plain import to_plain
from pinchpoint.store.bundle import opened
from pinchpoint.store.folder import RunFolder

MOST_LEVELS_SHOWN = 6


@click.command(short_help="Check scenario files without running them.")
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path), metavar="SCENARIO...")
@click.option("--quick", is_flag=True, help="The short form.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print every scenario with its effective values, or the problems."
)
def check(paths: tuple[Path, ...], quick: bool, as_json: bool) -> int:
    """Read SCENARIO files, folders of them or studies; report every problem with its file, line and key.

    Of a sweep, also print the points and their estimated time.
    """
    if as_json:
        return _check_as_json(paths, quick)
    machines = Machines(Local())
    for form in _forms(paths, quick):
        for sweep in form.sweeps:
            click.echo(f"{sweep.scenarios[0].path}: ok. {_sweep(sweep) if sweep.factors else _scenario(sweep)}")
        if not form.plain:
            click.echo(f"{form.name}: {form.describe(machines)}")
    return 0


def _check_as_json(paths: Sequence[Path], quick: bool) -> int:
    try:
        scenarios = [scenario for form in _forms(paths, quick) for sweep in form.sweeps for scenario in sweep.scenarios]
    except InputError as error:
        click.echo(msgspec.json.encode({"problems": error.message.splitlines(), "hint": error.hint}))
        return error.exit_code
    click.echo(msgspec.json.encode([to_plain(scenario) for scenario in scenarios]))
    return 0


def _forms(paths: Sequence[Path], quick: bool) -> list[program.Program]:
    """Each study for itself, everything else together."""
    studies = [path for path in paths if (path / program.STUDY_FILE).is_file()]
    others = [path for path in paths if path not in studies]
    forms = [program.of_study(path, quick) for path in studies]
    return [*forms, program.of_paths(others, quick)] if others else forms


def _scenario(sweep: Sweep) -> str:
    (scenario,) = sweep.scenarios
    device = device_of(scenario)
    contents = [f"{count:,} {what}" for what, count in device.contents(scenario).items() if count]
    five_tuples = units.counted(sum(stream.flows for stream in scenario.streams), "five-tuple")
    pages = f"{units.counted(device.pages(scenario), 'hugepage')} of 2 MiB"
    return ", ".join((units.counted(len(scenario.ports), "port"), *contents, five_tuples, pages))


def _sweep(sweep: Sweep) -> str:
    factors = " x ".join(f"{factor.name} {_levels(factor)}" for factor in sweep.factors)
    repeats = f", {sweep.repeats} repeats" if sweep.repeats > 1 else ""
    return f"{units.counted(len(sweep.scenarios), 'point')}: {factors}{repeats}"


def _levels(factor: Factor) -> str:
    """The levels if they are few, else the first and the last."""
    shown = [units.level(level) for level in factor.levels]
    few = ", ".join(shown) if len(shown) <= MOST_LEVELS_SHOWN else f"{shown[0]} to {shown[-1]}"
    return f"{few} {factor.unit}".rstrip()


@click.command(short_help="Print a stored run again.")
@click.argument("run_folder", type=RunPath(), metavar="RUN")
@click.option("--json", "as_json", is_flag=True, help="Print result.json, or comparison.json.")
def show(run_folder: Path, as_json: bool) -> int:
    """Print the results of the run folder, or bundle, RUN as `pinchpoint run` did."""
    with opened(run_folder) as folder:
        if folder.read_result() is None:
            raise InputError(f"{run_folder}: no scenario has finished", f"pinchpoint run --resume {run_folder}")
        print_stored(StoredRun(folder), as_json)
    return 0


@click.command(short_help="Write a stored run's report again.")
@click.argument("run_folder", type=RunPath(file_okay=False), metavar="RUN")
@click.option(
    "--form",
    type=click.Choice([str(form) for form in Form]),
    help="Make FORM.html in the folder instead: the report that this RFC asks for, to be printed.",
)
def report(run_folder: Path, form: str | None) -> int:
    """Make report.html and report.md of the run folder RUN anew, e.g. with a newer pinchpoint."""
    folder = RunFolder.open(run_folder)
    if form is None:
        click.echo(f"Report: {write_report(StoredRun(folder))}")
        return 0
    page = render_form(Form(form), folder.read_info(), folder.so_far(), folder.read_trials())
    click.echo(f"Report: {folder.write_page(f'{form}.html', page)}")
    return 0


@click.command(short_help="Remove what a killed run left behind.")
@host_option
def clean(address: str | None) -> int:
    """Remove every namespace, link, process, folder and hugepage that a journal of a dead run names."""
    if address is None and os.geteuid() != 0:
        raise RequirementError("only root can remove what a run left behind", "sudo pinchpoint clean")
    removed, alive, failures = builder.clean(host_at(address))
    if address is None and not alive and lower_left_session():
        removed = (*removed, "the priority of this session, which a run that was killed had raised")
    for line in removed:
        click.echo(f"undone: {line}")
    for bench in alive:
        click.echo(f"left alone: bench {bench} belongs to a run that is still going on", err=True)
    for line in failures:
        click.echo(f"not removed: {line}", err=True)
    if not removed and not alive and not failures:
        click.echo("nothing to remove")
    return BenchError.exit_code if failures else 0

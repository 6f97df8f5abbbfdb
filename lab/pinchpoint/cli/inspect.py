"""Commands that look or tidy: check, runs, show, report, trend, clean."""

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec
from rich import box
from rich.table import Table

from pinchpoint.bench import builder
from pinchpoint.cli import program
from pinchpoint.cli.options import LAST, NEW_FILE, RUNS, RunPath, host_at, host_option, json_option, stored_runs
from pinchpoint.cli.run import print_stored, write_report
from pinchpoint.cli.terminal import console, write_text
from pinchpoint.dut.registry import device_of
from pinchpoint.host.local import Local
from pinchpoint.host.machines import Machines
from pinchpoint.host.priority import lower_left_session
from pinchpoint.model import former, units
from pinchpoint.model.errors import UNDECIDED, WORSE, BenchError, InputError, RequirementError
from pinchpoint.model.result import RunInfo, RunResult
from pinchpoint.model.scenario import Factor, Sweep
from pinchpoint.report.forms import Form, render_form
from pinchpoint.report.trend import render_junit, render_trends
from pinchpoint.run.stored import StoredRun
from pinchpoint.scenario.plain import to_plain
from pinchpoint.store.bundle import opened
from pinchpoint.store.folder import RunFolder

if TYPE_CHECKING:
    from pinchpoint.serve.index import Row

MOST_LEVELS_SHOWN = 6


@click.command(short_help="Check scenario files without running them.")
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path), metavar="SCENARIO...")
@click.option("--quick", is_flag=True, help="The short form.")
@click.option("--json", "as_json", is_flag=True,
              help="Print every scenario with its effective values, or the problems.")  # fmt: skip
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


_STORED = click.Path(exists=True, file_okay=False, path_type=Path)


@click.command(short_help="List stored runs, the newest first.")
@click.argument("folder", default=str(RUNS), type=_STORED, metavar="[FOLDER]")
@json_option
def runs(folder: Path, as_json: bool) -> int:
    """List the runs in FOLDER (runs), the newest first.

    Commands that read a run take @last for the newest of those in runs/, @last-1 for the one before, and so on.
    """
    rows = stored_runs(folder)
    if as_json:
        click.echo(msgspec.json.encode([asdict(row) for row in rows]))
        return 0
    console().print(_table(rows) if rows else f"{folder}: no runs yet")
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
@click.option("--form", type=click.Choice([str(form) for form in Form]),
              help="Make FORM.html in the folder instead: the report that this RFC asks for, to be "
                   "printed.")  # fmt: skip
def report(run_folder: Path, form: str | None) -> int:
    """Make report.html and report.md of the run folder RUN anew, e.g. with a newer pinchpoint."""
    folder = RunFolder.open(run_folder)
    if form is None:
        click.echo(f"Report: {write_report(StoredRun(folder))}")
        return 0
    page = render_form(Form(form), folder.read_info(), folder.so_far(), folder.read_trials())
    click.echo(f"Report: {folder.write_page(f'{form}.html', page)}")
    return 0


@click.command(short_help="Where a number changed over stored runs.")
@click.argument("paths", nargs=-1, required=True, type=_STORED, metavar="RUNS...")
@click.option("--scenario", "scenarios", multiple=True, metavar="NAME", help="This scenario only; may be given again.")
@click.option("--metric", "metrics", type=former.metric, multiple=True, metavar="NAME",
              help="This metric, e.g. NDR; may be given again. Else every rate, or the first metric.")  # fmt: skip
@click.option("--junit", type=NEW_FILE, metavar="FILE",
              help="Write JUnit's XML: a test case for each metric, failed where it got worse.")  # fmt: skip
@json_option
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
        write_text(junit, render_junit(measured), "--junit")
    if as_json:
        click.echo(msgspec.json.encode(measured))
    else:
        console().print(render_trends(measured, bars=sys.stdout.isatty()))
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
    if program.is_run(path):
        return [path]
    folders = sorted(inner.parent for inner in path.glob("*/run.json"))
    if not folders:
        hint = "give run folders, or the folder that they are in: pinchpoint trend runs"
        raise InputError(f"{path}: neither a run folder nor a folder of run folders (no run.json)", hint)
    return folders


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

"""Commands that show, share or remove what is stored: check, runs, show, report, trend, clean.

And stored runs for other programs and other places: `pinchpoint export`; `pack` and `unpack`, a run as one file.
"""

import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click
import msgspec
from rich import box
from rich.table import Table

from pinchpoint import __version__
from pinchpoint.api.calls import stored
from pinchpoint.bench import builder
from pinchpoint.cli import options, program
from pinchpoint.cli.options import (
    FILE,
    FOLDER,
    NEW_FILE,
    RUNS,
    How,
    RunPath,
    ScenarioPath,
    host_at,
    host_option,
    how_options,
    json_option,
)
from pinchpoint.cli.run import next_of, print_stored, write_report
from pinchpoint.cli.terminal import console, next_step, write_text
from pinchpoint.dut.registry import device_of
from pinchpoint.dut.setup import absent_cpus
from pinchpoint.export import TABLES, Frame, Stored, csit, frame, openmetrics, perfetto
from pinchpoint.host.interface import Host
from pinchpoint.host.priority import lower_left_session
from pinchpoint.model import former, units
from pinchpoint.model.errors import UNDECIDED, WORSE, BenchError, InputError, RequirementError
from pinchpoint.model.frames import five_tuples, is_exact
from pinchpoint.model.result import RunInfo, RunResult
from pinchpoint.model.scenario import Factor, Scenario, Sweep
from pinchpoint.report.page import Form, render_form
from pinchpoint.report.trend import render_junit, render_trends
from pinchpoint.run.stored import StoredRun
from pinchpoint.scenario.plain import to_plain
from pinchpoint.scenario.schema import FORMS, SCENARIO, schema_of
from pinchpoint.scenario.study import STUDY_FILE
from pinchpoint.store import anonymous, bundle
from pinchpoint.store.bundle import opened
from pinchpoint.store.folder import RunFolder, storing

if TYPE_CHECKING:
    from pinchpoint.serve.index import Row

MOST_LEVELS_SHOWN = 6


def _print_schema(context: click.Context, _: click.Parameter, form: str | None) -> None:
    if form is not None and not context.resilient_parsing:
        click.echo(json.dumps(schema_of(form), indent=1, ensure_ascii=False))
        context.exit()


@click.command(short_help="Check scenario files without running them.")
@click.argument("paths", nargs=-1, required=True, type=ScenarioPath(exists=False), metavar="SCENARIO...")
@how_options("quick", "settings", "as_json", quick="The short form.",
             as_json="Print every scenario with its effective values, or the problems.")  # fmt: skip
@click.option("--schema", type=click.Choice(FORMS), is_flag=False, flag_value=SCENARIO, is_eager=True,
              expose_value=False, callback=_print_schema,
              help="Print the JSON schema of scenario files, or of study.toml, for editors, and stop.")  # fmt: skip
def check(paths: tuple[Path, ...], how: How) -> int:
    """Read SCENARIO files, folders of them or studies; report every problem with its file, line and key.

    Of a sweep, also print the points and their estimated time. If the switch's own program is
    installed, it parses the rules. CPUs that this machine lacks cause a warning.
    """
    if how.as_json:
        return _check_as_json(paths, how)
    forms = _forms(paths, how)
    _require_accepted(forms, how.machines.lab)
    for form in forms:
        for sweep in form.sweeps:
            click.echo(f"{sweep.scenarios[0].path}: ok. {_sweep(sweep) if sweep.factors else _scenario(sweep)}")
            _warn(sweep, how.machines.lab)
        if not form.plain:
            click.echo(f"{form.name}: {form.describe(how.machines)}")
    if len(forms) == 1:
        next_step("run", *map(str, paths), *(["--quick"] if how.quick else []), *how.set_words)
    return 0


def _check_as_json(paths: Sequence[Path], how: How) -> int:
    try:
        forms = _forms(paths, how)
        _require_accepted(forms, how.machines.lab)
        scenarios = [scenario for form in forms for sweep in form.sweeps for scenario in sweep.scenarios]
    except InputError as error:
        click.echo(msgspec.json.encode({"problems": error.message.splitlines(), "hint": error.hint}))
        return error.exit_code
    click.echo(msgspec.json.encode([to_plain(scenario) for scenario in scenarios]))
    return 0


def _forms(paths: Sequence[Path], how: How) -> list[program.Program]:
    """Each study for itself, everything else together."""
    studies = [path for path in paths if (path / STUDY_FILE).is_file()]
    others = [path for path in paths if path not in studies]
    forms = [program.of_study(path, how.quick, changes=how.changes) for path in studies]
    return [*forms, program.of_paths(others, how.quick, how.changes)] if others else forms


def _require_accepted(forms: Sequence[program.Program], lab: Host) -> None:
    """Raises InputError for what a program of this machine would refuse."""
    by_kind: dict[str, list[Scenario]] = {}
    for scenario in (scenario for form in forms for sweep in form.sweeps for scenario in sweep.scenarios):
        by_kind.setdefault(device_of(scenario).kind, []).append(scenario)
    problems, hints = list[str](), list[str]()
    with TemporaryDirectory(prefix="pinchpoint-check-") as folder:
        for alike in by_kind.values():
            device = device_of(alike[0])
            if refused := list(device.refused(alike, lab, folder)):
                problems += refused
                hints += [device.rule_syntax] if device.rule_syntax else []
    if problems:
        raise InputError("\n".join(problems), "; ".join(hints) or None)


def _warn(sweep: Sweep, lab: Host) -> None:
    absent: dict[str, frozenset[int]] = {}
    for scenario in sweep.scenarios:
        for key, cpus in absent_cpus(scenario, lab).items():
            absent[key] = absent.get(key, frozenset()) | cpus
    usable = sorted(lab.cpus())
    for key, cpus in absent.items():
        words = f"CPU {_numbers(cpus)} cannot be used on this machine (usable: {_numbers(usable)})"
        mend = f"change it or use --set '{key}=[{usable[-1]}]'"
        click.echo(f"{sweep.scenarios[0].path}: warning: {key}: {words}; {mend}", err=True)


def _numbers(cpus: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(cpus)))


def _scenario(sweep: Sweep) -> str:
    (scenario,) = sweep.scenarios
    device = device_of(scenario)
    contents = [f"{count:,} {what}" for what, count in device.contents(scenario).items() if count]
    tuples, flows = sum(map(five_tuples, scenario.streams)), sum(stream.flows for stream in scenario.streams)
    most = "" if all(is_exact(stream, stream.flows) for stream in scenario.streams) else "at most "
    sent = most + units.counted(tuples, "five-tuple") + (f", {units.counted(flows, 'flow')}" if flows != tuples else "")
    pages = f"{units.counted(device.pages(scenario), 'hugepage')} of 2 MiB"
    return ", ".join((units.counted(len(scenario.ports), "port"), *contents, sent, pages))


def _sweep(sweep: Sweep) -> str:
    factors = " x ".join(f"{factor.name} {_levels(factor)}" for factor in sweep.factors)
    repeats = f", {sweep.repeats} repeats" if sweep.repeats > 1 else ""
    return f"{units.counted(len(sweep.scenarios), 'point')}: {factors}{repeats}"


def _levels(factor: Factor) -> str:
    """The levels if they are few, else the first and the last."""
    shown = [units.level(level) for level in factor.levels]
    few = ", ".join(shown) if len(shown) <= MOST_LEVELS_SHOWN else f"{shown[0]} to {shown[-1]}"
    return f"{few} {factor.unit}".rstrip()


@click.command(short_help="List stored runs, the newest first.")
@click.argument("folder", default=str(RUNS), metavar="[FOLDER]",
                type=click.Path(exists=True, file_okay=False, path_type=Path))  # fmt: skip
@json_option
def runs(folder: Path, as_json: bool) -> int:
    """List the runs in FOLDER (runs), the newest first.

    Commands that read a run take @last for the newest of those in runs/, @last-1 for the one before, and so on.
    """
    rows = options.stored_runs(folder)
    if as_json:
        click.echo(msgspec.json.encode([asdict(row) for row in rows]))
        return 0
    console().print(_table(rows) if rows else f"{folder}: no runs yet")
    next_step(*(("show", str(folder / rows[0].id)) if rows else ()))
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
        name = f"{options.LAST}-{number}" if number else options.LAST
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
        kept = StoredRun(folder)
        print_stored(kept, as_json)
        next_step(*(next_of(kept) if run_folder.is_dir() else ()), as_json=as_json)
    return 0


@click.command(short_help="Write a stored run's report again.")
@click.argument("run_folder", type=RunPath(file_okay=False), metavar="RUN")
@click.option("--form", type=click.Choice([str(form) for form in Form]),
              help="Make FORM.html in the folder instead: the report that this RFC asks for, to be "
                   "printed.")  # fmt: skip
def report(run_folder: Path, form: str | None) -> int:
    """Write report.html and report.md of the run folder RUN again, e.g. with a newer pinchpoint."""
    folder = RunFolder.open(run_folder)
    if form is None:
        click.echo(f"Report: {write_report(StoredRun(folder))}")
        return 0
    page = render_form(Form(form), folder.read_info(), folder.so_far(), folder.read_trials())
    click.echo(f"Report: {folder.write_page(f'{form}.html', page)}")
    return 0


@click.command(short_help="Where a number changed over stored runs.")
@click.argument("paths", nargs=-1, required=True, type=RunPath(file_okay=False), metavar="RUNS...")
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

    Only runs of the newest one's scenario and definition are compared; others are listed. Exit code 8
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
        click.echo(f"left alone: bench {bench} belongs to a run that is still active", err=True)
    for line in failures:
        click.echo(f"not removed: {line}", err=True)
    if not removed and not alive and not failures:
        click.echo("nothing to remove")
    return BenchError.exit_code if failures else 0


FORMATS = ("parquet", "arrow", "csv", "csit", "openmetrics", "perfetto")
_WITHOUT_TABLES = ("csit", "openmetrics", "perfetto")
_MADE_ANEW = ("give -o another place", "give -o another name")  # what exists is not overwritten
_EXAMPLE = "pinchpoint export RUN --format parquet -o results"


@click.command(short_help="Stored runs as tables, CSIT JSON, OpenMetrics or Perfetto.")
@click.argument("paths", nargs=-1, required=True, type=RunPath(), metavar="RUN...")
@click.option("--format", "kind", type=click.Choice(FORMATS), default="parquet", show_default=True,
              help="What to write.")  # fmt: skip
@click.option("--table", "names", type=click.Choice(tuple(TABLES)), multiple=True, metavar="TABLE",
              help=f"{', '.join(TABLES)}: this one only; may be given again. [default: each that has rows] Of parquet, "
                   "arrow and csv.")  # fmt: skip
@click.option("-o", "--out", "output", type=click.Path(path_type=Path), metavar="PATH",
              help="A new folder; for one table, openmetrics or perfetto a new file. [default for one file: "
                   "standard output]")  # fmt: skip
def export(paths: tuple[Path, ...], kind: str, names: tuple[str, ...], output: Path | None) -> int:
    """Write what run folders or bundles RUN hold as tables with documented columns and units, all runs together.

    parquet, arrow and csv write one file a table; csit one JSON file a scenario, in FD.io CSIT's result model;
    openmetrics one text with a point for each figure and each window; perfetto the timeline of every trial, for
    ui.perfetto.dev. Nothing that exists is overwritten.
    """
    if names and kind in _WITHOUT_TABLES:
        raise InputError(f"--table: {kind} has no tables", "leave it out, or choose parquet, arrow or csv")
    with ExitStack() as stack:
        runs = [stored(stack.enter_context(opened(path))) for path in paths]
        if kind == "openmetrics":
            _put_file(openmetrics.of_runs(runs).encode(), output)
        elif kind == "perfetto":
            _put_file(msgspec.json.encode(perfetto.of_runs(runs)), output)
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
        click.echo(f"{folder / f'{name}.{kind}'}: {units.counted(len(written), 'row')}", err=True)


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
        raise InputError("several files need a folder", f"give -o FOLDER, e.g. {_EXAMPLE}")
    return output


def _put_file(data: bytes, output: Path | None) -> None:
    if output is None:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return
    with storing(output, *_MADE_ANEW), output.open("xb") as file:
        file.write(data)


def _put_all(folder: Path, files: Mapping[str, bytes]) -> None:
    with storing(folder, *_MADE_ANEW):
        folder.mkdir(parents=True)
    for name, data in files.items():
        _put_file(data, folder / name)


_ENDING = ".pinchpoint.zip"


@click.command(short_help="One run as one file, to be read or repeated elsewhere.")
@click.argument("run_folder", type=RunPath(file_okay=False), metavar="RUN")
@click.option("-o", "--out", "output", type=click.Path(path_type=Path), metavar="FILE",
              help=f"The bundle; nothing is overwritten. [default: RUN{_ENDING}, here]")  # fmt: skip
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
    target = output or Path(f"{run_folder.resolve().name}{_ENDING}")
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
    click.echo(f"{target}: {units.counted(len(files), 'file')}, {units.quantity(size, 'bytes')}")
    return 0


@click.command(short_help="Make the run folder of a bundle.")
@click.argument("file", type=FILE, metavar="FILE")
@click.option("-o", "--out", "output", type=FOLDER, default=str(RUNS), show_default=True, metavar="DIR",
              help="Make the run folder in DIR; an existing one is never overwritten.")  # fmt: skip
def unpack(file: Path, output: Path) -> int:
    """Restore the run folder in FILE, a bundle of `pinchpoint pack`, and write its report.

    A bundle is checked as it is read. Names that lead outside, links, unlisted files, wrong digests and sizes that
    would fill the disk are refused, and nothing is left behind.
    """
    folder = bundle.unpack(file, output)
    click.echo(f"Report: {write_report(StoredRun(folder))}")
    return 0

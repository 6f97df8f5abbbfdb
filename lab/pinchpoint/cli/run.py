"""`pinchpoint run`: scenarios in, a run folder with its report out."""

import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

import click
import msgspec

from pinchpoint.bench import requirements
from pinchpoint.bench.journal import machine_lock
from pinchpoint.bench.plan import describe, plan
from pinchpoint.cli.progress import progress
from pinchpoint.cli.terminal import print_result
from pinchpoint.model.errors import InputError, PinchpointError, StoreError
from pinchpoint.model.scenario import Scenario
from pinchpoint.report import render_html, render_markdown
from pinchpoint.scenario import load
from pinchpoint.scenario.plain import from_plain, to_plain
from pinchpoint.store.folder import RunFolder
from pinchpoint.sweep.measure import Interrupted
from pinchpoint.sweep.run import describe_run, run_all, so_far
from pinchpoint.sweep.setup import prepare
from pinchpoint.sweep.standing import Stoppable


@click.command(short_help="Build, measure, explain, report.")
@click.argument("paths", nargs=-1, type=click.Path(exists=True, path_type=Path), metavar="SCENARIO...")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), default="runs", show_default=True,
              help="Folder below which the run folder is made; an existing one is never overwritten.")  # fmt: skip
@click.option("--resume", type=click.Path(exists=True, file_okay=False, path_type=Path), metavar="RUN",
              help="Continue an interrupted run; finished trials are not made again.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Print the plan of every bench and stop.")
@click.option("--json", "as_json", is_flag=True, help="Print result.json instead of tables.")
@click.option("-q", "--quiet", is_flag=True, help="No progress display.")
def run(paths: tuple[Path, ...], out: Path, resume: Path | None, dry_run: bool, as_json: bool, quiet: bool) -> int:
    """Run SCENARIO files, or folders of them (a study), one after the other.

    Each bench is private and is removed at the end, also after errors and Ctrl-C.
    """
    if bool(paths) == bool(resume):
        raise InputError("give either scenario files or --resume RUN", "pinchpoint run studies/quickstart")
    scenarios = _resumed(resume) if resume else load_all(paths)
    if dry_run:
        _print_plans(scenarios)
        return 0
    for scenario in scenarios:
        requirements.require(scenario)
    with machine_lock():
        folder = RunFolder.open(resume) if resume else _new_folder(scenarios, paths, out)
        interrupted = _measure(scenarios, folder, quiet)
    write_report(folder)
    if as_json:
        click.echo(msgspec.json.encode(so_far(folder)))
    else:
        print_result(so_far(folder), folder.path)
    return _told(interrupted, folder) if interrupted else 0


def _told(interrupted: Interrupted, folder: RunFolder) -> int:
    hint = f"pinchpoint run --resume {folder.path} continues"
    click.echo(f"pinchpoint: {interrupted.message}; finished trials are in {folder.path}\n  hint: {hint}", err=True)
    return interrupted.exit_code


def scenario_files(paths: Sequence[Path]) -> list[Path]:
    """Files as given, and in each folder its *.toml in the order of their names."""
    files: list[Path] = []
    for path in paths:
        found = sorted(path.glob("*.toml")) if path.is_dir() else [path]
        if not found:
            raise InputError(f"{path}: no scenario (*.toml) in this folder")
        files += found
    return files


def load_all(paths: Sequence[Path]) -> list[Scenario]:
    """All scenarios; problems of all files are told at once. Raises InputError."""
    scenarios: list[Scenario] = []
    problems: list[str] = []
    for path in scenario_files(paths):
        try:
            scenarios.append(load(path))
        except InputError as error:
            problems.append(str(error))
    names = [scenario.name for scenario in scenarios]
    problems += [
        f"{name}: two scenarios have this name; rename one file" for name in {n for n in names if names.count(n) > 1}
    ]
    if problems:
        raise InputError("\n".join(problems))
    return scenarios


def _resumed(path: Path) -> list[Scenario]:
    return [from_plain(plain) for plain in RunFolder.open(path).read_info().scenarios]


def _print_plans(scenarios: Sequence[Scenario]) -> None:
    for scenario in scenarios:
        click.echo(f"# {scenario.path}: {scenario.title}")
        click.echo("\n".join(describe(plan((), prepare(scenario).resources))))


def _new_folder(scenarios: Sequence[Scenario], paths: Sequence[Path], out: Path) -> RunFolder:
    name = paths[0].resolve().name if len(paths) == 1 and paths[0].is_dir() else scenarios[0].name
    folder = RunFolder.create(out, name)
    sources = {scenario.path: Path(scenario.path).read_text(encoding="utf-8") for scenario in scenarios}
    folder.write_info(describe_run(folder.run_id, sys.argv, [to_plain(s) for s in scenarios], sources))
    return folder


def _measure(scenarios: Sequence[Scenario], folder: RunFolder, quiet: bool) -> Interrupted | None:
    """What interrupted the run if the user did; any other error goes up once the report is written."""
    try:
        with progress(quiet) as listener, stop_on_signals() as remember:
            run_all(scenarios, folder, listener, remember)
            return None
    except Interrupted as error:
        return error
    except KeyboardInterrupt as error:
        for note in getattr(error, "__notes__", ()):  # what could not be removed
            click.echo(f"pinchpoint: {note}", err=True)
        return Interrupted("interrupted while building")
    except PinchpointError:
        with suppress(StoreError):  # the disk may be what failed
            write_report(folder)
        click.echo(f"pinchpoint: finished trials are in {folder.path}", err=True)
        raise


class _Stopper:
    """Turns the first SIGINT, SIGTERM or SIGHUP into an orderly end; further ones change nothing."""

    def __init__(self) -> None:
        self._running: Stoppable | None = None
        self._stopping = False

    def remember(self, running: Stoppable) -> None:
        """What a signal shall stop from now on."""
        self._running = running
        if self._stopping:
            running.stop()

    def handle(self, _number: int, _frame: FrameType | None) -> None:
        if self._stopping:
            return
        self._stopping = True
        if self._running is None:
            raise KeyboardInterrupt
        self._running.stop()


@contextmanager
def stop_on_signals() -> Iterator[Callable[[Stoppable], None]]:
    """Inside, signals stop what was remembered; before there is one, KeyboardInterrupt is raised."""
    stopper = _Stopper()
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, stopper.handle) for number in numbers}
    try:
        yield stopper.remember
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def write_report(folder: RunFolder) -> Path:
    """Write report.html and report.md from what the folder holds; returns the page's path."""
    info, result, trials = folder.read_info(), so_far(folder), folder.read_trials()
    folder.write_report(render_html(info, result, trials), render_markdown(info, result, trials))
    return folder.path / "report.html"

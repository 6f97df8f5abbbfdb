"""Commands that measure scenarios, and how every command that measures begins and ends.

`pinchpoint run`: scenarios in, a run folder with its report out; `pinchpoint explain`: why a rate is what it is;
`pinchpoint study`: the shipped experiments, and running one of them.
"""

import functools
import signal
import sys
import textwrap
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import click
import msgspec

from pinchpoint.bench.builder import describe, plan
from pinchpoint.cli import options, program
from pinchpoint.cli.options import How, RunPath, ScenarioPath, how_options, json_option
from pinchpoint.cli.program import Program, is_run
from pinchpoint.cli.terminal import gate_of, next_step, print_table, progress, show_comparison, tell
from pinchpoint.dut.placement import chosen
from pinchpoint.dut.setup import prepare, require
from pinchpoint.engine import process
from pinchpoint.findings.answers import is_answered, why_unanswered
from pinchpoint.host.local import Local
from pinchpoint.host.machines import Machines
from pinchpoint.measure.standing import Interrupted, Stoppable
from pinchpoint.model import units as words
from pinchpoint.model.comparison import ComparisonRequest, Method
from pinchpoint.model.errors import (
    UNDECIDED,
    BenchError,
    InputError,
    PinchpointError,
    RequirementError,
    StoreError,
    choices,
)
from pinchpoint.model.result import Limit, Outcome
from pinchpoint.model.scenario import Point, Scenario, Sweep
from pinchpoint.report import render_comparison, render_html, render_markdown, render_table
from pinchpoint.run.ceiling import CeilingTest
from pinchpoint.run.checkpoint import RunContext, require_same
from pinchpoint.run.host_recovery import held
from pinchpoint.run.profile import profile_all
from pinchpoint.run.relative import References
from pinchpoint.run.run import describe_run, run_all
from pinchpoint.run.scenario import planned_lines, run_scenario
from pinchpoint.run.stored import StoredRun
from pinchpoint.scenario.keys import by_hand, chosen_by_hand
from pinchpoint.scenario.plain import from_plain, to_plain
from pinchpoint.store.campaign import is_campaign
from pinchpoint.store.folder import RunFolder, owned

Show = Callable[[RunFolder, Interrupted | None, How], int]
"""Tells what a run folder holds, and what interrupted the run; returns the exit code."""
CONTINUES = "a resumed run continues with its original options"


@click.command(short_help="Build, measure, explain, report.")
@click.argument("paths", nargs=-1, type=ScenarioPath(), metavar="SCENARIO...")
@click.option("--confirm", is_flag=True,
              help="Test each likely cause of a rate by counter-experiments, as `pinchpoint explain` "
                   "does.")  # fmt: skip
@how_options()
def run(paths: tuple[Path, ...], confirm: bool, how: How) -> int:
    """Run SCENARIO files, folders of them or shipped studies by name, one after the other.

    A file with [sweep] runs at all its points.

    Each bench is private and is removed at the end, also after errors and Ctrl-C.
    """
    if bool(paths) == bool(how.resume):
        raise InputError("give either scenario files or --resume RUN", "pinchpoint run quickstart")
    if how.resume:
        if confirm:
            raise InputError("--confirm applies to new runs only", CONTINUES)
        return resumed(how)
    if confirm and how.repeats is not None:
        raise InputError("--confirm measures every counter-experiment once", "leave out --repeats")
    wanted = program.of_paths(paths, how.quick, how.changes)
    return conduct(program.explaining(wanted, how.machines) if confirm else wanted, how)


def conduct(wanted: Program, how: How, profiles: bool = False, show: Show | None = None) -> int:
    """Run it into a new folder, and print what it found, by `show` if given; returns the exit code.

    `profiles`: also time by function.
    """
    wanted = replace(wanted.with_kernels(how.machines.lab).repeated(how.repeats), budget_s=how.budget_s)
    if not how.quiet:
        click.echo(f"{wanted.name}: {wanted.describe(how.machines)}", err=True)
    if how.dry_run:
        print_plans(wanted.units, how.machines, wanted.comparison)
        return 0
    require_any(wanted, how.machines)
    with held(how.machines, wanted.units):
        asked = (wanted.infos, wanted.study, wanted.budget_s, wanted.comparison, wanted.explains)
        folder = new_folder(how, wanted.name, wanted.units, wanted.sources, *asked)
        with owned(folder.path):
            interrupted = _measure(wanted.units, folder, how, profiles)
    return (show or _show)(folder, interrupted, how)


def new_folder(how: How, name: str, units: Sequence[Scenario], sources: Mapping[str, str], *asked: Any) -> RunFolder:
    """A run folder that holds what is to be run; `asked`: fields of RunInfo from `sweeps` on."""
    folder = RunFolder.create(how.out, name)
    plain = [to_plain(unit) for unit in units]
    folder.write_info(describe_run(how.machines.lab, folder.run_id, sys.argv, plain, sources, *asked))
    return folder


def resumed(how: How, profiles: bool = False) -> int:
    """Go on with the run folder `how.resume`, as it was asked for; returns the exit code."""
    assert how.resume is not None
    programs = {str(value) for key, value in how.settings if key in by_hand()}
    others = any(key not in by_hand() for key, _ in how.settings)
    if how.quick or others or how.repeats is not None or how.budget_s is not None:
        raise InputError("--quick, --set, --repeats and --budget apply to new runs only", CONTINUES)
    folder = RunFolder.open(how.resume)
    info = folder.read_info()
    if info.argv[1:2] == ("pilot",):
        hint = "pinchpoint pilot SCENARIO begins a new one"
        raise InputError(f"{how.resume}: a pilot cannot be resumed, because its benches no longer exist", hint)
    if is_campaign(how.resume):
        raise InputError(f"{how.resume}: the folder of a campaign", f"pinchpoint campaign --resume {how.resume}")
    units = chosen([from_plain(plain) for plain in info.scenarios], how.machines.lab)
    _require_programs(units, programs, how.resume)
    if how.dry_run:
        print_plans(units, how.machines, info.comparison)
        return 0
    require_same(info, how.machines.lab)
    if not info.sweeps:
        for unit in units:
            require(unit, how.machines)
    with held(how.machines, units), owned(folder.path):
        interrupted = _measure(units, folder, how, profiles)
    return _show(folder, interrupted, how)


def _require_programs(units: Sequence[Scenario], known: Collection[str], run: Path) -> None:
    """A run folder chooses no program that runs as root, no more than a scenario file does."""
    for key, value in sorted({choice for unit in units for choice in chosen_by_hand(unit)}):
        if value not in known:
            raise InputError(f"{run}: it was measured with {key}={value}", f"give it again: --set {key}={value}")


def require_any(wanted: Program, machines: Machines) -> None:
    """Raises RequirementError if a plain scenario, or every point of a sweep, cannot run on this machine."""
    points = [unit for unit in wanted.units if unit.point.repeat == 1]
    lacking: list[RequirementError] = []
    for point in points:
        try:
            require(point, machines)
        except RequirementError as error:
            lacking.append(error)
    if lacking and (wanted.plain or wanted.comparison or len(lacking) == len(points)):
        raise lacking[0]


def _show(folder: RunFolder, interrupted: Interrupted | None, how: How) -> int:
    stored = StoredRun(folder)
    write_report(stored)
    if interrupted:
        if how.as_json or stored.result.scenarios:
            print_stored(stored, how.as_json)
        tell(f"{interrupted.message}; {_kept(folder)}", _continues(folder))
        return interrupted.exit_code
    undecided = _print_answer(stored, how.as_json)
    code = failed(stored) or wrong(stored) or gate_of(stored) or undecided
    next_step(*next_of(stored), as_json=how.as_json)
    return code


def _print_answer(stored: StoredRun, as_json: bool) -> int:
    """What a run found, after the reason why it has no answer; returns UNDECIDED without one. A comparison has gate."""
    code = 0 if stored.info.comparison else undecided(stored)
    print_stored(stored, as_json)
    return code


def undecided(stored: StoredRun) -> int:
    """The exit code of a run without an answer, after the reasons; 0 with one."""
    explains = stored.info.explains
    if is_answered(stored.result, explains=explains):
        return 0
    for reason in why_unanswered(stored.result, explains=explains):
        tell(f"could not be decided: {reason}")
    return UNDECIDED


def next_of(stored: StoredRun) -> tuple[str, ...]:
    """The next command: finish a run, share a comparison, explain a rate or the generator, or else browse the runs."""
    info, path = stored.info, stored.folder.path
    if not stored.result.finished or stored.ended_as(Outcome.FAILED):
        return ("campaign" if is_campaign(path) else "run", "--resume", str(path))
    if info.comparison is not None:
        return ("pack", str(path))
    if info.explains:
        return ("compare", str(info.scenarios[0]["path"]), "--set-b", "KEY=VALUE")
    if len(info.scenarios) == 1 and any(scenario.rates for scenario in stored.result.scenarios):
        limits = [scenario.verdict.limit for scenario in stored.result.scenarios if scenario.verdict]
        is_generators = Limit.GENERATOR in limits  # then the device has nothing to explain
        return ("ceiling", str(info.scenarios[0]["path"])) if is_generators else ("explain", str(path))
    return ("serve", str(path.parent))


def print_stored(stored: StoredRun, as_json: bool) -> None:
    """What a run folder holds: its comparison if it measured two scenarios in turns, else its result."""
    if stored.comparison is not None:
        show_comparison(stored.comparison, as_json, stored.folder.path)
    elif as_json:
        click.echo(msgspec.json.encode(stored.result))
    else:
        print_table(render_table(stored.result, stored.info), stored.folder.path / "report.html")


def failed(stored: StoredRun, again: str = "") -> int:
    """The exit code of a run that went through to its end: some of its points may have failed; `again` resumes it."""
    lost = [scenario.scenario for scenario in stored.ended_as(Outcome.FAILED)]
    if not lost:
        return 0
    named = ", ".join(lost[:10]) + (f" and {len(lost) - 10} more" if lost[10:] else "")
    hint = f"{again or f'pinchpoint run --resume {stored.folder.path}'} tries them again"
    tell(f"{words.counted(len(lost), 'point')} failed: {named}", hint)
    return BenchError.exit_code


def wrong(stored: StoredRun) -> int:
    """The exit code of a run: whether a device does other than its scenario says."""
    wrong_ones = stored.ended_as(Outcome.WRONG)
    for scenario in wrong_ones:
        tell(f"{scenario.scenario}: the service is wrong: {scenario.reason}")
    return PinchpointError.exit_code if wrong_ones else 0


def print_plans(units: Sequence[Scenario], machines: Machines, comparison: ComparisonRequest | None = None) -> None:
    """The plan of every bench; those that stand at once are planned together."""

    def titled(unit: Scenario, lines: Iterable[str]) -> None:
        click.echo("\n".join((f"# {unit.path}: {unit.name}: {unit.title}", *lines)))

    if comparison is not None and comparison.method is not Method.TURNS:
        a, b = units
        first = prepare(a, machines)
        for unit, setup in ((a, first), (b, prepare(b, machines, beside=first))):
            titled(unit, describe(plan((), setup.resources)))
        return
    for unit in (unit for unit in units if unit.point.repeat == 1):
        try:
            titled(unit, planned_lines(prepare(unit, machines)))
        except RequirementError as error:
            titled(unit, [f"# impossible: {error}".replace("\n", "\n#   ")])


def _measure(units: Sequence[Scenario], folder: RunFolder, how: How, profiles: bool) -> Interrupted | None:
    """What interrupted the run if the user did; any other error goes up once the report is written."""
    test = None if how.no_ceiling else CeilingTest(how.machines, process.version)
    run_one = functools.partial(run_scenario, how.machines, ceiling_test=test)
    try:
        with progress(how.quiet) as listener, stop_on_signals() as remember:
            context = RunContext(how.machines, folder, listener, remember, how.await_host_s)
            with References(how.machines, units, folder, run_one) as references:
                run_all(context, units, references.run, references.require)
            if profiles:
                profile_all(context, units)
            return None
    except Interrupted as error:
        return error
    except KeyboardInterrupt as error:
        for note in getattr(error, "__notes__", ()):  # what could not be removed
            tell(note)
        return Interrupted("interrupted while building")
    except PinchpointError:
        report_as_far(folder, _continues(folder))
        raise


def report_as_far(folder: RunFolder, hint: str = "") -> None:
    """Write the report of what a run that cannot go on has measured."""
    with suppress(StoreError):  # the disk may be what failed
        write_report(StoredRun(folder))
    tell(_kept(folder), hint)


def _kept(folder: RunFolder) -> str:
    """What the folder of a run that ended early holds."""
    if folder.has_records():
        return f"finished trials are in {folder.path}"
    return f"no trial was finished; what was to be run is in {folder.path}"


def _continues(folder: RunFolder) -> str:
    return f"pinchpoint run --resume {folder.path} continues"


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


def write_report(stored: StoredRun) -> Path:
    """Write report.html and report.md from what the folder holds; returns the page's path."""
    folder, info, result, trials = stored.folder, stored.info, stored.result, stored.folder.read_trials()
    page = folder.write_page("report.html", render_html(info, result, trials, folder.read_measurements()))
    folder.write_page("report.md", render_markdown(info, result, trials))
    if stored.comparison is not None:
        folder.write_comparison(stored.comparison, render_comparison(stored.comparison))
    return page


EXAMPLE = "pinchpoint explain quickstart/3-snat-65536.toml"


@click.command(short_help="Name the cause of a rate, and confirm it.")
@click.argument("path", required=False, type=RunPath(), metavar="SCENARIO|RUN")
@click.option("--scenario", "name", metavar="NAME", help="Which scenario of a RUN that has several.")
@how_options(
    *("settings", "budget_s", "quick", "no_ceiling", "out", "resume", "dry_run", "as_json", "quiet"),
    budget_s={"default": "5m", "show_default": True,
              "help": "Start no counter-experiment that would exceed TIME in total."},
    resume="Continue an interrupted explanation.",
)  # fmt: skip
def explain(path: Path | None, name: str | None, how: How) -> int:
    """Say why the rate of SCENARIO, or of the scenario of a RUN, is what it is.

    The scenario is measured as it is. Its counters make causes likely. Then each is tested: the bench is
    changed in one respect and measured in turns with the unchanged one. A cause is confirmed if its prediction comes
    true, and excluded if it does not. Last, one trial under the highest load is sampled, if perf is permitted here: it
    divides the forwarding threads' time by function. A RUN with an explanation is only shown. Exit code 9 if no
    cause is confirmed or excluded and, where none was tested, the verdict names no limit either.
    """
    if how.resume is not None:
        if path is not None or name is not None:
            raise InputError("--resume continues an explanation with its original options", "give --resume RUN alone")
        return resumed(replace(how, quick=False, settings=(), budget_s=None), True)
    if path is None:
        raise InputError("expected a scenario file or a run folder", EXAMPLE)
    if is_run(path) and (stored := StoredRun(RunFolder.open(path))).info.explains:
        code = _print_answer(stored, how.as_json)
        next_step(*next_of(stored), as_json=how.as_json)
        return code
    scenario = _scenario(path, name, how)
    alone = Sweep(scenario.name, scenario.title, (), (scenario,), 1, "listed", 0)
    wanted = Program(f"explain-{scenario.name}"[:64], (alone,))
    return conduct(program.explaining(wanted, how.machines), how, profiles=True)


def _scenario(path: Path, name: str | None, how: How) -> Scenario:
    """The one to explain. Raises InputError."""
    if not path.is_dir():
        if name is not None:
            raise InputError("--scenario chooses one of a run's scenarios", f"pinchpoint explain {path}")
        scenarios = program.of_paths([path], how.quick, how.changes).sweeps[0].scenarios
        if len(scenarios) > 1:
            message = f"{path}: expected one scenario, found {len(scenarios)} points of a sweep"
            raise InputError(message, f"run it, then: pinchpoint explain RUN --scenario {scenarios[-1].name}")
        return scenarios[0]
    if not is_run(path):
        raise InputError(f"{path}: expected a scenario file or a run folder; this folder has no run.json", EXAMPLE)
    if how.quick or how.settings:
        what = "--quick and --set change a scenario file, and a run's scenario is as stored"
        raise InputError(what, "leave them out")
    stored = {str(plain["name"]): plain for plain in RunFolder.open(path).read_info().scenarios}
    if name is None and len(stored) > 1:
        raise InputError(f"{path} has {len(stored)} scenarios", f"--scenario {next(iter(stored))}")
    chosen = stored.get(name or next(iter(stored), ""))
    if chosen is None:
        raise InputError(f"{path} has no scenario {name}", choices(name or "", stored))
    scenario = from_plain(chosen)
    return replace(scenario, point=Point(scenario.name, {}))


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
        wrapped = functools.partial(textwrap.wrap, width=WIDTH - 2, subsequent_indent="  ", break_on_hyphens=False)
        click.echo("\n  ".join((name, *(line for text in _about(folder, machines) for line in wrapped(text)))))
    return 0


def _plain(name: str, folder: Path, machines: Machines) -> dict[str, object]:
    full, quick = program.forms_of(folder)
    groups = [{"name": sweep.group, "points": len(sweep.scenarios), "repeats": sweep.repeats} for sweep in full.sweeps]
    title, source = (full.study.title, full.study.source) if full.study else ("", "")
    times = {"expected_s": full.expected_s(machines), "quick_expected_s": quick.expected_s(machines)}
    return {"name": name, "title": title, "reproduces": source, "groups": groups, **times}


def _about(folder: Path, machines: Machines) -> list[str]:
    try:
        full, quick = program.forms_of(folder)
    except InputError as error:
        return [f"cannot be read: {problem}" for problem in str(error).splitlines()]
    length = _length(full, quick, machines)
    if full.study is None:
        return [*(f"{sweep.group}: {sweep.title}" for sweep in full.sweeps), length]
    groups = ", ".join(sweep.group for sweep in full.sweeps)
    lines = [full.study.title, f"reproduces: {full.study.source}", f"groups: {groups}", length]
    return [line for line in lines if line]


def _length(full: Program, quick: Program, machines: Machines) -> str:
    text, short_s = full.describe(machines), quick.expected_s(machines)
    sizes = {(len(form.sweeps), len(form.units)) for form in (full, quick)}
    if len(sizes) > 1 or words.duration(full.expected_s(machines)) != words.duration(short_s):
        text += f"; --quick: {quick.describe(machines)}"
    return text


@study.command(name="run", short_help="Run a study.")
@click.argument("name", required=False, metavar="[NAME]", shell_complete=options.complete_study)
@click.option("--only", type=options.groups, metavar="GROUP,...", shell_complete=options.complete_groups,
              help="These groups of the study, not all.")  # fmt: skip
@how_options()
def run_study(name: str | None, only: tuple[str, ...] | None, how: How) -> int:
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

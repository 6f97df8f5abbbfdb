"""`pinchpoint campaign`: one matrix of points, measured on many machines."""

import re
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec
from rich.console import Console
from rich.live import Live
from rich.text import Text

from pinchpoint.cli.builds import program_of
from pinchpoint.cli.options import How, how_options
from pinchpoint.cli.progress import log_every_s
from pinchpoint.cli.run import print_stored, stop_on_signals, write_report, wrong
from pinchpoint.host.local import Local
from pinchpoint.model import units
from pinchpoint.model import units as words
from pinchpoint.model.campaign import Bench, Calibration, Campaign, MachineProgress, Progress
from pinchpoint.model.errors import BenchError, InputError
from pinchpoint.model.result import Outcome
from pinchpoint.run.checkpoint import require_same
from pinchpoint.run.run import describe_run
from pinchpoint.run.stored import StoredRun
from pinchpoint.scenario.plain import to_plain
from pinchpoint.store.campaign import CampaignFolder
from pinchpoint.store.folder import RunFolder, owned, owner

if TYPE_CHECKING:
    from pinchpoint.campaign.executor import Executor
    from pinchpoint.campaign.read import Loaded

INTERRUPTED = 130


class Build(click.ParamType[tuple[str, str]]):
    """`NAME=PATH`: where a build is."""

    name = "build"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        """The build's name and its path."""
        if isinstance(value, tuple):
            return value
        name, _, path = str(value).partition("=")
        if not name or not path:
            self.fail(f"{value!r}: expected NAME=PATH, e.g. new=/opt/switch-2", param, ctx)
        return name, path


class Address(click.ParamType[str]):
    """`HOST:PORT` or `auto`: a Ray cluster that runs. Ray would start one of its own for `local`."""

    name = "address"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The address as it was given."""
        host, _, port = str(value).rpartition(":")
        if value != "auto" and (not re.fullmatch(r"[\w.-]+|\[[0-9a-fA-F:.]+\]", host) or not port.isdecimal()):
            self.fail(f"{value!r}: expected the HOST:PORT of the head of a running cluster, or auto", param, ctx)
        return str(value)


@dataclass(frozen=True)
class _How(How):
    """The options that a start of a campaign has."""

    cluster: str | None = None
    builds: tuple[tuple[str, str], ...] = ()  # name, place


@click.command(short_help="Measure a matrix of points on many machines.")
@click.argument("file", required=False, type=click.Path(dir_okay=False, path_type=Path), metavar="[FILE]")
@how_options(
    *("out", "resume", "quick", "budget_s", "no_ceiling", "dry_run", "as_json", "quiet"),
    into=_How,
    more=(
        click.option("--cluster", type=Address(), metavar="ADDRESS",
                     help="Measure on the nodes of a running Ray cluster: the HOST:PORT of its head, or auto."),
        click.option("--build", "builds", type=Build(), multiple=True, metavar="NAME=PATH",
                     help="Where a build that FILE names is: the program, or the folder it was built or installed "
                          "into; the same on every machine. May be given several times."),
    ),
    resume={"metavar": "CAMPAIGN", "help": "Continue an interrupted campaign; what is finished is not measured again."},
    budget_s="Take at most TIME, whatever FILE says.",
    dry_run="Print points, time, machines and cost, and stop.",
    as_json="Print result.json, or the plan, instead of tables.",
)  # fmt: skip
def campaign(file: Path | None, how: _How) -> int:
    """Measure the campaign FILE: scenarios x variants x builds, on this machine, on hosts by ssh or on a Ray cluster.

    Machines that vanish cost the time of the units that they measured, which others measure again. Results are in one
    run folder: show, report, serve, export and compare read it.
    """
    if (file is None) is (how.resume is None):
        raise InputError("give either a campaign file or --resume CAMPAIGN", "docs/campaigns.md has an example")
    if how.resume is not None:
        if how.quick or how.budget_s is not None or how.dry_run:
            raise InputError(
                "--quick, --budget and --dry-run apply to new campaigns only",
                "a resumed campaign continues with its original options",
            )
        return _resumed(how.resume, how)
    assert file is not None
    loaded = _loaded(file, dict(how.builds), how.quick, not how.no_ceiling)
    if how.budget_s is not None:
        loaded = replace(loaded, campaign=replace(loaded.campaign, budget_s=how.budget_s))
    if how.dry_run:
        return _planned(loaded.campaign, how)
    _require_ready(loaded.campaign, how)
    folder = RunFolder.create(how.out, loaded.campaign.name[:64])
    plain = [to_plain(scenario) for scenario in loaded.scenarios]
    asked = loaded.campaign
    folder.write_info(
        describe_run(Local(), folder.run_id, sys.argv, plain, loaded.sources, asked.sweeps, budget_s=asked.budget_s)
    )
    made = CampaignFolder(folder)
    made.write_campaign(asked)
    return _conducted(made, how)


def _loaded(file: Path, builds: Mapping[str, str], quick: bool, ceiling: bool) -> "Loaded":
    from contextlib import ExitStack

    from pinchpoint.campaign.read import load

    with ExitStack() as stack:

        def program_at(build: str, program: str) -> str:
            if build not in builds:
                raise InputError(f"build {build}: where is it?", f"--build {build}=PATH")
            path = Path(builds[build])
            if path.suffix == ".deb":
                raise InputError(f"--build {build}={path}: a package is unpacked here only", "give a folder")
            if not path.exists():  # of the machines that measure
                if not path.is_absolute():
                    raise InputError(f"--build {build}={path}: no such program or folder", "give its absolute path")
                return str(path)
            return str(program_of(path, program, stack))

        loaded = load(file, program_at, quick, ceiling)
    if unused := [name for name in builds if name not in loaded.builds]:
        raise InputError(f"--build {unused[0]}: {file} has no such build", "see `builds` there")
    return loaded


def _resumed(path: Path, how: _How) -> int:
    folder = CampaignFolder.open(path)
    asked = folder.read_campaign()
    if owner(path) is not None:
        raise InputError(f"{path}: it is being measured", "wait, or stop it first")
    _require_builds(asked, dict(how.builds), path)
    if how.cluster is None:
        if others := folder.elsewhere(asked):
            hint = f"{_again(path, how)} --cluster ADDRESS"
            raise InputError(f"{path}: it was measured on a cluster, on {', '.join(others[:8])}", hint)
        require_same(folder.run.read_info(), Local())
    _require_ready(asked, how)
    return _conducted(folder, how)


def _require_builds(asked: Campaign, builds: Mapping[str, str], path: Path) -> None:
    """A folder chooses no program that runs as root, no more than a campaign file does."""
    units = (*asked.units, *([asked.control.unit] if asked.control else []))
    for program in sorted({value for unit in units for value in unit.programs.values()}):
        if not any(program == build or program.startswith(build.rstrip("/") + "/") for build in builds.values()):
            raise InputError(f"{path}: it measures {program}", f"give it again: --build NAME={program}")


def _again(path: Path, how: _How) -> str:
    """The command that resumes it, with the options that it needs again."""
    cluster = ["--cluster", how.cluster] if how.cluster else []
    builds = [word for name, place in how.builds for word in ("--build", f"{name}={place}")]
    return shlex.join(["pinchpoint", "campaign", "--resume", str(path), *cluster, *builds])


def _require_ready(asked: Campaign, how: _How) -> None:
    """Before anything is made: whether there are machines to ask."""
    if how.cluster is None:
        from pinchpoint.campaign.read import benches_here

        benches_here(asked)
    else:
        from pinchpoint.campaign.cluster import require_ray

        require_ray()


def _executor(folder: CampaignFolder, asked: Campaign, how: _How) -> "Executor":
    if how.cluster is None:
        from pinchpoint.campaign.processes import Processes
        from pinchpoint.campaign.read import benches_here

        return Processes(folder, benches_here(asked))
    from pinchpoint.campaign.cluster import Cluster

    return Cluster(how.cluster, asked)


def _conducted(folder: CampaignFolder, how: _How) -> int:
    from pinchpoint.campaign.conduct import Conduct

    asked, info = folder.read_campaign(), folder.run.read_info()
    with owned(folder.path), shown(how.quiet) as show:
        conduct = Conduct(asked, info, folder, _executor(folder, asked, how), show, again=_again(folder.path, how))
        try:
            with stop_on_signals() as remember:
                remember(conduct)
                conduct.run()
        except BaseException:
            click.echo(f"pinchpoint: what was measured is in {folder.path}", err=True)
            raise
    stored = StoredRun(folder.run)
    if stored.result.scenarios:
        write_report(stored)
    print_stored(stored, how.as_json)
    if not how.as_json:
        _print_calibration(folder.read_calibration())
    return _code(folder, conduct.is_stopped(), how)


def _code(folder: CampaignFolder, stopped: bool, how: _How) -> int:
    result = folder.run.read_result()
    assert result is not None, "a campaign writes it as it ends"
    tally = folder.tally(folder.read_campaign())
    for machine, reason in tally.excluded.items():
        click.echo(f"pinchpoint: {machine} was excluded: {reason}", err=True)
    for machine, reason in tally.uncontrolled.items():
        if machine not in tally.excluded:
            click.echo(
                f"pinchpoint: {machine}: its control scenario failed, so its drift is unknown: {reason}", err=True
            )
    again = _again(folder.path, how)
    if stopped:
        click.echo(f"pinchpoint: interrupted; what was measured is in {folder.path}\n  hint: {again}", err=True)
        return INTERRUPTED
    if lost := [scenario.scenario for scenario in result.scenarios if scenario.outcome is Outcome.FAILED]:
        named = ", ".join(lost[:10]) + (f" and {len(lost) - 10} more" if len(lost) > 10 else "")
        told = f"pinchpoint: {words.counted(len(lost), 'measurement')} failed: {named}"
        click.echo(f"{told}\n  hint: {again} tries them again", err=True)
        return BenchError.exit_code
    code = wrong(StoredRun(folder.run))
    if code == 0 and not any(scenario.outcome is Outcome.MEASURED for scenario in result.scenarios):
        click.echo(f"pinchpoint: nothing was measured\n  hint: pinchpoint show {folder.path} has the reasons", err=True)
        return BenchError.exit_code
    return code


def _print_calibration(calibration: Calibration | None) -> None:
    if calibration is None or not calibration.factors:
        return
    click.echo(f"Machines at equal points, over the median one ({calibration.confidence * 100:g} %):")
    for factor in calibration.factors:
        click.echo(
            f"  {factor.machine}: {factor.factor:.3f} ({factor.low:.3f} to {factor.high:.3f}), {factor.n} figures"
        )


def _planned(asked: Campaign, how: _How) -> int:
    """Points, time, machines and cost; nothing is built."""
    from pinchpoint.campaign.schedule import plan_of

    benches = _benches(asked, how)
    plan = plan_of(asked, benches)
    if how.as_json:
        click.echo(msgspec.json.encode(plan))
        return 0
    click.echo(f"{asked.name}: {words.counted(plan.points, 'point')}, {words.counted(plan.units, 'measurement')}")
    for group in plan.groups:
        on = f", on {_listed(group.machines)}" if group.machines and len(benches) > 1 else ""
        click.echo(f"  {group.name}: {words.counted(group.units, 'measurement')}, {words.duration(group.work_s)}{on}")
    for name, reason in zip(plan.impossible, plan.reasons, strict=True):
        click.echo(f"  {name} cannot be measured: {reason}")
    click.echo(f"{words.counted(len(benches), 'machine')}: {_listed(plan.machines)}")
    click.echo(
        f"about {words.duration(plan.work_s)} of measuring, {words.duration(plan.makespan_s)} in all; "
        f"cost {plan.cost:.4g}"
    )
    if plan.skipped:
        click.echo(f"the budget leaves out {words.counted(plan.skipped, 'measurement')}")
    return 0


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:8]) + (" ..." if len(names) > 8 else "")


def _benches(asked: Campaign, how: _How) -> Sequence[Bench]:
    if how.cluster is None:
        from pinchpoint.campaign.read import benches_here

        return benches_here(asked)
    from pinchpoint.campaign.cluster import nodes_of

    return nodes_of(how.cluster, asked)


_MOST = 6  # machines that are named
Show = Callable[[Progress], None]


@contextmanager
def shown(quiet: bool) -> Iterator[Show]:
    """What shows the progress of a campaign, on stderr."""
    console = Console(stderr=True, highlight=False)
    if quiet:
        yield lambda _: None
    elif console.is_terminal:
        with Live(console=console, auto_refresh=False, transient=True) as live:
            yield lambda progress: live.update(Text(line(progress), overflow="ellipsis", no_wrap=True), refresh=True)
    else:
        yield _Log(log_every_s()).show


class _Log:
    def __init__(self, every_s: float) -> None:
        self._every_s = every_s
        self._began_s = self._next_s = time.monotonic()

    def show(self, progress: Progress) -> None:
        now_s = time.monotonic()
        if now_s >= self._next_s:
            self._next_s = now_s + self._every_s
            print(f"[{now_s - self._began_s:7.1f} s] {line(progress)}", file=sys.stderr, flush=True)


def line(progress: Progress) -> str:
    """Everything worth knowing now, in one line."""
    parts = [f"{progress.measured} of {progress.units} measured"]
    parts += [f"{progress.left_out} left out"] if progress.left_out else []
    parts += [f"{progress.withdrawn} to be measured again"] if progress.withdrawn else []
    parts += [f"about {units.duration(progress.left_s)} left"] if progress.left_s and progress.left_s >= 1 else []
    parts += [f"cost {progress.cost:.4g}"] if progress.cost else []
    busy = [machine for machine in progress.machines if machine.state != "gone"]
    parts += [_machine(machine) for machine in busy[:_MOST]]
    parts += [f"{len(busy) - _MOST} more machines"] if len(busy) > _MOST else []
    return "  ·  ".join(parts)


def _machine(machine: MachineProgress) -> str:
    return f"{machine.name}: {machine.unit or machine.state}"

"""`pinchpoint campaign`: one matrix of points, measured on many machines."""

import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from pinchpoint.cli.builds import program_of
from pinchpoint.cli.campaign_progress import shown
from pinchpoint.cli.parameters import Duration
from pinchpoint.cli.run import print_stored, stop_on_signals, write_report, wrong
from pinchpoint.host.local import Local
from pinchpoint.model import units as words
from pinchpoint.model.campaign import Bench, Calibration, Campaign
from pinchpoint.model.errors import BenchError, InputError
from pinchpoint.model.result import Outcome
from pinchpoint.run.run import describe_run
from pinchpoint.run.same import require_same
from pinchpoint.scenario.plain import to_plain
from pinchpoint.store.campaign import CampaignFolder
from pinchpoint.store.folder import RunFolder
from pinchpoint.store.owner import owned, owner

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
class _How:
    """The options that a start of a campaign has."""

    cluster: str | None
    as_json: bool
    quiet: bool
    builds: Mapping[str, str] = field(default_factory=dict)  # by name, where each is


@click.command(short_help="Measure a matrix of points on many machines.")
@click.argument("file", required=False, type=click.Path(dir_okay=False, path_type=Path), metavar="[FILE]")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default="runs",
    show_default=True,
    help="Folder below which the campaign's folder is made; an existing one is never overwritten.",
)
@click.option(
    "--resume",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="CAMPAIGN",
    help="Continue an interrupted campaign; what is finished is not measured again.",
)
@click.option(
    "--cluster",
    type=Address(),
    metavar="ADDRESS",
    help="Measure on the nodes of a running Ray cluster: the HOST:PORT of its head, or auto.",
)
@click.option(
    "--build",
    "builds",
    type=Build(),
    multiple=True,
    metavar="NAME=PATH",
    help="Where a build that FILE names is: the program, or the folder it was built or installed into; the "
    "same on every machine. May be given several times.",
)
@click.option("--quick", is_flag=True, help="The short form that the scenario files define.")
@click.option("--budget", "budget_s", type=Duration(), metavar="TIME", help="Take at most TIME, whatever FILE says.")
@click.option("--no-ceiling", is_flag=True, help="Do not measure what the engine itself reaches without the device.")
@click.option("--dry-run", is_flag=True, help="Print points, time, machines and cost, and stop.")
@click.option("--json", "as_json", is_flag=True, help="Print result.json, or the plan, instead of tables.")
@click.option("-q", "--quiet", is_flag=True, help="No progress display.")  # fmt: skip
def campaign(
    file: Path | None,
    out: Path,
    resume: Path | None,
    cluster: str | None,
    builds: tuple[tuple[str, str], ...],
    quick: bool,
    budget_s: float | None,
    no_ceiling: bool,
    dry_run: bool,
    as_json: bool,
    quiet: bool,
) -> int:
    """Measure the campaign FILE: scenarios x variants x builds, on this machine, on hosts by ssh or on a Ray cluster.

    Machines that vanish cost the time of the units that they measured, which others measure again. Results are in one
    run folder: show, report, serve, export and compare read it.
    """
    how = _How(cluster, as_json, quiet, dict(builds))
    if (file is None) is (resume is None):
        raise InputError("give either a campaign file or --resume CAMPAIGN", "docs/campaigns.md has an example")
    if resume is not None:
        if quick or budget_s is not None or dry_run:
            raise InputError(
                "--quick, --budget and --dry-run apply to new campaigns only",
                "a resumed campaign continues with its original options",
            )
        return _resumed(resume, how)
    assert file is not None
    loaded = _loaded(file, dict(builds), quick, not no_ceiling)
    if budget_s is not None:
        loaded = replace(loaded, campaign=replace(loaded.campaign, budget_s=budget_s))
    if dry_run:
        return _planned(loaded.campaign, how)
    _require_ready(loaded.campaign, how)
    folder = RunFolder.create(out, loaded.campaign.name[:64])
    plain = [to_plain(one) for one in loaded.scenarios]
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
    _require_builds(asked, how.builds, path)
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
        if not any(program == given or program.startswith(given.rstrip("/") + "/") for given in builds.values()):
            raise InputError(f"{path}: it measures {program}", f"give it again: --build NAME={program}")


def _again(path: Path, how: _How) -> str:
    """The command that resumes it, with the options that it needs again."""
    cluster = ["--cluster", how.cluster] if how.cluster else []
    builds = [word for name, place in how.builds.items() for word in ("--build", f"{name}={place}")]
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
    if folder.run.read_result() is not None:
        write_report(folder.run)
    print_stored(folder.run, how.as_json)
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
    if lost := [one.scenario for one in result.scenarios if one.outcome is Outcome.FAILED]:
        named = ", ".join(lost[:10]) + (f" and {len(lost) - 10} more" if len(lost) > 10 else "")
        told = f"pinchpoint: {words.counted(len(lost), 'measurement')} failed: {named}"
        click.echo(f"{told}\n  hint: {again} tries them again", err=True)
        return BenchError.exit_code
    code = wrong(folder.run)
    if code == 0 and not any(one.outcome is Outcome.MEASURED for one in result.scenarios):
        click.echo(f"pinchpoint: nothing was measured\n  hint: pinchpoint show {folder.path} has the reasons", err=True)
        return BenchError.exit_code
    return code


def _print_calibration(found: Calibration | None) -> None:
    if found is None or not found.factors:
        return
    click.echo(f"Machines at equal points, over the median one ({found.confidence * 100:g} %):")
    for one in found.factors:
        click.echo(f"  {one.machine}: {one.factor:.3f} ({one.low:.3f} to {one.high:.3f}), {one.n} figures")


def _planned(asked: Campaign, how: _How) -> int:
    """Points, time, machines and cost; nothing is built."""
    from pinchpoint.campaign.plan import plan_of

    benches = _benches(asked, how)
    found = plan_of(asked, benches)
    if how.as_json:
        click.echo(msgspec.json.encode(found))
        return 0
    click.echo(f"{asked.name}: {words.counted(found.points, 'point')}, {words.counted(found.units, 'measurement')}")
    for group in found.groups:
        on = f", on {_listed(group.machines)}" if group.machines and len(benches) > 1 else ""
        click.echo(f"  {group.name}: {words.counted(group.units, 'measurement')}, {words.duration(group.work_s)}{on}")
    for name, reason in zip(found.impossible, found.reasons, strict=True):
        click.echo(f"  {name} cannot be measured: {reason}")
    click.echo(f"{words.counted(len(benches), 'machine')}: {_listed(found.machines)}")
    click.echo(
        f"about {words.duration(found.work_s)} of measuring, {words.duration(found.makespan_s)} in all; "
        f"cost {found.cost:.4g}"
    )
    if found.skipped:
        click.echo(f"the budget leaves out {words.counted(found.skipped, 'measurement')}")
    return 0


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:8]) + (" ..." if len(names) > 8 else "")


def _benches(asked: Campaign, how: _How) -> Sequence[Bench]:
    if how.cluster is None:
        from pinchpoint.campaign.read import benches_here

        return benches_here(asked)
    from pinchpoint.campaign.cluster import nodes_of

    return nodes_of(how.cluster, asked)

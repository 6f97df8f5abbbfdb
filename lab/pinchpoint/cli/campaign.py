"""`pinchpoint campaign`: one matrix of points, measured on many machines."""

import re
import shlex
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import click
import msgspec

from pinchpoint.campaign.cluster import Cluster, nodes_of, require_ray
from pinchpoint.campaign.executor import INTERRUPTED, Executor, Processes
from pinchpoint.campaign.read import Loaded, benches_here, load
from pinchpoint.cli.options import NEW_FILE, PACKAGE, How, how_options, pair_of_words, program_of
from pinchpoint.cli.program import note_if_long
from pinchpoint.cli.run import (
    failed,
    new_folder,
    next_of,
    print_stored,
    stop_on_signals,
    undecided,
    write_report,
    wrong,
)
from pinchpoint.cli.terminal import campaign_progress, next_step, tell
from pinchpoint.host.local import Local
from pinchpoint.model import units as words
from pinchpoint.model.campaign import Calibration, Campaign
from pinchpoint.model.errors import BenchError, InputError
from pinchpoint.model.result import Outcome
from pinchpoint.run.checkpoint import require_same
from pinchpoint.run.stored import StoredRun
from pinchpoint.store.campaign import CampaignFolder
from pinchpoint.store.folder import owned, owner


def _address(text: str) -> str:
    """`HOST:PORT` or `auto`: a Ray cluster that runs. Ray would start one of its own for `local`."""
    host, _, port = text.rpartition(":")
    if text != "auto" and (not re.fullmatch(r"[\w.-]+|\[[0-9a-fA-F:.]+\]", host) or not port.isdecimal()):
        raise click.BadParameter(f"{text!r}: expected the HOST:PORT of the head of a running cluster, or auto")
    return text


@dataclass(frozen=True)
class _How(How):
    """The options that a start of a campaign has."""

    cluster: str | None = None
    builds: tuple[tuple[str, str], ...] = ()  # name, place


@click.command(short_help="Measure a matrix of points on many machines.")
@click.argument("file", required=False, type=NEW_FILE, metavar="[FILE]")
@how_options(
    *("out", "resume", "quick", "budget_s", "no_ceiling", "dry_run", "as_json", "quiet"),
    into=_How,
    more=(
        click.option("--cluster", type=_address, metavar="ADDRESS",
                     help="Measure on the nodes of a running Ray cluster: the HOST:PORT of its head, or auto."),
        click.option("--build", "builds", type=pair_of_words("NAME=PATH, e.g. new=/opt/switch-2"), multiple=True,
                     metavar="NAME=PATH",
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

    What a machine that vanishes was measuring is measured again on another. Results are in one run folder:
    show, report, serve, export and compare read it.
    """
    if (file is None) is (how.resume is None):
        raise InputError("give either a campaign file or --resume CAMPAIGN", "docs/campaigns.md has an example")
    if how.resume is not None:
        if how.quick or how.budget_s is not None or how.dry_run:
            hint = "a resumed campaign continues with its original options"
            raise InputError("--quick, --budget and --dry-run apply to new campaigns only", hint)
        return _resumed(how.resume, how)
    assert file is not None
    loaded = _loaded(file, dict(how.builds), how.quick, not how.no_ceiling)
    asked = loaded.campaign if how.budget_s is None else replace(loaded.campaign, budget_s=how.budget_s)
    if how.dry_run:
        return _planned(asked, how)
    _require_ready(asked, how)
    folder = new_folder(how, asked.name[:64], loaded.scenarios, loaded.sources, asked.sweeps, None, asked.budget_s)
    made = CampaignFolder(folder)
    made.write_campaign(asked)
    return _conducted(made, how)


def _loaded(file: Path, builds: Mapping[str, str], quick: bool, ceiling: bool) -> Loaded:
    with ExitStack() as stack:

        def program_at(build: str, program: str) -> str:
            if build not in builds:
                raise InputError(f"build {build}: where is it?", f"--build {build}=PATH")
            path = Path(builds[build])
            if path.suffix == PACKAGE:
                raise InputError(f"--build {build}={path}: a package is unpacked here only", "give a folder")
            if not path.exists() and not path.is_absolute():  # it may be one of the machines that measure
                raise InputError(f"--build {build}={path}: no such program or folder", "give its absolute path")
            return str(program_of(path, program, stack) if path.exists() else path)

        loaded = load(file, program_at, quick, ceiling)
        if quick:
            note_if_long(loaded.scenarios, lambda: load(file, program_at, False, ceiling).scenarios)
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
        benches_here(asked)
    else:
        require_ray()


def _executor(folder: CampaignFolder, asked: Campaign, how: _How) -> Executor:
    return Processes(folder, benches_here(asked)) if how.cluster is None else Cluster(how.cluster, asked)


def _conducted(folder: CampaignFolder, how: _How) -> int:
    from pinchpoint.campaign.conduct import Conduct  # numpy is not to be imported by `pinchpoint --help`

    asked, info = folder.read_campaign(), folder.run.read_info()
    with owned(folder.path), campaign_progress(how.quiet) as show:
        conduct = Conduct(asked, info, folder, _executor(folder, asked, how), show, again=_again(folder.path, how))
        try:
            with stop_on_signals() as remember:
                remember(conduct)
                conduct.run()
        except BaseException:
            tell(f"what was measured is in {folder.path}")
            raise
    stored = StoredRun(folder.run)
    if stored.result.scenarios:
        write_report(stored)
    print_stored(stored, how.as_json)
    if not how.as_json:
        _print_calibration(folder.read_calibration())
    return _code(folder, stored, conduct.is_stopped(), how)


def _code(folder: CampaignFolder, stored: StoredRun, stopped: bool, how: _How) -> int:
    tally = folder.tally(folder.read_campaign())
    for machine, reason in tally.excluded.items():
        tell(f"{machine} was excluded: {reason}")
    for machine, reason in tally.uncontrolled.items():
        if machine not in tally.excluded:
            tell(f"{machine}: its control scenario failed, so its drift is unknown: {reason}")
    again = _again(folder.path, how)
    if stopped:
        tell(f"interrupted; what was measured is in {folder.path}", again)
        return INTERRUPTED
    if code := failed(stored, again) or wrong(stored):
        return code
    if not stored.ended_as(Outcome.MEASURED):
        tell("nothing was measured", f"pinchpoint show {folder.path} has the reasons")
        return BenchError.exit_code
    code = undecided(stored)
    next_step(*next_of(stored), as_json=how.as_json)
    return code


def _print_calibration(calibration: Calibration | None) -> None:
    if calibration is None or not calibration.factors:
        return
    click.echo(f"Machines at equal points, over the median one ({calibration.confidence * 100:g} %):")
    for factor in calibration.factors:
        interval = f"{factor.factor:.3f} ({factor.low:.3f} to {factor.high:.3f})"
        click.echo(f"  {factor.machine}: {interval}, {factor.n} figures")


def _planned(asked: Campaign, how: _How) -> int:
    """Points, time, machines and cost; nothing is built."""
    from pinchpoint.campaign.schedule import plan_of

    benches = benches_here(asked) if how.cluster is None else nodes_of(how.cluster, asked)
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
    whole = f"{words.duration(plan.makespan_s)} in all; cost {plan.cost:.4g}"
    click.echo(f"about {words.duration(plan.work_s)} of measuring, {whole}")
    if plan.skipped:
        click.echo(f"the budget leaves out {words.counted(plan.skipped, 'measurement')}")
    return 0


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:8]) + (" ..." if len(names) > 8 else "")

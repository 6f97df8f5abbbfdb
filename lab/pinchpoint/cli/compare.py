"""`pinchpoint compare`: two scenarios or two builds measured at once or in turns, or two stored runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import click

from pinchpoint.cli.options import How, RunPath, duration, gathered, how_options, setting
from pinchpoint.cli.program import Program
from pinchpoint.cli.run import conduct, print_stored, resumed
from pinchpoint.cli.terminal import gate, gate_of, show_comparison
from pinchpoint.dut.requirements import lacking_together
from pinchpoint.model import former
from pinchpoint.model.comparison import ComparisonRequest, Method
from pinchpoint.model.duet import FORWARDED
from pinchpoint.model.errors import InputError
from pinchpoint.model.scenario import Point, Sweep
from pinchpoint.report import render_comparison
from pinchpoint.run.comparison import BUILDING_S, CALIBRATING_S, SHORTEST_S
from pinchpoint.run.paired_benches import require_duet, why_no_duet
from pinchpoint.run.stored import StoredRun, compare_folders, require_alike
from pinchpoint.scenario import load_sweep
from pinchpoint.scenario.plain import to_plain
from pinchpoint.store.folder import RunFolder

SLICES_S = 60.0  # of alternating slices: 7.5 s for each of the pairs of benches
BENCHES = 8  # times that a duet builds both: an interval at 95 % needs 6
PAIRS = 8  # an interval at 95 % needs 6: two may be lost to the host
EXAMPLE = "pinchpoint compare forward.toml --set-b dut.smc=true"
AUTO = "auto"
Settings = tuple[tuple[str, object], ...]


@dataclass(frozen=True)
class Wanted:
    """The arguments of the comparison."""

    paths: tuple[Path, ...] = ()
    set_a: Settings = ()
    set_b: Settings = ()
    pairs: int | None = None
    metrics: tuple[str, ...] = ()
    margin: float | None = None  # shares
    fail_if_worse: float | None = None
    method: str = AUTO
    slices_s: float | None = None
    benches: int | None = None


def as_share(context: click.Context, option: click.Parameter, percent: float | None) -> float | None:
    """The value of an option in percent, as a share."""
    return None if percent is None else percent / 100


METHODS = (
    click.option("--pairs", type=click.IntRange(1, 1000), metavar="N",
                 help="Measure N pairs in turns, A B B A A B ... An interval needs at least 6. "
                      f"[default in turns: {PAIRS}]"),
    click.option("--method", type=click.Choice([AUTO, *map(str, Method)]), default=AUTO, show_default=True,
                 help="duet: build both benches at once and overload them in alternating slices of some milliseconds. "
                      "turns: measure one after the other, each on a new bench. auto: a duet where possible; otherwise "
                      "turns, and the output gives the reason."),
    click.option("--slices", "slices_s", type=duration, metavar="TIME",
                 help=f"Total length of a duet's slices. [default: {SLICES_S:g}s]"),
    click.option("--benches", type=click.IntRange(1, 100), metavar="N",
                 help="Build both benches of a duet N times: even two of one file differ. An interval at 95 % needs 6. "
                      f"[default: {BENCHES}]"),
    click.option("--metric", "metrics", type=former.metric, multiple=True, metavar="M",
                 help="Judge this metric instead of the measure's main one. May be given several times."),
)  # fmt: skip
"""What is compared, and by which method, whatever is compared."""


@click.command(short_help="Compare two scenarios, builds or stored runs.")
@gathered(
    Wanted,
    "wanted",
    click.argument("paths", nargs=-1, type=RunPath(), metavar="A [B]"),
    click.option("--set-a", type=setting, multiple=True, metavar="KEY=VALUE",
                 help="Change a key of A, as --set does."),
    click.option("--set-b", type=setting, multiple=True, metavar="KEY=VALUE",
                 help="Change a key of B, e.g. dut.smc=true or dut.vswitchd=/path/to/a/build."),
    *METHODS,
    click.option("--margin", type=click.FloatRange(0, 100, min_open=True), metavar="PERCENT", callback=as_share,
                 help="The largest difference that does not matter: the verdict says whether A and B are the same "
                      "within it."),
    click.option("--fail-if-worse", type=click.FloatRange(0, 100), metavar="PERCENT", callback=as_share,
                 help="Exit with code 8 if B is worse by more than PERCENT with its whole interval; with 9 if that "
                      "cannot be decided, without a ratio or with fewer than six builds of each."),
)  # fmt: skip
@how_options(
    *("settings", "budget_s", "no_ceiling", "quick", "resume", "dry_run", "as_json", "quiet"),
    settings="Change a key of both.",
    budget_s="Spend at most TIME (90s, 10m, 1h30m): on a duet's slices, or on whole pairs, at most --pairs of them.",
    resume="Continue an interrupted comparison.",
    as_json="Print comparison.json instead of tables.",
)
@click.option(
    "--out",
    "place",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Create the run folder in DIR. [default: runs] With two stored runs: create a folder in DIR with "
    "comparison.json and comparison.html.",
)
def compare(wanted: Wanted, how: How, place: Path | None) -> int:
    """Compare A with B: what differs between their benches, and by how much their numbers differ.

    Two scenario files, or one with --set-b, are measured at once: one engine overloads both benches in
    alternating slices. Where that is not possible, they are measured in turns, each time on a new bench.
    Two run folders are compared as stored.
    """
    if how.resume is not None:
        if wanted != Wanted():
            raise InputError(
                "--resume continues a comparison with its original options", "give --resume RUN without other arguments"
            )
        return resumed(how)
    if place is not None:
        how = replace(how, out=place)
    runs = [path for path in wanted.paths if (path / "run.json").is_file()]
    if runs:
        return _stored(wanted, how, place, runs)
    program = both(wanted, how)
    if program.comparison and program.comparison.why and not how.quiet:
        click.echo(f"in turns, not as a duet: {program.comparison.why}", err=True)
    return conduct(program, how)


def both(wanted: Wanted, how: How) -> Program:
    """The two scenarios as one run. Raises InputError if they are not two, are not measured alike, or as asked for."""
    paths = wanted.paths
    if not 1 <= len(paths) <= 2 or (len(paths) == 1 and not wanted.set_a and not wanted.set_b):
        raise InputError("expected two scenario files, one scenario file with --set-b, or two run folders", EXAMPLE)
    files = {"A": paths[0], "B": paths[-1]}
    if folders := [path for path in files.values() if path.is_dir()]:
        raise InputError(
            f"{folders[0]}: expected a scenario file or a run folder; this folder has no run.json", EXAMPLE
        )
    own = {"A": dict(wanted.set_a), "B": dict(wanted.set_b)}
    a, b = (_side(label, files[label], {**how.changes, **own[label]}, how.quick) for label in "AB")
    require_alike(to_plain(a.scenarios[0]), to_plain(b.scenarios[0]))
    request = requested(wanted, how, a, b)
    a, b = (replace(scenario, repeats=request.pairs) for scenario in (a, b))
    return Program(f"compare-{paths[0].stem}"[:64], (a, b), comparison=request)


def requested(wanted: Wanted, how: How, a: Sweep, b: Sweep) -> ComparisonRequest:
    """What is to be measured, and by which method. Raises InputError or RequirementError for an impossible one."""
    in_turns = ComparisonRequest(
        a.group, b.group, wanted.pairs or PAIRS, wanted.metrics, wanted.margin, wanted.fail_if_worse
    )
    scenarios = a.scenarios[0], b.scenarios[0]
    if wanted.method == Method.TURNS:
        return in_turns
    if why := _asks_for_turns(wanted):
        if wanted.method != AUTO:
            raise InputError(f"no {wanted.method}: {why}", "leave out --method, or the option that needs turns")
        return replace(in_turns, why=why)
    if wanted.method == AUTO:
        if why := why_no_duet(*scenarios):
            return replace(in_turns, why=why)
        if lacking := lacking_together(*scenarios, how.machines):
            return replace(in_turns, why=f"{lacking.message} (hint: {lacking.hint})")
    require_duet(how.machines, *scenarios)
    benches, slices_s = _lengths(wanted, how.budget_s)
    at_once = replace(in_turns, pairs=1, slices_s=slices_s, benches=benches, may_fall_back=wanted.method == AUTO)
    if wanted.method == Method.TRIALS:
        return replace(at_once, method=Method.TRIALS, metrics=())
    return replace(at_once, method=Method.DUET, metrics=(FORWARDED,))


def _lengths(wanted: Wanted, budget_s: float | None) -> tuple[int, float]:
    """How many times both benches are built, and seconds of slices; a budget is held by the clock (BuildTime)."""
    benches = wanted.benches or BENCHES
    if budget_s is None:
        return benches, wanted.slices_s or SLICES_S
    return benches, wanted.slices_s or max(SHORTEST_S, budget_s - CALIBRATING_S - BUILDING_S)


def _asks_for_turns(wanted: Wanted) -> str:
    """Which option only turns can follow; empty if there is none."""
    if wanted.pairs:
        return "--pairs needs turns"
    others = [name for name in wanted.metrics if name != FORWARDED]
    return f"a duet measures only the {FORWARDED}, not {others[0]}" if others else ""


def _side(label: str, path: Path, changes: Mapping[str, object], quick: bool) -> Sweep:
    """A or B as a group of one point; raises InputError if the file makes several."""
    sweep = load_sweep(path, quick, changes)
    if len(sweep.scenarios) > 1:
        raise InputError(
            f"{path}: expected one scenario, found {len(sweep.scenarios)} points of a sweep",
            "copy the file without [[sweep.factor]] and [[sweep.point]], and give the level with --set",
        )
    (scenario,) = sweep.scenarios
    group, title = f"{label}-{path.stem}", f"{label}: {scenario.title}"
    scenario = replace(scenario, name=group, title=title, point=Point(group, {}))
    return replace(sweep, group=group, title=title, scenarios=(scenario,), order="in turns")


def _stored(wanted: Wanted, how: How, out: Path | None, runs: Sequence[Path]) -> int:
    """Two stored runs, or what one stored comparison found."""
    others = [path for path in wanted.paths if path not in runs]
    if others:
        raise InputError(
            f"{runs[0]} is a run folder and {others[0]} is not: expected two run folders",
            "pinchpoint compare RUN1 RUN2",
        )
    options = {"--set-a": wanted.set_a, "--set-b": wanted.set_b, "--set": how.settings, "--pairs": wanted.pairs,
             "--slices": wanted.slices_s, "--benches": wanted.benches, "--method": wanted.method != AUTO,
             "--budget": how.budget_s, "--quick": how.quick, "--dry-run": how.dry_run}  # fmt: skip
    if new := [name for name, value in options.items() if value]:
        raise InputError(f"{', '.join(new)}: only for a new measurement, but {runs[0]} is a run folder", "leave it out")
    if len(runs) == 1:
        folder = RunFolder.open(runs[0])
        if folder.read_info().comparison is None:
            raise InputError(f"{runs[0]}: expected a second run folder", "pinchpoint compare RUN1 RUN2")
        stored = StoredRun(folder)
        print_stored(stored, how.as_json)
        return gate_of(stored)
    if len(runs) > 2:
        raise InputError(f"expected two run folders, found {len(runs)}", "pinchpoint trend compares many runs")
    comparison = compare_folders(RunFolder.open(runs[0]), RunFolder.open(runs[1]), wanted.metrics, wanted.margin)
    place: Path | None = None
    if out is not None:
        folder = RunFolder.create(out, f"compare-{runs[0].name}"[:100])
        folder.write_comparison(comparison, render_comparison(comparison))
        place = folder.path
    show_comparison(comparison, how.as_json, place)
    return gate(comparison, wanted.fail_if_worse)

"""`pinchpoint compare`: two scenarios or two builds measured at once or in turns, or two stored runs.

And `pinchpoint ci`: does HEAD make the device slower than BASE? Answers that a CI system reads.
"""

import math
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import click

from pinchpoint.cli import options
from pinchpoint.cli.options import (
    NEW_FILE,
    SCENARIO,
    How,
    RunPath,
    duration,
    gathered,
    how_options,
    pair_of_words,
    setting,
)
from pinchpoint.cli.program import Program, is_run, note_if_long
from pinchpoint.cli.run import conduct, failed, next_of, print_stored, resumed, write_report, wrong
from pinchpoint.cli.terminal import gate, gate_of, next_step, show_comparison, tell, write_text
from pinchpoint.dut.setup import lacking_together
from pinchpoint.findings.comparing import judged
from pinchpoint.measure.standing import Interrupted
from pinchpoint.model import former
from pinchpoint.model.comparison import Comparison, ComparisonRequest, Method, State
from pinchpoint.model.duet import FORWARDED
from pinchpoint.model.errors import UNDECIDED, WORSE, InputError
from pinchpoint.model.scenario import Point, Sweep
from pinchpoint.report import ci as report
from pinchpoint.report import render_comparison
from pinchpoint.run.comparison import BUILDING_S, CALIBRATING_S, SHORTEST_S
from pinchpoint.run.paired_benches import require_duet, why_no_duet
from pinchpoint.run.stored import StoredRun, compare_folders, require_alike
from pinchpoint.scenario import load_sweep
from pinchpoint.scenario.keys import program_key
from pinchpoint.scenario.plain import to_plain
from pinchpoint.store.folder import RunFolder

SLICES_S = 60.0  # of alternating slices: 7.5 s for each of the pairs of benches
BENCHES = 8  # times that a duet builds both: an interval at 95 % needs 6
PAIRS = 8  # an interval at 95 % needs 6: two may be lost to the host
EXAMPLE = "pinchpoint compare forward.toml --set-b dut.smc=true"
AUTO = "auto"
Settings = tuple[tuple[str, object], ...]


@dataclass(frozen=True)
class ComparisonWords:
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
    matched: tuple[tuple[str, str], ...] = ()  # scenarios of two stored runs


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
    ComparisonWords,
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
    click.option("--match", "matched", type=pair_of_words("SCENARIO=SCENARIO, of A and of B"), multiple=True,
                 metavar="A=B", help="Of two stored runs compare scenario A with B. May be given several times. "
                                     "[default: those of one name]"),
)  # fmt: skip
@how_options(
    *("settings", "budget_s", "no_ceiling", "quick", "resume", "dry_run", "as_json", "quiet"),
    settings="Change a key of both.",
    budget_s="Spend at most TIME (90s, 10m, 1h30m): on a duet's slices, or on whole pairs, at most --pairs of them.",
    resume="Continue an interrupted comparison.",
    as_json="Print comparison.json instead of tables.",
)
@click.option("-o", "--out", "place", type=options.FOLDER, metavar="DIR",
              help="Create the run folder in DIR. [default: runs] With two stored runs: create a folder in DIR with "
                   "comparison.json and comparison.html.")  # fmt: skip
def compare(wanted: ComparisonWords, how: How, place: Path | None) -> int:
    """Compare A with B: what differs between their benches, and by how much their numbers differ.

    Two scenario files, or one with --set-b, are measured at once: one engine overloads both benches in
    alternating slices. Where that is not possible, they are measured in turns, each time on a new bench.
    Two run folders are compared as stored.
    """
    if how.resume is not None:
        if wanted != ComparisonWords():
            what = "--resume continues a comparison with its original options"
            raise InputError(what, "give --resume RUN without other arguments")
        return resumed(how)
    how = replace(how, out=place or how.out)
    if runs := [path for path in wanted.paths if is_run(path)]:
        return _stored(wanted, how, place, runs)
    if wanted.matched:
        raise InputError("--match: only of two stored runs", "pinchpoint compare RUN1 RUN2 --match A=B")
    program = both(wanted, how)
    if program.comparison and program.comparison.why and not how.quiet:
        click.echo(f"in turns, not as a duet: {program.comparison.why}", err=True)
    return conduct(program, how)


def both(wanted: ComparisonWords, how: How) -> Program:
    """The two scenarios as one run. Raises InputError if they are not two, are not measured alike, or as asked for."""
    paths = wanted.paths
    if not 1 <= len(paths) <= 2 or (len(paths) == 1 and not wanted.set_a and not wanted.set_b):
        raise InputError("expected two scenario files, one scenario file with --set-b, or two run folders", EXAMPLE)
    files = {"A": paths[0], "B": paths[-1]}
    if folders := [path for path in files.values() if path.is_dir()]:
        expected = "expected a scenario file or a run folder; this folder has no run.json"
        raise InputError(f"{folders[0]}: {expected}", EXAMPLE)
    own = {"A": dict(wanted.set_a), "B": dict(wanted.set_b)}

    def sides(quick: bool) -> tuple[Sweep, ...]:
        return tuple(_side(label, files[label], {**how.changes, **own[label]}, quick) for label in "AB")

    a, b = sides(how.quick)
    if how.quick:
        note_if_long((a, b), lambda: sides(False))
    require_alike(to_plain(a.scenarios[0]), to_plain(b.scenarios[0]))
    request = requested(wanted, how, a, b)
    a, b = (replace(scenario, repeats=request.pairs) for scenario in (a, b))
    return Program(f"compare-{paths[0].stem}"[:64], (a, b), comparison=request)


def requested(wanted: ComparisonWords, how: How, a: Sweep, b: Sweep) -> ComparisonRequest:
    """What is to be measured, and by which method. Raises InputError or RequirementError for an impossible one."""
    limits = (wanted.margin, wanted.fail_if_worse)
    in_turns = ComparisonRequest(a.group, b.group, wanted.pairs or PAIRS, wanted.metrics, *limits)
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


def _lengths(wanted: ComparisonWords, budget_s: float | None) -> tuple[int, float]:
    """How many times both benches are built, and seconds of slices; a budget is held by the clock (BuildTime)."""
    default_s = SLICES_S if budget_s is None else max(SHORTEST_S, budget_s - CALIBRATING_S - BUILDING_S)
    return wanted.benches or BENCHES, wanted.slices_s or default_s


def _asks_for_turns(wanted: ComparisonWords) -> str:
    """Which option only turns can follow; empty if there is none."""
    if wanted.pairs:
        return "--pairs needs turns"
    others = [name for name in wanted.metrics if name != FORWARDED]
    return f"a duet measures only the {FORWARDED}, not {others[0]}" if others else ""


def _side(label: str, path: Path, changes: Mapping[str, object], quick: bool) -> Sweep:
    """A or B as a group of one point; raises InputError if the file makes several."""
    sweep = load_sweep(path, quick, changes)
    if len(sweep.scenarios) > 1:
        hint = "copy the file without [[sweep.factor]] and [[sweep.point]], and give the level with --set"
        raise InputError(f"{path}: expected one scenario, found {len(sweep.scenarios)} points of a sweep", hint)
    (scenario,) = sweep.scenarios
    group, title = f"{label}-{path.stem}", f"{label}: {scenario.title}"
    scenario = replace(scenario, name=group, title=title, point=Point(group, {}))
    return replace(sweep, group=group, title=title, scenarios=(scenario,), order="in turns")


def _stored(wanted: ComparisonWords, how: How, out: Path | None, runs: Sequence[Path]) -> int:
    """Two stored runs, or what one stored comparison found."""
    if others := [path for path in wanted.paths if path not in runs]:
        what = f"{runs[0]} is a run folder and {others[0]} is not: expected two run folders"
        raise InputError(what, "pinchpoint compare RUN1 RUN2")
    asked = {"--set-a": wanted.set_a, "--set-b": wanted.set_b, "--set": how.settings, "--pairs": wanted.pairs,
             "--slices": wanted.slices_s, "--benches": wanted.benches, "--method": wanted.method != AUTO,
             "--budget": how.budget_s, "--quick": how.quick, "--dry-run": how.dry_run}  # fmt: skip
    if new := [name for name, value in asked.items() if value]:
        raise InputError(f"{', '.join(new)}: only for a new measurement, but {runs[0]} is a run folder", "leave it out")
    if len(runs) == 1:
        folder = RunFolder.open(runs[0])
        if folder.read_info().comparison is None:
            raise InputError(f"{runs[0]}: expected a second run folder", "pinchpoint compare RUN1 RUN2")
        stored = StoredRun(folder)
        print_stored(stored, how.as_json)
        code = gate_of(stored)
        next_step(*next_of(stored), as_json=how.as_json)
        return code
    if len(runs) > 2:
        raise InputError(f"expected two run folders, found {len(runs)}", "pinchpoint trend compares many runs")
    a, b = map(RunFolder.open, runs)
    comparison = compare_folders(a, b, wanted.metrics, wanted.margin, wanted.matched)
    place: Path | None = None
    if out is not None:
        folder = RunFolder.create(out, f"compare-{runs[0].name}"[:100])
        folder.write_comparison(comparison, render_comparison(comparison))
        place = folder.path
    show_comparison(comparison, how.as_json, place)
    return gate(comparison, wanted.fail_if_worse)


_BUILDS_EXAMPLE = "pinchpoint ci /opt/base /opt/head --scenario forward.toml"


@dataclass(frozen=True)
class Told:
    """Where the outcome goes."""

    margin: float  # share
    junit: Path | None
    summary: Path | None
    annotations: bool | None  # None: where GITHUB_ACTIONS is true


@click.command(short_help="Fail where HEAD is slower than BASE, for pipelines.")
@click.argument("base", type=RunPath())
@click.argument("head", type=RunPath())
@click.option(
    "--scenario", type=SCENARIO, metavar="FILE", help="Measure this scenario with the programs of BASE and HEAD."
)
@gathered(
    Told,
    "told",
    click.option("--margin", type=click.FloatRange(0, 100), default=3.0, show_default=True, metavar="PERCENT",
                 callback=as_share, help="The largest regression that is allowed."),
    click.option("--junit", type=NEW_FILE, metavar="FILE", help="Write JUnit's XML."),
    click.option("--summary", type=NEW_FILE, metavar="FILE",
                 help="Write a Markdown summary. It is also appended to the file that GITHUB_STEP_SUMMARY names."),
    click.option("--annotations/--no-annotations", default=None,
                 help="Print GitHub's ::error and ::warning lines. [default: where GITHUB_ACTIONS is true]"),
)  # fmt: skip
@gathered(ComparisonWords, "wanted", *METHODS)
@how_options(
    *("settings", "budget_s", "quick", "out", "dry_run", "as_json", "quiet"),
    settings="Change a key of both.",
    budget_s="Spend at most TIME.",
    as_json="Print comparison.json instead of tables.",
)
def ci(base: Path, head: Path, scenario: Path | None, wanted: ComparisonWords, how: How, told: Told) -> int:
    """Compare BASE with HEAD, side by side on this machine: exit code 8 if HEAD is worse by more than the margin.

    BASE and HEAD are two builds of the device's program (the program, the folder it was built or installed into, or a
    Debian package) with --scenario; or two scenario files; or two run folders. Exit code 0: not clearly worse by more
    than the margin. 8: the whole interval of the ratio is worse by more than that. 9: it could not be decided, e.g.
    because a duet of fewer than six builds cannot tell the build from the change. 1: a device does not do what its
    service says, or an unexpected error of Pinchpoint, which prints a traceback.
    """
    how = replace(how, no_ceiling=True)
    if is_run(base) and is_run(head):
        comparison = compare_folders(RunFolder.open(base), RunFolder.open(head), wanted.metrics, told.margin)
        code = _tell(comparison, told, how.as_json)
        return code if code == WORSE else wrong(StoredRun(RunFolder.open(head))) or code
    with ExitStack() as stack:
        paths, set_a, set_b = _sides(base, head, scenario, how, stack)
        wanted = replace(wanted, paths=paths, set_a=set_a, set_b=set_b, margin=told.margin)
        return conduct(both(wanted, how), how, show=partial(_ended, told=told))


def _ended(folder: RunFolder, interrupted: Interrupted | None, how: How, told: Told) -> int:
    stored = StoredRun(folder)
    write_report(stored)
    assert stored.comparison is not None, "it was asked for one"
    code = _tell(stored.comparison, told, how.as_json, folder)
    if interrupted is not None:
        tell(f"{interrupted.message}; what was measured is in {folder.path}")
        return interrupted.exit_code
    faults, lost = wrong(stored), failed(stored)  # what was found comes before what could not be measured
    return WORSE if code == WORSE else faults or lost or code


def _sides(
    base: Path, head: Path, scenario: Path | None, how: How, stack: ExitStack
) -> tuple[tuple[Path, ...], Settings, Settings]:
    """The scenario files, and what is changed in A and in B."""
    if base.suffix == head.suffix == ".toml":
        if scenario is not None:
            raise InputError("--scenario: BASE and HEAD are scenarios themselves", "leave it out")
        return (base, head), (), ()
    if scenario is None:
        raise InputError("two builds need a scenario, and none is given", _BUILDS_EXAMPLE)
    first = load_sweep(scenario, how.quick, how.changes).scenarios[0]
    key = program_key(first)
    if key is None:
        what = f"the program of a device of kind {first.dut.kind} cannot be chosen"
        raise InputError(f"{scenario}: {what}", "give two scenario files, or two run folders")
    a, b = (options.program_of(build, key[1], stack) for build in (base, head))
    if a == b:
        raise InputError(f"BASE and HEAD are the same program: {a}", "give two builds")
    return (scenario,), ((key[0], str(a)),), ((key[0], str(b)),)


def _tell(comparison: Comparison, told: Told, as_json: bool, folder: RunFolder | None = None) -> int:
    """Write and print everything; returns the exit code."""
    took_s = None if folder is None else math.fsum(scenario.wall_s for scenario in folder.so_far().scenarios)
    by_metric = judged(comparison, told.margin)
    show_comparison(comparison, as_json, None if folder is None else folder.path)
    if told.junit is not None:
        write_text(told.junit, report.render_junit(by_metric, told.margin, took_s), "--junit")
    text = report.render_summary(comparison, by_metric, told.margin)
    if told.summary is not None:
        write_text(told.summary, text, "--summary")
    if step := os.environ.get("GITHUB_STEP_SUMMARY"):
        write_text(Path(step), text, "GITHUB_STEP_SUMMARY", "a")
    if os.environ.get("GITHUB_ACTIONS") == "true" if told.annotations is None else told.annotations:
        for line in report.annotations(by_metric, told.margin):
            click.echo(line, file=sys.stderr if as_json else sys.stdout)
    tell(report.headline(by_metric, told.margin))
    states = {judgement.state for judgement in by_metric}
    if State.REGRESSION in states:
        return WORSE
    return UNDECIDED if State.UNDECIDED in states or not comparison.finished or not states else 0

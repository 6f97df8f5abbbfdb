"""`pinchpoint ci`: does HEAD make the device slower than BASE? Answers that a CI system reads."""

import math
import os
import sys
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import click

from pinchpoint.cli.compare import METHODS, Settings, Wanted, as_share, both
from pinchpoint.cli.options import FILE, NEW_FILE, How, gathered, how_options, program_of
from pinchpoint.cli.run import conducted, failed, write_report, wrong
from pinchpoint.cli.terminal import show_comparison, tell, write_text
from pinchpoint.findings.comparing import judged
from pinchpoint.model.comparison import Comparison, State
from pinchpoint.model.errors import UNDECIDED, WORSE, InputError
from pinchpoint.report import ci as report
from pinchpoint.run.stored import StoredRun, compare_folders
from pinchpoint.scenario import load_sweep
from pinchpoint.scenario.keys import program_key
from pinchpoint.store.folder import RunFolder

EXAMPLE = "pinchpoint ci /opt/base /opt/head --scenario forward.toml"


@dataclass(frozen=True)
class Told:
    """Where the outcome goes."""

    margin: float  # share
    junit: Path | None
    summary: Path | None
    annotations: bool | None  # None: where GITHUB_ACTIONS is true


@click.command(short_help="Fail where HEAD is slower than BASE, for pipelines.")
@click.argument("base", type=click.Path(exists=True, path_type=Path))
@click.argument("head", type=click.Path(exists=True, path_type=Path))
@click.option("--scenario", type=FILE, metavar="FILE", help="Measure this scenario with the programs of BASE and HEAD.")
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
@gathered(Wanted, "wanted", *METHODS)
@how_options(
    *("settings", "budget_s", "quick", "out", "dry_run", "as_json", "quiet"),
    settings="Change a key of both.",
    budget_s="Spend at most TIME.",
    as_json="Print comparison.json instead of tables.",
)
def ci(base: Path, head: Path, scenario: Path | None, wanted: Wanted, how: How, told: Told) -> int:
    """Compare BASE with HEAD, side by side on this machine: exit code 8 if HEAD is worse by more than the margin.

    BASE and HEAD are two builds of the device's program (the program, the folder it was built or installed into, or a
    Debian package) with --scenario; or two scenario files; or two run folders. Exit code 0: not surely worse by more
    than the margin. 8: the whole interval of the ratio is worse by more than that. 9: it could not be decided, e.g.
    because a duet of fewer than six builds cannot tell the build from the change. 1: a device does not do what its
    service says, or an unexpected error of Pinchpoint, which prints a traceback.
    """
    how = replace(how, no_ceiling=True)
    if _is_run(base) and _is_run(head):
        comparison = compare_folders(RunFolder.open(base), RunFolder.open(head), wanted.metrics, told.margin)
        code = _tell(comparison, told, how.as_json)
        return code if code == WORSE else wrong(StoredRun(RunFolder.open(head))) or code
    with ExitStack() as stack:
        paths, set_a, set_b = _sides(base, head, scenario, how, stack)
        wanted = replace(wanted, paths=paths, set_a=set_a, set_b=set_b, margin=told.margin)
        made = conducted(both(wanted, how), how)
    if made is None:
        return 0
    folder, interrupted = made
    stored = StoredRun(folder)
    write_report(stored)
    assert stored.comparison is not None, "it was asked for one"
    code = _tell(stored.comparison, told, how.as_json, folder)
    if interrupted is not None:
        tell(f"{interrupted.message}; what was measured is in {folder.path}")
        return interrupted.exit_code
    faults, lost = wrong(stored), failed(stored)  # what was found comes before what could not be measured
    return WORSE if code == WORSE else faults or lost or code


def _is_run(path: Path) -> bool:
    return (path / "run.json").is_file()


def _sides(
    base: Path, head: Path, scenario: Path | None, how: How, stack: ExitStack
) -> tuple[tuple[Path, ...], Settings, Settings]:
    """The scenario files, and what is changed in A and in B."""
    if base.suffix == head.suffix == ".toml":
        if scenario is not None:
            raise InputError("--scenario: BASE and HEAD are scenarios themselves", "leave it out")
        return (base, head), (), ()
    if scenario is None:
        raise InputError("two builds need a scenario, and none is given", EXAMPLE)
    first = load_sweep(scenario, how.quick, how.changes).scenarios[0]
    key = program_key(first)
    if key is None:
        what = f"the program of a device of kind {first.dut.kind} cannot be chosen"
        raise InputError(f"{scenario}: {what}", "give two scenario files, or two run folders")
    a, b = (program_of(build, key[1], stack) for build in (base, head))
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

"""Commands that say what numbers are worth here.

`pinchpoint pilot`: at which level a scenario's numbers vary, and how often to repeat what. `pinchpoint ceiling`: what
the traffic engine itself reaches on a bench, without the device.
"""

import shlex
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean

import click
import msgspec
from rich import box
from rich.table import Table
from rich.text import Text

from pinchpoint.bench.journal import machine_lock
from pinchpoint.cli import program
from pinchpoint.cli.options import RUNS, SCENARIO, How, duration, gathered, how_options
from pinchpoint.cli.run import new_folder, print_plans, report_as_far, stop_on_signals, write_report
from pinchpoint.cli.terminal import console, progress, tell
from pinchpoint.dut.setup import require
from pinchpoint.engine import process
from pinchpoint.host.machines import Machines
from pinchpoint.measure.standing import Interrupted, Listener
from pinchpoint.model import former, units
from pinchpoint.model.errors import BenchError, InputError, PinchpointError, RequirementError
from pinchpoint.model.measurement import Foreign
from pinchpoint.model.result import Ceiling, Outcome, ScenarioResult
from pinchpoint.model.scenario import Scenario
from pinchpoint.model.warning import Warn
from pinchpoint.report.observed import generator_lines
from pinchpoint.run import external_generator
from pinchpoint.run import pilot as piloted
from pinchpoint.run.ceiling import CeilingTest
from pinchpoint.run.checkpoint import RunContext
from pinchpoint.run.pilot import MOST_REBUILDS, Allocation, Component, Costs, Size
from pinchpoint.run.stored import StoredRun
from pinchpoint.stats.estimate import median_interval
from pinchpoint.store.folder import RunFolder

Results = Mapping[tuple[int, int, int], ScenarioResult]
"""By the number of the bench, of the start and of the measurement."""


@dataclass(frozen=True)
class Asked:
    """What is to be measured, and what is wished for."""

    path: Path
    how: How
    metrics: tuple[str, ...]
    within: float  # percent
    time_s: float | None

    def command(self, advice: Allocation) -> str:
        """The command that does as was advised, with all that says what is measured."""
        benches, starts, measurements = advice.counts
        once = starts == measurements == 1
        words = ["pinchpoint", "run" if once else "pilot", str(self.path), *(["--quick"] if self.how.quick else [])]
        words += self.how.set_words
        if once:
            words += ["--repeats", str(benches)]
        else:
            words += ["--benches", str(benches), "--starts", str(starts), "--measurements", str(measurements)]
            words += [word for metric in self.metrics for word in ("--metric", metric)]
        return shlex.join([*words, *([] if self.how.out == RUNS else ["--out", str(self.how.out)])])


@dataclass(frozen=True)
class Finding:
    """What a pilot says about one metric."""

    metric: str
    unit: str
    value: float | None  # the median over benches; None: not every measurement had a number
    low: float | None
    high: float | None
    interval: str  # what low and high are, or why there is no value
    components: tuple[Component, ...]  # empty if a level was not repeated
    advice: Allocation | None  # None: nothing that is sensible reaches the wish


@click.command(short_help="Which level varies most: bench, DUT start or measurement.")
@click.argument("path", type=SCENARIO, metavar="SCENARIO")
@gathered(
    Size,
    "size",
    click.option("--benches", type=click.IntRange(1, 1000), default=6, show_default=True,
                 help="Times to build the bench."),
    click.option("--starts", type=click.IntRange(1, 100), default=2, show_default=True,
                 help="Times to start the DUT on each bench."),
    click.option("--measurements", type=click.IntRange(1, 100), default=2, show_default=True,
                 help="Measurements (a search, a window) after each start."),
)  # fmt: skip
@click.option("--within", type=click.FloatRange(0, 100, min_open=True), default=1.0, show_default=True,
              metavar="PERCENT", help="Target half-width of the 95 % interval.")  # fmt: skip
@click.option("--time", "time_s", type=duration, metavar="TIME",
              help="Recommend the narrowest interval that fits into TIME (10m, 1h) instead.")  # fmt: skip
@click.option("--metric", "metrics", type=former.metric, multiple=True, metavar="NAME",
              help="Judge this metric; else every rate.")  # fmt: skip
@how_options("quick", "settings", "out", "dry_run", "as_json", "quiet", as_json="For machines.")
def pilot(path: Path, size: Size, within: float, time_s: float | None, metrics: tuple[str, ...], how: How) -> int:
    """Measure SCENARIO on several benches, after several starts of the DUT on each, several times after each start.

    Prints how much each level varies, which one most, and how often to repeat what for the interval asked for. With
    --starts 1 or --measurements 1 it measures as recommended, and prints the number with its interval.
    """
    asked = Asked(path, how, metrics, within, time_s)
    machines = how.machines
    scenario, sources = _scenario(asked)
    if not all(site.is_lab for site in scenario.sites):
        what = "a pilot starts devices on the lab's own machine only"
        raise InputError(f"{path}: runs_on: {what}", f"pinchpoint run {path} --repeats N")
    if how.dry_run:
        print_plans([scenario], machines)
        return 0
    require(scenario, machines)
    with machine_lock(machines.lab):
        every = [piloted.unit(scenario, *place) for place in size.every]
        folder = new_folder(how, f"{scenario.name}-pilot", every, sources)
        results, costs = _run(machines, scenario, size, folder, how.quiet)
    write_report(StoredRun(folder))
    judged = [_judge(metric, size, results, costs, asked) for metric in metrics or piloted.metrics_of(results)]
    if how.as_json:
        click.echo(msgspec.json.encode({"run_id": folder.run_id, "costs": asdict(costs), "metrics": judged}))
    else:
        out = console()
        if any(finding.components for finding in judged):
            out.print(_table(judged))
        for line in _lines(judged, asked, costs):
            out.print(Text(line), soft_wrap=True)  # a command is to be copied
        out.print(Text(f"Report: {folder.path / 'report.html'}"))
    return _exit_code(results)


_WITHOUT_NUMBER = (
    (Outcome.FAILED, "failed", BenchError.exit_code),
    (Outcome.IMPOSSIBLE, "are impossible here", RequirementError.exit_code),
)


def _exit_code(results: Results) -> int:
    """What the pilot ends with; on stderr how many measurements yielded no number, and why the first."""
    codes: list[int] = []
    for outcome, words, code in _WITHOUT_NUMBER:
        if lost := [result for result in results.values() if result.outcome is outcome]:
            first = lost[0].reason.partition("\n")[0]
            tell(f"{len(lost)} of {len(results)} measurements {words}; the first: {first}")
            codes.append(code)
    return codes[0] if codes else 0


def _scenario(asked: Asked) -> tuple[Scenario, dict[str, str]]:
    how = asked.how
    wanted = program.of_paths([asked.path], how.quick, how.changes).with_kernels(how.machines.lab)
    scenarios = [scenario for sweep in wanted.sweeps for scenario in sweep.scenarios]
    if len(scenarios) != 1:
        hint = "--set KEY=VALUE, or a file without [sweep]"
        raise InputError(f"{asked.path}: a pilot measures one point, but this file has {len(scenarios)}", hint)
    return scenarios[0], wanted.sources


def _run(machines: Machines, scenario: Scenario, size: Size, folder: RunFolder, quiet: bool) -> tuple[Results, Costs]:
    try:
        with progress(quiet) as listener, stop_on_signals() as remember:
            return piloted.run_pilot(RunContext(machines, folder, listener, remember), scenario, size)
    except (PinchpointError, KeyboardInterrupt) as error:
        report_as_far(folder)
        if isinstance(error, Interrupted):
            raise KeyboardInterrupt from error
        raise


def _judge(metric: str, size: Size, results: Results, costs: Costs, asked: Asked) -> Finding:
    values, unit, reason = piloted.nested(metric, size, results)
    if not values:
        return Finding(metric, unit, None, None, None, reason, (), None)
    benches = [fmean([result for start in bench for result in start]) for bench in values]
    middle = median_interval(benches, "benches")
    known = piloted.components(values) if min(size.benches, size.starts, size.measurements) > 1 else ()
    advice = None
    if known and asked.time_s is not None:
        advice = piloted.for_time(known, costs, asked.time_s)
    elif known:
        advice = piloted.for_half_width(known, costs, asked.within / 100)
    return Finding(metric, unit, *middle.figures, middle.meaning, known, advice)


def _table(judged: list[Finding]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("metric", "level", "varies by", "share", "seen in"):
        table.add_column(heading, justify="right" if heading in ("varies by", "share") else "left", no_wrap=True)
    for finding in judged:
        most = piloted.varies_most(finding.components) if finding.components else None
        for place, part in enumerate(finding.components):
            name = finding.metric if place == 0 else ""
            style = "bold" if part is most and part.share else ""
            shares = map(units.share, (part.deviation, part.share))
            seen = units.counted(part.freedom, "independent difference")
            table.add_row(Text(name), Text(part.level, style), *shares, seen)
    return table


def _lines(judged: list[Finding], asked: Asked, costs: Costs) -> Iterator[str]:
    yield (
        f"a bench takes {units.seconds(costs.rebuild_s)} to build and remove, a start of the DUT "
        f"{units.seconds(costs.restart_s)}, a measurement {units.seconds(costs.measurement_s)}"
    )
    for finding in judged:
        if finding.value is None or finding.low is None or finding.high is None:
            yield f"{finding.metric}: {finding.interval}"
            continue
        spread = f" ({units.quantity_range(finding.low, finding.high, finding.unit)}: {finding.interval})"
        yield f"{finding.metric}: {units.quantity(finding.value, finding.unit)}{spread}"
        if finding.components:
            yield from _advice(finding, asked)


def _advice(finding: Finding, asked: Asked) -> Iterator[str]:
    most = piloted.varies_most(finding.components)
    if most.share:
        yield f"  varies most from one {most.level} to the next"
    if finding.advice is None:
        wish = f"+-{asked.within:g} %" if asked.time_s is None else f"an interval in {units.duration(asked.time_s)}"
        yield f"  no sensible number of repeats gives {wish}"
        return
    benches, starts, measurements = finding.advice.counts
    yield (
        f"  for +-{units.share(finding.advice.half_width)}: {units.counted(benches, 'bench')}, "
        f"{units.counted(starts, 'start')} on each, {units.counted(measurements, 'measurement')} after each start; "
        f"about {units.duration(finding.advice.time_s)}"
    )
    if (enough := finding.advice.most_rebuilds) > benches:
        seen = finding.components[0].freedom
        at_most = f"up to {enough}" if enough < MOST_REBUILDS else f"{MOST_REBUILDS} or more"
        yield f"  the pilot saw {units.counted(seen, 'difference')} between benches: {at_most} may be needed"
    yield f"  {asked.command(finding.advice)}"


FOREIGN_S = 5.0  # another generator runs


@click.command(short_help="What the engine itself reaches, without the device.")
@click.argument("path", type=SCENARIO, metavar="SCENARIO")
@click.option("--fresh", is_flag=True, help="Measure it again, even if it was measured within the last day.")
@click.option("--generator", metavar="COMMAND", help="Watch this command instead of the engine; {PORT} is replaced.")
@click.option("--for", "duration_s", type=duration, metavar="TIME", help="How long it may run. [default: 5s]")
@how_options("as_json", "quiet", as_json="For machines.")
def ceiling(path: Path, fresh: bool, generator: str | None, duration_s: float | None, how: How) -> int:
    """The highest rate that the engine offers on the bench of SCENARIO with its ports joined to each other.

    `pinchpoint run` does the same before a search; a rate within its reach is reported as "at least". Of a file
    that sweeps, the first point is taken. What was measured is kept for a day, by the distance of the cores.

    With `--generator` another generator takes the engine's place, and what it really sends is reported: rate,
    bursts, sizes, flows, checksums, one way or two. COMMAND is run without a shell on the engine's CPUs. Its
    {PORT} is the interface of that port in a namespace of its own or, where the device polls, the path of the
    vhost-user socket that the command must serve: `--generator "trafgen --dev {left} --conf udp.cfg"`.
    """
    scenario = program.of_paths([path]).units[0]
    if scenario.is_cabled:
        raise InputError(f"{path}: port: {Warn.CEILING_AT_LINKS.template}", f"pinchpoint run {path}")
    if not scenario.site.is_lab:
        what = "its bench stands on another host, where the ceiling is measured by the run itself"
        raise InputError(f"{path}: runs_on: {what}", f"pinchpoint run {path}")
    if generator is not None and fresh:
        raise InputError("--fresh: another generator's rate is never kept", "leave it out")
    if generator is None and duration_s is not None:
        raise InputError("--for: the engine's own ceiling takes ten short trials", "use it with --generator")
    machines, test = how.machines, CeilingTest(how.machines, process.version)
    measured: Foreign | tuple[Ceiling, ...]
    lines: Iterable[str]
    if generator is not None:
        with _alone(machines, external_generator.wire_of(scenario, machines.lab), how.quiet) as listener:
            measured = external_generator.watched(machines, scenario, generator, duration_s or FOREIGN_S, listener)
        lines = generator_lines(measured, max((known.fps for known in test.known(scenario)), default=None))
    else:
        measured = () if fresh else test.known(scenario)
        if not measured:
            with _alone(machines, scenario, how.quiet) as listener:
                measured = test.measured_now(scenario, listener)
        lines = [_line(ceiling) for ceiling in measured]
    click.echo(msgspec.json.encode(measured) if how.as_json else "\n".join(lines))
    return 0


@contextmanager
def _alone(machines: Machines, scenario: Scenario, quiet: bool) -> Iterator[Listener]:
    """Alone on this machine, which has what the bench needs."""
    require(scenario, machines)
    with machine_lock(machines.lab), progress(quiet) as listener, stop_on_signals():
        yield listener


def _line(ceiling: Ceiling) -> str:
    back = "" if ceiling.received_fps is None else f", {units.fps(ceiling.received_fps)} of it came back"
    apart = "" if ceiling.distance_ns is None else f" cores {units.nanoseconds(ceiling.distance_ns)} apart,"
    return f"{units.fps(ceiling.fps)} offered{back};{apart} measured {ceiling.measured[:16]}\n  {ceiling.key}"

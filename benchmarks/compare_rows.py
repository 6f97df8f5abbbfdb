"""`make bench-compare`: how often a comparison of A with A raises an alarm, and whether a small real change is found.

One bench stands all the time, so that a measurement takes less than a second: B differs from A by which rule of
the switch its frames take, and by nothing else. What rebuilding a bench adds is therefore not part of these figures;
`pinchpoint compare` rebuilds it for every measurement, and its pairs hold that too. Everything behind the
measurement is the command's own: the order A B B A, the modes of the cores, the test, the decision.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from statistics import median

import cpu
from rich.console import Console
from rich.table import Table
from scenario_text import one_way
from scipy.stats import binomtest

from pinchpoint.bench import host
from pinchpoint.bench.journal import STATE_DIRECTORY, machine_lock
from pinchpoint.bench.resource import ENVIRONMENT_MARK
from pinchpoint.diagnose.cache_line import distance
from pinchpoint.diagnose.comparing import paired
from pinchpoint.diagnose.metrics import of_load
from pinchpoint.diagnose.neighbour import Widths
from pinchpoint.dut.settings import check_queues
from pinchpoint.dut.unixctl import Unixctl
from pinchpoint.engine.process import ProcessInstrument, find_engine
from pinchpoint.model.comparison import Decision, MetricComparison
from pinchpoint.model.errors import PinchpointError
from pinchpoint.model.result import Outcome, ScenarioResult
from pinchpoint.model.scenario import Range, Scenario
from pinchpoint.model.trial import Trial, TrialValidity
from pinchpoint.observe.bracket import Bracket
from pinchpoint.scenario import parse
from pinchpoint.sweep.listener import Listener
from pinchpoint.sweep.measure import Measurer
from pinchpoint.sweep.run import unmeasured
from pinchpoint.sweep.scenario import standing_bench
from pinchpoint.sweep.setup import Setup, collectors, prepare
from pinchpoint.sweep.warm_up import warm_up

COMPARISONS, PAIRS = 40, 8
TRIALS = 3  # of a measurement, which is their median
MOST_TRIES = 15  # for one of them, on a disturbed host
PLAIN, CHANGED = 12, 13  # destination ports: which rule a frame takes

RULES = """
priority=10,udp,in_port={{left}},tp_dst={plain},actions=output:{{right}}
priority=10,udp,in_port={{left}},tp_dst={changed},actions={more},output:{{right}}
"""
LOAD = """
[load]
at_fps = [{fps}]
duration_s = {seconds}
"""


@dataclass(frozen=True)
class How:
    """What one measurement is."""

    trials: int  # of which it is the median
    tries: int  # for each of them
    disturbed: bool  # trials that the host disturbed count too


@dataclass(frozen=True)
class Series:
    """Comparisons of one kind."""

    what: str
    found: tuple[MetricComparison, ...]
    seconds: float


class Pairs:
    """Measures A and B on one bench that stands."""

    def __init__(self, setup: Setup, instrument: ProcessInstrument, bracket: Bracket, how: How) -> None:
        self._scenario, self._how = setup.scenario, how
        self._measurers = {
            port: Measurer(_sending(setup.scenario, port), instrument, bracket, _forget, Listener())
            for port in (PLAIN, CHANGED)
        }
        self._widths = Widths()
        for measurer in self._measurers.values():
            warm_up(self._scenario, measurer)

    def compared(self, b: int, pairs: int) -> MetricComparison:
        """A, whose frames take the plain rule, with B."""
        sides: dict[str, dict[int, ScenarioResult]] = {"A": {}, "B": {}}
        for number in range(1, pairs + 1):
            for side in "AB" if number % 2 else "BA":
                sides[side][number] = self._measured(PLAIN if side == "A" else b)
        return next(paired(self.name, sides["A"], sides["B"]))

    @property
    def name(self) -> str:
        """The metric's, as `measure = "load"` names it."""
        return of_load(self._scenario.load.at_fps[0], [self._trial(PLAIN)])[0].name

    def _measured(self, port: int) -> ScenarioResult:
        """The median of some short trials; a result without number if the host allows none."""
        trials = [self._trial(port) for _ in range(self._how.trials)]
        valid = [trial for trial in trials if self._counts(trial)]
        if not valid:
            return unmeasured(self._scenario, Outcome.FAILED, trials[-1].reason, 0.0)
        found = unmeasured(self._scenario, Outcome.MEASURED, "", 0.0)
        metrics = of_load(self._scenario.load.at_fps[0], valid)
        return replace(found, metrics=metrics, cache_line=distance(valid))

    def _trial(self, port: int) -> Trial:
        load, measurer = self._scenario.load, self._measurers[port]
        for _ in range(self._how.tries):
            trial = measurer.trial("load", load.duration_s, load.at_fps[0])
            measurer.trials.clear()
            if self._counts(trial):
                break
        return trial

    def _counts(self, trial: Trial) -> bool:
        if self._widths.is_slowed(trial):
            return False  # how much a neighbour costs differs from one trial to the next
        noisy = self._how.disturbed and trial.validity is TrialValidity.NOISY_HOST and trial.received > 0
        return noisy or trial.validity is TrialValidity.VALID


def _forget(_trial: Trial) -> None:
    """Trials of a benchmark are not stored."""


def _sending(scenario: Scenario, port: int) -> Scenario:
    return replace(scenario, streams=tuple(replace(one, udp_dst=Range(port, 1)) for one in scenario.streams))


@contextmanager
def standing(scenario: Scenario, how: How) -> Iterator[Pairs]:
    """The bench, with the engine connected and both rules' flows learnt."""
    setup = prepare(scenario, STATE_DIRECTORY)
    environment = {ENVIRONMENT_MARK: setup.places.bench_id}
    with standing_bench(setup, Listener()):
        control = Unixctl(setup.places.control)
        instrument = ProcessInstrument(setup.engine, command=[find_engine()], environment=environment)
        try:
            instrument.open()
            check_queues(scenario, control)
            with host.kept_off(scenario.dut.pmd_cpus):  # the engine, which probes them, runs already
                yield Pairs(setup, instrument, Bracket(collectors(setup, control)), how)
        finally:
            instrument.close()
            control.close()


def series(bench: Pairs, what: str, b: int, comparisons: int, pairs: int, budget_s: float) -> Series:
    """As many comparisons as asked for, or as the time allows."""
    began, found = time.monotonic(), list[MetricComparison]()
    while len(found) < comparisons and time.monotonic() - began < budget_s:
        found.append(bench.compared(b, pairs))
        print(f"{what}: {len(found)} of {comparisons}: {found[-1].sentence}", file=sys.stderr)
    return Series(what, tuple(found), time.monotonic() - began)


def cells(one: Series) -> tuple[str, ...]:
    """A row of the table."""
    decided = [found for found in one.found if found.decision not in (Decision.REFUSED, Decision.TOO_FEW)]
    alarms = sum(found.decision is not Decision.NOT_FOUND for found in decided)
    share = "-"
    if decided:
        low, high = binomtest(alarms, len(decided)).proportion_ci(0.95, "exact")
        share = f"{alarms} of {len(decided)} = {alarms / len(decided):.1%} [{low:.1%} .. {high:.1%}]"
    lost = sum(sum(found.left_out.values()) for found in one.found)
    made = sum(len(found.pairs) for found in one.found)
    return (
        one.what,
        share,
        _median([100 * (found.ratio - 1) for found in decided if found.ratio], "{:+.2f} %"),
        _median([100 * (found.high - found.low) / 2 for found in decided if found.high and found.low], "{:.2f} %"),
        f"{len(one.found) - len(decided)}",
        f"{lost} of {made}",
        f"{one.seconds / max(1, len(one.found)):.1f} s",
    )


def _median(values: Sequence[float], form: str) -> str:
    return form.format(median(values)) if values else "-"


def show(found: Sequence[Series], pairs: int) -> None:
    """Print the table."""
    table = Table(title=f"comparisons of {pairs} pairs, A B B A ..., 95 %, on one standing bench", show_lines=True)
    for heading in ("what", "difference found [exact binomial interval]", "median B/A - 1", "median half interval",
                    "undecided", "pairs left out", "time each"):  # fmt: skip
        table.add_column(heading)
    for one in found:
        table.add_row(*cells(one))
    Console(width=None if sys.stdout.isatty() else 200).print(table)


def options() -> argparse.Namespace:
    """What the user asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--comparisons", type=int, default=COMPARISONS, help=f"of A with A ({COMPARISONS})")
    parser.add_argument("--changed", type=int, default=COMPARISONS // 2, help="of A with B (half as many)")
    parser.add_argument("--pairs", type=int, default=PAIRS, help=f"of each comparison ({PAIRS})")
    parser.add_argument("--budget", type=float, default=1200, help="seconds that all may take (1200)")
    parser.add_argument("--fps", type=int, default=200_000, help="the fixed load, frames per second")
    parser.add_argument("--seconds", type=float, default=0.1, help="of a trial (0.1)")
    parser.add_argument("--trials", type=int, default=TRIALS, help=f"whose median is a measurement ({TRIALS})")
    parser.add_argument("--disturbed", action="store_true", help="count trials that the host disturbed: alarms must "
                        "not rise by that, intervals do")  # fmt: skip
    parser.add_argument(
        "--more", default="mod_dl_dst:02:00:00:00:00:99,mod_nw_tos:8", help="B's further OpenFlow actions"
    )
    parser.add_argument("--json", action="store_true", help="print every pair instead of the table")
    return parser.parse_args()


def main() -> None:
    """Measure and print; nothing else may use the machine's bench meanwhile."""
    wanted = options()
    cpu.end_on_signals()
    text = one_way(
        "load",
        LOAD.format(fps=wanted.fps, seconds=wanted.seconds),
        pmd=min(1, cpu.present() - 1),
        rules=RULES.format(plain=PLAIN, changed=CHANGED, more=wanted.more).strip(),
        dut="max_idle_ms = 600_000",
        stream=f"udp_dst = {PLAIN}",
        search="drain_s = 0.02",
    )
    how = How(wanted.trials, MOST_TRIES, wanted.disturbed)
    share = wanted.comparisons / max(1, wanted.comparisons + wanted.changed)
    found: list[Series] = []
    with machine_lock(), standing(parse(text, "benchmark.toml"), how) as bench:
        budgets = (wanted.budget * share, wanted.budget * (1 - share))
        found.append(series(bench, "A with A", PLAIN, wanted.comparisons, wanted.pairs, budgets[0]))
        found.append(series(bench, f"A with {wanted.more} more", CHANGED, wanted.changed, wanted.pairs, budgets[1]))
    if wanted.json:
        print(json.dumps([asdict(one) for one in found]))
    else:
        show(found, wanted.pairs)


if __name__ == "__main__":
    try:
        main()
    except PinchpointError as error:
        sys.exit(str(error))

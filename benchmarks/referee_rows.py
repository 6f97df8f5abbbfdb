"""`make bench-referee`: published NDRs of a real switch against a referee that the search never sees.

After each trial of a search, some trials of random loads from a preset range are made, in a phase of their own. The
range stands still during a run: one that followed the search would try low loads while the device is slow. Of those,
the load at which half lose, by isotonic regression, with a bootstrap interval, is what should be published.
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from random import Random

import numpy as np
from rich.console import Console
from rich.table import Table
from table import PLAIN_WIDTH

from pinchpoint.bench.journal import machine_lock
from pinchpoint.dut.setup import prepare, require
from pinchpoint.engine.process import find_engine
from pinchpoint.host.local import Local
from pinchpoint.host.machines import Machines
from pinchpoint.measure.frames import measuring
from pinchpoint.measure.rates.run import Rates
from pinchpoint.measure.session import OverTime, Session
from pinchpoint.measure.standing import Listener, Standing, Task, standing_bench
from pinchpoint.model.errors import PinchpointError
from pinchpoint.model.result import Rate, RateStatus
from pinchpoint.model.scenario import Scenario
from pinchpoint.model.trial import Trial
from pinchpoint.scenario import load
from pinchpoint.search import Measure, find_rates
from pinchpoint.search.slices import slice_s

STUDIES = Path(__file__).parents[1] / "studies"
SCENARIOS = (
    *sorted((STUDIES / "quickstart").glob("*.toml")),
    STUDIES / "devices" / "6-ovs-af-xdp.toml",
    STUDIES / "devices" / "8-nft.toml",
)
RUNS = 4
RANGE = (0.75, 1.25)  # of the NDR of the search before: loads of the referee, drawn evenly
EACH = 3  # referee's trials after each trial of a search
AT_LEAST = 220  # of the referee's trials in a run
NEAR, NEEDED = (0.8, 1.2), 150  # times the published NDR: the trials there that a referee needs
SHARP = 0.03  # relative: half of the referee's interval, at most
AGREES = 0.03  # relative: how far off the referee a published NDR may be
BESIDE = 0.03
HELD = 0.9  # of the confirmed runs, at least
RESAMPLES = 400
PHASE = "referee"
Point = tuple[float, bool]  # offered load, whether the trial lost


@dataclass(frozen=True)
class Outcome:
    """One run: what was published, and what the referee saw."""

    scenario: str
    run: int
    status: RateStatus
    ndr: tuple[float | None, float | None, float | None]  # lower, published, upper
    referee: tuple[float, float, float]  # likewise
    near: int  # referee's trials between NEAR times the NDR
    below: tuple[int, int]  # of the referee's trials BESIDE below the NDR: that lost, all
    above: tuple[int, int]

    @property
    def is_confirmed(self) -> bool:
        """Whether the referee knows enough to judge."""
        low, middle, high = self.referee
        return self.ndr[1] is not None and self.near >= NEEDED and high - low <= 2 * SHARP * middle

    @property
    def agrees(self) -> bool:
        """Whether the referee agrees with what was published."""
        low, middle, high = self.referee
        published = self.ndr[1]
        return published is not None and (abs(published / middle - 1) <= AGREES or low <= published <= high)


def half(points: Sequence[Point]) -> float:
    """The load at which half of the trials lose, by isotonic regression (pool adjacent violators)."""
    blocks: list[list[float]] = []  # lost, trials, lowest load, highest load
    for load_fps, lost in sorted(points):
        blocks.append([float(lost), 1.0, load_fps, load_fps])
        while len(blocks) > 1 and blocks[-2][0] * blocks[-1][1] >= blocks[-1][0] * blocks[-2][1]:
            lost_after, count, _, high_fps = blocks.pop()
            blocks[-1] = [blocks[-1][0] + lost_after, blocks[-1][1] + count, blocks[-1][2], high_fps]
    below = None
    for lost_share, count, low_fps, high_fps in blocks:
        if lost_share >= count / 2:
            return low_fps if below is None else float((below * low_fps) ** 0.5)
        below = high_fps
    return blocks[-1][3] if blocks else 0.0


def interval(points: Sequence[Point], seed: int = 1) -> tuple[float, float]:
    """Of that, at 95 %, by resampling the trials."""
    random = Random(seed)
    halves = [half(random.choices(points, k=len(points))) for _ in range(RESAMPLES)]
    low, high = np.quantile(halves, (0.025, 0.975))
    return float(low), float(high)


def judged(scenario: str, run: int, ndr: Rate, points: Sequence[Point]) -> Outcome:
    """One run's NDR against the referee's trials."""
    quoted = ndr.quoted_fps if ndr.status is RateStatus.FOUND else None
    low, high = interval(points)

    def among(least: float, most: float) -> tuple[int, int]:
        lost = [loses for load_fps, loses in points if quoted and least * quoted < load_fps <= most * quoted]
        return sum(lost), len(lost)

    return Outcome(
        scenario,
        run,
        ndr.status,
        (ndr.lower_fps, quoted, ndr.upper_fps),
        (low, half(points), high),
        among(*NEAR)[1],
        among(1 - BESIDE, 1.0),
        among(1.0, 1 + BESIDE),
    )


def measure(scenario: Scenario, runs: int, at_least: int) -> list[Outcome]:
    """All runs of one scenario, on one bench."""
    setup = prepare(scenario, Machines(Local()))
    outcomes = []
    with standing_bench(setup, Listener()):
        bench = Standing(setup, setup.bench.open(), [find_engine(Local())], Task(), time.monotonic())
        with measuring(bench) as session:
            session.warm_up()
            pilot = find_rates(_search(session), scenario.search, time.monotonic).rates[0]
            about_fps = pilot.quoted_fps or pilot.upper_fps or scenario.search.max_load_fps / 2
            for run in range(1, runs + 1):
                outcomes.append(_run(scenario, session, about_fps, run, at_least))
                about_fps = outcomes[-1].ndr[1] or about_fps
                print(f"{scenario.name}, run {run}: {_brief(outcomes[-1])}", file=sys.stderr)
    return outcomes


def _run(scenario: Scenario, session: Session, about_fps: float, run: int, at_least: int) -> Outcome:
    random, points = Random(run), list[Point]()
    search = _search(session)

    def refereed() -> None:
        load_fps = about_fps * random.uniform(*RANGE)
        trial = session.trial(PHASE, scenario.search.trial_duration_s, load_fps)
        if trial.is_usable:
            points.append((trial.offered_fps, trial.lost > 0))

    def both(duration_s: float, load_fps: float) -> Trial:
        trial = search(duration_s, load_fps)
        for _ in range(EACH):
            refereed()
        return trial

    ndr = find_rates(both, scenario.search, time.monotonic).rates[0]
    for _ in range(at_least - len(points)):  # the search of a quiet switch ends early
        refereed()
    return judged(scenario.name, run, ndr, points)


def _search(session: Session) -> Measure:
    def measure(duration_s: float, load_fps: float) -> Trial:
        return session.trial("search", duration_s, load_fps, OverTime(slice_s(duration_s)))

    return measure


def _brief(outcome: Outcome) -> str:
    low, middle, high = outcome.referee
    published = outcome.ndr[1]
    told = f"{outcome.status}" if published is None else f"published {published / 1e6:.3f}"
    return (
        f"{told}, referee {middle / 1e6:.3f} [{low / 1e6:.3f} .. {high / 1e6:.3f}] Mpps of {outcome.near} trials near"
    )


def missed(outcomes: Sequence[Outcome]) -> list[str]:
    """The aims that are missed, in words."""
    misses = []
    confirmed = [outcome for outcome in outcomes if outcome.is_confirmed]
    agreeing = sum(outcome.agrees for outcome in confirmed)
    if agreeing < HELD * len(confirmed):
        misses.append(f"the referee agrees with {agreeing} of {len(confirmed)} NDRs that it can judge, aim 9 of 10")
    for side, sign in (("below", 1), ("above", -1)):
        lost, count = (sum(getattr(outcome, side)[place] for outcome in outcomes) for place in (0, 1))
        if sign * (lost - count / 2) > 1.64 * 0.5 * count**0.5:
            misses.append(
                f"of {count} trials at most 3 % {side} an NDR {lost} lost, aim {('most', 'least')[sign < 0]} half"
            )
    return misses


def show(outcomes: Sequence[Outcome]) -> None:
    """Print the table."""
    drawn = Table(title=f"published NDRs and a referee's trials of random loads, {EACH} after each of the search's")
    for heading in ("scenario", "run", "published", "referee", "off", "judgement", "3 % below lost", "3 % above lost"):
        drawn.add_column(heading)
    for outcome in outcomes:
        published, middle = outcome.ndr[1], outcome.referee[1]
        judgement = "agrees" if outcome.agrees else "disagrees"
        drawn.add_row(
            outcome.scenario,
            str(outcome.run),
            outcome.status.value if published is None else _range((outcome.ndr[0], published, outcome.ndr[2])),
            _range(outcome.referee),
            "-" if published is None else f"{(published / middle - 1) * 100:+.1f} %",
            judgement if outcome.is_confirmed else f"not confirmed ({judgement})",
            "{} of {}".format(*outcome.below),
            "{} of {}".format(*outcome.above),
        )
    Console(width=None if sys.stdout.isatty() else PLAIN_WIDTH).print(drawn)
    print(
        f"not confirmed: fewer than {NEEDED} of the referee's trials between 0.8 and 1.2 times the NDR, or an interval "
        f"wider than {SHARP:.0%} on either side."
    )


def _range(ends: tuple[float | None, float, float | None]) -> str:
    low, middle, high = ends
    return f"{middle / 1e6:.3f} [{(low or 0) / 1e6:.3f} .. {'' if high is None else f'{high / 1e6:.3f}'}] Mpps"


def main() -> int:
    """Measure and print; 1 where an aim is missed."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--runs", type=int, default=RUNS, help=f"of each scenario ({RUNS})")
    options.add_argument("--scenario", type=Path, action="append", help="only this file; may be repeated")
    options.add_argument("--json", action="store_true")
    options.add_argument("--smoke", action="store_true", help="one short run of the first scenario; nothing is judged")
    arguments = options.parse_args()
    paths = arguments.scenario or SCENARIOS[: 1 if arguments.smoke else None]
    search = load(SCENARIOS[0]).search
    outcomes = []
    for path in paths:
        scenario = replace(load(path), measure=Rates((), 1.0), search=search)
        if arguments.smoke:
            scenario = replace(scenario, search=replace(search, max_traffic_s=2.0))
        require(scenario, Machines(Local()))
        with machine_lock(Local()):
            outcomes += measure(scenario, 1 if arguments.smoke else arguments.runs, 0 if arguments.smoke else AT_LEAST)
    misses = [] if arguments.smoke else missed(outcomes)
    if arguments.json:
        print(json.dumps({"runs": [asdict(outcome) for outcome in outcomes], "missed": misses}))
    else:
        show(outcomes)
        is_judged = not arguments.smoke and any(outcome.is_confirmed for outcome in outcomes)
        print(
            "\n".join(misses) if misses else "All aims met." if is_judged else "Aims not judged: no run was confirmed."
        )
    return bool(misses)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PinchpointError as error:
        sys.exit(f"{error}")

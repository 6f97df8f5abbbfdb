"""`make bench-real-search`: the same rate looked for again and again on a real switch, by both searches.

Rounds are interleaved: in each, both searches on a host left alone, then with a busy loop of ours on the
engine's core, then with one on the switch's. A search that is disturbed may refuse; what it may not do is
tell a lower rate as if nothing had happened. Rates are compared within one distance of the cores only.
"""

import argparse
import json
import multiprocessing
import os
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from table import PLAIN_WIDTH

from pinchpoint.bench import host, requirements
from pinchpoint.bench.journal import machine_lock
from pinchpoint.diagnose.cache_line import differ
from pinchpoint.diagnose.rejection import of_search
from pinchpoint.dut.ovs.unixctl import Unixctl
from pinchpoint.engine.process import find_engine
from pinchpoint.model.errors import PinchpointError
from pinchpoint.model.result import Rate, RateStatus, ScenarioResult
from pinchpoint.model.scenario import Latency, Scenario, SearchMethod
from pinchpoint.scenario import load
from pinchpoint.sweep.frames import measuring
from pinchpoint.sweep.listener import Listener
from pinchpoint.sweep.measure import Measurer
from pinchpoint.sweep.rates import measure_scenario
from pinchpoint.sweep.scenario import standing_bench
from pinchpoint.sweep.setup import prepare
from pinchpoint.sweep.standing import Record, Standing

SCENARIO = Path(__file__).parents[1] / "studies" / "quickstart" / "2-snat-255.toml"
"""Slower than the engine on any host: forwarding alone may end at the generator, which is no rate of the switch."""
ROUNDS = 10
LONGEST_S, SMOKE_LONGEST_S = 40.0, 0.5  # of one search
HOGS = ("nothing", "engine's core", "switch's core")
BUSY_LEAD_S = 10.0  # the busy process outlasts the start and the end of a search
SLICE_S = 0.02  # in which a hog of less than the whole core is busy once


@dataclass(frozen=True)
class Found:
    """One search's answer; rates in frames per second."""

    round: int
    method: str
    hog: str
    distance_ns: float | None
    ndr: tuple[float, float, float] | None  # lower, quoted, upper; None: refused, or no more than a bound
    pdr: tuple[float, float, float] | None
    at_least: bool  # the generator's ceiling came before the NDR
    reason: str
    traffic_s: float
    wall_s: float
    set_aside: float  # share of its trials
    warnings: tuple[str, ...]


def _spin(cpu: int, until_s: float, duty: float) -> None:
    os.sched_setaffinity(0, {cpu})
    while (now := time.monotonic()) < until_s and os.getppid() != 1:
        while time.monotonic() < now + duty * SLICE_S:
            pass
        time.sleep((1 - duty) * SLICE_S)


@contextmanager
def busy(cpu: int | None, duty: float, most_s: float) -> Iterator[None]:
    """A process takes the share `duty` of a CPU's time, for `most_s` seconds at most; no process if `cpu` is None."""
    if cpu is None:
        yield
        return
    until_s = time.monotonic() + most_s
    process = multiprocessing.get_context("spawn").Process(target=_spin, args=(cpu, until_s, duty), daemon=True)
    process.start()
    try:
        yield
    finally:
        process.terminate()
        process.join()


def measure(scenario: Scenario, rounds: int, budget_s: float, duty: float, longest_s: float) -> list[Found]:
    """All rounds that the budget has time for, on one bench; the last may be cut short."""
    began, found = time.monotonic(), list[Found]()
    setup = prepare(scenario)
    cpus = {HOGS[0]: None, HOGS[1]: setup.scenario.engine.cpus[0], HOGS[2]: setup.scenario.dut.pmd_cpus[0]}
    record = Record(_forget, _forget, _forget, _forget, _forget, engine_log=None)
    with standing_bench(setup, Listener()):
        control = Unixctl(setup.places.control)
        bench = Standing(setup, control, [find_engine()], record, Listener(), began)
        with measuring(bench) as measurer, host.kept_off(setup.scenario.dut.pmd_cpus):
            for number in range(1, rounds + 1):
                for hog, cpu in cpus.items():
                    for method in SearchMethod if number % 2 else reversed(SearchMethod):
                        if time.monotonic() - began > budget_s:
                            return found
                        with busy(cpu, duty, 2 * longest_s + BUSY_LEAD_S):
                            found.append(_once(setup.scenario, measurer, method, number, hog, longest_s))
                        print(f"round {number}: {hog} busy, {method}: {_brief(found[-1])}", file=sys.stderr)
        control.close()
    return found


def _forget(*_: object) -> None:
    """Nothing of a benchmark is stored."""


def _once(
    scenario: Scenario, measurer: Measurer, method: SearchMethod, number: int, hog: str, longest_s: float
) -> Found:
    search = replace(scenario.search, method=method, max_duration_s=longest_s)
    began = time.monotonic()
    measurer.trials.clear()
    result = measure_scenario(replace(scenario, search=search), measurer, Listener(), began)
    rejections = of_search([trial for trial in measurer.trials if trial.phase == "search"])
    ndr, pdr = result.rates[0], result.rates[-1]
    return Found(
        round=number,
        method=str(method),
        hog=hog,
        distance_ns=_distance_ns(result),
        ndr=_ends(ndr),
        pdr=_ends(pdr),
        at_least=ndr.status is RateStatus.AT_LEAST,
        reason=ndr.reason,
        traffic_s=result.traffic_s,
        wall_s=time.monotonic() - began,
        set_aside=rejections.share,
        warnings=result.warnings,
    )


def _distance_ns(result: ScenarioResult) -> float | None:
    if result.modes:
        return result.modes[0].distance_ns
    return result.cache_line.median_ns if result.cache_line else None


def _ends(rate: Rate) -> tuple[float, float, float] | None:
    if rate.status is not RateStatus.FOUND or rate.lower_fps is None or rate.upper_fps is None:
        return None
    return rate.lower_fps, rate.quoted_fps or rate.lower_fps, rate.upper_fps


def _brief(one: Found) -> str:
    rate = one.reason if one.ndr is None else f"NDR {one.ndr[1] / 1e6:.2f} Mpps"
    return f"{rate}; {one.set_aside:.0%} set aside, {one.wall_s:.0f} s"


def standing(one: Found, quiet: Sequence[Found]) -> str:
    """How an answer compares with those of the same search on the host left alone, at one distance of the cores.

    `within`: its interval meets one of theirs. `lower`, `higher`: it lies beside all of them. A lower one
    is `told` if a warning says that the rates may be too low.
    """
    if one.ndr is None:
        return "at least" if one.at_least else "refused"
    alike = [other.ndr for other in quiet if other.ndr and other.method == one.method and _same_mode(one, other)]
    if not alike:
        return "nothing to compare with"
    low, _, high = one.ndr
    if high < min(lower for lower, _, _ in alike):
        return "lower, told" if any("too low" in warning for warning in one.warnings) else "lower"
    return "higher" if low > max(upper for _, _, upper in alike) else "within"


def _same_mode(one: Found, other: Found) -> bool:
    return one.distance_ns is None or other.distance_ns is None or not differ(one.distance_ns, other.distance_ns)


def rows(found: Sequence[Found]) -> list[dict[str, Any]]:
    """One for each search and hog: medians, spread, refusals, costs, and how its answers stand to the quiet ones."""
    quiet = [one for one in found if one.hog == HOGS[0]]
    told = []
    for hog in HOGS:
        for method in SearchMethod:
            own = [one for one in found if (one.hog, one.method) == (hog, method)]
            if own:
                stands: dict[str, int] = {}
                for one in own:
                    others = [other for other in quiet if other is not one]
                    word = standing(one, others)
                    stands[word] = stands.get(word, 0) + 1
                told.append(_row(own, hog, str(method), stands))
    return told


def _row(own: Sequence[Found], hog: str, method: str, stands: dict[str, int]) -> dict[str, Any]:
    return {
        "busy": hog,
        "method": method,
        "searches": len(own),
        "refused": sum(one.ndr is None and not one.at_least for one in own),
        "ndr": _by_mode([(one.distance_ns, one.ndr) for one in own]),
        "pdr": _by_mode([(one.distance_ns, one.pdr) for one in own]),
        "traffic_s": statistics.median(one.traffic_s for one in own),
        "wall_s": statistics.median(one.wall_s for one in own),
        "set_aside": statistics.median(one.set_aside for one in own),
        "stands": stands,
    }


def _by_mode(rates: Sequence[tuple[float | None, tuple[float, float, float] | None]]) -> list[dict[str, Any]]:
    """Median and relative spread (highest less lowest) of the quoted rates, for each distance of the cores."""
    groups: list[list[tuple[float, float]]] = []
    for distance_ns, ends in rates:
        if ends is None:
            continue
        place = (distance_ns or 1.0, ends[1])
        group = next((one for one in groups if not differ(one[0][0], place[0])), None)
        if group is None:
            groups.append([place])
        else:
            group.append(place)
    return [
        {
            "distance_ns": statistics.median(distance for distance, _ in group),
            "n": len(group),
            "median_fps": statistics.median(fps for _, fps in group),
            "spread": (max(fps for _, fps in group) - min(fps for _, fps in group))
            / statistics.median(fps for _, fps in group),
        }
        for group in groups
    ]


def show(found: Sequence[Found], rounds: int) -> None:
    """Print the table."""
    table = Table(title=f"one rate of a real switch, up to {rounds} interleaved rounds; medians", show_lines=True)
    headings = ("busy loop on", "search", "searches", "refused", "NDR", "PDR", "traffic", "wall", "set aside", "NDR is")
    for heading in headings:
        table.add_column(heading)
    for row in rows(found):
        counts = (str(row["searches"]), str(row["refused"]))
        times = (f"{row['traffic_s']:.1f} s", f"{row['wall_s']:.1f} s", f"{row['set_aside']:.0%}")
        stands = "\n".join(f"{count} {word}" for word, count in row["stands"].items())
        table.add_row(row["busy"], row["method"], *counts, _told(row["ndr"]), _told(row["pdr"]), *times, stands)
    Console(width=None if sys.stdout.isatty() else PLAIN_WIDTH).print(table)
    print(
        "NDR is: against those on the host left alone, at the same distance of the cores: within (intervals meet),\n"
        "lower or higher than all of them; 'told' where a warning says so. 'lower' without it must not happen."
    )


def _told(modes: Sequence[dict[str, Any]]) -> str:
    return "\n".join(
        f"{one['median_fps'] / 1e6:.2f} Mpps, spread {one['spread']:.1%} (n {one['n']}, {one['distance_ns']:.0f} ns)"
        for one in modes
    )


def main() -> int:
    """Measure and tell; 1 if a search told a lower rate under a busy loop as if nothing had happened."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=ROUNDS)
    options.add_argument("--seconds-budget", type=float, default=1800.0, help="no search is begun later")
    options.add_argument("--duty", type=float, default=1.0, help="of the core's time that the busy loop asks for, 0..1")
    options.add_argument("--scenario", type=Path, default=SCENARIO)
    options.add_argument("--json", action="store_true")
    options.add_argument("--smoke", action="store_true", help="one round of searches cut short; nothing is judged")
    given = options.parse_args()
    longest_s = SMOKE_LONGEST_S if given.smoke else LONGEST_S
    given.rounds = 1 if given.smoke else given.rounds
    scenario = replace(load(given.scenario), latency=Latency((), 1.0))
    requirements.require(scenario)
    with machine_lock():
        found = measure(scenario, given.rounds, given.seconds_budget, given.duty, longest_s)
    if given.json:
        print(json.dumps({"rows": rows(found), "searches": [asdict(one) for one in found]}))
    else:
        show(found, given.rounds)
    quiet = [one for one in found if one.hog == HOGS[0]]
    return 0 if given.smoke else int(any(standing(one, quiet) == "lower" for one in found if one.hog != HOGS[0]))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PinchpointError as error:
        sys.exit(f"{error}")

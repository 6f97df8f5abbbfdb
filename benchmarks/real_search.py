"""`make bench-real-search`: the same rate looked for again and again on a real switch, by both searches.

Rounds are interleaved: in each, both searches on a host left alone, then with a busy loop on the engine's core,
then with one on the switch's core. A rate is what the switch carries on the host of that time. A busy switch's core
leaves less to carry, and a lower rate is right. A busy engine's core takes nothing from the switch: there a lower
rate is an error, unless the search warns that the engine held frames back.
"""

import argparse
import json
import multiprocessing
import os
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from table import PLAIN_WIDTH

from pinchpoint.account.rejection import held_back, of_search
from pinchpoint.bench.journal import machine_lock
from pinchpoint.dut import requirements
from pinchpoint.dut.setup import prepare
from pinchpoint.engine.process import find_engine
from pinchpoint.host.priority import kept_off
from pinchpoint.measure.frames import measuring
from pinchpoint.measure.listener import Listener
from pinchpoint.measure.rates.keys import Rates
from pinchpoint.measure.rates.run import measure_scenario
from pinchpoint.measure.standing import Record, Standing
from pinchpoint.measure.trial import Measurer
from pinchpoint.model.errors import PinchpointError
from pinchpoint.model.result import Rate, RateStatus
from pinchpoint.model.scenario import Scenario, SearchMethod
from pinchpoint.run.bench import standing_bench
from pinchpoint.scenario import load

SCENARIO = Path(__file__).parents[1] / "studies" / "quickstart" / "2-snat-255.toml"
"""Slower than the engine on any host: forwarding alone may end at the generator, which is no rate of the switch."""
ROUNDS = 10
LONGEST_S, SMOKE_LONGEST_S = 40.0, 0.5  # of one search
ALONE, ENGINE_BUSY, SWITCH_BUSY = HOGS = ("nothing", "engine's core", "switch's core")
BUSY_LEAD_S = 10.0  # the busy process outlasts the start and the end of a search
SLICE_S = 0.02  # in which a hog of less than the whole core is busy once


@dataclass(frozen=True)
class Found:
    """One search's answer; rates in frames per second."""

    round: int
    method: str
    hog: str
    status: RateStatus  # of the NDR
    ndr: tuple[float, float, float] | None  # see `_range`; None: refused, or no more than a bound
    pdr: tuple[float, float, float] | None
    held_back: bool  # the search warns that the engine offered less than was due near the rate
    reason: str
    traffic_s: float
    wall_s: float
    discarded: float  # share of its trials


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
    cpus = {ALONE: None, ENGINE_BUSY: setup.scenario.engine.cpus[0], SWITCH_BUSY: setup.scenario.dut.cpus[0]}
    record = Record(_forget, _forget, _forget, _forget, _forget, engine_log=None)
    with standing_bench(setup, Listener()):
        live = setup.bench.open()
        bench = Standing(setup, live, [find_engine()], record, Listener(), began)
        with measuring(bench) as measurer, kept_off(setup.scenario.dut.cpus):
            for number in range(1, rounds + 1):
                for hog, cpu in cpus.items():
                    for method in SearchMethod if number % 2 else reversed(SearchMethod):
                        if time.monotonic() - began > budget_s:
                            return found
                        with busy(cpu, duty, 2 * longest_s + BUSY_LEAD_S):
                            found.append(_once(setup.scenario, measurer, method, number, hog, longest_s))
                        print(f"round {number}: {hog} busy, {method}: {_brief(found[-1])}", file=sys.stderr)
        live.close()
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
    searched = [trial for trial in measurer.trials if trial.phase == "search"]
    ndr, pdr = result.rates[0], result.rates[-1]
    return Found(
        round=number,
        method=str(method),
        hog=hog,
        status=ndr.status,
        ndr=_range(ndr),
        pdr=_range(pdr),
        held_back=bool(held_back(searched, ndr.quoted_fps, search.relative_width)),
        reason=ndr.reason,
        traffic_s=result.traffic_s,
        wall_s=time.monotonic() - began,
        discarded=of_search(searched).share,
    )


def _range(rate: Rate) -> tuple[float, float, float] | None:
    """A rate that was found, between the ends of its band; by a method that knows no time, of its interval."""
    if rate.status is not RateStatus.FOUND or rate.lower_fps is None or rate.upper_fps is None:
        return None
    low_fps, high_fps = (rate.band.low_fps, rate.band.high_fps) if rate.band else (rate.lower_fps, rate.upper_fps)
    return low_fps, rate.quoted_fps or rate.lower_fps, high_fps


def _brief(one: Found) -> str:
    rate = f"{one.status}: {one.reason}" if one.ndr is None else f"NDR {one.ndr[1] / 1e6:.2f} Mpps"
    return f"{rate}; {one.discarded:.0%} discarded, {one.wall_s:.0f} s"


def standing(one: Found, quiet: Sequence[Found]) -> str:
    """How an answer compares with those of the same search on the host left alone.

    `within`: its range meets one of theirs. `lower`, `higher`: it lies beside all of them. `lower, reported`: the
    search warns that the engine held frames back. Without a number of its own: the status.
    """
    if one.ndr is None:
        return one.status.value.replace("_", " ")
    alike = [other.ndr for other in quiet if other.ndr and other.method == one.method]
    if not alike:
        return "nothing to compare with"
    low, _, high = one.ndr
    if high < min(lower for lower, _, _ in alike):
        return "lower, reported" if one.held_back else "lower"
    return "higher" if low > max(upper for _, _, upper in alike) else "within"


def wrong(found: Sequence[Found]) -> list[Found]:
    """Searches that reported a lower rate for want of frames from a busy engine, without a warning."""
    quiet = [one for one in found if one.hog == ALONE]
    return [one for one in found if one.hog == ENGINE_BUSY and standing(one, quiet) == "lower"]


def rows(found: Sequence[Found]) -> list[dict[str, Any]]:
    """One for each search and hog: medians, spread, costs, and how its answers compare with the quiet ones."""
    quiet = [one for one in found if one.hog == ALONE]
    every = []
    for hog in HOGS:
        for method in SearchMethod:
            own = [one for one in found if (one.hog, one.method) == (hog, method)]
            if own:
                stands = Counter(standing(one, [other for other in quiet if other is not one]) for one in own)
                every.append(_row(own, hog, str(method), stands))
    return every


def _row(own: Sequence[Found], hog: str, method: str, stands: Mapping[str, int]) -> dict[str, Any]:
    return {
        "busy": hog,
        "method": method,
        "searches": len(own),
        "numbers": sum(one.ndr is not None for one in own),
        "ndr": _spread([one.ndr for one in own]),
        "pdr": _spread([one.pdr for one in own]),
        "traffic_s": statistics.median(one.traffic_s for one in own),
        "wall_s": statistics.median(one.wall_s for one in own),
        "discarded": statistics.median(one.discarded for one in own),
        "stands": dict(stands),
    }


def _spread(ranges: Sequence[tuple[float, float, float] | None]) -> dict[str, float]:
    """Median and relative spread (highest less lowest) of the quoted rates; empty if there is none."""
    quoted_fps = [ends[1] for ends in ranges if ends is not None]
    if not quoted_fps:
        return {}
    middle_fps = statistics.median(quoted_fps)
    return {"median_fps": middle_fps, "spread": (max(quoted_fps) - min(quoted_fps)) / middle_fps}


def show(found: Sequence[Found], rounds: int) -> None:
    """Print the table."""
    table = Table(title=f"one rate of a real switch, up to {rounds} interleaved rounds; medians", show_lines=True)
    headings = ("busy loop on", "search", "searches", "numbers", "NDR", "PDR", "traffic", "wall", "discarded", "NDR is")
    for heading in headings:
        table.add_column(heading)
    for row in rows(found):
        counts = (str(row["searches"]), str(row["numbers"]))
        times = (f"{row['traffic_s']:.1f} s", f"{row['wall_s']:.1f} s", f"{row['discarded']:.0%}")
        stands = "\n".join(f"{count} {word}" for word, count in row["stands"].items())
        table.add_row(row["busy"], row["method"], *counts, _cell(row["ndr"]), _cell(row["pdr"]), *times, stands)
    Console(width=None if sys.stdout.isatty() else PLAIN_WIDTH).print(table)
    print(
        "NDR is: compared with those on the host left alone: within (the bands meet), lower or higher than all of\n"
        "them, or without a number. Beside a busy engine's core, 'lower' must not happen without a warning."
    )


def _cell(found: Mapping[str, float]) -> str:
    return f"{found['median_fps'] / 1e6:.2f} Mpps, spread {found['spread']:.1%}" if found else "-"


def main() -> int:
    """Measure and print; 1 if a search beside a busy engine reported a lower rate without a warning."""
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
    scenario = replace(load(given.scenario), measure=Rates((), 1.0))
    requirements.require(scenario)
    with machine_lock():
        found = measure(scenario, given.rounds, given.seconds_budget, given.duty, longest_s)
    if given.json:
        print(json.dumps({"rows": rows(found), "searches": [asdict(one) for one in found]}))
    else:
        show(found, given.rounds)
    return 0 if given.smoke else int(bool(wrong(found)))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PinchpointError as error:
        sys.exit(f"{error}")

"""`make bench-search`: searches on simulated devices whose true rates are known; no root, no network, minutes.

Ours, MLRsearch with CSIT's goals and binary searches look for NDR and PDR 0.5 % of every device, with many seeds.
All are held against the same truth: the load at which half of the trials of one second exceed the loss ratio.
"""

import argparse
import json
import math
import multiprocessing
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, median

from rich.console import Console
from rich.table import Table
from search_duts import DUTS, RATIOS, Dut, Simulated, threshold_fps, true_devices
from search_methods import METHODS, MIN_FPS, OURS, set_aside, traffic_s

from pinchpoint.model.result import Rate, RateStatus

SEEDS = 100
FIRST_SEED = 4_000_000  # of these tables; the search was developed on others
NEAR_NS = 70.0  # modes of the cores, simulated: 30 and 160 ns
WIDTHS = {"ours": OURS.relative_width}
WIDTH = 0.005  # of the others
COVERAGE = OURS.confidence - 0.02
WRONG = 0.005
DEVIATIONS = 2.0  # of the sampling error: what so many seeds cannot tell apart is not called missed
Truths = tuple[dict[float, float], ...]


@dataclass(frozen=True)
class Verdict:
    """One rate of one search, held against the truth."""

    status: RateStatus
    error: float | None  # relative, of what is quoted
    is_covered: bool | None  # whether the interval holds the truth; None: there is none
    is_wrong: bool  # an end of the interval beyond the truth by more than the stated width
    is_unflagged: bool  # called found although the generator, or a floor, came first


@dataclass(frozen=True)
class Search:
    """One search."""

    dut: str
    method: str
    traffic_s: float
    trials: int
    set_aside: int
    verdicts: tuple[Verdict, ...]  # in the order of RATIOS


@dataclass(frozen=True)
class Row:
    """All searches of one method for one rate of one device."""

    dut: str
    method: str
    loss_ratio: float
    traffic_s: float  # mean
    trials: float  # mean
    found: float  # shares
    at_least: float
    refused: float
    error_median: float | None
    error_p90: float | None
    coverage: float | None  # of the intervals that were given
    intervals: int
    wrong: float
    unflagged: float


def searched(task: tuple[Dut, str, int, Truths]) -> Search:
    """One search and its verdicts."""
    dut, method, seed, truth = task
    bench = Simulated(dut, seed)
    outcome = METHODS[method](bench)
    near = outcome.modes[0].distance_ns if outcome.modes else None
    mode = None if near is None else 1 if near < NEAR_NS else 2
    verdicts = []
    for rate in outcome.rates:
        known = [one[rate.loss_ratio] for one in truth]
        known = [known[mode]] if mode else known
        drifted = 1 + dut.truth.drift_per_s * bench.now_s()  # any rate that it had meanwhile is right
        verdicts.append(
            _verdict(dut, rate, [(min(one, one * drifted), one) for one in known], WIDTHS.get(method, WIDTH))
        )
    return Search(dut.name, method, traffic_s(bench), len(bench.trials), set_aside(bench), tuple(verdicts))


def _verdict(dut: Dut, rate: Rate, known: Sequence[tuple[float, float]], width: float) -> Verdict:
    """Against the truth, or, of a device of two modes that nobody can tell apart, against the nearest of the truths."""
    is_given = rate.status in (RateStatus.FOUND, RateStatus.AT_LEAST)
    if not is_given:
        return Verdict(rate.status, None, None, False, False)
    lower, upper = rate.lower_fps or MIN_FPS, rate.upper_fps or float("inf")
    quoted = rate.quoted_fps if rate.status is RateStatus.FOUND else None
    error = None if quoted is None else min(max(1 - quoted / low, quoted / high - 1, 0.0) for low, high in known)
    covered = any(lower <= high and low <= upper for low, high in known)
    wrong = not any(lower <= high * (1 + width) and upper >= low * (1 - width) for low, high in known)
    no_such = dut.is_limited or (rate.loss_ratio == 0 and not dut.has_ndr)
    return Verdict(rate.status, error, covered, wrong, no_such and rate.status is RateStatus.FOUND)


def rows(searches: Sequence[Search]) -> list[Row]:
    """One for each device, method and rate, in the order of the suite."""
    found: dict[tuple[str, str], list[Search]] = {}
    for search in searches:
        found.setdefault((search.dut, search.method), []).append(search)
    return [_row(same, number) for same in found.values() for number in range(len(RATIOS))]


def _row(same: Sequence[Search], number: int) -> Row:
    verdicts = [search.verdicts[number] for search in same]
    errors = sorted(one.error for one in verdicts if one.error is not None)
    covered = [one.is_covered for one in verdicts if one.is_covered is not None]
    status = [one.status for one in verdicts]
    return Row(
        dut=same[0].dut,
        method=same[0].method,
        loss_ratio=RATIOS[number],
        traffic_s=fmean(search.traffic_s for search in same),
        trials=fmean(search.trials for search in same),
        found=status.count(RateStatus.FOUND) / len(same),
        at_least=status.count(RateStatus.AT_LEAST) / len(same),
        refused=1 - (status.count(RateStatus.FOUND) + status.count(RateStatus.AT_LEAST)) / len(same),
        error_median=median(errors) if errors else None,
        error_p90=errors[min(len(errors) - 1, int(0.9 * len(errors)))] if errors else None,
        coverage=fmean(covered) if covered else None,
        intervals=len(covered),
        wrong=fmean(one.is_wrong for one in verdicts),
        unflagged=fmean(one.is_unflagged for one in verdicts),
    )


def missed(table: Sequence[Row]) -> list[str]:
    """The aims that our own search misses, in words."""
    ours = [row for row in table if row.method == "ours"]
    return [words for row in ours for words in _missed(row)] + (_missed_together(ours) if ours else [])


def _missed(row: Row) -> list[str]:
    dut = next(dut for dut in DUTS if dut.name == row.dut)
    where = f"{row.dut}, {_rate(row.loss_ratio)}"
    found = []
    if dut.aims and row.traffic_s > dut.aims[0]:
        found.append(f"{where}: {row.traffic_s:.1f} s of traffic, aim {dut.aims[0]:g} s")
    if dut.aims and (row.error_p90 is None or row.error_p90 > dut.aims[1]):
        found.append(f"{where}: 90 % of the errors below {_share(row.error_p90)}, aim {_share(dut.aims[1])}")
    if row.coverage is not None and row.coverage < COVERAGE - _uncertain(COVERAGE, row.intervals):
        found.append(f"{where}: {_share(row.coverage)} of {row.intervals} intervals cover, aim {_share(COVERAGE)}")
    if row.unflagged:
        found.append(f"{where}: {_share(row.unflagged)} found where there is no such rate, aim 0 %")
    return found


def _missed_together(ours: Sequence[Row]) -> list[str]:
    wrong = fmean(row.wrong for row in ours)
    intervals = sum(row.intervals for row in ours)
    covered = sum((row.coverage or 0.0) * row.intervals for row in ours) / max(1, intervals)
    found = [f"all devices: {_share(wrong)} wrong verdicts, aim {_share(WRONG)}"] if wrong > WRONG else []
    if covered < COVERAGE:
        found.append(f"all devices: {_share(covered)} of {intervals} intervals cover, aim {_share(COVERAGE)}")
    return found


def _uncertain(share: float, count: int) -> float:
    return DEVIATIONS * math.sqrt(share * (1 - share) / max(1, count))


def _rate(loss_ratio: float) -> str:
    return "NDR" if loss_ratio == 0 else f"PDR {loss_ratio * 100:g} %"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value * 100:.3g} %" if value < 10 else f"{value:.1f} x"


def show(table: Sequence[Row], seeds: int) -> None:
    """Print the table."""
    drawn = Table(title=f"{seeds} seeds each; traffic and trials are means of the search for both rates")
    for heading in ("device", "method", "rate", "traffic", "trials", "found", "at least", "refused",
                    "error median", "p90", "cover", "wrong", "unflagged"):  # fmt: skip
        drawn.add_column(heading, justify="left" if heading in ("device", "method", "rate") else "right")
    before = ""
    for row in table:
        if row.dut != before:
            drawn.add_section()
        cells = (row.found, row.at_least, row.refused, row.error_median, row.error_p90, row.coverage, row.wrong)
        drawn.add_row(row.dut if row.dut != before else "", row.method, _rate(row.loss_ratio), f"{row.traffic_s:.0f} s",
                      f"{row.trials:.0f}", *map(_share, cells), _share(row.unflagged))  # fmt: skip
        before = row.dut
    Console(width=None if sys.stdout.isatty() else 180).print(drawn)
    print(
        "error: of found rates, against the load at which half of all 1 s trials exceed the loss ratio.\n"
        "cover: intervals (MLRsearch, binary: bounds) that hold it. wrong: an end beyond it by more than the stated\n"
        f"width ({OURS.relative_width:g} ours, {WIDTH:g} others). unflagged: found though the generator's ceiling or a "
        "floor of loss came first.\nTwo modes: ours is told the distance of the cores where it says probed and is held "
        "against that mode; all others\nagainst whichever of near, far and both together is nearest. Drift: against "
        "any rate that the device had meanwhile."
    )


def run(seeds: int, only: str, methods: Sequence[str]) -> list[Row]:
    """All searches, on all cores."""
    duts = [dut for dut in DUTS if only in dut.name]
    with multiprocessing.Pool() as pool:
        devices = list(dict.fromkeys((one, ratio) for dut in duts for one in true_devices(dut) for ratio in RATIOS))
        rates_fps = dict(zip(devices, pool.map(threshold_fps, devices, chunksize=1), strict=True))
        known = {
            dut.name: tuple({ratio: rates_fps[one, ratio] for ratio in RATIOS} for one in true_devices(dut))
            for dut in duts
        }
        tasks = [
            (dut, method, FIRST_SEED + number, known[dut.name])
            for dut in duts
            for method in methods
            for number in range(seeds)
        ]
        return rows(pool.map(searched, tasks, chunksize=10))


def main() -> int:
    """Search and print; 1 where an aim is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"searches of each kind ({SEEDS})")
    parser.add_argument("--only", default="", metavar="WORDS", help="only devices whose name contains this")
    parser.add_argument("--method", action="append", choices=METHODS, help="only this one; may be repeated")
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    parser.add_argument("--smoke", action="store_true", help="one seed of every device and method; aims are not judged")
    arguments = parser.parse_args()
    if arguments.smoke:
        arguments.seeds = 1
    began = time.monotonic()
    table = run(arguments.seeds, arguments.only, arguments.method or list(METHODS))
    misses = [] if arguments.smoke else missed(table)
    if arguments.json:
        print(
            json.dumps({"seeds": arguments.seeds, "rows": [asdict(row) for row in table], "missed": misses}, indent=1)
        )
        return bool(misses)
    show(table, arguments.seeds)
    judged = "Aims not judged." if arguments.smoke else "Aims missed:" if misses else "All aims met."
    print(f"{time.monotonic() - began:.0f} s. {judged}")
    for words in misses:
        print(f"  {words}")
    return bool(misses)


if __name__ == "__main__":
    sys.exit(main())

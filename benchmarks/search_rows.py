"""`make bench-search`: searches on simulated devices whose true rates are known; no root, no network.

Ours, MLRsearch with CSIT's goals and binary searches look for NDR and PDR 0.5 % of every device, with many seeds.
The truth about a device that stands still is the load at which half of all trials exceed the loss ratio. That about
one that moves is a function of time: the threshold of a trial begun at any moment of the very search. Its median is
compared with the quoted rate and its interval, its distribution with the band.
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
from search_duts import DUTS, RATIOS, Dut, Simulated, threshold_fps
from search_methods import CONFIDENCE, METHODS, MIN_FPS, traffic_s

from pinchpoint.model.result import Rate, RateStatus

SEEDS = 200
FIRST_SEED = 6_000_000  # of these tables; the search was developed on others
DEVIATIONS = 2.0  # of the sampling error: a difference that this many seeds cannot resolve is not reported as missed
GIVEN = (RateStatus.FOUND, RateStatus.AT_LEAST)


@dataclass(frozen=True)
class Verdict:
    """One rate of one search, compared with the truth."""

    status: RateStatus
    error: float | None  # relative, of what is quoted
    is_covered: bool | None  # whether the interval holds the truth; None: there is none
    in_band: float | None  # share of the true momentary rates that the band holds
    is_unflagged: bool  # called found although the generator came first, or the device has no such rate


@dataclass(frozen=True)
class Search:
    """One search."""

    dut: str
    method: str
    traffic_s: float
    trials: int
    verdicts: tuple[Verdict, ...]  # in the order of RATIOS


@dataclass(frozen=True)
class Row:
    """All searches of one method for one rate of one device."""

    dut: str
    method: str
    loss_ratio: float
    traffic_s: float  # mean
    trials: float  # mean
    found: float  # shares of the searches
    at_least: float
    loses: float
    refused: float
    error_median: float | None
    error_p90: float | None
    coverage: float | None  # of the intervals that were given
    intervals: int
    in_band: float | None  # mean
    unflagged: float


def searched(task: tuple[Dut, str, int, dict[float, float]]) -> Search:
    """One search and its verdicts; the last of the task is the truth of a device that stands still."""
    dut, method, seed, known = task
    bench = Simulated(dut, seed)
    outcome = METHODS[method](bench)
    verdicts = []
    for rate in outcome.rates:
        momentary = bench.momentary_fps(rate.loss_ratio) if dut.moves else []
        verdicts.append(_verdict(dut, rate, median(momentary) if momentary else known[rate.loss_ratio], momentary))
    return Search(dut.name, method, traffic_s(bench), len(bench.trials), tuple(verdicts))


def _verdict(dut: Dut, rate: Rate, truth_fps: float, momentary: Sequence[float]) -> Verdict:
    has_rate = dut.has_ndr if rate.loss_ratio == 0 else dut.has_pdr
    is_found = rate.status is RateStatus.FOUND
    unflagged = is_found and (dut.is_limited or not has_rate)
    if rate.status not in GIVEN or not has_rate:
        return Verdict(rate.status, None, None, None, unflagged)
    lower, upper = rate.lower_fps or MIN_FPS, rate.upper_fps or math.inf
    quoted = rate.quoted_fps if is_found else None
    held = [rate.band.low_fps <= one <= rate.band.high_fps for one in momentary] if rate.band else []
    return Verdict(
        rate.status,
        None if quoted is None else abs(quoted / truth_fps - 1),
        lower <= truth_fps <= upper,
        fmean(held) if held else None,
        unflagged,
    )


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
    held = [one.in_band for one in verdicts if one.in_band is not None]
    shares = {status: sum(one.status is status for one in verdicts) / len(same) for status in RateStatus}
    return Row(
        dut=same[0].dut,
        method=same[0].method,
        loss_ratio=RATIOS[number],
        traffic_s=fmean(search.traffic_s for search in same),
        trials=fmean(search.trials for search in same),
        found=shares[RateStatus.FOUND],
        at_least=shares[RateStatus.AT_LEAST],
        loses=shares[RateStatus.LOSES_ALWAYS],
        refused=shares[RateStatus.REFUSED] + shares[RateStatus.BELOW_MINIMUM],
        error_median=median(errors) if errors else None,
        error_p90=errors[min(len(errors) - 1, int(0.9 * len(errors)))] if errors else None,
        coverage=fmean(covered) if covered else None,
        intervals=len(covered),
        in_band=fmean(held) if held else None,
        unflagged=fmean(one.is_unflagged for one in verdicts),
    )


def missed(table: Sequence[Row]) -> list[str]:
    """The aims that our own search misses, in words."""
    return [words for row in table if row.method == "ours" for words in _missed(row)]


def _missed(row: Row) -> list[str]:
    aims = next(dut for dut in DUTS if dut.name == row.dut).aims
    where = f"{row.dut}, {_rate(row.loss_ratio)}"
    found = []
    if aims.traffic_s and row.traffic_s > aims.traffic_s:
        found.append(f"{where}: {row.traffic_s:.1f} s of traffic, aim {aims.traffic_s:g} s")
    for what, value, aim in (
        ("median error", row.error_median, aims.error_median),
        ("90 % of the errors below", row.error_p90, aims.error_p90),
    ):
        if aim is not None and (value is None or value > aim):
            found.append(f"{where}: {what} {_share(value)}, aim {_share(aim)}")
    if row.coverage is not None and row.coverage < aims.coverage - _uncertain(aims.coverage, row.intervals):
        found.append(f"{where}: {_share(row.coverage)} of {row.intervals} intervals cover, aim {_share(aims.coverage)}")
    if aims.band and not (row.in_band is not None and aims.band[0] <= row.in_band <= aims.band[1]):
        found.append(
            f"{where}: the band holds {_share(row.in_band)}, aim {_share(aims.band[0])}-{_share(aims.band[1])}"
        )
    if aims.found is not None and row.found < aims.found:
        found.append(f"{where}: a number in {_share(row.found)}, aim {_share(aims.found)}")
    if row.unflagged:
        found.append(f"{where}: {_share(row.unflagged)} found where there is no such rate, aim 0 %")
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
    for heading in ("device", "method", "rate", "traffic", "trials", "found", "at least", "loses", "none",
                    "error median", "p90", "cover", "in band", "unflagged"):  # fmt: skip
        drawn.add_column(heading, justify="left" if heading in ("device", "method", "rate") else "right")
    before = ""
    for row in table:
        if row.dut != before:
            drawn.add_section()
        cells = (row.found, row.at_least, row.loses, row.refused, row.error_median, row.error_p90, row.coverage,
                 row.in_band, row.unflagged)  # fmt: skip
        drawn.add_row(row.dut if row.dut != before else "", row.method, _rate(row.loss_ratio),
                      f"{row.traffic_s:.0f} s", f"{row.trials:.0f}", *map(_share, cells))  # fmt: skip
        before = row.dut
    Console(width=None if sys.stdout.isatty() else 180).print(drawn)
    print(
        "error: of found rates, against the load that half of the trials exceed the loss ratio at, over the time of\n"
        f"the search. cover: intervals of {CONFIDENCE:.0%} (MLRsearch, binary: bounds) that hold it. in band: share of "
        "the true momentary\nrates that the band holds (5 to 95 % of the time). loses: the loss ratio is the number. "
        "unflagged: found although the\ngenerator's ceiling came first or frames are lost at any load."
    )


def run(seeds: int, only: str, methods: Sequence[str]) -> list[Row]:
    """All searches, on all cores."""
    duts = [dut for dut in DUTS if only in dut.name]
    still = [dut for dut in duts if not dut.moves]
    with multiprocessing.Pool() as pool:
        wanted = list(dict.fromkeys((dut.truth, ratio, dut.trial_s) for dut in still for ratio in RATIOS))
        rates_fps = dict(zip(wanted, pool.map(threshold_fps, wanted, chunksize=1), strict=True))
        known = {
            dut.name: {ratio: rates_fps.get((dut.truth, ratio, dut.trial_s), math.nan) for ratio in RATIOS}
            for dut in duts
        }
        tasks = [
            (dut, method, FIRST_SEED + number, known[dut.name])
            for dut in duts
            for method in methods
            for number in range(seeds)
        ]
        return rows(pool.map(searched, tasks, chunksize=5))


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

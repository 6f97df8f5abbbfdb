"""Outcomes of contests as a table for people and as JSON for programs."""

import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from contest import (
    Aim,
    Line,
    Outcome,
    Sample,
    Spread,
    comparable,
    cycles,
    kernel_share,
    notes,
    rates,
    ratios,
    ratios_per_cpu,
    reached,
)
from rich.console import Console
from rich.markup import escape
from rich.table import Table

HEADINGS = ("work", "against", "pinchpoint", "peer", "ratio per round", "cycles each", "limit", "aim")
NOTHING = "-"
PLAIN_WIDTH = 200  # where no terminal says how wide it is


def show(outcomes: Sequence[Outcome], rounds: int, clock_hz: int) -> None:
    """Print the table."""
    table = Table(title=f"medians (range) of {rounds} interleaved rounds", show_lines=True)
    for heading in HEADINGS:
        table.add_column(heading)
    for outcome in outcomes:
        for line in outcome.contest.lines:
            table.add_row(*(escape(cell) for cell in cells(outcome, line, clock_hz)))
    Console(width=None if sys.stdout.isatty() else PLAIN_WIDTH).print(table)
    print(
        f"cycles each: of a clock of {clock_hz / 1e9:.2f} GHz, by CPU time, ours / the peer's. limit: what was busy.\n"
        "Where CPU time was short of 100 %, another program had the core: compare the ratio per CPU second.\n"
        "cores apart: one way of a cache line between the two cores. Virtual machines jump between near and far,\n"
        "and every rate across cores with them: ratios are of rounds in which both had the same."
    )


def cells(outcome: Outcome, line: Line, clock_hz: int) -> tuple[str, ...]:
    """One row of the table, as under HEADINGS."""
    ours = outcome.samples.get(line.ours, [])
    theirs = outcome.samples.get(line.against or "", [])
    unit = outcome.contest.unit
    return (
        f"{line.work}\n({line.remark})" if line.remark else line.work,
        line.against or NOTHING,
        _rate(rates(ours), unit) or outcome.failures.get(line.ours, NOTHING),
        _rate(rates(theirs), unit) or outcome.failures.get(line.against or "", NOTHING),
        _ratios(ours, theirs),
        " / ".join(_cycles(samples, clock_hz) for samples in (ours, theirs) if samples),
        "\n".join(f"{who}: {_limit(samples)}" for who, samples in (("ours", ours), ("peer", theirs)) if samples),
        "\n".join(_aim(aim, ours, theirs, unit) for aim in line.aims),
    )


def _rate(spread: Spread | None, unit: str) -> str:
    if spread is None:
        return ""
    scale, word = (1e6, "Mpps") if unit == "frames" else (1e3, "k/s")
    digits = 2 if spread.median / scale < 100 else 1
    median, low, high = (f"{value / scale:.{digits}f}" for value in (spread.median, spread.low, spread.high))
    return f"{median} {word}\n({low}-{high})"


def _ratios(ours: Sequence[Sample], theirs: Sequence[Sample]) -> str:
    ratio = ratios(ours, theirs)
    if ratio is None:
        return "no round at one core distance" if ours and theirs else NOTHING
    told = f"{ratio.median:.2f} x ({ratio.low:.2f}-{ratio.high:.2f})"
    by_cpu = ratios_per_cpu(ours, theirs)
    compared = len(comparable(ours, theirs))
    if compared < len(ours):
        told += f"\n{compared} of {len(ours)} rounds"
    return f"{told}\nper CPU s: {by_cpu.median:.2f} x" if by_cpu else told


def _cycles(samples: Sequence[Sample], clock_hz: int) -> str:
    per_frame = cycles(samples, clock_hz)
    if per_frame is None:
        return NOTHING
    return f"{per_frame.median:.0f}" if per_frame.median >= 100 else f"{per_frame.median:.1f}"


def _limit(samples: Sequence[Sample]) -> str:
    """What was busy: the switch, the core, and how much of its time the kernel had."""
    words = [_note(name, value) for name, value in notes(samples).items()]
    shares = [sample.cpu_share for sample in samples if sample.cpu_share is not None]
    if shares:
        words.append(f"CPU {100 * sum(shares) / len(shares):.0f} %")
    kernel = kernel_share(samples)
    if kernel is not None and kernel >= 0.005:
        words.append(f"of it kernel {100 * kernel:.0f} %")
    return ", ".join(words) or NOTHING


def _note(name: str, value: float) -> str:
    for unit in (" %", " us", " ns"):
        if name.endswith(unit):
            return f"{name.removesuffix(unit)} {value:.0f}{unit}"
    return f"{name}: {value:.4g}"


def _aim(aim: Aim, ours: Sequence[Sample], theirs: Sequence[Sample], unit: str) -> str:
    value = reached(aim, ours, theirs)
    verdict = "not measured" if value is None else "met" if aim.met(value) else "missed"
    if aim.what == "ratio":
        return f"{aim.at_least:g} x{' at most' if aim.at_most else ''}: {verdict}"
    if aim.what == "rate":
        return f"{aim.at_least / 1e6:g} Mpps: {verdict}" if unit == "frames" else f"{aim.at_least:g}/s: {verdict}"
    level = f"{aim.what} {aim.at_least:g} x the peer's" if aim.of_peers else _note(aim.what, aim.at_least)
    return f"{level}{' at most' if aim.at_most else ''}: {verdict}"


def as_data(outcomes: Sequence[Outcome], rounds: int, clock_hz: int) -> dict[str, Any]:
    """Everything that the table is made of, every sample included; rates are per second."""
    return {
        "rounds": rounds,
        "clock_hz": clock_hz,
        "contests": [
            {
                "name": outcome.contest.name,
                "unit": outcome.contest.unit,
                "samples": {name: [asdict(sample) for sample in each] for name, each in outcome.samples.items()},
                "failures": outcome.failures,
                "lines": [_line(outcome, line, clock_hz) for line in outcome.contest.lines],
            }
            for outcome in outcomes
        ],
    }


def _line(outcome: Outcome, line: Line, clock_hz: int) -> dict[str, Any]:
    ours = outcome.samples.get(line.ours, [])
    theirs = outcome.samples.get(line.against or "", [])
    ratio, by_cpu = ratios(ours, theirs), ratios_per_cpu(ours, theirs)
    return {
        "work": line.work,
        "remark": line.remark,
        "ours": line.ours,
        "against": line.against,
        "ratio": asdict(ratio) if ratio else None,
        "ratio_per_cpu_second": asdict(by_cpu) if by_cpu else None,
        "cycles": {
            name: asdict(spread) if (spread := cycles(samples, clock_hz)) else None
            for name, samples in ((line.ours, ours), (line.against, theirs))
            if name is not None
        },
        "aims": [asdict(aim) | {"reached": reached(aim, ours, theirs)} for aim in line.aims],
    }

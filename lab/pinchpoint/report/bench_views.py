"""What is shown of the bench, as plain values: its threads, what the host did to it, its settings."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pinchpoint.measure.forwarding import figures_of
from pinchpoint.model import units
from pinchpoint.model.effective import defaulted, flat, within
from pinchpoint.model.trial import BusyBy, ThreadFigure, ThreadLoad, Trial
from pinchpoint.report import words


@dataclass(frozen=True)
class Share:
    """One part of a bar: its share of the whole, 0..1."""

    name: str
    about: str
    count: str
    share: float
    text: str


@dataclass(frozen=True)
class ThreadView:
    """One forwarding thread; who answered its lookups as parts of a bar."""

    name: str
    busy: float | None
    rows: tuple[tuple[str, str], ...]
    hits: tuple[Share, ...]
    uncounted: str  # the names of what could not be counted


@dataclass(frozen=True)
class Setting:
    """One key of the effective scenario."""

    key: str
    value: str
    default: bool


_BUSY_BY: Final = {BusyBy.CYCLES: "its own count of cycles", BusyBy.PROCESSOR_TIME: "its processor time"}


def thread_views(loads: Sequence[ThreadLoad], scenario: Mapping[str, object]) -> tuple[ThreadView, ...]:
    """Each thread's, in the words of the device of an effective scenario."""
    dut = scenario.get("dut")
    figures = figures_of(str(dut.get("kind", "")) if isinstance(dut, Mapping) else "")
    return tuple(thread_view(load, figures) for load in loads)


def thread_view(load: ThreadLoad, figures: Mapping[str, ThreadFigure]) -> ThreadView:
    """The thread's load, and the device's own figures of it, called as `figures` says; others by their keys."""
    passes = None if load.recirculated is None or not load.received else 1 + load.recirculated / load.received
    cycles = words.NOT_COUNTABLE if load.cycles_per_packet is None else f"{load.cycles_per_packet:,.0f} cycles"
    clock = words.NOT_MEASURED if load.clock_hz is None else f"{load.clock_hz / 1e9:.2f} GHz"
    every = {**{key: ThreadFigure(key.replace("_", " "), "") for key in load.detail}, **figures}
    return ThreadView(
        name=load.name,
        busy=load.busy_share,
        rows=(
            ("Busy", words.NOT_COUNTABLE if load.busy_share is None else units.share(load.busy_share)),
            *((("Busy by", _BUSY_BY[load.busy_by]),) if load.busy_by else ()),
            ("Per packet", cycles),
            ("Clock", clock),
            ("Received", f"{words.count(load.received)} frames"),
            ("Passes per packet", words.NOT_COUNTABLE if passes is None else f"{passes:.2f}"),
            *(
                (figure.title, f"{load.detail[key]:,.10g}")
                for key, figure in every.items()
                if key in load.detail and not figure.answers
            ),
        ),
        hits=_hits(load, figures),
        uncounted=", ".join(figure.title for key, figure in figures.items() if key not in load.detail),
    )


def _hits(load: ThreadLoad, figures: Mapping[str, ThreadFigure]) -> tuple[Share, ...]:
    """Of its lookups, in the device's order."""
    counted = [(figure, load.detail[key]) for key, figure in figures.items() if figure.answers and key in load.detail]
    total = math.fsum(count for _, count in counted)

    def part(figure: ThreadFigure, count: float) -> Share:
        share = count / total if total else 0.0
        return Share(figure.title, figure.meaning, units.frames(round(count)), share, _share(count, total))

    return tuple(part(*pair) for pair in counted)


def _share(value: float, total: float) -> str:
    if not value or not total:
        return "0"
    share = value / total
    return units.share(share) if share >= 1e-4 else "under 0.01 %"


def witness_rows(trials: Sequence[Trial]) -> tuple[tuple[str, str], ...]:
    """What the host did to the trials: each quantity, and where it was worst."""
    workers = [(trial, worker) for trial in trials for worker in trial.witness.workers]
    threads = [(trial, thread) for trial in trials for thread in trial.witness.dut_threads]
    gaps = sum(worker.gaps for _, worker in workers)
    threshold = max((worker.gap_threshold_ns for _, worker in workers), default=0)
    longest = [(float(worker.gap_max_ns), trial.id) for trial, worker in workers]
    stolen = [(math.fsum(t.witness.steal_s.values()) * 1e9, t.id) for t in trials if t.witness.steal_s]
    delays = [(float(th.run_delay_ns), t.id) for t, th in threads if th.run_delay_ns is not None]
    gap_count = units.frames(gaps) if workers else words.NOT_COUNTABLE
    return (
        (f"Engine loop gaps over {units.nanoseconds(threshold)}", gap_count),
        ("Longest engine loop gap", _worst(longest)),
        ("Time stolen from the bench's CPUs, worst trial", _worst(stolen)),
        ("Clock of the engine's cores", _clock([worker.frequency_hz for _, worker in workers])),
        ("Engine cores descheduled", _sum([worker.involuntary_switches for _, worker in workers], "times")),
        ("DUT threads descheduled", _sum([thread.involuntary_switches for _, thread in threads], "times")),
        ("DUT thread waiting to run, worst trial", _worst(delays)),
    )


def _clock(clocks: Sequence[int | None]) -> str:
    known = [value / 1e9 for value in clocks if value is not None]
    if not known:
        return words.NOT_COUNTABLE
    low, high = f"{min(known):.2f}", f"{max(known):.2f}"
    return f"{low} GHz" if low == high else f"{low} to {high} GHz"


def _worst(gaps: Sequence[tuple[float, str]]) -> str:
    if not gaps:
        return words.NOT_COUNTABLE
    value, trial_id = max(gaps)
    return f"{units.nanoseconds(value)} ({trial_id})" if value else "none"


def _sum(counts: Sequence[int | None], unit: str) -> str:
    known = [value for value in counts if value is not None]
    if not known:
        return words.NOT_COUNTABLE
    blind = len(counts) - len(known)
    note = f" ({words.NOT_COUNTABLE} in {blind} of {len(counts)} trials)" if blind else ""
    return f"{units.frames(sum(known))} {unit}{note}"


def settings(scenario: Mapping[str, object]) -> tuple[Setting, ...]:
    """The effective scenario, one row a key in the file's words, defaulted ones marked.

    Array elements count from 1, as in the file's errors.
    """
    rest = {key: value for key, value in scenario.items() if key != "defaulted"}
    unset = defaulted(scenario)
    return tuple(Setting(key, value, within(key, unset)) for key, value in flat(rest))

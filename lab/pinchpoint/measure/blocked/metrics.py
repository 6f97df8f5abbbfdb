"""How long forwarding stood still while something happened to the DUT. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pinchpoint.measure.carried import Carried, disturbance
from pinchpoint.model.measurement import Measurement, Metric
from pinchpoint.model.trial import TrialValidity
from pinchpoint.stats.estimate import median_interval

_MOST_REASONS = 3
NAMES = ("blocked time", "longest silence", "longest gap", "action time", "lost frames")


@dataclass(frozen=True)
class Happened:
    """One action under traffic."""

    quiet: Carried  # before it
    during: Carried  # from a moment before it to a moment after it
    took_s: float  # the action, until what does it has returned and shows
    over_line: bool = False  # whether it was asked for over a line to another host


def metrics(happened: Happened) -> tuple[tuple[Metric, ...], str]:
    """A repeat's figures, and why its blocked time is unknown; empty if it is known."""
    disturbed = disturbance(happened.quiet, happened.during)
    line = ", what went over the line to its host included" if happened.over_line else ""
    figures = [Metric("action time", "s", happened.took_s, note=f"until its command has returned and it shows{line}")]
    figures.append(Metric("lost frames", "count", float(happened.during.lost)))
    if isinstance(disturbed, str):
        return tuple(figures), disturbed
    low_s = max(0.0, disturbed.blocked_s - disturbed.engine_s)
    note = "lost frames / offered rate, less the loss before"
    figures.insert(0, Metric("blocked time", "s", disturbed.blocked_s, low_s, disturbed.blocked_s, note))
    if (silence_s := happened.during.longest_silence_s) is not None:
        least_s = max(0.0, silence_s - happened.during.engine_longest_s)
        closed = happened.during.parts == 1
        before = "" if closed else ", what passed before its link went not counted"
        note = f"in which a port delivered nothing{before}; the interval leaves out the engine's longest pause"
        figures.append(Metric("longest silence", "s", silence_s, least_s, silence_s if closed else None, note))
    if disturbed.longest_gap_s is not None:
        figures.append(Metric("longest gap", "s", disturbed.longest_gap_s, note="in the received sequence"))
    return tuple(figures), ""


def together(made: Sequence[Measurement]) -> tuple[Metric, ...]:
    """The figures of all valid repeats: medians with their intervals; of the disturbed ones if none was valid."""
    valid = [measurement for measurement in made if measurement.validity is TrialValidity.VALID] or made
    values: dict[str, list[float]] = {}
    notes: dict[str, str] = {}
    units: dict[str, str] = {}
    for measurement in valid:
        for metric in measurement.metrics:
            values.setdefault(metric.name, []).append(metric.value)
            notes[metric.name], units[metric.name] = metric.note.split(";")[0], metric.unit
    figures = []
    for name in NAMES:
        if name in values:
            middle = median_interval(values[name])
            note = "; ".join(filter(None, (notes[name], middle.words())))
            figures.append(Metric(name, units[name], middle.centre, middle.low, middle.high, note))
    return tuple(figures)


def warnings(made: Sequence[Measurement], asked: int) -> tuple[str, ...]:
    """What to mind about the figures."""
    valid = sum(measurement.validity is TrialValidity.VALID for measurement in made)
    if valid >= asked:
        return ()
    reasons: Mapping[str, None] = dict.fromkeys(measurement.reason for measurement in made if measurement.reason)
    shown = "" if valid else " The figures are of disturbed repeats."
    return (f"{valid} of {asked} repeats valid; {'; '.join(list(reasons)[:_MOST_REASONS])}.{shown}",)

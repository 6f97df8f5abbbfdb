"""Recordings of several devices along one path, joined: clocks aligned, and what each wire between them lost. Pure.

How far two clocks are apart, the rates tell that two hosts counted on the two ends of one wire. They are resampled to
equal steps, and the ranks of their changes are correlated at every lag within reach. Chance finds a high correlation
somewhere if it may look often enough: a lag counts only if all lags and pairs of ports tried together would exceed it
by chance once in `1 / CHANCE` times (Fisher's z, Bonferroni's bound).
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import NormalDist, median
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pinchpoint.account.ledger import by_port
from pinchpoint.model.errors import InputError
from pinchpoint.model.watch import Crossing, Joined, Wire
from pinchpoint.run.watch import Recording, watched
from pinchpoint.stats.change_points import ranks

HINT = "record the hosts of one path at the same time: pinchpoint watch --for 60s --record FILE"
CHANCE: Final = 0.001
SHORTEST_S: Final = 0.001  # a reading shorter than this says nothing of a rate
LEAST_STEPS: Final = 10  # that two series must share
MOST_STEPS: Final = 2000  # of a series: what bounds the work, however long a recording is
LARGEST: Final = 1e18  # seconds or frames that a recording can hold; differences of more overflow
MOST_LAGS: Final = 400  # tried, half of them in either direction

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Span:
    """Frames counted from `begin_s` to `end_s`, seconds of the host's own clock."""

    begin_s: float
    end_s: float
    frames: float


@dataclass(frozen=True)
class Alignment:
    """One clock against another."""

    ahead_s: float  # of the second clock
    correlation: float  # of the ranks of both rates' changes, so aligned


@dataclass(frozen=True)
class _Ends:
    """What the ports of one device received and sent, reading by reading."""

    received: dict[str, list[Span]]
    sent: dict[str, list[Span]]


@dataclass(frozen=True)
class _Match:
    """A port of one device and the port of the next one that is on the other end of its wire."""

    ports: tuple[str, str]
    alignment: Alignment | None


def joined(recordings: Sequence[Recording], named: Sequence[tuple[str, str]] = ()) -> Joined:
    """The path through devices, in the order in which its frames pass them.

    The rates at the two ends of a wire tell how far the clocks are apart. `named` are the ports at the ends of each
    wire. Without them a wire is found by the rates; where several pairs of ports agree, as on a path that loses nothing
    in both directions, the pair that most frames pass is taken. Raises InputError if
    one has no reading, or they have no time in common.
    """
    if empty := [recording.head.host for recording in recordings if not recording.readings]:
        raise InputError(f"the recording of {empty[0]} has no reading", HINT)
    ends = [_ends(recording) for recording in recordings]
    pairs = [*pairwise(ends)]
    asked: Sequence[tuple[str, str] | None] = named or [None] * len(pairs)
    matches = [_named(*ports, *pair) if ports else _match(*pair) for ports, pair in zip(asked, pairs, strict=True)]
    aligned, ahead_s = [recordings[0]], 0.0
    for match, recording in zip(matches, recordings[1:], strict=True):
        ahead_s += match.alignment.ahead_s if match and match.alignment else 0.0
        aligned.append(recording.ahead(ahead_s))
    begin_s = max(min(reading.at_s - reading.elapsed_s for reading in recording.readings) for recording in aligned)
    end_s = min(max(reading.at_s for reading in recording.readings) for recording in aligned)
    shared = [recording.within(begin_s, end_s) for recording in aligned]
    if any(not recording.readings for recording in shared):
        raise InputError("the recordings have no time in common", HINT)
    counted = [_ends(recording) for recording in aligned]
    wires = (
        _wire(pair, match, counted[place : place + 2], begin_s, end_s)
        for place, (pair, match) in enumerate(zip(pairwise(recordings), matches, strict=True))
    )
    hosts = (
        (recording.head.host, watched(recording.device, recording.head, recording.readings)) for recording in shared
    )
    return Joined(end_s - begin_s, tuple(hosts), tuple(wires))


def _ends(recording: Recording) -> _Ends:
    first, ports = recording.readings[0], recording.head.ports
    seen = {**first.gauges, **first.differences}
    graph = recording.device.watched_graph(recording.head.variant, seen, ports)
    ends = _Ends({port: [] for port in ports}, {port: [] for port in ports})
    for reading in recording.readings:
        for spans, frames in zip((ends.received, ends.sent), by_port(graph, reading.differences, ports), strict=True):
            for port, count in frames.items():
                spans[port].append(Span(reading.at_s - reading.elapsed_s, reading.at_s, count))
    return ends


def _named(first: str, second: str, near: _Ends, far: _Ends) -> _Match:
    """Ports that somebody named, aligned by the direction that tells more. Raises InputError for one there is not."""
    for port, ends in ((first, near), (second, far)):
        if port not in ends.sent:
            raise InputError(f"--wire {first}={second}: no port {port}", f"one of: {', '.join(ends.sent)}")
    ways = ((near.sent[first], far.received[second]), (near.received[first], far.sent[second]))
    alignments = filter(None, (align(*spans, len(ways)) for spans in ways))
    return _Match((first, second), max(alignments, key=lambda alignment: alignment.correlation, default=None))


def _match(near: _Ends, far: _Ends) -> _Match | None:
    """The pair of ports whose rates agree; None if none do."""
    tries = [(first, second) for first in near.sent for second in far.received]
    matches = [
        (sum(span.frames for span in near.sent[first]), _Match((first, second), alignment))
        for first, second in tries
        if (alignment := align(near.sent[first], far.received[second], len(tries))) is not None
    ]
    return max(matches, key=lambda match: match[0])[1] if matches else None


def _wire(
    pair: tuple[Recording, Recording], match: _Match | None, ends: Sequence[_Ends], begin_s: float, end_s: float
) -> Wire:
    """What went over one wire in both directions; without a match, what all ports together sent and received."""
    near, far = ends
    ports = match.ports if match else ("", "")

    def spans(every: dict[str, list[Span]], port: str) -> list[Span]:
        return every[port] if port else [span for port_spans in every.values() for span in port_spans]

    def crossing(sent: list[Span], received: list[Span]) -> Crossing:
        left, unsure = _within(sent, begin_s, end_s)
        came, unsure_too = _within(received, begin_s, end_s)
        return Crossing(round(left), round(came), round(unsure + unsure_too))

    there = crossing(spans(near.sent, ports[0]), spans(far.received, ports[1]))
    back = crossing(spans(far.sent, ports[1]), spans(near.received, ports[0]))
    hosts = (pair[0].head.host, pair[1].head.host)
    return Wire(hosts, ports, there, back, match.alignment.ahead_s if match and match.alignment else None)


def _within(spans: Sequence[Span], begin_s: float, end_s: float) -> tuple[float, float]:
    """(frames from `begin_s` to `end_s`, how many of them are uncertain); a reading that is cut counts by its share."""
    frames = unsure = 0.0
    for span in spans:
        inside_s = min(span.end_s, end_s) - max(span.begin_s, begin_s)
        if inside_s <= 0:
            continue
        share = min(1.0, inside_s / (span.end_s - span.begin_s))
        frames += share * span.frames
        unsure += span.frames * min(share, 1 - share)
    return frames, unsure


def align(first: Sequence[Span], second: Sequence[Span], tried: int = 1) -> Alignment | None:
    """How far the second clock is ahead of the first; None if the rates do not tell.

    `tried`: pairs of series that the caller tries. Steady rates tell nothing, and neither do recordings that share too
    little time within the lags that are tried: 200 steps of half a reading in either direction.
    """
    first, second = _in_order(first), _in_order(second)
    if not first or not second:
        return None
    step_s = _step_s(first, second)
    a, b = _sampled(first, step_s), _sampled(second, step_s)
    least = max(LEAST_STEPS, min(len(a), len(b)) // 2)
    nominal = round((first[0].begin_s - second[0].begin_s) / step_s)  # shift at which both clocks are right
    shifts = range(nominal - MOST_LAGS // 2, nominal + MOST_LAGS // 2 + 1)
    lags = [(_correlation(a, b, shift, least), shift) for shift in shifts]
    best, shift = max(lags, key=lambda lag: (lag[0][0], -abs(lag[1] - nominal)))
    correlation, shared = best
    if not shared or correlation <= _by_chance(shared, len(lags) * tried):
        return None
    ahead_s = second[0].begin_s - first[0].begin_s + shift * step_s
    return Alignment(ahead_s, correlation)


def _in_order(spans: Iterable[Span]) -> list[Span]:
    """Those that say something of a rate, none overlapping the one before."""
    kept = list[Span]()
    for span in sorted(spans, key=lambda span: span.end_s):
        begin_s = max(span.begin_s, kept[-1].end_s) if kept else span.begin_s
        # A comparison with NaN is false, so NaN is not possible either.
        is_possible = all(abs(value) <= LARGEST for value in (begin_s, span.end_s, span.frames))
        if is_possible and span.end_s - begin_s >= SHORTEST_S:
            kept.append(Span(begin_s, span.end_s, span.frames))
    return kept


def _step_s(first: Sequence[Span], second: Sequence[Span]) -> float:
    """Half of a typical reading; longer where a recording is so long that there were too many."""
    typical_s = max(median(span.end_s - span.begin_s for span in series) for series in (first, second))
    longest_s = max(series[-1].end_s - series[0].begin_s for series in (first, second))
    return max(typical_s / 2, longest_s / MOST_STEPS)


def _sampled(series: Sequence[Span], step_s: float) -> Floats:
    """The ranks of the changes of the rate over a reading, in steps from the series' begin.

    No frame is counted between two readings. Two rates that only drift correlate at some lag whatever they have to do
    with each other; their changes do not. Ranks stand for the changes, so that one great change of each is not all that
    counts.
    """
    times = np.array([time for span in series for time in (span.begin_s, span.end_s)])
    counted = np.repeat(np.cumsum([0.0, *(span.frames for span in series)]), 2)[1:-1]
    edges = times[0] + step_s * np.arange(int((times[-1] - times[0]) / step_s) + 1)
    rates = np.diff(np.interp(edges, times, counted))
    return ranks(rates[2:] - rates[:-2])


def _correlation(a: Floats, b: Floats, shift: int, least: int) -> tuple[float, int]:
    """(Pearson's correlation of a[i] with b[i + shift], steps shared); (0, 0) if it is not defined."""
    begin, end = max(0, -shift), min(len(a), len(b) - shift)
    if end - begin < least:
        return 0.0, 0
    x, y = a[begin:end] - a[begin:end].mean(), b[begin + shift : end + shift] - b[begin + shift : end + shift].mean()
    size = math.sqrt(float(x @ x) * float(y @ y))
    return (float(x @ y) / size, end - begin) if size > 0 else (0.0, 0)


def _by_chance(shared: int, tries: int) -> float:
    """The correlation that the best of so many tries exceeds by chance once in 1 / CHANCE times.

    Two steps stand for one reading, and a change is over two steps: about a third of them are independent.
    """
    independent = max(shared // 3, 4)
    z = NormalDist().inv_cdf(1 - CHANCE / tries)
    return math.tanh(z / math.sqrt(independent - 3))

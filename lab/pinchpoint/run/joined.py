"""Recordings of several devices along one path, joined: clocks aligned, and what each wire between them lost. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from pinchpoint.account.ledger import by_port
from pinchpoint.model.errors import InputError
from pinchpoint.model.watch import Crossing, Joined, Wire
from pinchpoint.run.watch import Recording, watched
from pinchpoint.stats.align import Alignment, Span, align

HINT = "record the hosts of one path at the same time: pinchpoint watch --for 60s --record FILE"


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
    graph, ports = recording.device.watched_graph(recording.head.variant), recording.head.ports
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

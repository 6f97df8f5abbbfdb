"""What was observed without a bench: a device that is watched, as tables, and another generator's traffic, in words."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from pinchpoint.model import measurement, units
from pinchpoint.model.causes import Sign, Suspicion
from pinchpoint.model.hops import Party
from pinchpoint.model.limits import SATURATED
from pinchpoint.model.measurement import Foreign, Sent
from pinchpoint.model.trial import Hop, went_back_words
from pinchpoint.model.watch import Crossing, Joined, Watched, Wire
from pinchpoint.report.tables import ABSENT, Cell, Table, table_of

_SHOWN = (
    *(Sign.SUBTABLES, Sign.SLOW_PATH, Sign.SLOW_PATH_TIME),
    *(Sign.FLOWS_OF_LIMIT, Sign.TRACKED_OF_LIMIT, Sign.COPIES),
)
READ_APART = 0.01  # share of the frames: counters are read one after the other,
READ_APART_S = 0.05  # within so long; what one reading counts late the next one counts
NEWLINE = "\n"  # behind which an error shows its command
_PARTIES: dict[str, str] = {Party.ENGINE: "receiver"}  # where no engine of ours receives
STILL = 0.05  # share of the time without that core, from which nothing is said of evenness
FCS_BYTES = 4  # of the Ethernet check sequence, which sizes of scenarios include
EVENLY, BY_CHANCE = 0.5, 2.0  # variance over mean: less than the one, like a clock; more than the other, in bursts
REPLIES = 0.5  # share of the flows that were answered, from which the traffic goes both ways


@dataclass(frozen=True)
class WatchView:
    """Some seconds of a watched device: its path, its threads, and likely causes of loss."""

    about: str
    path: Table
    threads: Table
    figures: tuple[str, ...]
    causes: tuple[str, ...]


def watch_view(watched: Watched) -> WatchView:
    """The view of some seconds."""
    about = f"{units.duration(watched.seconds)} watched" if watched.seconds else "totals since it began to count"
    threads = _threads(watched)
    return WatchView(about, _path(watched), threads, tuple(_figures(watched)), tuple(map(_cause, watched.suspicions)))


@dataclass(frozen=True)
class JoinedView:
    """Several devices along one path."""

    about: str
    path: Table
    clocks: tuple[str, ...]
    losses: tuple[str, ...]  # where frames vanish between two devices
    hosts: tuple[tuple[str, WatchView], ...]


def joined_view(joined: Joined) -> JoinedView:
    """The view of the time that all recordings share."""
    about = f"{units.duration(joined.seconds)} that all recordings share"
    losses = tuple(line for wire in joined.wires for line in _vanished(wire, joined.seconds))
    hosts = tuple((name, watch_view(watched)) for name, watched in joined.hosts)
    return JoinedView(about, _wires(joined), tuple(map(_clock, joined.wires)), losses, hosts)


def _wires(joined: Joined) -> Table:
    """A row a wire and direction: frames a second sent into it and received from it, and what vanished."""
    rows = []
    for sender, receiver, crossing in (way for wire in joined.wires for way in _ways_of(wire)):
        counts = (crossing.sent, crossing.received, crossing.lost)
        sent, received, lost = (_rate(frames, joined.seconds) for frames in counts)
        rows.append((sender, receiver, sent, received, Cell(lost if crossing.lost else "", mark="bad")))
    headings = {"from": "from", "to": "to", "sent": "sent", "received": "received", "lost": "vanished"}
    return table_of(headings, rows, words=("from", "to"))


def _ways_of(wire: Wire) -> Iterator[tuple[str, str, Crossing]]:
    """Both directions: sender, receiver, and what went over."""
    first, second = _named_ends(wire)
    yield first, second, wire.there
    yield second, first, wire.back


def _named_ends(wire: Wire) -> tuple[str, str]:
    """`host port` of both ends; `host` where all of its ports are counted."""
    first, second = (f"{host} {port}".strip() for host, port in zip(wire.hosts, wire.ports, strict=True))
    return first, second


def _rate(frames: int | None, seconds: float) -> str:
    """Frames a second; where the time is not known, frames."""
    return ABSENT if frames is None else units.fps(frames / seconds) if seconds else units.frames(frames)


def _clock(wire: Wire) -> str:
    first, second = wire.hosts
    if wire.ahead_s is None and any(wire.ports):
        return f"{first} and {second}: their rates do not show how far the clocks are apart: both are trusted"
    if wire.ahead_s is None:
        return f"{first} and {second}: their rates do not show which ports are joined: all are counted, by both clocks"
    apart = f"{units.duration(abs(wire.ahead_s))} {'ahead of' if wire.ahead_s >= 0 else 'behind'}"
    return f"the clock of {second} is {apart} that of {first}, by the rates of {' and '.join(_named_ends(wire))}"


def _vanished(wire: Wire, seconds: float) -> Iterator[str]:
    for sender, receiver, crossing in _ways_of(wire):
        if crossing.lost and seconds:
            lost, share = units.fps(crossing.lost / seconds), units.share(crossing.lost / crossing.sent)
            yield f"{lost} vanish between {sender} and {receiver}, {share} of what is sent"


def _path(watched: Watched) -> Table:
    """A row a drop, or a place without any: frames a second in and out, what was dropped there, what is not explained.

    A place's rows close: in = out + dropped + not explained, but for what counters that are read one after the other
    differ by.
    """
    rows: list[tuple[str | Cell, ...]] = []
    for hop in watched.hops:
        own = (hop.name, _rate(hop.frames_in, watched.seconds), _rate(hop.frames_out, watched.seconds))
        losses: list[tuple[int | None, str, str]] = list(_losses(hop, watched)) or [(None, "", "")]
        for place, (frames, reason, party) in enumerate(losses):
            name, came, left = ("", "", "") if place else own  # below another loss of the same place
            dropped = Cell("" if frames is None else _rate(frames, watched.seconds), mark="bad")
            rows.append((name, Cell(came), Cell(left), dropped, reason, party))
    headings = {"place": "place", "in": "in", "out": "out", "drop": "dropped", "reason": "reason", "party": "by"}
    return table_of(headings, rows, words=("place", "reason", "party"))


def _losses(hop: Hop, watched: Watched) -> Iterator[tuple[int, str, str]]:
    """Frames that a place lost, why, and by whom; those that no counter explains come last.

    Less than none: more went out, or was dropped, than came in.
    """
    for drop in hop.drops:
        yield drop.frames, drop.name, _PARTIES.get(drop.limits, drop.limits)
    if hop.unexplained is not None and abs(hop.unexplained) > _read_apart(hop, watched):
        yield hop.unexplained, "not explained", ""


def _read_apart(hop: Hop, watched: Watched) -> float:
    """Frames by which a place's counters may differ, since they are not read, or published, at the same time."""
    came, late = hop.frames_in or 0, watched.unsure.get(hop.name, 0)
    if not watched.seconds:
        return READ_APART * came + late
    stretches = watched.left_out + 1  # of readings that join end to end
    return min(READ_APART, READ_APART_S * stretches / watched.seconds) * came + late


def _threads(watched: Watched) -> Table:
    """A row a forwarding thread; what could not be counted is absent."""
    rows = []
    for load in watched.threads:
        cycles = f"{load.cycles_per_packet:,.0f}" if load.cycles_per_packet else ""
        passes = f"{1 + load.recirculated / load.received:.2f}" if load.recirculated and load.received else ""
        received, ports = _rate(load.received, watched.seconds), ", ".join(load.ports)
        waited = units.share(watched.waited.get(load.name))
        rows.append((load.name, units.share(load.busy_share), waited, received, cycles, passes, ports))
    headings = {
        "thread": "forwarding thread", "busy": "busy", "waited": "waited for its core", "received": "received",
        "cycles": "cycles per packet", "passes": "passes", "ports": "polls",
    }  # fmt: skip
    return table_of(headings, rows, words=("thread", "ports"))


def _figures(watched: Watched) -> Iterator[str]:
    for sign in _SHOWN:
        if sign in watched.signs:
            yield f"{sign}: {sign.shown(watched.signs[sign])}"
    if watched.offload is not None:
        yield f"offload: {watched.offload.sentence}"
    if watched.resets:
        yield went_back_words(watched.resets)
    if watched.left_out:
        readings = units.counted(watched.left_out, "reading")
        yield f"{readings} left out: ports or threads were added, removed or restarted meanwhile"
    for name, why in watched.unread.items():
        yield f"not read: {name}: {why.partition(NEWLINE)[0]}"
    for name, read in watched.truncated.items():
        yield f"truncated: {name}: {read}"
    for command, tells in watched.missing.items():
        yield f"missing: {command} (would show {tells})"


def _cause(suspicion: Suspicion) -> str:
    return f"likely: {suspicion.title} ({'; '.join(suspicion.evidence)}). What to do: {suspicion.mend}"


def generator_lines(traffic: Foreign, own_fps: float | None) -> Iterator[str]:
    """Two lines a port that sent, then what holds for all; `own_fps` is the engine's own ceiling, None: not known."""
    sending = [stream for stream in traffic.sent if stream.frames or stream.missed]
    if not sending:
        yield f"the generator sent nothing ({traffic.ended}): {traffic.command}"
        return
    limit = _limit(traffic.wire)
    for stream in sending:
        parts = (_sent_rate(stream, bool(limit)), _sizes(stream), _flows(stream), _checksums(stream))
        yield f"{stream.port}: {', '.join(filter(None, parts))}"
        yield f"  {_evenness(stream, traffic.wire)}"
        if stream.missed:
            yield f"  {units.counted(stream.missed, 'more frame')} came too fast to be read, and were not inspected"
    yield f"{_ways(sending)}; {traffic.ended}"
    if limit:
        yield limit
    if own_fps is not None:
        times = math.fsum(stream.mean_fps for stream in sending) / own_fps
        yield f"it sent {times:.2f} times the {units.fps(own_fps)} of the scenario's frames that the engine offers here"


def _limit(wire: measurement.Wire) -> str:
    """Why the wire itself may have been the limit; empty if it was not."""
    if not wire.carries:
        return ""
    if wire.still > STILL:
        still = units.share(wire.still)
        return f"the wire's core stood still for {still} of the time: does the generator use it, too?"
    if wire.busy > SATURATED:
        return f"the wire's core was busy for {units.share(wire.busy)} of the time: it may be the limit"
    return ""


def _sent_rate(stream: Sent, is_at_least: bool) -> str:
    least = "at least " if is_at_least else ""
    if stream.median_fps is None or stream.low_fps is None or stream.high_fps is None:
        return f"{least}{units.fps(stream.mean_fps)} over {stream.duration_s:.3g} s"
    if stream.missed:  # the periods hold only what was read
        return f"{least}{units.fps(stream.mean_fps)} on average over {stream.duration_s:.3g} s"
    low, high = units.fps(stream.low_fps), units.fps(stream.high_fps)
    return f"{least}{units.fps(stream.median_fps)}, 5 to 95 % of the time {low} to {high}"


def _sizes(stream: Sent) -> str:
    if not stream.frames:
        return ""
    if stream.shortest == stream.longest:
        return f"{stream.shortest + FCS_BYTES} B"
    mean = stream.mean_bytes + FCS_BYTES
    return f"{stream.shortest + FCS_BYTES} to {stream.longest + FCS_BYTES} B, {mean:.0f} on average"


def _flows(stream: Sent) -> str:
    if not stream.checked:
        return "none was inspected"
    if stream.not_ip == stream.checked:
        return "no IP"
    least = "" if _is_whole(stream) else "at least "
    return f"{least}{units.counted(stream.flows, 'flow')}"


def _checksums(stream: Sent) -> str:
    if not stream.checked:
        return ""
    wrong = units.counted(stream.wrong_checksums, "wrong checksum") if stream.wrong_checksums else "no wrong checksums"
    return f"{wrong} in {stream.checked:,} frames"


def _evenness(stream: Sent, wire: measurement.Wire) -> str:
    if wire.still > STILL:
        return f"how evenly is not known: the reading core stood still for {units.share(wire.still)} of the time"
    silence = f"longest silence {units.seconds(stream.longest_silence_s)}"
    if stream.dispersion is None:
        return silence
    word = "evenly" if stream.dispersion < EVENLY else "by chance" if stream.dispersion <= BY_CHANCE else "in bursts"
    most = f"at most {units.counted(stream.most_in_1_ms, 'frame')} in 1 ms"
    return f"came {word}: {most}, variance over mean {stream.dispersion:.3g}, {silence}"


def _is_whole(stream: Sent) -> bool:
    """Whether every flow was counted."""
    return stream.checked == stream.frames and not stream.missed and not stream.flows_at_least


def _ways(sending: list[Sent]) -> str:
    if len(sending) == 1:
        return "one way"
    answered = sum(stream.answered_flows for stream in sending) / max(1, sum(stream.flows for stream in sending))
    if answered >= REPLIES:
        return f"both ways, {units.share(answered)} of the flows answered"
    if all(map(_is_whole, sending)):
        return "both ways, in flows of their own" if not answered else f"both ways, {units.share(answered)} answered"
    return f"both ways, at least {units.share(answered)} of the flows answered"

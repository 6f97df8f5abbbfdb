"""A watched device as tables: its path, its threads, its tables against their limits, and the likely causes."""

from collections.abc import Iterator
from dataclasses import dataclass

from pinchpoint.model import units
from pinchpoint.model.causes import Sign, Suspicion
from pinchpoint.model.trial import ThreadLoad
from pinchpoint.model.watch import Joined, Watched, Wire
from pinchpoint.report.tables import ABSENT, Cell, Column, Table, column
from pinchpoint.report.words import offload_sentence

_SHOWN = (
    *(Sign.SUBTABLES, Sign.SLOW_PATH, Sign.SLOW_PATH_TIME),
    *(Sign.FLOWS_OF_LIMIT, Sign.TRACKED_OF_LIMIT, Sign.COPIES),
)


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
    return WatchView(
        f"{units.duration(watched.seconds)} watched",
        _path(watched),
        _threads(watched.threads, watched.seconds),
        tuple(_figures(watched)),
        tuple(map(_cause, watched.suspicions)),
    )


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
    views = tuple((name, watch_view(watched)) for name, watched in joined.hosts)
    return JoinedView(
        f"{units.duration(joined.seconds)} that all recordings share",
        _wires(joined),
        tuple(map(_clock, joined.wires)),
        tuple(line for wire in joined.wires for line in _vanished(wire, joined.seconds)),
        views,
    )


def _wires(joined: Joined) -> Table:
    """A row a wire and direction: frames a second sent into it and received from it, and what vanished."""
    rows = [
        (ends, crossing)
        for wire in joined.wires
        for ends, crossing in ((_named_ends(wire), wire.there), (_named_ends(wire)[::-1], wire.back))
    ]

    def rate(frames: int) -> str:
        return units.fps(frames / joined.seconds) if joined.seconds else ABSENT

    return Table(
        (
            column("from", "from", [ends[0] for ends, _ in rows], is_number=False),
            column("to", "to", [ends[1] for ends, _ in rows], is_number=False),
            column("sent", "sent", [rate(wire.sent) for _, wire in rows]),
            column("received", "received", [rate(wire.received) for _, wire in rows]),
            Column(
                "lost", "vanished", tuple(Cell(rate(wire.lost) if wire.lost else "", mark="bad") for _, wire in rows)
            ),
        )
    )


def _named_ends(wire: Wire) -> tuple[str, str]:
    """`host port` of both ends; `host` where all of its ports are counted."""
    first, second = (f"{host} {port}".strip() for host, port in zip(wire.hosts, wire.ports, strict=True))
    return first, second


def _clock(wire: Wire) -> str:
    first, second = wire.hosts
    if wire.ahead_s is None and any(wire.ports):
        return f"{first} and {second}: their rates do not tell how far the clocks are apart: both are believed"
    if wire.ahead_s is None:
        return f"{first} and {second}: their rates do not tell which ports are joined: all are counted, by both clocks"
    apart = f"{units.duration(abs(wire.ahead_s))} {'ahead of' if wire.ahead_s >= 0 else 'behind'}"
    return f"the clock of {second} is {apart} that of {first}, by the rates of {' and '.join(_named_ends(wire))}"


def _vanished(wire: Wire, seconds: float) -> Iterator[str]:
    ends = _named_ends(wire)
    for (sender, receiver), crossing in ((ends, wire.there), (ends[::-1], wire.back)):
        if crossing.lost and seconds:
            yield (
                f"{units.fps(crossing.lost / seconds)} vanish between {sender} and {receiver}, "
                f"{units.share(crossing.lost / crossing.sent)} of what is sent"
            )


def _path(watched: Watched) -> Table:
    """A row a drop, or a place without any: frames a second in and out, and what was dropped there."""
    rows = [(hop, place, drop) for hop in watched.hops for place, drop in enumerate(hop.drops or (None,))]

    def rate(frames: int | None) -> str:
        return ABSENT if frames is None or not watched.seconds else units.fps(frames / watched.seconds)

    hops = [hop if not place else None for hop, place, _ in rows]  # None: below another drop of the same place
    drops = [drop for _, _, drop in rows]
    return Table(
        (
            column("place", "place", [hop.name if hop else "" for hop in hops], is_number=False),
            Column("in", "in", tuple(Cell(rate(hop.frames_in) if hop else "") for hop in hops)),
            Column("out", "out", tuple(Cell(rate(hop.frames_out) if hop else "") for hop in hops)),
            Column("drop", "dropped", tuple(Cell(rate(drop.frames) if drop else "", mark="bad") for drop in drops)),
            column("reason", "reason", [drop.name if drop else "" for drop in drops], is_number=False),
            column("party", "by", [drop.limits if drop else "" for drop in drops], is_number=False),
        )
    )


def _threads(loads: tuple[ThreadLoad, ...], seconds: float) -> Table:
    """A row a forwarding thread; what could not be counted is absent."""
    busy = [units.share(load.busy_share) if load.busy_share is not None else "" for load in loads]
    cycles = [f"{load.cycles_per_packet:,.0f}" if load.cycles_per_packet else "" for load in loads]
    passes = [
        f"{1 + load.recirculated / load.received:.2f}" if load.recirculated and load.received else "" for load in loads
    ]
    return Table(
        (
            column("thread", "forwarding thread", [load.name for load in loads], is_number=False),
            column("busy", "busy", busy),
            column("received", "received", [units.fps(load.received / seconds) if seconds else "" for load in loads]),
            column("cycles", "cycles per packet", cycles),
            column("passes", "passes", passes),
            column("ports", "polls", [", ".join(load.ports) for load in loads], is_number=False),
        )
    )


def _figures(watched: Watched) -> Iterator[str]:
    for sign in _SHOWN:
        if sign in watched.signs:
            yield f"{sign}: {sign.shown(watched.signs[sign])}"
    if watched.offload is not None:
        yield f"offload: {offload_sentence(watched.offload)}"
    if watched.resets:
        yield f"counters went back: {', '.join(watched.resets)}: a port or the device was restarted"


def _cause(suspicion: Suspicion) -> str:
    return f"likely: {suspicion.title} ({'; '.join(suspicion.evidence)}). What to do: {suspicion.mend}"

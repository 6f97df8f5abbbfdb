"""A watched device as tables: its path, its threads, its tables against their limits, and the likely causes."""

from collections.abc import Iterator
from dataclasses import dataclass

from pinchpoint.model import units
from pinchpoint.model.causes import Sign, Suspicion
from pinchpoint.model.trial import PmdLoad
from pinchpoint.model.watch import Watched
from pinchpoint.report.tables import ABSENT, Cell, Column, Table, column
from pinchpoint.report.words import offload_sentence

_SHOWN = (Sign.SUBTABLES, Sign.UPCALLS, Sign.UPCALL_TIME, Sign.FLOWS_OF_LIMIT, Sign.TRACKED_OF_LIMIT, Sign.COPIES)


@dataclass(frozen=True)
class WatchView:
    """All of it."""

    about: str
    path: Table
    threads: Table
    figures: tuple[str, ...]
    causes: tuple[str, ...]


def watch_view(found: Watched) -> WatchView:
    """The view of some seconds."""
    return WatchView(
        f"{units.duration(found.seconds)} watched",
        _path(found),
        _threads(found.threads, found.seconds),
        tuple(_figures(found)),
        tuple(map(_cause, found.suspicions)),
    )


def _path(found: Watched) -> Table:
    """A row a drop, or a place without any: frames a second in and out, and what was dropped there."""
    rows = [(hop, place, drop) for hop in found.hops for place, drop in enumerate(hop.drops or (None,))]

    def rate(frames: int | None) -> str:
        return ABSENT if frames is None or not found.seconds else units.fps(frames / found.seconds)

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


def _threads(loads: tuple[PmdLoad, ...], seconds: float) -> Table:
    """A row a forwarding thread; what could not be counted is absent."""
    busy = [units.share(one.busy_share) if one.busy_share is not None else "" for one in loads]
    cycles = [f"{one.cycles_per_packet:,.0f}" if one.cycles_per_packet else "" for one in loads]
    passes = [
        f"{1 + one.recirculated / one.received:.2f}" if one.recirculated and one.received else "" for one in loads
    ]
    return Table(
        (
            column("thread", "thread", [one.name for one in loads], is_number=False),
            column("busy", "busy", busy),
            column("received", "received", [units.fps(one.received / seconds) if seconds else "" for one in loads]),
            column("cycles", "cycles per packet", cycles),
            column("passes", "passes", passes),
            column("ports", "polls", [", ".join(one.ports) for one in loads], is_number=False),
        )
    )


def _figures(found: Watched) -> Iterator[str]:
    for sign in _SHOWN:
        if sign in found.signs:
            yield f"{sign}: {sign.shown(found.signs[sign])}"
    if found.offload is not None:
        yield f"offload: {offload_sentence(found.offload)}"
    if found.resets:
        yield f"counters went back: {', '.join(found.resets)}: a port or the device was restarted"


def _cause(one: Suspicion) -> str:
    return f"likely: {one.title} ({'; '.join(one.evidence)}). What to do: {one.mend}"

"""A device that runs already: read again and again, and what the readings say together."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise

from pinchpoint.account.cpus import waited_shares
from pinchpoint.account.ledger import is_summed, places
from pinchpoint.causes.signs import of_device, offload_truth, rule_of
from pinchpoint.causes.verdict import likely
from pinchpoint.dut.watching import Attached, Watchable
from pinchpoint.host.interface import Host
from pinchpoint.measure.session import COUNTERS_SETTLE_S
from pinchpoint.measure.standing import bracket_of
from pinchpoint.model.hops import HopGraph
from pinchpoint.model.trial import Hop
from pinchpoint.model.watch import Reading, RecordHead, Watched
from pinchpoint.observe.snapshot import Bracket, together
from pinchpoint.store.codec import SCHEMA


@dataclass(frozen=True)
class Recording:
    """What was kept of one device."""

    device: Watchable
    head: RecordHead
    readings: tuple[Reading, ...]

    def ahead(self, ahead_s: float) -> "Recording":
        """The same with a clock that was ahead put right."""
        return replace(self, readings=tuple(replace(reading, at_s=reading.at_s - ahead_s) for reading in self.readings))

    def within(self, begin_s: float, end_s: float) -> "Recording":
        """The readings that lie wholly in this time."""
        begun = (reading for reading in self.readings if begin_s <= reading.at_s - reading.elapsed_s)
        return replace(self, readings=tuple(reading for reading in begun if reading.at_s <= end_s))


def begun(device: Watchable, attached: Attached, host: Host) -> tuple[RecordHead, Bracket]:
    """What is watched, as a recording begins with it; what reads it."""
    bracket = bracket_of(attached.collectors)
    where, now = host.name or host.release(), datetime.now(UTC).isoformat()
    place = attached.variant, attached.place, attached.ports
    return RecordHead(SCHEMA, device.kind, *place, where, now, attached.facts, bracket.cannot), bracket


def of_texts(device: Watchable, place: str, texts: Mapping[str, str], truncated: Mapping[str, str]) -> Recording | None:
    """Text that a device printed once, as a recording of one reading; None if it printed none of it.

    `truncated`: files of which only the begin was read, and how much.
    """
    said = device.of_texts(texts)
    if said is None:
        return None
    origin = said.variant, place, said.ports
    own = RecordHead(SCHEMA, device.kind, *origin, "", "", said.facts, are_totals=True)
    head = replace(own, truncated=truncated, missing=said.missing)
    return Recording(device, head, (Reading(0.0, said.elapsed_s, said.counters, said.gauges),))


def readings(
    bracket: Bracket,
    every_s: float,
    is_over: Callable[[], bool],
    now_s: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[Reading]:
    """What changed in each `every_s` seconds, until `is_over`. Raises DutError once the device does not answer."""
    bracket.open()
    next_s = now_s() + every_s
    while not is_over():
        sleep(max(0.0, next_s - now_s()))
        next_s += every_s
        seen = bracket.turn()
        yield Reading(time.time(), seen.elapsed_s, seen.differences, seen.gauges, seen.went_back, seen.unpaired)


def watched(device: Watchable, head: RecordHead, seen: Sequence[Reading]) -> Watched:
    """What these readings say together. Raises InputError if the device has no such variant.

    A reading in which something that the path sums up came, went or was reset is left out, as far as there are others.
    """
    everything = together(seen)
    counted = {**dict.fromkeys((*everything.went_back, *everything.unpaired), 0.0), **everything.flat()}
    graph = device.watched_graph(head.variant, counted, head.ports)
    left_out = [any(is_summed(name, graph) for name in _broken(reading)) for reading in seen]
    kept = [reading for reading, is_left_out in zip(seen, left_out, strict=True) if not is_left_out] or seen
    stretches = sum(before and not now for before, now in pairwise((True, *left_out))) or 1
    whole = everything if len(kept) == len(seen) else together(kept)
    # A state is that of the last reading: what is not there any more was removed.
    gauges = {name: whole.gauges[name] for name in (kept[-1].gauges if kept else ())}
    flat = {**gauges, **whole.differences}
    hops = places(graph, flat, _ports(graph, head), (*whole.went_back, *whole.unpaired))
    threads = device.loads(flat, whole.elapsed_s)
    waited = waited_shares(flat, threads)
    signs = replace(of_device(hops, threads, device.signs(flat), waited), rule=rule_of([flat]))
    offload = offload_truth(signs.values, device.offload_limits(flat))
    suspicions = likely(signs, device, flat, in_service=True)
    resets = tuple(dict.fromkeys(name for reading in seen for name in reading.went_back))
    seconds = 0.0 if head.are_totals else whole.elapsed_s
    names = {port: f"{port} ({logical})" for port, logical in device.logical_names(flat).items()}
    told = tuple(_told(hop, names) for hop in hops)
    polling = tuple(replace(load, ports=tuple(names.get(port, port) for port in load.ports)) for load in threads)
    shown = Watched(seconds, told, polling, signs.values, suspicions, resets, offload)
    unsure = {hop.name: round(_late(graph, hop, seconds, stretches)) for hop in hops}
    shown = replace(shown, unread=head.unread, truncated=head.truncated, missing=head.missing)
    return replace(shown, waited=waited, left_out=len(seen) - len(kept), unsure=unsure)


def _told(hop: Hop, names: Mapping[str, str]) -> Hop:
    """With what its ports are called."""
    drops = (
        replace(drop, name=drop.reason.format(port=names[drop.port])) if drop.port in names and drop.reason else drop
        for drop in hop.drops
    )
    return replace(hop, drops=tuple(drops))


def _late(graph: HopGraph, hop: Hop, seconds: float, stretches: int) -> float:
    """Frames of a place that may have been dropped by counters that were not published yet; 0 of totals.

    At the end of each of the `stretches` of readings that follow one another.
    """
    counters = (drop.counter for place in graph.places if place.name == hop.name for drop in place.drops)
    if not seconds or not any(name.startswith(graph.late) for name in counters):
        return 0.0
    late_s = COUNTERS_SETTLE_S * stretches
    if seconds < 2 * late_s:
        return hop.frames_in or 0.0
    dropped = sum(drop.frames for drop in hop.drops if drop.counter.startswith(graph.late))
    return dropped * late_s / seconds


def _broken(reading: Reading) -> tuple[str, ...]:
    """Counters that do not tell what happened in the whole of its time."""
    return (*reading.went_back, *reading.unpaired)


def _ports(graph: HopGraph, head: RecordHead) -> tuple[str, ...]:
    """Those that the watch began with, and those that came later."""
    later = (port for place in graph.places for port in sorted(place.ports or ()))
    return tuple(dict.fromkeys((*head.ports, *later)))

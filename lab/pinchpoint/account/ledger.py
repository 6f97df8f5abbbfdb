"""The account of one trial, place by place, from the engine's counts and the device's counter differences. Pure."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from typing import Final

from pinchpoint.engine.instrument import EngineResult, PortCounts
from pinchpoint.model.hops import PORT, DropCounter, DropKind, HopGraph, Party, Place, Refused
from pinchpoint.model.trial import Drop, Hop, Ledger
from pinchpoint.model.units import FULL

Seen = Mapping[str, float]

_NO_BUFFERS = "engine_tx_no_buffers"
FULL_LINK = Refused("the link of {port} is full", Party.WIRE, DropKind.TRANSMIT_RING)
PAUSED = Refused("the device's NIC asked {port} to wait (pause frames)", Party.DUT, DropKind.RECEIVE_RING)
_RESET = math.nan  # stands for the growth of a counter that went back: no sum with it is a number


def settled(seen: Mapping[str, int], late: Mapping[str, int], graph: HopGraph) -> dict[str, int]:
    """What was seen when the frames ended, with the account's counters as they were read again later."""
    return {**seen, **{name: value for name, value in late.items() if graph.is_read(name)}}


def build(
    engine: EngineResult, seen: Seen, ports: Sequence[str], graph: HopGraph, went_back: Sequence[str] = ()
) -> Ledger:
    """The ledger of a trial. Counters that `seen` lacks stay unknown (None), never zero.

    So do sums with a counter that `went_back`; the ledger names it. Frames of a stream that were not countable on
    arrival are unexplained: no counter accounts for them.
    """
    resets = tuple(name for name in went_back if graph.is_read(name) or _is_summed(name, graph))
    seen = {**seen, **dict.fromkeys(resets, _RESET)}
    offered = sum(stream.offered for stream in engine.streams)
    received = sum(stream.received or 0 for stream in engine.streams)
    hops = (
        _engine_transmit(engine, graph),
        *_hops(graph, seen, ports),
        _engine_receive(engine, received),
    )
    return Ledger(offered, received, hops, resets, _missing_copies(engine, hops))


def _missing_copies(engine: EngineResult, hops: Sequence[Hop]) -> int:
    """Frames that places gave out beyond what came in, less those that came back twice."""
    made = sum(
        max(0, hop.frames_out - hop.frames_in)
        for hop in hops[1:-1]
        if hop.frames_in is not None and hop.frames_out is not None
    )
    return max(0, made - sum(stream.duplicated or 0 for stream in engine.streams))


def places(graph: HopGraph, seen: Seen, ports: Sequence[str], went_back: Sequence[str] = ()) -> tuple[Hop, ...]:
    """The hops of a device that runs without an engine, as `build` has them between the engine's two."""
    seen = {**seen, **dict.fromkeys((name for name in went_back if _is_summed(name, graph)), _RESET)}
    return tuple(_hops(graph, seen, ports))


def by_port(graph: HopGraph, seen: Seen, ports: Sequence[str]) -> tuple[dict[str, int], dict[str, int]]:
    """Frames that each port received and sent, where the first and the last place of the graph count by port."""
    received, sent = graph.places[0].entered[0], graph.places[-1].left[0]
    return _each_port(received, seen, ports), _each_port(sent, seen, ports)


def _each_port(counter: str, seen: Seen, ports: Sequence[str]) -> dict[str, int]:
    return {port: int(seen[name]) for port, name in _by_port(counter, seen, ports) if port}


def _engine_transmit(engine: EngineResult, graph: HopGraph) -> Hop:
    drops = []
    for port in engine.ports:
        # The engine had no buffer to write the frame into: no ring was asked to take it.
        unbuffered = min(port.refused, port.stats.get(_NO_BUFFERS, 0))
        if unbuffered:
            drops.append(
                _engine_drop(
                    "engine out of buffers for {port}", port.name, unbuffered, _NO_BUFFERS, kind=DropKind.BUFFERS
                )
            )
        if port.refused > unbuffered:
            what = _refused(port, graph)
            drops.append(
                _engine_drop(what.reason, port.name, port.refused - unbuffered, "refused", what.party, what.kind)
            )
    offered = sum(stream.offered for stream in engine.streams)
    return Hop("engine sends", offered, sum(stream.sent for stream in engine.streams), tuple(drops))


def _refused(port: PortCounts, graph: HopGraph) -> Refused:
    """Why a port took fewer frames: of a NIC its link may be full, or the other end asks it to wait."""
    if port.tx_share is not None and port.tx_share >= FULL:
        return FULL_LINK
    return PAUSED if nic_counts(port.stats).pauses_received else graph.refusal(port.name)


def _engine_drop(
    reason: str,
    port: str,
    frames: int,
    counter: str,
    party: Party = Party.ENGINE,
    kind: DropKind = DropKind.TRANSMIT_RING,
) -> Drop:
    return Drop(reason.format(port=port), frames, f"engine: {counter}", str(party), reason, port, kind)


def _engine_receive(engine: EngineResult, received: int) -> Hop:
    drops = [drop for port in engine.ports for drop in _missed(port)]
    named = sum(drop.frames for drop in drops)
    corrupt = sum(stream.corrupt or 0 for stream in engine.streams)
    if corrupt:
        drops.append(_engine_drop("arrived corrupt", "", corrupt, "corrupt", Party.DUT, DropKind.MALFORMED))
    arrived = sum(port.received for port in engine.ports)
    return Hop("engine receives", arrived + named, received, tuple(drops))


def _missed(port: PortCounts) -> Iterator[Drop]:
    """Frames that the port had and the engine never saw. Without buffers nobody empties a ring."""
    seen = nic_counts(port.stats)
    if port.rx_missed and seen.no_buffers:
        reason = "engine out of buffers to receive on {port}"
        yield _engine_drop(reason, port.name, port.rx_missed, "rx_missed", kind=DropKind.BUFFERS)
    elif port.rx_missed:
        yield _engine_drop("engine missed on {port}", port.name, port.rx_missed, "rx_missed")
    if port.speed_bps is None:
        return  # no NIC
    if seen.discarded:
        reason = "the engine's NIC {port} had no room before its queues"
        yield _engine_drop(reason, port.name, seen.discarded, "discards")
    if seen.damaged:
        reason = "damaged on the way to the engine's NIC {port}"
        yield _engine_drop(reason, port.name, seen.damaged, "rx_errors", Party.WIRE, DropKind.MALFORMED)


def _hops(graph: HopGraph, seen: Seen, ports: Sequence[str]) -> Iterator[Hop]:
    """One of each name: its parts count at ports of their own, and those without a port here count nothing."""
    for name, places in groupby(graph.places, key=lambda place: place.name):
        own = [(place, [port for port in ports if place.ports is None or port in place.ports]) for place in places]
        parts = [_hop(place, seen, at) for place, at in own if at or place.ports is None]
        came, left = _total([part.frames_in for part in parts]), _total([part.frames_out for part in parts])
        yield Hop(name, came, left, tuple(drop for part in parts for drop in part.drops))


def _total(counts: Sequence[int | None]) -> int | None:
    """None if one of them is not known, or there is none."""
    known = [count for count in counts if count is not None]
    return sum(known) if known and len(known) == len(counts) else None


def _hop(place: Place, seen: Seen, ports: Sequence[str]) -> Hop:
    drops = tuple(_drops(place.drops, seen, ports))
    rest = tuple(_rest(place, drops, seen, ports))
    return Hop(place.name, _sum(place.entered, seen, ports), _sum(place.left, seen, ports), drops + rest)


def _rest(place: Place, drops: Sequence[Drop], seen: Seen, ports: Sequence[str]) -> Iterator[Drop]:
    """What the place's total holds beside the drops that are part of it, at each port that has a total."""
    if (rest := place.rest) is None:
        return
    apart = {name for drop in place.drops if drop.is_apart for name in _named(drop.counter, seen, ports)}
    totals: dict[str, float] = {}
    for port, name in _by_port(rest.counter, seen, ports):
        totals[port] = totals.get(port, 0) + seen[name]
    for port, total in totals.items():
        parts = (drop.frames for drop in drops if port in (drop.port, "") and drop.counter not in apart)
        frames = total - sum(parts)
        if frames > 0:
            counter = rest.counter.replace(PORT, port)
            reason = rest.reason.format(port=port)
            yield Drop(reason, int(frames), counter, str(rest.party), rest.reason, port, rest.kind)


def _drops(counters: Sequence[DropCounter], seen: Seen, ports: Sequence[str]) -> Iterator[Drop]:
    """Of each counter that grew; one that several lines match belongs to the first of them."""
    counted = set[str]()
    for counter in counters:
        for port, name in _by_port(counter.counter, seen, ports):
            frames = seen[name]
            if name in counted:
                continue
            counted.add(name)
            if frames > 0:
                words = {"port": port, "counter": name.rpartition("/")[2].replace("_", " ")}
                reason = counter.reason.replace("{counter}", words["counter"])
                yield Drop(reason.format(**words), int(frames), name, str(counter.party), reason, port, counter.kind)


def _sum(counters: Sequence[str], seen: Seen, ports: Sequence[str]) -> int | None:
    """The counters added up; None if the first one is not known, or one was reset. Others may be missing."""
    by_counter = [[seen[name] for name in _named(counter, seen, ports)] for counter in counters]
    total = sum(value for values in by_counter for value in values)
    return int(total) if by_counter and by_counter[0] and not math.isnan(total) else None


def _named(counter: str, seen: Seen, ports: Sequence[str]) -> list[str]:
    return [name for _, name in _by_port(counter, seen, ports)]


def _by_port(counter: str, seen: Seen, ports: Sequence[str]) -> Iterator[tuple[str, str]]:
    """(port, counter) of those that were seen, by the order of the ports."""
    for port in ports if PORT in counter else ("",):
        name = counter.replace(PORT, port)
        if "*" in name:
            yield from ((port, key) for key in sorted(seen) if _pattern(name).fullmatch(key))
        elif name in seen:
            yield port, name


@cache
def _pattern(counter: str) -> re.Pattern[str]:
    """`*` stands for any part of a name without a slash."""
    return re.compile("[^/]*".join(map(re.escape, counter.split("*"))))


def _is_summed(name: str, graph: HopGraph) -> bool:
    """Whether some place's sum reads the counter."""
    summed = (counter for place in graph.places for counter in (*place.entered, *place.left))
    return any(_pattern(counter.replace(PORT, "*")).fullmatch(name) for counter in summed)


_PAUSES: Final = re.compile(r"(rx|tx)_(?:(?:flow_control_)?xoff_packets|pause_frames|pause_ctrl_phy|pfc_frames)")
_CRC: Final = re.compile(r"rx_(?:phy_)?crc_errors(?:_phy)?")
_DISCARDS: Final = re.compile(r"rx_(?:phy_discard_packets|discards_phy)")
Stats = Mapping[str, int]


@dataclass(frozen=True)
class NicCounts:
    """Of one trial; what a driver does not count is 0 here: only what is more than that is ever used."""

    no_buffers: int  # receive buffers that could not be allocated
    damaged: int  # frames that arrived with errors
    discarded: int  # frames that the NIC had no room for before they reached a queue
    pauses_received: int  # the other end asked to wait
    pauses_sent: int


def nic_counts(stats: Stats) -> NicCounts:
    """From the growth of a port's statistics."""
    by_driver = _most(stats, _CRC), _most(stats, _DISCARDS)
    return NicCounts(
        no_buffers=max(0, stats.get("rx_mbuf_allocation_errors", 0)),
        damaged=max(stats.get("rx_errors", 0), by_driver[0]),
        discarded=by_driver[1],
        pauses_received=_paused(stats, "rx"),
        pauses_sent=_paused(stats, "tx"),
    )


def _most(stats: Stats, name: re.Pattern[str]) -> int:
    """A driver may have two names for a counter: they are not added up."""
    return max((value for key, value in stats.items() if name.fullmatch(key)), default=0)


def _paused(stats: Stats, way: str) -> int:
    frames = (value for key, value in stats.items() if (match := _PAUSES.fullmatch(key)) and match[1] == way)
    return max(frames, default=0)

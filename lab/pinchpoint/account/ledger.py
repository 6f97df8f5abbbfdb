"""The account of one trial, place by place, from the engine's counts and the device's counter differences. Pure.

Lost frames that no counter names are unexplained: how many they are, and between which two places they vanish.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import groupby
from typing import Final

from pinchpoint.engine.instrument import EngineResult, PortCounts
from pinchpoint.model import units
from pinchpoint.model.groups import grouped
from pinchpoint.model.hops import LESS, PORT, DropCounter, DropKind, HopGraph, Party, Place, Refused
from pinchpoint.model.trial import Drop, Hop, Ledger, Trial, TrialValidity, went_back_words
from pinchpoint.model.units import FULL

Seen = Mapping[str, float]

_NO_BUFFERS = "engine_tx_no_buffers"
_FULL_LINK = Refused("the link of {port} is full", Party.WIRE, DropKind.TRANSMIT_RING)
_PAUSED = Refused("the device's NIC asked {port} to wait (pause frames)", Party.DUT, DropKind.RECEIVE_RING)
# The engine had no buffer to write the frame into: no ring was asked to take it. Without buffers nobody empties one.
_UNBUFFERED = DropCounter(_NO_BUFFERS, "engine out of buffers for {port}", Party.ENGINE, DropKind.BUFFERS)
_UNRECEIVED = DropCounter("rx_missed", "engine out of buffers to receive on {port}", Party.ENGINE, DropKind.BUFFERS)
_MISSED = DropCounter("rx_missed", "engine missed on {port}", Party.ENGINE, DropKind.TRANSMIT_RING)
_DISCARDED = DropCounter(
    "discards", "the engine's NIC {port} had no room before its queues", Party.ENGINE, DropKind.TRANSMIT_RING
)
_DAMAGED = DropCounter("rx_errors", "damaged on the way to the engine's NIC {port}", Party.WIRE, DropKind.MALFORMED)
_CORRUPT = DropCounter("corrupt", "arrived corrupt", Party.DUT, DropKind.MALFORMED)
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
    resets = tuple(name for name in went_back if graph.is_read(name) or is_summed(name, graph))
    seen = {**seen, **dict.fromkeys(resets, _RESET)}
    offered = sum(stream.offered for stream in engine.streams)
    received = sum(stream.received or 0 for stream in engine.streams)
    hops = (_engine_transmit(engine, graph), *_hops(graph, seen, ports), _engine_receive(engine, received))
    return Ledger(offered, received, hops, resets, _missing_copies(engine, hops))


def _missing_copies(engine: EngineResult, hops: Sequence[Hop]) -> int:
    """Frames that places gave out beyond what came in, less those that came back twice."""
    counts = ((hop.frames_in, hop.frames_out) for hop in hops[1:-1])
    made = sum(max(0, left - came) for came, left in counts if came is not None and left is not None)
    return max(0, made - sum(stream.duplicated or 0 for stream in engine.streams))


def places(graph: HopGraph, seen: Seen, ports: Sequence[str], went_back: Sequence[str] = ()) -> tuple[Hop, ...]:
    """The hops of a device that runs without an engine, as `build` has them between the engine's two."""
    seen = {**seen, **dict.fromkeys((name for name in went_back if is_summed(name, graph)), _RESET)}
    return tuple(_hops(graph, seen, ports))


def by_port(graph: HopGraph, seen: Seen, ports: Sequence[str]) -> tuple[dict[str, int], dict[str, int]]:
    """Frames that each port received and sent, where the first and the last place of the graph count by port."""
    received, sent = (
        {port: int(seen[name]) for port, name in _by_port(counter, seen, ports) if port}
        for counter in (graph.places[0].entered[0], graph.places[-1].left[0])
    )
    return received, sent


def _engine_transmit(engine: EngineResult, graph: HopGraph) -> Hop:
    drops = tuple(drop for port in engine.ports for drop in _not_taken(port, graph))
    offered = sum(stream.offered for stream in engine.streams)
    return Hop("engine sends", offered, sum(stream.sent for stream in engine.streams), drops)


def _not_taken(port: PortCounts, graph: HopGraph) -> Iterator[Drop]:
    """Frames that a port did not take: of a NIC its link may be full, or the other end asks it to wait."""
    if unbuffered := min(port.refused, port.stats.get(_NO_BUFFERS, 0)):
        yield _engine_drop(_UNBUFFERED, unbuffered, port.name)
    if port.refused > unbuffered:
        why = _PAUSED if nic_count(port.stats, PAUSES) else graph.refusal(port.name)
        why = _FULL_LINK if port.tx_share is not None and port.tx_share >= FULL else why
        refused = DropCounter("refused", why.reason, why.party, why.kind)
        yield _engine_drop(refused, port.refused - unbuffered, port.name)


def _engine_drop(counter: DropCounter, frames: int, port: str) -> Drop:
    return _drop(counter, frames, f"engine: {counter.counter}", port)


def _drop(counter: DropCounter, frames: float, name: str, port: str) -> Drop:
    """Frames that a counter, of this name at this port, says were dropped."""
    reason = counter.reason.replace("{counter}", name.rpartition("/")[2].replace("_", " "))
    return Drop(reason.format(port=port), int(frames), name, str(counter.party), reason, port, counter.kind)


def _engine_receive(engine: EngineResult, received: int) -> Hop:
    drops = [drop for port in engine.ports for drop in _missed(port)]
    named = sum(drop.frames for drop in drops)
    if corrupt := sum(stream.corrupt or 0 for stream in engine.streams):
        drops.append(_engine_drop(_CORRUPT, corrupt, ""))
    arrived = sum(port.received for port in engine.ports)
    return Hop("engine receives", arrived + named, received, tuple(drops))


def _missed(port: PortCounts) -> Iterator[Drop]:
    """Frames that the port had and the engine never saw."""
    if port.rx_missed:
        missed = _UNRECEIVED if nic_count(port.stats, NO_BUFFERS) else _MISSED
        yield _engine_drop(missed, port.rx_missed, port.name)
    if port.speed_bps is not None:  # a NIC
        for counter, names in ((_DISCARDED, DISCARDED), (_DAMAGED, DAMAGED)):
            if frames := nic_count(port.stats, names):
                yield _engine_drop(counter, frames, port.name)


def _hops(graph: HopGraph, seen: Seen, ports: Sequence[str]) -> Iterator[Hop]:
    """One of each name: its parts count at ports of their own, and those without a port here count nothing."""
    for name, places in groupby(graph.places, key=lambda place: place.name):
        own = [(place, [port for port in ports if place.ports is None or port in place.ports]) for place in places]
        parts = [(place, _hop(place, seen, at)) for place, at in own if at or place.ports is None]
        came = _total([part.frames_in for place, part in parts if place.entered])
        left = _total([part.frames_out for place, part in parts if place.left])
        yield Hop(name, came, left, tuple(drop for _, part in parts for drop in part.drops))


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
    totals = grouped((port, seen[name]) for port, name in _by_port(rest.counter, seen, ports))
    for port, total in totals.items():
        parts = (drop.frames for drop in drops if port in (drop.port, "") and drop.counter not in apart)
        if (frames := sum(total) - sum(parts)) > 0:
            yield _drop(rest, frames, rest.counter.replace(PORT, port), port)


def _drops(counters: Sequence[DropCounter], seen: Seen, ports: Sequence[str]) -> Iterator[Drop]:
    """Of each counter that grew; one that several lines match belongs to the first of them."""
    counted = set[str]()
    for counter in counters:
        for port, name in _by_port(counter.counter, seen, ports):
            if name not in counted and seen[name] > 0:
                yield _drop(counter, seen[name], name, port)
            counted.add(name)


def _sum(counters: Sequence[str], seen: Seen, ports: Sequence[str]) -> int | None:
    """The counters added up; None if the first one is not known, or one was reset. Others may be missing."""
    by_counter = [[sign * seen[name] for name in _named(word, seen, ports)] for sign, word in map(signed, counters)]
    total = sum(value for values in by_counter for value in values)
    return int(total) if by_counter and by_counter[0] and not math.isnan(total) else None


def signed(counter: str) -> tuple[int, str]:
    """1, or -1 where its frames are taken off, and the counter's name."""
    return (-1, counter.removeprefix(LESS)) if counter.startswith(LESS) else (1, counter)


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


def is_summed(name: str, graph: HopGraph) -> bool:
    """Whether some place's sum reads the counter."""
    summed = (signed(counter)[1] for place in graph.places for counter in (*place.entered, *place.left))
    return any(_pattern(counter.replace(PORT, "*")).fullmatch(name) for counter in summed)


# Counters of NICs, by the names that drivers have for them.
NO_BUFFERS: Final = re.compile("rx_mbuf_allocation_errors")  # receive buffers that could not be allocated
DAMAGED: Final = re.compile(r"rx_errors|rx_(?:phy_)?crc_errors(?:_phy)?")  # frames that arrived with errors
DISCARDED: Final = re.compile(r"rx_(?:phy_discard_packets|discards_phy)")  # frames without room before the queues
# The other end asked to wait.
PAUSES: Final = re.compile(r"rx_(?:(?:flow_control_)?xoff_packets|pause_frames|pause_ctrl_phy|pfc_frames)")


def nic_count(stats: Mapping[str, int], names: re.Pattern[str]) -> int:
    """The growth of a counter in a port's statistics. A driver may have several names for it: they are not added up.

    What a driver does not count is 0: only what is more than that is ever used.
    """
    return max([0, *(value for key, value in stats.items() if names.fullmatch(key))])


def unexplained_share(trials: Sequence[Trial]) -> float:
    """Lost frames that no counter names, over the frames offered, of all valid trials together; 0 without any."""
    offered = sum(trial.offered for trial in trials if trial.validity is TrialValidity.VALID)
    return unexplained_frames(trials) / offered if offered else 0.0


def unexplained_frames(trials: Sequence[Trial]) -> int:
    """Of valid trials. One that counters overbook by a few frames does not make up for another."""
    return sum(max(0, trial.ledger.unexplained) for trial in trials if trial.validity is TrialValidity.VALID)


def unexplained_place(trials: Sequence[Trial]) -> str:
    """Where most of them vanish, for people, e.g. `between "switch sends" and "engine receives"`.

    Counters that were reset meanwhile are named: what they counted is not known.
    """
    lost, resets = Counter[str](), dict[str, None]()
    for trial in trials:
        if trial.validity is TrialValidity.VALID and trial.ledger.unexplained > 0:
            lost.update(dict(_leaks(trial.ledger)))
            resets |= dict.fromkeys(trial.ledger.resets)
    place, frames = next(iter(lost.most_common(1)), ("", 0))
    words = place if frames > 0 else "at a place that no counter shows"
    return f"{words}; {went_back_words(tuple(resets))}" if resets else words


def _leaks(ledger: Ledger) -> Iterator[tuple[str, int]]:
    """Each place with the frames that vanish there: within a hop, or on the way to the next one that counts."""
    sent: tuple[str, int] | None = None
    for hop in ledger.hops:
        if sent is not None and hop.frames_in is not None:
            yield f'between "{sent[0]}" and "{hop.name}"', max(0, sent[1] - hop.frames_in)
        dropped = sum(drop.frames for drop in hop.drops)
        if hop.frames_in is not None and hop.frames_out is not None:
            yield f'in "{hop.name}"', max(0, hop.frames_in - hop.frames_out - dropped)
        if hop.frames_out is not None:
            sent = (hop.name, hop.frames_out)
        elif hop.frames_in is not None:
            sent = (hop.name, hop.frames_in - dropped)


def unexplained_words(trials: Sequence[Trial]) -> str:
    """How many of the lost frames are unexplained, what share that is of the offered ones, and where, for people."""
    valid = [trial for trial in trials if trial.validity is TrialValidity.VALID]
    offered, lost = sum(trial.offered for trial in valid), sum(trial.lost for trial in valid)
    counts = f"{units.frames(unexplained_frames(valid))} of {units.frames(lost)} lost frames"
    share = f"{units.share(unexplained_share(valid))} of {units.frames(offered)} offered"
    return f"no counter names {counts} ({share}), most of them {unexplained_place(valid)}"

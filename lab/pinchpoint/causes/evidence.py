"""What stands beside a verdict: which frames were lost, how loaded the threads were, which link was full, what was
ruled out. Pure.
"""

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from pinchpoint.account import facts
from pinchpoint.causes.bounds import Overload
from pinchpoint.causes.signature import HELD_UP
from pinchpoint.model import units
from pinchpoint.model.groups import grouped
from pinchpoint.model.hops import DropKind
from pinchpoint.model.limits import SATURATED
from pinchpoint.model.trial import Drop, ThreadLoad, Trial, TrialValidity
from pinchpoint.model.units import FULL

NEAR_LIMIT: Final = 1.1  # times the lowest load that counts: losing trials up to there are evidence of the same limit
NEARLY_ALL: Final = 0.9  # of the trials at a load and above must lose frames: a stray loss of the host does so in few
COMPLETE: Final = 0.001  # of what was asked for: an engine that sent all but this kept up
_PORT, _SPEED = "engine/port/", "/speed_bps"
_FULLER: Final = "line_share"  # in runs before each direction had its own: that of the fuller one


@dataclass(frozen=True)
class Group:
    """Frames lost for the same reason, wherever that was."""

    limits: str  # whose doing, as in Drop
    drops: tuple[Drop, ...]  # of different names, the largest first, each with the frames of all trials

    @property
    def frames(self) -> int:
        """Frames lost for this reason at all places together."""
        return sum(drop.frames for drop in self.drops)

    @property
    def kind(self) -> DropKind:
        """Of the place at which most were lost."""
        return self.drops[0].kind

    @property
    def port(self) -> str:
        """The port at which most were lost; empty if they were lost at none."""
        return self.drops[0].port

    def words(self) -> str:
        """The reason, with the place where it met most frames."""
        first = self.drops[0]
        if len(self.drops) == 1:
            return first.name
        several = first.reason.replace("{port}", f"{len(self.drops)} ports")
        return f"{several}, {units.share(first.frames / self.frames)} of them: {first.name}"


def by_reason(trials: Sequence[Trial]) -> list[Group]:
    """What counters name, added up by reason first and by place second; most frames first."""
    by_name = grouped((drop.name, drop) for trial in trials for hop in trial.ledger.hops for drop in hop.drops)
    drops = [replace(alike[-1], frames=sum(drop.frames for drop in alike)) for alike in by_name.values()]
    ranked = sorted((drop for drop in drops if drop.frames), key=lambda drop: -drop.frames)
    reasons = grouped(((drop.reason or drop.name, drop.limits), drop) for drop in ranked)
    groups = [Group(limits, tuple(of_reason)) for (_, limits), of_reason in reasons.items()]
    return sorted(groups, key=lambda group: -group.frames)


def named(groups: Sequence[Group]) -> tuple[str, ...]:
    """The most frequent drops that counters name, each a sentence."""
    drops = sorted((drop for group in groups for drop in group.drops), key=lambda drop: -drop.frames)
    return tuple(f"{units.frames(drop.frames)} of them: {drop.name} ({drop.counter})" for drop in drops[:4])


def shares(groups: Sequence[Group], frames: int) -> str:
    """The three largest groups, each with its share of `frames`."""
    return ", ".join(f"{units.share(group.frames / frames)} {group.words()}" for group in groups[:3])


def losing_apart(trials: Sequence[Trial], kind: DropKind, loss_ratio: float) -> list[Trial]:
    """The trials at the lowest load from which nearly all lose more than `loss_ratio` apart from drops of a kind.

    The frames dropped so count as received in them.
    """
    apart = [_without(trial, kind) for trial in trials if trial.validity is TrialValidity.VALID]
    losing = sorted((trial for trial in apart if trial.loss_ratio > loss_ratio), key=lambda trial: trial.load_fps)
    for lowest, first in enumerate(losing):
        above = sum(trial.load_fps >= first.load_fps for trial in apart)
        if len(losing) - lowest >= NEARLY_ALL * above:
            return [trial for trial in losing[lowest:] if trial.load_fps <= first.load_fps * NEAR_LIMIT]
    return []


def _without(trial: Trial, kind: DropKind) -> Trial:
    hops = tuple(
        replace(hop, drops=tuple(drop for drop in hop.drops if drop.kind is not kind)) for hop in trial.ledger.hops
    )
    dropped = trial.ledger.dropped - replace(trial.ledger, hops=hops).dropped
    received = min(trial.offered, trial.received + dropped)
    return replace(trial, received=received, ledger=replace(trial.ledger, received=received, hops=hops))


@dataclass(frozen=True)
class Way:
    """One direction of the link of a port whose ends are NICs."""

    port: str
    is_sent: bool  # by the engine; else by the device
    share: float  # of its line rate
    speed_bps: float


def ways(trial: Trial) -> Iterator[Way]:
    """Both directions of the links whose speed is known; ports without a NIC have none."""
    seen = trial.observed
    for name, speed_bps in seen.items():
        if name.startswith(_PORT) and name.endswith(_SPEED):
            begin = name.removesuffix("speed_bps")
            for is_sent, end in ((True, "tx_share"), (False, "rx_share")):
                if (share := seen.get(begin + end, seen.get(begin + _FULLER))) is not None:
                    yield Way(name[len(_PORT) : -len(_SPEED)], is_sent, share, speed_bps)


def pinched(trial: Trial, names: Collection[str] | None = None) -> Way | None:
    """The direction before which most frames found no room, of the drops with these names, or of all.

    None: they were lost elsewhere, or nothing is known of that link. What the engine had no room for came over the
    link, however full it was.
    """
    drops = ((place, drop) for place, hop in enumerate(trial.ledger.hops) for drop in hop.drops)
    behind = ((place, drop) for place, drop in drops if drop.kind is DropKind.TRANSMIT_RING)
    lost = [(drop.frames, place, drop.port) for place, drop in behind if names is None or drop.name in names]
    _, place, port = max(lost, default=(0, -1, ""))
    if place in (-1, len(trial.ledger.hops) - 1):
        return None
    return next((way for way in ways(trial) if way.port == port and way.is_sent == (place == 0)), None)


def full(ways: Sequence[Way]) -> Way | None:
    """The fullest of these directions of links, if it was full."""
    way = max(ways, key=lambda way: way.share, default=None)
    return way if way and way.share >= FULL else None


def wire(way: Way) -> str:
    """The sentence about a full link."""
    speed, end = f"{way.speed_bps / 1e9:g} Gbit/s", "towards" if way.is_sent else "from"
    share = units.share(way.share)
    return f"the wire, not the switch: the link of {way.port}, {speed}, is at {share} of its line rate {end} the switch"


def loads(trials: Sequence[Trial], over: Overload | None = None) -> tuple[str, ...]:
    """How busy the device's busiest thread and the engine's cores were."""
    median = _median_trial(trials)
    lines = (_load_line(*median, over) if median else "", _engine_load(trials))
    return tuple(filter(None, lines))


def busiest(trial: Trial, port: str = "") -> ThreadLoad | None:
    """Of the threads that poll the port, where they are known; else of all."""
    polling = [load for load in trial.threads if port in load.ports] or trial.threads
    return max(polling, key=lambda load: (load.busy_share or 0.0, load.received), default=None)


def busiest_of(trials: Sequence[Trial], port: str = "") -> ThreadLoad | None:
    """The busiest thread of the trial with the median busy share: one outlier does not speak for all."""
    median = _median_trial(trials, port)
    return median[0] if median else None


def _median_trial(trials: Sequence[Trial], port: str = "") -> tuple[ThreadLoad, Trial] | None:
    """The trial with the median busy share of its busiest thread, and that thread."""
    by_load = [(load, trial) for trial in trials if (load := busiest(trial, port)) is not None]
    by_load.sort(key=lambda pair: pair[0].busy_share or 0.0)
    return by_load[len(by_load) // 2] if by_load else None


def headroom(trial: Trial) -> str:
    """How idle the device's busiest thread was; empty if it was not."""
    load = busiest(trial)
    if load is None or load.busy_share is None or load.busy_share >= SATURATED:
        return ""
    return f": {load.name} was still {units.share(1 - load.busy_share)} idle"


def idle(load: ThreadLoad, share: float, over: Overload | None) -> str:
    """The share of its time that a thread needed, at what a packet costs under overload; else how busy it was."""
    if over and load.name in over.cycles and load.clock_hz:
        return f"{load.name} needed only {units.share(share)} of its time"
    return f"{load.name} was only {units.share(share)} busy"


def saturated(load: ThreadLoad | None, over: Overload | None) -> str:
    """The sentence about a thread that forwards no more, whatever is offered."""
    name = load.name if load else "the device"
    if over is None:
        return f"{name} is saturated"
    cycles = over.cycles.get(name)
    cost = f", {cycles:,.0f} cycles per packet" if cycles else ""
    return f"{name} is saturated: it forwards {units.fps(over.forwarded_fps)} however much is offered{cost}"


def ruled_out(losing: Sequence[Trial], trials: Sequence[Trial]) -> Iterator[str]:
    """What did not hold the device up: the generator, another process."""
    shortfall = sum(stream.shortfall or 0 for trial in losing for stream in trial.streams)
    intended = sum(trial.intended for trial in losing)
    if intended and shortfall <= COMPLETE * intended:
        share = units.share(1 - shortfall / intended)
        yield f"generator sending: it offered {share} of what was asked for in these trials"
    waits = [(waited_s, trial.sent_duration_s) for trial in losing for waited_s in facts.waited_s(trial).values()]
    had_core = all(waited_s <= HELD_UP * traffic_s for waited_s, traffic_s in waits)
    if waits and had_core and not any(map(facts.stolen_s, losing)):
        discarded = sum(trial.validity is TrialValidity.NOISY_HOST for trial in trials)
        yield (
            "another process on the switch's core, as far as the kernel can see: its threads waited at most "
            f"{units.nanoseconds(max(waits)[0] * 1e9)} for others in these trials, and no time was stolen "
            f"({units.counted(discarded, 'trial')} discarded because the engine's core stood still)"
        )


def _load_line(load: ThreadLoad, trial: Trial, over: Overload | None) -> str:
    needed = over.busy_share(load, trial.sent_duration_s) if over else load.busy_share
    if needed is None:
        return f"this kernel does not report how busy {load.name} was"
    cycles = over.cycles.get(load.name) if over else None
    if cycles:
        line = (
            f"{load.name} needed {units.share(needed)} of its time, at the {cycles:,.0f} cycles per packet of overloads"
        )
    else:
        line, cycles = f"{load.name} was {units.share(needed)} busy in {trial.id}", load.cycles_per_packet
        line += f" at {cycles:,.0f} cycles per packet" if cycles else ""
    if cycles and load.clock_hz:
        line += f"; at {load.clock_hz / 1e9:.2f} GHz that is room for {units.fps(load.clock_hz / cycles)}"
    return line


def _engine_load(trials: Sequence[Trial]) -> str:
    """How busy each of the engine's cores was, on average; empty if none was seen."""
    workers = (worker for trial in trials for worker in trial.witness.workers)
    in_order = sorted(workers, key=lambda worker: (worker.host, worker.core))
    by_core = grouped((worker.where, worker.busy_share) for worker in in_order)
    busy = {where: units.share(math.fsum(shares) / len(shares)) for where, shares in by_core.items()}
    if len(busy) <= 1:
        return "".join(f"the engine's core was {share} busy" for share in busy.values())
    cores = (f"{share} ({where})" for where, share in busy.items())
    return f"the engine's cores were {', '.join(cores)} busy"

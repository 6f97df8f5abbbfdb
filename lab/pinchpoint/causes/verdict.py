"""What pinched a rate: from a search's trials to one sentence with its evidence.

It rests on valid trials, and of those on the ones that lost more than the goal
allows at or just above the bound that failed: neither on a stray loss far below, which
the search tolerates, nor on what a flood looks like. Where too many of a search's lost
frames are named by no counter, the verdict is refused, with the place where they vanish.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from pinchpoint.account import facts, unexplained
from pinchpoint.account.links import Way, pinched, ways
from pinchpoint.account.workers import receivers
from pinchpoint.causes import signs
from pinchpoint.causes.apart import losing_apart
from pinchpoint.causes.likely import likely
from pinchpoint.model import units
from pinchpoint.model.causes import Signs, Suspicion
from pinchpoint.model.hops import DropKind
from pinchpoint.model.result import Limit, Rate, RateStatus, Verdict
from pinchpoint.model.trial import Drop, PmdLoad, Trial, TrialValidity
from pinchpoint.model.wire import FULL

SATURATED = 0.95  # busy share from which a core has no headroom worth naming
MAJORITY = 0.5  # share of the losses that one reason must explain to be called the limit
NEAR_LIMIT = 1.1  # losing trials up to this multiple of the failed bound are evidence


def verdict(
    rate: Rate,
    trials: Sequence[Trial],
    ring: int,
    neighbour: str = "",
    unexplained_ratio: float = 1.0,
    own: signs.Own = signs.no_own,
) -> Verdict:
    """What limited `rate`, an NDR or PDR, judged from the trials of its search.

    `ring` is the smallest ring between engine and DUT, in frames; `neighbour` says how the DUT's core was slowed;
    `unexplained_ratio` is the share of the offered frames that may be lost without a name; `own` reads the device's
    own counters.
    """
    if rate.status is RateStatus.AT_LEAST:
        return _not_reached(rate, trials)
    if unexplained.unexplained_share(trials) > unexplained_ratio:
        return _unexplained(trials, unexplained_ratio)
    if rate.status is RateStatus.REFUSED:
        return _refused(rate, trials, neighbour)
    losing = _losing(rate, trials)
    if not losing:
        return Verdict(Limit.UNEXPLAINED, "no valid trial lost frames: nothing to explain", (), (), ())
    found = _from_losses(losing, trials, ring)
    suspicions = likely(signs.of_trials(losing, ring, own))
    found = replace(found, suspicions=suspicions, headline=_with_cause(found, suspicions))
    return _with_others(found, rate, losing, trials, signs_of=lambda others: signs.of_trials(others, ring, own))


def _with_others(
    found: Verdict,
    rate: Rate,
    losing: Sequence[Trial],
    trials: Sequence[Trial],
    signs_of: Callable[[Sequence[Trial]], Signs],
) -> Verdict:
    """The same verdict with what else loses frames at higher loads, where drops of one kind take some at any load."""
    leading = next(iter(_by_reason(losing)), None)
    if rate.status is not RateStatus.LOSES_ALWAYS or leading is None or leading.kind is DropKind.OTHER:
        return found
    others = losing_apart(trials, leading.kind, rate.loss_ratio)
    known = {one.cause for one in found.suspicions}
    added = tuple(one for one in likely(signs_of(others)) if one.cause not in known) if others else ()
    if not added:
        return found
    lost = units.frames(sum(trial.lost for trial in others))
    least = units.fps(min(trial.load_fps for trial in others))
    line = f"apart from these, frames are lost from {least} on: {lost} in {units.counted(len(others), 'trial')}"
    evidence = (*found.evidence, line, *_named(_by_reason(others)), *_load_evidence(others))
    return replace(found, suspicions=(*found.suspicions, *added), evidence=evidence)


def _with_cause(found: Verdict, suspicions: Sequence[Suspicion]) -> str:
    """The headline with the likeliest cause, where there is one that the headline does not name already."""
    if not suspicions or found.limit is Limit.UNEXPLAINED:
        return found.headline
    return f"{found.headline}; likely: {suspicions[0].title} ({'; '.join(suspicions[0].evidence)})"


def _unexplained(trials: Sequence[Trial], limit: float) -> Verdict:
    """That the account leaves more open than a verdict bears."""
    open_ended = [trial for trial in _valid(trials) if trial.ledger.unexplained > 0]
    headline = f"unexplained: {unexplained.words(trials)}"
    evidence = (
        f"a verdict bears {units.share(limit)} (validity.unexplained_ratio)",
        *_named(_by_reason(open_ended)),
        *_load_evidence(open_ended),
    )
    return Verdict(Limit.UNEXPLAINED, headline, evidence, (), tuple(trial.id for trial in open_ended))


def _valid(trials: Iterable[Trial]) -> list[Trial]:
    return [trial for trial in trials if trial.validity is TrialValidity.VALID]


def _losing(rate: Rate, trials: Sequence[Trial]) -> list[Trial]:
    """Valid trials that failed the goal near the bound that failed; the lowest if there is no bound."""
    losing = [trial for trial in _valid(trials) if trial.loss_ratio > rate.loss_ratio]
    if not losing:
        return []
    at_bound = [trial.load_fps for trial in losing if trial.offered_fps >= (rate.lower_fps or 0.0)]
    bound_fps = min(at_bound or [trial.load_fps for trial in losing])
    return [trial for trial in losing if bound_fps <= trial.load_fps <= bound_fps * NEAR_LIMIT]


def _refused(rate: Rate, trials: Sequence[Trial], neighbour: str) -> Verdict:
    invalid = Counter(trial.validity for trial in trials if trial.validity is not TrialValidity.VALID)
    evidence = tuple(f"{count} trials were discarded: {validity.value}" for validity, count in invalid.most_common())
    losing = _losing(rate, trials)
    if losing and (asked := _from_rules(losing)):
        return Verdict(Limit.NAMED_DROP, f"{asked}; {rate.reason}", evidence, (), tuple(trial.id for trial in losing))
    noisy = invalid[TrialValidity.NOISY_HOST] > 0 or neighbour
    evidence = (*evidence, neighbour) if neighbour else evidence
    return Verdict(Limit.HOST if noisy else Limit.UNEXPLAINED, rate.reason, evidence, (), ())


def _from_rules(losing: Sequence[Trial]) -> str:
    """The drops that the switch's own rules ask for, if most of the frames were lost to them; else empty.

    They come before anything that disturbs the trials: no quieter host would mend it.
    """
    lost = sum(trial.lost for trial in losing)
    asked = [group for group in _by_reason(losing) if group.limits == "rules"]
    frames = sum(group.frames for group in asked)
    if frames < MAJORITY * lost or not frames:
        return ""
    return f"{asked[0].words()}: the switch's own rules drop {units.frames(frames)} of {units.frames(lost)} lost frames"


def _not_reached(rate: Rate, trials: Sequence[Trial]) -> Verdict:
    highest = max(_valid(trials), key=lambda trial: trial.load_fps, default=None)
    limited = any(trial.validity is TrialValidity.GENERATOR_LIMITED for trial in trials)
    generator = limited or rate.limited_by is Limit.GENERATOR
    # A generator that fell short was held by what it sends over; at the search's maximum either direction may be full.
    used = [way for way in ways(highest) if way.is_sent or not generator] if highest else []
    if highest and (full := _full(used)):
        return Verdict(Limit.WIRE, _wire(full), (rate.reason, *_load_evidence([highest])), (), (highest.id,))
    evidence = _load_evidence([highest]) if highest else ()
    ids = (highest.id,) if highest else ()
    if not generator:
        return Verdict(Limit.SEARCH_MAXIMUM, rate.reason, evidence, (), ids)
    headroom = _pmd_headroom(highest) if highest else ""
    return Verdict(Limit.GENERATOR, f"the generator, not the switch{headroom}", evidence, (), ids)


def _pmd_headroom(trial: Trial) -> str:
    busiest = _busiest(trial)
    if busiest is None or busiest.busy_share is None or busiest.busy_share >= SATURATED:
        return ""
    return f": {busiest.name} still had {units.share(1 - busiest.busy_share)} idle"


@dataclass(frozen=True)
class _Group:
    """Frames lost for one reason, wherever that was."""

    limits: str  # whose doing, as in Drop
    drops: tuple[Drop, ...]  # of different names, the largest first, each with the frames of all trials

    @property
    def frames(self) -> int:
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


def _by_reason(trials: Sequence[Trial]) -> list[_Group]:
    """What counters name, added up by reason first and by place second; most frames first."""
    by_name: dict[str, Drop] = {}
    for drop in (drop for trial in trials for hop in trial.ledger.hops for drop in hop.drops):
        seen = by_name.get(drop.name)
        by_name[drop.name] = replace(drop, frames=drop.frames + (seen.frames if seen else 0))
    by_reason: dict[tuple[str, str], list[Drop]] = {}
    for drop in sorted(by_name.values(), key=lambda drop: -drop.frames):
        if drop.frames:
            by_reason.setdefault((drop.reason or drop.name, drop.limits), []).append(drop)
    groups = [_Group(limits, tuple(drops)) for (_, limits), drops in by_reason.items()]
    return sorted(groups, key=lambda group: -group.frames)


def _named(groups: Sequence[_Group]) -> tuple[str, ...]:
    """The most frequent drops that counters name, each a sentence."""
    drops = sorted((drop for group in groups for drop in group.drops), key=lambda drop: -drop.frames)
    return tuple(f"{units.frames(drop.frames)} of them: {drop.name} ({drop.counter})" for drop in drops[:4])


def _from_losses(losing: Sequence[Trial], trials: Sequence[Trial], ring: int) -> Verdict:
    lost = sum(trial.lost for trial in losing)
    groups = _by_reason(losing)
    named = sum(group.frames for group in groups)
    evidence = (
        f"first losses at {units.fps(min(trial.load_fps for trial in losing))}: "
        f"{units.frames(lost)} frames in {len(losing)} trials",
        *_named(groups),
        *_load_evidence(losing),
    )
    ids = tuple(trial.id for trial in losing)
    ruled_out = _ruled_out(losing, trials)
    if not named or named < MAJORITY * lost:
        missing = units.frames(unexplained.unexplained_frames(losing))
        headline = (
            f"unexplained: no counter names {missing} of {units.frames(lost)} lost frames, most of them "
            f"{unexplained.place(losing)}"
        )
        return Verdict(Limit.UNEXPLAINED, headline, evidence, ruled_out, ids)
    whole = max(lost, named)  # of frames that the device copies, more may be dropped than are lost
    if groups[0].frames < MAJORITY * whole:
        return Verdict(Limit.NAMED_DROP, f"several at once: {_shares(groups, whole)}", evidence, ruled_out, ids)
    limit, headline = _name_limit(groups[0], losing)
    if limit is Limit.NAMED_DROP and groups[0].limits == "dut":
        evidence = (*evidence, _pause(losing, ring))
    return Verdict(limit, headline, evidence, ruled_out, ids)


def _shares(groups: Sequence[_Group], frames: int) -> str:
    return ", ".join(f"{units.share(group.frames / frames)} {group.words()}" for group in groups[:3])


def _pause(losing: Sequence[Trial], ring: int) -> str:
    """How long the DUT must have stood still to lose what the median losing trial lost, and nothing else."""
    trial = sorted(losing, key=lambda trial: trial.lost)[len(losing) // 2]
    holds_ns, pause_ns = (1e9 * frames / trial.load_fps for frames in (ring, ring + trial.lost))
    return (
        f"likely pauses, not lack of speed: the ring of {units.frames(ring)} holds {units.nanoseconds(holds_ns)} of "
        f"this load, and one pause of {units.nanoseconds(pause_ns)} would lose the {units.frames(trial.lost)} frames "
        "of the median losing trial"
    )


def _name_limit(lost: _Group, losing: Sequence[Trial]) -> tuple[Limit, str]:
    engine_busy = _mean([busy for trial in losing if (busy := _receiver_busy(trial)) is not None])
    thread = _busiest_of(losing, lost.port if lost.limits == "dut" else "")
    pmd_busy = thread.busy_share if thread else None
    headroom = f"; {thread.name} only {units.share(pmd_busy)} busy" if thread and pmd_busy is not None else ""
    if lost.kind is DropKind.TRANSMIT_RING and (full := _full_before(lost, losing)):
        return Limit.WIRE, f"{_wire(full)}{headroom}"
    if lost.limits == "engine" and engine_busy is not None and engine_busy >= SATURATED:
        return (
            Limit.GENERATOR,
            f"the engine receives too slowly: {lost.words()}, its core {units.share(engine_busy)} busy",
        )
    if thread and pmd_busy is not None and pmd_busy >= SATURATED and lost.limits == "dut":
        return Limit.PMD_CORE, _saturated(thread)
    if lost.limits == "host":
        return Limit.HOST, f"the host's kernel: {lost.words()}{headroom}"
    return Limit.NAMED_DROP, f"{lost.words()}{headroom}"


def _full_before(lost: _Group, trials: Sequence[Trial]) -> Way | None:
    """The direction for which the lost frames waited, of the trial with the median share, if it was full."""
    names = {drop.name for drop in lost.drops}
    found = sorted((way for trial in trials if (way := pinched(trial, names))), key=lambda way: way.share)
    return _full(found[len(found) // 2 :][:1])


def _full(found: Sequence[Way]) -> Way | None:
    """The fullest of these directions, if it was full."""
    way = max(found, key=lambda way: way.share, default=None)
    return way if way and way.share >= FULL else None


def _wire(full: Way) -> str:
    speed, end = f"{full.speed_bps / 1e9:g} Gbit/s", "towards" if full.is_sent else "from"
    share = units.share(full.share)
    return (
        f"the wire, not the switch: the link of {full.port}, {speed}, is at {share} of its line rate {end} the switch"
    )


def _receiver_busy(trial: Trial) -> float | None:
    """Of the busiest engine core that receives: one that only sends overflows no ring behind the switch."""
    shares = [worker.busy_share for worker in receivers(trial.witness.workers, trial.streams)]
    return max(shares, default=None)


def _saturated(load: PmdLoad) -> str:
    cost = f", {load.cycles_per_packet:.0f} cycles per packet" if load.cycles_per_packet else ""
    return f"{load.name} is saturated: {units.share(load.busy_share)} busy{cost}"


def _load_evidence(trials: Sequence[Trial]) -> tuple[str, ...]:
    lines = []
    busiest = _busiest_of(trials)
    if busiest:
        lines.append(_load_line(busiest))
    if engine := _engine_load(trials):
        lines.append(engine)
    return tuple(lines)


def _engine_load(trials: Sequence[Trial]) -> str:
    """How busy each of the engine's cores was, on average; empty if none was seen."""
    by_core: dict[tuple[str, int], list[float]] = {}
    for trial in trials:
        for worker in trial.witness.workers:
            by_core.setdefault((worker.host, worker.core), []).append(worker.busy_share)
    busy = {core: units.share(math.fsum(shares) / len(shares)) for core, shares in sorted(by_core.items())}
    if len(busy) <= 1:
        return "".join(f"the engine's core was {share} busy" for share in busy.values())
    named = (
        f"{share} (core {core} on {host})" if host else f"{share} (core {core})" for (host, core), share in busy.items()
    )
    return f"the engine's cores were {', '.join(named)} busy"


def _load_line(load: PmdLoad) -> str:
    line = f"{load.name} was {units.share(load.busy_share)} busy"
    if load.cycles_per_packet:
        line += f" at {load.cycles_per_packet:.0f} cycles per packet"
        if load.clock_hz:
            capacity = load.clock_hz / load.cycles_per_packet
            line += f"; at {load.clock_hz / 1e9:.2f} GHz that is room for {units.fps(capacity)}"
    return line


def _ruled_out(losing: Sequence[Trial], trials: Sequence[Trial]) -> tuple[str, ...]:
    lines = []
    shortfall = sum(stream.shortfall or 0 for trial in losing for stream in trial.streams)
    intended = sum(trial.intended for trial in losing)
    if intended and shortfall <= 0.001 * intended:
        share = units.share(1 - shortfall / intended)
        lines.append(f"generator sending: it offered {share} of what was asked for in these trials")
    seen = [facts.of(trial) for trial in losing]
    waited_s = [waited_s for one in seen for waited_s in one.waited_s.values()]
    if waited_s and not any(one.stolen_s for one in seen):
        discarded = sum(trial.validity is TrialValidity.NOISY_HOST for trial in trials)
        lines.append(
            "another process on the switch's core, as far as the kernel can see: its threads waited at most "
            f"{units.nanoseconds(max(waited_s) * 1e9)} for others in these trials, and no time was stolen "
            f"({discarded} trials were discarded since the engine's core stood still)"
        )
    return tuple(lines)


def _busiest(trial: Trial, port: str = "") -> PmdLoad | None:
    """Of the threads that poll the port, where they are known; else of all."""
    polling = [load for load in trial.pmds if port in load.ports] or trial.pmds
    return max(polling, key=lambda load: (load.busy_share or 0.0, load.received), default=None)


def _busiest_of(trials: Sequence[Trial], port: str = "") -> PmdLoad | None:
    """The busiest thread of the trial with the median busy share: one outlier does not speak for all."""
    loads = [load for trial in trials if (load := _busiest(trial, port)) is not None]
    loads.sort(key=lambda load: load.busy_share or 0.0)
    return loads[len(loads) // 2] if loads else None


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None

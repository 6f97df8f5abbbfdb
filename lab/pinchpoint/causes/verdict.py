"""What pinched a rate: from a search's trials to one sentence with its evidence.

It rests on valid trials, and of those on the ones that lost more than the goal
allows at or just above it: neither on a stray loss far below, which
the search tolerates, nor on what a flood looks like. Where too many of a search's lost
frames are named by no counter, the verdict is refused, with the place where they vanish.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial

from pinchpoint.account import unexplained
from pinchpoint.account.links import Way, pinched, ways
from pinchpoint.causes import evidence, losses, signs
from pinchpoint.causes.catalogue import CATALOGUE, OWN_SPEED
from pinchpoint.causes.diagnosed import UNKNOWN, Diagnosed
from pinchpoint.causes.levels import MOST, NEAR_LIMIT
from pinchpoint.causes.likely import likely
from pinchpoint.causes.losses import Group, by_reason, losing_apart
from pinchpoint.causes.overload import Overload, overload
from pinchpoint.model import units
from pinchpoint.model.causes import Sign, Signs, Suspicion
from pinchpoint.model.hops import DropKind, Party
from pinchpoint.model.limits import SATURATED
from pinchpoint.model.result import Limit, Rate, RateStatus, Verdict
from pinchpoint.model.trial import Trial, TrialValidity

Suspect = Callable[[Sequence[Trial]], tuple[Suspicion, ...]]
"""The causes that fit what some trials show."""


def verdict(
    rate: Rate,
    trials: Sequence[Trial],
    ring: int,
    neighbour: str = "",
    unexplained_ratio: float = 1.0,
    device: Diagnosed = UNKNOWN,
) -> Verdict:
    """What limited `rate`, an NDR or PDR, judged from the trials of its search and any overloads beside them.

    `ring` is the smallest ring between engine and DUT, in frames; `neighbour` says how the DUT's core was slowed;
    `unexplained_ratio` is the share of the offered frames that may be lost without a name; `device` reads its own
    counters, and is asked what its user can set.
    """
    if rate.status is RateStatus.AT_LEAST:
        return _not_reached(rate, trials)
    suspect = partial(_suspected, ring=ring, device=device)
    if unexplained.unexplained_share(trials) > unexplained_ratio:
        return _unexplained(trials, unexplained_ratio, suspect)
    if rate.status is RateStatus.REFUSED:
        return _refused(rate, trials, neighbour)
    losing = _losing(rate, trials)
    if not losing:
        return Verdict(Limit.UNEXPLAINED, "no valid trial lost frames: nothing to explain", (), (), ())
    over = overload(trials, rate.quoted_fps)
    seen = signs.of_trials(losing, ring, device, over)
    limit = _from_losses(losing, trials, seen, over)
    suspicions = likely(seen, device, losing[-1].observed)
    limit = replace(limit, suspicions=suspicions, headline=_with_cause(limit, suspicions))
    return _with_others(limit, rate, losing, trials, suspect)


def _suspected(trials: Sequence[Trial], ring: int, device: Diagnosed) -> tuple[Suspicion, ...]:
    """By their signs; the settings in force are the same in all of them."""
    return likely(signs.of_trials(trials, ring, device), device, trials[-1].observed if trials else {})


def _with_others(
    verdict: Verdict,
    rate: Rate,
    losing: Sequence[Trial],
    trials: Sequence[Trial],
    suspect: Suspect,
) -> Verdict:
    """The same verdict with what else loses frames at higher loads, where drops of one kind take some at any load."""
    leading = next(iter(by_reason(losing)), None)
    if rate.status is not RateStatus.LOSES_ALWAYS or leading is None or leading.kind is DropKind.OTHER:
        return verdict
    others = losing_apart(trials, leading.kind, rate.loss_ratio)
    known = {suspicion.cause for suspicion in verdict.suspicions}
    added = tuple(suspicion for suspicion in suspect(others) if suspicion.cause not in known) if others else ()
    if not added:
        return verdict
    lost = units.frames(sum(trial.lost for trial in others))
    least = units.fps(min(trial.load_fps for trial in others))
    line = f"apart from these, frames are lost from {least} on: {lost} in {units.counted(len(others), 'trial')}"
    lines = (*verdict.evidence, line, *losses.named(by_reason(others)), *evidence.loads(others))
    return replace(verdict, suspicions=(*verdict.suspicions, *added), evidence=lines)


def _with_cause(verdict: Verdict, suspicions: Sequence[Suspicion]) -> str:
    """The headline with the likeliest cause, where there is one that the headline does not name already."""
    if not suspicions or verdict.limit is Limit.UNEXPLAINED:
        return verdict.headline
    return f"{verdict.headline}; likely: {suspicions[0].title} ({'; '.join(suspicions[0].evidence)})"


def _unexplained(trials: Sequence[Trial], limit: float, suspect: Suspect) -> Verdict:
    """That the account leaves more open than a verdict bears; what may be the cause of that."""
    open_ended = [trial for trial in _valid(trials) if trial.ledger.unexplained > 0]
    headline = f"unexplained: {unexplained.words(trials)}"
    lines = (
        f"a verdict bears {units.share(limit)} (validity.unexplained_ratio)",
        *losses.named(by_reason(open_ended)),
        *evidence.loads(open_ended),
    )
    ids = tuple(trial.id for trial in open_ended)
    return Verdict(Limit.UNEXPLAINED, headline, lines, (), ids, suspect(open_ended))


def _valid(trials: Iterable[Trial]) -> list[Trial]:
    return [trial for trial in trials if trial.validity is TrialValidity.VALID]


def _losing(rate: Rate, trials: Sequence[Trial]) -> list[Trial]:
    """Valid trials that failed the goal from the rate up to a little above it; the lowest if there is no rate."""
    losing = [trial for trial in _valid(trials) if trial.loss_ratio > rate.loss_ratio]
    if not losing:
        return []
    at_bound = [trial.load_fps for trial in losing if trial.offered_fps >= (rate.quoted_fps or 0.0)]
    bound_fps = min(at_bound or [trial.load_fps for trial in losing])
    return [trial for trial in losing if bound_fps <= trial.load_fps <= bound_fps * NEAR_LIMIT]


def _refused(rate: Rate, trials: Sequence[Trial], neighbour: str) -> Verdict:
    invalid = Counter(trial.validity for trial in trials if trial.validity is not TrialValidity.VALID)
    lines = tuple(f"{count} trials were discarded: {validity.value}" for validity, count in invalid.most_common())
    losing = _losing(rate, trials)
    if losing and (asked := _from_rules(losing)):
        return Verdict(Limit.NAMED_DROP, f"{asked}; {rate.reason}", lines, (), tuple(trial.id for trial in losing))
    noisy = invalid[TrialValidity.NOISY_HOST] > 0 or neighbour
    lines = (*lines, neighbour) if neighbour else lines
    return Verdict(Limit.HOST if noisy else Limit.UNEXPLAINED, rate.reason, lines, (), ())


def _from_rules(losing: Sequence[Trial]) -> str:
    """The drops that the switch's own rules ask for, if most of the frames were lost to them; else empty.

    They come before anything that disturbs the trials: no quieter host would mend it.
    """
    lost = sum(trial.lost for trial in losing)
    asked = [group for group in by_reason(losing) if group.limits == "rules"]
    frames = sum(group.frames for group in asked)
    if frames < MOST * lost or not frames:
        return ""
    return f"{asked[0].words()}: the switch's own rules drop {units.frames(frames)} of {units.frames(lost)} lost frames"


def _not_reached(rate: Rate, trials: Sequence[Trial]) -> Verdict:
    highest = max(_valid(trials), key=lambda trial: trial.load_fps, default=None)
    limited = any(trial.validity is TrialValidity.GENERATOR_LIMITED for trial in trials)
    generator = limited or rate.limited_by is Limit.GENERATOR
    # A generator that fell short was held by what it sends over; at the search's maximum either direction may be full.
    used = [way for way in ways(highest) if way.is_sent or not generator] if highest else []
    if highest and (full := evidence.full(used)):
        return Verdict(Limit.WIRE, evidence.wire(full), (rate.reason, *evidence.loads([highest])), (), (highest.id,))
    lines = evidence.loads([highest]) if highest else ()
    ids = (highest.id,) if highest else ()
    if not generator:
        return Verdict(Limit.SEARCH_MAXIMUM, rate.reason, lines, (), ids)
    headroom = evidence.headroom(highest) if highest else ""
    return Verdict(Limit.GENERATOR, f"the generator, not the switch{headroom}", lines, (), ids)


def _from_losses(losing: Sequence[Trial], trials: Sequence[Trial], seen: Signs, over: Overload | None) -> Verdict:
    lost = sum(trial.lost for trial in losing)
    groups = by_reason(losing)
    counted = sum(group.frames for group in groups)
    lines = (
        f"first losses at {units.fps(min(trial.load_fps for trial in losing))}: "
        f"{units.frames(lost)} frames in {units.counted(len(losing), 'trial')}",
        *losses.named(groups),
        *evidence.loads(losing, over),
    )
    ids = tuple(trial.id for trial in losing)
    ruled_out = tuple(evidence.ruled_out(losing, trials))
    if not counted or counted < MOST * lost:
        missing = units.frames(unexplained.unexplained_frames(losing))
        headline = (
            f"unexplained: no counter names {missing} of {units.frames(lost)} lost frames, most of them "
            f"{unexplained.place(losing)}"
        )
        return Verdict(Limit.UNEXPLAINED, headline, lines, ruled_out, ids)
    whole = max(lost, counted)  # of frames that the device copies, more may be dropped than are lost
    if groups[0].frames < MOST * whole:
        headline = f"several at once: {losses.shares(groups, whole)}"
        return Verdict(Limit.NAMED_DROP, headline, lines, ruled_out, ids)
    limit = _limit(groups[0], seen)
    return Verdict(limit, _headline(limit, groups[0], losing, seen, over), lines, ruled_out, ids)


def _limit(lost: Group, seen: Signs) -> Limit:
    """That of the first row which fits and says one; else the drop itself, or the host that dropped."""
    rows = (row for row in (*CATALOGUE, OWN_SPEED) if row.limit and row.party in (None, lost.limits) and row.fits(seen))
    default = Limit.HOST if lost.limits == Party.HOST else Limit.NAMED_DROP
    return next((row.limit for row in rows if row.limit), default)


def _headline(limit: Limit, lost: Group, losing: Sequence[Trial], seen: Signs, over: Overload | None) -> str:
    thread = evidence.busiest_of(losing, lost.port if lost.limits == Party.DUT else "")
    busy = seen.values.get(Sign.BUSY)
    idle = f"; {thread.name} only {units.share(busy)} busy" if thread and busy is not None and busy < SATURATED else ""
    if limit is Limit.FORWARDING_CORE:
        return evidence.saturated(thread, over)
    if limit is Limit.GENERATOR:
        share = units.share(seen.values[Sign.ENGINE_BUSY])
        return f"the engine receives too slowly: {lost.words()}, its core {share} busy"
    if limit is Limit.WIRE and (link := _full_before(lost, losing)):
        return f"{evidence.wire(link)}{idle}"
    return f"the host's kernel: {lost.words()}{idle}" if limit is Limit.HOST else f"{lost.words()}{idle}"


def _full_before(lost: Group, trials: Sequence[Trial]) -> Way | None:
    """The direction for which the lost frames waited, of the trial with the median share, if it was full."""
    names = {drop.name for drop in lost.drops}
    ways = sorted((way for trial in trials if (way := pinched(trial, names))), key=lambda way: way.share)
    return evidence.full(ways[len(ways) // 2 :][:1])

"""What pinched a rate: from a search's trials to one sentence with its evidence, and the causes that fit. Pure.

It rests on valid trials, and of those on the ones that lost more than the goal
allows at or just above it: neither on a stray loss far below, which
the search tolerates, nor on what a flood looks like. Where too many of a search's lost
frames are named by no counter, the verdict is refused, with the place where they vanish.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from pinchpoint.account import ledger
from pinchpoint.causes import evidence
from pinchpoint.causes.bounds import Overload, overload
from pinchpoint.causes.catalogue import CATALOGUE, OWN_SPEED
from pinchpoint.causes.evidence import NEAR_LIMIT, Group, Way, by_reason
from pinchpoint.causes.signature import MOST, NOTABLE, Any, Cause
from pinchpoint.causes.signs import Diagnosed, Seen, of_trials
from pinchpoint.model import units
from pinchpoint.model.causes import Sign, Signs, Suspicion
from pinchpoint.model.hops import DropKind, Party
from pinchpoint.model.limits import SATURATED
from pinchpoint.model.result import Limit, Rate, RateStatus, Verdict
from pinchpoint.model.trial import Trial, TrialValidity

Suspect = Callable[[Sequence[Trial]], tuple[Suspicion, ...]]
"""The causes that fit what some trials show."""


def likely(
    signs: Signs,
    device: Diagnosed | None = None,
    seen: Seen | None = None,
    *,
    in_service: bool = False,
) -> tuple[Suspicion, ...]:
    """Every cause whose signature fits and that would explain something, the likeliest first.

    `device` is asked what its user can set; `seen` has the settings in force, of which it advises none.
    One `in_service` has no scenario, so that no key of one is advised.
    Where the device forwards no more, whatever is offered, and nothing in particular explains it, its own speed is the
    cause. Where that is not shown, either, there is none.
    """

    def suspicion(cause: Cause) -> Suspicion:
        told, weight = tuple(dict.fromkeys(_told(cause, signs))), cause.weight(signs)
        if in_service:
            advice = cause.in_service(device.commands(cause.name, seen or {}) if device else ())
        else:
            advice = cause.advice(device.advice(cause.name, seen or {}) if device else ())
        return Suspicion(cause.name, cause.title, weight, told, advice, cause.experiment)

    suspicions = [suspicion(cause) for cause in CATALOGUE if cause.fits(signs, in_service=in_service)]
    telling = [suspected for suspected in suspicions if suspected.share >= NOTABLE]
    if not telling and OWN_SPEED.fits(signs):
        return (suspicion(OWN_SPEED),)
    return tuple(sorted(telling, key=lambda suspected: -suspected.share))


def _told(cause: Cause, signs: Signs) -> Iterator[str]:
    """The evidence of a cause that fits; what two conditions ask for, twice."""
    for condition in cause.signature:
        held = condition.held(signs) if isinstance(condition, Any) else (condition,)
        yield from (part.words(signs) for part in held)
    for sign in cause.shows:
        if (value := signs.values.get(sign)) is not None:
            yield f"{sign}: {sign.shown(value)}"
    if DropKind.RULE in cause.drops and signs.rule:
        yield f"most of them by the rule {signs.rule}"


def verdict(
    rate: Rate,
    trials: Sequence[Trial],
    ring: int,
    neighbour: str = "",
    unexplained_ratio: float = 1.0,
    device: Diagnosed | None = None,
) -> Verdict:
    """What limited `rate`, an NDR or PDR, judged from the trials of its search and any overloads beside them.

    `ring` is the smallest ring between engine and DUT, in frames; `neighbour` says how the DUT's core was slowed;
    `unexplained_ratio` is the share of the offered frames that may be lost without a name; `device` reads its own
    counters, and is asked what its user can set.
    """
    if rate.status is RateStatus.AT_LEAST:
        return _not_reached(rate, trials)

    def suspect(losing: Sequence[Trial]) -> tuple[Suspicion, ...]:
        """By their signs; the settings in force are the same in all of them."""
        return likely(of_trials(losing, ring, device), device, losing[-1].observed if losing else {})

    if ledger.unexplained_share(trials) > unexplained_ratio:
        return _unexplained(trials, unexplained_ratio, suspect)
    if rate.status is RateStatus.REFUSED:
        return _refused(rate, trials, neighbour)
    losing = _losing(rate, trials)
    if not losing:
        return Verdict(Limit.UNEXPLAINED, "no valid trial lost frames: nothing to explain", (), (), ())
    over = overload(trials, rate.quoted_fps)
    seen = of_trials(losing, ring, device, over)
    limit = _from_losses(losing, trials, seen, over)
    suspicions = likely(seen, device, losing[-1].observed)
    if suspicions and limit.limit is not Limit.UNEXPLAINED:  # of a cause that the headline does not name already
        told = f"likely: {suspicions[0].title} ({'; '.join(suspicions[0].evidence)})"
        limit = replace(limit, headline=f"{limit.headline}; {told}")
    return _with_others(replace(limit, suspicions=suspicions), rate, losing, trials, suspect)


def _with_others(
    verdict: Verdict, rate: Rate, losing: Sequence[Trial], trials: Sequence[Trial], suspect: Suspect
) -> Verdict:
    """The same verdict with what else loses frames at higher loads, where drops of one kind take some at any load."""
    leading = next(iter(by_reason(losing)), None)
    if rate.status is not RateStatus.LOSES_ALWAYS or leading is None or leading.kind is DropKind.OTHER:
        return verdict
    others = evidence.losing_apart(trials, leading.kind, rate.loss_ratio)
    known = {suspicion.cause for suspicion in verdict.suspicions}
    added = tuple(suspicion for suspicion in suspect(others) if suspicion.cause not in known) if others else ()
    if not added:
        return verdict
    lost = units.frames(sum(trial.lost for trial in others))
    least = units.fps(min(trial.load_fps for trial in others))
    line = f"apart from these, frames are lost from {least} on: {lost} in {units.counted(len(others), 'trial')}"
    lines = (*verdict.evidence, line, *evidence.named(by_reason(others)), *evidence.loads(others))
    return replace(verdict, suspicions=(*verdict.suspicions, *added), evidence=lines)


def _unexplained(trials: Sequence[Trial], limit: float, suspect: Suspect) -> Verdict:
    """That the account leaves more open than a verdict bears; what may be the cause of that."""
    open_ended = [trial for trial in _valid(trials) if trial.ledger.unexplained > 0]
    lines = (
        f"a verdict allows {units.share(limit)} (validity.unexplained_ratio)",
        *evidence.named(by_reason(open_ended)),
        *evidence.loads(open_ended),
    )
    headline = f"unexplained: {ledger.unexplained_words(trials)}"
    return Verdict(Limit.UNEXPLAINED, headline, lines, (), _ids(open_ended), suspect(open_ended))


def _ids(trials: Iterable[Trial]) -> tuple[str, ...]:
    return tuple(trial.id for trial in trials)


def _valid(trials: Iterable[Trial]) -> list[Trial]:
    return [trial for trial in trials if trial.validity is TrialValidity.VALID]


def _losing(rate: Rate, trials: Sequence[Trial]) -> list[Trial]:
    """Valid trials that failed the goal from the rate up to a little above it; the lowest if there is no rate."""
    losing = [trial for trial in _valid(trials) if trial.loss_ratio > rate.loss_ratio]
    at_bound = [trial.load_fps for trial in losing if trial.offered_fps >= (rate.quoted_fps or 0.0)]
    bound_fps = min(at_bound or [trial.load_fps for trial in losing], default=0.0)
    return [trial for trial in losing if bound_fps <= trial.load_fps <= bound_fps * NEAR_LIMIT]


def _refused(rate: Rate, trials: Sequence[Trial], neighbour: str) -> Verdict:
    invalid = Counter(trial.validity for trial in trials if trial.validity is not TrialValidity.VALID)
    lines = tuple(f"{units.counted(count, 'trial')} discarded: {kind.value}" for kind, count in invalid.most_common())
    losing = _losing(rate, trials)
    if asked := _from_rules(losing):
        return Verdict(Limit.NAMED_DROP, f"{asked}; {rate.reason}", lines, (), _ids(losing))
    noisy = invalid[TrialValidity.NOISY_HOST] > 0 or neighbour
    lines = (*lines, neighbour) if neighbour else lines
    return Verdict(Limit.HOST if noisy else Limit.UNEXPLAINED, rate.reason, lines, (), ())


def _from_rules(losing: Sequence[Trial]) -> str:
    """The drops that the switch's settings ask for, if most of the frames were lost to them; else empty.

    They come before anything that disturbs the trials: no quieter host would mend it.
    """
    lost = sum(trial.lost for trial in losing)
    asked = [group for group in by_reason(losing) if group.limits == Party.RULES]
    frames = sum(group.frames for group in asked)
    if frames < MOST * lost or not frames:
        return ""
    return f"{asked[0].words()}: the switch's settings drop {units.frames(frames)} of {units.frames(lost)} lost frames"


def _not_reached(rate: Rate, trials: Sequence[Trial]) -> Verdict:
    limited = any(trial.validity is TrialValidity.GENERATOR_LIMITED for trial in trials)
    generator = limited or rate.limited_by is Limit.GENERATOR
    valid = _valid(trials)
    highest = [max(valid, key=lambda trial: trial.load_fps)] if valid else []
    lines, ids = evidence.loads(highest), _ids(highest)
    # A generator that fell short was held by what it sends over; at the search's maximum either direction may be full.
    used = [way for trial in highest for way in evidence.ways(trial) if way.is_sent or not generator]
    if full := evidence.full(used):
        return Verdict(Limit.WIRE, evidence.wire(full), (rate.reason, *lines), (), ids)
    if not generator:
        return Verdict(Limit.SEARCH_MAXIMUM, rate.reason, lines, (), ids)
    headroom = "".join(map(evidence.headroom, highest))
    return Verdict(Limit.GENERATOR, f"the generator, not the switch{headroom}", lines, (), ids)


def _from_losses(losing: Sequence[Trial], trials: Sequence[Trial], seen: Signs, over: Overload | None) -> Verdict:
    lost = sum(trial.lost for trial in losing)
    groups = by_reason(losing)
    counted = sum(group.frames for group in groups)
    whole = max(lost, counted)  # of frames that the device copies, more may be dropped than are lost
    if not counted or counted < MOST * lost:
        missing = f"{units.frames(ledger.unexplained_frames(losing))} of {units.frames(lost)} lost frames"
        place = ledger.unexplained_place(losing)
        limit, headline = Limit.UNEXPLAINED, f"unexplained: no counter names {missing}, most of them {place}"
    elif groups[0].frames < MOST * whole:
        limit, headline = Limit.NAMED_DROP, f"several at once: {evidence.shares(groups, whole)}"
    else:
        limit = _limit(groups[0], seen)
        headline = _headline(limit, groups[0], losing, seen, over)
    lines = (
        f"first losses at {units.fps(min(trial.load_fps for trial in losing))}: "
        f"{units.frames(lost)} frames in {units.counted(len(losing), 'trial')}",
        *evidence.named(groups),
        *evidence.loads(losing, over),
    )
    return Verdict(limit, headline, lines, tuple(evidence.ruled_out(losing, trials)), _ids(losing))


def _limit(lost: Group, seen: Signs) -> Limit:
    """That of the first row which fits and says one; else the drop itself, or the host that dropped."""
    telling = (row for row in (*CATALOGUE, OWN_SPEED) if row.limit is not Limit.NAMED_DROP and row.fits(seen))
    default = Limit.HOST if lost.limits == Party.HOST else Limit.NAMED_DROP
    return next((row.limit for row in telling if row.party in (None, lost.limits)), default)


def _headline(limit: Limit, lost: Group, losing: Sequence[Trial], seen: Signs, over: Overload | None) -> str:
    thread = evidence.busiest_of(losing, lost.port if lost.limits == Party.DUT else "")
    busy = seen.values.get(Sign.BUSY)
    idle = f"; {evidence.idle(thread, busy, over)}" if thread and busy is not None and busy < SATURATED else ""
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
    ways = sorted((way for trial in trials if (way := evidence.pinched(trial, names))), key=lambda way: way.share)
    return evidence.full(ways[len(ways) // 2 :][:1])

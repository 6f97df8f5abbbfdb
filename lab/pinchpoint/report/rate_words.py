"""What a reader of rates has to know beside them, in sentences: facts, and what to be warned of."""

from collections.abc import Iterator, Sequence

from pinchpoint.model import units
from pinchpoint.model.result import Claim, Memory, PauseGap, Rate, RateStatus, ReceiveRate, ScenarioResult

LOADED = 0.99  # of the load: a device that forwards more of it was not overloaded, and the MRR is the generator's
INTERVALS = (
    "Intervals are of this measured time on this host. For the next run: --repeats N, or pinchpoint pilot, which also "
    "says how many repeats are enough"
)


def headed(name: str, rates: Sequence[Rate]) -> str:
    """A rate's name with the trial length that belongs to it, e.g. `NDR (0.2 s)`; without, where lengths differ."""
    lengths = {rate.trial_duration_s for rate in rates if rate.name == name}
    return f"{name} ({lengths.pop():g} s)" if len(lengths) == 1 else name


def receive_rate(mrr: ReceiveRate | None) -> str:
    """The MRR, e.g. `10.0 Mpps`; `at least` where the engine could not overload the device; empty if not measured."""
    if mrr is None:
        return ""
    least = "at least " if mrr.estimate_fps >= LOADED * mrr.load_fps else ""
    return f"{least}{units.fps(mrr.estimate_fps)}"


def receive_rate_interval(mrr: ReceiveRate) -> str:
    """How sharply the MRR is known, and at which load."""
    ends = units.fps_range(mrr.lower_fps, mrr.upper_fps)
    return (
        f"{units.percent(mrr.confidence)} interval {ends}; forwarded at {units.fps(mrr.load_fps)} offered, median of "
        f"{mrr.trials} trials of {mrr.trial_duration_s:g} s"
    )


def facts(result: ScenarioResult) -> tuple[str, ...]:
    """What is known beside the rates, a sentence each, without a full stop."""
    ndr = next(iter(result.rates), None)
    gap = _gap(result.gap, ndr, result.mrr) if result.gap and ndr and result.mrr else ""
    beside = [line for rate in result.rates[:1] for line in _beside(rate)]
    return tuple(filter(None, (gap, *beside)))


def warnings(result: ScenarioResult) -> tuple[str, ...]:
    """Where the rates need care: the counts contradict them, the load before matters, overload makes it slower."""
    found: list[str] = []
    for rate in result.rates:
        found += [_claim(rate.name, rate.claim)] if rate.claim and not rate.claim.holds else []
        found += [_memory(rate.name, rate.memory)] if rate.memory else []
        found += [_floor(rate, result.rates)] if rate.floor and rate.status is RateStatus.FOUND else []
    ndr = next(iter(result.rates), None)
    if ndr and result.mrr and ndr.status is RateStatus.FOUND and ndr.lower_fps and result.mrr.upper_fps < ndr.lower_fps:
        found.append(
            f"collapses under overload: at {units.fps(result.mrr.load_fps)} offered it forwards "
            f"{units.fps(result.mrr.estimate_fps)}, less than its NDR"
        )
    return tuple(found)


def _gap(gap: PauseGap, ndr: Rate, mrr: ReceiveRate) -> str:
    return (
        f"Loses from {units.fps(ndr.quoted_fps)} on: a ring of {units.frames(gap.ring)} frames bears a pause of "
        f"{units.seconds(gap.pause_s)} up to there; under overload the device forwards {units.fps(mrr.estimate_fps)}. "
        f"If pauses are the cause, a ring of {units.frames(gap.longer_ring)} gives {units.fps(gap.longer_ring_fps)} "
        "(a prediction that pinchpoint explain can test)"
    )


def _beside(rate: Rate) -> Iterator[str]:
    """What the trials at half of the rate show, and how many trials were not usable."""
    if (half := rate.at_half) and half.losing:
        yield (
            f"{units.share(half.share)} of the trials lose at any load that was tried: {half.losing} of "
            f"{half.trials} at {units.fps(half.load_fps)}, half of the {rate.name}"
        )
    if rate.unusable_share:
        share = units.share(rate.unusable_share)
        yield f"{share} of the trials were not usable: the engine's receiving core stood still"


def _claim(name: str, claim: Claim) -> str:
    below, above = claim.below, claim.above
    return (
        f"the trials beside the {name} contradict it: at most 3 % below it {below.losing} of {below.trials} lost, at "
        f"most 3 % above it {above.losing} of {above.trials}"
    )


def _memory(name: str, memory: Memory) -> str:
    return (
        f"the load before a trial decides: {units.fps(memory.rested_fps)} after rests, "
        f"{units.fps(memory.sustained_fps)} after overloads, which is the {name}"
    )


def _floor(rate: Rate, every: Sequence[Rate]) -> str:
    """A constant loss ratio beside a literal rate."""
    ratio = rate.floor.loss_ratio if rate.floor else 0.0
    useful = next((one for one in every if one.loss_ratio > ratio and one.quoted_fps), None)
    told = f": the useful rate is {useful.name}, {units.fps(useful.quoted_fps)}" if useful else ""
    return f"loses {units.loss(ratio)} of its frames at any load, so the {rate.name} depends on the trial length{told}"

"""How results are put into words, the same on the page, in Markdown and on the terminal."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pinchpoint.measure import registry
from pinchpoint.model import units
from pinchpoint.model.offload import Offload, OffloadTruth
from pinchpoint.model.result import (
    CacheLine,
    Limit,
    LossFloor,
    ModeRates,
    Outcome,
    Rate,
    RateStatus,
    RunResult,
    ScenarioResult,
    Verdict,
)
from pinchpoint.model.scenario import SearchMethod
from pinchpoint.model.study import Bound, Estimate
from pinchpoint.model.terms import CAUSES
from pinchpoint.model.trial import Loopback, Trial, TrialValidity

NOT_COUNTABLE: Final = "not countable"
NOT_MEASURED: Final = "not measured"
NOT_DIAGNOSED: Final = "not diagnosed"
NO_NUMBER: Final = "no number"

VALIDITIES: Final = {validity: validity.value.replace("_", " ") for validity in TrialValidity}
OUTCOMES: Final = {outcome: outcome.value for outcome in Outcome} | {Outcome.IMPOSSIBLE: "impossible here"}
SIDES: Final[Mapping[str, str]] = {
    "dut": "the DUT could not keep up",
    "engine": "the engine could not keep up",
    "host": "the host could not keep up",
    "rules": "the DUT's rules ask for it",
    "wire": "the link carries no more, or damages frames",
}


# Below these a reader should look twice; they mark, they do not judge.
ENOUGH_HEADROOM: Final = 1.1
ENOUGH_VALID: Final = 0.75
FAR_CORES_RATIO: Final = 2.0


@dataclass(frozen=True)
class Check:
    """One reason to trust a number, or to look twice (`good` False)."""

    good: bool
    text: str


def count(value: int | None) -> str:
    """A frame count; None is `not countable`, never 0."""
    return NOT_COUNTABLE if value is None else units.frames(value)


def quoted(rate: Rate) -> str:
    """The number to quote: `3.10 Mpps`, `at least 7.10 Mpps`, `below 10.0 kpps`, `loses 0.12 %` or `no number`."""
    return " ".join(filter(None, qualified(rate)))


def qualified(rate: Rate) -> tuple[str, str]:
    """The same as qualifier and number with its unit, e.g. `("at least", "7.10 Mpps")`."""
    if rate.status is RateStatus.FOUND and rate.quoted_fps is not None:
        return "", units.fps(rate.quoted_fps)
    if rate.status is RateStatus.AT_LEAST and rate.quoted_fps is not None:
        return "at least", units.fps(rate.quoted_fps)
    if rate.status is RateStatus.BELOW_MINIMUM and rate.upper_fps is not None:
        return "below", units.fps(rate.upper_fps)
    if rate.status is RateStatus.LOSES_ALWAYS and rate.floor is not None:
        return "loses", units.loss(rate.floor.loss_ratio)
    return "", NO_NUMBER


def interval(rate: Rate) -> str:
    """How sharply the number is known, or why there is none."""
    if rate.status is RateStatus.FOUND and rate.lower_fps and rate.upper_fps:
        kind = f"{units.percent(rate.confidence)} interval" if rate.confidence else "bounds"
        why = f"; {rate.reason}" if rate.reason else ""
        return f"{kind} {units.fps_range(rate.lower_fps, rate.upper_fps)} ({units.share(width(rate))} wide){why}"
    if rate.status is RateStatus.LOSES_ALWAYS and rate.floor is not None:
        return f"of its frames at any load ({_floor(rate.floor)})"
    words = {
        RateStatus.FOUND: "upper bound not measured",
        RateStatus.AT_LEAST: "no upper bound",
        RateStatus.BELOW_MINIMUM: "even the lowest load lost too much",
        RateStatus.LOSES_ALWAYS: "frames are lost at any load",
        RateStatus.REFUSED: "refused",
    }[rate.status]
    return f"{words} ({rate.reason})" if rate.reason else words


def _floor(floor: LossFloor) -> str:
    ends = units.quantity_range(floor.lower, floor.upper, "share")
    return f"{ends} in {units.counted(floor.trials, 'trial')} at {units.fps(floor.load_fps)}, the lowest load tried"


def band(rate: Rate) -> str:
    """The shoulder of the loss curve, e.g. `10 to 90 % of the trials lose from 3.98 to 6.02 Mpps`; empty: not known."""
    if rate.band is None:
        return ""
    return f"10 to 90 % of the trials lose from {units.fps_range(rate.band.low_fps, rate.band.high_fps)}"


def width(rate: Rate) -> float | None:
    """The width of the interval, relative to its upper bound; None without both bounds."""
    if not rate.lower_fps or not rate.upper_fps:
        return None
    return (rate.upper_fps - rate.lower_fps) / rate.upper_fps


def bounds(rates: Sequence[Rate]) -> list[tuple[float, float]]:
    """Lower and upper bound, frames per second, of the rates that have both."""
    return [(rate.lower_fps, rate.upper_fps) for rate in rates if rate.lower_fps and rate.upper_fps]


def definitions(rates: Iterable[Rate]) -> tuple[str, ...]:
    """What the rates mean, each definition once with the names of those that have it."""
    named: dict[str, list[str]] = {}
    for rate in rates:
        named.setdefault(rate.decided, []).append(rate.name)
    return tuple(f"{' and '.join(dict.fromkeys(names))}: {decided}" for decided, names in named.items())


def mode_lines(result: ScenarioResult) -> tuple[str, ...]:
    """One line for each mode of the cores, if the search met several: they explain the band."""
    if len(result.modes) < 2:
        return ()
    return tuple(
        f"{mode.label}: {mode_rate(mode)} ({mode_share(mode, result.modes)} of the time)" for mode in result.modes
    )


def mode_rate(mode: ModeRates) -> str:
    """The rate in one mode of the cores, e.g. `NDR 3.40 Mpps`."""
    name = mode.rates[0].name if mode.rates else "NDR"
    if mode.median_fps is not None:
        return f"{name} {units.fps(mode.median_fps)}"
    return f"{name} {quoted(mode.rates[0]) if mode.rates else NO_NUMBER}"


def mode_share(mode: ModeRates, every: Sequence[ModeRates]) -> str:
    """How much of the search was in this mode, e.g. `60 %`."""
    total = sum(mode.trials for mode in every)
    share = mode.trials / total if mode.share is None and total else mode.share or 0.0
    return f"{share * 100:.0f} %"


def estimated(estimate: Estimate) -> str:
    """The number to quote: `3.10 Mpps`, `at least 7.10 Mpps` or `below 10.0 kpps`; else `3.05 to 3.20 Mpps`."""
    if estimate.bound is Bound.BETWEEN and estimate.low is not None and estimate.high is not None:
        return units.quantity_range(estimate.low, estimate.high, estimate.unit)
    lead = {Bound.AT_LEAST: "at least ", Bound.BELOW: "below "}.get(estimate.bound, "")
    return f"{lead}{units.quantity(estimate.value, estimate.unit)}"


def spread(estimate: Estimate) -> str:
    """The interval, e.g. `3.10 to 3.12 Mpps`; empty if it has not two ends; `no number` if refused."""
    if estimate.bound is Bound.BETWEEN:
        return "no number"
    if estimate.low is None or estimate.high is None or estimate.low == estimate.high:
        return ""
    return units.quantity_range(estimate.low, estimate.high, estimate.unit)


def plain_reason(reason: str) -> str:
    """A reason without the outcome's own words before it."""
    return reason.removeprefix(f"{OUTCOMES[Outcome.IMPOSSIBLE]}: ")


def pinched_by(result: ScenarioResult) -> str:
    """What limited the scenario's number, in two words, or how it ended without one; empty if nothing was to limit."""
    if result.outcome is not Outcome.MEASURED:
        return OUTCOMES[result.outcome]
    if result.verdict is None:
        return NOT_DIAGNOSED if _has_limit(result) else ""
    return _limit(result.verdict)


def other_verdicts(result: ScenarioResult) -> tuple[str, ...]:
    """A line for each rate after the first: `PDR 0.5 %: pinched by forwarding core: sentence`."""
    judged = zip(result.rates[1:], result.other_verdicts, strict=False)  # an older run has none
    return tuple(f"{rate.name}: pinched by {_limit(verdict)}: {verdict.headline}" for rate, verdict in judged)


def _limit(verdict: Verdict) -> str:
    return verdict.limit.words + (f": {verdict.suspicions[0].cause}" if verdict.suspicions else "")


def offload_sentence(truth: OffloadTruth) -> str:
    """What is true of an offload, with the claim beside it."""
    claim = f"{units.share(truth.claimed)} of the flows are said to be offloaded"
    kept = [f"{limit} ({units.share(share)} of the frames)" for limit, share in truth.limits.items()]
    limits = f"; known to stay in software: {', '.join(kept)}" if kept else ""
    if truth.hardware is None:
        return f"{truth.word}: {claim}, and {truth.missing}{limits}"
    return f"{truth.word}: hardware forwarded {units.share(truth.hardware)} of the frames, and {claim}{limits}"


def verdict_sentence(result: ScenarioResult) -> str:
    """The verdict's headline, or why there is none; empty if nothing was to limit."""
    if result.outcome is not Outcome.MEASURED:
        return f"{OUTCOMES[result.outcome].capitalize()}: {plain_reason(result.reason)}"
    if result.verdict is None:
        return "No verdict: the evidence was not collected." if _has_limit(result) else ""
    return result.verdict.headline


def seconds(value: float) -> str:
    """A duration for people: `43.0 s`, `12 min 5 s`, `1 h 2 min`."""
    if value == 0:
        return "0 s"
    if value < 100:
        return units.nanoseconds(value * 1e9)
    minutes, rest = divmod(round(value), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def core_distance(cache_line: CacheLine | None) -> str:
    """How far apart the engine's and the DUT's cores were."""
    if cache_line is None:
        return f"core distance {NOT_MEASURED}"
    low, high = units.nanoseconds(cache_line.min_ns), units.nanoseconds(cache_line.max_ns)
    near = f"cores {units.nanoseconds(cache_line.median_ns)} apart ({low} to {high})"
    far = f", far in {units.share(cache_line.far_share)} of probes" if cache_line.far_share else ""
    return near + far


def engine_times(loopback: Loopback | None) -> str:
    """What the engine's own loop adds to every latency."""
    if loopback is None:
        return NOT_MEASURED
    return f"p50 {units.nanoseconds(loopback.p50_ns)}, p99 {units.nanoseconds(loopback.p99_ns)}"


def checks(result: ScenarioResult, trials: Sequence[Trial]) -> tuple[Check, ...]:
    """Why the scenario's numbers may be trusted, or where to look twice."""
    if result.outcome is not Outcome.MEASURED:
        return ()
    if result.measure != "rates":
        return (_validity(result),) if result.trials else ()
    marks = [*_rate_checks(result), _headroom(result), _validity(result)]
    if share := unexplained(result, trials):
        none = share == units.loss(0)
        # A share that is small enough for a verdict is no doubt; older runs do not say which is.
        judged_small = result.unexplained_share is not None and _is_explained(result.verdict)
        marks.append(
            Check(
                none or judged_small, f"ledger: {'no frame' if none else f'{share} of the offered frames'} unexplained"
            )
        )
    proven = result.offload is not None and result.offload.word is Offload.PROVEN
    truth = (Check(True, f"offload {offload_sentence(result.offload)}"),) if result.offload and proven else ()
    return (*marks, *truth, _cores(result))


def _is_explained(verdict: Verdict | None) -> bool:
    return verdict is not None and verdict.limit is not Limit.UNEXPLAINED


def unexplained(result: ScenarioResult | None, trials: Sequence[Trial]) -> str:
    """The share of the offered frames that no counter accounts for; empty if not known.

    Of a run stored before results had it, that of all valid trials.
    """
    if result and result.unexplained_share is not None:
        return units.loss(result.unexplained_share)
    valid = [trial for trial in trials if trial.validity is TrialValidity.VALID]
    offered = sum(trial.offered for trial in valid)
    return units.loss(sum(abs(trial.ledger.unexplained) for trial in valid) / offered) if offered else ""


def _rate_checks(result: ScenarioResult) -> list[Check]:
    if not result.rates:
        return [Check(False, "no rate was searched")]
    rate = result.rates[0]
    share = width(rate)
    if rate.status is RateStatus.FOUND and share is not None:
        return [Check(True, f"{rate.name} interval {units.share(share)} wide")]
    loses = f"{quoted(rate)} " if rate.status is RateStatus.LOSES_ALWAYS else ""
    return [Check(False, f"{rate.name}: {loses}{interval(rate)}")]


def _headroom(result: ScenarioResult) -> Check:
    known = result.ceiling
    seen = result.generator_ceiling_fps
    ceiling = max((fps for fps in (seen, known.fps if known else None) if fps is not None), default=None)
    ndr = result.rates[0].quoted_fps if result.rates else None
    if ceiling is None:
        return Check(False, f"generator ceiling {NOT_MEASURED}")
    how = f" (without the device {units.fps(known.fps)}, measured {known.measured[:16]})" if known else ""
    if not ndr:
        return Check(True, f"generator reaches {units.fps(ceiling)}{how}")
    ratio = ceiling / ndr
    text = f"generator reaches {units.fps(ceiling)}, {ratio:.2f} times the NDR{how}"
    return Check(ratio >= ENOUGH_HEADROOM, text)


def _validity(result: ScenarioResult) -> Check:
    invalid = sum(result.invalid_trials.values())
    good = result.trials > 0 and (result.trials - invalid) / result.trials >= ENOUGH_VALID
    return Check(good, f"{result.trials - invalid} of {units.counted(result.trials, _made(result))} valid")


def _made(result: ScenarioResult) -> str:
    """What the measure is made of."""
    measure = registry.find(result.measure)
    return measure.made_of if measure else "trial"


def _has_limit(result: ScenarioResult) -> bool:
    measure = registry.find(result.measure)
    return measure is None or measure.has_limit


def _cores(result: ScenarioResult) -> Check:
    """Two distances of the cores are in a band already; without one they are a doubt."""
    cores, text = result.cache_line, core_distance(result.cache_line)
    if cores is None:
        return Check(False, text)
    in_band = any(rate.band for rate in result.rates)
    return Check(in_band or cores.max_ns < FAR_CORES_RATIO * cores.min_ns, text)


def rate_names(results: Sequence[ScenarioResult]) -> tuple[str, ...]:
    """The names of all rates that some scenario has, NDR first, then by loss ratio."""
    names = {rate.loss_ratio: rate.name for result in results for rate in result.rates}
    return tuple(names[ratio] for ratio in sorted(names))


def rate_named(result: ScenarioResult, name: str) -> Rate | None:
    """The scenario's rate of that name, if it was searched."""
    return next((rate for rate in result.rates if rate.name == name), None)


def judged(result: ScenarioResult) -> str:
    """How many trials or windows were valid, and what was wrong with the others; empty if none was made."""
    if not result.trials:
        return ""
    invalid = sum(result.invalid_trials.values())
    kinds = (f"{number} {VALIDITIES[TrialValidity(kind)]}" for kind, number in result.invalid_trials.items())
    aside = f" ({', '.join(kinds)})" if invalid else ""
    return f"{result.trials - invalid} of {units.counted(result.trials, _made(result))} valid{aside}"


def _goal(rate: Rate) -> str:
    if rate.method is SearchMethod.MLRSEARCH:
        return f"{rate.trial_duration_s:g} s trials, {rate.duration_sum_s:g} s of them at each bound"
    return f"{rate.trial_duration_s:g} s trials, all of a search in one model"


def method(result: RunResult) -> str:
    """Trial length, duration sum, and how much was run: what an NDR's definition needs."""
    rates = [rate for scenario in result.scenarios for rate in scenario.rates]
    goals = " and ".join(sorted({_goal(rate) for rate in rates}))
    made: Counter[str] = Counter()
    for scenario in result.scenarios:
        made[_made(scenario)] += (
            scenario.outcome is Outcome.MEASURED if scenario.measure == "build" else scenario.trials
        )
    counted = ", ".join(units.counted(number, what) for what, number in made.items() if number)
    traffic_s = math.fsum(scenario.traffic_s for scenario in result.scenarios)
    wall_s = math.fsum(scenario.wall_s for scenario in result.scenarios)
    # Trials of before a run was resumed took time that it did not see.
    within = f"in {seconds(wall_s)}" if traffic_s <= wall_s else f"in all, in {seconds(wall_s)} since it was resumed"
    ran = f"{counted or '0 trials'}, {seconds(traffic_s)} of traffic {within}"
    return f"{goals}; {ran}" if goals else ran


def discarded(trials: Sequence[Trial]) -> tuple[tuple[str, int, str, str], ...]:
    """Why trials were discarded, the most frequent first: kind, how many, their share, the first one's reason."""
    kinds: dict[str, list[Trial]] = {}
    for trial in trials:
        if trial.validity is not TrialValidity.VALID:
            why = CAUSES[trial.cause] if trial.cause else VALIDITIES[trial.validity]
            kinds.setdefault(why, []).append(trial)
    ranked = sorted(kinds.items(), key=lambda kind: -len(kind[1]))
    return tuple(
        (why, len(trials_of), units.share(len(trials_of) / len(trials)), trials_of[0].reason)
        for why, trials_of in ranked
    )

"""How results are put into words, the same on the page, in Markdown and on the terminal."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pinchpoint.measure import registry
from pinchpoint.model import units
from pinchpoint.model.groups import grouped
from pinchpoint.model.measurement import Bound, Estimate, Interval
from pinchpoint.model.offload import Offload
from pinchpoint.model.result import Limit, ModeRates, Outcome, Rate, RateStatus, RunResult, ScenarioResult, Verdict
from pinchpoint.model.scenario import SearchMethod
from pinchpoint.model.trial import Loopback, Trial, TrialValidity

NOT_COUNTABLE: Final = "not countable"
NOT_MEASURED: Final = "not measured"
NOT_DIAGNOSED: Final = "not diagnosed"
NO_NUMBER: Final = "no number"

SIDES: Final[Mapping[str, str]] = {
    "dut": "the DUT could not keep up",
    "engine": "the engine could not keep up",
    "host": "the host could not keep up",
    "rules": "the DUT's settings ask for it",
    "wire": "the link carries no more, or damages frames",
}


_OPEN: Final = {
    RateStatus.FOUND: "upper bound not measured",
    RateStatus.AT_LEAST: "no upper bound",
    RateStatus.BELOW_MINIMUM: "even the lowest load lost too much",
    RateStatus.LOSES_ALWAYS: "frames are lost at any load",
    RateStatus.REFUSED: "refused",
}
"""Why a rate has not two bounds."""
# Below these a reader should look twice; they mark, they do not judge.
ENOUGH_HEADROOM: Final = 1.1
ENOUGH_VALID: Final = 0.75
FAR_CORES_RATIO: Final = 2.0
BAND_SHARE: Final = 0.1  # of the trials, below which nothing moves the 10 to 90 % band, nor is it a doubt
_SAME_RATE: Final = 0.02  # by which the rates of two modes may differ by chance
_ROUNDING: Final = 1e-9  # of a width: no interval is too wide by so little


@dataclass(frozen=True)
class Check:
    """One reason to trust a number, or to look twice (`good` False)."""

    good: bool
    text: str


def count(value: int | None) -> str:
    """A frame count; None is `not countable`, never 0."""
    return NOT_COUNTABLE if value is None else units.frames(value)


def quoted(rate: Rate, step: units.Step | None = None) -> str:
    """The number to quote: `3.10 Mpps`, `at least 7.10 Mpps`, `below 10.0 kpps`, `loses 0.12 %` or `no number`."""
    return " ".join(filter(None, qualified(rate, step)))


def qualified(rate: Rate, step: units.Step | None = None) -> tuple[str, str]:
    """The same as qualifier and number with its unit, e.g. `("at least", "7.10 Mpps")`; `step`: in that of the page."""
    if rate.status in (RateStatus.FOUND, RateStatus.AT_LEAST) and rate.quoted_fps is not None:
        return "at least" if rate.status is RateStatus.AT_LEAST else "", units.fps(rate.quoted_fps, step)
    if rate.status is RateStatus.BELOW_MINIMUM and rate.upper_fps is not None:
        return "below", units.fps(rate.upper_fps, step)
    if rate.status is RateStatus.LOSES_ALWAYS and rate.floor is not None:
        return "loses", units.loss(rate.floor.loss_ratio)
    return "", NO_NUMBER


def interval(rate: Rate, step: units.Step | None = None) -> str:
    """How sharply the number is known, or why there is none."""
    if rate.status is RateStatus.FOUND and (known := rate.interval):
        kind = f"{units.percent(known.level)} interval" if known.level else "bounds"
        why = f"; {rate.reason}" if rate.reason else ""
        return f"{kind} {known.ends('fps', step)} ({units.share(known.width)} wide){why}"
    if rate.status is RateStatus.LOSES_ALWAYS and rate.floor is not None:
        floor = rate.floor
        lost = f"{units.quantity_range(floor.lower, floor.upper, 'share')} in {units.counted(floor.trials, 'trial')}"
        return f"of its frames at any load ({lost} from {units.fps(floor.load_fps)} on)"
    return _OPEN[rate.status] + (f" ({rate.reason})" if rate.reason else "")


def band(rate: Rate, step: units.Step | None = None) -> str:
    """The shoulder of the loss curve, e.g. `10 to 90 % of the trials lose from 3.98 to 6.02 Mpps`; empty: not known."""
    ends = units.quantity_range(rate.band.low_fps, rate.band.high_fps, "fps", step) if rate.band else ""
    return f"10 to 90 % of the trials lose from {ends}" if ends else ""


def too_wide(rate: Rate, asked: float | None) -> str:
    """Why a found interval is no reason to trust it, e.g. `1 % was asked for`; empty if there is none.

    `asked` is the width that the search was to reach, relative to the upper bound; None: not known.
    """
    known, shoulder = rate.interval, rate.band
    if rate.status is not RateStatus.FOUND or known is None:
        return ""
    reasons = [f"{units.percent(asked)} was asked for"] if asked is not None and known.width > asked + _ROUNDING else []
    if shoulder and known.width > (shoulder.high_fps - shoulder.low_fps) / known.high + _ROUNDING:
        reasons.append("wider than the 10 to 90 % band")
    return ", ".join(reasons)


def interval_check(rate: Rate, asked: float | None) -> Check:
    """Whether the interval of a rate is as narrow as it was to be; of a rate without one, why there is none."""
    if rate.status is RateStatus.FOUND and (known := rate.interval):
        why = too_wide(rate, asked)
        return Check(not why, f"{rate.name} interval {units.share(known.width)} wide{f', {why}' if why else ''}")
    loses = f"{quoted(rate)} " if rate.status is RateStatus.LOSES_ALWAYS else ""
    return Check(False, f"{rate.name}: {loses}{interval(rate)}")


def around(rates: Sequence[Rate], margin: float) -> tuple[float, float] | None:
    """From the lowest lower bound to the highest upper one, wider by `margin` of each; None without both bounds."""
    ends = [end for rate in rates if (known := rate.interval) for end in (known.low, known.high)]
    return (min(ends) * (1 - margin), max(ends) * (1 + margin)) if ends else None


def definitions(rates: Iterable[Rate]) -> tuple[str, ...]:
    """What the rates mean, each definition once with the names of those that have it."""
    named = grouped((rate.decided, rate.name) for rate in rates)
    return tuple(f"{' and '.join(dict.fromkeys(names))}: {decided}" for decided, names in named.items())


def mode_lines(result: ScenarioResult) -> tuple[str, ...]:
    """One line for each mode of the cores, if the search met several: they explain the band."""
    modes = result.modes if len(result.modes) > 1 else ()
    return tuple(f"{mode.label}: {mode_rate(mode)} ({mode_share(mode, modes)} of the time)" for mode in modes)


def modes_told(modes: Sequence[ModeRates]) -> tuple[str, str]:
    """A heading and a sentence above the table of modes: whether they explain the band."""
    met = "During the search the distance between the cores changed, or a neighbour was active."
    often = [mode for mode in modes if _mode_share(mode, modes) >= BAND_SHARE]
    if len(often) < 2:
        return "Modes of the cores", f"{met} Nearly all trials were in one mode, so modes do not explain the band."
    known = [mode.median_fps for mode in often if mode.median_fps]
    if len(known) == len(often) and max(known) < (1 + _SAME_RATE) * min(known):
        return "Modes of the cores", f"{met} The rate is nearly the same in each, so modes do not explain the band."
    return "What explains the band: modes of the cores", f"{met} The rate follows the mode."


def mode_rate(mode: ModeRates, step: units.Step | None = None) -> str:
    """The rate in one mode of the cores, e.g. `NDR 3.40 Mpps`."""
    name = mode.rates[0].name if mode.rates else "NDR"
    if mode.median_fps is not None:
        return f"{name} {units.fps(mode.median_fps, step)}"
    return f"{name} {quoted(mode.rates[0], step) if mode.rates else NO_NUMBER}"


def mode_share(mode: ModeRates, every: Sequence[ModeRates]) -> str:
    """How much of the search was in this mode, e.g. `60 %`."""
    return f"{_mode_share(mode, every) * 100:.0f} %"


def _mode_share(mode: ModeRates, every: Sequence[ModeRates]) -> float:
    total = sum(mode.trials for mode in every)
    return mode.trials / total if mode.share is None and total else mode.share or 0.0


def spread(estimate: Estimate) -> str:
    """The interval, e.g. `3.10 to 3.12 Mpps`; empty if it has not two ends; `no number` if refused."""
    if estimate.bound is Bound.BETWEEN:
        return NO_NUMBER
    return Interval.of(estimate).ends(estimate.unit) if estimate.low != estimate.high else ""


def plain_reason(reason: str) -> str:
    """A reason without the outcome's own words before it."""
    return reason.removeprefix(f"{Outcome.IMPOSSIBLE.words}: ")


def pinched_by(result: ScenarioResult) -> str:
    """What limited the scenario's number, in two words, or how it ended without one; empty if nothing was to limit."""
    if result.outcome is not Outcome.MEASURED:
        return result.outcome.words
    if result.verdict is None:
        return NOT_DIAGNOSED if _has_limit(result) else ""
    return _limit(result.verdict)


def other_verdicts(result: ScenarioResult) -> tuple[str, ...]:
    """A line for each rate after the first: `PDR 0.5 %: pinched by forwarding core: sentence`."""
    judged = zip(result.rates[1:], result.other_verdicts, strict=False)  # an older run has none
    return tuple(f"{rate.name}: pinched by {_limit(verdict)}: {verdict.headline}" for rate, verdict in judged)


def _limit(verdict: Verdict) -> str:
    return verdict.limit.words + (f": {verdict.suspicions[0].cause}" if verdict.suspicions else "")


def verdict_sentence(result: ScenarioResult) -> str:
    """The verdict's headline, or why there is none; empty if nothing was to limit."""
    if result.outcome is not Outcome.MEASURED:
        return f"{result.outcome.words.capitalize()}: {plain_reason(result.reason)}"
    if result.verdict is None:
        return "No verdict: the evidence was not collected." if _has_limit(result) else ""
    return result.verdict.headline


def seconds(value: float) -> str:
    """A duration as it was measured: `0 s`, `43.0 s`; from 100 s on as people plan it."""
    if value == 0 or value >= 100:
        return units.duration(value)
    return units.seconds(value)


def core_distance(result: ScenarioResult | None) -> str:
    """How far apart the engine's and the DUT's cores were."""
    cores = result.cache_line if result else None
    if cores is None:
        return f"core distance {NOT_MEASURED}"
    median, low, high = map(units.nanoseconds, (cores.median_ns, cores.min_ns, cores.max_ns))
    far = f", far in {units.share(cores.far_share)} of probes" if cores.far_share else ""
    return f"cores {median} apart ({low} to {high}){far}"


def engine_times(loopback: Loopback | None) -> str:
    """What the engine's own loop adds to every latency."""
    if loopback is None:
        return NOT_MEASURED
    return f"p50 {units.nanoseconds(loopback.p50_ns)}, p99 {units.nanoseconds(loopback.p99_ns)}"


def checks(result: ScenarioResult, trials: Sequence[Trial], asked_width: float | None = None) -> tuple[Check, ...]:
    """Why the scenario's numbers may be trusted, or where to look twice; `asked_width` as in `too_wide`."""
    if result.outcome is not Outcome.MEASURED:
        return ()
    if not registry.is_search(result.measure):
        return (_validity(result),) if result.trials else ()
    searched = interval_check(result.rates[0], asked_width) if result.rates else Check(False, "no rate was searched")
    marks = [searched, _headroom(result), _validity(result)]
    if share := unexplained(result, trials):
        none = share == units.loss(0)
        # A share that is small enough for a verdict is no doubt; older runs do not say which is.
        explained = result.verdict is not None and result.verdict.limit is not Limit.UNEXPLAINED
        small = result.unexplained_share is not None and explained
        told = "no frame" if none else f"{share} of the offered frames"
        marks.append(Check(none or small, f"ledger: {told} unexplained"))
    if result.offload and result.offload.word is Offload.PROVEN:
        marks.append(Check(True, f"offload {result.offload.sentence}"))
    return (*marks, _cores(result))


def unexplained(result: ScenarioResult | None, trials: Sequence[Trial]) -> str:
    """The share of the offered frames that no counter accounts for; empty if not known.

    Of a run stored before results had it, that of all valid trials.
    """
    if result and result.unexplained_share is not None:
        return units.loss(result.unexplained_share)
    valid = [trial for trial in trials if trial.validity is TrialValidity.VALID]
    offered = sum(trial.offered for trial in valid)
    return units.loss(sum(abs(trial.ledger.unexplained) for trial in valid) / offered) if offered else ""


def _headroom(result: ScenarioResult) -> Check:
    known = result.ceiling
    seen = (result.generator_ceiling_fps, known.fps if known else None)
    ceiling = max((fps for fps in seen if fps is not None), default=None)
    if ceiling is None:
        return Check(False, f"generator ceiling {NOT_MEASURED}")
    ndr = result.rates[0].quoted_fps if result.rates else None
    times = f", {ceiling / ndr:.2f} times the NDR" if ndr else ""
    how = f" (without the device {units.fps(known.fps)}, measured {known.measured[:16]})" if known else ""
    text = f"generator reaches {units.fps(ceiling)}{times}{how}"
    return Check(not ndr or ceiling / ndr >= ENOUGH_HEADROOM, text)


def _validity(result: ScenarioResult) -> Check:
    valid = result.trials - sum(result.invalid_trials.values())
    good = result.trials > 0 and valid / result.trials >= ENOUGH_VALID
    return Check(good, f"{valid} of {units.counted(result.trials, _made(result))} valid")


def _made(result: ScenarioResult) -> str:
    """What the measure is made of."""
    measure = registry.find(result.measure)
    return measure.made_of if measure else "trial"


def _has_limit(result: ScenarioResult) -> bool:
    measure = registry.find(result.measure)
    return measure is None or measure.has_limit


def _cores(result: ScenarioResult) -> Check:
    """Two distances of the cores are in a band already; without one they are a doubt."""
    cores, in_band = result.cache_line, any(rate.band for rate in result.rates)
    good = cores is not None and (in_band or cores.max_ns < FAR_CORES_RATIO * cores.min_ns)
    return Check(good, core_distance(result))


def rate_names(results: Sequence[ScenarioResult]) -> tuple[str, ...]:
    """The names of all rates that some scenario has, NDR first, then by loss ratio."""
    names = {rate.loss_ratio: rate.name for result in results for rate in result.rates}
    return tuple(names[ratio] for ratio in sorted(names))


def rate_named(result: ScenarioResult, name: str) -> Rate | None:
    """The scenario's rate of that name, if it was searched."""
    return next((rate for rate in result.rates if rate.name == name), None)


def judged(result: ScenarioResult) -> str:
    """How many trials or windows were valid, and what was wrong with the others; empty if none was made."""
    kinds = (f"{number} {TrialValidity(kind).words}" for kind, number in result.invalid_trials.items())
    aside = f" ({', '.join(kinds)})" if any(result.invalid_trials.values()) else ""
    return f"{_validity(result).text}{aside}" if result.trials else ""


def _goal(rate: Rate) -> str:
    if rate.method is SearchMethod.MLRSEARCH:
        return f"{rate.trial_duration_s:g} s trials, {rate.duration_sum_s:g} s of them at each bound"
    return f"{rate.trial_duration_s:g} s trials, threshold search"


def method(result: RunResult) -> str:
    """Trial length, duration sum, and how much was run: what an NDR's definition needs."""
    rates = [rate for scenario in result.scenarios for rate in scenario.rates]
    goals = " and ".join(sorted({_goal(rate) for rate in rates}))
    made: Counter[str] = Counter()
    for scenario in result.scenarios:
        is_build, is_measured = scenario.measure == "build", scenario.outcome is Outcome.MEASURED
        made[_made(scenario)] += is_measured if is_build else scenario.trials
    counted = ", ".join(units.counted(number, what) for what, number in made.items() if number)
    traffic_s = math.fsum(scenario.traffic_s for scenario in result.scenarios)
    wall_s = math.fsum(scenario.wall_s for scenario in result.scenarios)
    # Trials of before a run was resumed took time that it did not see.
    within = f"in {seconds(wall_s)}" if traffic_s <= wall_s else f"in all, in {seconds(wall_s)} since it was resumed"
    ran = f"{counted or '0 trials'}, {seconds(traffic_s)} of traffic {within}"
    return f"{goals}; {ran}" if goals else ran


def discarded(trials: Sequence[Trial]) -> tuple[tuple[str, int, str, str], ...]:
    """Why trials were discarded, the most frequent first: kind, how many, their share, the first one's reason."""
    invalid = [trial for trial in trials if trial.validity is not TrialValidity.VALID]
    kinds = grouped(((trial.cause or trial.validity).words, trial) for trial in invalid)
    ranked = sorted(kinds.items(), key=lambda kind: -len(kind[1]))
    return tuple((why, len(own), units.share(len(own) / len(trials)), own[0].reason) for why, own in ranked)

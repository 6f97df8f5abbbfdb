"""The measure `rates`: warm up, search, latency, verdict, on a bench that stands."""

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from pinchpoint.account.cache_line import distance, of_trial
from pinchpoint.account.neighbour import of_trials
from pinchpoint.account.pauses import pause_gap
from pinchpoint.account.rejection import Rejections, held_back, of_search
from pinchpoint.account.unexplained import unexplained_share
from pinchpoint.causes.ceiling import held_against, in_mode
from pinchpoint.causes.modes import explained
from pinchpoint.causes.offload import truth
from pinchpoint.causes.verdict import verdict
from pinchpoint.dut.device import Device
from pinchpoint.dut.registry import device_of
from pinchpoint.host.priority import kept_off
from pinchpoint.measure.frames import measuring
from pinchpoint.measure.kind import TRIAL_S, MeasureKind, asked
from pinchpoint.measure.rates import LATENCY, Rates
from pinchpoint.measure.rates.metrics import of_overload, of_rates
from pinchpoint.measure.rates.overload import OVERLOADS, highest_load_fps, overloaded, without_rate
from pinchpoint.measure.standing import Listener, Standing
from pinchpoint.measure.summary import scenario_result
from pinchpoint.measure.trial import ROUND_TRIP, WARM_UP, Measurer, OverTime
from pinchpoint.measure.warm_up import first_round, warm_up
from pinchpoint.model import units
from pinchpoint.model.offload import OffloadTruth
from pinchpoint.model.result import (
    Ceiling,
    LatencyPoint,
    Rate,
    RateStatus,
    ScenarioResult,
    Verdict,
)
from pinchpoint.model.scenario import Scenario, SearchMethod
from pinchpoint.model.trial import Trial, TrialValidity
from pinchpoint.search import SearchOutcome, find_rates
from pinchpoint.search.repeat import until_valid
from pinchpoint.search.slices import slice_s
from pinchpoint.stats.receive_rate import receive_rate

LATENCY_REPEATS = 1.5  # trials made for each latency, for estimates
MOST_LATENCY_REPEATS = 3  # the last one is reported even if it is invalid, with a note


@dataclass(frozen=True)
class _RateSearch:
    """A search with its trials, and the overloads after it."""

    outcome: SearchOutcome
    searched: Sequence[Trial]
    ceiling: Ceiling | None = None  # the generator's highest that is known
    overloads: Sequence[Trial] = ()  # at the highest load that the engine offers, after the search

    @property
    def most_offered_fps(self) -> float | None:
        """By a generator that kept up."""
        valid = (trial.offered_fps for trial in self.searched if trial.validity is TrialValidity.VALID)
        return max(valid, default=None)


def expected_s(scenario: Scenario) -> float:
    """Seconds on a bench that stands."""
    rates, drain_s = asked(scenario, Rates), scenario.search.drain_s
    latencies = len(rates.at) * LATENCY_REPEATS * (rates.duration_s + drain_s + TRIAL_S)
    overloads = OVERLOADS * (scenario.search.trial_duration_s + drain_s + TRIAL_S)
    return first_round(scenario)[0] + searching_s(scenario) + latencies + overloads


def searching_s(scenario: Scenario) -> float:
    """Seconds that one search takes at most."""
    search = scenario.search
    trials_s = expected_trials(scenario) * (search.trial_duration_s + search.drain_s + TRIAL_S)
    return min(trials_s, search.max_duration_s)


def measure_rates(bench: Standing) -> ScenarioResult:
    """NDR, PDRs and latency of the bench's scenario. Raises what a trial raises, finished trials kept."""
    with measuring(bench) as measurer, kept_off(bench.scenario.dut.cpus, bench.host):
        return measure_scenario(bench.scenario, measurer, bench.listener, bench.began, bench.ceilings)


def measure_scenario(
    scenario: Scenario, measurer: Measurer, listener: Listener, began: float, ceilings: Sequence[Ceiling] = ()
) -> ScenarioResult:
    """All trials of one scenario on a bench that stands, and what follows from them.

    `ceilings` are the generator's own on a bench of this shape, one for each mode of the cores that was met.
    """
    listener.phase(WARM_UP, 1)
    not_learnt = warm_up(scenario, measurer)
    listener.phase("search", expected_trials(scenario))
    search = _search(scenario, measurer, ceilings)
    rates = asked(scenario, Rates)
    listener.phase("latency", len(rates.at))
    latency = tuple(_latency(share, search, scenario, measurer) for share in rates.at)
    listener.phase("mrr", OVERLOADS)
    load_fps = highest_load_fps(scenario.search, search.ceiling, search.searched)
    search = replace(search, overloads=overloaded(measurer, scenario.search, load_fps))
    result = _summary(scenario, measurer.trials, search, latency, time.monotonic() - began)
    return replace(result, warnings=(not_learnt, *result.warnings)) if not_learnt else result


def _search(scenario: Scenario, measurer: Measurer, ceilings: Sequence[Ceiling]) -> _RateSearch:
    """The search's outcome and its trials, its rates compared with the generator's highest known ceiling."""
    is_sliced = scenario.search.method is SearchMethod.THRESHOLD

    def measure(duration_s: float, load_fps: float) -> Trial:
        return measurer.trial("search", duration_s, load_fps, OverTime(slice_s(duration_s)) if is_sliced else None)

    first = len(measurer.trials)
    if scenario.search.method is SearchMethod.MLRSEARCH:  # it never tries a load above a ceiling that is too low
        here_ns = of_trial(measurer.latest) if measurer.latest else None
        ceilings = [ceiling for ceiling in ceilings if in_mode([ceiling], here_ns)]
    outcome = find_rates(measure, scenario.search, time.monotonic, ceilings=ceilings)
    ceiling = max(ceilings, key=lambda ceiling: ceiling.fps, default=None)
    search = _RateSearch(outcome, measurer.trials[first:], ceiling)
    rates = held_against(outcome.rates, ceiling, search.most_offered_fps)
    return replace(search, outcome=replace(outcome, rates=rates))


def searched_ndr(scenario: Scenario, measurer: Measurer) -> Rate:
    """The NDR alone, for a measure whose loads are shares of it."""
    return _search(scenario, measurer, ()).outcome.rates[0]


def expected_trials(scenario: Scenario) -> int:
    """About how many trials a search takes, for the time estimate.

    Ours takes all of search.max_traffic_s where the rate moves, and a fraction where it does not: the latter is noticed
    as soon as one unit has finished. MLRsearch takes 1.7 x its goal's own.
    """
    search = scenario.search
    if search.method is SearchMethod.THRESHOLD:
        return math.ceil(search.max_traffic_s / search.trial_duration_s)
    return round(1.7 * search.duration_sum_s / search.trial_duration_s) + 4


def _latency(share: float, search: _RateSearch, scenario: Scenario, measurer: Measurer) -> LatencyPoint:
    """Latency at a share of the NDR; where the cores were meanwhile stands beside it."""
    ndr = search.outcome.rates[0]
    if ndr.quoted_fps is None:
        return LatencyPoint(share, 0.0, "", None, f"no NDR to take {share:.0%} of")
    load_fps = share * ndr.quoted_fps
    is_apart = bool(scenario.engines) and scenario.engine.clock_error_us is None
    phase = ROUND_TRIP if is_apart and _comes_back(scenario) else "latency"
    if phase == ROUND_TRIP:
        load_fps /= 2  # each frame crosses the device twice

    def measure(duration_s: float, load: float) -> Trial:
        return measurer.trial(phase, duration_s, load)

    repeats = min(MOST_LATENCY_REPEATS, scenario.search.max_repeats)
    trial = until_valid(measure, asked(scenario, Rates).duration_s, load_fps, repeats)
    return LatencyPoint(
        share,
        load_fps,
        trial.id,
        None if _early_ns(trial) else trial.latency,
        "; ".join(_notes(trial, is_apart)),
        trial.witness.loopback,
        of_trial(trial),
        trial.validity,
        trial.round_trip,
    )


def _comes_back(scenario: Scenario) -> bool:
    """Whether what is sent can be sent back to be timed: one engine sends, and others receive."""
    sent, received = ({getattr(stream, end) for stream in scenario.streams} for end in ("tx_port", "rx_port"))
    senders = [engine for engine in scenario.engines if sent & set(engine.ports)]
    return len(senders) == 1 and not received & set(senders[0].ports)


def _early_ns(trial: Trial) -> float:
    """By how much a frame was received before it was sent; 0 if the stated error of the clocks allows that."""
    latencies = [stream.latency for stream in trial.streams if stream.latency]
    return max((-latency.min_ns for latency in latencies if latency.min_ns < -(latency.clock_error_ns or 0)), default=0)


def _notes(trial: Trial, is_apart: bool) -> Iterator[str]:
    """Why there is no latency, or what to mind. `is_apart`: two engines without a common clock."""
    if round_trip := trial.round_trip:
        times = f"p50 {units.nanoseconds(round_trip.p50_ns)}, p99 {units.nanoseconds(round_trip.p99_ns)}"
        yield f"there and back, half of the load each way: {times}"
    elif trial.phase == ROUND_TRIP and not any(stream.received for stream in trial.streams):
        yield "nothing came back: the device has to forward both ways"
    if trial.validity is not TrialValidity.VALID:
        yield f"{trial.validity.value}: {trial.reason}"
    elif early_ns := _early_ns(trial):
        yield (
            f"a frame was received {units.nanoseconds(early_ns)} before it was sent, by the clocks of two hosts, which "
            "are further apart than engine.clock_error_us says"
        )
    elif trial.latency and trial.latency.clock_error_ns is not None:
        yield f"each time may be wrong by {units.nanoseconds(trial.latency.clock_error_ns)}: clocks of two hosts"
    elif trial.lost:
        yield f"lost {units.loss(trial.loss_ratio)} of its frames"
    if is_apart and any(stream.received and not (stream.latency or stream.round_trip) for stream in trial.streams):
        yield "two engines have no clock in common; engine.clock_error_us says by how much their hosts' are apart"


def _summary(
    scenario: Scenario, trials: Sequence[Trial], search: _RateSearch, latency: tuple[LatencyPoint, ...], wall_s: float
) -> ScenarioResult:
    outcome, searched = search.outcome, search.searched
    cores = distance([trial for trial in searched if trial.validity is TrialValidity.VALID])
    limit = _at_the_limit(outcome.rates[0], searched)
    rejections = of_search(searched)
    shown = limit or next(reversed(searched), None)
    figures = of_rates(outcome.rates, latency, limit, device_of(scenario), scenario.streams)
    modes = explained(searched, outcome.track)
    ndr, *others = _verdicts(outcome.rates, (*searched, *search.overloads), scenario)
    mrr = receive_rate(search.overloads)
    gap = pause_gap(outcome.rates[0], mrr, scenario.smallest_ring)
    result = scenario_result(
        scenario,
        wall_s,
        taken=trials,
        metrics=(*figures, *of_overload(mrr, gap), *rejections.metrics),
        rates=outcome.rates,
        latency=latency,
        threads=limit.threads if limit else (),
        verdict=ndr,
        generator_ceiling_fps=outcome.generator_ceiling_fps or max((t.offered_fps for t in searched), default=None),
        traffic_s=math.fsum(trial.sent_duration_s for trial in trials),
        cache_line=cores,
        warnings=_warnings(search, rejections, scenario),
    )
    return replace(
        result,
        other_verdicts=tuple(others),
        modes=modes,
        track=outcome.track,
        unexplained_share=unexplained_share(searched),
        ceiling=search.ceiling,
        most_offered_fps=search.most_offered_fps,
        offload=_offload(shown, device_of(scenario)) if shown else None,
        mrr=mrr,
        gap=gap,
    )


def _offload(trial: Trial, device: Device) -> OffloadTruth | None:
    return truth(device.signs(trial.observed), device.offload_limits(trial.observed))


def _verdicts(rates: Sequence[Rate], searched: Sequence[Trial], scenario: Scenario) -> list[Verdict]:
    """What pinched each rate, in the order of the rates."""
    neighbour = of_trials(searched).sentence
    return [
        verdict(
            rate,
            searched,
            ring=scenario.smallest_ring,
            neighbour=neighbour,
            unexplained_ratio=scenario.validity.unexplained_ratio,
            device=device_of(scenario),
        )
        for rate in rates
    ]


def _warnings(search: _RateSearch, rejections: Rejections, scenario: Scenario) -> tuple[str, ...]:
    """What a reader of the rates must know beside them, the gravest first."""
    quoted_fps = next((rate.quoted_fps for rate in search.outcome.rates if rate.quoted_fps is not None), None)
    held = held_back(search.searched, quoted_fps, scenario.search.relative_width)
    every = (*rejections.warnings, without_rate(search.overloads), held, of_trials(search.searched).sentence)
    return tuple(filter(None, every))


def _at_the_limit(ndr: Rate, searched: Sequence[Trial]) -> Trial | None:
    """The trial without loss whose load was nearest to the NDR; None without an NDR.

    What a DUT does at any other load (it may lose nine frames in ten) is not what it does at its NDR.
    """
    quoted_fps = ndr.quoted_fps
    if quoted_fps is None or ndr.status not in (RateStatus.FOUND, RateStatus.AT_LEAST):
        return None
    reached = [
        trial for trial in searched if trial.validity is TrialValidity.VALID and trial.loss_ratio <= ndr.loss_ratio
    ]
    return min(reached, key=lambda trial: abs(trial.offered_fps - quoted_fps), default=None)


MEASURES: Final = (
    MeasureKind(
        made=Rates,
        finds="NDR and PDRs, then latency",
        table=lambda _: LATENCY,
        run=measure_rates,
        expected_s=expected_s,
        main=(),
        over_engines=True,
        through_service=True,
    ),
)

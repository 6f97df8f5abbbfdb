"""The measure `rates`: warm up, search, latency, overload, verdict, on a bench that stands.

The trials of the MRR, at the highest load that the engine offers on this bench, are a phase of their own after
everything else. The search tries its highest loads when it takes the device for fast, so that its overloaded trials
would bias the figure; and an overload before the search may change what the device carries next.
"""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Final

from pinchpoint.account.facts import core_distance_ns, core_distances, core_slowed, modes_of, over_clock
from pinchpoint.account.ledger import unexplained_share
from pinchpoint.account.validity import discarded, held_back
from pinchpoint.causes.bounds import held_against, in_mode, pause_gap
from pinchpoint.causes.signs import offload_truth
from pinchpoint.causes.verdict import verdict
from pinchpoint.dut.device import Device
from pinchpoint.dut.registry import device_of
from pinchpoint.keys import kinds
from pinchpoint.keys.key import Key, Table
from pinchpoint.measure.forwarding import of_trial
from pinchpoint.measure.frames import over_frames
from pinchpoint.measure.kind import TRIAL_S, MeasureKind, asked
from pinchpoint.measure.session import ROUND_TRIP, OverTime, Session, first_round
from pinchpoint.measure.summary import scenario_result, valid
from pinchpoint.model import units
from pinchpoint.model.frames import five_tuples, is_exact
from pinchpoint.model.measurement import MRR, Bound, Interval, Metric, band_metrics
from pinchpoint.model.result import Ceiling, LatencyPoint, PauseGap, Rate, RateStatus, ReceiveRate, ScenarioResult
from pinchpoint.model.scenario import Engine, Relative, Scenario, Search, SearchMethod, Stream
from pinchpoint.model.trial import LATENCY_PHASE, LatencySummary, ThreadLoad, Trial, TrialValidity
from pinchpoint.model.warning import ResultWarning, Warn
from pinchpoint.search import SearchOutcome, find_rates, until_valid
from pinchpoint.search.slices import slice_s
from pinchpoint.stats.estimate import receive_rate

_CLOCKS: Final = {"kernel": "kernel", "nic": "NIC"}
_FURTHER: Final = "which are further apart than engine.clock_error_us says"
_APART: Final = {
    "engine": f"by the clocks of two hosts, {_FURTHER}",
    "kernel": "by the system's clock, which was set meanwhile or is that of two hosts",
    "nic": f"by the clocks of a NIC and its host, {_FURTHER}",
}
"""How a latency that cannot be true came about, by whose clock it is."""
LATENCY_REPEATS = 1.5  # trials made for each latency, for estimates
MOST_LATENCY_REPEATS = 3  # the last one is reported even if it is invalid, with a note
AT_NDR = 0.02  # relative: trials this near to the NDR say what the device does at it
OVERLOADS = 7  # usable trials: the fewest but one that have a 95 % interval by ranks
MOST_OVERLOADS = 12
_HOW: Final[Mapping[RateStatus, str]] = {
    RateStatus.FOUND: "bounds of the search",
    RateStatus.AT_LEAST: "at least",
    RateStatus.BELOW_MINIMUM: "below the lowest load tried",
    RateStatus.LOSES_ALWAYS: "frames are lost at any load",
    RateStatus.REFUSED: "",  # the reason follows
}


@dataclass(frozen=True)
class Rates:
    """At which shares of the NDR latency is measured, once the rates are known."""

    kind: ClassVar[str] = "rates"
    at: tuple[float, ...]
    duration_s: float


LATENCY: Final = Table("latency", "Where latency is measured, once the NDR is known.", (
    Key("at", kinds.numbers(0.001, 1, may_be_empty=True), "Shares of the NDR; [] measures none.", [0.5, 0.9]),
    Key("duration_s", kinds.number(0.05, 3600), "Length of each, seconds.", 2.0),
), measures=("rates",))  # fmt: skip


def of_rates(
    rates: Sequence[Rate],
    latency: Sequence[LatencyPoint],
    limit: Trial | None,
    device: Device,
    streams: Sequence[Stream] = (),
) -> tuple[Metric, ...]:
    """Metrics of the measure `rates`; `limit` is the trial that stands for them, or None, `streams` what it sent."""
    figures = [*of_the_rates_alone(rates), *_in_bits(rates, streams)]
    figures += [_p99("latency", point, point.latency) for point in latency if point.latency is not None]
    figures += [_p99("round trip", point, point.round_trip) for point in latency if point.round_trip is not None]
    if limit is not None:
        figures += of_trial(limit, device)
        figures += _five_tuples(limit, streams)
        figures += _order(limit, streams)
    return tuple(figures)


def of_the_rates_alone(rates: Sequence[Rate]) -> Iterator[Metric]:
    """Each rate that has a lower end: the number to quote with its interval, then its band if one is known.

    Of a DUT that loses frames at any load, the share that it loses.
    """
    yield from (_rate(rate) for rate in rates if rate.lower_fps is not None)
    for rate in rates:
        if rate.band is not None:
            for name, fps in zip(band_metrics(rate.name), (rate.band.low_fps, rate.band.high_fps), strict=True):
                yield Metric(name, "fps", fps)
    if rates and (floor := rates[0].floor) is not None:
        yield Metric("loss at any load", "share", floor.loss_ratio, floor.lower, floor.upper)


def _rate(rate: Rate) -> Metric:
    assert rate.lower_fps is not None
    sure = rate.confidence if rate.status is RateStatus.FOUND else None
    how = f"{units.percent(sure)} interval of its search" if sure else _HOW[rate.status]
    value_fps, note = rate.quoted_fps or rate.lower_fps, ": ".join(filter(None, (how, rate.reason)))
    return Metric(rate.name, "fps", value_fps, rate.lower_fps, rate.upper_fps, note, rate.bound)


def of_overload(mrr: ReceiveRate | None, gap: PauseGap | None) -> Iterator[Metric]:
    """The MRR with its interval, and the pause that keeps the NDR below it."""
    if mrr is not None:
        note = f"{units.percent(mrr.confidence)} by ranks, {mrr.trials} trials: at {units.fps(mrr.load_fps)} offered"
        yield Metric(MRR, "fps", mrr.estimate_fps, mrr.lower_fps, mrr.upper_fps, note, bound=Bound.FOUND)
    if gap is not None:
        note = f"ring of {units.frames(gap.ring)} frames at the NDR"
        yield Metric("longest pause borne", "s", gap.pause_s, note=note)


def frame_bits(streams: Sequence[Stream]) -> int | None:
    """Bits of a frame with its check sequence, by which balancers' rates are quoted; None: frames of several sizes, or
    of no connections.
    """
    sizes = {stream.frame_bytes for stream in streams if stream.segment}
    return 8 * sizes.pop() if len(sizes) == 1 else None


def _in_bits(rates: Sequence[Rate], streams: Sequence[Stream]) -> Iterator[Metric]:
    """The NDR in bits."""
    bits = frame_bits(streams)
    for rate in rates[:1]:
        if bits is not None and rate.lower_fps is not None:
            ndr = _rate(rate)
            value, low, high = (Interval.of(ndr) * bits).figures
            yield replace(ndr, name=f"{ndr.name} throughput", unit="bit/s", value=value, low=low, high=high)


def _p99(of: str, point: LatencyPoint, summary: LatencySummary) -> Metric:
    name, cautions = f"{of} p99 at {point.share:.0%} of NDR", (point.note,) if point.note else ()
    disturbed = point.validity is not TrialValidity.VALID
    return Metric(name, "ns", summary.p99_ns, cautions=cautions, disturbed=disturbed)


def _five_tuples(limit: Trial, streams: Sequence[Stream]) -> Iterator[Metric]:
    """How many five-tuples the trial's frames really had: a short trial ends within a long cycle."""
    if len(limit.streams) != len(streams) or not streams:
        return
    pairs = [(stream, counts.sent) for stream, counts in zip(streams, limit.streams, strict=True)]
    sent = sum(min(five_tuples(stream), frames) for stream, frames in pairs)
    if not all(is_exact(stream, frames) for stream, frames in pairs):
        yield Metric("five-tuples sent", "count", sent, None, sent, "at most: some may repeat", Bound.BELOW)
        return
    asked = sum(map(five_tuples, streams))
    cut = () if sent == asked else (f"the trial ended before all {asked:,} had been sent",)
    yield Metric("five-tuples sent", "count", sent, cautions=cut)


def _order(limit: Trial, streams: Sequence[Stream]) -> Iterator[Metric]:
    """Which share of the frames on connections came after a later one of their own connection."""
    counts = [(stream.reordered_in_flow, stream.received) for stream in limit.streams]
    known = [(late, received) for late, received in counts if late is not None and received]
    if known and len(known) == len(counts) and all(stream.segment for stream in streams):
        late, received = map(sum, zip(*known, strict=True))
        yield Metric("reordered in connections", "share", late / received)


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
        return max((trial.offered_fps for trial in valid(self.searched)), default=None)


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


def measure_scenario(session: Session) -> ScenarioResult:
    """All trials of one scenario on a bench that stands, and what follows from them."""
    scenario, rates = session.scenario, asked(session.scenario, Rates)
    session.warm_up()
    search = _search(session, session.ceilings)
    session.listener.phase("latency", len(rates.at))
    latency = tuple(_latency(share, search, session) for share in rates.at)
    session.listener.phase("mrr", OVERLOADS)
    search = replace(search, overloads=_overloaded(session, search))
    result = _summary(scenario, session.trials, search, latency, time.monotonic() - session.began)
    return replace(result, warnings=tuple(filter(None, (session.not_learnt, *result.warnings))))


measure_rates: Final = over_frames(measure_scenario)


def _search(session: Session, ceilings: Sequence[Ceiling]) -> _RateSearch:
    """The search's outcome and its trials, its rates compared with the generator's highest known ceiling."""
    search = session.scenario.search
    is_sliced = search.method is SearchMethod.THRESHOLD
    session.listener.phase("search", expected_trials(session.scenario))

    def measure(duration_s: float, load_fps: float) -> Trial:
        return session.trial("search", duration_s, load_fps, OverTime(slice_s(duration_s)) if is_sliced else None)

    first = len(session.trials)
    if not is_sliced:  # MLRsearch never tries a load above a ceiling that is too low
        here_ns = core_distance_ns(session.latest) if session.latest else None
        ceilings = [ceiling for ceiling in ceilings if in_mode([ceiling], here_ns)]
    outcome = find_rates(measure, search, time.monotonic, ceilings=ceilings)
    ceiling = max(ceilings, key=lambda ceiling: ceiling.fps, default=None)
    searched = _RateSearch(outcome, session.trials[first:], ceiling)
    rates = held_against(outcome.rates, ceiling, searched.most_offered_fps)
    return replace(searched, outcome=replace(outcome, rates=rates))


def searched_ndr(session: Session) -> Rate:
    """The NDR alone, for a measure whose loads are shares of it."""
    return _search(session, ()).outcome.rates[0]


def expected_trials(scenario: Scenario) -> int:
    """About how many trials a search takes, for the time estimate.

    Ours takes all of search.max_traffic_s where the rate moves, and a fraction where it does not: the latter is noticed
    as soon as one unit has finished. MLRsearch takes 1.7 x its goal's own.
    """
    search = scenario.search
    if search.method is SearchMethod.THRESHOLD:
        return math.ceil(search.max_traffic_s / search.trial_duration_s)
    return round(1.7 * search.duration_sum_s / search.trial_duration_s) + 4


def _latency(share: float, search: _RateSearch, session: Session) -> LatencyPoint:
    """Latency at a share of the NDR; where the cores were meanwhile stands beside it."""
    scenario, ndr = session.scenario, search.outcome.rates[0]
    if ndr.quoted_fps is None:
        return LatencyPoint(share, 0.0, "", None, f"no NDR to take {share:.0%} of")
    load_fps = share * ndr.quoted_fps
    engines = {scenario.site_of(port) for port in scenario.ports}
    is_apart = len(engines) > 1 and scenario.engine.clock_error_us is None
    phase = ROUND_TRIP if is_apart and _comes_back(scenario) else LATENCY_PHASE
    if phase == ROUND_TRIP:
        load_fps /= 2  # each frame crosses the device twice

    repeats = min(MOST_LATENCY_REPEATS, scenario.search.max_repeats)
    trial = until_valid(partial(session.trial, phase), asked(scenario, Rates).duration_s, load_fps, repeats)
    disproved = _disproved(trial, scenario)
    latency, note = None if disproved else trial.latency, "; ".join(_notes(trial, is_apart, disproved, scenario.engine))
    loopback = trial.witness.loopback if scenario.engine.latency_clock == "engine" else None  # no part of it
    seen = loopback, core_distance_ns(trial), trial.validity, trial.round_trip
    return LatencyPoint(share, load_fps, trial.id, latency, note, *seen)


def _comes_back(scenario: Scenario) -> bool:
    """Whether what is sent can be sent back to be timed: one engine sends, and others receive."""
    sites = {port.name: scenario.site_of(port) for port in scenario.ports}
    senders = {sites[stream.tx_port] for stream in scenario.streams}
    receivers = {sites[stream.rx_port] for stream in scenario.streams}
    return len(senders) == 1 and senders.isdisjoint(receivers)


def _disproved(trial: Trial, scenario: Scenario) -> str:
    """What shows that the clocks of a latency are further apart than is said; empty where nothing does."""
    engine, least = scenario.engine, [stream.latency.min_ns for stream in trial.streams if stream.latency]
    early_ns, late_ns = -min(least, default=0), max(least, default=0)
    if early_ns > 1e3 * (engine.clock_error_us or 0):
        return f"a frame was received {units.nanoseconds(early_ns)} before it was sent, {_APART[engine.latency_clock]}"
    if late_ns > 1e9 * (trial.duration_s + scenario.search.drain_s):
        took = f"all frames were received {units.nanoseconds(late_ns)} or more after they were sent"
        return f"{took}, longer than the trial, {_APART[engine.latency_clock]}"
    return ""


def _notes(trial: Trial, is_apart: bool, disproved: str, engine: Engine) -> Iterator[str]:
    """Why there is no latency, or what to mind. `is_apart`: two engines without a common clock."""
    if round_trip := trial.round_trip:
        times = f"p50 {units.nanoseconds(round_trip.p50_ns)}, p99 {units.nanoseconds(round_trip.p99_ns)}"
        yield f"there and back, half of the load each way: {times}"
    elif trial.phase == ROUND_TRIP and not any(stream.received for stream in trial.streams):
        yield "nothing came back: the device must forward both ways"
    if trial.validity is not TrialValidity.VALID:
        yield f"{trial.validity.value}: {trial.reason}"
    elif disproved:
        yield disproved
    elif trial.latency and trial.latency.clock_error_ns is not None:
        yield f"each time may be wrong by {units.nanoseconds(trial.latency.clock_error_ns)}: clocks of two hosts"
    elif trial.lost:
        yield f"lost {units.loss(trial.loss_ratio)} of its frames"
    if (trial.latency or trial.round_trip) and engine.latency_clock != "engine" and not disproved:
        within = f", to within {units.nanoseconds(1e3 * (engine.clock_error_us or 0))}" if engine.clock_error_us else ""
        yield f"arrivals by the {_CLOCKS[engine.latency_clock]}'s clock{within}"
    if is_apart and any(stream.received and not (stream.latency or stream.round_trip) for stream in trial.streams):
        yield "two engines have no clock in common; engine.clock_error_us says by how much their hosts' are apart"


def _overloaded(session: Session, search: _RateSearch) -> list[Trial]:
    """Trials until seven have a usable account, or twelve were made. Raises what a trial raises."""
    settings = session.scenario.search
    over_time, load_fps = OverTime(slice_s(settings.trial_duration_s)), _highest_load_fps(settings, search)
    made: list[Trial] = []
    while len(made) < MOST_OVERLOADS and sum(trial.is_whole for trial in made) < OVERLOADS:
        made.append(session.trial("mrr", settings.trial_duration_s, load_fps, over_time))
    return made


def _highest_load_fps(settings: Search, search: _RateSearch) -> float:
    """What to ask of the engine: the most that it is known to offer, at most search.max_load_fps."""
    is_limited = any(trial.validity is TrialValidity.GENERATOR_LIMITED for trial in search.searched)
    if not is_limited and search.ceiling is None:
        return settings.max_load_fps
    offered = [trial.offered_fps for trial in search.searched if trial.is_whole]
    known_fps = max([*offered, *([search.ceiling.fps] if search.ceiling else [])])
    return max(settings.min_load_fps, min(settings.max_load_fps, known_fps))


def _without_mrr(made: Sequence[Trial]) -> ResultWarning | None:
    """Why overloaded trials give no MRR; None if they do, or none was made."""
    if not made or receive_rate(made) is not None:
        return None
    reasons = [trial.reason for trial in made if not trial.is_whole]
    usable = len(made) - len(reasons)
    return Warn.NO_MRR.of(*reasons[-1:], usable=usable, trials=len(made), load_fps=made[0].load_fps)


def _summary(
    scenario: Scenario, trials: Sequence[Trial], search: _RateSearch, latency: tuple[LatencyPoint, ...], wall_s: float
) -> ScenarioResult:
    outcome, searched, device = search.outcome, search.searched, device_of(scenario)
    limit = _standing_for(scenario, search)
    shown = limit or next(reversed(searched), None)
    rejections, many = discarded(searched)
    mrr = receive_rate(search.overloads)
    gap = pause_gap(outcome.rates[0], mrr, scenario.smallest_ring)
    figures = of_rates(outcome.rates, latency, limit, device, scenario.streams)
    judged = (*searched, *search.overloads)
    slowed = core_slowed(judged)
    facts = scenario.smallest_ring, slowed.text if slowed else "", scenario.validity.unexplained_ratio, device
    ndr, *others = (verdict(rate, judged, *facts) for rate in outcome.rates)
    quoted_fps = next((rate.quoted_fps for rate in outcome.rates if rate.quoted_fps is not None), None)
    held = held_back(searched, quoted_fps, scenario.search.relative_width)
    warnings = (many, _without_mrr(search.overloads), held, core_slowed(searched))
    result = replace(
        scenario_result(scenario, wall_s, trials),
        metrics=(*figures, *of_overload(mrr, gap), *rejections),
        rates=outcome.rates,
        latency=latency,
        threads=limit.threads if limit else (),
        verdict=ndr,
        other_verdicts=tuple(others),
        generator_ceiling_fps=outcome.generator_ceiling_fps or max((t.offered_fps for t in searched), default=None),
        traffic_s=math.fsum(trial.sent_duration_s for trial in trials),
        cache_line=core_distances(valid(searched)),
        warnings=tuple(filter(None, warnings)),  # the gravest first
        modes=modes_of(searched, outcome.track),
        track=outcome.track,
        unexplained_share=unexplained_share(searched),
        ceiling=search.ceiling,
        most_offered_fps=search.most_offered_fps,
        offload=offload_truth(device.signs(shown.observed), device.offload_limits(shown.observed)) if shown else None,
        mrr=mrr,
        gap=gap,
    )
    # Relative rates have the cycles of an overload beside the first point's NDR.
    misfit = None if scenario.point.relative is Relative.ALONE else over_clock(result)
    return replace(result, warnings=(*result.warnings, misfit)) if misfit else result


def _standing_for(scenario: Scenario, search: _RateSearch) -> Trial | None:
    """The trial whose cycles, lookups and tables are the scenario's: one load for all points of a curve.

    That is the NDR; where only the first point has one, as the others are measured under overload, it is an overload.
    """
    if scenario.point.relative is Relative.ALONE:
        return next((trial for trial in reversed(search.overloads) if trial.is_whole), None)
    return _at_the_limit(search.outcome.rates[0], search.searched)


def _at_the_limit(ndr: Rate, searched: Sequence[Trial]) -> Trial | None:
    """The trial within 2 % of the NDR, rather without loss, that is nearest to it; None without an NDR.

    What a DUT does at any other load (it may lose nine frames in ten) is not what it does at its NDR: of a trial
    farther away there are lookups and tables, but neither cycles nor busy shares.
    """
    quoted_fps = ndr.quoted_fps
    if quoted_fps is None or ndr.status not in (RateStatus.FOUND, RateStatus.AT_LEAST):
        return None

    def away_fps(trial: Trial) -> float:
        return abs(trial.offered_fps - quoted_fps)

    near = [trial for trial in searched if trial.is_whole and away_fps(trial) <= AT_NDR * quoted_fps]
    if near:
        return min(near, key=lambda trial: (trial.loss_ratio > ndr.loss_ratio, away_fps(trial)))
    reached = [trial for trial in valid(searched) if trial.loss_ratio <= ndr.loss_ratio]
    nearest = min(reached, key=away_fps, default=None)
    return None if nearest is None else replace(nearest, threads=tuple(map(_without_load, nearest.threads)))


def _without_load(load: ThreadLoad) -> ThreadLoad:
    return replace(load, busy_share=None, busy_by=None, cycles_per_packet=None)


MEASURE: Final = MeasureKind(
    made=Rates,
    finds="NDR and PDRs, then latency",
    table=lambda _: LATENCY,
    run=measure_rates,
    expected_s=expected_s,
    main=(),
    is_search=True,
    over_engines=True,
    through_service=True,
)

"""The measure `connections`: how many connections a second, in a burst and for ever, and what ends either."""

import math
import time
from collections.abc import Iterator, Sequence
from typing import Final

from pinchpoint.account.exhausted import Exhausted, exhausted
from pinchpoint.dut.services import Doubling
from pinchpoint.engine.connections import Load
from pinchpoint.host.priority import kept_off
from pinchpoint.measure.connections import CONNECTIONS, Connections
from pinchpoint.measure.connections import metrics as shown
from pinchpoint.measure.connections import sustained as model
from pinchpoint.measure.connections.metrics import Sustained
from pinchpoint.measure.connections.sustained import Prediction
from pinchpoint.measure.connections.trials import as_trial, failing
from pinchpoint.measure.kind import MeasureKind, asked
from pinchpoint.measure.served import SETUP_S, Opened, Opener
from pinchpoint.measure.standing import Standing
from pinchpoint.measure.summary import scenario_result
from pinchpoint.model import units
from pinchpoint.model.errors import BenchError
from pinchpoint.model.limits import Limit
from pinchpoint.model.measurement import Metric
from pinchpoint.model.result import Outcome, Rate, RateStatus, ScenarioResult
from pinchpoint.model.scenario import Scenario
from pinchpoint.model.trial import Trial, TrialValidity
from pinchpoint.search import find_rates

SEARCH, OVERLOAD, BORNE, DOUBLED = "search", "overload", "borne", "doubled"
USUAL_SHARE = 0.7  # of the search's traffic, before its interval is narrow enough


def expected_s(scenario: Scenario) -> float:
    """Seconds on a bench that stands."""
    asks = asked(scenario, Connections)
    trials = USUAL_SHARE * asks.max_traffic_s / asks.trial_duration_s
    trial_s = asks.trial_duration_s + asks.ramp_s + asks.hold_s + asks.timeout_s + SETUP_S
    return trials * trial_s + _confirming_s(scenario, asks)


def _confirming_s(scenario: Scenario, asks: Connections) -> float:
    """As far as the scenario says for how long places are held."""
    held_s = scenario.service.closed_s if scenario.service else None
    if held_s is None or not asks.is_closing:
        return 0.0
    times = model.OVERLOADED_TIMES + model.BORNE_TIMES
    alone_s = times * held_s
    return (alone_s + model.OVERLOADED_TIMES * held_s * asks.confirm) if alone_s <= asks.sustain_within_s else 0.0


def measure_connections(bench: Standing) -> ScenarioResult:
    """The rates of the bench's scenario. Raises what a load raises, finished loads kept."""
    with kept_off(bench.scenario.dut.cpus, bench.host):
        opener = Opener(bench)
        return _Measured(bench, opener, opener.limits()).result()


class _Measured:
    """The search, then what confirms the prediction."""

    def __init__(self, bench: Standing, opener: Opener, limits: Sequence[Limit]) -> None:
        self._bench, self._opener, self._limits = bench, opener, limits
        self._asks = asked(bench.scenario, Connections)
        self._trials: list[Trial] = []
        self._loads: dict[str, Opened] = {}

    def result(self) -> ScenarioResult:
        """The burst rates, the sustained rate, and what ends either; failed where every rate was refused."""
        listener, asks = self._bench.listener, self._asks
        listener.phase(SEARCH, round(USUAL_SHARE * asks.max_traffic_s / asks.trial_duration_s))
        # Overloaded balancers complete few connections, since each takes several frames: that is no measure of more.
        rates = find_rates(self._trial, asks.search, time.monotonic, overload_measures=False).rates
        burst, ids = self._ended(rates[0])
        sustained = self._sustained(rates)
        return self._summary(rates, burst, ids, sustained)

    def _trial(self, duration_s: float, load_cps: float) -> Trial:
        load = self._load(load_cps, duration_s + self._asks.ramp_s, self._asks.ramp_s)
        opened = self._opener.open(SEARCH, load, figures=_figures)
        trial = as_trial(self._opener.measurements[-1], opened, duration_s)
        self._trials.append(trial)
        self._loads[trial.id] = opened
        return trial

    def _load(self, cps: float, opening_s: float, ramp_s: float = 0.0) -> Load:
        asks = self._asks
        return Load(
            connections=max(1, round(cps * (opening_s - ramp_s / 2))),
            rate_cps=float(max(1, round(cps))),
            requests=asks.requests,
            timeout_s=asks.timeout_s,
            work=asks.work,
            hold_s=asks.hold_s,
            ramp_s=ramp_s,
            one_isn=not asks.early_reuse,
        )

    def _ended(self, rate: Rate) -> tuple[Exhausted | None, list[str]]:
        """What ended the first burst rate, and the trials that say so.

        Those with the lowest loads; all that failed where these explain nothing, as the few that a busy host failed.
        """
        every, least = failing(self._trials, rate.loss_ratio, len(self._trials)), failing(self._trials, rate.loss_ratio)
        if not every:
            return None, []
        seen = [self._loads[trial.id].seen for trial in every]
        ended = exhausted(self._limits, seen[: len(least)], seen)
        if ended.resource is None and (further := exhausted(self._limits, seen)).resource is not None:
            return further, [trial.id for trial in every]
        return ended, [trial.id for trial in least]

    def _sustained(self, rates: Sequence[Rate]) -> Sustained:
        asks = self._asks
        burst_cps = max((rate.quoted_fps for rate in rates if rate.quoted_fps), default=None)
        if not asks.is_closing:
            words = f'work = "{asks.work}" leaves connections open, and limits are known of closed ones'
            return Sustained(None, None, words, None)
        prediction = model.predicted(self._limits, asks.hold_s)
        if prediction is None:
            words = "no limit says for how long a closed connection occupies a place"
            return Sustained(None, None, words, None)
        if burst_cps is not None and burst_cps < model.BORNE * prediction.cps:
            words = f"{prediction.limit.resource} bear {units.per_second(prediction.cps)}, more than a burst reaches"
            return Sustained(burst_cps, None, f"at most the burst rate: {words}", prediction, is_burst=True)
        if why := model.why_not(prediction, burst_cps, asks.sustain_within_s):
            return Sustained(prediction.cps, None, f"predicted, not confirmed: {why}", prediction)
        return self._confirmed(prediction)

    def _confirmed(self, prediction: Prediction) -> Sustained:
        wanted, asks = model.plan(prediction), self._asks
        self._bench.listener.phase("sustained", 2 + asks.confirm)
        over = self._opener.valid(OVERLOAD, self._load(wanted.overload_cps, wanted.overload_s), _figures)
        borne = self._opener.valid(BORNE, self._load(wanted.borne_cps, wanted.borne_s), _figures)
        carried_cps = over.client.completed / wanted.overload_s
        if over.judged.validity is not TrialValidity.VALID:
            why = f"predicted, not confirmed: of {units.per_second(wanted.overload_cps)} {over.judged.reason}"
            return Sustained(prediction.cps, None, why, prediction)
        failed, ratio = borne.client.opened - borne.client.completed, max(asks.failure_ratios)
        said = model.confirmed(prediction, carried_cps, failed, borne.client.opened, ratio)
        ended = exhausted(self._limits, [over.seen])
        doubled_cps, doubling = self._doubled(prediction, ended, carried_cps) if asks.confirm else (None, "")
        low_cps = min(said.borne_cps, carried_cps) if said.borne_cps else None
        return Sustained(carried_cps, low_cps, said.words, prediction, ended, said, False, doubled_cps, doubling)

    def _doubled(self, prediction: Prediction, ended: Exhausted, carried_cps: float) -> tuple[float | None, str]:
        """The sustained rate with twice the resource, and what that says."""
        balancer, resource = self._opener.balancer, ended.resource or prediction.limit.resource
        if not isinstance(balancer, Doubling):
            kind = self._bench.scenario.dut.kind
            return None, f"not confirmed by doubling: {kind} changes nothing while it runs; sweep a key of [service]"
        try:
            with balancer.doubled(resource) as what:
                now = model.predicted(self._opener.limits(), self._asks.hold_s)
                wanted = model.plan(now or prediction)
                over = self._opener.valid(DOUBLED, self._load(wanted.overload_cps, wanted.overload_s), _figures)
        except BenchError as error:
            return None, f"not confirmed by doubling: {error.message}"
        after_cps = over.client.completed / wanted.overload_s
        return after_cps, model.doubled(carried_cps, after_cps, f"{resource}, {what}")[1]

    def _summary(
        self, rates: Sequence[Rate], burst: Exhausted | None, ids: Sequence[str], sustained: Sustained
    ) -> ScenarioResult:
        no_rate = all(rate.status is RateStatus.REFUSED for rate in rates)
        return scenario_result(
            self._bench.scenario,
            self._bench.wall_s,
            taken=self._opener.measurements,
            threads=self._trials[-1].threads if self._trials else (),
            verdict=shown.verdict(rates[0], burst, sustained, self._limits, ids),
            traffic_s=math.fsum(trial.sent_duration_s for trial in self._trials),
            warnings=tuple(_warnings(rates, self._asks)),
            outcome=Outcome.FAILED if no_rate else Outcome.MEASURED,
            reason=rates[0].reason if no_rate else "",
            metrics=(*shown.metrics(rates, sustained), *_times(self._at(rates[0]))),
        )

    def _at(self, rate: Rate) -> Opened | None:
        """The clean trial nearest to a rate."""
        quoted = rate.quoted_fps
        clean = [trial for trial in self._trials if trial.validity is TrialValidity.VALID and not trial.lost]
        if quoted is None or not clean:
            return None
        return self._loads[min(clean, key=lambda trial: abs(trial.offered_fps - quoted)).id]


def _figures(opened: Opened) -> tuple[Metric, ...]:
    """A load's figures: connections completed per second of opening, and the share that failed."""
    client = opened.client
    opening_s = (client.opened + client.shortfall) / opened.load.rate_cps
    cps = client.completed / opening_s if opening_s else 0.0
    failed = opened.judged.due - client.completed
    return (
        Metric("completed", "1/s", cps, note=f"at {units.per_second(opened.load.rate_cps)}"),
        Metric("failed", "share", failed / opened.judged.due if opened.judged.due else 0.0),
    )


def _times(opened: Opened | None) -> tuple[Metric, ...]:
    """Latency near the burst rate."""
    if opened is None or opened.client.connect_ns is None:
        return ()
    note = f"since the connection was due, at {units.per_second(opened.load.rate_cps)}"
    times = opened.client.connect_ns
    return (
        Metric("connect p50", "ns", float(times.p50), note=note),
        Metric("connect p99", "ns", float(times.p99), note=note),
    )


def _warnings(rates: Sequence[Rate], asks: Connections) -> Iterator[str]:
    """Of rates that are none, and of intervals that are wider than was asked for."""
    why = (
        "the interval is wider than connections.relative_width asks for; a longer connections.max_traffic_s narrows it"
    )
    for rate in rates:
        if rate.quoted_fps is None:
            yield f"{shown.ratio_name(rate.loss_ratio)}: none; {shown.status_words(rate)}"
        elif _width(rate) > asks.relative_width:
            yield f"{shown.ratio_name(rate.loss_ratio)}: {why}"


def _width(rate: Rate) -> float:
    if rate.status is not RateStatus.FOUND or rate.lower_fps is None or not rate.upper_fps:
        return 0.0
    return (rate.upper_fps - rate.lower_fps) / rate.upper_fps


MEASURES: Final = (
    MeasureKind(
        made=Connections,
        finds="how many connections a second a balancer opens, in a burst and for ever, and which resource ends it",
        table=lambda _: CONNECTIONS,
        run=measure_connections,
        expected_s=expected_s,
        main=(
            "burst rate",
            "burst rate, ",
            "sustained rate",
            "sustained rate, doubled",
            "predicted sustained rate",
            "connect p50",
            "connect p99",
        ),
        needs={"port": 2, "backend": 1},
        made_of="load",
        is_served=True,
    ),
)

"""The measure `connections`: how many connections a second, in a burst and for ever, and what ends either.

Loads of connections are trials of a search: a connection that fails is a frame that is lost.
"""

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

from pinchpoint.account.connections import ledger_of, witness_of
from pinchpoint.causes.catalogue import UNEXPLAINED
from pinchpoint.causes.exhausted import exhausted
from pinchpoint.causes.signature import Candidate
from pinchpoint.dut.device import Keys
from pinchpoint.dut.registry import device_of
from pinchpoint.dut.services import Doubling
from pinchpoint.engine.connections import LEAST_BYTES, MOST_ANSWER, MOST_ASKED, MOST_BYTES, Account, Load
from pinchpoint.host.priority import kept_off
from pinchpoint.keys import kinds
from pinchpoint.keys.key import Key, Table
from pinchpoint.keys.kinds import Kind, MismatchError
from pinchpoint.keys.reader import Values
from pinchpoint.keys.source import Source
from pinchpoint.measure.connections import metrics as figures
from pinchpoint.measure.connections.failing import judged, rests_on, stage
from pinchpoint.measure.connections.metrics import Ended, Prediction, Sustained
from pinchpoint.measure.connections.steady import (
    MOST_LOADS,
    SHORTEST_S,
    CompletedRate,
    least_s,
    next_cps,
    room,
    settled,
)
from pinchpoint.measure.kind import Arrays, MeasureKind, asked
from pinchpoint.measure.served import SETUP_S, Opened, Opener, ends_of, percentiles
from pinchpoint.measure.standing import Standing
from pinchpoint.measure.summary import scenario_result, valid
from pinchpoint.model import units
from pinchpoint.model.errors import BenchError
from pinchpoint.model.measurement import CONFIDENCE, Bound, Measurement, Metric
from pinchpoint.model.result import Outcome, Rate, RateStatus, ScenarioResult
from pinchpoint.model.scenario import Scenario, Search, SearchMethod
from pinchpoint.model.trial import Trial, TrialValidity
from pinchpoint.model.warning import ResultWarning, Warn
from pinchpoint.search import find_rates

SEARCH, STEADY, OVERLOAD, BORNE, DOUBLED = "search", "steady", "overload", "borne", "doubled"
USUAL_SHARE = 0.7  # of the search's traffic, before its interval is narrow enough
FEWEST = 3  # trials with the lowest loads of those that failed: what ends the rate ends these
WORKS: Final = ("syn", "abandon", "reset", "request")
MOST_WEIGHT: Final = 1_000_000
MOST_REPEATS: Final = 8  # of a discarded trial


@dataclass(frozen=True)
class Connections:
    """How the rate at which connections can be opened is looked for."""

    kind: ClassVar[str] = "connections"
    failure_ratios: tuple[float, ...]
    min_cps: float
    max_cps: float
    trial_duration_s: float
    ramp_s: float
    max_traffic_s: float
    relative_width: float
    work: str
    requests: int
    hold_s: float
    timeout_s: float
    early_reuse: bool
    sustain_within_s: float
    confirm: bool
    steady_s: float = 0.0  # of runs that were stored before it
    request_bytes: int = LEAST_BYTES
    answer_bytes: int = LEAST_BYTES

    @property
    def search(self) -> Search:
        """The same search as for rates, of connections in place of frames."""
        return Search(
            method=SearchMethod.THRESHOLD,
            confidence=CONFIDENCE,
            max_traffic_s=self.max_traffic_s,
            min_load_fps=self.min_cps,
            max_load_fps=self.max_cps,
            loss_ratios=self.failure_ratios,
            trial_duration_s=self.trial_duration_s,
            initial_trial_duration_s=self.trial_duration_s,
            duration_sum_s=self.trial_duration_s,
            exceed_ratio=0.5,
            relative_width=self.relative_width,
            preceding_targets=0,
            expansion_coefficient=2,
            max_duration_s=86_400.0,
            max_repeats=MOST_REPEATS,
            drain_s=self.timeout_s,
        )

    @property
    def is_closing(self) -> bool:
        """Whether every connection is closed, so that its place is free some time after."""
        return all(part.partition(":")[0] in ("request", "reset") for part in self.work.split(","))


def work() -> Kind:
    """Kinds of work with weights, as the engine's `connect --work` takes them."""

    def read(value: Any) -> str:
        if not isinstance(value, str):
            raise MismatchError
        for part in value.split(","):
            name, _, weight = part.partition(":")
            kinds.check(name in WORKS and (":" not in part or weight.isdecimal()))
            kinds.check(not weight or 0 < int(weight) <= MOST_WEIGHT)
        return value

    work = f"(?:{'|'.join(WORKS)})(?::[0-9]+)?"
    return Kind(
        'kinds of work (syn, abandon, reset, request), each with a weight if there are several: "request:98,reset:2"',
        read,
        schema=kinds.full(f"{work}(?:,{work})*"),
    )


CONNECTIONS: Final = Table("connections",
    "How the maximum connection establishment rate is searched (RFC 9693, RFC 9411). There are three: the burst rate "
    "is of short trials that begin with an empty table of connections and empty queues; the completed rate is of long "
    "loads, once these have filled; the sustained rate can be held indefinitely. The engine's CPUs share clients and "
    "backends.", (
    Key("failure_ratios", kinds.numbers(0, 1, below=True),
        "One burst rate for each: the share of the connections that may fail.", [0.0, 1e-5]),
    Key("min_cps", kinds.number(1, 1e8), "Lowest rate tried, connections per second.", 10.0),
    Key("max_cps", kinds.number(1, 1e8), "Highest rate tried, connections per second.", 1e6),
    Key("trial_duration_s", kinds.number(0.05, 3600),
        "For how long a trial opens connections at its full rate, seconds. Part of the burst rate's definition.", 1.0),
    Key("ramp_s", kinds.number(0, 600), "How long a trial takes before that to reach its rate, seconds.", 0.0),
    Key("max_traffic_s", kinds.number(0.05, 86_400),
        "Seconds of trials after which the burst rate is given with the interval reached.", 20.0),
    Key("relative_width", kinds.number(0.0001, 0.5),
        "The search ends when the interval is this narrow, relative to its upper end.", 0.02),
    Key("work", work(), "What is done with a connection; docs/engine.md has the words.", "request"),
    Key("requests", kinds.integer(1, 100), "Requests of each.", 1),
    Key("request_bytes", kinds.integer(LEAST_BYTES, MOST_BYTES), "Bytes of a request.", LEAST_BYTES),
    Key("answer_bytes", kinds.size(LEAST_BYTES, MOST_ANSWER),
        f"Bytes of an answer; fewer cannot say who answered. More than {MOST_BYTES:,} are several segments, which the "
        "engine's backends send again where they are lost.", LEAST_BYTES),
    Key("hold_s", kinds.number(0, 600), "How long each is held open before its first request, seconds.", 0.0),
    Key("timeout_s", kinds.number(0.01, 60), "A connection that takes longer has failed, seconds.", 1.0),
    Key("early_reuse", kinds.boolean(),
        "Give connections random initial sequence numbers, as hosts do: newer kernels give up a closed connection "
        "whose port they need for one with a higher number. Otherwise all have the same number, so that closed "
        "connections keep their places for their whole time.", False),
    Key("sustain_within_s", kinds.number(0, 86_400),
        "The sustained rate is confirmed by traffic where that takes no longer than this, seconds; a small "
        "service.closed_s makes it short.", 60.0),
    Key("confirm", kinds.boolean(),
        "Then double the resource that ends it, and see whether the sustained rate doubles.", False),
    Key("steady_s", kinds.number(0, 3600),
        "The completed rate is measured by loads of this length, at the burst rate and just above what they complete: "
        "of their second half. 0: it is not measured. Seconds.", 4.0),
), measures=("connections",))  # fmt: skip


def check_keys(source: Source, values: Values, _arrays: Arrays, _keys: Keys) -> None:
    """A connection's requests have sequence numbers of their own."""
    requests, each = values.get("requests", 1), values.get("request_bytes", LEAST_BYTES)
    if requests * each > MOST_ASKED:
        expected = f"at most {MOST_ASKED // each:,} of {each:,} bytes, {MOST_ASKED:,} in a connection"
        source.mismatch(("connections", "requests"), expected, requests)


def expected_s(scenario: Scenario) -> float:
    """Seconds on a bench that stands; of the confirmation as far as the scenario says for how long places are held."""
    asks, held_s = asked(scenario, Connections), scenario.service.closed_s if scenario.service else None
    trials = USUAL_SHARE * asks.max_traffic_s / asks.trial_duration_s
    searching_s = trials * (asks.trial_duration_s + asks.ramp_s + asks.hold_s + asks.timeout_s + SETUP_S)
    if asks.is_closing and asks.steady_s:
        searching_s += (MOST_LOADS - 1) * (asks.steady_s + asks.hold_s + asks.timeout_s + SETUP_S)
    if held_s is None or not asks.is_closing:
        return searching_s
    confirming_s = (figures.OVERLOADED_TIMES + figures.BORNE_TIMES) * held_s
    if confirming_s > asks.sustain_within_s:
        return searching_s
    return searching_s + confirming_s + figures.OVERLOADED_TIMES * held_s * asks.confirm


def measure_connections(bench: Standing) -> ScenarioResult:
    """The rates of the bench's scenario. Raises what a load raises, finished loads kept."""
    with ends_of(bench) as ends, kept_off(bench.scenario.dut.cpus, bench.host):
        return _Measured(bench, Opener(ends, _figures)).result()


class _Measured:
    """The search, then what confirms the prediction."""

    def __init__(self, bench: Standing, opener: Opener) -> None:
        self._bench, self._opener, self._limits = bench, opener, opener.balancer.limits()
        self._asks = asked(bench.scenario, Connections)
        self._trials: list[Trial] = []
        self._loads: dict[str, Opened] = {}

    def result(self) -> ScenarioResult:
        """The burst rates, the sustained rate, and what ends either; failed where every rate was refused."""
        bench, asks = self._bench, self._asks
        bench.task.listener.phase(SEARCH, round(USUAL_SHARE * asks.max_traffic_s / asks.trial_duration_s))
        # Overloaded balancers complete few connections, since each takes several frames: that is no measure of more.
        searched = find_rates(self._trial, asks.search, time.monotonic, overload_measures=False).rates
        usable = [trial for trial in self._trials if trial.is_usable]
        rates = [judged(rate, usable) for rate in searched]
        ended = self._ended(rates[0], usable)
        steady, why = self._steady(rates[0])
        sustained = self._sustained(rates, steady)
        service = bench.scenario.service
        is_stamped = service is not None and service.timestamps
        no_rate, times = all(rate.status is RateStatus.REFUSED for rate in rates), tuple[Metric, ...]()
        if near := self._at(rates[0]):
            note = f"since the connection was due, at {units.per_second(near.load.rate_cps)}"
            times = (*percentiles("connect", near.client.connect_ns, note),)
            if asks.requests == 1:
                first_ns, last_ns = near.client.first_byte_ns, near.client.answer_ns
                times += (*percentiles("first byte", first_ns or last_ns, note),)
                times += (*percentiles("last byte", last_ns if first_ns else None, note),)
        return replace(
            scenario_result(bench.scenario, bench.wall_s, self._opener.measurements),
            threads=self._trials[-1].threads if self._trials else (),
            verdict=figures.verdict(rates[0], ended, steady, sustained, self._limits, device_of(bench.scenario)),
            traffic_s=self._opener.traffic_s,
            warnings=(
                *_warnings(rates, asks),
                *([Warn.NO_COMPLETED_RATE.of(why)] if why else []),
                *(unstamped([load.seen.account for load in self._loads.values()]) if is_stamped else ()),
            ),
            outcome=Outcome.FAILED if no_rate else Outcome.MEASURED,
            reason=rates[0].reason if no_rate else "",
            metrics=(*figures.metrics(rates, steady, sustained, ended.stage), *self._goodput(steady), *times),
        )

    def _goodput(self, steady: CompletedRate | None) -> Iterator[Metric]:
        """Bits of answers that clients get a second; not where some connections have none."""
        asks = self._asks
        if steady and asks.work == "request":
            each = 8 * asks.requests * asks.answer_bytes
            note = (
                f"{units.counted(asks.requests, 'answer')} of {asks.answer_bytes:,} bytes in each completed connection"
            )
            bound = Bound.AT_LEAST if steady.is_carried else None
            yield Metric("goodput", "bit/s", each * steady.completed_cps, note=note, bound=bound)

    def _trial(self, duration_s: float, load_cps: float) -> Trial:
        load = self._load(load_cps, duration_s + self._asks.ramp_s, self._asks.ramp_s)
        opened = self._opener.open(SEARCH, load)
        trial = _as_trial(self._opener.measurements[-1], opened, duration_s)
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
            request_bytes=asks.request_bytes,
            answer_bytes=asks.answer_bytes,
        )

    def _ended(self, rate: Rate, usable: Sequence[Trial]) -> Ended:
        """What ended the first burst rate, by the trials that say so, and where connections fail at any rate.

        Those with the lowest loads; all that failed where these explain nothing, as the few that a busy host failed.
        """
        failed = [trial for trial in self._trials if trial.is_whole and trial.loss_ratio > rate.loss_ratio]
        if not failed:
            return Ended((), (), None)
        failed.sort(key=lambda trial: trial.offered_fps)
        ids, seen = [trial.id for trial in failed], [self._loads[trial.id].seen for trial in failed]
        where = stage(self._loads[trial.id].client for trial in rests_on(rate, usable))
        ended = exhausted(self._limits, seen[:FEWEST], seen)
        if ended[0].cause is UNEXPLAINED and (further := exhausted(self._limits, seen))[0].cause is not UNEXPLAINED:
            return Ended(further, ids, where)
        return Ended(ended, ids[:FEWEST], where)

    def _steady(self, rate: Rate) -> tuple[CompletedRate | None, str]:
        """The highest rate of completed connections, and why there is none where there is a burst rate."""
        asks, load_cps = self._asks, rate.quoted_fps
        best: CompletedRate | None = None
        if load_cps is None or not asks.steady_s or not asks.is_closing:
            return None, ""
        if asks.steady_s < SHORTEST_S:
            return None, f"connections.steady_s is shorter than {units.seconds(SHORTEST_S)}, four samples"
        self._bench.task.listener.phase(STEADY, MOST_LOADS)
        for _ in range(MOST_LOADS):
            room_s, places = room(self._limits, load_cps, asks.hold_s)
            # From the middle of such a load on, those that were held complete as well.
            if room_s < (asks.steady_s if best else least_s(asks.trial_duration_s)) + 2 * asks.hold_s:
                why = f"{places} are taken {units.seconds(room_s)} after {units.per_second(load_cps)} began"
                return best, "" if best else why
            lasting_s = min(asks.steady_s + 2 * asks.hold_s, room_s)
            opened = self._opener.open(STEADY, replace(self._load(load_cps, lasting_s), is_sampled=True))
            steady = settled(self._limits, opened) if opened.judged.validity is TrialValidity.VALID else None
            if steady is None:
                return best, "" if best else opened.judged.reason or "the load ended early"
            best = max(best or steady, steady, key=lambda reached: reached.completed_cps)
            burst = max(0.0, load_cps - steady.completed_cps) * asks.trial_duration_s
            other_cps = next_cps(load_cps, steady, burst, asks.steady_s, asks.max_cps)
            if rate.status is RateStatus.AT_LEAST or other_cps is None:
                break
            load_cps = other_cps
        return best, ""

    def _sustained(self, rates: Sequence[Rate], steady: CompletedRate | None) -> Sustained:
        asks = self._asks
        if all(rate.status in (RateStatus.LOSES_ALWAYS, RateStatus.BELOW_MINIMUM) for rate in rates):
            return Sustained(None, None, "connections fail at any rate", None)
        burst_cps = max((rate.quoted_fps for rate in rates if rate.quoted_fps), default=None)
        most_cps = steady.completed_cps if steady else burst_cps
        if not asks.is_closing:
            words = f'work = "{asks.work}" leaves connections open, and limits are known of closed ones'
            return Sustained(None, None, words, None)
        prediction = figures.predicted(self._limits, asks.hold_s)
        if prediction is None:
            return figures.unpredicted(self._limits, steady)
        if most_cps is not None and most_cps < figures.BORNE * prediction.cps:
            return figures.unlimited(prediction, most_cps, steady)
        if why := figures.why_not(prediction, burst_cps, asks.sustain_within_s):
            cps = min(prediction.cps, most_cps or prediction.cps)
            return Sustained(cps, None, f"predicted, not confirmed: {why}", prediction)
        return self._confirmed(prediction, steady)

    def _confirmed(self, prediction: Prediction, steady: CompletedRate | None) -> Sustained:
        wanted, asks = figures.plan(prediction), self._asks
        most_cps = steady.completed_cps if steady and not steady.is_carried else math.inf
        self._bench.task.listener.phase("sustained", 2 + asks.confirm)
        over = self._opener.valid(OVERLOAD, self._load(wanted.overload_cps, wanted.overload_s))
        borne = self._opener.valid(BORNE, self._load(wanted.borne_cps, wanted.borne_s))
        if why := _unusable(over) or _unusable(borne):
            words = f"predicted, not confirmed: {why}"
            return Sustained(min(prediction.cps, most_cps), None, words, prediction)
        carried_cps = over.client.completed / wanted.overload_s
        failed, ratio = borne.client.opened - borne.client.completed, max(asks.failure_ratios)
        said = figures.confirmed(prediction, carried_cps, most_cps, failed, borne.client.opened, ratio)
        ended = exhausted(self._limits, [over.seen])
        doubled_cps, doubling = self._doubled(prediction, ended, carried_cps) if asks.confirm else (None, "")
        # What is carried counts connections that are completed after the last was opened: queues bear it, not for ever.
        cps = min(carried_cps, most_cps)
        return Sustained(
            cps,
            min(said.borne_cps, cps) if said.borne_cps else None,
            said.words,
            prediction,
            ended,
            said,
            is_completed=most_cps < carried_cps,
            doubled_cps=doubled_cps,
            doubling=doubling,
        )

    def _doubled(self, prediction: Prediction, ended: list[Candidate], carried_cps: float) -> tuple[float | None, str]:
        """The sustained rate with twice the resource, and what that says."""
        balancer, resource = self._opener.balancer, ended[0].cause.resource or prediction.limit.resource
        if not isinstance(balancer, Doubling):
            kind = self._bench.scenario.dut.kind
            return None, f"not confirmed by doubling: {kind} changes nothing while it runs; sweep a key of [service]"
        try:
            with self._opener.unwatched(), balancer.doubled(resource) as what:
                wanted = figures.plan(figures.predicted(balancer.limits(), self._asks.hold_s) or prediction)
                over = self._opener.valid(DOUBLED, self._load(wanted.overload_cps, wanted.overload_s))
        except BenchError as error:
            return None, f"not confirmed by doubling: {error.message}"
        if why := _unusable(over):
            return None, f"not confirmed by doubling: {why}"
        after_cps = over.client.completed / wanted.overload_s
        return after_cps, figures.doubled(carried_cps, after_cps, f"{resource}, {what}")

    def _at(self, rate: Rate) -> Opened | None:
        """The clean trial nearest to a rate."""
        quoted, clean = rate.quoted_fps, [trial for trial in valid(self._trials) if not trial.lost]
        if quoted is None or not clean:
            return None
        return self._loads[min(clean, key=lambda trial: abs(trial.offered_fps - quoted)).id]


def _as_trial(measurement: Measurement, opened: Opened, duration_s: float) -> Trial:
    """One load as the search wants it; rates are those after the ramp.

    What the device did not let in counts as offered and lost, what the generator did not open as not offered.
    """
    client, rate_cps, offered = opened.client, opened.load.rate_cps, opened.judged.due
    due, account = client.opened + client.shortfall, opened.seen.account
    return Trial(
        id=measurement.id,
        scenario=measurement.scenario,
        phase=str(measurement.account.get("phase", "")),
        repeat=measurement.repeat,
        started=measurement.started,
        duration_s=duration_s,
        load_fps=rate_cps,
        sent_duration_s=due / rate_cps,
        wall_s=measurement.wall_s,
        intended=due,
        offered=offered,
        received=min(client.completed, offered),
        streams=(),
        ledger=measurement.ledger or ledger_of(client, offered),
        witness=measurement.witness or witness_of(account),
        threads=measurement.threads,
        observed=measurement.observed,
        validity=measurement.validity,
        reason=measurement.reason,
        cause=measurement.cause,
    )


def _unusable(opened: Opened) -> str:
    """Why a load decides nothing; empty where its account can be used."""
    if opened.judged.validity is TrialValidity.VALID:
        return ""
    return f"of {units.per_second(opened.load.rate_cps)} {opened.judged.reason}"


def _figures(opened: Opened) -> tuple[Metric, ...]:
    """A load's figures: connections completed per second of opening, and the share that failed."""
    client, due, rate_cps = opened.client, opened.judged.due, opened.load.rate_cps
    opening_s = (client.opened + client.shortfall) / rate_cps
    cps = client.completed / opening_s if opening_s else 0.0
    figures = (
        Metric("completed", "1/s", cps, note=f"at {units.per_second(rate_cps)}"),
        Metric("failed", "share", (due - client.completed) / due if due else 0.0),
    )
    if client.goodput_bps is None or opened.load.answer_bytes <= MOST_BYTES:
        return figures
    again = opened.seen.account.retransmitted
    note = f"bytes of answers until the last; segments sent again: {again:,}"
    return (*figures, Metric("goodput", "bit/s", client.goodput_bps, note=note))


def unstamped(accounts: Sequence[Account]) -> Iterator[ResultWarning]:
    """Warnings where the device sends its clients, or its backends, no time stamp."""
    clients = [account.client for account in accounts if account.client]
    backends = [backend for account in accounts if account.server for backend in account.server.backends]
    answered, syns = sum(client.established for client in clients), sum(backend.syns for backend in backends)
    if answered and not any(client.stamped for client in clients):
        yield Warn.NO_TIMESTAMPS.of(f"none of {units.counted(answered, 'SYN')} was answered with one")
    if syns and not any(backend.stamped for backend in backends):
        yield Warn.NO_TIMESTAMPS.of(f"none of {units.counted(syns, 'SYN')} at the backends had one")


def _warnings(rates: Sequence[Rate], asks: Connections) -> Iterator[ResultWarning]:
    """Of rates that are none, and of intervals that are wider than was asked for; of what fails at any rate, once."""
    always = next((rate for rate in rates if rate.status is RateStatus.LOSES_ALWAYS), None)
    for rate in rates:
        name, known = figures.ratio_name(rate.loss_ratio), rate.interval
        if rate is always:
            yield Warn.FAILS_AT_ANY_RATE.of(figures.status_words(rate), rate=name)
        elif rate.quoted_fps is None and rate.status is not RateStatus.LOSES_ALWAYS:
            yield Warn.NO_RATE.of(figures.status_words(rate), rate=name)
        elif rate.status is RateStatus.FOUND and known and known.width > asks.relative_width:
            yield Warn.WIDE_INTERVAL.of(rate=name)


MEASURE: Final = MeasureKind(
    made=Connections,
    finds="how many connections a second a balancer opens, in a burst and indefinitely, and which resource limits it",
    table=lambda _: CONNECTIONS,
    run=measure_connections,
    expected_s=expected_s,
    check=check_keys,
    main=("burst rate", "burst rate, ", "fails at any rate", "completed rate", "burst", "goodput", "sustained rate",
          "sustained rate, doubled", "predicted sustained rate", "connect p50", "connect p99", "first byte p50",
          "first byte p99", "last byte p50", "last byte p99"),
    needs={"port": 2, "backend": 1},
    made_of="load",
    is_served=True,
)  # fmt: skip

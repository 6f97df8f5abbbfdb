"""The session of a bench that stands: trials of frames, from the warm-up to the result.

In the loop round each (`Loop`) it sends, accounts and judges. Before the first judged trial the DUT must have
learnt every five-tuple. A switch learns by misses: each new flow goes to its slow path once. With many rules that is so
slow that frames are lost meanwhile, and what was lost was not learnt. So rounds are sent, each no faster than the last
one was carried, until one misses nothing.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import takewhile

from pinchpoint.account import cpus, ledger
from pinchpoint.account.facts import Widths
from pinchpoint.account.validity import from_first_frame, judge
from pinchpoint.causes.catalogue import by_name
from pinchpoint.dut.registry import device_of
from pinchpoint.engine.instrument import HIGHEST_FPS, EngineResult, Heard, Instrument, TrialRequest, duration_of
from pinchpoint.engine.streams import Step
from pinchpoint.measure.loop import Loop
from pinchpoint.measure.standing import Listener
from pinchpoint.measure.summary import result_of
from pinchpoint.model.frames import five_tuples
from pinchpoint.model.groups import total
from pinchpoint.model.measurement import Metric
from pinchpoint.model.result import Ceiling, Rate, ScenarioResult
from pinchpoint.model.scenario import Scenario
from pinchpoint.model.trial import (
    LATENCY_PHASE,
    WARM_UP,
    Ledger,
    Sample,
    StreamCounts,
    Trial,
    TrialValidity,
    Witness,
)
from pinchpoint.model.warning import ResultWarning, Warn
from pinchpoint.observe.cpu import ticks_to_seconds
from pinchpoint.observe.snapshot import Bracket, Observation
from pinchpoint.search.rates import Measure, until_valid

COUNTERS_SETTLE_S = 1.2  # a device's threads may hand their counters over about once a second
COUNTERS_POLL_S = 0.05  # between two readings while they do; each reading takes a few milliseconds
EPOCHS = 256  # one byte of the signature
PRIMING_FPS, PRIMING_S = 100_000, 0.001
WAITING_FPS, WAITING_S = 10_000, 0.001
_SIBLINGS = "/sibling/"  # thread by thread; the witness holds their sums
FIRST_FPS = 1e6  # of a warm-up: too little to overload most benches
SLOWEST_FPS = 10e3
SHORTEST_S = 0.5
LONGEST_S = 30.0  # of all rounds together
LEARNT = 0.001  # misses, as a share of the frames sent: what a busy table turns over anyway
ROUND_TRIP = "round trip"  # the phase in which what was sent comes back to its sender


@dataclass(frozen=True)
class OverTime:
    """How a trial is looked at while it runs; its samples stay with it."""

    sample_s: float
    heard: Heard | None = None  # as they come; None: nobody needs them before the trial is over
    step: Step | None = None
    judged: Callable[[Trial], Trial] | None = None  # what else decides whether it is valid, before it is stored


def first_round(scenario: Scenario) -> tuple[float, float]:
    """(seconds, frames per second): every five-tuple twice, within reason."""
    load_fps = min(FIRST_FPS, scenario.search.max_load_fps)
    return min(LONGEST_S, max(SHORTEST_S, 2 * _flows(scenario) / load_fps)), load_fps


def _flows(scenario: Scenario) -> int:
    return sum(max(stream.flows, five_tuples(stream)) for stream in scenario.streams)


@dataclass(frozen=True)
class _Question:
    """What a trial is to answer."""

    phase: str
    duration_s: float
    load_fps: float
    burst_frames: int | None

    @property
    def is_unpaced(self) -> bool:
        return self.load_fps == HIGHEST_FPS

    def is_answered_by(self, trial: Trial) -> bool:
        load_fps = self.load_fps if self.is_unpaced else trial.load_fps
        return _may_answer(trial) and self == _Question(trial.phase, trial.duration_s, load_fps, trial.burst_frames)


def _may_answer(trial: Trial) -> bool:
    """Whether a recorded trial may: not one that was aborted, and a new bench needs its own warm-up."""
    return trial.validity is not TrialValidity.ABORTED and trial.phase != WARM_UP


class Session:
    """Runs the trials of one scenario on one bench, keeps each as it ends, and makes a result of them."""

    def __init__(
        self,
        scenario: Scenario,
        instrument: Instrument,
        bracket: Bracket,
        keep: Callable[[Trial], None],
        listener: Listener,
        recorded: Sequence[Trial] = (),
        began: float = 0.0,
        ceilings: Sequence[Ceiling] = (),
    ) -> None:
        """`recorded` are trials of an interrupted run: the same question gets the same answer again.

        `began` is on the monotonic clock, building included; `ceilings` are the generator's own on a bench of this
        shape, one for each mode of the cores.
        """
        self.scenario, self._device = scenario, device_of(scenario)
        self._graph = self._device.graph(scenario)
        self._instrument, self._bracket, self.listener = instrument, bracket, listener
        self._loop = Loop(scenario.name, keep, recorded, listener.trial_begins, listener.trial_ends, instrument.stop)
        self.stop, self.trials = self._loop.stop, self._loop.records  # `stop` is for signal handlers
        self.began, self.ceilings = began, ceilings
        self.not_learnt: ResultWarning | None = None  # what the warm-up has to warn of
        warm_up = list(takewhile(lambda trial: trial.phase == WARM_UP, recorded))
        self._former = warm_up[-1] if warm_up and any(map(_may_answer, recorded)) else None
        self._widths = Widths()
        self._is_slowed = False  # the latest trial, by a neighbour
        self._settled_at_s = 0.0  # on the monotonic clock: when the drops of frames of no trial are handed over

    def trial(
        self,
        phase: str,
        duration_s: float,
        load_fps: float,
        over_time: OverTime | None = None,
        burst_frames: int | None = None,
    ) -> Trial:
        """One trial, valid or not. Raises Interrupted, EngineError or DutError after keeping what there is.

        `burst_frames`: the trial is one burst of that many frames, which is what the load and the duration
        come to; at HIGHEST_FPS they are sent back to back. See `burst`.
        """
        question = _Question(phase, duration_s, load_fps, burst_frames)
        if recorded := self._loop.replayed(question.is_answered_by):
            return recorded
        request, samples = self._prepared(question, over_time), list[Sample]()
        started, began = datetime.now(UTC).isoformat(), time.monotonic()
        heard = () if over_time is None else (_into(samples, over_time.heard),)
        with self._loop.observing(self._bracket):
            result = self._instrument.run(request, *heard)
        trial = self._accounted(question, request, result)
        trial = replace(trial, started=started, wall_s=time.monotonic() - began, samples=tuple(samples))
        if over_time is not None and over_time.judged is not None:
            trial = over_time.judged(trial)
        return self._loop.kept(trial)

    @property
    def latest(self) -> Trial | None:
        """The last trial; after a warm-up, that of the run whose trials are about to be retraced, if there is one."""
        if self._former and all(trial.phase == WARM_UP for trial in self.trials):
            return self._former
        return self.trials[-1] if self.trials else None

    @property
    def most_offered_fps(self) -> float | None:
        """The highest rate that the generator was seen to offer; None without trials."""
        return max((trial.offered_fps for trial in self.trials), default=None)

    def burst(self, phase: str, frames: int, rate_fps: float | None) -> Trial:
        """One burst of this many frames, at a rate or (None) back to back; its `load_fps` is what was offered then."""
        rate_fps = rate_fps or HIGHEST_FPS
        return self.trial(phase, duration_of(frames, rate_fps), rate_fps, burst_frames=frames)

    def warm_up(self) -> None:
        """Send until the DUT has learnt every five-tuple; that it has not is a warning of the result."""
        self.listener.phase(WARM_UP, 1)
        duration_s, load_fps = first_round(self.scenario)
        left_s = LONGEST_S
        while True:
            trial = self.trial(WARM_UP, duration_s, load_fps)
            left_s -= duration_s
            missed = total(load.slow_path for load in trial.threads)  # lookups that no cache answered
            if missed is None or missed <= LEARNT * trial.offered:
                return
            if left_s <= 0:
                advice = by_name("slow-path").advice(self._device.advice("slow-path", trial.observed))
                figures = {"missed": missed, "offered": trial.offered, "warm_up_s": LONGEST_S}
                self.not_learnt = Warn.NOT_LEARNT.of(advice=advice, **figures)
                return
            carried_fps = trial.received / trial.sent_duration_s if trial.sent_duration_s else 0.0
            load_fps = min(load_fps, max(SLOWEST_FPS, carried_fps)) if trial.lost else first_round(self.scenario)[1]
            duration_s = min(left_s, max(SHORTEST_S, 1.1 * _flows(self.scenario) / load_fps))

    def valid(self, measure: Measure, duration_s: float, load_fps: float) -> Trial:
        """The first valid trial within search.max_repeats, else the last one."""
        return until_valid(measure, duration_s, load_fps, self.scenario.search.max_repeats)

    def repeated(
        self, count: int, measure: Measure, duration_s: float, load_fps: float
    ) -> tuple[list[Trial], Trial | None]:
        """As many valid trials as are wanted; or those before one that stayed invalid, and that one."""
        trials = list[Trial]()
        for _ in range(count):
            trial = self.valid(measure, duration_s, load_fps)
            if trial.validity is not TrialValidity.VALID:
                return trials, trial
            trials.append(trial)
        return trials, None

    def result(
        self,
        metrics: Iterable[Metric] = (),
        warnings: Iterable[ResultWarning | None] = (),
        *,
        rates: Sequence[Rate] = (),
        failed: str = "",
        of: Sequence[Trial] | None = None,
    ) -> ScenarioResult:
        """The result; see `result_of`."""
        wall_s, told = time.monotonic() - self.began, (self.not_learnt, *warnings)
        return result_of(self.scenario, self.trials, wall_s, metrics, told, rates=rates, failed=failed, of=of)

    def _prepared(self, question: _Question, over_time: OverTime | None) -> TrialRequest:
        """What the engine is asked for, once the trial may begin: what was sent before it is settled."""
        trial_id = self._loop.begin(question.duration_s, question.load_fps)
        if self._is_slowed and self.scenario.validity.quiet_within_s:
            self._await_quiet()
        if question.burst_frames is not None:
            self._prime()
        time.sleep(max(0.0, self._settled_at_s - time.monotonic()))
        request = self._request(trial_id, question.duration_s, question.load_fps)
        burst_frames = question.burst_frames if question.is_unpaced else None
        request = replace(request, there_and_back=question.phase == ROUND_TRIP, burst_frames=burst_frames)
        if over_time is None:
            return request
        return replace(request, sample_s=over_time.sample_s, step=over_time.step, live=over_time.heard is not None)

    def _accounted(self, question: _Question, request: TrialRequest, result: EngineResult) -> Trial:
        """The trial, also of a DUT that did not live to its end."""
        seen, account = self._settled(result)
        if question.is_unpaced and result.sent_duration_s:  # nobody intends that: the burst is as fast as it is
            intended = sum(stream.intended or 0 for stream in result.streams)
            request = replace(request, load_fps=intended / result.sent_duration_s)
        trial = self._assemble(request, question.phase, result, seen, account)
        self._is_slowed = self._widths.is_slowed(trial)
        if question.burst_frames is not None:
            trial = replace(trial, burst_frames=question.burst_frames)
            trial = from_first_frame(trial, paced=not question.is_unpaced)
        return trial

    def _settled(self, result: EngineResult) -> tuple[Observation, Ledger]:
        """What was seen and the account of it, with counters as they are once every frame is explained.

        Or after COUNTERS_SETTLE_S: then no counter names what became of the rest.
        """
        until_s = time.monotonic() + COUNTERS_SETTLE_S
        first = seen = self._loop.seen
        is_last, account = self._loop.died is not None, self._ledger(result, seen)
        while account.unexplained and not is_last:
            is_last = time.monotonic() + COUNTERS_POLL_S >= until_s
            time.sleep(min(COUNTERS_POLL_S, max(0.0, until_s - time.monotonic())))
            late = self._loop.look(self._bracket)
            if self._loop.died is not None:
                return first, self._ledger(result, first)
            # The account's counters as read late; what the host did as read when the frames ended: so a trial that
            # lost frames is watched for disturbances no longer than one that lost none.
            changes = ledger.settled(first.differences, late.differences, self._graph)
            went_back = tuple(dict.fromkeys((*first.went_back, *late.went_back)))
            seen = replace(first, differences=changes, went_back=went_back)
            account = self._ledger(result, seen)
        return seen, account

    def _prime(self) -> None:
        """A few frames, of no trial, before a burst.

        A virtio port frees what the switch has taken of earlier frames when it sends the next ones: up to
        0.1 ms in which the engine's core would stand still at the beginning of the burst.
        """
        self._run_aside(replace(self._request("priming", PRIMING_S, PRIMING_FPS), probe_cores=()))

    def _await_quiet(self) -> None:
        """Wait for the neighbour to leave, which slowed the trial before: neighbours stay for a while.

        In a run of its own, so that nothing that happens meanwhile is taken for a disturbance of the trial.
        """
        patience_s = self.scenario.validity.quiet_within_s
        self._run_aside(replace(self._request("waiting", WAITING_S, WAITING_FPS), quiet_within_s=patience_s))

    def _run_aside(self, request: TrialRequest) -> None:
        """Some frames of no trial and in no account, distinguished from the next trial's by the epoch.

        The drops of those that are lost may be counted up to COUNTERS_SETTLE_S later: the trial begins after that,
        since its own account must not contain them.
        """
        with self._loop.running(self._bracket.open):
            result = self._instrument.run(replace(request, epoch=(request.epoch + EPOCHS // 2) % EPOCHS))
        if any(stream.received is None or stream.received < stream.offered for stream in result.streams):
            self._settled_at_s = time.monotonic() + COUNTERS_SETTLE_S

    def _request(self, trial_id: str, duration_s: float, load_fps: float) -> TrialRequest:
        scenario = self.scenario
        return TrialRequest(
            trial_id=trial_id,
            epoch=self._loop.number % EPOCHS,
            duration_s=duration_s,
            drain_s=scenario.search.drain_s,
            load_fps=load_fps,
            streams=scenario.streams,
            probe_cores=scenario.probed_cores,
        )

    def _ledger(self, result: EngineResult, seen: Observation) -> Ledger:
        ports = [port.name for port in self.scenario.ports]
        return ledger.build(result, seen.flat(), ports, self._graph, seen.went_back)

    def _assemble(
        self,
        request: TrialRequest,
        phase: str,
        result: EngineResult,
        observed: Observation,
        account: Ledger,
    ) -> Trial:
        scenario, seen, load_fps = self.scenario, observed.flat(), request.load_fps
        witness, died = _witness(result, seen), self._loop.died
        death = "" if died is None else died.message
        judgement = judge(result, account, witness, load_fps, scenario.smallest_ring, scenario.validity, died=death)
        return Trial(
            id=request.trial_id,
            scenario=scenario.name,
            phase=phase,
            repeat=sum(trial.phase == phase and trial.load_fps == load_fps for trial in self.trials),
            started="",
            duration_s=request.duration_s,
            load_fps=load_fps,
            sent_duration_s=result.sent_duration_s,
            wall_s=0.0,
            intended=sum(stream.intended or 0 for stream in result.streams),
            offered=account.offered,
            received=account.received,
            streams=_kept(result.streams, phase),
            ledger=account,
            witness=witness,
            threads=self._device.loads(seen, result.sent_duration_s),
            observed={name: value for name, value in seen.items() if _SIBLINGS not in name} | _engine_facts(result),
            validity=judgement.validity,
            reason=judgement.reason,
            cause=judgement.cause,
        )


def stolen_s(seen: Mapping[str, float]) -> dict[int, float]:
    """By CPU, the time that the hypervisor gave to others, seconds."""
    names = (name for name in seen if name.startswith("host/cpu/") and name.endswith("/steal_ticks"))
    return {int(name.split("/")[2]): ticks_to_seconds(seen[name]) for name in names}


def _into(samples: list[Sample], live: Heard | None) -> Heard:
    """What keeps a trial's samples, and hands them on if somebody waits for them."""

    def heard(sample: Sample) -> None:
        samples.append(sample)
        if live is not None:
            live(sample)

    return heard


def _kept(streams: Sequence[StreamCounts], phase: str) -> tuple[StreamCounts, ...]:
    """Without the histograms, a few kilobytes each, unless latency is what the trial is about."""
    return tuple(stream if phase == LATENCY_PHASE else replace(stream, latency_histogram="") for stream in streams)


def _witness(result: EngineResult, seen: Mapping[str, float]) -> Witness:
    return Witness(
        workers=result.workers,
        dut_threads=cpus.dut_threads(seen, result.probe_occupied_ns),
        steal_s=stolen_s(seen),
        cache_line_before_ns=result.cache_line_before_ns,
        cache_line_after_ns=result.cache_line_after_ns,
        loopback=result.loopback,
        ipc=result.ipc,
        siblings_s=cpus.siblings_s(seen),
    )


def _engine_facts(result: EngineResult) -> dict[str, float]:
    facts = {f"engine/pacing/{name}": value for name, value in result.pacing.items()}
    for port in result.ports:
        own = {"foreign": port.foreign, "late": port.late, "answered": port.answered, "rx_missed": port.rx_missed}
        line = {"speed_bps": port.speed_bps, "tx_share": port.tx_share, "rx_share": port.rx_share}
        told: dict[str, float | None] = {**own, **port.stats, **line, "longest_silence_s": port.longest_silence_s}
        if port.longest_silence_s is not None:
            told["longest_silence_at_s"] = port.longest_silence_at_s or 0.0
        facts |= {f"engine/port/{port.name}/{name}": value for name, value in told.items() if value is not None}
    return facts

"""Measures that send frames: the engine of a bench that stands, and a session from the warm-up to the result.

Before the first judged trial the DUT must have learnt every five-tuple.

A switch learns by misses: each new flow goes to its slow path once. With many rules
that is so slow that frames are lost meanwhile, and what was lost was not learnt. So
rounds are sent, each no faster than the last one was carried, until one misses nothing.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from pinchpoint.causes.catalogue import by_name
from pinchpoint.dut.registry import device_of
from pinchpoint.dut.setup import await_engine_pages
from pinchpoint.engine import protocol
from pinchpoint.engine.instrument import Instrument
from pinchpoint.engine.multi_engine import End, JoinedInstrument, Reflector
from pinchpoint.engine.process import ProcessInstrument, Start, find_engine
from pinchpoint.host.interface import Host
from pinchpoint.host.priority import kept_off
from pinchpoint.measure.served import established
from pinchpoint.measure.standing import Listener, Standing
from pinchpoint.measure.summary import result_of
from pinchpoint.measure.trial import Measurer
from pinchpoint.model.frames import five_tuples
from pinchpoint.model.groups import total
from pinchpoint.model.measurement import Metric
from pinchpoint.model.result import Ceiling, Rate, ScenarioResult
from pinchpoint.model.scenario import Scenario
from pinchpoint.model.trial import WARM_UP, Trial, TrialValidity
from pinchpoint.model.warning import ResultWarning, Warn
from pinchpoint.search.rates import Measure, until_valid

FIRST_FPS = 1e6  # too little to overload most benches
SLOWEST_FPS = 10e3
SHORTEST_S = 0.5
LONGEST_S = 30.0  # of all rounds together
LEARNT = 0.001  # misses, as a share of the frames sent: what a busy table turns over anyway


def first_round(scenario: Scenario) -> tuple[float, float]:
    """(seconds, frames per second): every five-tuple twice, within reason."""
    load_fps = min(FIRST_FPS, scenario.search.max_load_fps)
    return min(LONGEST_S, max(SHORTEST_S, 2 * _flows(scenario) / load_fps)), load_fps


def warm_up(scenario: Scenario, measurer: Measurer) -> ResultWarning | None:
    """Send until the DUT has learnt; that it has not learnt everything is a warning."""
    duration_s, load_fps = first_round(scenario)
    left_s = LONGEST_S
    while True:
        trial = measurer.trial(WARM_UP, duration_s, load_fps)
        left_s -= duration_s
        missed = total(load.slow_path for load in trial.threads)  # lookups that no cache answered
        if missed is None or missed <= LEARNT * trial.offered:
            return None
        if left_s <= 0:
            advice = by_name("slow-path").advice(device_of(scenario).advice("slow-path", trial.observed))
            return Warn.NOT_LEARNT.of(advice=advice, missed=missed, offered=trial.offered, warm_up_s=LONGEST_S)
        carried_fps = trial.received / trial.sent_duration_s if trial.sent_duration_s else 0.0
        load_fps = min(load_fps, max(SLOWEST_FPS, carried_fps)) if trial.lost else first_round(scenario)[1]
        duration_s = min(left_s, max(SHORTEST_S, 1.1 * _flows(scenario) / load_fps))


def _flows(scenario: Scenario) -> int:
    return sum(max(stream.flows, five_tuples(stream)) for stream in scenario.streams)


@contextmanager
def measuring(bench: Standing) -> Iterator[Measurer]:
    """The measurer of the bench's trials, its engine open; the engine ends with the block.

    Connections that the scenario's frames belong to are opened first. Raises EngineError where they cannot.
    """
    task = bench.task
    wanted = bench.scenario.established
    scenario = established(bench, wanted) if wanted else bench.scenario
    instrument = _instrument_of(bench)
    with opened(bench, instrument):
        task.note_facts(bench.live.ready())
        measurer = Measurer(scenario, instrument, bench.bracket(), task.keep, task.listener, task.trials)
        task.on_stoppable(measurer)
        yield measurer


@contextmanager
def opened(bench: Standing, instrument: Instrument) -> Iterator[None]:
    """The engine has its ports inside the block, and ends with it."""
    try:
        await_engine_pages(bench.setup)
        bench.task.note_facts(instrument.open())
        yield
    finally:
        instrument.close()


def engine_process(bench: Standing, ports: protocol.Open, host: Host, command: Sequence[str]) -> ProcessInstrument:
    """An engine of the bench, to be started on that host."""
    environment = dict(bench.setup.places.environment)
    return ProcessInstrument(ports, host, command=command, environment=environment, log=bench.task.engine_log)


def _instrument_of(bench: Standing) -> Instrument:
    """The engine of the bench, or its engines, each to be started on its own host."""
    setup, error_us, log = bench.setup, bench.scenario.engine.clock_error_us, bench.task.engine_log
    if not bench.scenario.is_multi_host:
        return engine_process(bench, setup.engine, bench.host, bench.engine)
    environment, ends = dict(setup.places.environment), list[End]()
    for end in setup.engines:
        command = [find_engine(end.host)]
        engine = engine_process(bench, end.engine, end.host, command)
        start = Start(command=command, environment=environment, log=log)
        reflectors = [Reflector(end.engine, own, end.host, **start) for own in end.engine.workers]
        is_device = end.site == bench.scenario.site
        ends.append(End(end.site.name, is_device, end.ports, engine, tuple(reflectors)))
    return JoinedInstrument(ends, None if error_us is None else error_us * 1e3)


@dataclass
class FrameSession:
    """A measure of frames between its warm-up and its result."""

    scenario: Scenario
    measurer: Measurer
    listener: Listener
    began: float  # on the monotonic clock, building included
    ceilings: Sequence[Ceiling] = ()  # the generator's own on a bench of this shape, one for each mode of the cores
    not_learnt: ResultWarning | None = None  # what the warm-up has to warn of

    @property
    def most_offered_fps(self) -> float | None:
        """The highest rate that the generator was seen to offer; None without trials."""
        return max((trial.offered_fps for trial in self.measurer.trials), default=None)

    def warm_up(self) -> None:
        """Send until the DUT has learnt every five-tuple; that it has not is a warning of the result."""
        self.listener.phase(WARM_UP, 1)
        self.not_learnt = warm_up(self.scenario, self.measurer)

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
        trials, wall_s = self.measurer.trials, time.monotonic() - self.began
        told = (self.not_learnt, *warnings)
        return result_of(self.scenario, trials, wall_s, metrics, told, rates=rates, failed=failed, of=of)


@contextmanager
def frame_session(bench: Standing) -> Iterator[FrameSession]:
    """The engine is open, and what the lab does stays off the device's CPUs; both end with the block."""
    with measuring(bench) as measurer, kept_off(bench.scenario.dut.cpus, bench.host):
        yield FrameSession(bench.scenario, measurer, bench.task.listener, bench.began, bench.ceilings)


def over_frames(measure: Callable[[FrameSession], ScenarioResult]) -> Callable[[Standing], ScenarioResult]:
    """A measure on a bench that stands. It raises what a trial raises, finished trials kept."""

    def run(bench: Standing) -> ScenarioResult:
        with frame_session(bench) as session:
            return measure(session)

    return run

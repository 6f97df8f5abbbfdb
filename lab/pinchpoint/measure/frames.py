"""Measures that send frames: the engine of a bench that stands, opened for a session."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pinchpoint.dut.setup import await_engine_pages
from pinchpoint.engine.instrument import Instrument
from pinchpoint.engine.multi_engine import End, JoinedInstrument, Reflector
from pinchpoint.engine.process import Start, find_engine
from pinchpoint.host.priority import kept_off
from pinchpoint.measure.served import established
from pinchpoint.measure.session import Session
from pinchpoint.measure.standing import Standing, engine_process
from pinchpoint.model.result import ScenarioResult
from pinchpoint.model.trial import Trial


@contextmanager
def measuring(bench: Standing) -> Iterator[Session]:
    """The session of the bench, its engine open; the engine ends with the block.

    Connections that the scenario's frames belong to are opened first. Raises EngineError where they cannot.
    """
    task = bench.task
    wanted = bench.scenario.established
    scenario = established(bench, wanted) if wanted else bench.scenario
    instrument = _instrument_of(bench)
    with opened(bench, instrument):
        task.note_facts(bench.live.ready())
        of_task = task.keep, task.listener, task.recorded(Trial)
        session = Session(scenario, instrument, bench.bracket(), *of_task, bench.began, bench.ceilings)
        task.on_stoppable(session)
        yield session


@contextmanager
def opened(bench: Standing, instrument: Instrument) -> Iterator[None]:
    """The engine has its ports inside the block, and ends with it."""
    try:
        await_engine_pages(bench.setup)
        bench.task.note_facts(instrument.open())
        yield
    finally:
        instrument.close()


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


def over_frames(measure: Callable[[Session], ScenarioResult]) -> Callable[[Standing], ScenarioResult]:
    """A measure on a bench that stands. It raises what a trial raises, finished trials kept."""

    def run(bench: Standing) -> ScenarioResult:
        with measuring(bench) as session, kept_off(bench.scenario.dut.cpus, bench.host):
            return measure(session)

    return run

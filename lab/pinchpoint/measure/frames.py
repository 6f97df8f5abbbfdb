"""The engine and the observers of a bench that stands, for measures that send frames."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pinchpoint.dut.setup import await_engine_pages
from pinchpoint.engine import protocol
from pinchpoint.engine.instrument import Instrument
from pinchpoint.engine.multi_engine import End, JoinedInstrument, Reflector
from pinchpoint.engine.process import ProcessInstrument, find_engine
from pinchpoint.host.interface import Host
from pinchpoint.host.processes import ENVIRONMENT_MARK
from pinchpoint.measure.established import established
from pinchpoint.measure.standing import Standing
from pinchpoint.measure.trial import Measurer


@contextmanager
def measuring(bench: Standing) -> Iterator[Measurer]:
    """The measurer of the bench's trials, its engine open; the engine ends with the block.

    Connections that the scenario's frames belong to are opened first. Raises EngineError where they cannot.
    """
    record = bench.record
    scenario = established(bench) if bench.scenario.established else bench.scenario
    instrument = instrument_of(bench)
    try:
        await_engine_pages(bench.setup)
        record.note_facts({**instrument.open(), **bench.live.ready()})
        measurer = Measurer(scenario, instrument, bench.bracket(), record.keep, bench.listener, bench.recorded.trials)
        bench.on_stoppable(measurer)
        yield measurer
    finally:
        instrument.close()


def instrument_of(bench: Standing) -> Instrument:
    """The engine of the bench, or its engines, each to be started on its own host."""
    setup, error_us = bench.setup, bench.scenario.engine.clock_error_us
    environment = {ENVIRONMENT_MARK: setup.places.bench_id}

    def started(request: protocol.Open, host: Host, command: Sequence[str]) -> ProcessInstrument:
        return ProcessInstrument(request, host, command=command, environment=environment, log=bench.record.engine_log)

    if not setup.engines:
        return started(setup.engine, bench.host, bench.engine)
    ends = []
    for end in setup.engines:
        command, log = [find_engine(end.host)], bench.record.engine_log
        engine = started(end.engine, end.host, command)
        reflectors = [Reflector(end.engine, own, end.host, command, environment, log) for own in end.engine.workers]
        is_device = end.site.remote == bench.scenario.remote
        ends.append(End(end.site.host, is_device, end.site.ports, engine, tuple(reflectors)))
    return JoinedInstrument(ends, None if error_us is None else error_us * 1e3)

"""The engine and the observers of a bench that stands, for measures that send frames."""

from collections.abc import Iterator
from contextlib import contextmanager

from pinchpoint.dut.setup import await_engine_pages, collectors
from pinchpoint.engine.process import ProcessInstrument
from pinchpoint.host.processes import ENVIRONMENT_MARK
from pinchpoint.measure.established import established
from pinchpoint.measure.standing import Standing
from pinchpoint.measure.trial import Measurer
from pinchpoint.observe.bracket import Bracket


@contextmanager
def measuring(bench: Standing) -> Iterator[Measurer]:
    """The measurer of the bench's trials, its engine open; the engine ends with the block.

    Connections that the scenario's frames belong to are opened first. Raises EngineError where they cannot.
    """
    places, record = bench.setup.places, bench.record
    scenario = established(bench) if bench.scenario.established else bench.scenario
    instrument = ProcessInstrument(
        bench.setup.engine,
        command=bench.engine,
        environment={ENVIRONMENT_MARK: places.bench_id},
        log=record.engine_log,
    )
    try:
        await_engine_pages(bench.setup)
        facts = {**instrument.open(), **bench.live.ready()}
        bracket = Bracket(collectors(bench.setup, bench.live))
        record.note_facts({**facts, **{f"cannot observe {k}": why for k, why in bracket.cannot.items()}})
        measurer = Measurer(scenario, instrument, bracket, record.keep, bench.listener, bench.recorded.trials)
        bench.on_stoppable(measurer)
        yield measurer
    finally:
        instrument.close()

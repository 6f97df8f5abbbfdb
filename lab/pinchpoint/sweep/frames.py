"""The engine and the observers of a bench that stands, for measures that send frames."""

from collections.abc import Iterator
from contextlib import contextmanager

from pinchpoint.bench.resource import ENVIRONMENT_MARK
from pinchpoint.dut.ovs import switch_versions
from pinchpoint.dut.settings import check_queues
from pinchpoint.engine.process import ProcessInstrument
from pinchpoint.observe.bracket import Bracket
from pinchpoint.sweep.measure import Measurer
from pinchpoint.sweep.setup import collectors
from pinchpoint.sweep.standing import Standing


@contextmanager
def measuring(bench: Standing) -> Iterator[Measurer]:
    """The measurer of the bench's trials, its engine open; the engine ends with the block."""
    places, record = bench.setup.places, bench.record
    instrument = ProcessInstrument(
        bench.setup.engine,
        command=bench.engine,
        environment={ENVIRONMENT_MARK: places.bench_id},
        log=record.engine_log,
    )
    try:
        facts = {**instrument.open(), **switch_versions(places)}
        check_queues(bench.scenario, bench.control)
        bracket = Bracket(collectors(bench.setup, bench.control))
        record.note_facts({**facts, **{f"cannot observe {k}": why for k, why in bracket.cannot.items()}})
        measurer = Measurer(bench.scenario, instrument, bracket, record.keep, bench.listener, bench.recorded.trials)
        bench.on_stoppable(measurer)
        yield measurer
    finally:
        instrument.close()

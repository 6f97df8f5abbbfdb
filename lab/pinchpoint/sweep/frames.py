"""The engine and the observers of a bench that stands, for measures that send frames."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pinchpoint.bench.resource import ENVIRONMENT_MARK
from pinchpoint.dut.ovs.bench import switch_versions
from pinchpoint.dut.ovs.settings import check_queues
from pinchpoint.dut.ovs.unixctl import UnixctlError
from pinchpoint.engine.process import ProcessInstrument
from pinchpoint.observe.bracket import Bracket
from pinchpoint.sweep.measure import Measurer
from pinchpoint.sweep.setup import await_engine_pages, collectors
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
        await_engine_pages(bench.scenario)
        facts = {**instrument.open(), **switch_versions(bench.scenario, places), **limit_flows(bench)}
        check_queues(bench.scenario, bench.control)
        bracket = Bracket(collectors(bench.setup, bench.control))
        record.note_facts({**facts, **{f"cannot observe {k}": why for k, why in bracket.cannot.items()}})
        measurer = Measurer(bench.scenario, instrument, bracket, record.keep, bench.listener, bench.recorded.trials)
        bench.on_stoppable(measurer)
        yield measurer
    finally:
        instrument.close()


def limit_flows(bench: Standing) -> Mapping[str, str]:
    """Make the scenario's limit of megaflows the present one, not only the highest there may be.

    The switch begins at 10,000 and adds 1,000 with each dump of its flows; a warm-up that outruns
    that would end with most flows refused. Returns what to be noted.
    """
    limit = bench.scenario.dut.tuning.flow_limit
    if limit is None:
        return {}
    try:
        bench.control.call("upcall/set-flow-limit", str(limit))
    except UnixctlError as error:
        return {"dut.flow_limit": f"grows to {limit:,} by itself; it could not be set at once: {error}"}
    return {"dut.flow_limit": f"{limit:,} from the start"}

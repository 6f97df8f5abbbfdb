"""A balancer that stands inside a test, and what verifies its service."""

import time
from contextlib import closing, contextmanager

from pinchpoint.dut import registry
from pinchpoint.dut.setup import prepare
from pinchpoint.engine.process import find_engine
from pinchpoint.measure.listener import Listener
from pinchpoint.measure.registry import measure_of
from pinchpoint.measure.standing import Record, Standing
from pinchpoint.run.bench import standing_bench


@contextmanager
def serving(wanted):
    """The bench of `wanted` stands inside the block; hands out its device and what takes the scenario's measure."""
    setup = prepare(wanted)
    missing = [probe for probe in registry.device_of(wanted).needs(wanted) if not probe.ok]
    assert not missing, missing
    record = Record(lambda _: None, lambda _: None, lambda *_: None, lambda _: None, lambda *_: None, None)
    with standing_bench(setup, Listener()), closing(setup.bench.open()) as live:
        bench = Standing(setup, live, [find_engine()], record, Listener(), time.monotonic())
        yield live, lambda: measure_of(wanted).run(bench)


def counted(live):
    """Every counter and gauge of the device."""
    found = {}
    for collector in live.collectors():
        assert (why := collector.can_run()) is None, why
        snapshot = collector.snapshot()
        found |= {**snapshot.counters, **snapshot.gauges}
    return found

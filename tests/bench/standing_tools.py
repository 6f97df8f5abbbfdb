"""A bench that stands inside a test, with what runs a trial on it."""

import time
from contextlib import closing, contextmanager
from functools import partial

from pinchpoint.dut import registry
from pinchpoint.dut.setup import prepare
from pinchpoint.engine.process import find_engine
from pinchpoint.host.local import Local
from pinchpoint.host.machines import Machines
from pinchpoint.measure.frames import measuring
from pinchpoint.measure.standing import Listener, Standing, Task, standing_bench


@contextmanager
def standing(wanted):
    """The bench of `wanted` stands inside the block; hands out its device and what runs a trial at a load."""
    setup = prepare(wanted, Machines(Local()))
    missing = [probe for probe in registry.device_of(setup.scenario).needs(setup.scenario, Local()) if not probe.ok]
    assert not missing, missing
    with standing_bench(setup, Listener()), closing(setup.bench.open()) as live:
        bench = Standing(setup, live, [find_engine(Local())], Task(), time.monotonic())
        with measuring(bench) as measurer:
            yield live, partial(measurer.trial, "search", 0.5)

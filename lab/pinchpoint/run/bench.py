"""A bench for as long as it is needed."""

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from pinchpoint.bench.builder import Builder
from pinchpoint.dut.setup import EngineEnd, Setup
from pinchpoint.host.guest import Guest
from pinchpoint.host.interface import CommandFailed
from pinchpoint.host.priority import preferred
from pinchpoint.measure.standing import Listener, Standing, Task
from pinchpoint.model.errors import PinchpointError


@contextmanager
def live_bench(setup: Setup, engine: Sequence[str], task: Task) -> Iterator[Standing]:
    """The bench stands inside the block, its device open to be asked. Raises what building raises."""
    began = time.monotonic()
    with preferred(), standing_bench(setup, task.listener), opened(setup, engine, task, began) as bench:
        yield bench


@contextmanager
def opened(setup: Setup, engine: Sequence[str], task: Task, began: float) -> Iterator[Standing]:
    """A bench that stands, its device open to be asked inside the block."""
    live = setup.bench.open()
    try:
        yield Standing(setup, live, engine, task, began)
    finally:
        live.close()


@contextmanager
def standing_bench(setup: Setup, listener: Listener) -> Iterator[Builder]:
    """The bench stands inside the block, on all of its hosts, and is gone after it, however the block ends."""
    with ExitStack() as stack:
        for end in setup.engines:
            stack.enter_context(_engine_end(end, setup.places.bench_id, listener))
        yield stack.enter_context(_device_bench(setup, listener))


@contextmanager
def _engine_end(end: EngineEnd, bench_id: str, listener: Listener) -> Iterator[None]:
    """What an engine's host has of the bench."""
    if not end.resources:
        yield
        return
    builder = Builder(bench_id, end.host)
    builder.apply(end.resources, listener.building)
    with _undone(builder, f"{end.site.host}: "):  # a host that is lost undoes it itself: it is not waited for here
        yield


@contextmanager
def _device_bench(setup: Setup, listener: Listener) -> Iterator[Builder]:
    places = setup.places
    builder = Builder(places.bench_id, places.machine, guest=places.host if isinstance(places.host, Guest) else None)
    try:
        builder.apply(setup.resources, listener.building)
    except CommandFailed as error:
        if refusal := setup.bench.refusal(error):
            raise refusal from error
        raise
    with _undone(builder):
        yield builder


@contextmanager
def _undone(builder: Builder, where: str = "") -> Iterator[None]:
    """What was built is removed at the end; what remains after an error is a note of that error."""
    try:
        yield
    except BaseException as error:
        try:
            builder.undo()
        except PinchpointError as left:
            error.add_note(f"{where}{left}")  # what failed first is what the user must know first
        raise
    builder.undo()

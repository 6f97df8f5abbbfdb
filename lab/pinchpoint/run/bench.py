"""A bench for as long as it is needed."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from pinchpoint.bench.builder import Builder
from pinchpoint.dut.setup import EngineEnd, Setup
from pinchpoint.host.guest import Guest
from pinchpoint.host.interface import CommandFailed
from pinchpoint.measure.standing import Listener
from pinchpoint.model.errors import PinchpointError


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
    try:
        yield
    except BaseException as error:
        try:
            builder.undo()  # a host that is lost undoes it itself: it is not waited for here
        except PinchpointError as left:
            error.add_note(f"{end.site.host}: {left}")
        raise
    builder.undo()


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
    try:
        yield builder
    except BaseException as error:
        try:
            builder.undo()
        except PinchpointError as left:
            error.add_note(str(left))  # what failed first is what the user must know first
        raise
    builder.undo()

"""A bench for as long as it is needed."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from pinchpoint.bench.builder import Builder
from pinchpoint.dut.setup import EngineEnd, Setup
from pinchpoint.host.interface import CommandFailed
from pinchpoint.host.local import on
from pinchpoint.host.machines import host_of, standing_on
from pinchpoint.measure.listener import Listener
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
    """What an engine's host has of the bench. It is at hand only while it is built and undone."""
    if not end.resources:
        yield
        return
    with standing_on(end.site.remote):
        builder = Builder(bench_id)
        builder.apply(end.resources, listener.building)
    try:
        yield
    except BaseException as error:
        try:
            _undo_on(end, builder)
        except PinchpointError as left:
            error.add_note(f"{end.site.host}: {left}")
        raise
    _undo_on(end, builder)


def _undo_on(end: EngineEnd, builder: Builder) -> None:
    """A host that is lost undoes it itself: it is not waited for here."""
    with on(host_of(end.site.remote)):
        builder.undo()


@contextmanager
def _device_bench(setup: Setup, listener: Listener) -> Iterator[Builder]:
    builder = Builder(setup.places.bench_id, host=setup.places.host)
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

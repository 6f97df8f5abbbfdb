"""A bench for as long as it is needed."""

from collections.abc import Iterator
from contextlib import contextmanager

from pinchpoint.bench.builder import Builder
from pinchpoint.dut.setup import Setup
from pinchpoint.host.interface import CommandFailed
from pinchpoint.measure.listener import Listener
from pinchpoint.model.errors import PinchpointError


@contextmanager
def standing_bench(setup: Setup, listener: Listener) -> Iterator[Builder]:
    """The bench stands inside the block, and is gone after it, however the block ends."""
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

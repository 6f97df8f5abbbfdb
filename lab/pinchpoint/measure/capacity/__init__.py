"""How many connections a balancer holds at once, how fast it forgets them, and how they age."""

from typing import Final

from pinchpoint.measure.capacity.keys import CAPACITY, Capacity
from pinchpoint.measure.capacity.run import expected_s, measure_capacity
from pinchpoint.measure.kind import MeasureKind

MEASURES: Final = (
    MeasureKind(
        made=Capacity,
        finds="how many connections a balancer holds at once, how fast it forgets them, and how they age",
        table=lambda _: CAPACITY,
        run=measure_capacity,
        expected_s=expected_s,
        main=("capacity", "tear-down rate", "aging time"),
        needs={"port": 2, "backend": 1},
        made_of="load",
        is_served=True,
    ),
)

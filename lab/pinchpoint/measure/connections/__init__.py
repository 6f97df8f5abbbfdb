"""How many connections a second a balancer opens, in a burst and for ever, and what ends either."""

from typing import Final

from pinchpoint.measure.connections.keys import CONNECTIONS, Connections
from pinchpoint.measure.connections.run import expected_s, measure_connections
from pinchpoint.measure.kind import MeasureKind

MEASURES: Final = (
    MeasureKind(
        made=Connections,
        finds="how many connections a second a balancer opens, in a burst and for ever, and which resource ends it",
        table=lambda _: CONNECTIONS,
        run=measure_connections,
        expected_s=expected_s,
        main=(
            "burst rate",
            "burst rate, ",
            "sustained rate",
            "sustained rate, doubled",
            "predicted sustained rate",
            "connect p50",
            "connect p99",
        ),
        needs={"port": 2, "backend": 1},
        made_of="load",
        is_served=True,
    ),
)

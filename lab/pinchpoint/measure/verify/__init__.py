"""Whether a balancer does what its service says."""

from typing import Final

from pinchpoint.measure.kind import MeasureKind
from pinchpoint.measure.verify.keys import VERIFY, Verify, wanted
from pinchpoint.measure.verify.run import expected_s, measure_verify

MEASURES: Final = (
    MeasureKind(
        made=Verify,
        finds="whether a balancer does what its service says, connection by connection",
        table=lambda _: VERIFY,
        run=measure_verify,
        expected_s=expected_s,
        main=(
            "completed",
            "request ",
            "busiest server",
            "busiest backend",
            "expected source",
            "source used once",
            "forgotten",
            "direct return",
            "payload intact",
            "one backend",
            "TOA option",
            "connect p50",
            "answer p50",
            "close p50",
        ),
        needs={"port": 2, "backend": 1},
        made_of="connection",
        has_limit=False,
        is_served=True,
        wanted=wanted,
    ),
)

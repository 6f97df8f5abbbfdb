"""The longest burst without loss (RFC 2544, 26.4; RFC 9004)."""

from typing import Final

from pinchpoint.measure.burst.keys import BURST, Burst, check
from pinchpoint.measure.burst.run import expected_s, measure_burst
from pinchpoint.measure.kind import MeasureKind

MEASURES: Final = (
    MeasureKind(
        made=Burst,
        finds="the longest burst without loss",
        table=lambda _: BURST,
        run=measure_burst,
        expected_s=expected_s,
        main=(
            "longest burst",
            "corrected buffer time",
            "corrected buffer",
            "burst rate",
            "NDR",
            "given throughput",
            "implied buffer time",
            "shortest of the tests",
            "longest of the tests",
            "burst standard deviation",
        ),
        check=check,
        by_any_engine=True,
        through_service=True,
    ),
)

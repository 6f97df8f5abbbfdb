"""How long frames are lost after an overload (RFC 2544, section 26.5)."""

from typing import Final

from pinchpoint.measure.kind import MeasureKind
from pinchpoint.measure.recovery.keys import RECOVERY, Recovery, check
from pinchpoint.measure.recovery.run import expected_s, measure_recovery

MEASURES: Final = (
    MeasureKind(
        made=Recovery,
        finds="how long frames are lost after an overload",
        table=lambda _: RECOVERY,
        run=measure_recovery,
        expected_s=expected_s,
        main=("recovery time", "lost after the overload", "lost in the overload", "throughput"),
        check=check,
        by_any_engine=True,
        has_limit=False,
    ),
)

"""How long forwarding stands still while the DUT is changed."""

from typing import Final

from pinchpoint.measure.blocked.keys import Blocked, check, table
from pinchpoint.measure.blocked.run import expected_s, measure_blocked
from pinchpoint.measure.kind import MeasureKind

MEASURES: Final = (
    MeasureKind(
        made=Blocked,
        finds="how long forwarding stands still while the DUT is changed",
        table=table,
        run=measure_blocked,
        expected_s=expected_s,
        main=("blocked time", "longest silence", "longest gap", "action time"),
        check=check,
        made_of="repeat",
        has_limit=False,
    ),
)

"""What a change of its backends or of its configuration does to the connections through a balancer."""

from typing import Final

from pinchpoint.measure.change.keys import CHANGE, Changed, check
from pinchpoint.measure.change.run import expected_s, measure_change
from pinchpoint.measure.kind import MeasureKind

MEASURES: Final = (
    MeasureKind(
        made=Changed,
        finds="which connections break when a backend leaves or comes, and when the balance is right again",
        table=lambda _: CHANGE,
        run=measure_change,
        expected_s=expected_s,
        main=(
            "broken",
            "refused",
            "reset",
            "timed out connecting",
            "timed out answering",
            "timed out closing",
            "right after",
            "right after return",
            "moved connections",
            "tuples moved",
            "tuples moved at return",
            "share of backend ",
        ),
        needs={"port": 2, "backend": 1},
        check=check,
        made_of="connection",
        has_limit=False,
        is_served=True,
    ),
)

"""Loss over a long time."""

from typing import Final

from pinchpoint.measure.kind import MeasureKind
from pinchpoint.measure.soak.keys import SOAK, Soak, check
from pinchpoint.measure.soak.run import expected_s, measure_soak
from pinchpoint.model.terms import THREAD_BUSY

MEASURES: Final = (
    MeasureKind(
        made=Soak,
        finds="loss over a long time",
        table=lambda _: SOAK,
        run=measure_soak,
        expected_s=expected_s,
        main=(
            "windows with loss",
            "mean time between losses",
            "longest stop",
            "longest loss-free stretch",
            "loss",
            "lost frames beside the host",
            "disturbed windows",
            "window loss",
            "lost frames",
            "offered load",
            THREAD_BUSY,
        ),
        check=check,
        by_any_engine=True,
        has_limit=False,
        through_service=True,
    ),
)

"""What given rates cost the DUT."""

from typing import Final

from pinchpoint.measure.kind import MeasureKind
from pinchpoint.measure.load.keys import LOAD, Load
from pinchpoint.measure.load.run import expected_s, measure_load
from pinchpoint.model.terms import THREAD_BUSY

MEASURES: Final = (
    MeasureKind(
        made=Load,
        finds="CPU load of the DUT at given rates",
        table=lambda _: LOAD,
        run=measure_load,
        expected_s=expected_s,
        main=("cycles per packet at ", f"{THREAD_BUSY} at ", "loss at "),
        has_limit=False,
        over_engines=True,
        through_service=True,
    ),
)

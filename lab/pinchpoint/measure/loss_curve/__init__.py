"""Frame loss rate against offered load (RFC 2544, 26.3)."""

from typing import Final

from pinchpoint.measure.kind import MeasureKind
from pinchpoint.measure.loss_curve.keys import LOSS_CURVE, LossCurve
from pinchpoint.measure.loss_curve.run import expected_s, measure_loss_curve

MEASURES: Final = (
    MeasureKind(
        made=LossCurve,
        finds="frame loss rate against offered load",
        table=lambda _: LOSS_CURVE,
        run=measure_loss_curve,
        expected_s=expected_s,
        main=("loss-free load", "max load", "highest forwarded", "overload forwarding", "loss at "),
        over_engines=True,
        through_service=True,
    ),
)

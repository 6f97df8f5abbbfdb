"""NDR and PDRs, then latency."""

from typing import Final

from pinchpoint.measure.kind import MeasureKind
from pinchpoint.measure.rates.keys import LATENCY, Rates
from pinchpoint.measure.rates.run import expected_s, measure_rates

MEASURES: Final = (
    MeasureKind(
        made=Rates,
        finds="NDR and PDRs, then latency",
        table=lambda _: LATENCY,
        run=measure_rates,
        expected_s=expected_s,
        main=(),
        over_engines=True,
        through_service=True,
    ),
)

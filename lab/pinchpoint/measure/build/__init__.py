"""The time to make rules, ports or links."""

from typing import Final

from pinchpoint.measure.build.keys import Build, check, table
from pinchpoint.measure.build.run import expected_s, measure_build
from pinchpoint.measure.kind import MeasureKind

MEASURES: Final = (
    MeasureKind(
        made=Build,
        finds="time to make rules, ports or links",
        table=table,
        run=measure_build,
        expected_s=expected_s,
        main=(
            "build time",
            "visible time",
            "build rate",
            "first frame time",
            "blocked time",
            "longest gap",
            "removal time",
        ),
        judged_by="time per item",
        needs={},
        check=check,
        made_of="build",
        has_limit=False,
    ),
)

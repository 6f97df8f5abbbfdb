"""Whether one build of a device is a regression against another, metric by metric."""

from dataclasses import dataclass
from enum import StrEnum

from pinchpoint.model.comparison import MetricComparison


class State(StrEnum):
    """What is known of one metric."""

    REGRESSION = "regression"  # the whole interval of the ratio is worse by more than the margin
    MIND = "mind"  # worse, or maybe beyond the margin, but not surely
    PASSED = "passed"  # surely not worse by more than the margin
    UNDECIDED = "undecided"  # there is no interval, or the numbers cannot be compared


@dataclass(frozen=True)
class Judged:
    """One judged metric of one scenario."""

    scenario: str
    metric: MetricComparison
    state: State

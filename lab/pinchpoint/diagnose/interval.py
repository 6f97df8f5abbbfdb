"""Confidence intervals of a mean over few repeats, by Student's t."""

import math
from collections.abc import Sequence
from statistics import fmean, stdev

# Two-sided 95 % quantiles of Student's t for 1, 2, ... degrees of freedom (ISO 2854, table III).
# fmt: off
_T95: tuple[float, ...] = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
    2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)
# fmt: on
_NORMAL95 = 1.960


def mean95(values: Sequence[float]) -> tuple[float, float | None]:
    """(mean, half its 95 % interval); None with one value, from which no interval follows."""
    if len(values) < 2:
        return fmean(values), None
    freedom = len(values) - 1
    # Beyond the table, its expansion to the first order (Abramowitz and Stegun 26.7.5): error under 0.1 %.
    t = _T95[freedom - 1] if freedom <= len(_T95) else _NORMAL95 + (_NORMAL95**3 + _NORMAL95) / (4 * freedom)
    return fmean(values), t * stdev(values) / math.sqrt(len(values))

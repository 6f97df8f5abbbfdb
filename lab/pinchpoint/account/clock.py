"""Whether a rate and what a packet costs at it fit the clock of the threads that forwarded it. Pure."""

import math
from typing import Final

from pinchpoint.model.measurement import CYCLES, THREAD_BUSY
from pinchpoint.model.result import ScenarioResult
from pinchpoint.model.warning import ResultWarning, Warn

SLACK: Final = 0.05  # cycles are of a trial within 2 % of the rate, and its counters are read after its last frame


def over_clock(result: ScenarioResult) -> ResultWarning | None:
    """That cycles per packet x NDR are more than the busy share of the clock; None if they fit, or are not stated."""
    stated = {metric.name: metric.value for metric in result.metrics}
    rate_fps = result.rates[0].quoted_fps if result.rates else None
    loads = [load for load in result.threads if load.received]
    known = [(load.clock_hz, load.busy_share) for load in loads if load.clock_hz]
    if CYCLES not in stated or not rate_fps or not known or len(known) < len(loads):
        return None
    busiest, several = stated.get(THREAD_BUSY, 1.0), len(known) > 1
    had_hz = math.fsum(clock_hz * (busiest if busy is None or not several else busy) for clock_hz, busy in known)
    spent_hz = stated[CYCLES] * rate_fps
    if spent_hz <= had_hz * (1 + SLACK):
        return None
    return Warn.OVER_CLOCK.of(cycles=stated[CYCLES], spent_ghz=spent_hz / 1e9, busy_ghz=had_hz / 1e9)

"""What findings and the report call causes and rates; the names of metrics that several parts know."""

from collections.abc import Mapping
from typing import Final

from pinchpoint.model.trial import Cause

CAUSES: Final[Mapping[Cause, str]] = {
    Cause.GENERATOR: "the generator did not offer the load",
    Cause.SENDER_STOOD_STILL: "the engine's core stood still",
    Cause.RECEIVER_STOOD_STILL: "the engine's core stood still while others sent",
    Cause.RECEIVER_TAKEN: "the device's own threads had the engine's core while others sent",
    Cause.BURST_INTERRUPTED: "the engine's core stood still within the burst",
    Cause.REFLECTOR: "the engine that sends back lost frames",
    Cause.APART: "two engines did not send together",
    Cause.CONTRADICTION: "counters saw more frames than were sent",
    Cause.STOPPED: "stopped on request",
    Cause.ENDED: "ended early",
    Cause.DEVICE_DIED: "the device died",
}
"""Why trials were discarded, in words that many trials share."""
RATES: Final = ("fps", "bit/s", "1/s")
"""Units of metrics that say how much was carried in a second."""
THREAD_BUSY: Final = "thread busy"
"""The metric of the busiest forwarding thread's busy share."""
_LOOKUP_SHARE: Final = "lookup share of "
_AT_ONE_LOAD: Final = " at "  # a metric of one load of several ends so, with the load


def lookup_share(answered_by: str) -> str:
    """The metric of the share of all lookups that one cache of the device answered, or its slow path."""
    return f"{_LOOKUP_SHARE}{answered_by}"


def answered_by(metric: str) -> str:
    """Who answered, of such a metric; empty of any other."""
    name = metric.removeprefix(_LOOKUP_SHARE)
    return "" if name == metric or _AT_ONE_LOAD in name else name


MRR: Final = "MRR"
"""The metric of the maximum receive rate."""
_BAND: Final = ("band low", "band high")
_FORMER_BAND: Final = ("best sustained",)  # in runs stored before rates were literal


def band_metrics(rate: str) -> tuple[str, str]:
    """The metrics of a rate's band: the loads at which 10 % and 90 % of the trials lose (`Band` in model/result.py)."""
    low, high = (f"{rate} {end}" for end in _BAND)
    return low, high


def is_band(metric: str) -> bool:
    """Whether a metric is an end of some rate's band."""
    return metric.endswith((*_BAND, *_FORMER_BAND))


def is_rate(metric: str) -> bool:
    """Whether a metric is an NDR or PDR itself."""
    return (metric == "NDR" or metric.startswith("PDR")) and not is_band(metric)

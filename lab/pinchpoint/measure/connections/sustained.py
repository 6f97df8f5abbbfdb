"""Connections per second for ever: what the limits predict, which traffic confirms it, and what that says. Pure.

A limit of S places, each held for h seconds beyond a connection's own life, bears S / h connections a second (Little
1961). An overload of it, begun with an empty table, fills all places, and again each time that they become free: over
whole times h it is carried at S / h. A load below S / h that lasts longer than h fails nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pinchpoint.model import units
from pinchpoint.model.limits import Limit

OVERLOAD = 1.5  # times what the limit bears
BORNE = 0.9  # of it: a load that must not fail
OVERLOADED_TIMES, BORNE_TIMES = 3, 2.5  # of the time that a place is held
AGREES = 0.15  # relative: a prediction within it came true
LOWEST_CPS = 1.2  # the engine opens whole connections a second
ALL = 0.97  # of the overload
LAPSES = 0.02  # of the connections of the lower load, that a host which paused may cost
LONG_ENOUGH_S = 0.2  # of a time that traffic can be compared with


@dataclass(frozen=True)
class Prediction:
    """What the scarcest of the limits bears."""

    limit: Limit
    places: int
    held_s: float  # for which a connection occupies a place, its life included
    cps: float


@dataclass(frozen=True)
class Plan:
    """Two loads that tell whether a prediction is right."""

    overload_cps: float
    overload_s: float
    borne_cps: float
    borne_s: float


def predicted(limits: Sequence[Limit], life_s: float) -> Prediction | None:
    """The least that a limit bears; `life_s` is how long a connection is open. None: no limit says it."""
    known = [
        Prediction(limit, limit.size, held_s, limit.size / held_s)
        for limit in limits
        if limit.size and limit.held_s is not None and (held_s := limit.held_s + life_s) > 0
    ]
    return min(known, key=lambda prediction: prediction.cps, default=None)


def plan(prediction: Prediction) -> Plan:
    """The loads for it."""
    return Plan(
        OVERLOAD * prediction.cps,
        OVERLOADED_TIMES * prediction.held_s,
        BORNE * prediction.cps,
        BORNE_TIMES * prediction.held_s,
    )


def why_not(prediction: Prediction, burst_cps: float | None, within_s: float) -> str:
    """Why a prediction is not tried; empty where it can be."""
    wanted = plan(prediction)
    lasting_s = wanted.overload_s + wanted.borne_s
    if prediction.cps < LOWEST_CPS:
        return f"{units.per_second(prediction.cps)} is less than the engine's lowest rate, 1 /s"
    if prediction.held_s < LONG_ENOUGH_S:
        return f"places are held for {units.seconds(prediction.held_s)}, too short to tell from a connection's life"
    if lasting_s > within_s:
        return (
            f"it would take {lasting_s:,.0f} s, and connections.sustain_within_s is {within_s:g}; where the "
            "kind has service.closed_s, a smaller one makes it shorter"
        )
    if burst_cps is not None and burst_cps < wanted.borne_cps:
        return f"no burst reaches {units.per_second(wanted.borne_cps)}"
    return ""


@dataclass(frozen=True)
class Confirmation:
    """What the two loads came to."""

    borne_cps: float | None  # the lower load; None: connections failed
    agrees: bool
    words: str
    is_open: bool  # the overload was none: all of it was carried


def confirmed(prediction: Prediction, carried_cps: float, failed: int, opened: int, ratio: float) -> Confirmation:
    """The overload was carried at `carried_cps`; of `opened` connections of the lower load `failed` failed."""
    wanted = plan(prediction)
    is_borne = failed <= ratio * opened
    agrees = abs(carried_cps / prediction.cps - 1) <= AGREES and failed <= LAPSES * opened
    borne = f"{units.per_second(wanted.borne_cps)} " + (
        f"for {wanted.borne_s:g} s failed nothing" if not failed else f"failed {failed:,} of {opened:,}"
    )
    said = "confirmed" if agrees else "the prediction failed"
    words = (
        f"{said}: {prediction.places:,} places held for {prediction.held_s:g} s make "
        f"{units.per_second(prediction.cps)}; of {units.per_second(wanted.overload_cps)} for {wanted.overload_s:g} s "
        f"{units.per_second(carried_cps)} were carried, and {borne}"
    )
    is_open = carried_cps >= ALL * wanted.overload_cps
    if is_open:
        words = f"at least: {words}"
    return Confirmation(wanted.borne_cps if is_borne else None, agrees, words, is_open)


def doubled(before_cps: float, after_cps: float, what: str) -> str:
    """Whether a doubled resource doubled the rate, in words."""
    ratio = after_cps / before_cps if before_cps else 0.0
    confirmed = "confirmed" if abs(ratio / 2 - 1) <= AGREES else "not confirmed"
    return f"{confirmed} by doubling: {what}: {units.times(ratio)} the rate where 2 x was predicted"

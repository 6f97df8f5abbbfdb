"""Rates compared with the generator's own ceiling: a rate within its reach is "at least", never found."""

from collections.abc import Sequence
from dataclasses import replace

from pinchpoint.account.cache_line import differ
from pinchpoint.model import units
from pinchpoint.model.result import Ceiling, Limit, Rate, RateStatus

REACH = 0.03
"""How near to its ceiling a rate may be the generator's own: as exactly as a test of two seconds finds a ceiling."""


def in_mode(ceilings: Sequence[Ceiling], distance_ns: float | None) -> Ceiling | None:
    """The newest that was measured while the cores were about `distance_ns` apart; None: none was.

    What was not probed, here or there, cannot tell modes apart, and fits.
    """
    fitting = [
        ceiling
        for ceiling in ceilings
        if distance_ns is None or ceiling.distance_ns is None or not differ(distance_ns, ceiling.distance_ns)
    ]
    return max(fitting, key=lambda ceiling: ceiling.measured, default=None)


def held_against(rates: Sequence[Rate], ceiling: Ceiling | None, seen_fps: float | None) -> tuple[Rate, ...]:
    """The same rates, those within reach of the ceiling "at least"; `seen_fps` is the most that was offered here.

    Where that is more than the ceiling, the ceiling was only a lower bound and says nothing.
    """
    if ceiling is None or surpassed(ceiling, seen_fps):
        return tuple(rates)
    return tuple(_held(rate, ceiling) for rate in rates)


def surpassed(ceiling: Ceiling, seen_fps: float | None) -> bool:
    """Whether the generator was seen to offer clearly more than its ceiling."""
    return seen_fps is not None and seen_fps > (1 + REACH) * ceiling.fps


def _held(rate: Rate, ceiling: Ceiling) -> Rate:
    quoted = rate.quoted_fps
    told = rate.status in (RateStatus.FOUND, RateStatus.AT_LEAST)
    if not told or quoted is None or quoted < (1 - REACH) * ceiling.fps:
        return rate
    reason = (
        f"generator-limited: within {units.share(REACH)} of the {units.fps(ceiling.fps)} that the engine "
        "offers without the device"
    )
    rate = replace(rate, status=RateStatus.AT_LEAST, limited_by=Limit.GENERATOR, reason=reason)
    return replace(rate, upper_fps=None, estimate_fps=None, band=None)

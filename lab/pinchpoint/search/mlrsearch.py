"""MLRsearch's bounds as NDR and PDR, and what is said when there can be none.

Only valid trials reach the library. A generator at its ceiling lowers the
search's maximum instead of the DUT's rate; a rate that ends at that maximum is
"at least", never found. Rates are told as offered, not as intended: what the
engine really presented to the ports at the loads that bound them (RFC 2285, 3.5.2).
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from pinchpoint.model import units
from pinchpoint.model.result import Rate, RateStatus
from pinchpoint.model.scenario import Search
from pinchpoint.search.library import Bounds, LibraryError, LossRatioSearch
from pinchpoint.search.reach import Reach
from pinchpoint.search.watch import GeneratorLimitedError, StoppedError, Watch


def find(watch: Watch, reach: Reach) -> tuple[Rate, ...]:
    """NDR and PDRs by MLRsearch, the lowest loss ratio first. Raises only what a trial raises."""
    search = watch.search
    while True:
        attempt = LossRatioSearch(search, reach.top_fps)
        stopped = ""
        try:
            attempt.run(watch.measure)
        except GeneratorLimitedError as error:
            if reach.lower(error.trial):
                continue
            stopped = reach.limit()
        except (StoppedError, LibraryError) as error:
            stopped = str(error)
        judge = _Judge(search, watch, reach, stopped)
        return _never_falling(judge.rate(bounds) for bounds in attempt.bounds())


def _never_falling(rates: Iterable[Rate]) -> tuple[Rate, ...]:
    """The same rates, lowest loss ratio first: what satisfied one goal satisfied all more lenient ones too.

    Only unequal shortfalls of neighbouring loads can make it look otherwise.
    """
    found: list[Rate] = []
    for rate in rates:
        stricter_fps = max((other.lower_fps for other in found if other.lower_fps is not None), default=None)
        if stricter_fps is not None and rate.lower_fps is not None and rate.lower_fps < stricter_fps:
            upper_fps = None if rate.upper_fps is None else max(rate.upper_fps, stricter_fps)
            rate = replace(rate, lower_fps=stricter_fps, upper_fps=upper_fps)
        found.append(rate)
    return tuple(found)


@dataclass(frozen=True)
class _Judge:
    """What the bounds of one goal mean in this search."""

    search: Search
    watch: Watch
    reach: Reach
    stopped: str  # why the search ended early; empty if it did not

    def rate(self, bounds: Bounds) -> Rate:
        status, reason = self._status(bounds)
        lower_fps, upper_fps = (self.watch.offered_fps(load) for load in (bounds.lower_fps, bounds.upper_fps))
        if lower_fps is not None and upper_fps is not None:
            # Unequal shortfalls may turn neighbours round: the lower of the two is what may be claimed.
            lower_fps, upper_fps = sorted((lower_fps, upper_fps))
        return Rate(
            loss_ratio=bounds.loss_ratio,
            status=status,
            lower_fps=lower_fps,
            upper_fps=upper_fps,
            trial_duration_s=self.search.trial_duration_s,
            duration_sum_s=self.search.duration_sum_s,
            reason=reason,
            limited_by=self.reach.limited_by if status is RateStatus.AT_LEAST else None,
        )

    def _status(self, bounds: Bounds) -> tuple[RateStatus, str]:
        lower, upper = bounds.lower_fps, bounds.upper_fps
        if upper is None and lower is not None and lower >= self.reach.top_fps:
            return RateStatus.AT_LEAST, self.reach.limit()
        if lower is None and upper is not None and upper <= self.search.min_load_fps:
            lost = "a frame" if bounds.loss_ratio == 0 else f"more than {units.loss(bounds.loss_ratio)}"
            minimum = units.fps(self.search.min_load_fps)
            return RateStatus.BELOW_MINIMUM, f"lost {lost} even at search.min_load_fps = {minimum}"
        if lower is not None and upper is not None and upper - lower <= self.search.relative_width * upper:
            return RateStatus.FOUND, ""
        return (
            RateStatus.REFUSED,
            self.stopped or "MLRsearch ended between bounds wider than search.relative_width",
        )

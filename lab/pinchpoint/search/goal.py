"""One loss ratio of a search: what its trials say, and when that is enough."""

from dataclasses import dataclass

from pinchpoint.model.scenario import Search
from pinchpoint.model.trial import Trial
from pinchpoint.search.floor import at_most_half
from pinchpoint.search.posterior import Posterior, Seen

DECIDED = 0.995  # a load is above or below the threshold with this probability: no trial is spent on it
ARBITRARY = 0.5
VAGUE = 0.5  # probability
VAGUE_IN_DOUBT = 0.13
CAUTION = 0.85  # of the share outside of the interval: a search that ends once it is narrow ends rather by luck
SCATTER = 0.025  # of single trials' thresholds lie beyond either end of what is told of a vague goal
NARROW = 0.03  # relative width of an interval that is always told when a budget has ended
UNSURE = 0.2  # probability
ASIDE = 0.1  # relative: so far from an interval a trial shows whether the load decides, or a disturbance
CLEAR_LOSS = 0.02  # a trial that lost more was overloaded: what it forwarded tells where to look


@dataclass(frozen=True)
class Interval:
    """Where a rate lies, within the loads that may be tried; frames per second, as intended."""

    lower_fps: float
    median_fps: float
    upper_fps: float
    reaches_top: bool  # the threshold may lie above the highest load that may be tried
    reaches_bottom: bool

    @property
    def width(self) -> float:
        """Relative to the upper end."""
        return (self.upper_fps - self.lower_fps) / self.upper_fps


@dataclass(frozen=True)
class Unconfirmed:
    """Trials on one side of an interval that do not say by themselves that the rate lies in it."""

    load_fps: float  # that would tell more
    is_below: bool  # the interval
    trials: int
    contrary: int  # of them: beyond the ratio below the interval, or within it above


class Goal:
    """The search for the load at which half of the trials lose more than `loss_ratio`."""

    def __init__(self, loss_ratio: float, search: Search) -> None:
        self.loss_ratio = loss_ratio
        self.refused = ""  # why no rate can be given whatever is tried; empty while one may be found
        self.posterior = Posterior(search.min_load_fps, search.max_load_fps)
        self._search = search
        self._clear_loss = max(CLEAR_LOSS, 4 * self.loss_ratio)
        self._forwarded_fps: float | None = None
        self._overload_fps = float("inf")
        self._tried: list[tuple[float, bool]] = []  # load, whether it exceeded the ratio

    def add(self, trial: Trial) -> None:
        """One more valid trial."""
        seen = Seen.WITHIN
        if trial.loss_ratio > self.loss_ratio:
            seen = Seen.OVERLOADED if trial.loss_ratio > self._clear_loss else Seen.EXCEEDED
        self.posterior.add(trial.load_fps, seen)
        self._tried.append((trial.load_fps, seen is not Seen.WITHIN))
        self.look_at(trial)

    def look_at(self, trial: Trial) -> None:
        """Take a hint from an overloaded trial, valid or not; the one with the lowest load counts."""
        if trial.loss_ratio > self._clear_loss and trial.load_fps < self._overload_fps:
            self._overload_fps = trial.load_fps
            forwarded_fps = trial.offered_fps * (1 - trial.loss_ratio)
            self._forwarded_fps = max(forwarded_fps, self._search.min_load_fps)
            self.posterior.suppose(self._forwarded_fps / (1 - self.loss_ratio))

    @property
    def hint_fps(self) -> float | None:
        """Where the threshold is if the overloaded DUT forwards as much as one that is just not overloaded."""
        return None if self._forwarded_fps is None else self._forwarded_fps / (1 - self.loss_ratio)

    def interval(self, reach_fps: float) -> Interval:
        """Of search.confidence at least, equal-tailed."""
        return self._within(*self._ends_fps(), reach_fps)

    def scatter(self, reach_fps: float) -> Interval:
        """Where the thresholds of single trials lie: that of a device with two modes, or slow periods, is in each."""
        lower, middle, upper = self._ends_fps()
        least, most = (self.posterior.single_fps(share) for share in (SCATTER, 1 - SCATTER))
        return self._within(min(lower, least), middle, max(upper, most), reach_fps)

    def _ends_fps(self) -> tuple[float, float, float]:
        tail = CAUTION * (1 - self._search.confidence) / 2
        lower, middle, upper = (self.posterior.quantile_fps(share) for share in (tail, 0.5, 1 - tail))
        return lower, middle, upper

    def _within(self, lower: float, middle: float, upper: float, reach_fps: float) -> Interval:
        least = self._search.min_load_fps
        ends = [min(max(end, least), reach_fps) for end in (lower, middle, upper)]
        return Interval(ends[0], ends[1], ends[2], reaches_top=upper >= reach_fps, reaches_bottom=middle <= least)

    def is_narrow(self, reach_fps: float) -> bool:
        """Whether the interval is as narrow as was asked for, and not by disturbances alone."""
        return self.interval(reach_fps).width <= self._search.relative_width and not self.is_arbitrary

    def is_done(self, reach_fps: float) -> bool:
        """Whether the interval is narrow and confirmed, or there will be none."""
        return bool(self.refused) or (self.is_narrow(reach_fps) and self.unconfirmed(reach_fps) is None)

    def unconfirmed(self, reach_fps: float) -> Unconfirmed | None:
        """The side of the interval that is not confirmed; None if both are, or cannot be tried.

        A sign test beside the model, which may be wrong (modes that no probe shows, slow periods, trials that are
        spoilt more often than not): most trials below the interval are within the ratio, and most above it are not,
        for all but UNSURE of the posterior of their share (uniform before). Two trials that come out as expected
        are enough, which a search has tried anyway; it takes more where some did not.
        """
        interval = self.interval(reach_fps)
        if interval.lower_fps > self._search.min_load_fps:
            below = [exceeded for load, exceeded in self._tried if load <= interval.lower_fps]
            if at_most_half(below.count(False), below.count(True)) > UNSURE:
                load_fps = max((1 - ASIDE) * interval.lower_fps, self._search.min_load_fps)
                return Unconfirmed(load_fps, True, len(below), below.count(True))
        if interval.upper_fps < reach_fps:
            above = [exceeded for load, exceeded in self._tried if load >= interval.upper_fps]
            if at_most_half(above.count(True), above.count(False)) > UNSURE:
                load_fps = min((1 + ASIDE) * interval.upper_fps, reach_fps)
                return Unconfirmed(load_fps, False, len(above), above.count(False))
        return None

    def to_confirm_fps(self, reach_fps: float) -> float | None:
        """The load to try for the sake of `unconfirmed`; None while that would be too early, and when it is done.

        Once the interval is narrow; where trials came out otherwise than expected, as soon as it would be told:
        they leave no time for it at the end.
        """
        is_narrow, side = self.is_narrow(reach_fps), self.unconfirmed(reach_fps)
        if side is None or not (is_narrow or (side.contrary and self.interval(reach_fps).width <= NARROW)):
            return None
        return side.load_fps

    @property
    def is_arbitrary(self) -> bool:
        """Whether nearly half of the trials exceed the ratio for a reason that is not the load."""
        return self.posterior.disturbed > ARBITRARY

    def is_vague(self, is_doubted: bool) -> bool:
        """Whether the trials may well contradict one threshold: a wide interval between modes holds none of them.

        `is_doubted`: a stricter ratio has no rate for its disturbances, so less is forgiven. Without that, rates of
        a DUT whose loss begins gradually would be told only where chance made it look sudden.
        """
        return self.posterior.doubtful > (VAGUE_IN_DOUBT if is_doubted else VAGUE)

    def is_decided(self, load_fps: float) -> bool:
        """Whether this load is known to be above or below the threshold."""
        above = self.posterior.above(load_fps)
        return not 1 - DECIDED < above < DECIDED

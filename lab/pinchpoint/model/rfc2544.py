"""What the measures burst and loss_curve found: RFC 2544, 26.3 and 26.4, and RFC 9004."""

from dataclasses import dataclass


@dataclass(frozen=True)
class BurstTest:
    """One search for the longest burst without loss."""

    longest: int  # frames of the longest burst that came back whole; 0: not one did
    lost_at: int | None  # frames of the shortest burst that lost some; None: the longest tried did not
    rate_fps: float | None  # offered within the longest burst; None where there is none
    trial_ids: tuple[str, ...]  # its bursts, in the order they were sent


@dataclass(frozen=True)
class BurstResult:
    """All tests of a scenario, and the buffer that follows from them; None is not known."""

    tests: tuple[BurstTest, ...]
    rate_fps: float  # offered within the bursts: the median of the tests' longest
    rate_words: str  # what that rate is
    throughput_fps: float | None  # of the DUT
    throughput_words: str  # which throughput, and of what trial length; or why there is none
    implied_s: float | None  # average longest burst / rate
    corrected_s: float | None  # implied x (1 - throughput / rate)

    @property
    def average(self) -> float:
        """Frames of the longest burst, averaged over the tests (RFC 2544, 26.4); 0 without tests."""
        return sum(test.longest for test in self.tests) / len(self.tests) if self.tests else 0.0


@dataclass(frozen=True)
class LossPoint:
    """One load of a loss curve; low and high are `interval` (measure/loss_curve/metrics.py)."""

    share: float  # of the highest load
    load_fps: float  # intended
    offered_fps: float  # median
    loss: float | None  # lost / offered, median; None: no trial could be judged
    loss_low: float | None
    loss_high: float | None
    forwarded_fps: float | None  # received per second of sending, median
    forwarded_low: float | None
    forwarded_high: float | None
    trials: int  # valid ones
    lossless: bool  # none of the trials lost a frame, and there was one
    interval: str  # what low and high are
    reason: str  # why trials are missing; empty if none are
    generator_limited: bool  # the generator did not offer the load: nothing is known of the DUT at it

"""The measure `burst`: back-to-back frames (RFC 2544, 26.4; RFC 9004), on a bench that stands."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Final

from pinchpoint.host.priority import kept_off
from pinchpoint.measure.burst import BURST, Burst, check_keys
from pinchpoint.measure.burst import metrics as bursts
from pinchpoint.measure.frames import measuring
from pinchpoint.measure.kind import TRIAL_S, MeasureKind, asked
from pinchpoint.measure.rates.run import searching_s
from pinchpoint.measure.standing import Listener, Standing
from pinchpoint.measure.summary import Findings, most_offered, result_of
from pinchpoint.measure.trial import WARM_UP, Measurer
from pinchpoint.measure.warm_up import first_round, warm_up
from pinchpoint.model import units
from pinchpoint.model.result import Outcome, Rate, ScenarioResult
from pinchpoint.model.rfc2544 import BurstResult, BurstTest
from pinchpoint.model.scenario import Scenario
from pinchpoint.model.trial import Trial, TrialValidity
from pinchpoint.search import find_rates
from pinchpoint.search.burst import GALLOP, longest_burst
from pinchpoint.search.repeat import until_valid

PHASE = "burst"
TRIED = 3  # bursts as long as the smallest ring, which show the engine's own rate: refusing frames is faster

MOST_ABANDONED = 3  # tests in a row of which some burst was never valid
NEAR = 4  # widths of a search's end: how far from the last test's answer the next one looks first
_OF_FIRST, _OF_OTHERS = 12, 5.5  # bursts of a test, as seen on quiet DUTs


def expected_bursts(burst: Burst) -> int:
    """About how many bursts all tests take, for the time estimate."""
    return round(TRIED + _OF_FIRST + _OF_OTHERS * (burst.repeats - 1))


def expected_s(scenario: Scenario) -> float:
    """Seconds on a bench that stands."""
    burst = asked(scenario, Burst)
    searched_s = 0.0 if burst.throughput_fps else searching_s(scenario)
    bursts_s = expected_bursts(burst) * (scenario.search.drain_s + TRIAL_S)
    return first_round(scenario)[0] + searched_s + bursts_s


def measure_burst(bench: Standing) -> ScenarioResult:
    """The longest burst of the bench's scenario. Raises what a trial raises, finished trials kept."""
    with measuring(bench) as measurer, kept_off(bench.scenario.dut.cpus, bench.host):
        return measure_bursts(bench.scenario, measurer, bench.listener, bench.began)


class _UnjudgedError(Exception):
    """A burst of this length was never valid; the message says why."""


@dataclass(frozen=True)
class _BurstOutcome:
    """The NDR, the tests, and why some or all of them are missing."""

    ndr: Rate | None  # None: not searched, since the scenario gives the throughput
    result: BurstResult
    slow: str  # why no burst is one to the DUT; empty if they are
    unjudged: str  # why there are no tests although there could be; empty if there are
    missing: str  # why there are fewer tests than asked for


def measure_bursts(scenario: Scenario, measurer: Measurer, listener: Listener, began: float) -> ScenarioResult:
    """All trials of one scenario on a bench that stands, and what follows from them."""
    listener.phase(WARM_UP, 1)
    not_learnt = warm_up(scenario, measurer)
    first = len(measurer.trials)
    outcome = _Tests(scenario, asked(scenario, Burst), measurer, listener).outcome()
    judged = measurer.trials[first:]
    return _summary(scenario, measurer.trials, judged, outcome, not_learnt, time.monotonic() - began)


class _Tests:
    """Throughput, the engine's rate, then one search after the other."""

    def __init__(self, scenario: Scenario, burst: Burst, measurer: Measurer, listener: Listener) -> None:
        self._scenario, self._burst = scenario, burst
        self._measurer, self._listener = measurer, listener
        self._ring = scenario.smallest_ring

    def outcome(self) -> _BurstOutcome:
        """Throughput, tests and buffer times; no test where no burst is faster than the DUT or none could be judged."""
        ndr = self._ndr()
        self._listener.phase(PHASE, expected_bursts(self._burst))
        try:
            rate_fps = self._rate_fps()
        except _UnjudgedError as error:
            return self._together(ndr, (), 0.0, unjudged=f"no burst could be judged: {error}")
        if slow := bursts.not_faster(rate_fps, ndr, self._burst.throughput_fps):
            return self._together(ndr, (), rate_fps, slow=slow)
        tests, missing = self._all()
        if not tests:
            return self._together(ndr, (), rate_fps, unjudged=f"no burst could be judged: {missing}")
        rate_fps = median([test.rate_fps for test in tests if test.rate_fps is not None] or [rate_fps])
        return self._together(ndr, tests, rate_fps, missing=missing)

    def _together(
        self,
        ndr: Rate | None,
        tests: Sequence[BurstTest],
        rate_fps: float,
        *,
        slow: str = "",
        unjudged: str = "",
        missing: str = "",
    ) -> _BurstOutcome:
        words = "back to back, as fast as the engine goes" if self._burst.rate_fps is None else "as burst.rate_fps asks"
        carried = bursts.throughput(ndr, self._burst.throughput_fps)
        return _BurstOutcome(ndr, bursts.burst_result(tests, rate_fps, words, carried), slow, unjudged, missing)

    def _ndr(self) -> Rate | None:
        if self._burst.throughput_fps is not None:
            return None
        search = self._scenario.search
        self._listener.phase("search", round(1.7 * search.duration_sum_s / search.trial_duration_s) + 4)

        def measure(duration_s: float, load_fps: float) -> Trial:
            return self._measurer.trial("search", duration_s, load_fps)

        return find_rates(measure, search, time.monotonic).rates[0]

    def _rate_fps(self) -> float:
        length = min(self._burst.max_frames, self._ring)
        return median(self._valid(length).offered_fps for _ in range(TRIED))

    def _valid(self, frames: int) -> Trial:
        """A valid burst of this many frames. Raises _UnjudgedError."""

        def measure(_duration_s: float, _load_fps: float) -> Trial:
            return self._measurer.burst(PHASE, frames, self._burst.rate_fps)

        trial = until_valid(measure, 0.0, 0.0, self._scenario.search.max_repeats)
        if trial.validity is not TrialValidity.VALID:
            raise _UnjudgedError(f"{units.frames(frames)} frames: {trial.validity.value}: {trial.reason}")
        return trial

    def _all(self) -> tuple[list[BurstTest], str]:
        """The tests, and why some are missing."""
        tests: list[BurstTest] = []
        reasons: list[str] = []
        abandoned = 0  # in a row
        for _ in range(self._burst.repeats):
            try:
                tests.append(self._test(tests))
                abandoned = 0
            except _UnjudgedError as error:
                reasons.append(str(error))
                abandoned += 1
            if abandoned == MOST_ABANDONED:
                break
        if not reasons:
            return tests, ""
        return tests, f"{len(tests)} of {self._burst.repeats} tests could be judged; last: {reasons[-1]}"

    def _test(self, before: Sequence[BurstTest]) -> BurstTest:
        """One search, which looks first where the last one ended."""
        sent: dict[int, Trial] = {}
        first = len(self._measurer.trials)

        def loses(frames: int) -> bool:
            sent[frames] = self._valid(frames)
            return sent[frames].lost > 0

        start = before[-1].longest if before and before[-1].longest else self._ring
        width = self._burst.relative_width
        gallop = min(GALLOP, 1 + NEAR * width) if before else GALLOP
        bounds = longest_burst(loses, start, self._burst.max_frames, width, gallop)
        longest = sent.get(bounds.lossless)
        ids = tuple(trial.id for trial in self._measurer.trials[first:])
        return BurstTest(bounds.lossless, bounds.lossy, longest.offered_fps if longest else None, ids)


def _summary(
    scenario: Scenario,
    trials: Sequence[Trial],
    judged: Sequence[Trial],
    outcome: _BurstOutcome,
    not_learnt: str,
    wall_s: float,
) -> ScenarioResult:
    result, reason = outcome.result, outcome.slow or outcome.unjudged
    ring = scenario.smallest_ring
    carried = "" if result.throughput_fps or reason else result.throughput_words
    told = Findings(bursts.metrics(result, outcome.ndr), (not_learnt, outcome.missing, carried), failed=reason)
    base = result_of(scenario, trials, told, wall_s, of=judged)
    return replace(
        base,
        outcome=Outcome.IMPOSSIBLE if outcome.slow else base.outcome,
        threads=(),
        verdict=None if reason else bursts.verdict(result, judged, ring),
        generator_ceiling_fps=most_offered(trials),
        burst=result,
    )


MEASURES: Final = (
    MeasureKind(
        made=Burst,
        finds="the longest burst without loss",
        table=lambda _: BURST,
        run=measure_burst,
        expected_s=expected_s,
        main=(
            "longest burst",
            "corrected buffer time",
            "corrected buffer",
            "burst rate",
            "NDR",
            "given throughput",
            "implied buffer time",
            "shortest of the tests",
            "longest of the tests",
            "burst standard deviation",
        ),
        check=check_keys,
        by_any_engine=True,
        through_service=True,
    ),
)

"""The measure `burst`: back-to-back frames (RFC 2544, 26.4; RFC 9004), on a bench that stands."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Final

from pinchpoint.measure.burst import BURST, Burst, check_keys
from pinchpoint.measure.burst import metrics as bursts
from pinchpoint.measure.frames import FrameSession, over_frames
from pinchpoint.measure.kind import TRIAL_S, MeasureKind, asked
from pinchpoint.measure.rates.run import searched_ndr, searching_s
from pinchpoint.measure.warm_up import first_round
from pinchpoint.model import units
from pinchpoint.model.measurement import BurstTest
from pinchpoint.model.result import Outcome, Rate, ScenarioResult
from pinchpoint.model.scenario import Scenario
from pinchpoint.model.trial import Trial, TrialValidity
from pinchpoint.search.burst import GALLOP, longest_burst

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


class _UnjudgedError(Exception):
    """A burst of this length was never valid; the message says why."""


@dataclass(frozen=True)
class _Tests:
    """The tests, and why some or all of them are missing."""

    made: Sequence[BurstTest] = ()
    rate_fps: float = 0.0  # within the bursts
    slow: str = ""  # why no burst is one to the DUT; empty if they are
    missing: str = ""  # why there are fewer tests than asked for

    @property
    def failed(self) -> str:
        """Why there is none; empty if there is one."""
        return self.slow or ("" if self.made else f"no burst could be judged: {self.missing}")


def measure_bursts(session: FrameSession) -> ScenarioResult:
    """Throughput, the engine's rate, then one search after the other, and what follows from them."""
    burst, ring = asked(session.scenario, Burst), session.scenario.smallest_ring
    session.warm_up()
    first = len(session.measurer.trials)
    ndr = searched_ndr(session) if burst.throughput_fps is None else None
    session.listener.phase(PHASE, expected_bursts(burst))
    tests = _tests(session, burst, ndr)
    words = "back to back, as fast as the engine goes" if burst.rate_fps is None else "as burst.rate_fps asks"
    carried = bursts.throughput(ndr, burst.throughput_fps)
    together, judged = bursts.burst_result(tests.made, tests.rate_fps, words, carried), session.measurer.trials[first:]
    warnings = () if tests.failed else (tests.missing, "" if together.throughput_fps else together.throughput_words)
    result = session.result(bursts.metrics(together, ndr), warnings, failed=tests.failed, of=judged)
    return replace(
        result,
        outcome=Outcome.IMPOSSIBLE if tests.slow else result.outcome,
        threads=(),
        verdict=None if tests.failed else bursts.verdict(together, judged, ring),
        generator_ceiling_fps=session.most_offered_fps,
        burst=together,
    )


def _tests(session: FrameSession, burst: Burst, ndr: Rate | None) -> _Tests:
    """None where no burst is faster than the DUT or none could be judged."""
    length = min(burst.max_frames, session.scenario.smallest_ring)
    try:
        rate_fps = median(_valid(session, burst, length).offered_fps for _ in range(TRIED))
    except _UnjudgedError as error:
        return _Tests(missing=str(error))
    if slow := bursts.not_faster(rate_fps, ndr, burst.throughput_fps):
        return _Tests((), rate_fps, slow)
    tests, reason, abandoned = list[BurstTest](), "", 0  # abandoned in a row
    for _ in range(burst.repeats):
        try:
            tests.append(_test(session, burst, tests))
            abandoned = 0
        except _UnjudgedError as error:
            reason, abandoned = str(error), abandoned + 1
        if abandoned == MOST_ABANDONED:
            break
    missing = f"{len(tests)} of {burst.repeats} tests could be judged; last: {reason}" if reason else ""
    rates_fps = [test.rate_fps for test in tests if test.rate_fps is not None]
    return _Tests(tests, median(rates_fps or [rate_fps]), "", missing)


def _valid(session: FrameSession, burst: Burst, frames: int) -> Trial:
    """A valid burst of this many frames. Raises _UnjudgedError."""
    trial = session.valid(lambda *_: session.measurer.burst(PHASE, frames, burst.rate_fps), 0.0, 0.0)
    if trial.validity is not TrialValidity.VALID:
        raise _UnjudgedError(f"{units.frames(frames)} frames: {trial.validity.value}: {trial.reason}")
    return trial


def _test(session: FrameSession, burst: Burst, before: Sequence[BurstTest]) -> BurstTest:
    """One search, which looks first where the last one ended."""
    sent: dict[int, Trial] = {}
    first = len(session.measurer.trials)

    def loses(frames: int) -> bool:
        sent[frames] = _valid(session, burst, frames)
        return sent[frames].lost > 0

    start = before[-1].longest if before and before[-1].longest else session.scenario.smallest_ring
    gallop = min(GALLOP, 1 + NEAR * burst.relative_width) if before else GALLOP
    bounds = longest_burst(loses, start, burst.max_frames, burst.relative_width, gallop)
    longest = sent.get(bounds.lossless)
    ids = tuple(trial.id for trial in session.measurer.trials[first:])
    return BurstTest(bounds.lossless, bounds.lossy, longest.offered_fps if longest else None, ids)


MEASURE: Final = MeasureKind(
    made=Burst,
    finds="the longest burst without loss",
    table=lambda _: BURST,
    run=over_frames(measure_bursts),
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
)

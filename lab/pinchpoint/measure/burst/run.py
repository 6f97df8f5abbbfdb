"""The measure `burst`: back-to-back frames (RFC 2544, 26.4; RFC 9004), on a bench that stands."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median, stdev
from typing import ClassVar, Final

from pinchpoint.causes.evidence import by_reason, named
from pinchpoint.dut.device import Keys
from pinchpoint.keys import kinds
from pinchpoint.keys.key import Key, Table, Unset
from pinchpoint.keys.reader import Values
from pinchpoint.keys.source import Source
from pinchpoint.measure.frames import over_frames
from pinchpoint.measure.kind import TRIAL_S, Arrays, MeasureKind, asked
from pinchpoint.measure.rates.run import searched_ndr, searching_s
from pinchpoint.measure.session import Session, first_round
from pinchpoint.measure.summary import valid
from pinchpoint.model import units
from pinchpoint.model.measurement import BurstResult, BurstTest, Metric, fewest_for_interval
from pinchpoint.model.result import Limit, Outcome, Rate, RateStatus, ScenarioResult, Verdict
from pinchpoint.model.scenario import Scenario
from pinchpoint.model.trial import Trial, TrialValidity
from pinchpoint.model.warning import Warn
from pinchpoint.search.burst import GALLOP, longest_burst
from pinchpoint.stats.estimate import median_interval

PHASE = "burst"
TRIED = 3  # bursts as long as the smallest ring, which show the engine's own rate: refusing frames is faster

MOST_ABANDONED = 3  # tests in a row of which some burst was never valid
NEAR = 4  # widths of a search's end: how far from the last test's answer the next one looks first
_OF_FIRST, _OF_OTHERS = 12, 5.5  # bursts of a test, as seen on quiet DUTs
FASTER = 1.02  # times the DUT's throughput that a burst must at least have: below it nothing need be buffered
MAJORITY = 0.5  # share of the losses that one reason must explain to be called the limit


@dataclass(frozen=True)
class Burst:
    """How the longest burst without loss is looked for."""

    kind: ClassVar[str] = "burst"
    repeats: int  # searches, each from a burst of its own to its end
    rate_fps: float | None  # within a burst; None: back to back, as fast as the engine goes
    throughput_fps: float | None  # of the DUT, for the correction; None: its NDR is searched first
    max_frames: int  # longest burst tried
    relative_width: float  # a search ends when its bounds are this close, relative to the upper one


BURST: Final = Table("burst",
    "How the longest burst without loss is searched (RFC 2544, 26.4, as updated by RFC 9004). One [[stream]] from a "
    "port with one queue.", (
    Key("repeats", kinds.integer(1, 1000), "Number of independent searches; RFC 9004 asks for 50.", 50),
    Key("rate_fps", kinds.number(1, 1e9), "Frames per second within a burst.",
        Unset("back to back: as fast as the engine presents them")),
    Key("throughput_fps", kinds.number(1, 1e9), "The DUT's throughput, for the corrected buffer time.",
        Unset("its NDR, which is searched first, as set in [search]")),
    Key("max_frames", kinds.integer(2, 100_000_000), "Length of the longest burst tried.", 1_000_000),
    Key("relative_width", kinds.number(0.0001, 0.5),
        "A search ends when its bounds are this close, relative to the upper one.", 0.01),
), measures=("burst",))  # fmt: skip


def check_keys(source: Source, _: Values, arrays: Arrays, __: Keys) -> None:
    """One stream from one queue: frames of several would not come back to back, but side by side."""
    if len(arrays["stream"]) > 1:
        source.problem(("stream",), f'expected one [[stream]] with measure = "burst", found {len(arrays["stream"])}')
    senders = {stream.values.get("tx_port") for stream in arrays["stream"]}
    for port in arrays["port"]:
        queues = port.values.get("queues", 1)
        if port.values.get("name") in senders and queues > 1:
            source.mismatch((*port.at, "queues"), "1 where a burst is sent: one core sends it", queues)


def not_faster(rate_fps: float, ndr: Rate | None, given_fps: float | None) -> str:
    """Why frames at this rate would be no burst to the DUT; empty if they are."""
    if ndr is not None and ndr.status is RateStatus.AT_LEAST:
        return (
            f"no burst is faster than the DUT: its NDR is at least {units.fps(ndr.quoted_fps)} ({ndr.reason}), and a "
            f"burst reaches {units.fps(rate_fps)}"
        )
    carried_fps = given_fps if ndr is None else ndr.quoted_fps
    if carried_fps is None or rate_fps >= FASTER * carried_fps:
        return ""
    return (
        f"no burst is faster than the DUT: a burst reaches {units.fps(rate_fps)}, and the DUT carries "
        f"{units.fps(carried_fps)} without loss indefinitely"
    )


def throughput(ndr: Rate | None, given_fps: float | None) -> tuple[float | None, str]:
    """The throughput for the correction, and which one it is; None with the reason."""
    if ndr is None:
        return given_fps, "as burst.throughput_fps gives it; its trial length is unknown"
    if ndr.status is not RateStatus.FOUND or ndr.quoted_fps is None:
        return None, f"no NDR, and so no correction: {ndr.reason}"
    return ndr.quoted_fps, f"NDR, {ndr.definition}"


def burst_result(
    tests: Sequence[BurstTest], rate_fps: float, rate_words: str, carried: tuple[float | None, str]
) -> BurstResult:
    """The tests together, with the buffer times of RFC 9004.

    implied = average burst / rate; corrected = implied x (1 - throughput / rate): the DUT went on
    forwarding while the burst came in, so only that share of it had to be held.
    """
    throughput_fps, words = carried
    result = BurstResult(tuple(tests), rate_fps, rate_words, throughput_fps, words, None, None)
    if not tests or not rate_fps:
        return result
    implied_s = result.average / rate_fps
    corrected_s = None if throughput_fps is None else max(0.0, implied_s * (1 - throughput_fps / rate_fps))
    return replace(result, implied_s=implied_s, corrected_s=corrected_s)


def metrics(result: BurstResult, ndr: Rate | None, ring: int) -> Iterator[Metric]:
    """The figures that curves are drawn from; none without a test. `ring` is the smallest between engine and DUT."""
    if not result.tests:
        return
    lengths = [float(test.longest) for test in result.tests]
    open_ended = sum(test.lost_at is None for test in result.tests)
    n = units.counted(len(lengths), "test")
    if open_ended:
        note = f"at least: bursts of burst.max_frames lost nothing in {open_ended} of {n}"
        yield Metric("longest burst", "count", result.average, min(lengths), None, note)
    elif len(lengths) == 1:
        yield Metric("longest burst", "count", result.average, lengths[0], result.tests[0].lost_at, "frames; one test")
    else:
        middle = median_interval(lengths)
        kind = "its 95 % interval by ranks" if len(lengths) >= fewest_for_interval() else "their range"
        note = f"frames; median of {n}, and {kind}"
        yield Metric("longest burst", "count", *middle.figures, note, level=middle.level)
    yield Metric("average burst", "count", result.average, note="frames; what RFC 9004 corrects")
    yield Metric("shortest of the tests", "count", min(lengths), note="frames")
    yield Metric("longest of the tests", "count", max(lengths), note="frames")
    if len(lengths) > 1:
        yield Metric("burst standard deviation", "count", stdev(lengths), note=f"frames, over {n}")
    rates = [test.rate_fps for test in result.tests if test.rate_fps is not None]
    ends = min(rates, default=None), max(rates, default=None)
    yield Metric("burst rate", "fps", result.rate_fps, *ends, f"{result.rate_words}; median of {n}")
    if result.throughput_fps is not None:
        bounds = (None, None) if ndr is None else (ndr.lower_fps, ndr.upper_fps)
        name = "given throughput" if ndr is None else "NDR"
        yield Metric(name, "fps", result.throughput_fps, *bounds, result.throughput_words)
    if result.implied_s is not None:
        yield Metric("implied buffer time", "s", result.implied_s, note="longest burst / burst rate")
    if result.corrected_s is not None:
        note = "implied buffer time x (1 - throughput / burst rate), RFC 9004"
        yield Metric("corrected buffer time", "s", result.corrected_s, note=note)
        frames = result.corrected_s * result.rate_fps
        yield Metric("corrected buffer", "count", frames, note="frames; corrected buffer time x burst rate")
        yield Metric("ring", "count", float(ring), note="frames; the smallest between engine and device")


def verdict(result: BurstResult, trials: Sequence[Trial], ring: int) -> Verdict:
    """What lost the first frames of bursts that were too long; `ring` is the smallest between engine and DUT."""
    if all(test.lost_at is None for test in result.tests):
        headline = f"bursts of up to {units.number(result.average)} frames lost nothing; no longer one was tried"
        return Verdict(Limit.SEARCH_MAXIMUM, headline, (), (), ())
    lossy = [trial for trial in valid(trials) if trial.burst_frames and trial.lost]
    lost, groups = sum(trial.lost for trial in lossy), by_reason(lossy)
    evidence = [f"{units.frames(lost)} frames lost in {units.counted(len(lossy), 'burst')} that were too long"]
    evidence += named(groups)
    if result.corrected_s is not None:
        held = result.corrected_s * result.rate_fps
        evidence.append(
            f"the buffer that follows, {units.number(round(held))} frames, is {held / ring:.2f} times the smallest "
            f"ring between engine and DUT ({units.frames(ring)})"
        )
    longest = f"beyond {units.number(round(result.average))} frames at {units.fps(result.rate_fps)}"
    most = max((drop for group in groups for drop in group.drops), key=lambda drop: drop.frames, default=None)
    limit, headline = Limit.UNEXPLAINED, f"unexplained: no counter names what bursts {longest} lost"
    if lost and most and most.frames >= MAJORITY * lost:
        limit, headline = Limit.NAMED_DROP, f"bursts {longest} overflow: {most.name}"
    return Verdict(limit, headline, tuple(evidence), (), tuple(trial.id for trial in lossy))


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


def measure_bursts(session: Session) -> ScenarioResult:
    """Throughput, the engine's rate, then one search after the other, and what follows from them."""
    burst, ring = asked(session.scenario, Burst), session.scenario.smallest_ring
    session.warm_up()
    first = len(session.trials)
    ndr = searched_ndr(session) if burst.throughput_fps is None else None
    session.listener.phase(PHASE, expected_bursts(burst))
    tests = _tests(session, burst, ndr)
    words = "back to back, as fast as the engine goes" if burst.rate_fps is None else "as burst.rate_fps asks"
    carried = throughput(ndr, burst.throughput_fps)
    together, judged = burst_result(tests.made, tests.rate_fps, words, carried), session.trials[first:]
    missing = Warn.TESTS_MISSING.of(tests.missing) if tests.missing else None
    uncorrected = None if together.throughput_fps else Warn.NO_THROUGHPUT.of(together.throughput_words)
    warnings = () if tests.failed else (missing, uncorrected)
    result = session.result(metrics(together, ndr, ring), warnings, failed=tests.failed, of=judged)
    return replace(
        result,
        outcome=Outcome.IMPOSSIBLE if tests.slow else result.outcome,
        threads=(),
        verdict=None if tests.failed else verdict(together, judged, ring),
        generator_ceiling_fps=session.most_offered_fps,
        burst=together,
    )


def _tests(session: Session, burst: Burst, ndr: Rate | None) -> _Tests:
    """None where no burst is faster than the DUT or none could be judged."""
    length = min(burst.max_frames, session.scenario.smallest_ring)
    try:
        rate_fps = median(_valid(session, burst, length).offered_fps for _ in range(TRIED))
    except _UnjudgedError as error:
        return _Tests(missing=str(error))
    if slow := not_faster(rate_fps, ndr, burst.throughput_fps):
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


def _valid(session: Session, burst: Burst, frames: int) -> Trial:
    """A valid burst of this many frames. Raises _UnjudgedError."""
    trial = session.valid(lambda *_: session.burst(PHASE, frames, burst.rate_fps), 0.0, 0.0)
    if trial.validity is not TrialValidity.VALID:
        raise _UnjudgedError(f"{units.frames(frames)} frames: {trial.validity.value}: {trial.reason}")
    return trial


def _test(session: Session, burst: Burst, before: Sequence[BurstTest]) -> BurstTest:
    """One search, which looks first where the last one ended."""
    sent: dict[int, Trial] = {}
    first = len(session.trials)

    def loses(frames: int) -> bool:
        sent[frames] = _valid(session, burst, frames)
        return sent[frames].lost > 0

    start = before[-1].longest if before and before[-1].longest else session.scenario.smallest_ring
    gallop = min(GALLOP, 1 + NEAR * burst.relative_width) if before else GALLOP
    bounds = longest_burst(loses, start, burst.max_frames, burst.relative_width, gallop)
    longest = sent.get(bounds.lossless)
    ids = tuple(trial.id for trial in session.trials[first:])
    return BurstTest(bounds.lossless, bounds.lossy, longest.offered_fps if longest else None, ids)


MEASURE: Final = MeasureKind(
    made=Burst,
    finds="the longest burst without loss",
    table=lambda _: BURST,
    run=over_frames(measure_bursts),
    expected_s=expected_s,
    main=("longest burst", "corrected buffer time", "corrected buffer", "burst rate", "NDR", "given throughput",
          "implied buffer time", "shortest of the tests", "longest of the tests", "burst standard deviation"),
    check=check_keys,
    by_any_engine=True,
    through_service=True,
    paces=True,
)  # fmt: skip

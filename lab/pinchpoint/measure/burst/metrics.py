"""What bursts come to: whether one was back to back, the buffer that follows, what lost the first frames. Pure."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import stdev

from pinchpoint.measure.summary import valid
from pinchpoint.model import units
from pinchpoint.model.measurement import BurstResult, BurstTest, Metric
from pinchpoint.model.result import Limit, Rate, RateStatus, Verdict
from pinchpoint.model.trial import Trial
from pinchpoint.stats.estimate import FEWEST_FOR_INTERVAL, median_interval

FASTER = 1.02  # times the DUT's throughput that a burst must at least have: below it nothing need be buffered
MAJORITY = 0.5  # share of the losses that one reason must explain to be called the limit


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
        f"{units.fps(carried_fps)} without loss for as long as one likes"
    )


def throughput(ndr: Rate | None, given_fps: float | None) -> tuple[float | None, str]:
    """The throughput for the correction, and which one it is; None with the reason."""
    if ndr is None:
        return given_fps, "as burst.throughput_fps gives it; of what trial length is not known"
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


def metrics(result: BurstResult, ndr: Rate | None) -> Iterator[Metric]:
    """The figures that curves are drawn from; none without a test."""
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
        kind = "its 95 % interval by ranks" if len(lengths) >= FEWEST_FOR_INTERVAL else "their range"
        note = f"frames; median of {n}, and {kind}"
        yield Metric("longest burst", "count", middle.centre, middle.low, middle.high, note)
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


def verdict(result: BurstResult, trials: Sequence[Trial], ring: int) -> Verdict:
    """What lost the first frames of bursts that were too long; `ring` is the smallest between engine and DUT."""
    if all(test.lost_at is None for test in result.tests):
        headline = f"bursts of up to {units.number(result.average)} frames lost nothing; no longer one was tried"
        return Verdict(Limit.SEARCH_MAXIMUM, headline, (), (), ())
    lossy = [trial for trial in valid(trials) if trial.burst_frames and trial.lost]
    lost = sum(trial.lost for trial in lossy)
    counters, by_name = dict[str, str](), Counter[str]()
    for drop in (drop for trial in lossy for hop in trial.ledger.hops for drop in hop.drops):
        counters[drop.name] = drop.counter
        by_name[drop.name] += drop.frames
    evidence = [f"{units.frames(lost)} frames lost in {units.counted(len(lossy), 'burst')} that were too long"]
    evidence += [f"{units.frames(count)} of them: {name} ({counters[name]})" for name, count in by_name.most_common(4)]
    if result.corrected_s is not None:
        held = result.corrected_s * result.rate_fps
        evidence.append(
            f"the buffer that follows, {units.number(round(held))} frames, is {held / ring:.2f} times the smallest "
            f"ring between engine and DUT ({units.frames(ring)})"
        )
    longest = f"beyond {units.number(round(result.average))} frames at {units.fps(result.rate_fps)}"
    name, most = by_name.most_common(1)[0] if by_name else ("", 0)
    limit, headline = Limit.NAMED_DROP, f"bursts {longest} overflow: {name}"
    if not lost or most < MAJORITY * lost:
        limit, headline = Limit.UNEXPLAINED, f"unexplained: no counter names what bursts {longest} lost"
    return Verdict(limit, headline, tuple(evidence), (), tuple(trial.id for trial in lossy))

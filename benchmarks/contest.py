"""Contenders for the same work, run in turns, and what their samples say together.

Cores of a shared machine are noisy, so only ratios of neighbouring runs mean anything:
every round runs all contenders once, every other round backwards.
"""

import statistics
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

APART = "cores apart ns"  # the note of a rate across two cores
# Virtual machines' cores jump between two distances, 25 to 40 ns and 140 to 220 ns, and such rates with them.
FAR_AND_NEAR = 2.0


@dataclass(frozen=True)
class Sample:
    """One run: `rate` per second; shares of one core, null where they are unknown."""

    rate: float
    cpu_share: float | None = None  # CPU seconds per second of the contender and its core's ksoftirqd
    kernel_share: float | None = None  # of those CPU seconds
    notes: dict[str, float] = field(default_factory=dict)  # by name and unit, e.g. "PMD busy %"


@dataclass(frozen=True)
class Contender:
    """One program at one work, given its contest's bench.

    `missing` says why it cannot take part, and what mends it.
    """

    name: str
    run: Callable[[Any], Sample]
    missing: str | None = None


@dataclass(frozen=True)
class Aim:
    """What shall be reached, in the median: "ratio", "rate", or one of the notes of ours."""

    what: str
    at_least: float
    at_most: bool = False  # `at_least` is then the most that it may be
    of_peers: bool = False  # it is then the note's ratio to the peer's, in the same round

    def met(self, found: float) -> bool:
        """Whether `found` is as good as it should be."""
        return found <= self.at_least if self.at_most else found >= self.at_least


@dataclass(frozen=True)
class Line:
    """One line of the table: one contender against another, or alone."""

    work: str
    ours: str
    against: str | None = None
    aims: tuple[Aim, ...] = ()
    remark: str = ""


@dataclass(frozen=True)
class Contest:
    """Contenders that are run in turns on a bench that stands for all rounds, and the lines that come of it."""

    name: str
    unit: str  # of the rates: "frames", "transactions" or "items"
    contenders: tuple[Contender, ...]
    lines: tuple[Line, ...]
    bench: Callable[[], AbstractContextManager[Any]] = nullcontext
    rounds: int | None = None  # fewer than asked for, where a contender has rounds of its own


Samples = dict[str, list[Sample]]
OnSample = Callable[[int, Contender, Sample], None]
OnFailure = Callable[[Contender, str], None]


@dataclass
class Outcome:
    """The samples of a contest by contender, and why some have none."""

    contest: Contest
    samples: Samples = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)


def hold(contest: Contest, rounds: int, on_sample: OnSample, on_failure: OnFailure) -> Outcome:
    """All rounds of `contest`; who fails in one is out, and its failure told."""
    outcome = Outcome(contest)
    for contender in contest.contenders:
        if contender.missing is not None:
            outcome.failures[contender.name] = contender.missing
    if len(outcome.failures) == len(contest.contenders):
        return outcome
    with contest.bench() as bench:
        for number in range(min(rounds, contest.rounds or rounds)):
            order = contest.contenders if number % 2 == 0 else contest.contenders[::-1]
            for contender in order:
                if contender.name not in outcome.failures:
                    _run(contender, bench, number, outcome, on_sample, on_failure)
    return outcome


def _run(
    contender: Contender, bench: object, number: int, outcome: Outcome, on_sample: OnSample, on_failure: OnFailure
) -> None:
    try:
        sample = contender.run(bench)
    except Exception as error:  # a peer may fail in any way; the others go on
        outcome.failures[contender.name] = f"{type(error).__name__}: {error}"
        outcome.samples.pop(contender.name, None)
        on_failure(contender, outcome.failures[contender.name])
        return
    outcome.samples.setdefault(contender.name, []).append(sample)
    on_sample(number, contender, sample)


@dataclass(frozen=True)
class Spread:
    """A median with its range."""

    median: float
    low: float
    high: float


def spread(values: Sequence[float]) -> Spread | None:
    """Median and range; none of nothing."""
    return Spread(statistics.median(values), min(values), max(values)) if values else None


def rates(samples: Sequence[Sample]) -> Spread | None:
    """Of the rates."""
    return spread([sample.rate for sample in samples])


def comparable(ours: Sequence[Sample], theirs: Sequence[Sample]) -> list[tuple[Sample, Sample]]:
    """The rounds in which both did something, their cores equally far apart where that was noted."""
    pairs = zip(ours, theirs, strict=True) if ours and theirs else ()
    return [(a, b) for a, b in pairs if b.rate and _distance_change(a, b) < FAR_AND_NEAR]


def _distance_change(first: Sample, other: Sample) -> float:
    distances = [sample.notes[APART] for sample in (first, other) if APART in sample.notes]
    return max(distances) / min(distances) if len(distances) == 2 else 1.0


def ratios(ours: Sequence[Sample], theirs: Sequence[Sample]) -> Spread | None:
    """Of the comparable rounds' ratios; none if there are no such rounds."""
    return spread([a.rate / b.rate for a, b in comparable(ours, theirs)])


def ratios_per_cpu(ours: Sequence[Sample], theirs: Sequence[Sample]) -> Spread | None:
    """Of the comparable rounds' ratios for each second of CPU time; none if that is not known of both."""
    pairs = comparable(ours, theirs)
    each = [a.rate / a.cpu_share / (b.rate / b.cpu_share) for a, b in pairs if a.cpu_share and b.cpu_share]
    return spread(each)


def cycles(samples: Sequence[Sample], clock_hz: int) -> Spread | None:
    """Cycles of the core, idle ones included, for each frame or transaction: clock x CPU share / rate."""
    known = [clock_hz * sample.cpu_share / sample.rate for sample in samples if sample.cpu_share and sample.rate]
    return spread(known)


def kernel_share(samples: Sequence[Sample]) -> float | None:
    """The kernel's share of the CPU time, median."""
    known = [sample.kernel_share for sample in samples if sample.kernel_share is not None]
    return statistics.median(known) if known else None


def notes(samples: Sequence[Sample]) -> dict[str, float]:
    """Medians of the notes that all samples have."""
    names = [name for name in samples[0].notes if all(name in sample.notes for sample in samples)] if samples else []
    return {name: statistics.median(sample.notes[name] for sample in samples) for name in names}


def reached(aim: Aim, ours: Sequence[Sample], theirs: Sequence[Sample]) -> float | None:
    """What the median is that `aim` is about; none if it could not be measured."""
    if aim.what == "ratio":
        median = ratios(ours, theirs)
        return median.median if median else None
    if aim.what == "rate":
        median = rates(ours)
        return median.median if median else None
    if aim.of_peers:
        pairs = [(a.notes.get(aim.what), b.notes.get(aim.what)) for a, b in comparable(ours, theirs)]
        beside = spread([a / b for a, b in pairs if a and b])
        return beside.median if beside else None
    return notes(ours).get(aim.what)

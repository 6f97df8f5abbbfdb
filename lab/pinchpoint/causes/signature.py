"""The parts of a cause's row: conditions on what was observed, and how much the cause would explain. Pure data.

From where on a share counts: one constant for each idea. How busy is busy: model/limits.py; what an
overload is: model/trial.py; far below the MRR: model/result.py.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from pinchpoint.model import units
from pinchpoint.model.causes import Experiment, Sign, Signs
from pinchpoint.model.hops import DropKind, Party
from pinchpoint.model.limits import Resource
from pinchpoint.model.result import Limit

NOTABLE: Final = 0.1  # of the losses, or of a thread's time: what explains less is not suspected
MOST: Final = 0.5
HELD_UP: Final = 0.01  # of a trial: a thread that waited for its core no longer was not held up
SEEN: Final = 0.001  # of the frames: what fewer of them do says nothing


@dataclass(frozen=True)
class Is:
    """A sign lies within bounds; one that was not observed does not."""

    sign: Sign
    at_least: float = float("-inf")
    below: float = float("inf")

    def holds(self, signs: Signs) -> bool:
        value = signs.values.get(self.sign)
        return value is not None and self.at_least <= value < self.below

    def words(self, signs: Signs) -> str:
        """The sign with its value."""
        return f"{self.sign}: {self.sign.shown(signs.values[self.sign])}"

    def asks(self) -> str:
        """The condition, for people."""
        bounds = [f"at least {self.sign.shown(self.at_least)}"] if self.at_least > float("-inf") else []
        bounds += [f"below {self.sign.shown(self.below)}"] if self.below < float("inf") else []
        return f"{self.sign}: {' and '.join(bounds)}"


@dataclass(frozen=True)
class Lost:
    """Some share of the lost frames was dropped for want of these."""

    kinds: tuple[DropKind, ...]
    at_least: float

    def holds(self, signs: Signs) -> bool:
        return self.share(signs) >= self.at_least

    def share(self, signs: Signs) -> float:
        """Of the lost frames."""
        return math.fsum(signs.lost.get(kind, 0.0) for kind in self.kinds)

    def words(self, signs: Signs) -> str:
        """The drops with their share."""
        return f"{units.share(self.share(signs))} of the lost frames: {_either(self.kinds)}"

    def asks(self) -> str:
        """The condition, for people."""
        return f"at least {units.share(self.at_least)} of the lost frames: {_either(self.kinds)}"


@dataclass(frozen=True)
class Any:
    """At least one of several conditions."""

    of: tuple[Is | Lost, ...]

    def holds(self, signs: Signs) -> bool:
        return any(condition.holds(signs) for condition in self.of)

    def held(self, signs: Signs) -> Iterator[Is | Lost]:
        """Those that hold."""
        return (condition for condition in self.of if condition.holds(signs))

    def asks(self) -> str:
        """The condition, for people."""
        return ", or ".join(condition.asks() for condition in self.of)


@dataclass(frozen=True)
class Unless:
    """Something else was not seen that would explain the same; what could not be observed was not seen."""

    of: Is

    def holds(self, signs: Signs) -> bool:
        """Whether it was not."""
        return not self.of.holds(signs)

    def words(self, signs: Signs) -> str:
        """The sign with its value, where there is one."""
        return self.of.words(signs) if self.of.sign in signs.values else f"{self.of.sign}: not observed"

    def asks(self) -> str:
        """The condition, for people."""
        return f"not {self.of.asks()}"


Condition = Is | Lost | Any | Unless
Weight = Callable[[Signs], float]
"""What a cause would explain, between 0 and 1: a share of the losses, or of the forwarding thread's time."""


def lost(*kinds: DropKind) -> Weight:
    """The share of the lost frames."""
    return Lost(kinds, 0.0).share


@dataclass(frozen=True)
class Try:
    """A counter-experiment, and what it does if this is the cause."""

    experiment: Experiment
    expects: str


@dataclass(frozen=True)
class Cause:
    """One row of the catalogue."""

    name: str
    title: str  # a noun phrase
    signature: tuple[Condition, ...]  # all of them
    mend: str  # what the user can do, on any device
    test: Try | None = None  # None: nothing can be tried
    explains: Weight | None = None  # None: as many of the lost frames as its signature names
    slows: bool = True  # False: without the cause the rate may fall as well as rise
    limit: Limit = Limit.NAMED_DROP  # what pinched the number where this fits; of frames the drop that most of them met
    shows: tuple[Sign, ...] = ()  # evidence beside the signature, where it was observed
    party: Party | None = None  # whose doing that drop has to be, for `limit`; None: anybody's
    observed: Sign | None = None  # without which nothing is said of a device in service: no experiment would tell
    resource: Resource | None = None  # of which connections find no more where this is the cause
    without_keys: str = ""  # `mend` where there is no scenario whose keys it could name; empty: it names none

    @property
    def kinds(self) -> frozenset[DropKind]:
        """The kinds of drops that its signature names."""
        return frozenset(kind for condition in self.signature for kind in _kinds(condition))

    @property
    def drops(self) -> frozenset[DropKind]:
        """The kinds of drops that only this cause has: those of full rings have many."""
        return self.kinds - RINGS

    def weight(self, signs: Signs) -> float:
        """What it would explain, between 0 and 1."""
        return (self.explains or lost(*self.kinds))(signs)

    @property
    def experiment(self) -> Experiment | None:
        """What is tried."""
        return self.test.experiment if self.test else None

    def advice(self, of_device: Sequence[str]) -> str:
        """What the user can do: on any device, and by the settings of this one."""
        return f"{self.mend}; on this device: {', or '.join(of_device)}" if of_device else self.mend

    def in_service(self, commands: Sequence[str]) -> str:
        """What the user of a device that no scenario built can do; `commands` that do it."""
        words = self.without_keys or self.mend
        return f"{words} ({', or '.join(commands)})" if commands else words

    def fits(self, signs: Signs, *, in_service: bool = False) -> bool:
        """Whether the signature does; of a device in service also whether what it needs was observed."""
        if in_service and self.observed is not None and self.observed not in signs.values:
            return False
        return all(condition.holds(signs) for condition in self.signature)


@dataclass(frozen=True)
class Candidate:
    """A row that may be what pinched a number, with the one sign that tells, and its sentence if it does."""

    cause: Cause
    sign: Sign
    value: float
    words: str


def fitting(candidates: Iterable[Candidate]) -> Iterator[Candidate]:
    """Those whose signature fits, in the same order."""
    return (each for each in candidates if each.cause.fits(Signs({each.sign: each.value})))


RINGS: Final = frozenset(
    {DropKind.RECEIVE_RING, DropKind.KERNEL_QUEUE, DropKind.TRANSMIT_RING, DropKind.BUFFERS, DropKind.OTHER}
)


def _kinds(condition: Condition) -> Iterator[DropKind]:
    for part in condition.of if isinstance(condition, Any) else (condition,):
        if isinstance(part, Lost):
            yield from part.kinds


def _either(kinds: tuple[DropKind, ...]) -> str:
    return " or ".join(map(str, kinds))

"""Whether connections reached their backends in turn, one after the other. Pure.

Round-robin is a cycle over all backends, wherever it begins and whichever way it goes round: of two that follow each
other the second is known from the first. Workers with a turn each are so many cycles, mixed in an order that is not
known; a connection is astray where none of them was at its backend. Weighted round robin is a cycle of as many
connections as the weights are together, each backend as often as its weight, whatever its pattern is.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

Order = Sequence[int | None]
"""The backend of each connection, in the order in which they were opened; None: no right first answer came."""


@dataclass(frozen=True)
class Dealing:
    """How a device deals in turn."""

    turns: int = 1  # beside each other, one of each worker
    at_once: int = 1  # CPUs that deal in the same turn, and may overtake each other
    lines: int = 0  # of each backend, with a weighted share each and no promise of a cycle; 0: cycles are promised


ONE_TURN: Final = Dealing()


@dataclass(frozen=True)
class Astray:
    """A connection that reached another backend than the next."""

    number: int  # from 1, as opened
    backend: int
    due: tuple[int, ...]  # the next one of each turn


@dataclass(frozen=True)
class Followed:
    """How far an order is one of turns."""

    due: int  # connections for which a backend was due; of the first of a turn nothing is known
    astray: int  # of them
    first: Astray | None  # of these


def followed(order: Order, backends: int, turns: int) -> Followed:
    """By the cycle that fits best."""
    return min((_along(order, cycle, turns) for cycle in _cycles(order, backends)), key=lambda along: along.astray)


def in_cycles(order: Order, weights: Sequence[int]) -> Followed:
    """How many runs of as many connections as the weights are together have each backend as often as its weight.

    If all have, the order repeats itself.
    """
    first: Astray | None = None
    due, astray, run = 0, 0, deque[int](maxlen=sum(weights))
    for number, backend in enumerate(order, start=1):
        if backend is None:
            run.clear()
            continue
        run.append(backend)
        if len(run) == run.maxlen:
            due += 1
            if lacking := tuple(other for other, weight in enumerate(weights) if run.count(other) < weight):
                astray += 1
                first = first or Astray(number, backend, lacking)
    return Followed(due, astray, first)


def _cycles(order: Order, backends: int) -> Iterable[tuple[int, ...]]:
    """As listed, backwards, and as the first connections had it."""
    listed = tuple(range(backends))
    reached = dict.fromkeys(backend for backend in order if backend is not None)
    begun = (*reached, *(backend for backend in listed if backend not in reached))
    return dict.fromkeys((listed, listed[::-1], begun))


def _along(order: Order, cycle: tuple[int, ...], turns: int) -> Followed:
    """A turn that nobody has seen yet takes any backend: it is begun only where none of the others fits."""
    after = dict(zip(cycle, (*cycle[1:], cycle[0]), strict=True))
    first: Astray | None = None
    waiting, due, astray = list[int](), 0, 0
    for number, backend in enumerate(order, start=1):
        if backend is None:  # whether it took a turn is not known, nor whose
            waiting = []
        elif backend in waiting:
            due += 1
            waiting[waiting.index(backend)] = after[backend]
        elif len(waiting) < turns:
            waiting.append(after[backend])
        else:
            due, astray = due + 1, astray + 1
            first = first or Astray(number, backend, tuple(waiting))
            waiting[0] = after[backend]
    return Followed(due, astray, first)

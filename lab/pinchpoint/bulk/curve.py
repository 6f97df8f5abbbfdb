"""Items made over time, and whether the time per item grows. Pure."""

from collections.abc import Sequence
from typing import NamedTuple

STEPS = 20  # of a curve: enough to see where it bends
_FEWEST_STEPS = 4  # a quarter of the items needs a step of its own


class Step(NamedTuple):
    """Number of items that existed after a number of seconds."""

    items: int
    seconds: float


def thinned(steps: Sequence[Step], total: int, most: int = STEPS) -> tuple[Step, ...]:
    """At most about `most` steps, evenly by items, the first and the last among them."""
    kept: list[Step] = []
    due = 0.0
    for step in steps:
        if step.items >= due or step is steps[-1]:
            if kept and kept[-1].items == step.items:
                continue  # items did not grow: the earlier time is when they came
            kept.append(step)
            due = step.items + total / most
    return tuple(kept)


def seconds_at(steps: Sequence[Step], items: float) -> float:
    """When there were `items`, on a straight line between the steps; the ends hold beyond them."""
    before = steps[0]
    for step in steps:
        if step.items >= items:
            if step.items == before.items:
                return step.seconds
            share = (items - before.items) / (step.items - before.items)
            return before.seconds + share * (step.seconds - before.seconds)
        before = step
    return steps[-1].seconds


def growth(steps: Sequence[Step]) -> float | None:
    """Time per item in the last quarter of the items over that in the first; 1 is flat.

    None where the curve has too few steps to tell. What stands before the first item, e.g. a
    process that first reads its whole file, belongs to no item and is left out.
    """
    begun = [step for step in steps if step.items > 0]
    if not begun:
        return None
    idle = [step for step in steps if step.items == 0]
    curve = [idle[-1], *begun] if idle else begun
    first, last = curve[0].items, curve[-1].items
    quarter = (last - first) / 4
    early = sum(step.items <= first + quarter for step in curve)
    late = sum(step.items > last - quarter for step in curve)
    if len(curve) <= _FEWEST_STEPS or early < 2 or late < 2:
        return None
    opening = seconds_at(curve, first + quarter) - curve[0].seconds
    closing = curve[-1].seconds - seconds_at(curve, last - quarter)
    return closing / opening if opening > 0 else None

"""From what is there to what is wanted: a pure function, so that a plan can be shown and tested."""

from collections.abc import Sequence
from dataclasses import dataclass

from pinchpoint.bench.resource import AnyResource


@dataclass(frozen=True)
class Create:
    """Bring one resource into being."""

    resource: AnyResource


@dataclass(frozen=True)
class Remove:
    """Take one resource away; it may already be gone."""

    resource: AnyResource


Action = Create | Remove


def plan(current: Sequence[AnyResource], desired: Sequence[AnyResource]) -> tuple[Action, ...]:
    """The actions that turn `current` into `desired`.

    Both are in order of dependency (a namespace before the link in it), so what is
    no longer wanted goes in reverse order first, and what is missing comes in order.
    """
    kept = [resource for resource in current if resource in desired]
    removals = [Remove(resource) for resource in reversed(current) if resource not in desired]
    creations = [Create(resource) for resource in desired if resource not in kept]
    return (*removals, *creations)


def describe(actions: Sequence[Action]) -> tuple[str, ...]:
    """One line an action, numbered, as `--dry-run` and the report print it."""
    width = len(str(len(actions)))
    return tuple(
        f"{number:>{width}}. {'+' if isinstance(action, Create) else '-'} {action.resource.describe()}"
        for number, action in enumerate(actions, start=1)
    )

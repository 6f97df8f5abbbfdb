"""Values put together: by what they have in common, and as far as they are known; pure."""

from collections.abc import Hashable, Iterable
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


def grouped(pairs: Iterable[tuple[Key, Value]]) -> dict[Key, list[Value]]:
    """The values of each key; keys in the order in which they come first."""
    groups: dict[Key, list[Value]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups


def total(counts: Iterable[int | None]) -> int | None:
    """Of those counted; None if none was."""
    known = [count for count in counts if count is not None]
    return sum(known) if known else None

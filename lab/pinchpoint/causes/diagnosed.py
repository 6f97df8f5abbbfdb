"""A device as its diagnosis knows it: its own signs, and what its user can set. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from pinchpoint.model.causes import Sign

Seen = Mapping[str, float]
"""Counter differences and gauges of one trial, or of some seconds of a watched device."""


class Diagnosed(Protocol):
    """What is asked of a device."""

    def signs(self, seen: Seen) -> Mapping[Sign, float]:
        """What its own counters say of causes, beside drops and the threads' load."""

    def advice(self, cause: str, seen: Seen) -> Sequence[str]:
        """What its user can set against a cause of the catalogue, without what is set already."""


@dataclass(frozen=True)
class Unknown:
    """A device of whose own counters and settings nothing is known."""

    def signs(self, seen: Seen) -> Mapping[Sign, float]:
        return {}

    def advice(self, cause: str, seen: Seen) -> Sequence[str]:
        return ()


UNKNOWN: Final = Unknown()

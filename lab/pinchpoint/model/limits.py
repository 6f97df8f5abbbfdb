"""What bounds the connections that a balancer can open: each occupies resources, some for longer than it lives."""

from dataclasses import dataclass
from enum import StrEnum
from math import ceil
from typing import Final

SATURATED: Final = 0.95
"""Busy share from which a thread or a CPU has no headroom worth naming: one that polls reads its clock, too."""


class Resource(StrEnum):
    """What a connection may find exhausted, whatever a device calls it."""

    LOCAL_PORTS = "local ports"
    TABLE = "connection table"
    MEMORY = "memory"
    DESCRIPTORS = "descriptors"
    WORKER = "worker core"
    SOFTIRQ = "softirq"
    QDISC = "queueing discipline"  # of a port
    ACCEPT_QUEUE = "accept queue"
    BACKEND = "backend"
    GENERATOR = "generator"


@dataclass(frozen=True)
class Limit:
    """A resource of which every connection occupies one place, as the running device has it."""

    resource: Resource
    size: int | None  # places; None: not known
    held_s: float | None  # for how long a place stays occupied after the connection has closed; None: not known
    source: str  # the settings that this follows from, for people
    used: str = ""  # the gauge of places that are occupied, as its collector names it
    refused: tuple[str, ...] = ()  # counters that rise when no place is free; a pattern as fnmatch(3) has it

    @property
    def sustained_cps(self) -> float | None:
        """Connections per second that it can bear for ever: places / time (Little 1961). None: not known."""
        if self.size is None or self.held_s is None:
            return None
        return self.size / self.held_s if self.held_s else None


@dataclass(frozen=True)
class Wanted:
    """A rate of connections that is asked for, and how many there will be."""

    cps: float
    connections: int


def too_few(size: int, held_s: float, wanted: Wanted) -> int:
    """Places that a load needs beyond those that there are: it occupies rate x time (Little 1961); 0: none."""
    needed = min(float(wanted.connections), wanted.cps * held_s)
    return max(0, ceil(needed) - size)

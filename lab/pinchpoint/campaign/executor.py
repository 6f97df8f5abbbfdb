"""What starts attempts on machines; the loop of a campaign knows no more of them than this."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from pinchpoint.model.campaign import Bench


@dataclass(frozen=True)
class Order:
    """One attempt that a machine shall make."""

    attempt: str
    bench: Bench
    files: Mapping[str, bytes]  # of its run folder: run.json, and what an interrupted attempt has found
    programs: Mapping[str, str]  # keys that only a command line may set
    ceiling: bool


@dataclass(frozen=True)
class Joined:
    """A machine is there, and what dead runs had left on it is removed."""

    bench: Bench


@dataclass(frozen=True)
class Gone:
    """A machine is not there any more, with what it measured."""

    machine: str
    reason: str
    is_unusable: bool = False  # it is there, but cannot measure


@dataclass(frozen=True)
class Grown:
    """Whole lines that an attempt has added to a file on its machine."""

    attempt: str
    file: str
    lines: bytes


@dataclass(frozen=True)
class Ended:
    """An attempt is over."""

    attempt: str
    machine: str
    exit_code: int
    files: Mapping[str, bytes]  # of its run folder; empty: they are in the campaign's folder already
    said: str  # the end of what it printed


Event = Joined | Gone | Grown | Ended


class Executor(Protocol):
    """Machines, each of which makes one attempt at a time."""

    @property
    def grace_s(self) -> float:
        """After the last machine has joined, how long others may still come that can measure what no other can."""

    @property
    def absent_s(self) -> float:
        """Without any machine, after how long the campaign ends, to be resumed."""

    def start(self, order: Order) -> None:
        """Begin an attempt on a machine that has joined and is free. Raises PinchpointError."""

    def wait(self, timeout_s: float) -> Sequence[Event]:
        """What has happened; returns at once if something has."""

    def stop(self) -> None:
        """Interrupt every attempt; each ends as an interrupted run does, its bench removed."""

    def close(self) -> None:
        """End what was started."""

"""The exceptions that reach the user, each one line: what, where, what to do.

PinchpointError                 exit code 1
├── InputError                  exit code 2: a scenario, option or file is wrong
├── RequirementError            exit code 3: this machine lacks something; says the command that mends it
├── BenchError                  exit code 4: building the bench failed (e.g. the switch refused a rule)
├── EngineError                 exit code 5: the traffic engine failed, died or spoke nonsense
├── DutError                    exit code 6: the device under test died or stopped answering
└── StoreError                  exit code 7: results could not be written (disk full, folder exists)

Two answers have an exit code of their own, whatever command found them: WORSE, 8, and UNDECIDED, 9.
SIGINT ends with 130 after saving what was measured and removing the bench.
"""

from collections.abc import Collection, Iterable
from difflib import get_close_matches
from typing import Final

WORSE: Final = 8
"""The exit code of a comparison or a trend that found the newer one worse."""

UNDECIDED: Final = 9
"""The exit code of a command without an answer: no number, ratio or cause that is decided, too few builds or runs."""
_LONGEST_WORD: Final = 60  # difflib's time grows with the square


def nearest(word: str, known: Iterable[str]) -> str:
    """The most likely one meant; empty if none is near."""
    return next(iter(get_close_matches(word[:_LONGEST_WORD], known, 1)), "")


def choices(word: str, known: Collection[str], are: str = "one of") -> str:
    """A hint for a word that is not among those known: the most likely one meant, and what those known `are`."""
    near = nearest(word, known)
    return f"{f'did you mean {near}? ' if near else ''}{are}: {', '.join(known)}"


class PinchpointError(Exception):
    """Base of all errors meant for the user."""

    exit_code = 1

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n  hint: {self.hint}" if self.hint else self.message


class InputError(PinchpointError):
    """A scenario, option or other input is wrong; nothing was built."""

    exit_code = 2


class RequirementError(PinchpointError):
    """The machine lacks something that the run needs; `hint` is the command that mends it."""

    exit_code = 3


class NothingRunsError(RequirementError):
    """No device runs where one was to be watched."""


class NoLibrariesError(RequirementError):
    """A program is there, but not the shared libraries that it was built for."""


class BenchError(PinchpointError):
    """An action of the plan failed; what was built so far has been removed."""

    exit_code = 4


class UnreachableError(BenchError):
    """Two ends of the bench do not reach each other."""


class HostLostError(BenchError):
    """The host on which the bench stands does not answer."""


class EngineError(PinchpointError):
    """The traffic engine failed, died, or broke the protocol."""

    exit_code = 5


class LinkDownError(EngineError):
    """A link of the engine did not come up within the time that it waits for links."""


class NoHugepagesError(EngineError):
    """DPDK did not get the hugepages that the engine was to take."""


class DutError(PinchpointError):
    """The device under test died or stopped answering."""

    exit_code = 6


class StoreError(PinchpointError):
    """Results could not be written or read."""

    exit_code = 7


BROKEN: Final = (BenchError, DutError, EngineError)
"""A bench is, or its engine."""
OF_A_UNIT: Final = (RequirementError, InputError, *BROKEN)
"""What becomes the outcome of one point of a sweep, so that the others are measured."""

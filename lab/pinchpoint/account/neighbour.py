"""Whether a neighbour slowed the DUT's core: whatever runs on the core's other hardware thread.

The engine probes how many instructions a cycle a core executes, before and after each trial (protocol/README.md:
`ipc_before`). The most that a core was seen to execute is all of it; less is what a neighbour left. So what is known
of a trial may change with a later one that saw more. It is a fact of the trial, which counts like any other.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pinchpoint.model import units
from pinchpoint.model.trial import Trial

ALONE = 0.93  # of the most that the core was seen to execute: probes of an idle host differ by less
TELLING = 0.1  # share of slowed trials from which the report has a sentence


class Widths:
    """The most that each core of the DUT was seen to execute, and what trials had of it."""

    def __init__(self) -> None:
        self._most: dict[int, float] = {}

    def note(self, trial: Trial) -> None:
        """Take what was seen before and after a trial."""
        for core, ipc in _probes(trial):
            self._most[core] = max(ipc, self._most.get(core, 0.0))

    def left(self, trial: Trial) -> float | None:
        """The share of its core that the DUT had, the lower of the probes; None if none was made."""
        return min((ipc / self._most.get(core, ipc) for core, ipc in _probes(trial)), default=None)

    def is_slowed(self, trial: Trial) -> bool:
        """Whether a trial, noted herewith, was slowed as far as is known by now."""
        self.note(trial)
        left = self.left(trial)
        return left is not None and left < ALONE


@dataclass(frozen=True)
class Neighbour:
    """How the DUT's cores fared over trials."""

    cores: tuple[int, ...]  # that were probed
    trials: int  # in which one was
    slowed: int  # of them
    least: float  # share of a core that was left, in the worst

    @property
    def share(self) -> float:
        """Of trials that were slowed."""
        return self.slowed / self.trials if self.trials else 0.0

    @property
    def sentence(self) -> str:
        """For whoever reads the numbers; empty if few trials were slowed."""
        if self.share < TELLING:
            return ""
        where = f"core {', '.join(map(str, self.cores))}"
        return (
            f"the host slowed the switch's {where} in {units.share(self.share)} of {self.trials} trials, to "
            f"{units.share(self.least)} of its speed at worst: something else runs on its other hardware thread"
        )


def of_trials(trials: Sequence[Trial]) -> Neighbour:
    """Over all trials in which a core of the DUT was probed, held against the most that was seen in any."""
    widths = Widths()
    for trial in trials:
        widths.note(trial)
    left = [share for trial in trials if (share := widths.left(trial)) is not None]
    cores = sorted({core for trial in trials for core, _ in _probes(trial)})
    return Neighbour(tuple(cores), len(left), sum(share < ALONE for share in left), min(left, default=1.0))


def _probes(trial: Trial) -> Iterator[tuple[int, float]]:
    """Of cores that are not the engine's."""
    engine = {worker.core for worker in trial.witness.workers if not worker.host}
    for core, probes in trial.witness.ipc.items():
        if core not in engine:
            yield from ((core, ipc) for ipc in probes if ipc is not None)

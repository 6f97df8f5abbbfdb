"""Whether a neighbour slowed the DUT's core: another hardware thread of it, which no counter in this machine shows.

The engine probes how many instructions a cycle a core executes, before and after each trial (protocol/README.md:
`ipc_before`). The most that a core was seen to execute is all of it; less is what a neighbour left.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pinchpoint.model import units
from pinchpoint.model.trial import Trial

ALONE = 0.93  # of the most that the core was seen to execute: probes of an idle host differ by less
TELLING = 0.1  # share of trials from which the reader is told


class Widths:
    """What was left of the DUT's cores, trial by trial, held against the most that was seen of each until then."""

    def __init__(self) -> None:
        self._most: dict[int, float] = {}
        self.left: dict[str, float] = {}
        """By trial: the lower of the probes before and after, as a share. Trials without a probe are absent."""

    def is_slowed(self, trial: Trial) -> bool:
        """Whether a trial, the next one, was slowed; asked again of one, the same."""
        if trial.id not in self.left:
            engine = {worker.core for worker in trial.witness.workers}
            probes = [(core, ipc) for core, ipc in _probes(trial) if core not in engine]
            for core, ipc in probes:
                self._most[core] = max(ipc, self._most.get(core, 0.0))
            if not probes:
                return False
            self.left[trial.id] = min(ipc / self._most[core] for core, ipc in probes)
        return self.left[trial.id] < ALONE


@dataclass(frozen=True)
class Neighbour:
    """How the DUT's cores fared over trials."""

    trials: int  # in which one was probed
    slowed: int  # of them
    least: float  # share of a core that was left, in the worst

    @property
    def share(self) -> float:
        """Of trials that were slowed."""
        return self.slowed / self.trials if self.trials else 0.0

    @property
    def sentence(self) -> str:
        """For whoever reads the numbers; empty if there is nothing to tell."""
        if self.share < TELLING:
            return ""
        return (
            f"a neighbour slowed the switch's core in {units.share(self.share)} of {self.trials} trials, to as little "
            f"as {units.share(self.least)} of what it executes alone: most likely another virtual machine on the "
            "core's other hardware thread, which no counter in this one shows"
        )


def of_trials(trials: Sequence[Trial]) -> Neighbour:
    """Over all trials in which a core of the DUT was probed, in their order."""
    widths = Widths()
    slowed = sum([widths.is_slowed(trial) for trial in trials])
    return Neighbour(len(widths.left), slowed, min(widths.left.values(), default=1.0))


def _probes(trial: Trial) -> Iterator[tuple[int, float]]:
    for core, probes in trial.witness.ipc.items():
        yield from ((core, ipc) for ipc in probes if ipc is not None)

"""The two modes of a virtual machine's cores: a figure belongs to one of them.

Near and far cores give different rates (diagnose/cache_line.py), and the hypervisor
moves them every few seconds to minutes. A figure that mixed both would report
neither. Our own search keeps the modes apart by itself and wastes no trial (search/).
For everything else, MLRsearch included, the first judged trial names the mode; trials of the
other are set aside and repeated, and if the mode stays away, MLRsearch begins anew in the new one.
"""

from dataclasses import replace

from pinchpoint.diagnose.cache_line import differ, of_trial
from pinchpoint.model import units
from pinchpoint.model.trial import Trial, TrialValidity


class Mode:
    """The core distance that the running search is about."""

    def __init__(self) -> None:
        self._distance_ns: float | None = None
        self._away = 0  # trials of the other mode in a row

    def forget(self) -> None:
        """The next judged trial names the mode."""
        self._distance_ns = None
        self._away = 0

    def has_left(self, patience: int) -> bool:
        """Whether more than `patience` trials in a row were of the other mode."""
        return self._away > patience

    def set_aside(self, trial: Trial) -> Trial:
        """The same trial, or a noisy one with the reason if it belongs to the other mode."""
        distance_ns = of_trial(trial)
        if distance_ns is None:
            return trial
        valid = trial.validity is TrialValidity.VALID
        if self._distance_ns is None:
            self._distance_ns = distance_ns if valid else None
            return trial
        if not differ(distance_ns, self._distance_ns):
            self._away = 0
            return trial
        self._away += 1
        here, there = units.nanoseconds(distance_ns), units.nanoseconds(self._distance_ns)
        reason = f"the cores were {here} apart, those of this search {there}"
        return replace(trial, validity=TrialValidity.NOISY_HOST, reason=reason) if valid else trial

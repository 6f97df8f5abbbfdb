"""The tree of causes of a run that explains a rate, as plain values."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from pinchpoint.model import units
from pinchpoint.model.causes import Branch, CostOfAPass, Explanation, Standing, Suspicion, Tried

SUSPECTED: Final = "suspected"
"""The standing of a suspicion in a run that explains nothing."""


@dataclass(frozen=True)
class BranchView:
    """One suspicion."""

    standing: str
    title: str
    tried: str  # the experiment and what it gave
    explains: str  # share of the time for a frame; empty where that is not known
    evidence: tuple[str, ...]
    mend: str  # empty unless it is confirmed

    @property
    def sentence(self) -> str:
        """All of it in one line."""
        explains = f", {self.explains}" if self.explains else ""
        return f"{self.standing}: {self.title}{explains}. {self.tried}"


@dataclass(frozen=True)
class WhyView:
    """The tree of one scenario: what was suspected, tried, excluded and confirmed."""

    scenario: str
    branches: tuple[BranchView, ...]
    costs: tuple[str, ...]  # sentences about the control and about a pass


def why_view(found: Explanation) -> WhyView:
    """The view."""
    return WhyView(found.scenario, tuple(map(_branch, found.branches)), tuple(_costs(found)))


def suspected_view(scenario: str, suspicions: Sequence[Suspicion]) -> WhyView:
    """The tree of a scenario without counter-experiments: what its signature fits, and what would tell."""
    return WhyView(scenario, tuple(map(_suspected, suspicions)), ())


def _suspected(one: Suspicion) -> BranchView:
    would = f"{one.experiment.words[0].upper()}{one.experiment.words[1:]} would tell" if one.experiment else ""
    tried = f"Not tried. {would}." if would else "Not tried: no counter-experiment can tell."
    explains = f"would explain {units.share(one.share)}"
    return BranchView(SUSPECTED, one.title, tried, explains, one.evidence, one.mend)


def _branch(one: Branch) -> BranchView:
    is_confirmed = one.standing is Standing.CONFIRMED
    explains = one.explains if is_confirmed and one.tried is not None and one.tried.is_of_time else None
    return BranchView(
        str(one.standing),
        one.suspicion.title,
        _tried(one.tried) if one.tried else one.reason,
        "" if explains is None else f"{_at_least(one)}{units.share(explains)} of the time for a frame",
        one.suspicion.evidence,
        one.suspicion.mend if is_confirmed else "",
    )


def _at_least(one: Branch) -> str:
    """Where the ratio is a bound, so is what follows from it."""
    return "at least " if one.tried is not None and one.tried.high is None else ""


def _tried(tried: Tried) -> str:
    if tried.pairs and tried.ratio is not None:
        how = f"better x {_shown(tried.ratio)} in the median of {units.counted(tried.pairs, 'pair')} of trials in turns"
        return f"With {tried.experiment.words}: {tried.figure} {how}"
    if tried.ratio is None or tried.low is None:
        return f"With {tried.experiment.words}: no ratio ({tried.reason})"
    if tried.high is None:  # the engine could not overload the changed bench
        return f"With {tried.experiment.words}: {tried.figure} at least x {tried.low:.3g}"
    return f"With {tried.experiment.words}: {tried.figure} x {tried.ratio:.3g} [{tried.low:.3g} .. {tried.high:.3g}]"


def _shown(gain: float) -> str:
    return f"{gain:,.0f}" if gain >= 100 else f"{gain:.3g}"


def _costs(found: Explanation) -> Iterator[str]:
    if found.passes is not None:
        yield _pass(found.passes)
    if found.control is not None and found.control.ratio is not None:
        yield f"Control. {_tried(found.control)}"


def _pass(cost: CostOfAPass) -> str:
    return (
        f"{cost.cycles:,.0f} cycles a frame in {cost.passes:.3g} passes through the datapath; each further pass costs "
        f"{cost.each:,.0f} [{cost.low:,.0f} .. {cost.high:,.0f}]"
    )

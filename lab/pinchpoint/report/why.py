"""The tree of causes of a run that explains a rate, as plain values."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from pinchpoint.model import units
from pinchpoint.model.causes import Branch, CostOfAPass, Explanation, Standing, Suspicion, Tried
from pinchpoint.model.profile import Profile
from pinchpoint.report.tables import Table, column

MOST_FUNCTIONS: Final = 12  # rows; all are in the stored file
MOST_REASONS = 6  # for which the kernel drops, that are shown
OVERLOADED: Final = 0.97  # of what is offered: a device that carries more may have time left
NO_SYMBOL: Final = "(no symbol)"
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
class ProfileView:
    """Where the time of the forwarding threads goes, by function; or why that is not known."""

    table: Table = field(default_factory=lambda: Table(()))  # without columns: nothing was sampled
    sentences: tuple[str, ...] = ()


@dataclass(frozen=True)
class WhyView:
    """The tree of one scenario: what was suspected, tried, excluded and confirmed."""

    scenario: str
    branches: tuple[BranchView, ...]
    costs: tuple[str, ...]  # sentences about the control and about a pass
    profile: ProfileView = ProfileView()  # empty: the run does not sample


def why_view(found: Explanation, profiles: Sequence[Profile] = ()) -> WhyView:
    """The view; `profiles` are the run's, of all scenarios."""
    own = next((profile_view(one) for one in profiles if one.scenario == found.scenario), ProfileView())
    return WhyView(found.scenario, tuple(map(_branch, found.branches)), tuple(_costs(found)), own)


def profile_view(found: Profile) -> ProfileView:
    """The functions with most samples, each with its share; and what the samples do not say."""
    drops = tuple(_about_drops(found))
    if found.reason:
        return ProfileView(sentences=(f"Time by function: not sampled: {found.reason}", *drops))
    shown = found.functions[:MOST_FUNCTIONS]
    rows = [(one.function or NO_SYMBOL, one.share, one.source, one.samples) for one in shown]
    if rest := found.functions[MOST_FUNCTIONS:]:
        samples = sum(one.samples for one in rest)
        rows.append((units.counted(len(rest), "further function"), samples / found.samples, "", samples))
    functions, shares, sources, samples_of = zip(*rows, strict=True)
    columns = (
        column("function", "Function", functions, is_number=False),
        column("share", "Share", map(units.share, shares)),
        column("source", "Source", sources, is_number=False),
        column("samples", "Samples", (f"{one:,}" for one in samples_of)),
    )
    return ProfileView(Table(columns), (*_about_samples(found), *drops))


def _about_drops(found: Profile) -> Iterator[str]:
    """Why the kernel dropped, in its own words (include/net/dropreason-core.h)."""
    if found.drops:
        named = ", ".join(f"{drop.reason} {units.share(drop.share)}" for drop in found.drops[:MOST_REASONS])
        frames = units.frames(sum(drop.frames for drop in found.drops))
        yield f"{frames} frames that the kernel dropped in a trial of its own, by its own reasons: {named}"
    elif found.no_drops:
        yield f"The kernel's reasons for drops: not recorded: {found.no_drops}"


def _about_samples(found: Profile) -> Iterator[str]:
    of, load = ", ".join(found.threads), units.fps(found.load_fps or 0.0)
    yield f"Time by function: {units.counted(found.samples, 'sample')} of {of} at {load}, by {found.event}"
    if found.received > OVERLOADED * found.offered:
        carried = units.share(found.received / found.offered) if found.offered else "nothing"
        yield f"The device carried {carried} of what was offered: it may have had time left, which is in these shares"
    if found.unnamed:
        files = dict.fromkeys(one.source for one in found.functions if not one.function)
        share, named = units.share(found.unnamed / found.samples), ", ".join(files)
        yield f"{share} of the samples are in code without symbols ({named}): install its debug symbols to name them"


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

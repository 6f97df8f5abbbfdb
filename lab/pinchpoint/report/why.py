"""The tree of causes of a run that explains a rate, as plain values."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from pinchpoint.model import units
from pinchpoint.model.causes import CYCLES, LOSS, Branch, Explanation, Standing, Suspicion, Tried
from pinchpoint.model.measurement import Profile
from pinchpoint.report.tables import Table, table_of

MOST_FUNCTIONS: Final = 12  # rows; all are in the stored file
MOST_REASONS = 6  # for which the kernel drops, that are shown
OVERLOADED: Final = 0.97  # of what is offered: a device that carries more may have time left
NO_SYMBOL: Final = "(no symbol)"
SUSPECTED: Final = "suspected"
"""The standing of a suspicion in a run that explains nothing."""


@dataclass(frozen=True)
class BranchView:
    """A suspected cause, the experiment made on it, and what that gave."""

    standing: str
    title: str
    tried: str  # the experiment and what it gave
    explains: str  # share of the time for a frame; empty where that is not known
    evidence: tuple[str, ...]
    mend: str  # empty unless it is confirmed

    @property
    def explained(self) -> str:
        """What it explains, behind its title."""
        return f", {self.explains}" if self.explains else ""

    @property
    def sentence(self) -> str:
        """All of it in one line."""
        return f"{self.standing}: {self.title}{self.explained}. {self.tried}"


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


def why_view(explanation: Explanation, profiles: Sequence[Profile] = ()) -> WhyView:
    """The view; `profiles` are the run's, of all scenarios."""
    own = [profile for profile in profiles if profile.scenario == explanation.scenario]
    branches, costs = tuple(map(_branch, explanation.branches)), tuple(_costs(explanation))
    return WhyView(explanation.scenario, branches, costs, profile_view(own[0]) if own else ProfileView())


def profile_view(profile: Profile) -> ProfileView:
    """The functions with most samples, each with its share; and what the samples do not say."""
    drops = tuple(_about_drops(profile))
    if profile.reason:
        return ProfileView(sentences=(f"Time by function: not sampled: {profile.reason}", *drops))
    shown = profile.functions[:MOST_FUNCTIONS]
    rows = [(function.function or NO_SYMBOL, function.share, function.source, function.samples) for function in shown]
    if rest := profile.functions[MOST_FUNCTIONS:]:
        samples = sum(function.samples for function in rest)
        rows.append((units.counted(len(rest), "further function"), samples / profile.samples, "", samples))
    told = [(function, units.share(share), source, f"{samples:,}") for function, share, source, samples in rows]
    headings = {"function": "Function", "share": "Share", "source": "Source", "samples": "Samples"}
    table = table_of(headings, told, words=("function", "source"))
    return ProfileView(table, (*_about_samples(profile), *drops))


def _about_drops(profile: Profile) -> Iterator[str]:
    """Why the kernel dropped, in its own words (include/net/dropreason-core.h)."""
    if profile.drops:
        named = ", ".join(f"{drop.reason} {units.share(drop.share)}" for drop in profile.drops[:MOST_REASONS])
        frames = units.frames(sum(drop.frames for drop in profile.drops))
        yield f"{frames} frames that the kernel dropped in a trial of its own, by its own reasons: {named}"
    elif profile.no_drops:
        yield f"The kernel's reasons for drops: not recorded: {profile.no_drops}"


def _about_samples(profile: Profile) -> Iterator[str]:
    of, load = ", ".join(profile.threads), units.fps(profile.load_fps or 0.0)
    yield f"Time by function: {units.counted(profile.samples, 'sample')} of {of} at {load}, by {profile.event}"
    if profile.received > OVERLOADED * profile.offered:
        carried = units.share(profile.received / profile.offered) if profile.offered else "nothing"
        yield f"The device carried {carried} of what was offered: it may have had time left, which is in these shares"
    if profile.unnamed:
        files = dict.fromkeys(function.source for function in profile.functions if not function.function)
        share, named = units.share(profile.unnamed / profile.samples), ", ".join(files)
        yield f"{share} of the samples are in code without symbols ({named}): install its debug symbols to name them"


def suspected_view(scenario: str, suspicions: Sequence[Suspicion]) -> WhyView:
    """The tree of a scenario without counter-experiments: what its signature fits, and what would tell."""
    return WhyView(scenario, tuple(map(_suspected, suspicions)), ())


def _suspected(suspicion: Suspicion) -> BranchView:
    tried = "Not tried: no counter-experiment can tell."
    if suspicion.experiment:
        words = suspicion.experiment.words
        tried = f"Not tried. {words[0].upper()}{words[1:]} would tell."
    explains = f"would explain {units.share(suspicion.share)}"
    return BranchView(SUSPECTED, suspicion.title, tried, explains, suspicion.evidence, suspicion.mend)


def _branch(branch: Branch) -> BranchView:
    is_confirmed, tried, suspicion = branch.standing is Standing.CONFIRMED, branch.tried, branch.suspicion
    explains = ""
    if is_confirmed and tried is not None and tried.is_of_time and branch.explains is not None:
        least = "at least " if tried.high is None else ""  # where the ratio is a bound, so is what follows from it
        explains = f"{least}{units.share(branch.explains)} of the time for a frame"
    told, mend = _tried(tried) if tried else branch.reason, suspicion.mend if is_confirmed else ""
    return BranchView(str(branch.standing), suspicion.title, told, explains, suspicion.evidence, mend)


def _tried(tried: Tried) -> str:
    if tried.pairs and tried.ratio is not None:
        pairs = f"median of {units.counted(tried.pairs, 'pair')} of interleaved trials"
        gave = f"{_changed(tried.figure, tried.ratio)} ({pairs})"
    elif tried.ratio is None or tried.low is None:
        gave = f"no ratio ({tried.reason})"
    elif tried.high is None:  # the engine could not overload the changed bench
        gave = f"{tried.figure} at least x {tried.low:.3g}"
    else:
        gave = f"{tried.figure} x {tried.ratio:.3g} [{tried.low:.3g} .. {tried.high:.3g}]"
    return f"With {tried.experiment.words}: {gave}"


def _changed(figure: str, gain: float) -> str:
    """What a gain by this factor is for people, e.g. `loss 3.2 times lower`."""
    name = "cycles per packet" if figure == CYCLES else figure
    if f"{gain:.3g}" == "1":
        return f"{name} unchanged"
    factor = max(gain, 1 / gain) if gain else math.inf
    is_higher = (gain > 1) is not (figure in (CYCLES, LOSS))
    return f"{name} {f'{factor:,.0f}' if factor >= 100 else f'{factor:.3g}'} times {'higher' if is_higher else 'lower'}"


def _costs(explanation: Explanation) -> Iterator[str]:
    if cost := explanation.passes:
        each = f"each further pass costs {cost.each:,.0f} [{cost.low:,.0f} .. {cost.high:,.0f}]"
        yield f"{cost.cycles:,.0f} cycles a frame in {cost.passes:.3g} passes through the datapath; {each}"
    if explanation.control is not None and explanation.control.ratio is not None:
        yield f"Control. {_tried(explanation.control)}"

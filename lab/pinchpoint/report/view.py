"""The view of a run: what the page, Markdown and the terminal show of it, as plain values.

And the tree of causes of a run that explains a rate.
"""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from pinchpoint.measure import registry
from pinchpoint.model import units
from pinchpoint.model.causes import CYCLES, LOSS, Branch, Experiment, Explanation, Standing, Suspicion, Tried
from pinchpoint.model.effective import by_name, group_of, table_in
from pinchpoint.model.groups import grouped
from pinchpoint.model.measurement import Measurement, Profile
from pinchpoint.model.offload import Offload
from pinchpoint.model.result import Rate, RunInfo, RunResult, ScenarioResult
from pinchpoint.model.study import Finding
from pinchpoint.model.trial import OVERLOADED, Trial
from pinchpoint.model.warning import ResultWarning, Warn
from pinchpoint.report import number_views, trial_views, words
from pinchpoint.report.number_views import CurveView, MetricsView, curve_views
from pinchpoint.report.original import OriginalView, original_view
from pinchpoint.report.tables import Table, table_of
from pinchpoint.report.trial_views import PathView, paths

# From this many trials on, units of a sweep keep only the trials near their rates, and one path.
MANY_TRIALS: Final = 1500
_NEAR: Final = 0.1  # relative to the rates' bounds
MOST_FUNCTIONS: Final = 12  # rows; all are in the stored file
MOST_REASONS = 6  # for which the kernel drops, that are shown
NO_SYMBOL: Final = "(no symbol)"
LEAST_TOLD: Final = 0.001  # of what a cause would explain: less is no share that people can use
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
        yield from (f"That names {suspected.title}: {suspected.mend}" for suspected in profile.suspicions)
    elif profile.no_drops:
        yield f"The kernel's reasons for drops: not recorded: {profile.no_drops}"


def _about_samples(profile: Profile) -> Iterator[str]:
    of, load = ", ".join(profile.threads), units.fps(profile.load_fps or 0.0)
    yield f"Time by function: {units.counted(profile.samples, 'sample')} of {of} at {load}, by {profile.event}"
    if profile.received > (1 - OVERLOADED) * profile.offered:
        carried = units.share(profile.received / profile.offered) if profile.offered else "nothing"
        yield f"The device carried {carried} of what was offered: it may have had idle time, which these shares include"
    if profile.unnamed:
        files = dict.fromkeys(function.source for function in profile.functions if not function.function)
        share, named = units.share(profile.unnamed / profile.samples), ", ".join(files)
        yield f"{share} of the samples are in code without symbols ({named}): install its debug symbols to name them"


def suspected_view(
    scenario: str, suspicions: Sequence[Suspicion], allowed: Collection[Experiment] | None = None
) -> WhyView:
    """The tree of a scenario without counter-experiments: what its signature fits, and what would tell.

    `allowed`: the counter-experiments that would change anything on its bench; None: not known.
    """
    return WhyView(scenario, tuple(_suspected(suspicion, allowed) for suspicion in suspicions), ())


def _suspected(suspicion: Suspicion, allowed: Collection[Experiment] | None) -> BranchView:
    experiment, tried = suspicion.experiment, "Not tried: no counter-experiment on this bench can tell."
    if experiment and (allowed is None or experiment in allowed):
        tried = f"Not tried. {experiment.words[0].upper()}{experiment.words[1:]} would tell."
    explains = f"would explain {units.share(suspicion.share)}" if suspicion.share >= LEAST_TOLD else ""
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


@dataclass(frozen=True)
class ScenarioView:
    """One scenario; `result` is None when the run ended before it was finished."""

    name: str
    title: str
    group: str
    result: ScenarioResult | None
    rates: tuple[Rate, ...]
    metrics: MetricsView
    measurements: tuple[Measurement, ...]
    limit: str
    sentence: str

    unexplained: str  # share of the offered frames; empty without trials
    checks: tuple[words.Check, ...]
    paths: tuple[PathView, ...]
    witness: tuple[tuple[str, str], ...]
    discarded: tuple[tuple[str, int, str, str], ...]
    trials: tuple[Trial, ...]  # those shown
    made: int  # those there are
    settings: tuple[tuple[str, str, bool], ...]
    threads: tuple[trial_views.ThreadView, ...]  # those of the result
    in_force: tuple[tuple[str, str], ...]  # read back from the switch; empty: as under `like`, or none was read
    anchor: str = ""
    plan: tuple[str, ...] = ()
    brief: bool = False  # a unit of a big sweep: its search is not drawn
    swept: bool = False  # a curve shows it: its details are folded away
    like: str = ""  # another unit of the same sweep, under which plan and settings stand; empty: here
    step: units.Step | None = None  # in which its page writes rates; None: each in its own
    asked_width: float | None = None  # of the rates' intervals, relative to their upper ends; None: not known

    @property
    def is_search(self) -> bool:
        """Whether its numbers are NDR and PDRs of frames."""
        return self.result is not None and registry.is_search(self.result.measure)

    @property
    def trust(self) -> tuple[int, int]:
        """How many of the reasons to trust its numbers hold, of how many: a warning is one that does not."""
        return sum(check.good for check in self.checks), len(self.checks) + len(self.warnings)

    @property
    def too_wide(self) -> str:
        """That the interval of its first rate is no reason to trust it; empty otherwise."""
        searched = self.rates[:1] if self.is_search else ()
        wide = (rate for rate in searched if words.too_wide(rate, self.asked_width))
        return next((words.interval_check(rate, self.asked_width).text for rate in wide), "")

    @property
    def cautions(self) -> tuple[str, ...]:
        """What to mind about its numbers."""
        doubts = (check.text for check in self.checks if not check.good)
        return (*doubts, *(f"{told} (try: {told.advice})" if told.advice else told.text for told in self.warnings))

    @property
    def warnings(self) -> tuple[ResultWarning, ...]:
        """What the result says beside its numbers, the gravest first: an offload that is not what it claims to be."""
        if self.result is None:
            return ()
        truth = self.result.offload
        doubtful = (Warn.OFFLOAD_DOUBTFUL.of(self.offload),) if truth and truth.word is not Offload.PROVEN else ()
        return (*doubtful, *number_views.warnings(self.result), *self.result.warnings)

    @property
    def facts(self) -> tuple[str, ...]:
        """What is known beside its rates."""
        return tuple(number_views.facts(self.result)) if self.result else ()

    @property
    def offload(self) -> str:
        """What is true of the offload; empty if no flow is said to be offloaded."""
        truth = self.result.offload if self.result else None
        return f"offload {truth.sentence}" if truth else ""


@dataclass(frozen=True)
class RunView:
    """A run: its curves, then its scenarios in their order, those without a result last."""

    run_id: str
    finished: bool
    findings: tuple[Finding, ...]
    curves: tuple[CurveView, ...]
    scenarios: tuple[ScenarioView, ...]
    method: str  # how much was measured, and how
    why: tuple[WhyView, ...]  # a tree of causes for each scenario that the run explains
    original: OriginalView  # of the study

    @property
    def plain(self) -> tuple[ScenarioView, ...]:
        """Scenarios that no curve shows."""
        return tuple(section for section in self.scenarios if not section.swept)

    @property
    def results(self) -> tuple[ScenarioResult, ...]:
        """Of those that no curve shows."""
        return tuple(section.result for section in self.plain if section.result)

    @property
    def rated(self) -> tuple[tuple[str, Rate], ...]:
        """Of those that no curve shows: the name of each that has a rate, and its first one."""
        return tuple((result.scenario, result.rates[0]) for result in self.results if result.rates)

    @property
    def unmeasured(self) -> tuple[str, ...]:
        """Scenarios of the run that have no result."""
        return tuple(section.name for section in self.scenarios if section.result is None)


def run_view(
    result: RunResult,
    info: RunInfo | None = None,
    trials: Sequence[Trial] = (),
    measurements: Sequence[Measurement] = (),
) -> RunView:
    """The view of a run, of which the result may be all that is known."""
    curves = tuple(_defined(view, result) for view in curve_views(result.curves, info.study if info else None))
    sections = _scenarios(result, info, trials, measurements)
    why = tuple(why_view(explanation, result.profiles) for explanation in result.explanations)
    original, method = original_view(result, info.study if info else None), words.method(result)
    return RunView(result.run_id, result.finished, result.findings, curves, sections, method, why, original)


def _defined(view: CurveView, result: RunResult) -> CurveView:
    """With what the rates in its columns mean: those of different trial lengths are not compared."""
    points = (point for point in result.scenarios if point.group == view.curve.group)
    shown = [rate for point in points for rate in point.rates if rate.name in view.columns]
    return replace(view, definitions=words.definitions(shown))


def _scenarios(
    result: RunResult, info: RunInfo | None, trials: Sequence[Trial], measurements: Sequence[Measurement]
) -> tuple[ScenarioView, ...]:
    asked = by_name(info.scenarios if info else ())
    results: dict[str, ScenarioResult | None] = {scenario.scenario: scenario for scenario in result.scenarios}
    results |= {name: None for name in asked if name and name not in results}
    plans = info.plans if info else {}
    tried = grouped((trial.scenario, trial) for trial in trials)
    measured = grouped((measurement.scenario, measurement) for measurement in measurements)
    curves = {curve.group for curve in result.curves if curve.points}
    step = number_views.common_step([point for point in result.scenarios if point.group not in curves])
    first_of: dict[str, ScenarioView] = {}
    made = []
    for place, (name, point) in enumerate(results.items(), 1):
        view = _scenario(name, point, asked.get(name, {}), tried.get(name, ()), measured.get(name, ()))
        view = replace(view, anchor=f"scenario-{place}", plan=plans.get(name, ()), swept=view.group in curves)
        view = view if view.swept else replace(view, step=step)
        if view.swept:
            view = _folded(view, first_of.setdefault(view.group, view), len(trials) > MANY_TRIALS)
        made.append(view)
    return tuple(made)


def _folded(view: ScenarioView, first: ScenarioView, many: bool) -> ScenarioView:
    """A unit of a sweep: what is the same as in the first unit stands there only."""
    if many:
        view = replace(view, trials=_near_rates(view.result, view.trials), paths=view.paths[-1:], brief=True)
    if view.name == first.name:
        return view
    in_force = () if view.in_force == first.in_force else view.in_force
    return replace(view, plan=(), settings=(), in_force=in_force, like=first.name)


def _near_rates(result: ScenarioResult | None, trials: tuple[Trial, ...]) -> tuple[Trial, ...]:
    """The trials within a tenth of the rates' bounds; all, where there are no bounds."""
    ends = words.around(result.rates, _NEAR) if result else None
    return tuple(trial for trial in trials if ends is None or ends[0] <= trial.offered_fps <= ends[1])


def _scenario(
    name: str,
    result: ScenarioResult | None,
    asked: Mapping[str, object],
    trials: Sequence[Trial],
    measurements: Sequence[Measurement],
) -> ScenarioView:
    width = table_in(asked, "search").get("relative_width")
    asked_width = width if isinstance(width, float) else None
    return ScenarioView(
        name=name,
        title=result.title if result else str(asked.get("title", name)),
        group=result.group if result else group_of(asked),
        result=result,
        rates=result.rates if result else (),
        metrics=number_views.metrics_view(result.metrics if result else (), result.measure if result else ""),
        measurements=tuple(measurements),
        limit=words.pinched_by(result) if result else words.NOT_MEASURED,
        sentence=words.verdict_sentence(result) if result else "",
        unexplained=words.unexplained(result, trials),
        checks=words.checks(result, trials, asked_width) if result else (),
        paths=paths(trials),
        witness=trial_views.witness_rows(trials),
        discarded=words.discarded(trials),
        trials=tuple(trials),
        made=len(trials),
        settings=trial_views.settings(asked),
        threads=trial_views.thread_views(result.threads, asked) if result else (),
        in_force=tuple(result.settings.items()) if result else (),
        asked_width=asked_width,
    )

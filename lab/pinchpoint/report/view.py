"""The view of a run: what the page, Markdown and the terminal show of it, as plain values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from pinchpoint.model.effective import by_name, group_of
from pinchpoint.model.groups import grouped
from pinchpoint.model.measurement import Measurement
from pinchpoint.model.offload import Offload
from pinchpoint.model.result import Rate, RunInfo, RunResult, ScenarioResult
from pinchpoint.model.study import Finding
from pinchpoint.model.trial import Trial
from pinchpoint.report import number_views, trial_views, words
from pinchpoint.report.curve_views import CurveView, curve_views
from pinchpoint.report.number_views import MetricsView
from pinchpoint.report.trial_views import PathView, paths
from pinchpoint.report.why import WhyView, why_view

# From this many trials on, units of a sweep keep only the trials near their rates, and one path.
MANY_TRIALS: Final = 1500
_NEAR: Final = 0.1  # relative to the rates' bounds


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

    @property
    def cautions(self) -> tuple[str, ...]:
        """What to mind about its numbers."""
        return (*(check.text for check in self.checks if not check.good), *self.warnings)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the result says beside its numbers, the gravest first: an offload that is not what it claims to be."""
        if self.result is None:
            return ()
        told = self.offload if self.result.offload and self.result.offload.word is not Offload.PROVEN else ""
        return (*filter(None, (told,)), *number_views.warnings(self.result), *self.result.warnings)

    @property
    def facts(self) -> tuple[str, ...]:
        """What is known beside its rates."""
        return tuple(number_views.facts(self.result)) if self.result else ()

    @property
    def offload(self) -> str:
        """What is true of the offload; empty if no flow is said to be offloaded."""
        truth = self.result.offload if self.result else None
        return f"offload {words.offload_sentence(truth)}" if truth else ""


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
    return RunView(
        run_id=result.run_id,
        finished=result.finished,
        findings=result.findings,
        curves=curve_views(result.curves, info.study if info else None),
        scenarios=_scenarios(result, info, trials, measurements),
        method=words.method(result),
        why=tuple(why_view(explanation, result.profiles) for explanation in result.explanations),
    )


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
    first_of: dict[str, ScenarioView] = {}
    made = []
    for place, (name, point) in enumerate(results.items(), 1):
        view = _scenario(name, point, asked.get(name, {}), tried.get(name, ()), measured.get(name, ()))
        view = replace(view, anchor=f"scenario-{place}", plan=plans.get(name, ()), swept=view.group in curves)
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
        checks=words.checks(result, trials) if result else (),
        paths=paths(trials),
        witness=trial_views.witness_rows(trials),
        discarded=words.discarded(trials),
        trials=tuple(trials),
        made=len(trials),
        settings=trial_views.settings(asked),
        threads=trial_views.thread_views(result.threads, asked) if result else (),
        in_force=tuple(result.settings.items()) if result else (),
    )

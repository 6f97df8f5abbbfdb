"""The measure `load`: what given rates cost the DUT, on a bench that stands."""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pinchpoint.bench import host
from pinchpoint.diagnose import metrics
from pinchpoint.diagnose.cache_line import apart, of_mode, of_trial
from pinchpoint.diagnose.neighbour import Widths, noted
from pinchpoint.model import units
from pinchpoint.model.measurement import Metric
from pinchpoint.model.result import ScenarioResult
from pinchpoint.model.scenario import Scenario
from pinchpoint.model.trial import Trial, TrialValidity
from pinchpoint.search.repeat import until_valid
from pinchpoint.sweep.frames import measuring
from pinchpoint.sweep.listener import Listener
from pinchpoint.sweep.measure import WARM_UP, Measurer
from pinchpoint.sweep.standing import Standing
from pinchpoint.sweep.summary import Found, result_of
from pinchpoint.sweep.warm_up import warm_up

PHASE = "load"


@dataclass(frozen=True)
class _Rate:
    """The trials at one rate, and why there are no more of them."""

    at_fps: float
    trials: tuple[Trial, ...]  # valid ones, of one mode of the cores
    why_not: str  # empty if there are as many as the scenario asks for
    left_out: int = 0  # valid ones of other modes
    slowed: bool = False  # made beside a neighbour on the switch's core, for want of others

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader of its figures must know."""
        left_out = units.counted(self.left_out, "trial")
        others = (
            f"load at {units.fps(self.at_fps)}: {left_out} left out, made in another mode of the cores, or beside a "
            f"neighbour, than the {len(self.trials)} that the figures are of ({apart(self._distance_ns)})"
        )
        return tuple(filter(None, (self.why_not, others if self.left_out else "")))

    @property
    def _distance_ns(self) -> float | None:
        return of_trial(self.trials[0]) if self.trials else None

    @property
    def figures(self) -> Iterable[Metric]:
        """Its metrics; those beside a neighbour are told to be nothing that may be compared."""
        return self.noted(metrics.of_load(self.at_fps, self.trials))

    def noted(self, figures: Iterable[Metric]) -> Iterable[Metric]:
        """Figures of its trials, told to be disturbed if they are."""
        return map(noted, figures) if self.slowed else figures


def measure_load(bench: Standing) -> ScenarioResult:
    """The DUT's load at each of the scenario's rates. Raises what a trial raises, finished trials kept."""
    with measuring(bench) as measurer, host.kept_off(bench.scenario.dut.pmd_cpus):
        return measure_rates_given(bench.scenario, measurer, bench.listener, bench.began)


def measure_rates_given(scenario: Scenario, measurer: Measurer, listener: Listener, began: float) -> ScenarioResult:
    """All trials of one scenario on a bench that stands, and what follows from them."""
    load = scenario.load
    listener.phase(WARM_UP, 1)
    not_learnt = warm_up(scenario, measurer)
    listener.phase(PHASE, len(load.at_fps) * load.repeats)
    widths = Widths()
    rates = [_at(at_fps, scenario, measurer, widths) for at_fps in load.at_fps]
    return _summary(scenario, measurer, rates, not_learnt, time.monotonic() - began)


def _at(at_fps: float, scenario: Scenario, measurer: Measurer, widths: Widths) -> _Rate:
    """Trials until one mode of the cores has as many as asked for: a figure that mixed two would be of neither.

    One in which no neighbour slows the switch's core, if there are as many of it in time.
    """
    load, valid = scenario.load, list[Trial]()

    def measure(duration_s: float, load_fps: float) -> Trial:
        return measurer.trial(PHASE, duration_s, load_fps, any_mode=True)

    why_not = ""
    for _ in range(load.repeats + scenario.search.max_repeats):
        trial = until_valid(measure, load.duration_s, at_fps, scenario.search.max_repeats)
        if trial.validity is not TrialValidity.VALID:
            why_not = trial.reason
            break
        valid.append(trial)
        found, is_slowed = _largest_mode(valid, load.repeats, widths)
        if len(found) == load.repeats and not is_slowed:
            break
    found, is_slowed = _largest_mode(valid, load.repeats, widths)
    if len(found) < load.repeats:
        last = why_not or "the cores kept changing between their modes"
        why_not = f"load at {units.fps(at_fps)}: {len(found)} of {load.repeats} trials valid; last: {last}"
    return _Rate(at_fps, found, why_not, len(valid) - len(found), is_slowed)


def _largest_mode(valid: Sequence[Trial], wanted: int, widths: Widths) -> tuple[tuple[Trial, ...], bool]:
    """The first `wanted` trials of the mode that has most, made alone if there are as many; and whether they are not.

    Judged anew with every trial: what a core executes alone is known the better the longer it was watched.
    """
    modes = list[tuple[list[Trial], bool]]()
    for trial in valid:
        is_slowed = widths.is_slowed(trial)
        alike = (trials for trials, slowed in modes if slowed is is_slowed and of_mode([trial], of_trial(trials[0])))
        if (mode := next(alike, None)) is not None:
            mode.append(trial)
        else:
            modes.append(([trial], is_slowed))
    trials, slowed = min(modes, key=lambda mode: (-min(len(mode[0]), wanted), mode[1]), default=([], False))
    return tuple(trials[:wanted]), slowed


def _summary(
    scenario: Scenario, measurer: Measurer, rates: list[_Rate], not_learnt: str, wall_s: float
) -> ScenarioResult:
    valid = [trial for rate in rates for trial in rate.trials]
    highest = max((rate for rate in rates if rate.trials), key=lambda rate: rate.at_fps, default=None)
    reasons = "; ".join(rate.why_not for rate in rates)
    hint = "a quieter machine, or lower load.at_fps"
    told = Found(
        (
            *(one for rate in rates for one in rate.figures),
            *(highest.noted(metrics.of_trial(highest.trials[0])) if highest else ()),
        ),
        (not_learnt, *(one for rate in rates for one in rate.warnings)),
        failed="" if highest else f"no load could be measured: {reasons}\n  hint: {hint}",
    )
    return result_of(scenario, measurer.trials, told, wall_s, of=valid)

"""The measure `load`: what given rates cost the DUT, on a bench that stands."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

from pinchpoint.bench import host
from pinchpoint.diagnose import metrics
from pinchpoint.diagnose.cache_line import apart, of_mode, of_trial
from pinchpoint.diagnose.neighbour import Widths
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
    def figures(self) -> Iterator[Metric]:
        """Its metrics; those beside a neighbour are told to be nothing that may be compared."""
        for one in metrics.of_load(self.at_fps, self.trials):
            note = f"disturbed by the host, whose neighbour slowed the switch's core; {one.note}"
            yield replace(one, note=note) if self.slowed else one


class _Mode:
    """Trials at one rate that were made in one mode of the cores."""

    def __init__(self, first: Trial, is_slowed: bool) -> None:
        self.trials = [first]
        self.is_slowed = is_slowed

    def fits(self, trial: Trial, is_slowed: bool) -> bool:
        return is_slowed is self.is_slowed and bool(of_mode([trial], of_trial(self.trials[0])))


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
    load, modes = scenario.load, list[_Mode]()

    def measure(duration_s: float, load_fps: float) -> Trial:
        return measurer.trial(PHASE, duration_s, load_fps, any_mode=True)

    why_not = ""
    for _ in range(load.repeats + scenario.search.max_repeats):
        trial = until_valid(measure, load.duration_s, at_fps, scenario.search.max_repeats)
        if trial.validity is not TrialValidity.VALID:
            why_not = trial.reason
            break
        is_slowed = widths.is_slowed(trial)
        alike = next((mode for mode in modes if mode.fits(trial, is_slowed)), None)
        if alike is None:
            modes.append(_Mode(trial, is_slowed))
        else:
            alike.trials.append(trial)
        if any(len(mode.trials) >= load.repeats and not mode.is_slowed for mode in modes):
            break
    modes.sort(key=lambda mode: (-min(len(mode.trials), load.repeats), mode.is_slowed))
    found = tuple(modes[0].trials[: load.repeats]) if modes else ()
    if len(found) < load.repeats:
        last = why_not or "the cores kept changing between their modes"
        why_not = f"load at {units.fps(at_fps)}: {len(found)} of {load.repeats} trials valid; last: {last}"
    others = sum(len(mode.trials) for mode in modes) - len(found)
    return _Rate(at_fps, found, why_not, others, slowed=bool(modes) and modes[0].is_slowed)


def _summary(
    scenario: Scenario, measurer: Measurer, rates: list[_Rate], not_learnt: str, wall_s: float
) -> ScenarioResult:
    valid = [trial for rate in rates for trial in rate.trials]
    reasons = "; ".join(rate.why_not for rate in rates)
    hint = "a quieter machine, or lower load.at_fps"
    highest = max(valid, key=lambda trial: trial.load_fps, default=None)
    told = Found(
        (
            *(one for rate in rates for one in rate.figures),
            *(metrics.of_trial(highest) if highest else ()),
        ),
        (not_learnt, *(one for rate in rates for one in rate.warnings)),
        failed="" if highest else f"no load could be measured: {reasons}\n  hint: {hint}",
    )
    return result_of(scenario, measurer.trials, told, wall_s, of=valid)

"""A comparison of two benches that stand at once: alternating slices, or alternating trials where those cannot tell.

Both benches are built several times. It is resumable at any stretch of slices and any trial.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import MappingProxyType

from pinchpoint.findings.paired_benches import alternation, rate_metric, tried, turns_metric, why_hopeless
from pinchpoint.measure.standing import Task, Undoable
from pinchpoint.measure.summary import scenario_result
from pinchpoint.model.comparison import ComparisonRequest, Method
from pinchpoint.model.duet import MEASURED, SIDES, Stretch
from pinchpoint.model.measurement import fewest_for_interval
from pinchpoint.model.result import ScenarioResult
from pinchpoint.model.scenario import Scenario, Search
from pinchpoint.model.trial import ALTERNATING, Trial
from pinchpoint.model.warning import ResultWarning
from pinchpoint.run.checkpoint import Growing, RunContext
from pinchpoint.run.duet import AlternatingSlices, SliceRecord
from pinchpoint.run.paired_benches import AtLoad, LivePair, beside, first_of_pair, in_pairs, warm_pair
from pinchpoint.run.scenario import built_bench
from pinchpoint.stats.alternating import Alternation, Turn
from pinchpoint.stats.duet import compare_slices
from pinchpoint.store.folder import RunFolder

BUILDING_S = 10.0  # both benches made, warmed up and removed
CALIBRATING_S = 10.0
SHORTEST_S = 5.0  # of slices on two benches, however small a budget
AROUND_S = 0.2  # of a trial, besides traffic and drain: freezing, reading counters, storing
FEWEST_TURNS = 8  # on two benches: some are needed for the loads to settle again


def expected_s(request: ComparisonRequest) -> float:
    """About how long both benches take that stand at once."""
    return CALIBRATING_S + request.benches * BUILDING_S + (request.slices_s or 0.0)


class BothBenches:
    """A and B of a comparison, built again and again; `files` have the request and get what becomes of it."""

    def __init__(self, units: Sequence[Scenario], files: Growing, context: RunContext) -> None:
        self._units, self._files, self._context = units, files, context
        self._settings: dict[str, Mapping[str, str]] = {}
        self._warnings: dict[str, ResultWarning] = {}  # each once, in their order, by its text
        trials = context.folder.read_trials()
        self._slices = SliceRecord(context.folder.append_stretch, context.folder.read_stretches())
        self._turns = alternation(trials, [unit.name for unit in units], units[0].search)
        request, budget_s = self._request, files.info.budget_s
        whole_s = expected_s(request) if budget_s is None else budget_s
        self._began_s = time.monotonic() - _wall_s(self._slices.stretches, trials)  # what an earlier run took included
        left_s = whole_s + self._began_s - time.monotonic()
        made = {stretch.benches for stretch in self._slices.stretches if stretch.phase == MEASURED}
        made |= {turn.build for turn in self._turns.turns}
        self._time = BuildTime(left_s, request.benches, is_limit=budget_s is not None, made=len(made))

    @property
    def _request(self) -> ComparisonRequest:
        """What was asked for, or what became of it."""
        request = self._files.info.comparison
        assert request is not None and request.slices_s is not None
        return request

    def run(self, unit: Scenario, _task: Task) -> ScenarioResult:
        """The result of A or of B, as `run_scenario` gives it of one scenario; for the first, both are measured.

        They are built as often as asked for, as far as the time goes, and measured for an equal share. Raises what
        building and measuring raise; slices and trials until then are kept.
        """
        while self._is_going_on():
            with self._time.building():
                self._build()
        return next(result for result in self._results() if result.scenario == unit.name)

    @property
    def so_far(self) -> tuple[ScenarioResult, ...]:
        """The results of both, as far as they got; none before anything is measured."""
        is_begun = self._slices.measured_s > 0 or self._request.method is Method.TRIALS
        return self._results() if is_begun else ()

    def _results(self) -> tuple[ScenarioResult, ...]:
        turns = self._turns.turns if self._request.method is Method.TRIALS else None
        told = self._settings, tuple(self._warnings.values())
        return results_of(self._units, self._context.folder, time.monotonic() - self._began_s, turns, *told)

    def _is_going_on(self) -> bool:
        if self._time.is_over:
            return False
        slices_s = self._request.slices_s or 0.0
        if self._request.method is Method.TRIALS:
            return True
        return slices_s - self._slices.measured_s > slices_s / self._request.benches / 2

    def _build(self) -> None:
        """Both benches once, on their host, measured and removed."""
        (a, b), context = self._units, self._context
        context.on_stoppable(Undoable())  # what measured on the benches before stops nothing any more
        context.listener.scenario_begins(a, 1, 1)
        of_a, of_b = (self._files.task(unit.name, context) for unit in (a, b))
        with (
            first_of_pair(context.machines, a, of_a) as first,
            built_bench(context.machines, b, of_b, beside(first)) as second,
        ):
            self._time.stands()
            until_s = self._until_s()
            with warm_pair(first, second) as pair:
                self._measured(pair, until_s)

    def _measured(self, pair: LivePair, until_s: float) -> None:
        self._settings |= {bench.scenario.name: bench.live.settings() for bench in pair.benches.values()}
        self._slices.build = 1 + max((stretch.benches for stretch in self._slices.stretches), default=0)
        self._warnings |= {warning.text: warning for warning in pair.warnings}
        AlternatingSlices(pair, self._slices, self._is_enough).measure(until_s)
        if self._takes_trials():
            self._turns.build()
            turn_s = _turn_s(self._units[0])
            share_s = self._time.share_s(FEWEST_TURNS * turn_s)
            self._context.listener.phase(ALTERNATING, len(SIDES) * int(share_s / turn_s))
            alternate(pair, self._turns, time.monotonic() + share_s)

    def _is_enough(self, stretches: Sequence[Stretch]) -> bool:
        return self._time.is_up or (self._request.may_fall_back and bool(why_hopeless(stretches)))

    def _until_s(self) -> float:
        """How many seconds of slices there are to be when these benches are removed."""
        request = self._request
        if request.method is not Method.DUET:
            return 0.0
        slices_s, share_s = request.slices_s or 0.0, self._time.share_s(SHORTEST_S)
        if self._time.builds_left == 1:
            return min(slices_s, self._slices.measured_s + (share_s if self._time.is_limit else slices_s))
        return min(slices_s, self._slices.measured_s + min(share_s, slices_s / request.benches))

    def _takes_trials(self) -> bool:
        """Whether alternating trials follow: they were asked for, or slices can give no ratio."""
        if self._request.method is not Method.DUET:
            return True
        why = why_hopeless(self._slices.stretches) if self._request.may_fall_back else ""
        if why:
            self._files.note_comparison(replace(self._request, method=Method.TRIALS, metrics=(), why=why))
            self._time.again()
        return bool(why)


def _turn_s(scenario: Scenario) -> float:
    """About how long a trial of each bench takes."""
    return 2 * (scenario.search.trial_duration_s + scenario.search.drain_s + AROUND_S)


def alternate(pair: LivePair, made: Alternation, until_s: float) -> None:
    """Trials A B, B A, each at a load of its own, until the monotonic clock shows `until_s`; `made` follows them.

    A trial has its whole account, so that a loss-free rate can be compared; a slice has not. One of each is made
    at least. Raises what a trial raises.
    """
    scenario = pair.benches[SIDES[0]].scenario
    trials = {side: _answering(pair, made, side, scenario.search) for side in SIDES}
    for _ in in_pairs(trials, made.load_fps, made.begun):
        if time.monotonic() + _turn_s(scenario) > until_s:
            return


def _answering(pair: LivePair, made: Alternation, side: str, search: Search) -> AtLoad:
    """Trials of one bench, each followed as it ends: so a pair that is cut short counts as it will from the record."""
    trials = pair.trials(side, ALTERNATING, ALTERNATING, search.trial_duration_s, owner=side)

    def trial(load_fps: float) -> Trial:
        ended = trials(load_fps)
        made.answer(side, tried(ended, search))
        return ended

    return trial


def results_of(
    units: Sequence[Scenario],
    folder: RunFolder,
    wall_s: float,
    turns: Sequence[Turn] | None = None,
    settings: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
    warnings: tuple[ResultWarning, ...] = (),
) -> tuple[ScenarioResult, ...]:
    """What the folder's slices, or `turns`, say of A and of B; `settings`: in force, by the unit's name.

    `wall_s`: that both took together, of which each has a half.
    """
    stretches, trials = folder.read_stretches(), folder.read_trials()
    measured = [stretch for stretch in stretches if stretch.phase == MEASURED and stretch.slices]
    quads = compare_slices(measured).quads if measured and turns is None else ()
    results = []
    for side, unit in zip(SIDES, units, strict=True):
        rates = (rate_metric(quads, side),) if quads else ()
        if turns:
            rates = (turns_metric(turns, side, unit.search),)
        sliced_s = math.fsum(part.length_s for stretch in measured for part in stretch.slices if part.side == side)
        own = [trial for trial in trials if trial.scenario == unit.name and trial.phase == ALTERNATING]
        result = replace(
            scenario_result(unit, wall_s / len(SIDES)),
            metrics=rates,
            trials=len(own),
            traffic_s=sliced_s + math.fsum(trial.sent_duration_s for trial in own),
            warnings=warnings if side == SIDES[0] else (),
            settings=settings.get(unit.name, {}),
        )
        results.append(result)
    return tuple(results)


def _wall_s(stretches: Sequence[Stretch], trials: Sequence[Trial]) -> float:
    """Seconds that slices and trials took, as stored."""
    return math.fsum([*(stretch.wall_s for stretch in stretches), *(trial.wall_s for trial in trials)])


class BuildTime:
    """How a comparison divides its time between building both benches again and measuring on them."""

    def __init__(
        self, left_s: float, builds: int, is_limit: bool, now_s: Callable[[], float] = time.monotonic, made: int = 0
    ) -> None:
        """`builds`: as often both benches are to be built, `made` of them by an earlier run; once more at least.

        `is_limit`: the time is a limit of the user.
        """
        self.is_limit = is_limit
        self._now_s = now_s
        self._ends_s = now_s() + left_s
        self._wanted = max(builds, made + 1)  # what was cut short is continued on new benches
        self._made, self._before = made, made
        self._began_s = now_s()  # of the latest building
        self._build_s = 0.0  # of one, without its removal
        self._planned: int | None = None  # builds

    @contextmanager
    def building(self) -> Iterator[None]:
        """Inside, both benches are built, stand and are removed."""
        self._began_s = self._now_s()
        yield
        self._made += 1

    def stands(self) -> None:
        """Both benches stand now."""
        self._build_s = self._now_s() - self._began_s

    def again(self) -> None:
        """What is measured has changed: how many builds pay is asked anew."""
        self._planned = None

    @property
    def left_s(self) -> float:
        """Seconds until the time is up; negative once it has passed."""
        return self._ends_s - self._now_s()

    @property
    def is_up(self) -> bool:
        """Whether a limit is reached."""
        return self.is_limit and self.left_s <= 0

    @property
    def is_over(self) -> bool:
        """Whether no more benches are to be built."""
        is_short = self.is_limit and self.left_s < self._build_s
        return self._made > self._before and (is_short or self._made >= (self._planned or self._wanted))

    @property
    def builds_left(self) -> int:
        """With the benches that stand."""
        return max(1, (self._planned or self._wanted) - self._made)

    def share_s(self, least_s: float) -> float:
        """How long to measure on the benches that stand, `least_s` at least."""
        if self._planned is None:
            self._planned = self._affordable(least_s) if self.is_limit else self._wanted
        others = self.builds_left - 1
        return max(least_s, (self.left_s - others * self._build_s) / self.builds_left)

    def _affordable(self, least_s: float) -> int:
        """How many builds a limit pays for that leaves `least_s` to each.

        If they are fewer than six, only these: an interval would be for the benches that stand all the same.
        """
        fit = 1 + max(0, int((self.left_s - least_s) // (self._build_s + least_s)))
        more = min(self._wanted - self._made, fit)
        return self._made + (more if self._made + more >= fewest_for_interval() else 1)

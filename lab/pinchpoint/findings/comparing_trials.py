"""A comparison out of alternating trials of two benches that stand at once; pure."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from pinchpoint.findings import comparing
from pinchpoint.findings.comparing_slices import holds_for, over_time
from pinchpoint.model import units
from pinchpoint.model.comparison import Comparison, ComparisonKind, Decision, MetricComparison
from pinchpoint.model.result import RunInfo, RunResult
from pinchpoint.model.scenario import Search
from pinchpoint.model.study import Estimate
from pinchpoint.model.trial import ALTERNATING, WARM_UP, Trial, TrialValidity
from pinchpoint.stats.alternating import LIMITED, SIDES, Alternated, Alternation, Tried, Turn, compare_turns
from pinchpoint.stats.paired import PairedDifference, fewest_pairs

CYCLES = "cycles per packet"
BUSY = 0.5  # of a forwarding thread's time: one that waits for frames most of the time takes few in a turn
_UNUSABLE = (TrialValidity.ABORTED, TrialValidity.NOISY_HOST, TrialValidity.COUNTER_MISMATCH)


def rate_name(search: Search) -> str:
    """What alternating trials compare: the rate of the first loss ratio."""
    ratio = search.loss_ratios[0]
    return "NDR" if ratio == 0 else f"PDR {ratio * 100:g} %"


def tried(trial: Trial, search: Search) -> Tried | None:
    """The trial as its staircase sees it; None: its account cannot be used.

    One that the engine limits counts at what was offered.
    """
    if trial.validity in _UNUSABLE or trial.offered_fps <= 0:
        return None
    loses = trial.loss_ratio > search.loss_ratios[0]
    is_highest = trial.offered_fps < LIMITED * trial.load_fps or trial.load_fps >= search.max_load_fps
    return Tried(min(trial.load_fps, trial.offered_fps), loses, is_highest and not loses, _cycles(trial))


def _cycles(trial: Trial) -> float | None:
    known = [(thread.busy_share, thread.cycles_per_packet) for thread in trial.threads]
    busiest = max(((busy, cycles) for busy, cycles in known if busy and cycles), default=None)
    return busiest[1] if busiest is not None and busiest[0] >= BUSY else None


def alternation(trials: Iterable[Trial], names: Sequence[str], search: Search) -> Alternation:
    """The turns of a run's stored trials, in the order of time; `names`: of the scenarios A and B.

    A warm-up of A begins a build.
    """
    sides, before = dict(zip(names, SIDES, strict=True)), ("", "")
    levels = Alternation(search.min_load_fps, search.max_load_fps)
    for trial in trials:
        side = sides.get(trial.scenario, "")
        if (trial.phase, side) == (WARM_UP, SIDES[0]) != before:
            levels.build()
        elif trial.phase == ALTERNATING and levels.builds:
            levels.answer(side, tried(trial, search))
        before = trial.phase, side
    return levels


def of_trials(info: RunInfo, result: RunResult, made: Alternation, search: Search) -> Comparison:
    """Of a run that measured two benches by alternating trials, as far as it got."""
    request = info.comparison
    assert request is not None
    compared = compare_turns(made.turns)
    rate, cost = _rate(compared, search, request.margin), _cost(compared, request.margin)
    metrics: tuple[MetricComparison, ...] = (rate,)
    if cost is not None and rate.decision is Decision.REFUSED:
        rate = replace(rate, judged=False)
        metrics = (cost, rate)
    elif cost is not None:
        metrics = (rate, replace(cost, judged=False))
    warnings = {warning: None for scenario in result.scenarios for warning in scenario.warnings}
    notes = (*warnings, *_notes(compared, rate, search))
    return comparing.of_two_benches(info, result, ComparisonKind.TRIALS, metrics, notes)


def _rate(compared: Alternated, search: Search, margin: float | None) -> MetricComparison:
    base = MetricComparison(rate_name(search), "fps", True, Decision.REFUSED, "")
    if compared.rate is None:
        return replace(base, sentence="not compared: too few alternating trials had a usable account")
    a, b = (rate_of(compared.turns, side) for side in SIDES)
    base = replace(base, a=a, b=b)
    judged = _compared(base, compared.rate, compared, margin)
    bounds = (compared.a_is_bound, compared.b_is_bound)
    # A bound shows a difference on its own side, and none on the other.
    shown = {(True, False): Decision.LOWER, (False, True): Decision.HIGHER}.get(bounds)
    if not any(bounds):
        return judged
    names = " and ".join(side for side, is_bound in zip(SIDES, bounds, strict=True) if is_bound)
    most = units.fps(max(turn.a.fps for turn in compared.turns))
    why = f"{names} forwarded all that the engine offers ({most})"
    if judged.decision is shown:
        return replace(judged, sentence=f"{judged.sentence}; at least that, since {why}")
    return replace(base, sentence=f"not compared: {why}: more is not known")


def _cost(compared: Alternated, margin: float | None) -> MetricComparison | None:
    """Of the cycles that a packet costs at one load; None where the device counts none."""
    if compared.cycles is None:
        return None
    costs = [[getattr(turn, side.lower()).cycles for turn in compared.turns] for side in SIDES]
    a, b = (replace(over_time([value for value in side if value]), unit="cycles") for side in costs)
    base = MetricComparison(CYCLES, "cycles", True, Decision.REFUSED, "", a=a, b=b)
    return _compared(base, compared.cycles, compared, margin)


def _compared(
    base: MetricComparison, ratio: PairedDifference, compared: Alternated, margin: float | None
) -> MetricComparison:
    base = replace(base, n=len(compared.turns), method=_interval(compared, ratio))
    return comparing.with_ratio(base, ratio, holds_for(compared.builds), margin, of="turn")


def _interval(compared: Alternated, ratio: PairedDifference) -> str:
    blocks = f"{ratio.n} builds" if compared.builds >= fewest_pairs() else units.counted(ratio.n, "block")
    made = f"{blocks} of {units.counted(len(compared.turns), 'turn')}"
    if ratio.confidence is None:
        return f"range of {made}; an interval at 95 % needs {fewest_pairs()}"
    return f"95 %, Wilcoxon's signed ranks over {made}"


def rate_of(turns: Sequence[Turn], side: str) -> Estimate:
    """The rate of one bench: the median of the loads that its staircase visited. At least one turn."""
    return over_time([getattr(turn, side.lower()).fps for turn in turns])


def _notes(compared: Alternated, rate: MetricComparison, search: Search) -> Iterator[str]:
    if not rate.judged:
        yield f"{rate.metric}: {rate.sentence}; compared are the {CYCLES} at the highest load that the engine offers"
    if compared.builds < fewest_pairs() and compared.rate is not None:
        yield (
            "the interval is for these two benches: two that are built anew from one file differ by some per cent, "
            f"which {fewest_pairs()} builds or more include (--benches, and a budget that pays for them)"
        )
    yield f"{rate.metric}: half of the trials of {units.seconds(search.trial_duration_s)} lose no more at this load"

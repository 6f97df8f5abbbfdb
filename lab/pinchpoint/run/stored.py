"""Run folders as they stand: one, each of its files read once, and the comparison of two."""

from collections.abc import Mapping, Sequence
from functools import cached_property

import msgspec

from pinchpoint.findings import comparing, differences, stored_runs
from pinchpoint.findings.paired_benches import alternation, of_duet, of_trials
from pinchpoint.model.comparison import Comparison, Method
from pinchpoint.model.errors import InputError, choices
from pinchpoint.model.result import Outcome, RunInfo, RunResult, ScenarioResult
from pinchpoint.model.scenario import Search
from pinchpoint.store.folder import RunFolder


class StoredRun:
    """What a run folder holds once its measuring has ended."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder

    @cached_property
    def info(self) -> RunInfo:
        """What was asked for."""
        return self.folder.read_info()

    @cached_property
    def result(self) -> RunResult:
        """What was found; nothing yet, if no scenario has finished."""
        return self.folder.so_far()

    @cached_property
    def comparison(self) -> Comparison | None:
        """Of a run that compared A and B, as far as it got; None for any other run."""
        if self.info.comparison is None:
            return None
        if self.info.comparison.method is Method.DUET:
            return of_duet(self.info, self.result, self.folder.read_stretches())
        if self.info.comparison.method is Method.TRIALS:
            search = msgspec.convert(self.info.scenarios[0]["search"], Search)
            names = [str(plain["name"]) for plain in self.info.scenarios]
            return of_trials(self.info, self.result, alternation(self.folder.read_trials(), names, search), search)
        return comparing.of_run(self.info, self.result)

    def ended_as(self, outcome: Outcome) -> Sequence[ScenarioResult]:
        """The scenarios with this outcome."""
        return [scenario for scenario in self.result.scenarios if scenario.outcome is outcome]


class NothingInCommonError(InputError):
    """Two runs that share no scenario; `a` and `b` are the names of theirs."""

    def __init__(self, runs: str, a: Sequence[str], b: Sequence[str]) -> None:
        self.a, self.b = tuple(a), tuple(b)
        names = " and ".join(", ".join(only) or "none" for only in (a, b))
        hint = f"choose pairs: --match {a[0]}={b[0]}" if a and b else None
        super().__init__(f"{runs} have no scenario in common: {names}", hint)


def compare_folders(
    a: RunFolder,
    b: RunFolder,
    metrics: Sequence[str],
    margin: float | None,
    pairs: Sequence[tuple[str, str]] = (),
) -> Comparison:
    """Of two stored runs; `pairs` are scenarios of A and B to compare instead of those of one name.

    Raises InputError where a metric or a scenario of a pair is in none, NothingInCommonError.
    """
    sides = []
    for folder in (a, b):
        result = folder.read_result()
        if result is None:
            raise InputError(f"{folder.path}: no scenario has finished", f"pinchpoint run --resume {folder.path}")
        sides.append((folder.read_info(), result))
    comparison = stored_runs.of_runs(sides[0], sides[1], tuple(metrics), margin, pairs)
    if not comparison.scenarios:
        raise NothingInCommonError(f"{a.path} and {b.path}", comparison.only_a, comparison.only_b)
    known = dict(pair for _, result in sides for pair in comparing.in_order(result.scenarios, ()))
    if unknown := [name for name in metrics if name not in known]:
        raise InputError(f"neither {a.path} nor {b.path} has {unknown[0]}", choices(unknown[0], known, "their metrics"))
    return comparison


def require_alike(a: Mapping[str, object], b: Mapping[str, object]) -> None:
    """Raises InputError if two effective scenarios define their numbers differently, e.g. by longer trials."""
    if different := differences.defining(a, b):
        told = "; ".join(
            f"{difference.what} is {difference.a} in A and {difference.b} in B" for difference in different
        )
        raise InputError(f"A and B are not measured alike, so their numbers mean different things: {told}")

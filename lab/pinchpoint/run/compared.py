"""Comparisons out of run folders: of one that compared two scenarios, or of two."""

from collections.abc import Mapping, Sequence

import msgspec

from pinchpoint.findings import comparing, differences, stored_runs
from pinchpoint.findings.comparing_slices import of_duet
from pinchpoint.findings.comparing_trials import alternation, of_trials
from pinchpoint.model.comparison import Comparison, Method
from pinchpoint.model.errors import InputError
from pinchpoint.model.scenario import Search
from pinchpoint.run.run import so_far
from pinchpoint.store.folder import RunFolder


def comparison_of(folder: RunFolder) -> Comparison | None:
    """Of a run that compared A and B, as far as it got; None for any other run."""
    info = folder.read_info()
    if info.comparison is None:
        return None
    if info.comparison.method is Method.DUET:
        return of_duet(info, so_far(folder), folder.read_stretches())
    if info.comparison.method is Method.TRIALS:
        search = msgspec.convert(info.scenarios[0]["search"], Search)
        made = alternation(folder.read_trials(), [str(plain["name"]) for plain in info.scenarios], search)
        return of_trials(info, so_far(folder), made, search)
    return comparing.of_run(info, so_far(folder))


def compare_folders(a: RunFolder, b: RunFolder, metrics: Sequence[str], margin: float | None) -> Comparison:
    """Of two stored runs. Raises InputError where they have no scenario or no metric in common."""
    sides = []
    for folder in (a, b):
        result = folder.read_result()
        if result is None:
            raise InputError(f"{folder.path}: no scenario has finished", f"pinchpoint run --resume {folder.path}")
        sides.append((folder.read_info(), result))
    found = stored_runs.of_runs(sides[0], sides[1], tuple(metrics), margin)
    if not found.scenarios:
        names = " and ".join(", ".join(only) or "none" for only in (found.only_a, found.only_b))
        raise InputError(f"{a.path} and {b.path} have no scenario in common: {names}")
    return found


def require_alike(a: Mapping[str, object], b: Mapping[str, object]) -> None:
    """Raises InputError if two effective scenarios define their numbers differently, e.g. by longer trials."""
    if different := differences.defining(a, b):
        told = "; ".join(f"{one.what} is {one.a} in A and {one.b} in B" for one in different)
        raise InputError(f"A and B are not measured alike, so their numbers mean different things: {told}")

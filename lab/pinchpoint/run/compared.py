"""A comparison of two run folders."""

from collections.abc import Mapping, Sequence

from pinchpoint.findings import differences, stored_runs
from pinchpoint.model.comparison import Comparison
from pinchpoint.model.errors import InputError
from pinchpoint.store.folder import RunFolder


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

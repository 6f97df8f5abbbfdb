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
    comparison = stored_runs.of_runs(sides[0], sides[1], tuple(metrics), margin)
    if not comparison.scenarios:
        names = " and ".join(", ".join(only) or "none" for only in (comparison.only_a, comparison.only_b))
        raise InputError(f"{a.path} and {b.path} have no scenario in common: {names}")
    return comparison


def require_alike(a: Mapping[str, object], b: Mapping[str, object]) -> None:
    """Raises InputError if two effective scenarios define their numbers differently, e.g. by longer trials."""
    if different := differences.defining(a, b):
        told = "; ".join(
            f"{difference.what} is {difference.a} in A and {difference.b} in B" for difference in different
        )
        raise InputError(f"A and B are not measured alike, so their numbers mean different things: {told}")

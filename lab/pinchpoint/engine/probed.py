"""What the probes between the engine's first core and each core of the device found, put together. Pure."""

from collections import Counter
from collections.abc import Sequence
from statistics import fmean

from pinchpoint.engine.protocol import CacheLineResult


def mean_ns(distances: Sequence[float | None]) -> float | None:
    """Over all pairs of cores; None if one is not known, since the mean of the others is another figure."""
    known = [distance for distance in distances if distance is not None]
    return fmean(known) if known and len(known) == len(distances) else None


def ipc(probes: Sequence[CacheLineResult]) -> dict[int, tuple[float | None, float | None]]:
    """Instructions a cycle before and after the trial, by core; of the engine's, which is in every pair, the first."""
    by_core = dict[int, tuple[float | None, float | None]]()
    for probe in probes:
        for core, before, after in zip(probe.cores, probe.ipc_before, probe.ipc_after, strict=True):
            by_core.setdefault(core, (before, after))
    return by_core


def occupied_ns(probes: Sequence[CacheLineResult]) -> dict[int, int]:
    """Processor time of the probes by core; the engine's core is in every pair."""
    by_core = Counter[int]()
    for probe in probes:
        by_core.update(dict(zip(probe.cores, probe.occupied_ns, strict=True)))
    return dict(by_core)

"""Did the datapath see the factor? A rule that no frame needs costs nothing, and proves nothing."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from pinchpoint.model import units
from pinchpoint.model.scenario import Factor, Level
from pinchpoint.model.study import CurvePoint
from pinchpoint.model.terms import answered_by

# What changes in a datapath that sees a factor, and by how much before it counts as a change.
_FLOWS, _MASKS = "datapath flows", "datapath masks"
_COUNTS = (_FLOWS, _MASKS, "conntrack entries")
MOST_LISTED = 20_000  # flows; of more, their masks are not counted
_COUNT_NOISE = 2.0  # a neighbour's ARP or ND flow comes and goes
_NOISE = 0.05  # of a count, and in shares
_CLEAR = 10  # a factor must have changed by this many times the noise to be missed
# Factors in these units say how big or fast something is; no datapath flow is expected of them.
_MAGNITUDES = frozenset({"B", "bytes", "s", "ms", "us", "fps", "pps", "kpps", "Mpps", "bit/s", "1/s", "%"})
# Tables that say how a workload or a measurement runs. What its connections or loads change between two
# hosts is seen on the bench's threads; no datapath flow is promised for each.
_NOT_THE_BENCH = frozenset({"sockets", "load", "search", "latency", "validity", "engine", "burst", "loss_curve"})


def with_visibility(factors: Sequence[Factor], points: Sequence[CurvePoint]) -> tuple[CurvePoint, ...]:
    """The points, each with the words that a factor was invisible to the datapath, where it was."""
    return tuple(
        replace(point, invisible="; ".join(_unseen(factors, points, point)), notes=_notes(point)) for point in points
    )


def _notes(point: CurvePoint) -> Mapping[str, str]:
    """The point's notes, and why it has no masks where its flows are too many to be listed."""
    flows = point.estimates.get(_FLOWS)
    if flows is None or flows.value <= MOST_LISTED or _MASKS in point.estimates:
        return point.notes
    notes = [note for note in (point.notes.get(""), f"masks not counted: more than {MOST_LISTED:,} flows") if note]
    return {**point.notes, "": "; ".join(notes)}


def _unseen(factors: Sequence[Factor], points: Sequence[CurvePoint], point: CurvePoint) -> Iterator[str]:
    if _FLOWS not in point.estimates or _MASKS not in point.estimates:
        return
    for factor in factors:
        first = _first(factor, points, point)
        if first is None or not _of_the_datapath(factor) or not _grew(factor, first, point):
            continue
        if not any(_changed(first, point)):
            yield _words(factor, first, point)


def _of_the_datapath(factor: Factor) -> bool:
    """Whether a flow in the datapath is to be expected of the factor; of unknown keys it is."""
    tables = {key.partition(".")[0].partition("[")[0] for key in factor.keys}
    return factor.unit not in _MAGNITUDES and not (tables and tables <= _NOT_THE_BENCH)


def _first(factor: Factor, points: Sequence[CurvePoint], point: CurvePoint) -> CurvePoint | None:
    """The point with the factor's first level and all else as in `point`."""
    rest = _rest(point.levels, factor)
    same = [point for point in points if _rest(point.levels, factor) == rest and _FLOWS in point.estimates]
    return same[0] if same and same[0] is not point else None


def _rest(levels: Mapping[str, Level], factor: Factor) -> dict[str, Level]:
    return {name: level for name, level in levels.items() if name != factor.name}


def _grew(factor: Factor, first: CurvePoint, point: CurvePoint) -> bool:
    before, after = first.levels.get(factor.name), point.levels.get(factor.name)
    if isinstance(before, str | None) or isinstance(after, str | None):
        return False
    noise = max(_COUNT_NOISE, _NOISE * first.estimates[_FLOWS].value)
    return abs(after - before) > _CLEAR * noise


def _changed(first: CurvePoint, point: CurvePoint) -> Iterator[bool]:
    for name, before in first.estimates.items():
        is_share, after = bool(answered_by(name)), point.estimates.get(name)
        if after and (is_share or name in _COUNTS):
            noise = _NOISE if is_share else max(_COUNT_NOISE, _NOISE * before.value)
            yield abs(after.value - before.value) > noise


def _words(factor: Factor, first: CurvePoint, point: CurvePoint) -> str:
    flows, masks = point.estimates[_FLOWS].value, point.estimates[_MASKS].value
    return (
        f"{units.level(point.levels[factor.name])} {factor.name}, but {units.counted(flows, 'datapath flow')} and "
        f"{units.counted(masks, 'mask')} carried the traffic, "
        f"as with {units.level(first.levels[factor.name])}: the datapath did not see the factor"
    )

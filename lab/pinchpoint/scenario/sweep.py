"""From a scenario file with [sweep] to its scenarios: one for each combination of levels."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from pathlib import Path as FilePath

from pinchpoint.keys.lexical import Path
from pinchpoint.keys.reader import Element, Reader, Values, refuse_doubles
from pinchpoint.keys.source import CHANGED, MOST_PROBLEMS, Change, Source, key_at, key_path, near_key, path_text, show
from pinchpoint.model import units
from pinchpoint.model.errors import InputError
from pinchpoint.model.scenario import Factor, Level, Point, Relative, Scenario, Sweep
from pinchpoint.scenario import keys, sweep_keys
from pinchpoint.scenario.read import scenario_of

LONGEST_NAME = 120
_FIXED = ("title", "measure")
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")

Setting = tuple[Change, ...]


@dataclass(frozen=True)
class Axis:
    """A factor, and what each of its levels sets."""

    factor: Factor
    settings: tuple[Setting, ...]


def load_sweep(path: FilePath, quick: bool = False, changes: Mapping[str, object] | None = None) -> Sweep:
    """Read any scenario file; one without [sweep] makes one scenario.

    `quick`: the short form's levels. `changes`: key paths (`stream[1].flows`) and the values that
    replace the file's own. Raises InputError listing every problem, one a line.
    """
    source = Source.of_file(path)
    made = [_change(source, name, value) for name, value in (changes or {}).items()]
    sweep = sweep_of(source.changed(made), quick)
    for factor in sweep.factors:
        taken = set(map(key_path, factor.keys))
        if swept := next((name for name in changes or () if key_path(name) in taken), ""):
            told = (
                f'{path}: {swept}: the factor "{factor.name}" of [sweep] sets it, so that another value has no effect'
            )
            raise InputError(told, "change its levels instead: --set 'sweep.factor[1].levels=[1, 2]'")
    return sweep


def _change(source: Source, name: str, value: object) -> Change:
    at, tables = key_path(name), keys.of_kind(keys.kind_of(source)).every
    if at is None or key_at(at, tables) is None:
        near = near_key(name, tables)
        hint = f"did you mean {near}?" if near else 'write it like "stream[1].flows"'
        raise InputError(f"{source.path}: unknown key {show(name)}", hint)
    if not source.holds(at):
        raise InputError(f"{source.path}: {name}: the file has no element of this number")
    return Change(at, value, origin=CHANGED)


def sweep_of(source: Source, quick: bool) -> Sweep:
    """The scenarios of one file. Raises InputError listing every problem, one a line."""
    reader = Reader(source, sweep_keys.TABLES)
    reader.refuse_unknown_keys()
    values = reader.table(sweep_keys.SWEEP)
    factors, points = reader.array(sweep_keys.FACTOR), reader.array(sweep_keys.POINT)
    axes = [*_listed(source, points, values, quick), *_axes(source, factors, quick)]
    _check_axes(source, axes, factors, points)
    if source.problems:
        raise source.error()
    scenarios = _related(_expand(source, axes), values["relative"])
    group, varied = FilePath(source.path).stem, tuple(axis.factor for axis in axes)
    own = {key: values[key] for key in ("repeats", "order", "seed")}
    return Sweep(group, scenarios[0].title, varied, scenarios, **own)


def _axes(source: Source, factors: Sequence[Element], quick: bool) -> Iterator[Axis]:
    for element in factors:
        values = element.values
        if not {"name", "unit", "keys", "levels", "quick", "falling"} <= values.keys():
            continue
        paths = list(_paths(source, element, values["keys"]))
        chosen = "quick" if quick and values["quick"] else "levels"
        factor = Factor(values["name"], values["unit"], values[chosen], values["falling"], tuple(values["keys"]))
        places = [source.line((*element.at, chosen, place)) for place in range(len(factor.levels))]
        at = zip(factor.levels, places, strict=True)
        yield Axis(factor, tuple(tuple(Change(path, level, line) for path in paths) for level, line in at))


def _paths(source: Source, element: Element, names: Sequence[str]) -> Iterator[Path]:
    for place, name in enumerate(names):
        if path := _swept(source, name, (*element.at, "keys", place)):
            yield path


def _swept(source: Source, name: str, at: Path, value: object = None) -> Path | None:
    """The path of a key that a sweep may set; None if it is none, which is then noted."""
    path, tables = key_path(name), keys.of_kind(keys.kind_of(source)).every
    if isinstance(value, dict) and path and key_at(path, tables) is None:
        source.problem(at, f'expected a key in quotes, such as "{name}.{next(iter(value), "key")}"')
        return None
    known = [table for table in tables if table not in sweep_keys.TABLES]
    if path is None or key_at(path, known) is None or path[0] in _FIXED:
        near = "" if source.is_full else near_key(name, known)
        hint = f"; did you mean {near}?" if near and near not in _FIXED else ""
        source.problem(at, f"expected a key that a level can set, found {show(name)}{hint}")
        return None
    if not source.holds(path):
        lacks = "which names an element that the file lacks"
        source.problem(at, f"expected a key of this file, found {show(name)}, {lacks}")
        return None
    return path


def _listed(source: Source, points: Sequence[Element], values: Values, quick: bool) -> Iterator[Axis]:
    """The listed points as one factor."""
    taken = [point for point in points if point.values.get("quick", True) or not quick]
    if points and not taken:
        source.problem(("sweep", "point"), "expected at least one point with quick = true in the short form")
    settings = [_point_setting(source, point) for point in taken]
    names = [point.values.get("name", "") for point in taken]
    refuse_doubles(source, taken)
    if taken and "point_name" in values:
        changed = dict.fromkeys(path_text(change.at) for setting in settings for change in setting)
        yield Axis(Factor(values["point_name"], "", tuple(names), False, tuple(changed)), tuple(settings))


def _point_setting(source: Source, point: Element) -> Setting:
    own = [key.name for key in sweep_keys.POINT.keys]
    changes = []
    for name, value in point.written.items():
        at = (*point.at, name)
        if source.is_full:
            break
        if name not in own and (path := _swept(source, name, at, value)):
            changes.append(Change(path, value, source.line(at)))
    return tuple(changes)


def _check_axes(source: Source, axes: Sequence[Axis], factors: Sequence[Element], points: Sequence[Element]) -> None:
    refuse_doubles(source, factors, (axes[0].factor.name,) if points and axes else ())
    taken: dict[Path, str] = {}
    for axis in axes:
        for path in {change.at: None for setting in axis.settings for change in setting}:
            for other, factor in taken.items():
                if path[: len(other)] == other or other[: len(path)] == path:
                    both = f"{factor} and {axis.factor.name} set the same key"
                    source.problem(("sweep",), f"expected each key in only one factor; {both}")
            taken[path] = axis.factor.name
    count = prod(len(axis.factor.levels) for axis in axes)
    if count > sweep_keys.MOST_POINTS:
        source.problem(("sweep",), f"expected at most {sweep_keys.MOST_POINTS:,} points, found {count:,}")


def _expand(source: Source, axes: Sequence[Axis]) -> tuple[Scenario, ...]:
    """The scenario of each combination. Raises InputError listing the problems of all of them."""
    scenarios: list[Scenario] = []
    names: set[str] = set()
    problems: dict[tuple[int, str], list[Mapping[str, Level]]] = {}
    tried = 0
    for places in product(*(range(len(axis.factor.levels)) for axis in axes)):
        chosen = list(zip(axes, places, strict=True))
        levels = {axis.factor.name: axis.factor.levels[place] for axis, place in chosen}
        point = source.changed((change for axis, place in chosen for change in axis.settings[place]), without="sweep")
        scenario = scenario_of(point)
        tried += 1
        for problem in point.problems:
            problems.setdefault(problem, []).append(levels)
        if len(problems) > MOST_PROBLEMS:
            break
        if scenario and not problems:
            scenarios.append(_named(scenario, levels, names))
    if problems:
        _tell(source, problems, tried)
        raise source.error()
    return tuple(scenarios)


def _tell(source: Source, problems: Mapping[tuple[int, str], list[Mapping[str, Level]]], tried: int) -> None:
    """Note each problem once, with the levels that its points have in common, unless all points have it."""
    for (line, problem), points in problems.items():
        common = {name: level for name, level in points[0].items() if all(point[name] == level for point in points)}
        shown = ", ".join(f"{name} = {show(level)}" for name, level in (common or points[0]).items())
        more = f" and {units.counted(len(points) - 1, 'more point')}" if not common else ""
        is_everywhere = not points[0] or (len(points) == tried and tried > 1)
        source.take(line, problem if is_everywhere else f"{problem} (at {shown}{more})")


def _named(scenario: Scenario, levels: Mapping[str, Level], names: set[str]) -> Scenario:
    if not levels:
        return scenario
    parts = (f"{name}-{str(level).lower() if isinstance(level, bool) else level}" for name, level in levels.items())
    wanted = _UNSAFE.sub("-", ".".join((scenario.name, *parts)))
    name, number = wanted[:LONGEST_NAME], 1
    while name in names:
        number += 1
        name = f"{wanted[: LONGEST_NAME - 5]}-{number}"
    names.add(name)
    return replace(scenario, name=name, point=Point(scenario.name, levels, 1))


def _related(scenarios: tuple[Scenario, ...], relative: Relative) -> tuple[Scenario, ...]:
    """The same, each with how it is measured relative to the first; a single one has nothing to be relative to."""
    if relative is Relative.NO or len(scenarios) < 2:
        return scenarios
    points = [replace(scenario.point, relative=relative, reference=scenarios[0].name) for scenario in scenarios]
    return tuple(replace(scenario, point=point) for scenario, point in zip(scenarios, points, strict=True))

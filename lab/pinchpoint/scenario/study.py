"""From a study's folder to the study and its sweeps."""

import csv
import io
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path as FilePath

from pinchpoint.keys.kinds import MismatchError
from pinchpoint.keys.reader import Element, Reader
from pinchpoint.keys.source import CHANGED, Change, Source, key_at, key_path, near_key, read_text, show
from pinchpoint.measure import registry as measures
from pinchpoint.model import former
from pinchpoint.model.errors import InputError, choices
from pinchpoint.model.scenario import Level, Sweep
from pinchpoint.model.study import Conclusion, FindingRequest, Published, PublishedPoint, Step, Study
from pinchpoint.scenario import keys, sweep_keys
from pinchpoint.scenario.sweep import sweep_of
from pinchpoint.scenario.sweep_keys import level

STUDY_FILE = "study.toml"
Note = Callable[[str, str], None]  # a key, and what is wrong with it


def load_study(
    folder: FilePath, quick: bool = False, only: Collection[str] = (), changes: Mapping[str, object] | None = None
) -> tuple[Study, tuple[Sweep, ...]]:
    """Read a study's folder: the study, and a sweep for each of its scenario files, in its order.

    `quick`: the short form. `only`: the files wanted, by name without `.toml`; none: all. `changes`:
    key paths and the values that replace those of every wanted file that reads them. Raises InputError
    listing every problem of all files, those of each file one a line.
    """
    path = folder / STUDY_FILE
    source = Source.of_file(path)
    reader = Reader(source, sweep_keys.STUDY_TABLES)
    reader.refuse_unknown_keys()
    top = reader.table(sweep_keys.STUDY_TOP)
    stems: Sequence[str] = top.get("scenarios", ())
    curves, requests = reader.array(sweep_keys.PUBLISHED), reader.array(sweep_keys.FINDING)
    concluded, told = reader.array(sweep_keys.CONCLUSION), reader.array(sweep_keys.STEP)
    for word in only:
        if word not in stems:
            raise InputError(f"{path}: unknown scenario {show(word)}", choices(word, stems, "available"))
    wanted = [stem for stem in stems if stem in only or not only]

    wrong: list[str] = []
    files = dict(_files(folder, stems, wrong))
    reader.table(sweep_keys.QUICK)
    quicker, chosen = source.data.get("quick"), [files[stem] for stem in wanted if stem in files]
    short = _changes(
        source, quicker, files.values(), lambda name: f"{STUDY_FILE}:{source.line(('quick', name))}",
        lambda name, told: source.problem(("quick", name), told))  # fmt: skip
    asked = _changes(source, changes, chosen, lambda _: CHANGED, lambda name, told: wrong.append(f"{name}: {told}"))
    sweeps: dict[str, Sweep] = {}
    for stem in wanted:
        if stem in files:
            _read(files[stem], [*(short if quick else ()), *asked], quick, sweeps, wrong)
    elements = [*curves, *requests, *concluded]
    _check_groups(source, [*elements, *told], stems)
    _check_factors(source, elements, sweeps)
    _check_pairs(source, requests, concluded, sweeps, has_every_level=not quick and not changes)
    curves_found = [figures for curve in curves if (figures := published(source, folder, curve))]
    if source.problems or wrong:
        raise InputError("\n".join([*([source.error().message] if source.problems else []), *wrong]))
    name = folder.resolve().name
    beside = tuple(curve for curve in curves_found if curve.group in wanted)
    findings = tuple(_findings(requests, stems, wanted))
    conclusions = tuple(_conclusions(concluded, wanted))
    steps = tuple(Step(**step.values) for step in told if step.values["group"] in wanted)
    own = beside, findings, quick, conclusions, steps
    study = Study(name, top.get("title", name), top["about"], top["source"], *own)
    return study, tuple(sweeps.values())


def _files(folder: FilePath, stems: Sequence[str], wrong: list[str]) -> Iterator[tuple[str, Source]]:
    for stem in stems:
        path = folder / f"{stem}.toml"
        try:
            yield stem, Source.of_file(path)
        except InputError as error:
            wrong.append(error.message)


def _read(source: Source, changes: Sequence[Change], quick: bool, sweeps: dict[str, Sweep], wrong: list[str]) -> None:
    taken = [change for change in changes if _takes(source, change)]
    try:
        sweep = sweep_of(source.changed(taken), quick)
    except InputError as error:
        wrong.append(error.message)
    else:
        sweeps[sweep.group] = sweep


def _changes(
    source: Source, values: object, files: Collection[Source], origin: Callable[[str], str], note: Note
) -> list[Change]:
    """What stands in the place of files' values; an unknown key, or one that none of them reads, is noted."""
    changes = []
    for name, value in values.items() if isinstance(values, Mapping) else ():
        at = key_path(name)
        if at is None or key_at(at, keys.known()) is None:
            near = "" if source.is_full else near_key(name, keys.known())
            hint = f"; did you mean {near}?" if near else ""
            note(name, f'expected a key of scenario files, like "search.duration_sum_s"{hint}')
            continue
        change = Change(at, value, origin=origin(name))
        if files and not any(_takes(file, change) for file in files):
            note(name, "expected a key that one of the study's files reads; none does")
        changes.append(change)
    return changes


def _takes(source: Source, change: Change) -> bool:
    """Whether the file reads the key: its measure does, and the tables that it must have for it are there."""
    taken = key_at(change.at, keys.of_kind(keys.kind_of(source)).every)
    if taken is None or not source.holds(change.at):
        return False
    is_there, measure = taken[0].name.partition(".")[0] in source.data, source.data.get("measure", "rates")
    is_read = taken[0].is_read_by(measure, is_there) and (
        change.at != ("sweep", "relative") or measures.is_search(str(measure))  # in a file it may be anything
    )
    return is_read and (change.at[0] != "sweep" or "sweep" in source.data)


def _check_groups(source: Source, elements: Sequence[Element], stems: Sequence[str]) -> None:
    for element in elements:
        for key in ("group", "against") if "says" in element.values else ("group",):
            group = element.values.get(key)
            if group and stems and group not in stems:
                source.mismatch((*element.at, key), f"one of the study's scenarios ({', '.join(stems)})", group, stems)


def _check_pairs(
    source: Source,
    findings: Sequence[Element],
    conclusions: Sequence[Element],
    sweeps: Mapping[str, Sweep],
    *,
    has_every_level: bool,
) -> None:
    """The two points of a comparison, and what a conclusion expects of them.

    `has_every_level`: the sweeps have all levels of their files, not those of the short form or of changes.
    """
    for finding in findings:
        chosen = [key for key in ("over", "under") if finding.values.get(key)]
        if chosen and (len(chosen) < 2 or finding.values.get("kind") != "compare"):
            source.problem(
                (*finding.at, chosen[0]), 'expected "over" and "under" together, of a finding of kind "compare"'
            )
    for conclusion in conclusions:
        least, most = conclusion.values.get("least"), conclusion.values.get("most")
        if least is None and most is None:
            source.problem(conclusion.at, 'expected "least", "most" or both')
        elif least is not None and most is not None and least > most:
            source.mismatch((*conclusion.at, "most"), f"a number from {least:g}, which is `least`", most)
    for element in (*findings, *conclusions):
        group, against = element.values.get("group", ""), element.values.get("against", "")
        for key, sweep in (("over", sweeps.get(group)), ("under", sweeps.get(against or group))):
            if sweep is not None:
                _check_levels(source, element, key, sweep, has_every_level=has_every_level)


def _check_levels(source: Source, element: Element, key: str, sweep: Sweep, *, has_every_level: bool) -> None:
    """The factors of which a point's levels are given are those of its sweep, and so are the levels."""
    levels = {factor.name: factor.levels for factor in sweep.factors}
    for name, level_given in element.values.get(key, {}).items():
        if name not in levels:
            known = f"levels of factors of {sweep.group} ({', '.join(levels) or 'there is none'})"
            source.mismatch((*element.at, key), known, name)
        elif has_every_level and level_given not in levels[name]:
            known = f"a level of {name} ({', '.join(map(show, levels[name]))})"
            source.mismatch((*element.at, key), known, level_given)


def _check_factors(source: Source, elements: Sequence[Element], sweeps: Mapping[str, Sweep]) -> None:
    """The factors that curves and findings name are those of their group's sweep."""
    for element in elements:
        values = element.values
        sweep = sweeps.get(values.get("group", ""))
        if not sweep:
            continue
        names = [factor.name for factor in sweep.factors]
        known = f"a factor of {sweep.group} ({', '.join(names) or 'there is none'})"
        if values.get("factor") and values["factor"] not in names:
            source.mismatch((*element.at, "factor"), known, values["factor"], names)
        for name in values.get("levels", ()):
            if name not in names:
                source.mismatch((*element.at, "levels"), known, name, names)
            elif name == values.get("factor"):
                source.problem((*element.at, "levels"), f"expected levels of other factors, found {show(name)}")


def _findings(requests: Sequence[Element], stems: Sequence[str], wanted: Sequence[str]) -> Iterator[FindingRequest]:
    """The findings that rest on wanted files alone."""
    for request in requests:
        finding = FindingRequest(**request.values)
        finding = replace(finding, metric=former.metric(finding.metric), against=former.metric(finding.against))
        groups = {finding.group, *(word.strip() for word in finding.against.split(","))} & set(stems)
        if groups <= set(wanted):
            yield finding


def _conclusions(elements: Sequence[Element], wanted: Sequence[str]) -> Iterator[Conclusion]:
    """The conclusions that rest on wanted files alone."""
    for element in elements:
        values = element.values
        points = {key: values[key] for key in ("group", "against", "over", "under")}
        request = FindingRequest("compare", metric=former.metric(values["metric"]), factor="", **points)
        if {request.group, request.against or request.group} <= set(wanted):
            own = {key: values[key] for key in ("says", "source", "least", "most", "needs", "published")}
            yield Conclusion(request=request, **own)


MOST_ROWS = 100_000
_INTEGER = re.compile(r"-?[0-9]{1,15}")
_NUMBER = re.compile(r"-?[0-9]{1,30}(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,3})?")

Row = tuple[int, Mapping[str, str]]
"""The file's line, and its values by column."""


def published(source: Source, folder: FilePath, element: Element) -> Published | None:
    """One published curve; None if a problem was noted in `source`."""
    values = element.values
    if not {key.model_field for key in sweep_keys.PUBLISHED.keys} <= values.keys():
        return None
    if (values["points"] is None) == (values["file"] is None):
        source.problem(element.at, 'expected either "points" or "file"')
        return None
    if values["points"] is not None:
        points = _once(source, element, ((0, level, figure * values["times"]) for level, figure in values["points"]))
    else:
        points = _once(source, element, _of_file(source, folder, element))
    own = {key: values[key] for key in ("group", "unit", "factor", "title")}
    file, written = values["file"], f"{STUDY_FILE}:{source.line((*element.at, 'points'))}"
    figures = tuple(
        PublishedPoint({values["factor"]: level, **values["levels"]}, figure, f"{file}:{line}" if file else written)
        for level, (line, figure) in points.items()
    )
    return Published(**own, metric=former.metric(values["metric"]), points=figures)


def _once(
    source: Source, element: Element, figures: Iterable[tuple[int, Level, float]]
) -> dict[Level, tuple[int, float]]:
    """The figure of each level and its line, 0 of none; several for a level are a problem, unless the first counts."""
    points: dict[Level, tuple[int, float]] = {}
    for line, point, figure in figures:
        if point not in points:
            points[point] = line, figure
        elif not element.values["first"]:
            where = f" in line {line} of {element.values['file']}" if line else ""
            source.problem(element.at, f"expected one figure for each level, found {show(point)} again{where}")
            break
    return points


def _of_file(source: Source, folder: FilePath, element: Element) -> Iterator[tuple[int, Level, float]]:
    values, at = element.values, element.at
    missing = [key for key in ("x", "y") if values[key] is None]
    for key in missing:
        source.problem((*at, key), "missing; expected the name of a column of the file")
    path = folder / values["file"]
    if missing or not _is_inside(path, folder):
        if not missing:
            source.problem((*at, "file"), f"expected a file inside the study's folder, found {show(values['file'])}")
        return
    try:
        rows = list(_rows(path, {values["x"], values["y"], *values["where"]}))
    except InputError as error:
        source.problem((*at, "file"), error.message)
        return
    wanted = [row for row in rows if all(_is(row[1][column], wanted) for column, wanted in values["where"].items())]
    matching = 0
    for line, row in wanted:
        if not row[values["y"]]:
            continue  # no figure is none, not zero
        try:
            yield line, _level(row[values["x"]]), _figure(row[values["y"]]) * values["times"]
        except MismatchError as error:
            source.problem((*at, "file"), f"line {line} of {values['file']}: {error}")
            return
        matching += 1
    if not matching:
        expected = f"expected rows of {values['file']} with figures"
        source.problem(at, f"{expected}; none of the {len(rows):,} rows matches `where`")


def _is_inside(path: FilePath, folder: FilePath) -> bool:
    try:
        return path.resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError, ValueError):
        return False


def _rows(path: FilePath, columns: set[str]) -> Iterator[Row]:
    """The rows of a CSV file. Raises InputError naming the file and the line of what is wrong."""
    reader = csv.reader(io.StringIO(read_text(path), newline=""), strict=True)
    try:
        names = [name.strip() for name in next(reader, [])]
        for column in sorted(columns):
            if names.count(column) != 1:
                shown = ", ".join(show(name) for name in names[:16]) or "none"
                raise InputError(f"expected one column {show(column)} in {path.name}, found {shown}")
        for row in reader:
            if reader.line_num > MOST_ROWS:
                raise InputError(f"{path.name}: expected at most {MOST_ROWS:,} lines")
            if len(row) not in (0, len(names)):
                problem = f"expected {len(names)} values, found {len(row)}"
                raise InputError(f"line {reader.line_num} of {path.name}: {problem}")
            if row:
                yield reader.line_num, dict(zip(names, (value.strip() for value in row), strict=True))
    except csv.Error as error:
        raise InputError(f"line {reader.line_num} of {path.name}: {error}") from None


def _is(text: str, wanted: Level) -> bool:
    if isinstance(wanted, bool):
        return text == str(wanted).lower()
    if isinstance(wanted, str):
        return text == wanted
    return _NUMBER.fullmatch(text) is not None and float(text) == wanted


def _level(text: str) -> Level:
    """A number or a word. Raises MismatchError."""
    if _INTEGER.fullmatch(text):
        return level(int(text))
    if _NUMBER.fullmatch(text):
        return level(_figure(text))
    try:
        return level(text)
    except MismatchError:
        raise MismatchError(f"expected a level: a number or one line of text, found {show(text)}") from None


def _figure(text: str) -> float:
    """A finite number. Raises MismatchError."""
    if not _NUMBER.fullmatch(text) or not math.isfinite(float(text)):
        raise MismatchError(f"expected a number, found {show(text)}")
    return float(text)

"""Published curves: from a study's own points or from a CSV file in its folder, hostile until parsed."""

import csv
import io
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path as FilePath

from pinchpoint.keys.kinds import MismatchError
from pinchpoint.keys.reader import Element
from pinchpoint.keys.source import Source, read_text, show
from pinchpoint.model.errors import InputError
from pinchpoint.model.scenario import Level
from pinchpoint.model.study import Published, PublishedPoint
from pinchpoint.scenario.sweep_kinds import level

MOST_ROWS = 100_000
_INTEGER = re.compile(r"-?[0-9]{1,15}")
_NUMBER = re.compile(r"-?[0-9]{1,30}(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,3})?")
_SOURCES = ("points", "file", "x", "y")

Row = tuple[int, Mapping[str, str]]
"""The file's line, and its values by column."""


def published(source: Source, folder: FilePath, element: Element) -> Published | None:
    """One published curve; None if a problem was noted in `source`."""
    values = element.values
    if not {"group", "metric", "unit", "factor", "title", "levels", *_SOURCES, "where"} <= values.keys():
        return None
    if not {"times", "first"} <= values.keys():
        return None
    if (values["points"] is None) == (values["file"] is None):
        source.problem(element.at, 'expected either "points" or "file"')
        return None
    if values["points"] is not None:
        points = _once(source, element, ((None, one, figure * values["times"]) for one, figure in values["points"]))
    else:
        points = _once(source, element, _of_file(source, folder, element))
    return Published(
        group=values["group"],
        metric=values["metric"],
        unit=values["unit"],
        factor=values["factor"],
        title=values["title"],
        points=tuple(
            PublishedPoint({values["factor"]: one, **values["levels"]}, figure) for one, figure in points.items()
        ),
    )


def _once(source: Source, element: Element, found: Iterable[tuple[int | None, Level, float]]) -> dict[Level, float]:
    """The figure of each level; several for one are a problem, unless the first counts."""
    points: dict[Level, float] = {}
    for line, one, figure in found:
        if one not in points:
            points[one] = figure
        elif not element.values["first"]:
            where = f" in line {line} of {element.values['file']}" if line else ""
            source.problem(element.at, f"expected one figure for each level, found {show(one)} again{where}")
            break
    return points


def _of_file(source: Source, folder: FilePath, element: Element) -> Iterator[tuple[int | None, Level, float]]:
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
    wanted = [row for row in rows if all(_is(row[1][column], one) for column, one in values["where"].items())]
    found = 0
    for line, row in wanted:
        if not row[values["y"]]:
            continue  # no figure is none, not zero
        try:
            yield line, _level(row[values["x"]]), _figure(row[values["y"]]) * values["times"]
        except MismatchError as error:
            source.problem((*at, "file"), f"line {line} of {values['file']}: {error}")
            return
        found += 1
    if not found:
        source.problem(
            at, f"expected rows of {values['file']} with figures; none of the {len(rows):,} rows matches `where`"
        )


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
                raise InputError(
                    f"line {reader.line_num} of {path.name}: expected {len(names)} values, found {len(row)}"
                )
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

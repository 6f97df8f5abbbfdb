"""The table of conformance in docs/otg.md: `python packaging/reference/otg.py`."""

import re
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Final

from pinchpoint.otg import fields
from pinchpoint.otg.app import NOT_SERVED
from pinchpoint.otg.shape import Choice, Ignored, Kind, Leaf, Many, Record, Refused, join

Row = tuple[str, str, str]  # path, what is supported, note
BEGIN = "<!-- begin: python packaging/reference/otg.py -->"
END = "<!-- end -->"
_TABLES: tuple[tuple[str, str, Kind], ...] = (
    ("POST /config", "", fields.CONFIG),
    ("POST /control/state", "", fields.CONTROL),
    ("POST /monitor/metrics", "", fields.REQUEST),
    ("POST /monitor/capture", "", fields.CAPTURED),
)
_MEMBER: Final = re.compile(
    r"flows\[\]\.packet\[\]\.(?P<field>.+?)\."
    r"(?P<member>values?|increment|decrement|random|auto|generated|custom|metric_tags)\b"
)


def table() -> str:
    """One table for each request with a body; alike fields share a row, those without a limit have none."""
    parts = [BEGIN, f"Written against version {fields.MODEL} of the models. Fields that are not listed are supported."]
    for title, path, kind in _TABLES:
        parts.append(f"\n### {title}\n\n| field | supported |\n|---|---|")
        others = (row for row in _rows(kind, path) if not _MEMBER.match(row[0]) and row[1:] != ("yes", ""))
        parts.extend(f"| {place} | {yes}{f': {note}' * bool(note)} |" for place, yes, note in _shared(others))
    parts.append("\n### Header fields: `flows[].packet[]`\n\n| field | takes; any other member is refused |\n|---|---|")
    parts.extend(f"| {names} | {members} |" for names, members in _headers(_rows(fields.CONFIG, "")))
    parts.append("\n### Not served\n\n| request | instead |\n|---|---|")
    parts.extend(f"| `{method} {path}` | {why} |" for (path, method), why in NOT_SERVED.items())
    return "\n".join([*parts, END])


def _rows(kind: Kind, path: str) -> Iterator[Row]:
    """Every field of a table."""
    match kind:
        case Leaf():
            yield path, f"only {kind.expected}" if kind.is_limited else "yes", kind.note
        case Refused():
            yield path, "no", kind.why
        case Ignored():
            yield path, "ignored, with a warning", kind.why
        case Many():
            yield from _rows(kind.kind, f"{path}[]")
        case Record():
            for name, member in kind.fields.items():
                yield from _rows(member, join(path, name))
        case Choice():
            for name, member in (*kind.options.items(), *kind.always.items()):
                yield from _rows(member, join(path, name))


def _shared(rows: Iterable[Row]) -> Iterator[Row]:
    def alike(row: Row) -> Row:
        return row[0].rpartition(".")[0], row[1], row[2]

    for (parent, yes, note), members in groupby(rows, alike):
        names = [path.rpartition(".")[2] for path, _, _ in members]
        yield f"`{parent + '.' if parent else ''}{names[0]}`" + "".join(f", `{name}`" for name in names[1:]), yes, note


def _headers(rows: Iterable[Row]) -> Iterator[tuple[str, str]]:
    """Fields of headers and the members that they take; fields that take the same ones share a row."""
    taken: dict[str, dict[str, None]] = {}
    why: dict[str, str] = {}
    for path, yes, note in rows:
        if match := _MEMBER.match(path):
            words = f"`{match['member']}`" + f" {yes}" * (yes != "yes") + f": {note}" * bool(note)
            taken.setdefault(match["field"], {}).update({} if yes == "no" else {words: None})
            why.setdefault(match["field"], note)
    alike: dict[str, list[str]] = {}
    for name, members in taken.items():
        alike.setdefault(", ".join(members) or f"none: {why[name]}", []).append(f"`{name}`")
    yield from ((", ".join(names), words) for words, names in alike.items())


if __name__ == "__main__":
    print(table())

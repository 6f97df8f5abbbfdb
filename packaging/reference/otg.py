"""The table of conformance in docs/otg.md: `python packaging/reference/otg.py`."""

from collections.abc import Iterator
from itertools import groupby

from pinchpoint.otg import fields
from pinchpoint.otg.app import NOT_SERVED
from pinchpoint.otg.shape import Kind, Row

BEGIN = "<!-- begin: python packaging/reference/otg.py -->"
END = "<!-- end -->"
_TABLES: tuple[tuple[str, str, Kind], ...] = (
    ("POST /config", "", fields.CONFIG),
    ("POST /control/state", "", fields.CONTROL),
    ("POST /monitor/metrics", "", fields.REQUEST),
)


def table() -> str:
    """One table for each request that has a body; fields of one object that are alike share a row."""
    parts = [BEGIN, f"Written against version {fields.MODEL} of the models."]
    for title, path, kind in _TABLES:
        parts.append(f"\n### {title}\n\n| field | supported | note |\n|---|---|---|")
        parts.extend(f"| {place} | {yes} | {note} |" for place, yes, note in _shared(kind.rows(path)))
    parts.append("\n### Not served\n\n| request | instead |\n|---|---|")
    parts.extend(f"| `{method} {path}` | {why} |" for (path, method), why in NOT_SERVED.items())
    return "\n".join([*parts, END])


def _shared(rows: Iterator[Row]) -> Iterator[Row]:
    def alike(row: Row) -> Row:
        return row[0].rpartition(".")[0], row[1], row[2]

    for (parent, yes, note), members in groupby(rows, alike):
        names = [path.rpartition(".")[2] for path, _, _ in members]
        yield f"`{parent + '.' if parent else ''}{names[0]}`" + "".join(f", `{name}`" for name in names[1:]), yes, note


if __name__ == "__main__":
    print(table())

"""The tables of docs/export.md: `python packaging/reference/export.py`."""

import sys
from itertools import groupby
from typing import Final

from pinchpoint.export.columns import TABLES
from pinchpoint.export.tables import Column

SHARED: Final = 2  # so many columns in a row that an earlier table has share a line


def document() -> str:
    """Markdown: a section for each table, a line for each of its columns."""
    parts = []
    first: dict[str, str] = {}  # by line, the table that has it
    for table in TABLES.values():
        lines = ["| column | type | meaning |", "|---|---|---|"]
        for earlier, alike in groupby(table.columns, lambda column: first.get(_line(column))):
            columns = tuple(alike)
            if earlier and len(columns) >= SHARED:
                lines.append(f"| {', '.join(f'`{column.name}`' for column in columns)} | | as in `{earlier}` |")
            else:
                lines.extend(map(_line, columns))
        for column in table.columns:
            first.setdefault(_line(column), table.name)
        rows = "\n".join(lines)
        parts.append(f"### `{table.name}`\n\n{table.doc[0].upper()}{table.doc[1:]}.\n\n{rows}\n")
    return "\n".join(parts)


def _line(column: Column) -> str:
    words = ", ".join(word for word in (_KINDS[column.kind.value], column.unit) if word)
    return f"| `{column.name}` | {words} | {column.doc} |"


_KINDS = {
    "string": "text",
    "int64": "integer",
    "double": "number",
    "bool": "true or false",
    "timestamp[us, tz=UTC]": "time",
}

if __name__ == "__main__":
    sys.stdout.write(document())

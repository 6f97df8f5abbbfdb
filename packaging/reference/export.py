"""The tables of docs/export.md: `python packaging/reference/export.py`."""

import sys

from pinchpoint.export.columns import TABLES


def document() -> str:
    """Markdown: a section for each table, a row for each of its columns."""
    parts = []
    for table in TABLES.values():
        rows = "\n".join(
            f"| `{column.name}` | {_KINDS[column.kind.value]} | {column.unit or '-'} | {column.doc} |"
            for column in table.columns
        )
        head = "| column | type | unit | meaning |\n|---|---|---|---|"
        parts.append(f"### `{table.name}`\n\n{table.doc[0].upper()}{table.doc[1:]}.\n\n{head}\n{rows}\n")
    return "\n".join(parts)


_KINDS = {
    "string": "text",
    "int64": "integer",
    "double": "number",
    "bool": "true or false",
    "timestamp[us, tz=UTC]": "time",
}

if __name__ == "__main__":
    sys.stdout.write(document())

"""JSON Schema (2020-12) of the tables of keys: by it editors complete keys, explain them and underline mistakes.

It allows all that the reader takes, and more: what depends on other keys is for `pinchpoint check`.
"""

from collections.abc import Sequence

from pinchpoint.keys.key import Computed, Key, Required, Table, Unset
from pinchpoint.keys.kinds import Schema, full
from pinchpoint.keys.reader import NAME, schema_in_unit_of


def table_schema(table: Table, tables: Sequence[Table], *, is_whole: bool) -> Schema:
    """What stands under a table's name, with the tables below it; the top of a file has no name.

    `is_whole`: required keys have to be in the file, and are not left to a sweep's levels.
    """
    about = {"description": table.words}
    required = [key.name for key in table.keys if isinstance(key.default, Required)] if is_whole else []
    schema = {
        "type": "object",
        "properties": properties(table, tables, is_whole=is_whole),
        "required": required,
        "additionalProperties": table.is_open,
    }
    if table.is_named:
        return {"type": "object", **about, "propertyNames": full(NAME), "additionalProperties": schema}
    if table.at_most:
        return {"type": "array", **about, "items": schema, "maxItems": table.at_most}
    return {**about, **schema}


def properties(table: Table, tables: Sequence[Table], *, is_whole: bool) -> dict[str, Schema]:
    """What may stand in a table: each of its keys, and each table directly below it."""
    allowed = {key.name: _key_schema(key) for key in table.keys if not key.command_line_only}
    for other in tables:
        place, _, name = other.name.rpartition(".")
        if name and place == table.name:
            below = table_schema(other, tables, is_whole=is_whole)
            allowed[name] = _either(allowed[name], below) if name in allowed else below
    return allowed


def _either(one: Schema, other: Schema) -> Schema:
    """An array of tables, or named tables of the same name: what is said of arrays says nothing of objects."""
    about = f"{one['description']}\n\nOr: {other['description']}"
    return {**one, **other, "type": [one["type"], other["type"]], "description": about}


def _key_schema(key: Key) -> Schema:
    default = f" Default: {key.default.words}." if isinstance(key.default, Computed | Unset) else ""
    about = f"{key.doc}\n\nExpected: {key.kind.expected}.{default}"
    schema = {"description": about, **schema_in_unit_of(key.name, key.kind.schema)}
    return schema if isinstance(key.default, Required | Computed | Unset) else {**schema, "default": key.default}

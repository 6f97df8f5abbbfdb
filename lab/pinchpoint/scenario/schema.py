"""The JSON Schema (2020-12) of scenario files and of a study's own file, made of the tables of keys.

By it editors complete keys, explain them and underline mistakes. It allows all that the reader takes, and more: what
depends on other keys is for `pinchpoint check`.
"""

import json
from collections.abc import Sequence
from typing import Final

from pinchpoint.dut import registry
from pinchpoint.keys.key import Computed, Key, Required, Table, Unset
from pinchpoint.keys.kinds import Schema, full
from pinchpoint.keys.reader import NAME, schema_in_unit_of
from pinchpoint.model.groups import grouped
from pinchpoint.scenario import keys, sweep_keys

SCENARIO: Final = "scenario"
STUDY: Final = "study"
FORMS: Final = (SCENARIO, STUDY)


def schema_of(form: str) -> Schema:
    """The schema of a scenario file, or (`STUDY`) of study.toml."""
    study = sweep_keys.STUDY_TOP, sweep_keys.STUDY_TABLES
    made = _of_scenarios() if form == SCENARIO else table_schema(*study, is_whole=True)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": f"Pinchpoint: a {form}'s file", **made}


def _of_scenarios() -> Schema:
    """Tables that differ between kinds of devices are chosen by `if`, which gives exact errors.

    Some editors do not complete by it. For them all forms of such a table stand in an `anyOf` as well, which the
    empty schema at its end makes true of any value.
    """
    of_kinds = {kind: _properties(kind) for kind in registry.kinds()}
    own: dict[str, dict[str, Schema]] = {kind: {} for kind in of_kinds}
    every: dict[str, Schema] = {}
    definitions: dict[str, Schema] = {}
    for name in dict.fromkeys(name for tables in of_kinds.values() for name in tables):
        alike = grouped((json.dumps(tables.get(name, False)), kind) for kind, tables in of_kinds.items())
        if len(alike) == 1:
            every[name] = of_kinds[registry.default()][name]
            continue
        forms = {f"{name}.{kinds[0]}": json.loads(text) for text, kinds in alike.items()}
        definitions |= forms
        references = {form: {"$ref": f"#/$defs/{form}"} for form in forms}
        every[name] = {"anyOf": [*(references[form] for form, schema in forms.items() if schema), {}]}
        for form, kinds in zip(forms, alike.values(), strict=True):
            for kind in kinds:
                own[kind][name] = references[form]
    chosen: Schema = {"properties": own.pop(registry.default())}
    for kind, tables in own.items():
        chosen = {"if": _is_of(kind), "then": {"properties": tables}, "else": chosen}
    return {"type": "object", **chosen, "properties": every, "additionalProperties": False, "$defs": definitions}


def _properties(kind: str) -> dict[str, Schema]:
    """Each key and table of a file with a device of that kind; its levels may set what it lacks."""
    swept = table_schema(sweep_keys.SWEEP, sweep_keys.TABLES, is_whole=True)
    return {**properties(keys.TOP, keys.of_kind(kind).every, is_whole=False), "sweep": swept}


def _is_of(kind: str) -> Schema:
    named = {"properties": {"kind": {"const": kind}}, "required": ["kind"]}
    return {"properties": {"dut": named}, "required": ["dut"]}


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

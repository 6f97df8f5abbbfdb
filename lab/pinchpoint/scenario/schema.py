"""The JSON Schema of scenario files and of a study's own file, for editors; `keys.schema` makes it of their tables."""

import json
from typing import Final

from pinchpoint.dut import registry
from pinchpoint.keys.kinds import Schema
from pinchpoint.keys.schema import properties, table_schema
from pinchpoint.model.groups import grouped
from pinchpoint.scenario import keys, sweep_keys

SCENARIO: Final = "scenario"
STUDY: Final = "study"
FORMS: Final = (SCENARIO, STUDY)


def schema_of(form: str) -> Schema:
    """The schema of a scenario file, or (`STUDY`) of study.toml."""
    made = _of_scenarios() if form == SCENARIO else _of_studies()
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"Pinchpoint: a {form}'s file",
        **made,
    }


def _of_studies() -> Schema:
    return table_schema(sweep_keys.STUDY_TOP, sweep_keys.STUDY_TABLES, is_whole=True)


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
        every[name] = {"anyOf": [*(_reference(form) for form, schema in forms.items() if schema), {}]}
        for form, kinds in zip(forms, alike.values(), strict=True):
            for kind in kinds:
                own[kind][name] = _reference(form)
    chosen: Schema = {"properties": own.pop(registry.default())}
    for kind, tables in own.items():
        chosen = {"if": _is_of(kind), "then": {"properties": tables}, "else": chosen}
    return {"type": "object", **chosen, "properties": every, "additionalProperties": False, "$defs": definitions}


def _properties(kind: str) -> dict[str, Schema]:
    """Each key and table of a file with a device of that kind; its levels may set what it lacks."""
    swept = table_schema(sweep_keys.SWEEP, sweep_keys.TABLES, is_whole=True)
    return {**properties(keys.TOP, keys.of_kind(kind).every, is_whole=False), "sweep": swept}


def _reference(form: str) -> Schema:
    return {"$ref": f"#/$defs/{form}"}


def _is_of(kind: str) -> Schema:
    named = {"properties": {"kind": {"const": kind}}, "required": ["kind"]}
    return {"properties": {"dut": named}, "required": ["dut"]}

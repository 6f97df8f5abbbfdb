"""A scenario from a form that the tables of keys make; it is checked as `pinchpoint check` checks a file."""

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from pinchpoint.dut import registry
from pinchpoint.keys.key import Computed, Key, Required, Table, Unset
from pinchpoint.keys.kinds import MismatchError
from pinchpoint.keys.source import Source
from pinchpoint.measure import registry as measures
from pinchpoint.model.errors import InputError
from pinchpoint.model.scenario import Sweep
from pinchpoint.scenario import keys
from pinchpoint.scenario.document import toml
from pinchpoint.scenario.sweep import sweep_of

MOST_ELEMENTS: Final = 8  # of an array in the form
_WORDS = re.compile(r'"[^"]+"( or "[^"]+")*')
_SHAPE: Final = ("kind", "measure")


@dataclass(frozen=True)
class Field:
    """One key to be filled in."""

    name: str  # of the form's field, e.g. `stream[1].from`
    key: str
    value: str
    default: str  # as it would stand in the file, or in words
    required: bool
    doc: str
    expected: str
    choices: tuple[str, ...]
    long: bool  # text of several lines


@dataclass(frozen=True)
class Part:
    """One table of the file."""

    header: str
    doc: str
    fields: tuple[Field, ...]
    folded: bool  # nothing in it is set or must be
    array: str  # the array's name, on its first element; empty otherwise
    number: int  # how many elements it has


@dataclass(frozen=True)
class Shape:
    """Which tables a form has."""

    kind: str
    measure: str
    counts: Mapping[str, int]


def shape_of(form: Mapping[str, str]) -> Shape:
    """As asked for; else the default device and measure with what they need."""
    kind = form.get("kind", registry.default())
    kind = kind if kind in registry.kinds() else registry.default()
    names = [one.name for one in measures.measures()]
    measure = form.get("measure", measures.DEFAULT)
    measure = measure if measure in names else measures.DEFAULT
    counts = {table.name: _count(table, measure, form) for table in _tables(kind, measure) if table.at_most}
    return Shape(kind, measure, counts)


def parts(shape: Shape, form: Mapping[str, str]) -> tuple[Part, ...]:
    """The form, table by table."""
    return tuple(
        part
        for table in _tables(shape.kind, shape.measure)
        for part in _parts(table, shape.counts.get(table.name), form)
    )


def text_of(shape: Shape, form: Mapping[str, str]) -> str:
    """The scenario file that the form's fields make: only what is filled in."""
    lines: list[str] = []
    for part in parts(shape, form):
        own = [f"{json.dumps(one.key) if '.' in one.key else one.key} = {_toml(one, form)}" for one in part.fields
               if one.value.strip()]  # fmt: skip
        own += [f'kind = "{shape.kind}"'] if part.header == "[dut]" else []
        own += [f'measure = "{shape.measure}"'] if not part.header and shape.measure != measures.DEFAULT else []
        if own or part.number:
            lines += [*([part.header] if part.header else []), *own, ""]
    return "\n".join(lines)


def checked(text: str, name: str) -> tuple[Sweep | None, tuple[str, ...]]:
    """What a file of this text and name makes, or every problem that `pinchpoint check` would report."""
    try:
        return sweep_of(Source(text, f"{name}.toml"), quick=False), ()
    except InputError as error:
        return None, tuple(str(error).splitlines())


def _tables(kind: str, measure: str) -> Iterator[Table]:
    served = next(one for one in measures.measures() if one.name == measure).is_served
    for table in keys.of_kind(kind).every:
        mine = not table.measures or measure in table.measures
        if mine and not table.name.startswith("sweep") and (served or table.name not in ("service", "service.backend")):
            yield table


def _count(table: Table, measure: str, form: Mapping[str, str]) -> int:
    needs = next(one for one in measures.measures() if one.name == measure).needs
    usual = (2 if table.name in ("port", "host") else 1) if table.name in needs else 0
    asked = form.get(f"count-{table.name}", "")
    return min(int(asked), table.at_most, MOST_ELEMENTS) if asked.isascii() and asked.isdigit() else usual


def _parts(table: Table, count: int | None, form: Mapping[str, str]) -> Iterator[Part]:
    places = [table.name] if count is None else [f"{table.name}[{number}]" for number in range(1, count + 1)]
    for number, place in enumerate(places):
        fields = tuple(_field(place, key, form) for key in table.keys if _is_asked(table, key))
        folded = not any(field.required or field.value.strip() for field in fields)
        header = table.header if table.name else ""
        yield Part(header, table.doc, fields, folded, table.name if count and not number else "", count or 0)
    if count == 0:
        yield Part(table.header, table.doc, (), True, table.name, 0)


def _is_asked(table: Table, key: Key) -> bool:
    """Device and measure are chosen above; a file may not name programs."""
    shaped = (table.name, key.name) in (("", "measure"), ("dut", "kind"))
    return not key.command_line_only and not shaped


def _field(place: str, key: Key, form: Mapping[str, str]) -> Field:
    name = f"{place}.{key.name}" if place else key.name
    words = isinstance(key.default, Computed | Unset)
    default = (
        ""
        if isinstance(key.default, Required)
        else str(getattr(key.default, "words", ""))
        if words
        else toml(key.default)
    )
    choices = tuple(re.findall(r'"([^"]+)"', key.kind.expected)) if _WORDS.fullmatch(key.kind.expected) else ()
    value = form.get(f"field-{name}", "")
    return Field(
        name, key.name, value, default, isinstance(key.default, Required), key.doc, key.kind.expected, choices,
        _is_long(key),
    )  # fmt: skip


def _is_long(key: Key) -> bool:
    return not _refuses(key, "a\nb") and not _refuses(key, "a\n\n{b}=")


def _refuses(key: Key, value: object) -> bool:
    try:
        key.kind.read(value)
    except MismatchError:
        return True
    return False


def _toml(field: Field, form: Mapping[str, str]) -> str:
    """What was typed, as TOML: as it is where it is one value of TOML, else as a text."""
    typed = field.value.strip()
    try:
        alone = list(tomllib.loads(f"x = {typed}")) == ["x"] and "\n" not in typed
    except (ValueError, RecursionError):
        alone = False
    return typed if alone and not field.long else json.dumps(field.value.replace("\r\n", "\n"), ensure_ascii=False)

"""A scenario from a form that the tables of keys make; it is checked as `pinchpoint check` checks a file."""

import json
import re
import tomllib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from pinchpoint.dut import registry
from pinchpoint.keys.key import Computed, Key, Required, Table, Unset
from pinchpoint.keys.kinds import MismatchError
from pinchpoint.keys.source import Source
from pinchpoint.measure import registry as measures
from pinchpoint.model.effective import toml_key, toml_of
from pinchpoint.model.errors import InputError
from pinchpoint.model.scenario import Sweep
from pinchpoint.scenario import keys
from pinchpoint.scenario.sweep import sweep_of

MOST_ELEMENTS: Final = 32  # of an array in the form
_OTHER: Final = "*"  # stands for every further key of a table that is open
_WORDS = re.compile(r'"[^"]+"( or "[^"]+")*')
_OF_SERVICES: Final = ("service", "backend", "established")
_BEGINS_WITH: Final[Mapping[str, tuple[str, ...]]] = {
    "": ("title",), "port": ("name",), "engine": ("cpus",),
    "stream": ("from", "to", "frame_bytes", "ipv4_dst", "flows"),
}  # fmt: skip
"""By table: the keys of a plain scenario, as `pinchpoint init` writes it. Those of [dut] are in the kind's starter."""


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
    is_first: bool = False  # the form begins with it; the others stand behind "more keys"


@dataclass(frozen=True)
class Part:
    """One table of the file."""

    header: str
    doc: str
    fields: tuple[Field, ...]
    array: str  # the array's name, on its first element; empty otherwise
    number: int  # how many elements it has

    @property
    def first(self) -> tuple[Field, ...]:
        """Those that the form begins with."""
        return tuple(field for field in self.fields if field.is_first)

    @property
    def more(self) -> tuple[Field, ...]:
        """All others."""
        return tuple(field for field in self.fields if not field.is_first)


@dataclass(frozen=True)
class Shape:
    """Which tables a form has."""

    kind: str
    measure: str
    counts: Mapping[str, int]


def shape_of(form: Mapping[str, str]) -> Shape:
    """As asked for; else the default device and measure with what they need."""
    kind, measure = form.get("kind", ""), form.get("measure", "")
    kind = kind if kind in registry.kinds() else registry.default()
    measure = measure if measures.find(measure) else measures.DEFAULT
    counts = {table.name: _count(table, measure, form) for table in _tables(kind, measure) if table.at_most}
    return Shape(kind, measure, counts)


def parts(shape: Shape, form: Mapping[str, str]) -> tuple[Part, ...]:
    """The form, table by table."""
    tables = _tables(shape.kind, shape.measure)
    return tuple(part for table in tables for part in _parts(table, shape, form))


def text_of(shape: Shape, form: Mapping[str, str]) -> str:
    """The scenario file that the form's fields make: only what is filled in."""
    lines: list[str] = []
    for part in parts(shape, form):
        own = [line for field in part.fields if field.value.strip() for line in _lines(field)]
        own += [f'kind = "{shape.kind}"'] if part.header == "[dut]" else []
        own += [f'measure = "{shape.measure}"'] if not part.header and shape.measure != measures.DEFAULT else []
        if own or part.number:
            lines += [*([part.header] if part.header else []), *own, ""]
    return "\n".join(lines)


def fields_of(text: str, path: str) -> dict[str, str]:
    """The form that makes this file. Raises InputError where a form cannot hold all of it."""
    try:
        data = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: {error}", "mend the file") from error
    form = dict(_fields_of("", data))
    dut = data.setdefault("dut", {})
    form["kind"] = str(dut.setdefault("kind", registry.default())) if isinstance(dut, dict) else ""
    form["measure"] = str(data.setdefault("measure", measures.DEFAULT))
    shape = shape_of(form)
    for place in shape.counts:
        form.setdefault(f"count-{place}", "0")
    form |= _others(shape_of(form), data)
    made = tomllib.loads(text_of(shape_of(form), form))
    made.setdefault("measure", measures.DEFAULT)
    if made != data:
        hint = f"copy the file, change it there, and run it: pinchpoint run {path}"
        raise InputError(f"{path}: the form cannot hold all of it", hint)
    return form


def _fields_of(place: str, table: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Every value of a file, as what is typed for it; tables of tables by their place, with their number."""
    for key, value in table.items():
        name = f"{place}.{key}" if place else key
        if isinstance(value, dict) and not place:
            yield from _fields_of(name, value)
        elif isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
            yield f"count-{name}", str(len(value))
            for number, item in enumerate(value, 1):
                yield from _fields_of(f"{name}[{number}]", item)
        yield f"field-{name}", _typed(value)


def _others(shape: Shape, data: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """The further keys of open tables, a line each."""
    for table in _tables(shape.kind, shape.measure):
        items: object = data
        for part in table.name.split("."):
            items = items.get(part, ()) if isinstance(items, Mapping) else ()
        named = {key.name for key in table.keys}
        for number, item in enumerate(items if table.is_open and isinstance(items, list) else (), 1):
            lines = [f"{toml_key(key)} = {toml_of(value)}" for key, value in item.items() if key not in named]
            yield f"field-{table.name}[{number}].{_OTHER}", "\n".join(lines)


def _typed(value: object) -> str:
    """What is to be typed for a value: a text as it is, unless it would be read as something else."""
    if not isinstance(value, str):
        return toml_of(value)
    is_padded = value != value.strip() and "\n" not in value
    return toml_of(value) if is_padded or _is_value(value.strip()) else value


def _is_value(typed: str) -> bool:
    try:
        return "\n" not in typed and list(tomllib.loads(f"x = {typed}")) == ["x"]
    except (ValueError, RecursionError):
        return False


def checked(text: str, name: str) -> tuple[Sweep | None, tuple[str, ...]]:
    """What a file of this text and name makes, or every problem that `pinchpoint check` would report."""
    try:
        return sweep_of(Source(text, f"{name}.toml"), quick=False), ()
    except InputError as error:
        return None, tuple(str(error).splitlines())


def _tables(kind: str, measure: str) -> Iterator[Table]:
    served = registry.device(kind).keys.services is not None
    for table in keys.of_kind(kind).every:
        mine = table.is_read_by(measure, is_there=True)
        if mine and not table.is_named and (served or table.name not in _OF_SERVICES):
            yield table


def _count(table: Table, measure: str, form: Mapping[str, str]) -> int:
    usual = (2 if table.name in ("port", "host") else 1) if table.name in measures.measure(measure).needs else 0
    asked = form.get(f"count-{table.name}", "")
    return min(int(asked), table.at_most, MOST_ELEMENTS) if asked.isascii() and asked.isdigit() else usual


def _parts(table: Table, shape: Shape, form: Mapping[str, str]) -> Iterator[Part]:
    count, begins_with = shape.counts.get(table.name), _begins_with(table, shape.kind)
    is_there = count is not None or table.is_read_by(shape.measure, is_there=False)

    def of_form(place: str, key: Key) -> Field:
        field = _field(place, key, form)
        is_first = (field.required and is_there) or key.name in begins_with or bool(field.value.strip())
        return replace(field, is_first=is_first)

    places = [table.name] if count is None else [f"{table.name}[{number}]" for number in range(1, count + 1)]
    for number, place in enumerate(places):
        fields = tuple(of_form(place, key) for key in table.keys if _is_asked(table, key))
        fields += (_other(place, form),) if table.is_open else ()
        header = table.header if table.name else ""
        yield Part(header, table.doc, fields, table.name if count and not number else "", count or 0)
    if count == 0:
        yield Part(table.header, table.doc, (), table.name, 0)


def _begins_with(table: Table, kind: str) -> Collection[str]:
    if table.name != "dut":
        return _BEGINS_WITH.get(table.name, ())
    written = (starter.dut.replace("{cpus}", "[0]") for starter in registry.device(kind).starters)
    return {key for text in written for key in tomllib.loads(text)}


def _is_asked(table: Table, key: Key) -> bool:
    """Device and measure are chosen above; a file may not name programs."""
    shaped = (table.name, key.name) in (("", "measure"), ("dut", "kind"))
    return not key.command_line_only and not shaped


def _field(place: str, key: Key, form: Mapping[str, str]) -> Field:
    name, expected = f"{place}.{key.name}" if place else key.name, key.kind.expected
    is_required, default = isinstance(key.default, Required), ""
    if not is_required:
        default = key.default.words if isinstance(key.default, Computed | Unset) else toml_of(key.default)
    choices = tuple(re.findall(r'"([^"]+)"', expected)) if _WORDS.fullmatch(expected) else ()
    value, is_long = form.get(f"field-{name}", ""), _takes(key, "a\nb") and _takes(key, "a\n\n{b}=")
    return Field(name, key.name, value, default, is_required, key.doc, expected, choices, is_long)


def _takes(key: Key, value: object) -> bool:
    try:
        key.kind.read(value)
    except MismatchError:
        return False
    return True


def _other(place: str, form: Mapping[str, str]) -> Field:
    """The further keys of a table that is open."""
    name = f"{place}.{_OTHER}"
    doc = 'The keys that this point sets, in quotes, one a line: "stream[1].flows" = 512.'
    value = form.get(f"field-{name}", "")
    return Field(name, _OTHER, value, "", False, doc, "Lines of TOML", (), True, is_first=bool(value.strip()))


def _lines(field: Field) -> Iterator[str]:
    """As they stand in the file."""
    if field.key != _OTHER:
        yield f"{toml_key(field.key)} = {_toml(field)}"
        return
    try:
        yield from (f"{toml_key(key)} = {toml_of(value)}" for key, value in tomllib.loads(field.value).items())
    except (ValueError, RecursionError):
        yield f"{toml_key(field.value.strip())} = true"  # which the check refuses by its name


def _toml(field: Field) -> str:
    """What was typed, as TOML: as it is where it is one value of TOML, else as a text."""
    typed = field.value.strip()
    if _is_value(typed) and not field.long:
        return typed
    return json.dumps(field.value.replace("\r\n", "\n"), ensure_ascii=False)

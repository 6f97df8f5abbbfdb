"""Reads tables by the table of keys: every value by its kind, problems and defaults noted.

Texts such as "50ms" and "3Mpps" are the numbers that keys of times and rates hold, in the unit of the key's name.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pinchpoint.keys.key import Computed, Key, Required, Table, Unset
from pinchpoint.keys.kinds import MismatchError, Schema, full
from pinchpoint.keys.lexical import Path
from pinchpoint.keys.source import Source, dotted, show

_SECONDS: Final = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0}
_PER_SECOND: Final = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9}
_FRAMES: Final = {f"{size}{unit}": number for size, number in _PER_SECOND.items() for unit in ("pps", "fps")}
UNITS: Final[Mapping[str, Mapping[str, float]]] = {
    "_s": _SECONDS,
    "_ms": {unit: seconds * 1e3 for unit, seconds in _SECONDS.items()},
    "_us": {unit: seconds * 1e6 for unit, seconds in _SECONDS.items()},
    "_fps": _FRAMES,
}
"""By the end of a key's name: what a unit is in that of the key."""
_NUMBER: Final = r"[0-9]{1,15}(?:\.[0-9]{1,15})?"
_QUANTITY: Final = re.compile(f"({_NUMBER}) ?([A-Za-z]{{1,4}})")
_DIGITS: Final = 12  # significant: 0.2 ms are 0.0002 s, not 0.00020000000000000001


def in_unit_of(key: str, value: object) -> object:
    """The number that a text means for a key, element by element of a list; whatever is no such text stays."""
    if isinstance(value, list):
        return [in_unit_of(key, element) for element in value]
    units = _units_of(key)
    written = _QUANTITY.fullmatch(value) if isinstance(value, str) else None
    if written is None or written[2] not in units:
        return value
    return float(f"{float(written[1]) * units[written[2]]:.{_DIGITS}g}")


def schema_in_unit_of(key: str, schema: Schema) -> Schema:
    """The schema of a key's values as a file may have them: where `in_unit_of` makes a number, a text as well."""
    units = _units_of(key)
    if units and "items" in schema:
        return {**schema, "items": schema_in_unit_of(key, schema["items"])}
    if not units or schema.get("type") != "number":
        return schema
    return {**schema, **full(f"{_NUMBER} ?(?:{'|'.join(units)})"), "type": ["number", "string"]}


def _units_of(key: str) -> Mapping[str, float]:
    return next((units for ending, units in UNITS.items() if key.endswith(ending)), {})


NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,32}")
"""Of a table that a file names."""
Values = dict[str, Any]
"""The values of one table by model field; a field whose value was refused is absent."""


@dataclass(frozen=True)
class Element:
    """One element of an array of tables, and where it stands."""

    at: Path
    values: Values
    written: Mapping[str, Any]  # as it stands in the file


def refuse_doubles(source: Source, elements: Iterable[Element], taken: Iterable[str] = ()) -> None:
    """Notes each element that has the name of one before it, or one that is taken."""
    seen = set(taken)
    for element in elements:
        if name := element.values.get("name"):
            if name in seen:
                source.problem((*element.at, "name"), f"expected a unique name, found {show(name)} again")
            seen.add(name)


class Reader:
    """Reads tables, noting problems in the source and which keys were left to their default."""

    def __init__(self, source: Source, tables: Sequence[Table], foreign: Mapping[str, str] | None = None) -> None:
        """`foreign`: keys and tables that are unknown here, and what to say of each."""
        self.source = source
        self.tables = tables
        self._foreign = foreign or {}
        self.defaulted: set[str] = set()
        # The first table that has a key of that name, for who wrote it into another.
        named = [(key.name, f"{table.name}.{key.name}") for table in tables if table.name for key in table.keys]
        self._elsewhere = dict(reversed(named))

    def refuse_unknown_keys(self) -> None:
        for table in filter(self._may_be_there, self.tables):
            for path, values in _tables(self.source.data, table):
                known = self._known(table)
                for name in values:
                    if name in table.removed:
                        self.source.problem((*path, name), f"this key was removed; {table.removed[name]}")
                    elif (place := f"{table.name}.{name}".lstrip(".")) in self._foreign:
                        self.source.problem((*path, name), f"unknown key; {self._foreign[place]}")
                    elif name not in known and not table.is_open:
                        self.source.unknown((*path, name), known, self._elsewhere.get(name))

    def table(self, table: Table) -> Values:
        """The values of a table; one that the file lacks is read as empty."""
        path = _path(table.name)
        value = lookup(self.source.data, path)
        if value is None and any(isinstance(key.default, Required) for key in table.keys):
            self.source.problem(path, f"missing; expected a table {table.header}")
            return {}
        if not isinstance(value, dict | None):
            self.source.mismatch(path, f"a table {table.header}", value)
            return {}
        return self._values(table, value or {}, path)

    def array(self, table: Table) -> list[Element]:
        """Each element of an array of tables; one that the file lacks is empty."""
        if not self._may_be_there(table):
            return []
        arrays = _arrays(self.source.data, _path(table.name))
        written = (element for path, array in arrays for element in self._elements(table, path, array))
        return [Element(at, self._values(table, element, at), element) for at, element in written]

    def named(self, table: Table) -> dict[str, Values]:
        """The values of each table of that name, by its own name."""
        tables = lookup(self.source.data, (table.name,))
        values: dict[str, Values] = {}
        for name, own in tables.items() if isinstance(tables, dict) else ():
            at = (table.name, name)
            if not NAME.fullmatch(name):
                self.source.problem(at, "expected a name of 1 to 32 letters, digits, - or _")
            elif isinstance(own, dict):
                values[name] = self._values(table, own, at)
            else:
                self.source.mismatch(at, f"a table {table.header}", own)
        return values

    def unwritten(self, table: Table, name: str) -> Values:
        """The values of a table of that name that a file does not write: its defaults."""
        return self._values(table, {}, (table.name, name))

    def _may_be_there(self, table: Table) -> bool:
        """Whether a table may be what the file has under its name: not an array where named tables are."""
        is_shared = any(other.is_named and other.name == table.name for other in self.tables)
        is_table = isinstance(lookup(self.source.data, _path(table.name)), dict)
        return not is_shared or is_table == table.is_named

    def _elements(self, table: Table, path: Path, value: object) -> Iterator[tuple[Path, dict[str, Any]]]:
        if not isinstance(value, list) or not all(isinstance(element, dict) for element in value):
            self.source.mismatch(path, f"tables {table.header}", value)
            return
        if len(value) > table.at_most:
            self.source.problem(path, f"expected at most {table.at_most}, found {len(value):,}")
        yield from (((*path, place), element) for place, element in enumerate(value[: table.at_most]))

    def _values(self, table: Table, written: Mapping[str, Any], path: Path) -> Values:
        values: Values = {}
        for key in table.keys:
            at = (*path, key.name)
            if key.name in written:
                self._read(key, written[key.name], at, values)
                if key.command_line_only and not self.source.was_given(at):
                    where = f"--set {dotted(at)}={written[key.name]}"
                    self.source.problem(at, f"not allowed in a file; give it on the command line: {where}")
            elif isinstance(key.default, Required):
                self.source.problem(at, f"missing; expected {key.kind.expected}")
            else:
                self.defaulted.add(dotted(at))
                if isinstance(key.default, Unset):
                    values[key.model_field] = None
                elif not isinstance(key.default, Computed):
                    values[key.model_field] = key.kind.read(key.default)
        return values

    def _read(self, key: Key, value: object, at: Path, values: Values) -> None:
        try:
            values[key.model_field] = key.kind.read(in_unit_of(key.name, value))
        except MismatchError as error:
            self.source.mismatch(at, str(error) or key.kind.expected, value, key.kind.words)

    def _known(self, table: Table) -> list[str]:
        """The keys of a table and the tables directly below it."""
        below = [other.name for other in self.tables if other.name and other.name.rpartition(".")[0] == table.name]
        return [key.name for key in table.keys] + [name.rpartition(".")[2] for name in below]


def lookup(data: Mapping[str, Any], path: Path) -> Any:
    """The value at a path without array positions; None if there is none."""
    value: Any = data
    for part in path:
        if not isinstance(value, dict):
            return None
        value = value.get(str(part))
    return value


def _path(name: str) -> Path:
    return tuple(name.split(".")) if name else ()


def _arrays(data: Any, names: Path, at: Path = ()) -> Iterator[tuple[Path, Any]]:
    """What stands under a dotted name, once for each element of the arrays on the way."""
    if isinstance(data, list):
        for place, element in enumerate(data):
            yield from _arrays(element, names, (*at, place))
    elif isinstance(data, dict) and names[0] in data:
        value, at = data[str(names[0])], (*at, names[0])
        if len(names) > 1:
            yield from _arrays(value, names[1:], at)
        else:
            yield at, value


def _tables(data: Mapping[str, Any], table: Table) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    if not table.name:
        yield (), data
        return
    for path, value in _arrays(data, _path(table.name)):
        if table.is_named:
            yield from (((*path, name), inner) for name, inner in value.items() if isinstance(inner, dict))
        elif isinstance(value, dict):
            yield path, value
        elif isinstance(value, list):
            yield from (((*path, place), item) for place, item in enumerate(value) if isinstance(item, dict))

"""A scenario file as data with line numbers, and the list of everything wrong with it."""

import json
import re
import tomllib
from collections import ChainMap
from collections.abc import Collection, Iterable, MutableMapping, Sequence
from collections.abc import Set as AbstractSet
from copy import copy, deepcopy
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any

from pinchpoint.keys.key import Key, Table
from pinchpoint.keys.lexical import Path, Place, places
from pinchpoint.model import units
from pinchpoint.model.errors import InputError, nearest

LARGEST_FILE = 1 << 20
MOST_PROBLEMS = 100
LONGEST_SHOWN = 60
_DEEPEST_KEY = 16
# tomllib's time grows with the square of a dotted key's length; no key here has more than three parts.
_DEEP_KEY = re.compile(
    r"(?:(?<![A-Za-z0-9_-])[A-Za-z0-9_-]++|\"[^\"\n]*+\"|'[^'\n]*+')"
    rf"(?:[ \t]*+\.[ \t]*+(?:[A-Za-z0-9_-]++|\"[^\"\n]*+\"|'[^'\n]*+')){{{_DEEPEST_KEY},}}+"
)
_SYNTAX = re.compile(r"(.*) \(at (?:line (\d+), column \d+|end of document)\)", re.DOTALL)
_UNCLOSED = "expected a quote at the end of the text"
_UNCLOSED_AS_TOMLLIB_SAYS = (r"Illegal character '\n'", "Unterminated string")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True)
class Change:
    """A value put in the place of a file's own."""

    at: Path
    value: object
    line: int | None = None  # where in the file it comes from; None: it does not come from the file
    origin: str = ""  # where else it comes from


CHANGED = "a value set over the file's own"
"""The origin of a value that the command line gave."""


class Source:
    """The values of one file, where they stand, and the problems found so far."""

    def __init__(self, text: str, path: str) -> None:
        """Raises InputError if the text is too large or is not TOML."""
        self.path = path
        self._places: MutableMapping[Path, Place]
        self.data, self._places = _decode(text, path)
        self._origins: dict[Path, str] = {}
        self._problems: list[tuple[int, str]] = []

    @classmethod
    def of_file(cls, path: FilePath) -> "Source":
        """What a file holds. Raises InputError as `read_text` does, or if it is not TOML."""
        return cls(read_text(path), str(path))

    def changed(self, changes: Iterable[Change], without: str = "") -> "Source":
        """The same file with other values and without one of its tables, as if it had been written so.

        Tables on the way are made; elements of arrays must be there (`holds`).
        """
        other = copy(self)
        other.data = deepcopy({name: value for name, value in self.data.items() if name != without})
        put: dict[Path, Place] = {}
        other._places, other._origins, other._problems = ChainMap(put, self._places), dict(self._origins), []
        for change in changes:
            _put(other.data, change.at, change.value)
            put[change.at] = Place(change.line or self.line(change.at))
            other._origins.pop(change.at, None)
            if change.origin:
                other._origins[change.at] = change.origin
        return other

    def was_given(self, path: Path) -> bool:
        """Whether a value does not come from the file but from who started the program."""
        return self._origins.get(path) == CHANGED

    def holds(self, path: Path) -> bool:
        """Whether a value can be put there: the array elements on the way are there."""
        value: Any = self.data
        for part in path[:-1]:
            if isinstance(part, int) and isinstance(value, list) and part < len(value):
                value = value[part]
            elif isinstance(part, str) and isinstance(value, dict):
                value = value.get(part, {})
            else:
                return False
        return isinstance(value, dict)

    def line(self, path: Path) -> int:
        """The line of a key, or of the nearest table around it that the file has."""
        while path and path not in self._places:
            path = path[:-1]
        return self._places[path].line if path else 1

    def text_line(self, path: Path, number: int) -> int:
        """The file's line on which line `number` (from 0) of a text value stands."""
        lines = self._places[path].text_lines if path in self._places else ()
        return lines[min(number, len(lines) - 1)] if lines else self.line(path)

    def problem(self, path: Path, message: str, line: int | None = None) -> None:
        """Note a problem at a key, or at a given line of its value."""
        origin = f" (from {self._origins[path]})" if path in self._origins else ""
        shown = f"{dotted(path)}: " if path else ""
        self._problems.append((line or self.line(path), f"{shown}{_escaped(message + origin)}"))

    def mismatch(self, path: Path, expected: str, value: object, words: Collection[str] = ()) -> None:
        """Note that a value is not what was expected; of a few `words`, the most likely one meant is named."""
        near = nearest(value, words) if isinstance(value, str) and not self.is_full else ""
        meant = f"; did you mean {show(near)}?" if near else ""
        self.problem(path, f"expected {expected}, found {show(value)}{meant}")

    def unknown(self, path: Path, known: Collection[str], elsewhere: str | None) -> None:
        """Note a key that nothing reads, with the most likely one meant."""
        if self.is_full:
            self.problem(path, "unknown key")
            return
        word = str(path[-1])
        meant = nearest(word, [name for name in known if not _is_of_another(word, name)]) or elsewhere
        hint = f"did you mean {meant}?" if meant else f"known here: {', '.join(known)}"
        self.problem(path, f"unknown key; {hint}")

    @property
    def is_full(self) -> bool:
        """Whether more problems are noted than are shown, so that no time goes into what a further one says."""
        return len(self._problems) > MOST_PROBLEMS

    @property
    def problems(self) -> tuple[tuple[int, str], ...]:
        """Those noted so far: each its line, and its key with what is wrong."""
        return tuple(self._problems)

    def take(self, line: int, problem: str) -> None:
        """Note a problem that another source of the same file has found."""
        self._problems.append((line, problem))

    def error(self) -> InputError:
        """All problems, by line."""
        rows = [f"{_escaped(self.path)}:{line}: {message}" for line, message in sorted(self._problems)]
        more = len(rows) - MOST_PROBLEMS
        left_out = [f"and {units.counted(more, 'more problem')}"] if more > 0 else []
        return InputError("\n".join([*rows[:MOST_PROBLEMS], *left_out]))


def _put(data: Any, path: Path, value: object) -> None:
    for part in path[:-1]:
        data = data.setdefault(part, {}) if isinstance(part, str) else data[part]
    data[path[-1]] = deepcopy(value)


def read_text(path: FilePath) -> str:
    """The text of a file. Raises InputError if it cannot be read, is too large or is not UTF-8."""
    shown = _escaped(str(path))
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST_FILE + 1)
    except (OSError, ValueError) as error:
        raise InputError(f"{shown}: {getattr(error, 'strerror', None) or error}") from error
    if len(data) > LARGEST_FILE:
        raise _too_large(shown)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(f"{shown}:{line}: expected UTF-8 text, found byte {data[error.start]:#04x}") from None


def _too_large(shown: str) -> InputError:
    return InputError(f"{shown}:1: expected at most 1 MiB", "use [[dut.rule_series]] instead of writing out rules")


def _decode(text: str, path: str) -> tuple[dict[str, Any], MutableMapping[Path, Place]]:
    shown = _escaped(path)
    if len(text) > LARGEST_FILE:
        raise _too_large(shown)
    if deep := _DEEP_KEY.search(text):
        line = text.count("\n", 0, deep.start()) + 1
        raise InputError(f"{shown}:{line}: expected at most {_DEEPEST_KEY} names joined by dots")
    try:
        return tomllib.loads(text), places(text)
    except RecursionError:
        raise InputError(f"{shown}:1: nested too deep") from None
    except ValueError as error:
        what, line = _syntax(str(error), text)
        raise InputError(f"{shown}:{line}: TOML syntax: {_escaped(what)}") from None


def _syntax(message: str, text: str) -> tuple[str, int]:
    match = _SYNTAX.fullmatch(message)
    if not match:
        return message, 1
    what = _UNCLOSED if match[1] in _UNCLOSED_AS_TOMLLIB_SAYS else match[1]
    return what, int(match[2] or text.count("\n") + 1)


def dotted(path: Path) -> str:
    """A key as users write it, array elements counted from 1: `stream[1].from`."""
    return path_text([part if isinstance(part, int) else _show_name(part) for part in path])


def _show_name(name: str) -> str:
    return _cut(name if _BARE_KEY.fullmatch(name) else json.dumps(name))


def show(value: object) -> str:
    """A TOML value for an error message: one line, printable, cut short."""
    if isinstance(value, list):
        return _cut("[" + ", ".join(_show_value(element) for element in value[:LONGEST_SHOWN]) + "]")
    return _show_value(value)


def _show_value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        return "[...]"
    if isinstance(value, int):
        # str() refuses numbers of thousands of digits
        return str(value) if abs(value) < 10**18 else f"a number of {value.bit_length()} bits"
    if isinstance(value, str):
        return _cut(json.dumps(value[: LONGEST_SHOWN + 1]))
    return _cut(str(value))


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_SHOWN else text[: LONGEST_SHOWN - 3] + "..."


def _escaped(text: str) -> str:
    """The text with everything unprintable written as an escape."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)


def _is_of_another(word: str, known: str) -> bool:
    """Whether two keys say the same of two things, as `sctp_dst` and `tcp_dst`; `upd_dst` is `udp_dst` mistyped."""
    (thing, _, key), (other, _, known_key) = word.partition("_"), known.partition("_")
    return key != "" and key == known_key and sorted(thing) != sorted(other)


LONGEST_PATH = 200
_PART = re.compile(r"([A-Za-z0-9_-]{1,64})(?:\[([1-9][0-9]{0,5})\])?")


def key_path(text: str) -> Path | None:
    """`stream[1].flows` as ("stream", 0, "flows"); None if the text is no such path."""
    if len(text) > LONGEST_PATH:
        return None
    path: Path = ()
    for part in text.split("."):
        match = _PART.fullmatch(part)
        if not match:
            return None
        path = (*path, match[1], *([int(match[2]) - 1] if match[2] else []))
    return path


def path_text(path: Sequence[str | int]) -> str:
    """A path as `key_path` reads it: ("stream", 0, "flows") as `stream[1].flows`."""
    return "".join(f"[{part + 1}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")


def key_at(path: Path, tables: Sequence[Table]) -> tuple[Table, Key] | None:
    """The key that a path names, with its table; None if it names none.

    A path into `dut.other_config` names that key.
    """
    form = tuple(0 if isinstance(part, int) else part for part in path)
    arrays = {table.name for table in tables if table.at_most}
    for table in tables:
        shape: Path = (table.name, *map(str, path[1:2])) if table.is_named else _shape(table.name, arrays)
        if form[: len(shape)] != shape:
            continue
        for key in table.keys:
            below = form[len(shape) :]
            if below[:1] == (key.name,) and (len(below) == 1 or (len(below) == 2 and key.name == "other_config")):
                return table, key
    return None


def near_key(text: str, tables: Sequence[Table]) -> str:
    """The most likely path meant; empty if none is near."""
    arrays = {table.name for table in tables if table.at_most}
    own = (table for table in tables if not table.is_named)
    return nearest(text, (dotted((*_shape(table.name, arrays), key.name)) for table in own for key in table.keys))


def _shape(name: str, arrays: AbstractSet[str]) -> Path:
    """A table's path, with the first element of each array on the way."""
    path: Path = ()
    parts = name.split(".") if name else []
    for number, part in enumerate(parts, 1):
        path = (*path, part, 0) if ".".join(parts[:number]) in arrays else (*path, part)
    return path

"""Strict reading of a JSON body: tables say of every field of the model whether it is supported.

A table is a tree of kinds. Reading notes every problem with the path of its field; the table of conformance is printed
from the same tree (packaging/reference/otg.py). What is read comes back as plain dictionaries and lists in which
defaults are filled in; a choice is a dictionary of `choice` and the chosen field. What is wrong is None.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

SHOWN = 60  # characters of a value in an error
MOST_PROBLEMS = 50


@dataclass
class Problems:
    """What is wrong with a body, and what of it is not done, a line each."""

    lines: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def note(self, path: str, what: str) -> None:
        """`what` is wrong at `path`; beyond a number of problems nothing more is noted."""
        if len(self.lines) < MOST_PROBLEMS:
            self.lines.append(f"{path}: {what}")

    def warn(self, path: str, what: str) -> None:
        """`what` is done otherwise than `path` asks for, or not at all."""
        if len(self.warnings) < MOST_PROBLEMS:
            self.warnings.append(f"{path}: {what}")


class WrongError(Exception):
    """`what` is wrong at `path`, so that nothing more can be said of it."""

    def __init__(self, path: str, what: str) -> None:
        super().__init__(f"{path}: {what}")
        self.path, self.what = path, what


def shown(value: Any) -> str:
    """A value in an error, shortened."""
    text = repr(value) if not isinstance(value, Mapping | list) else type(value).__name__
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


@dataclass(frozen=True)
class Leaf:
    """One value; `convert` returns None for what it does not take."""

    expected: str
    convert: Callable[[Any], Any]
    note: str = ""
    is_limited: bool = False  # supported with some values alone; the note says why

    def read(self, value: Any, path: str, problems: Problems) -> Any:
        converted = self.convert(value)
        if converted is None and self.is_limited:
            problems.note(path, f"{shown(value)} is not supported, expected {self.expected}: {self.note}")
        elif converted is None:
            problems.note(path, f"expected {self.expected}, got {shown(value)}")
        return converted


@dataclass(frozen=True)
class Refused:
    """Not supported. An empty list or null is what a client may send for nothing."""

    why: str

    def read(self, value: Any, path: str, problems: Problems) -> Any:
        if value is not None and value != []:
            problems.note(path, f"not supported: {self.why}")


@dataclass(frozen=True)
class Ignored:
    """Not done, and a script can live without it: a warning, except for what asks for nothing."""

    why: str

    def read(self, value: Any, path: str, problems: Problems) -> Any:
        if value:
            problems.warn(path, f"ignored: {self.why}")


@dataclass(frozen=True)
class Record:
    """An object. `defaults` are those of the model."""

    fields: Mapping[str, "Kind"]
    required: tuple[str, ...] = ()
    defaults: Mapping[str, Any] = field(default_factory=dict)

    def read(self, value: Any, path: str, problems: Problems) -> Any:
        if not isinstance(value, Mapping):
            problems.note(path or "body", f"expected an object, got {shown(value)}")
            return None
        fields = dict(self.defaults)
        for name, member in value.items():
            inner = join(path, name)
            if name not in self.fields:
                problems.note(inner, f"unknown field, expected one of {', '.join(self.fields)}")
            elif member is not None:
                fields[name] = self.fields[name].read(member, inner, problems)
        for name in self.required:
            if fields.get(name) is None and value.get(name) is None:
                problems.note(join(path, name), "is missing")
        return fields


@dataclass(frozen=True)
class Many:
    """A list of at most `most`."""

    kind: "Kind"
    most: int = 256

    def read(self, value: Any, path: str, problems: Problems) -> Any:
        if not isinstance(value, list) or len(value) > self.most:
            got = f"{len(value)}" if isinstance(value, list) else shown(value)
            problems.note(path, f"expected a list of at most {self.most}, got {got}")
            return []
        return [self.kind.read(item, f"{path}[{number}]", problems) for number, item in enumerate(value)]


@dataclass(frozen=True)
class Choice:
    """An object whose `choice` names the one field that counts. `always`: fields that may stand beside it."""

    options: Mapping[str, "Kind"]
    default: str | None
    always: Mapping[str, "Kind"] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)

    def read(self, value: Any, path: str, problems: Problems) -> Any:
        if not isinstance(value, Mapping):
            problems.note(path or "body", f"expected an object, got {shown(value)}")
            return None
        present = [name for name in value if name != "choice" and name not in self.always]
        for name in present:
            if name not in self.options:
                known = ", ".join((*self.options, *self.always))
                problems.note(join(path, name), f"unknown field, expected one of {known}")
                return None
        chosen = value.get("choice", present[0] if len(present) == 1 else self.default if not present else None)
        if not isinstance(chosen, str) or chosen not in self.options:
            expected = ", ".join(self.options)
            problems.note(join(path, "choice"), f"expected one of {expected}, got {shown(chosen)}")
            return None
        if any(name != chosen for name in present):
            problems.note(path, f"only {chosen} may be given, got {', '.join(sorted(present))}")
            return None
        for name, kind in self.always.items():
            if name in value:
                kind.read(value[name], join(path, name), problems)
        content = value.get(chosen, self.defaults.get(chosen, {}))
        return {"choice": chosen, chosen: self.options[chosen].read(content, join(path, chosen), problems)}


Kind = Leaf | Refused | Ignored | Record | Many | Choice  # what a field may hold


def join(path: str, name: str) -> str:
    """The path of a field; a name may be hostile."""
    name = name if name.isidentifier() and len(name) <= SHOWN else shown(name)
    return f"{path}.{name}" if path else name


def whole(least: int, most: int, note: str = "") -> Leaf:
    """An integer. JSON numbers without a fraction pass."""

    def convert(value: Any) -> int | None:
        if isinstance(value, str) and len(value) <= 20 and value.isascii() and value.isdigit():
            value = int(value)  # as clients write 64 bits (ProtoJSON)
        if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
            return None
        return int(value) if least <= value <= most and int(value) == value else None

    return Leaf(f"an integer of {least} to {most}", convert, note)


def real(least: float, most: float, note: str = "") -> Leaf:
    """A number from `least` to `most`."""

    def convert(value: Any) -> float | None:
        good = isinstance(value, int | float) and not isinstance(value, bool) and least <= value <= most
        return float(value) if good else None

    return Leaf(f"a number of {least:g} to {most:g}", convert, note)


def only(values: tuple[Any, ...], why: str) -> Leaf:
    """Some values alone."""
    known = [(value, isinstance(value, bool)) for value in values]  # 1 is not true
    words = " or ".join(str(value).lower() if is_bool else str(value) for value, is_bool in known)
    return Leaf(words, lambda value: value if (value, isinstance(value, bool)) in known else None, why, is_limited=True)


def flag(note: str = "") -> Leaf:
    """`true` or `false`; anything else is a problem."""
    return Leaf("true or false", lambda value: value if isinstance(value, bool) else None, note)


def word(note: str = "") -> Leaf:
    """A name: text of 1 to 255 printable characters."""

    def convert(value: Any) -> str | None:
        return value if isinstance(value, str) and 0 < len(value) < 256 and value.isprintable() else None

    return Leaf("a text of 1 to 255 printable characters", convert, note)


def one_of(values: Sequence[str], note: str = "") -> Leaf:
    """One of some words."""
    expected = f"one of {', '.join(values)}"
    return Leaf(expected, lambda value: value if isinstance(value, str) and value in values else None, note)

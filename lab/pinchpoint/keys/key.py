"""What a key and a table of keys are; the tables themselves: `keys`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from pinchpoint.keys.kinds import Kind


@dataclass(frozen=True)
class Required:
    """A key that the file must set."""


@dataclass(frozen=True)
class Computed:
    """A default that follows from other keys; `words` say how."""

    words: str


@dataclass(frozen=True)
class Unset:
    """No value (None) unless the file sets one; `words` say what that means."""

    words: str


REQUIRED: Final = Required()


@dataclass(frozen=True)
class Key:
    """One key: `default` as it would stand in the file, `field` its name in the model."""

    name: str
    kind: Kind
    doc: str
    default: object = REQUIRED
    field: str = ""
    command_line_only: bool = False  # a file, which may come from anywhere, may not set it
    program: str = ""  # it names a program: how the program's file is called, by which it is found in a build

    @property
    def model_field(self) -> str:
        """The name of the model's field."""
        return self.field or self.name


@dataclass(frozen=True)
class Table:
    """One table; an array of tables with up to `at_most` elements; or, if it is named, one for each name in the file.

    A named table and an array may have the same name, of which a file then has either.
    """

    name: str  # dotted; empty for the top of the file
    doc: str
    keys: tuple[Key, ...]
    at_most: int = 0  # in each element of the array around it, if there is one
    measures: tuple[str, ...] = ()  # that read it; empty: all
    also: tuple[str, ...] = ()  # measures that read it where the file has it, and otherwise do without
    is_open: bool = False  # may hold other keys, which are judged elsewhere
    removed: Mapping[str, str] = field(default_factory=dict)  # keys of earlier releases -> what to write instead
    is_named: bool = False  # [name.NAME], NAME as the file likes
    is_optional: bool = False  # its keys have defaults only where the file has the table

    @property
    def header(self) -> str:
        """As it stands in the file."""
        if self.is_named:
            return f"[{self.name}.NAME]"
        return f"[[{self.name}]]" if self.at_most else f"[{self.name}]"

    @property
    def words(self) -> str:
        """What it is, how many a file may have, and the measures that read it."""
        limit = f" At most {self.at_most}." if self.at_most else ""
        readers = " or ".join(f'"{measure}"' for measure in self.readers)
        return self.doc + limit + (f" With `measure` = {readers}." if readers else "")

    @property
    def readers(self) -> tuple[str, ...]:
        """The measures that may read it; empty: all."""
        return (*self.measures, *self.also)

    def is_read_by(self, measure: str | None, is_there: bool) -> bool:
        """Whether a measure reads it in a file that has it or has it not."""
        if self.is_optional and not is_there:
            return False
        return not self.readers or measure in self.measures or (is_there and measure in self.also)

"""Tables as plain values; the page, Markdown and the terminal only place them."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

ABSENT: Final = "-"


@dataclass(frozen=True)
class Cell:
    """What stands in one place of a table."""

    text: str
    spread: str = ""  # its interval
    mark: str = ""  # how it is marked: the word of a Bound, a RateStatus or a grade
    sort: str = ""
    notes: tuple[str, ...] = ()  # each on a line of its own


@dataclass(frozen=True)
class Column:
    """One column; `key` names it for those that leave some out."""

    key: str
    heading: str
    cells: tuple[Cell, ...]
    is_number: bool = True

    @property
    def is_known(self) -> bool:
        """Whether anything stands in it."""
        return any(cell.text != ABSENT for cell in self.cells)


@dataclass(frozen=True)
class Table:
    """Columns of equal length."""

    columns: tuple[Column, ...]
    name: str = ""  # of the scenario or the sweep; empty: of several
    title: str = ""


def column(key: str, heading: str, texts: Iterable[str | Cell], is_number: bool = True) -> Column:
    """A column of texts; an empty one is written as absent in columns of numbers."""
    empty = ABSENT if is_number else ""
    cells = (text if isinstance(text, Cell) else Cell(text or empty) for text in texts)
    return Column(key, heading, tuple(cells), is_number)


def table_of(headings: Mapping[str, str], rows: Iterable[Sequence[str | Cell]], words: Collection[str] = ()) -> Table:
    """A table of these rows, with a column for each key of `headings`; columns in `words` hold no numbers."""
    made = list(rows)
    numbered = enumerate(headings.items())
    columns = [column(key, heading, [row[at] for row in made], key not in words) for at, (key, heading) in numbered]
    return Table(tuple(columns))

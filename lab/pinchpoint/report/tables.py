"""Tables as plain values; the page, Markdown and the terminal only place them."""

from collections.abc import Iterable
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


def column(key: str, heading: str, texts: Iterable[str], is_number: bool = True) -> Column:
    """A column of texts; an empty one is written as absent in columns of numbers."""
    return Column(key, heading, tuple(Cell(text or (ABSENT if is_number else "")) for text in texts), is_number)

"""What an exported table is: typed columns with units, and rows."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from pinchpoint.model.duet import Stretch
from pinchpoint.model.errors import InputError
from pinchpoint.model.measurement import Measurement
from pinchpoint.model.result import RunInfo, RunResult
from pinchpoint.model.trial import Trial

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow


class Kind(StrEnum):
    """What the cells of a column are; the value is the name of the Arrow type."""

    TEXT = "string"
    COUNT = "int64"
    NUMBER = "double"
    TRUTH = "bool"
    TIME = "timestamp[us, tz=UTC]"


@dataclass(frozen=True)
class Stored:
    """What one run folder holds."""

    info: RunInfo
    result: RunResult
    trials: Sequence[Trial] = ()
    measurements: Sequence[Measurement] = ()
    stretches: Sequence[Stretch] = ()


@dataclass(frozen=True)
class Column:
    """One column; `of` takes a cell from the object that makes a row."""

    name: str
    kind: Kind
    unit: str  # empty: it has none
    doc: str
    of: Callable[[Any], object]


@dataclass(frozen=True)
class Table:
    """One table: what a row is, and how a run's rows are found."""

    name: str
    doc: str
    rows: Callable[[Stored], Iterator[Any]]
    columns: tuple[Column, ...]


@dataclass(frozen=True)
class Frame:
    """The rows of one table; a cell is a text, an integer, a float, a truth value, a time with UTC, or None.

    None: not measured, or not countable; it is never the same as zero.
    """

    table: Table
    rows: tuple[tuple[object, ...], ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns, in order."""
        return tuple(one.name for one in self.table.columns)

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Mapping[str, object]]:
        """Each row by the names of its columns."""
        return (dict(zip(self.columns, row, strict=True)) for row in self.rows)

    def column(self, name: str) -> tuple[object, ...]:
        """The cells of one column. Raises KeyError."""
        if name not in self.columns:
            raise KeyError(name)
        index = self.columns.index(name)
        return tuple(row[index] for row in self.rows)

    def to_csv(self) -> str:
        """RFC 4180 with a header; lines end in LF, times are ISO 8601; an empty cell is None, `""` an empty text."""
        lines = [",".join(self.columns), *(",".join(map(_cell, row)) for row in self.rows)]
        return "\n".join(lines) + "\n"

    def to_arrow(self) -> "pyarrow.Table":
        """An Arrow table; units and meanings stand in the metadata of its fields. Raises RequirementError."""
        from pinchpoint.export import arrow

        return arrow.table(self)

    def to_pandas(self) -> "pandas.DataFrame":
        """A pandas frame of Arrow-backed columns, so that integers with gaps stay integers. Raises RequirementError."""
        from pinchpoint.export import arrow

        return arrow.pandas_frame(self)

    def to_polars(self) -> "polars.DataFrame":
        """A polars frame. Raises RequirementError."""
        from pinchpoint.export import arrow

        return arrow.polars_frame(self)


def _cell(cell: object) -> str:
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return str(cell).lower()
    if isinstance(cell, datetime):
        return cell.isoformat().replace("+00:00", "Z")
    text = cell if isinstance(cell, str) else repr(cell)
    return '"' + text.replace('"', '""') + '"' if not text or any(one in text for one in '",\r\n') else text


def when(text: str) -> datetime | None:
    """A stored time; None for an empty one. A time without a zone is UTC. Raises InputError if it is none."""
    if not text:
        return None
    try:
        found = datetime.fromisoformat(text)
        return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise InputError(f"stored time: expected ISO 8601, found {text!r}") from None

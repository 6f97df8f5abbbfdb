"""What an exported table is: typed columns with units, and rows."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, cast

from pinchpoint.model.duet import Stretch
from pinchpoint.model.effective import by_name, table_in
from pinchpoint.model.errors import InputError, RequirementError
from pinchpoint.model.measurement import Measurement
from pinchpoint.model.result import RunInfo, RunResult
from pinchpoint.model.trial import Record, Trial

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow


TABLES_VERSION: Final = "1"
"""Raised when a column changes its meaning or goes away; columns may be added without."""


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

    def device(self, scenario: str) -> Mapping[str, Any]:
        """What the effective scenario of that name says of its device; empty where run.json does not have it."""
        return table_in(by_name(self.info.scenarios).get(scenario, {}), "dut")

    @property
    def times(self) -> Iterator[tuple[str, datetime, float]]:
        """Of each trial and measurement whose time is stored: its scenario, when it began, and seconds that it took."""
        records: list[Record] = [*self.trials, *self.measurements]
        for stamped in records:
            if (began := when(stamped.started)) is not None:
                yield stamped.scenario, began, stamped.wall_s


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
        return tuple(column.name for column in self.table.columns)

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
        """An Arrow table; units and meanings stand in the metadata of its fields.

        Raises RequirementError if pyarrow is not installed, InputError for a number that does not fit.
        """
        pa = needed("pyarrow")
        types = {
            Kind.TEXT: pa.string(),
            Kind.COUNT: pa.int64(),
            Kind.NUMBER: pa.float64(),
            Kind.TRUTH: pa.bool_(),
            Kind.TIME: pa.timestamp("us", tz="UTC"),
        }
        fields = []
        for column in self.table.columns:
            about = {"unit": column.unit, "description": column.doc}
            told = {key: text for key, text in about.items() if text}
            fields.append(pa.field(column.name, types[column.kind], metadata=told))
        metadata = {"pinchpoint.table": self.table.name, "pinchpoint.tables_version": TABLES_VERSION}
        columns = [list(column) for column in zip(*self.rows, strict=True)] or [[] for _ in fields]
        try:
            return pa.table(columns, schema=pa.schema(fields, metadata=metadata))
        except (OverflowError, pa.ArrowInvalid) as error:
            raise InputError(f"table {self.table.name}: a number does not fit its column: {error}") from error

    def to_pandas(self) -> "pandas.DataFrame":
        """A pandas frame of Arrow-backed columns, so that integers with gaps stay integers. Raises RequirementError."""
        types: Any = needed("pandas").ArrowDtype
        data: Any = self.to_arrow()
        return cast("pandas.DataFrame", data.to_pandas(types_mapper=types))

    def to_polars(self) -> "polars.DataFrame":
        """A polars frame. Raises RequirementError."""
        return cast("polars.DataFrame", needed("polars").from_arrow(self.to_arrow()))

    def to_parquet(self) -> bytes:
        """A Parquet file, compressed with zstd. Raises RequirementError."""
        pq, sink = needed("pyarrow.parquet"), needed("pyarrow").BufferOutputStream()
        pq.write_table(self.to_arrow(), sink, compression="zstd")
        return bytes(sink.getvalue())

    def to_ipc(self) -> bytes:
        """An Arrow IPC file (Feather version 2), not compressed, so that it can be mapped. Raises RequirementError."""
        pa, data = needed("pyarrow"), self.to_arrow()
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, data.schema) as writer:
            writer.write_table(data)
        return bytes(sink.getvalue())


def _cell(cell: object) -> str:
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return str(cell).lower()
    if isinstance(cell, datetime):
        return cell.isoformat().replace("+00:00", "Z")
    text = cell if isinstance(cell, str) else repr(cell)
    return '"' + text.replace('"', '""') + '"' if not text or any(char in text for char in '",\r\n') else text


def when(text: str) -> datetime | None:
    """A stored time; None for an empty one. A time without a zone is UTC. Raises InputError if it is none."""
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise InputError(f"stored time: expected ISO 8601, found {text!r}") from None


def needed(module: str) -> Any:
    """A library of others. Raises RequirementError with the command that installs it."""
    package = module.partition(".")[0]
    try:
        return import_module(module)
    except ImportError as error:
        command = "pip install 'pinchpoint[export]'" if package == "pyarrow" else f"pip install {package}"
        raise RequirementError(f"{package} is not installed", command) from error

"""Frames as Arrow tables, and what is made of these. Libraries are imported when they are needed.

The formats: Arrow IPC file format and Parquet (Apache Arrow, Apache Parquet). Units and meanings are metadata of the
fields; the schema's own has the version of the tables.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, cast

from pinchpoint.export.tables import Frame, Kind
from pinchpoint.model.errors import InputError, RequirementError

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

TABLES_VERSION: Final = "1"
"""Raised when a column changes its meaning or goes away; columns may be added without."""


def table(frame: Frame) -> "pyarrow.Table":
    """An Arrow table. Raises RequirementError if pyarrow is not installed, InputError for a
    number that does not fit.
    """
    pa = needed("pyarrow")
    types = {
        Kind.TEXT: pa.string(),
        Kind.COUNT: pa.int64(),
        Kind.NUMBER: pa.float64(),
        Kind.TRUTH: pa.bool_(),
        Kind.TIME: pa.timestamp("us", tz="UTC"),
    }
    fields = [
        pa.field(one.name, types[one.kind], metadata={"unit": one.unit, "description": one.doc} if one.unit else
                 {"description": one.doc})
        for one in frame.table.columns
    ]  # fmt: skip
    metadata = {"pinchpoint.table": frame.table.name, "pinchpoint.tables_version": TABLES_VERSION}
    columns = [list(column) for column in zip(*frame.rows, strict=True)] or [[] for _ in fields]
    try:
        return pa.table(columns, schema=pa.schema(fields, metadata=metadata))
    except (OverflowError, pa.ArrowInvalid) as error:
        raise InputError(f"table {frame.table.name}: a number does not fit its column: {error}") from error


def parquet(frame: Frame) -> bytes:
    """A Parquet file, compressed with zstd. Raises RequirementError."""
    pq, sink = needed("pyarrow.parquet"), needed("pyarrow").BufferOutputStream()
    pq.write_table(table(frame), sink, compression="zstd")
    return bytes(sink.getvalue())


def ipc(frame: Frame) -> bytes:
    """An Arrow IPC file (Feather version 2), not compressed, so that it can be mapped. Raises RequirementError."""
    pa, found = needed("pyarrow"), table(frame)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, found.schema) as writer:
        writer.write_table(found)
    return bytes(sink.getvalue())


def pandas_frame(frame: Frame) -> "pandas.DataFrame":
    """A pandas frame with columns of Arrow types. Raises RequirementError."""
    types: Any = needed("pandas").ArrowDtype
    found: Any = table(frame)
    return cast("pandas.DataFrame", found.to_pandas(types_mapper=types))


def polars_frame(frame: Frame) -> "polars.DataFrame":
    """A polars frame. Raises RequirementError."""
    return cast("polars.DataFrame", needed("polars").from_arrow(table(frame)))


def needed(module: str) -> Any:
    """A library of others. Raises RequirementError with the command that installs it."""
    package = module.partition(".")[0]
    try:
        return import_module(module)
    except ImportError as error:
        command = "pip install 'pinchpoint[export]'" if package == "pyarrow" else f"pip install {package}"
        raise RequirementError(f"{package} is not installed", command) from error

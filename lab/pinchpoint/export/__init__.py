"""Results for other programs: pure functions from what runs hold to tables and to the formats of others.

`tables`       what a table and its columns are, and the frame that holds its rows, also as Arrow, Parquet, pandas or
               polars; each loads when it is first used
`columns`      every table there is, column by column
`csit`         results in the result model of FD.io CSIT
`openmetrics`  metrics and windows of runs, and a watched device, as OpenMetrics text
`perfetto`     the timeline of runs as a Chrome trace
`document`     the tables of docs/export.md
"""

from pinchpoint.export.columns import TABLES, frame
from pinchpoint.export.tables import Column, Frame, Kind, Stored, Table

__all__ = ["TABLES", "Column", "Frame", "Kind", "Stored", "Table", "frame"]

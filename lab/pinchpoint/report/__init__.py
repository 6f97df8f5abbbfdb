"""Results for people: pure functions from a run's data to HTML, Markdown and a terminal table.

`view`      everything that is shown of a run, gathered once; made of
            `rate_views`, `metric_views`, `curve_views`, `bench_views` and `path`, the way of a trial's frames
`tables`    what a table is
`words`     how results are put into words
`page`      render_html: one self-contained file
`markdown`  render_markdown: compact, for issue trackers
`terminal`  render_table: a rich renderable, printed by the caller
`comparison_views`, `comparison_page`  the same of a comparison
`figures`   the page's plots as plotly figures (plain data); other `..._figures` are of one measure or one curve
`trend`     many runs: a table, a line of bars, a figure, JUnit's XML
"""

from pinchpoint.report.comparison_page import render_comparison
from pinchpoint.report.markdown import render_markdown
from pinchpoint.report.page import render_html
from pinchpoint.report.terminal import render_comparison_table, render_table

__all__ = ["render_comparison", "render_comparison_table", "render_html", "render_markdown", "render_table"]

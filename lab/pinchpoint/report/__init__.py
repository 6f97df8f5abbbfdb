"""Results for people: pure functions from a run's data to HTML, Markdown and a terminal table.

`page`      render_html: one self-contained file
`markdown`  render_markdown: compact, for issue trackers
`terminal`  render_table: a rich renderable, printed by the caller
`words`     how results are put into words, the same in all three
`comparison_page`, `comparison_table`  the same of a comparison
`figures`   the plots as plotly figures (plain data)
`rate_figures`, `rate_views`  rates with their bands: plots, and the table that all three show
`metric_views`  what is shown of measures other than rates
`path`      the frames' path through the places of a trial's ledger, and its picture
`views`     what the page's tables and diagrams show
"""

from pinchpoint.report.comparison_page import render_comparison
from pinchpoint.report.comparison_table import render_comparison_table
from pinchpoint.report.markdown import render_markdown
from pinchpoint.report.page import render_html
from pinchpoint.report.terminal import render_table

__all__ = ["render_comparison", "render_comparison_table", "render_html", "render_markdown", "render_table"]

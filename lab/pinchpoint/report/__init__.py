"""Results for people: pure functions from a run's data to HTML, Markdown and a terminal table.

`view`      everything that is shown of a run, gathered once; made of
            `number_views` and `trial_views`
`original`  theirs and ours: the original of a study beside what was measured
`tables`    what a table is
`words`     how results are put into words
`page`      render_html: one self-contained file; render_form: the form that an RFC asks for
`markdown`  render_markdown: compact, for issue trackers
`terminal`  render_table: a rich renderable, printed by the caller
`comparison` the same of a comparison
`plot`      what plots are made of, as plotly figures (plain data); `trial_figures`, `loss_figures`, `rate_figures` and
            `curve_figures` draw
`trend`     many runs: a table, a line of bars, a figure, JUnit's XML
"""

from pinchpoint.report.comparison import render_comparison
from pinchpoint.report.markdown import render_markdown
from pinchpoint.report.page import render_html
from pinchpoint.report.terminal import render_comparison_table, render_table

__all__ = ["render_comparison", "render_comparison_table", "render_html", "render_markdown", "render_table"]

"""The terminal's table: one row a scenario."""

from rich import box
from rich.table import Table
from rich.text import Text

from pinchpoint.model.result import RateStatus, RunResult, ScenarioResult
from pinchpoint.report import words


def render_table(result: RunResult) -> Table:
    """A rich table of the scenarios: their rates, what pinched them, how many trials were valid."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("scenario", overflow="fold")
    names = words.rate_names(result)
    for name in names:
        table.add_column(name, justify="right")
    table.add_column("pinched by")
    table.add_column("valid trials", justify="right")
    for one in result.scenarios:
        valid = one.trials - sum(one.invalid_trials.values())
        cells = [_rate(one, name) for name in names]
        table.add_row(Text(one.scenario), *cells, Text(words.pinched_by(one)), f"{valid} of {one.trials}")
    if not result.finished:
        table.caption = "unfinished: the run was interrupted; continue it with --resume"
        table.caption_justify = "left"
    return table


def _rate(one: ScenarioResult, name: str) -> Text:
    rate = words.rate_named(one, name)
    if rate is None:
        return Text("-")
    styles = {RateStatus.FOUND: "bold", RateStatus.AT_LEAST: "yellow", RateStatus.BELOW_MINIMUM: "yellow"}
    return Text(words.quoted(rate), style=styles.get(rate.status, "red"))

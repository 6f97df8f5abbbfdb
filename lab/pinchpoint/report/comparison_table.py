"""A comparison for the terminal: what differs first, then every metric with its ratio and what it says."""

from collections.abc import Iterator

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from pinchpoint.model.comparison import Compared, Comparison, Differences
from pinchpoint.report import comparison_views as views

_STYLES = {"good": "green", "bad": "red", "mind": "yellow"}


def render_comparison_table(found: Comparison) -> Group:
    """What a comparison found; the caller prints it, plain or in colour."""
    parts: list[RenderableType] = [
        Text.assemble(("A", "bold"), f"  {found.a.name}, started {found.a.started}"),
        Text.assemble(("B", "bold"), f"  {found.b.name}, started {found.b.started}"),
        Text(f"{views.method(found)}.", style="dim"),
        *_differences(found.differences, "What differs"),
    ]
    for part in found.scenarios:
        parts += _scenario(part, len(found.scenarios) > 1, found.differences)
    for label, only in (("A", found.only_a), ("B", found.only_b)):
        if only:
            parts.append(_mind(f"only in {label}: {', '.join(only)}"))
    if not found.finished:
        parts.append(Text("\nunfinished: what was measured until now; continue it with --resume"))
    return Group(*parts)


def _differences(found: Differences, title: str) -> Iterator[RenderableType]:
    if views.nothing_differs(found):
        yield Padding(Text(f"{title}: nothing that is known"), (1, 0, 0, 0))
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column(Text(title), overflow="fold")
    table.add_column("A", overflow="fold")
    table.add_column("B", overflow="fold")
    for place, differing in views.places(found):
        for one in differing:
            table.add_row(Text(f"{place}: {one.what}"), _short(one.a), _short(one.b))
    yield table


def _short(text: str) -> Text:
    return Text(views.shortened(text))


def _scenario(part: Compared, named: bool, of_all: Differences) -> Iterator[RenderableType]:
    if named:
        yield Padding(Text.assemble((part.a, "bold"), f": {part.title}"), (1, 0, 0, 0))
        own = tuple(one for one in part.differences.scenario if one not in of_all.scenario)
        if own:
            yield from _differences(Differences(scenario=own), "What differs here")
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("metric", overflow="fold")
    for heading in ("A", "B", "B / A"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("what it says", overflow="fold", min_width=24)
    for one in part.metrics:
        row = views.row(one)
        style = "" if one.judged else "dim"
        name = Text(row.metric + (f"\n{row.mode}" if row.mode else ""), style="bold" if one.judged else "dim")
        cells = [_two(value, spread, style) for value, spread in _numbers(row)]
        said = Text(row.sentence, style=_STYLES.get(row.grade, "")) if one.judged else Text("not judged", style="dim")
        table.add_row(name, *cells, said)
    yield table
    if part.duet is not None:
        yield from (Padding(Text(f"{line}."), (0, 0, 0, 1)) for line in views.duet_lines(part.duet))
    yield from (_mind(note) for note in part.notes)


def _numbers(row: views.Row) -> tuple[tuple[str, str], ...]:
    return (row.a, row.a_spread), (row.b, row.b_spread), (row.ratio, row.ratio_spread)


def _two(value: str, spread: str, style: str) -> Text:
    return Text(value + (f"\n{spread}" if spread else ""), style=style)


def _mind(text: str) -> Padding:
    return Padding(Text.assemble(("! ", "yellow bold"), f"{text.rstrip('.')}."), (0, 0, 0, 1))

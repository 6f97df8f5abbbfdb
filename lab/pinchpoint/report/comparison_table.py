"""A comparison for the terminal: the answer, what differs, then every metric with its ratio and what it says."""

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from pinchpoint.model.comparison import Compared, Comparison, Differences
from pinchpoint.report import comparison_views as views
from pinchpoint.report.terminal import caution, draw


def render_comparison_table(found: Comparison) -> Group:
    """What a comparison found; the caller prints it, plain or in colour."""
    parts: list[RenderableType] = [
        *(Text(line, style="bold") for line in views.answers(found)),
        Text.assemble(("A", "bold"), f"  {found.a.name}, started {found.a.started}"),
        Text.assemble(("B", "bold"), f"  {found.b.name}, started {found.b.started}"),
        Text(f"{views.method(found)}.", style="dim"),
        _differences(found.differences, "What differs"),
    ]
    for part in found.scenarios:
        parts += _scenario(part, len(found.scenarios) > 1, found.differences)
    for label, only in (("A", found.only_a), ("B", found.only_b)):
        if only:
            parts.append(_indented(caution(f"only in {label}: {', '.join(only)}")))
    if not found.finished:
        parts.append(Text("\nunfinished: what was measured until now; continue it with --resume"))
    return Group(*parts)


def _differences(found: Differences, title: str) -> RenderableType:
    if views.nothing_differs(found):
        return Padding(Text(f"{title}: nothing that is known"), (1, 0, 0, 0))
    return draw(views.difference_table(found, title))


def _scenario(part: Compared, named: bool, of_all: Differences) -> Iterator[RenderableType]:
    if named:
        yield Padding(Text.assemble((part.a, "bold"), f": {part.title}"), (1, 0, 0, 0))
        own = tuple(one for one in part.differences.scenario if one not in of_all.scenario)
        if own:
            yield _differences(Differences(scenario=own), "What differs here")
    yield draw(views.metric_table(part.metrics))
    lines = views.duet_lines(part.duet) if part.duet is not None else ()
    yield from (_indented(Text(f"{line}.")) for line in lines)
    yield from (_indented(caution(note)) for note in part.notes)


def _indented(text: Text) -> Padding:
    return Padding(text, (0, 0, 0, 1))

"""What studies found, held against their originals and against themselves.

`pinchpoint study run NAME`, then `python packaging/reference/studies.py RUN` with its run folder: writes
tests/golden/studies/NAME.json, which tests/unit/account/test_clock.py holds against itself, and renews the tables of
docs/studies.md. Without RUN it renews these alone.
"""

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from pinchpoint.findings.conclusions import judged
from pinchpoint.findings.findings import findings
from pinchpoint.findings.steps import steps
from pinchpoint.model.result import RunResult, ScenarioResult
from pinchpoint.report.markdown import plain, table_text
from pinchpoint.report.original import original_view
from pinchpoint.report.tables import Cell, Column, Table
from pinchpoint.store.folder import RESULT, RunFolder

ROOT = Path(__file__).parents[2]
STORED = ROOT / "tests" / "golden" / "studies"
GUIDE = ROOT / "docs" / "studies.md"
BEGIN, END = "<!-- begin: python packaging/reference/studies.py -->", "<!-- end -->"
_HEADINGS: Final = {"ours": "ours here", "outcome": "outcome, and why they differ"}


def small(result: RunResult) -> RunResult:
    """Rates, metrics and threads of every scenario, conclusions and findings, without what they were made from."""
    return replace(result, scenarios=tuple(map(_figures, result.scenarios)), curves=())


def _figures(result: ScenarioResult) -> ScenarioResult:
    return replace(
        result, latency=(), verdict=None, other_verdicts=(), cache_line=None, warnings=(), settings={}, modes=(),
        track=(), ceiling=None, offload=None,
    )  # fmt: skip


def held(folder: Path = STORED) -> str:
    """The part of docs/studies.md: of each stored study its original's conclusions, theirs and ours; else its findings.

    A study that is not stored, or has neither, is left out.
    """
    parts = [BEGIN]
    for path in sorted(folder.glob("*.json")):
        result = RESULT.decode(path.read_bytes(), str(path))
        conclusions = original_view(result, None).conclusions
        findings = "\n".join(f"- {plain(finding.text)}" for finding in result.findings)
        told = table_text(_bare(conclusions)) if conclusions.columns else findings
        parts += [f"### {path.stem}", told] if told else []
    return "\n\n".join([*parts, END])


def _bare(table: Table) -> Table:
    """Without a title of its own, and without how each sentence is tested, which study.toml says."""
    return Table(tuple(_columns(table)))


def _columns(table: Table) -> Iterator[Column]:
    for column in table.columns:
        cells = tuple(Cell(cell.text) for cell in column.cells) if column.key == "sentence" else column.cells
        yield replace(column, heading=_HEADINGS.get(column.key, column.heading), cells=cells)


def renewed(text: str) -> str:
    """The guide with its part as it is now."""
    before, _, rest = text.partition(BEGIN)
    return before + held() + rest.partition(END)[2]


def keep(run: Path) -> None:
    """Store what the finished run of a study found."""
    folder = RunFolder.open(run)
    info, result = folder.read_info(), folder.so_far()
    if info.study is None or not result.finished:
        sys.exit(f"{run}: expected the finished run of a study")
    # By the sentences of today, over the run's own numbers.
    result = replace(result, conclusions=judged(info.study, result.curves))
    result = replace(result, findings=(*steps(info.study, result.scenarios), *findings(info.study, result.curves)))
    STORED.mkdir(exist_ok=True)
    path = STORED / f"{info.study.name}.json"
    path.write_bytes(RESULT.encode(small(result), str(path)) + b"\n")


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        keep(Path(argument))
    GUIDE.write_text(renewed(GUIDE.read_text()))

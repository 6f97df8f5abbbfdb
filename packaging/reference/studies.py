"""What a study's quick form found, as tests/unit/account/test_clock.py holds it against itself.

`pinchpoint study run NAME --quick`, then `python packaging/reference/studies.py RUN` with its run folder: writes
tests/golden/studies/NAME.json.
"""

import sys
from dataclasses import replace
from pathlib import Path

from pinchpoint.model.result import RunResult, ScenarioResult
from pinchpoint.store.folder import RESULT, RunFolder

STORED = Path(__file__).parents[2] / "tests" / "golden" / "studies"


def small(result: RunResult) -> RunResult:
    """Rates, metrics and threads of every scenario, without what they were concluded from."""
    return replace(result, scenarios=tuple(map(_figures, result.scenarios)), curves=(), findings=())


def _figures(result: ScenarioResult) -> ScenarioResult:
    return replace(
        result, latency=(), verdict=None, other_verdicts=(), cache_line=None, warnings=(), settings={}, modes=(),
        track=(), ceiling=None, offload=None,
    )  # fmt: skip


if __name__ == "__main__":
    folder = RunFolder.open(Path(sys.argv[1]))
    info, result = folder.read_info(), folder.so_far()
    if info.study is None or not result.finished:
        sys.exit(f"{sys.argv[1]}: expected the finished run of a study")
    STORED.mkdir(exist_ok=True)
    path = STORED / f"{info.study.name}.json"
    path.write_bytes(RESULT.encode(small(result), str(path)) + b"\n")

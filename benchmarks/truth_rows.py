"""`make bench-truth`: what `pinchpoint run` publishes of a device whose rate and ring are known, with real frames.

The reference device is paced by the clock, so its rate does not depend on the host. How evenly frames arrive does:
where a core stood still for longer than the ring holds frames, a trial below the truth loses some, and `stood still`
counts such trials. The truth of a trial of T seconds is rate + ring / T: what the ring holds in the end is forwarded.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import cpu
from lab_run import stored
from rich.console import Console
from rich.table import Table

from pinchpoint.model.errors import PinchpointError
from pinchpoint.model.trial import Trial

RATES_FPS, RINGS = (50_000, 500_000, 2_000_000), (64, 4096)
TRIAL_S = 0.5
AIM = 0.01  # relative error of the published rate
SCENARIO = """
title = "{rate_fps} frames a second, ring of {ring}"
[dut]
kind = "reference"
cpus = [1]
rate_fps = {rate_fps}
ring = {ring}
[[port]]
name = "left"
[[port]]
name = "right"
[engine]
cpus = [0]
[[stream]]
from = "left"
to = "right"
[search]
initial_trial_duration_s = {trial_s}
trial_duration_s = {trial_s}
max_traffic_s = {traffic_s}
max_load_fps = {most_fps}
"""


@dataclass(frozen=True)
class Row:
    """One published rate beside the truth; fps."""

    rate_fps: float
    ring: int
    loss_ratio: float
    status: str
    true_fps: float
    published_fps: float | None
    lower_fps: float | None
    upper_fps: float | None
    stood_still: int  # trials below the truth that lost frames while a core stood still for longer than the ring holds
    trials: int
    verdict: str

    @property
    def error(self) -> float | None:
        """Relative; None where nothing is published."""
        return None if self.published_fps is None else self.published_fps / self.true_fps - 1


def rows(rate_fps: int, ring: int, traffic_s: float, folder: Path) -> Iterator[Row]:
    """A run, and its rates."""
    path = folder / f"reference-{rate_fps}-{ring}.toml"
    path.write_text(
        SCENARIO.format(rate_fps=rate_fps, ring=ring, trial_s=TRIAL_S, traffic_s=traffic_s, most_fps=4 * rate_fps)
    )
    kept, result = stored("run", path, passes=(0, 1, 9))
    trials = [trial for trial in kept.read_trials() if trial.phase == "search"]
    (outcome,) = result.scenarios
    for rate in outcome.rates:
        true_fps = (rate_fps + ring / TRIAL_S) / (1 - rate.loss_ratio)
        late = sum(_stood_still(trial, true_fps, ring / rate_fps) for trial in trials)
        verdict = outcome.verdict.headline if outcome.verdict else outcome.reason
        yield Row(
            rate_fps,
            ring,
            rate.loss_ratio,
            rate.status.value,
            true_fps,
            rate.quoted_fps,
            rate.lower_fps,
            rate.upper_fps,
            late,
            len(trials),
            verdict,
        )


def _stood_still(trial: Trial, true_fps: float, holds_s: float) -> bool:
    longest_ns = max((worker.gap_max_ns for worker in trial.witness.workers), default=0)
    return bool(trial.lost) and trial.offered_fps < (1 - AIM) * true_fps and longest_ns > 1e9 * holds_s


def show(table_rows: list[Row]) -> None:
    """A table."""
    table = Table(title="reference device: published rate beside the truth")
    for name in ("rate", "ring", "loss", "truth", "published", "error", "stood still"):
        table.add_column(name, justify="right")
    table.add_column("verdict")
    for row in table_rows:
        error = "-" if row.error is None else f"{row.error:+.2%}"
        published = row.status if row.published_fps is None else f"{row.published_fps:,.0f}"
        late = f"{row.stood_still} of {row.trials}"
        cells = (f"{row.rate_fps:,.0f}", str(row.ring), f"{row.loss_ratio:.1%}", f"{row.true_fps:,.0f}", published)
        table.add_row(*cells, error, late, row.verdict)
    console = Console()
    if not console.is_terminal:
        console.width = 160
    console.print(table)


def main() -> int:
    """Measure and print; 1 if a published rate is further from the truth than the aim, and nothing says why."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0, metavar="S", help="of traffic, for each rate (20)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    parser.add_argument("--smoke", action="store_true", help="one rate, 3 s of traffic; the aim is not judged")
    asked = parser.parse_args()
    cpu.end_on_signals()
    pairs = [(rate_fps, ring) for rate_fps in RATES_FPS for ring in RINGS]
    measured: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        for rate_fps, ring in pairs[:1] if asked.smoke else pairs:
            measured += rows(rate_fps, ring, 3.0 if asked.smoke else asked.seconds, Path(folder))
    if asked.json:
        print(json.dumps([{**asdict(row), "error": row.error} for row in measured], indent=1))
    else:
        show(measured)
    off = [row for row in measured if row.error is None or abs(row.error) > AIM]
    return int(bool(off) and not asked.smoke)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PinchpointError as error:
        sys.exit(str(error))

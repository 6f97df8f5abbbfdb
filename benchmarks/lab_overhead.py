"""What the lab adds to every trial beyond traffic and drain: reading counters, probes, writing, judging."""

import json
import subprocess
import sys
from pathlib import Path

SCENARIO = Path(__file__).with_name("both-ways.toml")
DRAIN_S = 0.1


def overheads_s(folder: Path) -> list[float]:
    """Of each trial of one real run, seconds."""
    command = [str(Path(sys.executable).with_name("pinchpoint")), "run", str(SCENARIO), "--quiet", "--out", str(folder)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    (run,) = folder.iterdir()
    trials = [json.loads(line) for line in (run / "trials.jsonl").read_text().splitlines()]
    return [trial["wall_s"] - trial["sent_duration_s"] - DRAIN_S for trial in trials]

"""What the lab adds to every trial beyond traffic and drain: reading counters, probes, judging, writing, searching."""

import json
import subprocess
import sys
from datetime import datetime
from itertools import pairwise
from pathlib import Path

SCENARIO = Path(__file__).with_name("both-ways.toml")
DRAIN_S = 0.1


def overheads_s(folder: Path) -> list[float]:
    """From one trial's start to the next one's, less traffic and drain; of a real search, seconds."""
    command = [str(Path(sys.executable).with_name("pinchpoint")), "run", str(SCENARIO), "--quiet", "--out", str(folder)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    (run,) = folder.iterdir()
    trials = [json.loads(line) for line in (run / "trials.jsonl").read_text().splitlines()]
    searched = [trial for trial in trials if trial["phase"] == "search"]
    starts = [datetime.fromisoformat(trial["started"]) for trial in searched]
    between_s = [(after - before).total_seconds() for before, after in pairwise(starts)]
    return [whole - trial["sent_duration_s"] - DRAIN_S for whole, trial in zip(between_s, searched, strict=False)]

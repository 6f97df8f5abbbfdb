"""The tutorial's commands, in their order, do what it says; only the trials are shorter.

A comparison that was decided has a ratio with an interval, as step 5 promises; one that was not gives the reason.
"""

import os
import re
import subprocess
from pathlib import Path

import pytest
from bench_tools import PINCHPOINT, ROOT

from pinchpoint.store.folder import COMPARISON

pytestmark = [pytest.mark.tier2("the tutorial's commands"), pytest.mark.needs("dpdk")]

CONSOLE = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
BRIEF = " --set search.max_traffic_s=2 --set search.max_duration_s=20 --set search.relative_width=0.3"
SHORTER = {
    "pinchpoint run first.toml": f"{BRIEF} --no-ceiling",
    "pinchpoint compare first.toml second.toml": f"{BRIEF} --no-ceiling --benches 1 --slices 30s",
}


def test_the_tutorial_can_be_followed(tmp_path, nothing_left):
    lines = [
        line for block in CONSOLE.findall((ROOT / "docs" / "tutorial.md").read_text()) for line in block.splitlines()
    ]
    assert set(SHORTER) <= set(lines)
    environment = {**os.environ, "PATH": f"{Path(PINCHPOINT).parent}:{os.environ['PATH']}"}
    for line in lines:
        words = line + SHORTER.get(line, "")
        done = subprocess.run(
            ["bash", "-c", words],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=280,
            check=False,
        )
        decided = (0, 9) if line in SHORTER else (0,)  # 9: a busy host may leave so little traffic undecided
        assert done.returncode in decided, f"{words}\n{done.stdout}\n{done.stderr}"
        if line.startswith("pinchpoint compare "):
            assert_compared(tmp_path, done)
    assert list(tmp_path.glob("runs/first-2*/report.html"))


def assert_compared(folder, done):
    if done.returncode:
        assert "could not be decided: " in done.stderr
        return
    (file,) = folder.glob("runs/*/comparison.json")
    (part,) = COMPARISON.decode(file.read_bytes(), "").scenarios
    for metric in (metric for metric in part.metrics if metric.judged):
        assert metric.interval and metric.interval.low <= metric.interval.high, metric.sentence

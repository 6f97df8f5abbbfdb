"""Campaigns that take seconds a point, and what must hold of their folders."""

import json
from pathlib import Path

WIRE = """
title = "A wire"
measure = "load"
[dut]
kind = "wire"
io = "veth"
cpus = [1]
[[port]]
name = "left"
[[port]]
name = "right"
[engine]
cpus = [0]
[[stream]]
from = "left"
to = "right"
[load]
at_fps = [5000]
duration_s = 0.2
repeats = 1
[validity]
gap_shortfall_ratio = 0.9
[sweep]
[[sweep.factor]]
name = "size"
keys = ["stream[1].frame_bytes"]
levels = {sizes}
"""
CAMPAIGN = """
scenarios = ["wire.toml"]
repeats = {repeats}
retries = 3
"""


def write_campaign(folder, sizes, repeats, more=""):
    """A campaign of so many frame sizes and repeats; returns its file."""
    (folder / "wire.toml").write_text(WIRE.format(sizes=[64 + 16 * n for n in range(sizes)]))
    path = folder / "short.toml"
    path.write_text(CAMPAIGN.format(repeats=repeats) + more)
    return path


def only_folder(out):
    """The only campaign below a folder."""
    (path,) = Path(out).iterdir()
    return path


def log_of(out):
    """What its log says so far; a line that is being written is left out."""
    files = list(Path(out).glob("*/attempts.jsonl"))
    text = files[0].read_text() if files else ""
    return [json.loads(line) for line in text.split("\n")[:-1]]


def require_whole(path, units):
    """Nothing is missing, and nothing is counted twice."""
    result = json.loads((path / "result.json").read_text())
    names = [scenario["scenario"] for scenario in result["scenarios"]]
    assert result["finished"]
    assert len(names) == len(set(names)) == units
    assert {scenario["outcome"] for scenario in result["scenarios"]} == {"measured"}
    log = [json.loads(line) for line in (path / "attempts.jsonl").read_text().splitlines()]
    finished = [entry for entry in log if entry["what"] == "finished"]
    assert sorted(entry["unit"] for entry in finished) == sorted(names), "each unit has one finished attempt"
    for entry in finished:
        own = [event["what"] for event in log if event["attempt"] == entry["attempt"]]
        assert "begun" not in own[own.index("finished") :], "an attempt that finished is not begun again"
    began = [entry["attempt"] for entry in log if entry["what"] == "begun"]
    breaks = [entry["attempt"] for entry in log if entry["what"] == "interrupted"]
    assert all(began.count(attempt) <= 1 + breaks.count(attempt) for attempt in began), "only what broke off is resumed"
    trials = [json.loads(line) for line in (path / "trials.jsonl").read_text().splitlines()]
    assert len({trial["id"] for trial in trials}) == len(trials)
    assert {trial["scenario"] for trial in trials} == set(names)
    for entry in finished:
        own = (path / "attempts" / entry["attempt"] / "trials.jsonl").read_text().splitlines()
        assert sum(trial["scenario"] == entry["unit"] for trial in trials) == len(own)

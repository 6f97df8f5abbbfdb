"""`make bench-serve`: how long the workshop's pages take over 1,000 runs with 100,000 trials in all.

The runs are made up: one trial and one result, kept over and over. Each page is fetched from the server itself, in this
process and without a network, so that a row is the server's own time. Fails where an aim is missed.
"""

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pinchpoint.host.local import Local
from pinchpoint.host.machines import Machines
from pinchpoint.serve.acts import Acts
from pinchpoint.serve.app import Workshop, application
from pinchpoint.serve.guard import Guard
from pinchpoint.serve.index import Index
from pinchpoint.serve.pages import Pages
from pinchpoint.serve.shelf import Shelf, Studies
from pinchpoint.store.folder import INFO, RESULT, TRIAL, RunFolder

SAMPLE = Path(__file__).parents[1] / "tests" / "golden" / "run"
RUNS, SMOKE_RUNS, TRIALS = 1000, 20, 100
PORT, ROUNDS = 8642, 5
AIMS_S = {"first index": 60.0, "list": 0.2, "list, filtered": 0.2, "run": 0.5, "scenario": 0.5}


def make(root: Path, runs: int) -> str:
    """Fill a folder; returns the name of a scenario in each of its runs."""
    sample = RunFolder(SAMPLE)
    info, result, trials = sample.read_info(), sample.read_result(), sample.read_trials()
    assert result is not None
    made = [replace(trials[n % len(trials)], id=f"{trials[n % len(trials)].scenario}-{n:04}") for n in range(TRIALS)]
    lines = b"".join(TRIAL.encode(trial, trial.id) + b"\n" for trial in made)
    for number in range(runs):
        started = f"20{number // 336 + 20}-{number % 336 // 28 + 1:02}-{number % 28 + 1:02}T03:04:05Z"
        folder = root / f"nightly-{number:04}"
        folder.mkdir()
        (folder / "run.json").write_bytes(INFO.encode(replace(info, run_id=folder.name, started=started), "run.json"))
        (folder / "result.json").write_bytes(RESULT.encode(replace(result, run_id=folder.name), "result.json"))
        (folder / "trials.jsonl").write_bytes(lines)
    return result.scenarios[0].scenario


def fetched(app: Any, path: str, query: str = "") -> float:
    """Seconds from a request to the end of its answer. Raises RuntimeError if that is no page."""
    status = []

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Mapping[str, Any]) -> None:
        status.append(message.get("status"))

    headers = [(b"host", f"127.0.0.1:{PORT}".encode())]
    scope = {"type": "http", "method": "GET", "path": path, "raw_path": path.encode(), "query_string": query.encode(),
             "headers": headers, "server": ("127.0.0.1", PORT), "client": ("127.0.0.1", 1), "scheme": "http",
             "http_version": "1.1", "root_path": "", "asgi": {"version": "3.0"}}  # fmt: skip
    begun = time.perf_counter()
    asyncio.run(app(scope, receive, send))
    took = time.perf_counter() - begun
    if status[0] != 200:
        raise RuntimeError(f"{path}: status {status[0]}")
    return took


def rows(runs: int) -> dict[str, float]:
    """Seconds by row; of the pages the median of some rounds."""
    with tempfile.TemporaryDirectory() as place:
        root = Path(place) / "runs"
        root.mkdir()
        scenario = make(root, runs)
        shelf = Shelf(root)
        index = Index(shelf, Path(place) / "index")
        begun = time.perf_counter()
        index.refresh()
        seconds = {"first index": time.perf_counter() - begun}
        app = application(
            Workshop(Pages(shelf, index), Acts(shelf, ()), Guard("token", PORT), Studies(dict, Machines(Local())))
        )
        last = f"/run/nightly-{runs - 1:04}"
        pages = {
            "list": ("/", ""),
            "list, filtered": ("/", "text=nightly&since=2020-02-01"),
            "run": (last, ""),
            "scenario": (f"{last}/scenario/{scenario}", ""),
            "trend over 500 runs": ("/trend", f"scenario={scenario}"),
        }
        for name, (path, query) in pages.items():
            fetched(app, path, query)  # templates are compiled once
            seconds[name] = statistics.median(fetched(app, path, query) for _ in range(ROUNDS))
    return seconds


def main() -> int:
    """Print the table; 1 where an aim is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--smoke", action="store_true", help="few runs; no aim is judged")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    runs = SMOKE_RUNS if asked.smoke else asked.runs
    seconds = rows(runs)
    if asked.json:
        print(json.dumps({"runs": runs, "trials": runs * TRIALS, "seconds": seconds}))
    else:
        print(f"{runs:,} runs, {runs * TRIALS:,} trials")
        for name, took in seconds.items():
            aim = f"   aim {AIMS_S[name]:g} s" if name in AIMS_S else ""
            print(f"  {name:22} {took:8.3f} s{aim}")
    return 0 if asked.smoke or all(seconds[name] <= aim for name, aim in AIMS_S.items()) else 1


if __name__ == "__main__":
    sys.exit(main())

"""`make bench-turnover`: benches built, opened by the engine and removed, one right after the other.

What a bench gives back, above all its hugepages, must be there for the next one at once. Each bench is a switch
on DPDK with the engine's ports open; nothing is sent.
"""

import argparse
import json
import statistics
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import cpu

from pinchpoint.bench.journal import machine_lock
from pinchpoint.dut.setup import await_engine_pages, prepare
from pinchpoint.engine.process import ProcessInstrument, find_engine
from pinchpoint.host.hugepages import pool
from pinchpoint.host.local import Local
from pinchpoint.host.machines import Machines
from pinchpoint.host.processes import ENVIRONMENT_MARK
from pinchpoint.measure.standing import Listener, standing_bench
from pinchpoint.model.errors import PinchpointError
from pinchpoint.model.scenario import Scenario
from pinchpoint.scenario import load

SCENARIO = Path(__file__).with_name("both-ways.toml")
BENCHES, SMOKE_BENCHES = 200, 3


@dataclass(frozen=True)
class Turn:
    """One bench: how long it took, and why it failed; empty if it did not."""

    seconds: float
    pages_total: int  # of the pool, once the bench is removed
    failure: str


def turned(scenario: Scenario) -> Turn:
    """Build, open the engine's ports, undo."""
    began, failure = time.monotonic(), ""
    try:
        setup = prepare(scenario, Machines(Local()))
        with standing_bench(setup, Listener()):
            environment = {ENVIRONMENT_MARK: setup.places.bench_id}
            instrument = ProcessInstrument(
                setup.engine, Local(), command=[find_engine(Local())], environment=environment
            )
            try:
                await_engine_pages(setup)
                instrument.open()
            finally:
                instrument.close()
    except PinchpointError as error:
        failure = str(error)
    return Turn(time.monotonic() - began, pool(Local())[0], failure)


def measure(scenario: Scenario, benches: int) -> list[Turn]:
    """All turns; nothing else may use the machine's bench meanwhile."""
    cpu.end_on_signals()
    turns: list[Turn] = []
    with machine_lock(Local()):
        for number in range(1, benches + 1):
            turns.append(turned(scenario))
            if turns[-1].failure or number % 10 == 0 or number == benches:
                outcome = turns[-1].failure or f"{turns[-1].seconds:.2f} s"
                print(f"bench {number} of {benches}: {outcome}", file=sys.stderr, flush=True)
    return turns


def main() -> int:
    """Measure and print; 1 if a bench failed or left hugepages behind."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--benches", type=int, default=BENCHES, metavar="N", help=f"how many ({BENCHES})")
    parser.add_argument("--scenario", type=Path, default=SCENARIO, help="whose bench is built (%(default)s)")
    parser.add_argument("--json", action="store_true", help="print every turn instead of a summary")
    parser.add_argument("--smoke", action="store_true", help=f"{SMOKE_BENCHES} benches")
    asked = parser.parse_args()
    before = pool(Local())[0]
    turns = measure(load(asked.scenario), SMOKE_BENCHES if asked.smoke else asked.benches)
    failed = sum(bool(turn.failure) for turn in turns)
    left = turns[-1].pages_total - before
    if asked.json:
        print(json.dumps([asdict(turn) for turn in turns]))
    else:
        median_s = statistics.median(turn.seconds for turn in turns)
        print(f"{len(turns)} benches in a row: {failed} failed, {left} hugepages left, {median_s:.2f} s each (median)")
    return int(failed > 0 or left != 0)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PinchpointError as error:
        sys.exit(str(error))

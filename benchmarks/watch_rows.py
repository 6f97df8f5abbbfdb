"""`make bench-watch`: how much a loaded switch forwards while `pinchpoint watch` reads it, and while it does not.

One switch is overloaded in trials that hold two readings each. The watch runs in every other one and is stopped
(SIGSTOP) in the rest, in the order A B B A. Where it runs is the kernel's choice: on a machine without an idle core it
takes its time from the engine or from the switch.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path

import cpu

from pinchpoint.bench.journal import machine_lock
from pinchpoint.dut.setup import prepare
from pinchpoint.engine.process import find_engine
from pinchpoint.host.local import Local
from pinchpoint.host.machines import Machines
from pinchpoint.host.priority import preferred
from pinchpoint.measure.frames import measuring
from pinchpoint.measure.standing import Listener, Standing, Task, standing_bench
from pinchpoint.model.errors import PinchpointError
from pinchpoint.model.scenario import Scenario
from pinchpoint.scenario import load
from pinchpoint.stats.paired import PairedDifference, compare_pairs

SCENARIO = Path(__file__).with_name("one-way.toml")
OVERLOAD_FPS = 30e6
TRIAL_S = 2.0
PAIRS, SMOKE_PAIRS = 40, 1
SETTLE_S = 0.2


@contextmanager
def watching(place: str) -> Iterator[subprocess.Popen[bytes]]:
    """A watch of the switch in `place`, stopped for now, in a session of its own as another terminal's would be."""
    program = Path(sys.executable).with_name("pinchpoint")
    command = [str(program), "watch", place, "--for", "2h", "--json"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True) as watch:
        try:
            time.sleep(3 * TRIAL_S)  # it has begun to read
            if watch.poll() is not None:
                raise PinchpointError(f"the watch has ended: {watch.stderr.read().decode() if watch.stderr else ''}")
            watch.send_signal(signal.SIGSTOP)
            yield watch
        finally:
            watch.kill()


def measured(scenario: Scenario, pairs: int) -> tuple[list[float], list[float]]:
    """Frames per second that the switch forwarded, without and with a watch; by pair."""
    rates: dict[bool, list[float]] = {False: [], True: []}
    setup = prepare(scenario, Machines(Local()))
    with preferred(), standing_bench(setup, Listener()), closing(setup.bench.open()) as live:
        bench = Standing(setup, live, [find_engine(Local())], Task(), time.monotonic())
        with measuring(bench) as session, watching(str(setup.places.directory)) as watch:
            for number in range(pairs):
                for is_watched in (False, True) if number % 2 == 0 else (True, False):
                    watch.send_signal(signal.SIGCONT if is_watched else signal.SIGSTOP)
                    time.sleep(SETTLE_S)
                    trial = session.trial("watch", TRIAL_S, OVERLOAD_FPS)
                    rates[is_watched].append(trial.ledger.received / trial.sent_duration_s)
    return rates[False], rates[True]


def line(cost: PairedDifference) -> str:
    """What it costs to be watched."""
    return (
        f"watched: {cost.value:.4f} x [{cost.low:.4f} .. {cost.high:.4f}] of what is forwarded unwatched, "
        f"{cost.n} pairs of {TRIAL_S:g} s"
    )


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=PAIRS, metavar="N", help=f"of trials ({PAIRS})")
    parser.add_argument("--scenario", type=Path, default=SCENARIO, help="whose switch is watched (%(default)s)")
    parser.add_argument("--json", action="store_true", help="print the figures")
    parser.add_argument("--smoke", action="store_true", help=f"{SMOKE_PAIRS} pair")
    asked = parser.parse_args()
    cpu.end_on_signals()
    with machine_lock(Local()):
        without, beside = measured(load(asked.scenario), SMOKE_PAIRS if asked.smoke else asked.pairs)
    cost = compare_pairs(without, beside)
    print(json.dumps(asdict(cost) | {"unwatched_fps": without, "watched_fps": beside}) if asked.json else line(cost))
    return 0


if __name__ == "__main__":
    os.umask(0o077)
    try:
        sys.exit(main())
    except PinchpointError as error:
        sys.exit(str(error))

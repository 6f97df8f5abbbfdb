"""The highest rate that Open vSwitch forwards between two vhost-user ports for each sender, both ways at once.

One core sends and receives on both ports, one PMD forwards. The yardstick is the
switch's own: frames that its ports sent, over the time between two readings.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from peers import engine, stream, testpmd, trial

from pinchpoint.bench.builder import Builder
from pinchpoint.dut.unixctl import Unixctl
from pinchpoint.observe.ovs import PmdThreads, Ports
from pinchpoint.scenario import load
from pinchpoint.sweep.setup import Setup, prepare

SECONDS = 3.0
SCENARIO = Path(__file__).with_name("both-ways.toml")


@contextmanager
def standing_switch() -> Iterator["Switch"]:
    """A private Open vSwitch that forwards left to right and back."""
    setup = prepare(load(SCENARIO))
    builder = Builder(setup.places.bench_id)
    builder.apply(setup.resources)
    try:
        yield Switch(setup)
    finally:
        builder.undo()


class Switch:
    """Reads what the switch forwarded."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        places = setup.places
        self._ports = Ports(places.management, {"1": "left", "2": "right"}, dict(places.environment))
        self._pmds = PmdThreads(Unixctl(places.control))

    def forwarded(self, seconds: float) -> tuple[float, float]:
        """(frames per second sent by both ports, busy share of the PMD) over the next `seconds`."""
        ports, pmds = self._ports.snapshot(), self._pmds.snapshot()
        time.sleep(seconds)
        ports_after, pmds_after = self._ports.snapshot(), self._pmds.snapshot()
        names = [f"ovs/port/{port}/tx_pkts" for port in ("left", "right")]
        sent = sum(ports_after.counters[name] - ports.counters[name] for name in names)
        busy, idle = (
            pmds_after.counters[f"ovs/pmd/core1/{kind}_cycles"] - pmds.counters[f"ovs/pmd/core1/{kind}_cycles"]
            for kind in ("processing", "idle")
        )
        return sent / (ports_after.at_s - ports.at_s), busy / (busy + idle)


def ours(switch: Switch, core: int) -> tuple[float, float]:
    """Frames per second forwarded for the engine, unpaced."""
    both = [stream(0, "left", "right"), stream(1, "right", "left")]
    with engine(switch.setup.engine.ports, core) as running:
        running.run(trial(both, 0.3))
        send_s = SECONDS + 1.0
        found: list[tuple[float, float]] = []
        reader = threading.Timer(0.5, lambda: found.append(switch.forwarded(SECONDS)))
        reader.start()
        running.run(trial(both, send_s))
        reader.join()
    return found[0]


def theirs(switch: Switch, core: int, folder: Path) -> tuple[float, float]:
    """Frames per second forwarded for testpmd flowgen."""
    vdevs = [port.device for port in switch.setup.engine.ports]
    with testpmd(vdevs, core, folder / "testpmd.log"):
        time.sleep(2.5)  # the switch looks for the sockets about once a second
        return switch.forwarded(SECONDS)

"""The rate that Open vSwitch forwards between two vhost-user ports for each sender.

One core sends and receives, one PMD forwards. The yardstick is the switch's own: frames
that its ports sent, over the time between two readings.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from contest import Aim, Contender, Contest, Line, Sample
from cpu import CpuMeter
from peers import TESTPMD_STARTED as STARTED
from peers import WARM_UP_S, cores_apart, engine, missing, one_worker, peer, stream, testpmd

from pinchpoint.bench.builder import Builder
from pinchpoint.dut.ovs.collectors import PmdThreads, Ports
from pinchpoint.dut.ovs.places import OvsPlaces, Unixctl
from pinchpoint.dut.setup import Setup, prepare
from pinchpoint.engine import streams
from pinchpoint.host.local import Local
from pinchpoint.host.machines import Machines
from pinchpoint.scenario import load

BOTH_WAYS = Path(__file__).with_name("both-ways.toml")
ONE_WAY = Path(__file__).with_name("one-way.toml")
PMD_CORE = 1  # as the scenarios say
PMD_BUSY, PMD_CYCLES = "PMD busy %", "PMD cycles a frame"
FORWARDING_FPS = 1e5  # from then on the switch, which looks about once a second, has found the sockets


@contextmanager
def standing_switch(scenario: Path) -> Iterator["Switch"]:
    """A private Open vSwitch."""
    setup = prepare(load(scenario), Machines(Local()))
    builder = Builder(setup.places.bench_id, Local())
    builder.apply(setup.resources)
    try:
        yield Switch(setup)
    finally:
        builder.undo()


class Switch:
    """Reads what the switch forwarded."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        places = OvsPlaces.of(setup.places)
        self._ports = Ports(places, "br0", {"1": "left", "2": "right"})
        self._pmds = PmdThreads(Unixctl(Local(), places.control))

    def forwarded(self, members: list[int], core: int, seconds: float) -> Sample:
        """What both ports sent over the next `seconds`, and what `members` took of the CPU for it."""
        ports, pmds = self._ports.snapshot(), self._pmds.snapshot()
        with CpuMeter(members, (core,)) as meter:
            time.sleep(seconds)
        ports_after, pmds_after = self._ports.snapshot(), self._pmds.snapshot()
        names = [f"ovs/port/{port}/tx_pkts" for port in ("left", "right")]
        sent = sum(ports_after.counters[name] - ports.counters[name] for name in names)
        busy, idle = (
            pmds_after.counters[f"ovs/pmd/core{PMD_CORE}/{kind}_cycles"]
            - pmds.counters[f"ovs/pmd/core{PMD_CORE}/{kind}_cycles"]
            for kind in ("processing", "idle")
        )
        notes = {PMD_BUSY: 100 * busy / (busy + idle)}
        if sent:
            notes[PMD_CYCLES] = busy / sent
        return Sample(sent / (ports_after.at_s - ports.at_s), meter.share, meter.kernel_share, notes)

    def until_forwarding(self, timeout_s: float = 10.0) -> None:
        """Until frames pass. Raises RuntimeError if none do in time."""
        deadline = time.monotonic() + timeout_s
        while self.forwarded([], 0, 0.3).rate < FORWARDING_FPS:
            if time.monotonic() > deadline:
                raise RuntimeError("the switch forwards nothing")


def ours(switch: Switch, sent: Sequence[streams.StreamRequest], core: int, seconds: float) -> Sample:
    """The engine, unpaced."""
    ports = switch.setup.engine.ports
    with engine(ports, one_worker(core, ports), dpdk=True) as running:
        _, sample = running.during(sent, seconds, lambda: switch.forwarded([running.pid], core, seconds))
    return replace(sample, notes=sample.notes | cores_apart(core, PMD_CORE))


def theirs(switch: Switch, core: int, seconds: float, folder: Path, *, as_one: bool) -> Sample:
    """Testpmd flowgen on both ports; `as_one` sends on the first only, but receives on both.

    Flowgen sends on every port that it polls. The fail-safe driver makes one port of the
    two: it receives from all of its devices and sends to the first.
    """
    devices = [port.device for port in switch.setup.engine.ports]
    if as_one:
        devices = ["net_failsafe0," + ",".join(f"dev({device})" for device in devices)]
    with peer(testpmd(devices, core), core, folder / "testpmd.log") as running:
        running.wait_for(STARTED)
        time.sleep(WARM_UP_S)
        switch.until_forwarding()
        sample = switch.forwarded(running.members(), core, seconds)
    return replace(sample, notes=sample.notes | cores_apart(core, PMD_CORE))


def contests(core: int, folder: Path, seconds: float) -> list[Contest]:
    """One way, then both ways."""
    one_way = [stream(0, "left", "right")]
    both = [*one_way, stream(1, "right", "left")]
    # The switch is the limit, whoever sends: it shall be no slower, and have no more work, for a checked frame.
    aims = (Aim(PMD_BUSY, 95.0), Aim("ratio", 1.0), Aim(PMD_CYCLES, 1.0, at_most=True, of_peers=True))
    remark = "ours: received, checked and timed; testpmd: both ports as one by net_failsafe, received and dropped"
    return [
        _contest("one way", ONE_WAY, one_way, core, seconds, folder, aims, remark),
        _contest("both ways", BOTH_WAYS, both, core, seconds, folder, aims[1:], ""),
    ]


def _contest(
    ways: str,
    scenario: Path,
    sent: Sequence[streams.StreamRequest],
    core: int,
    seconds: float,
    folder: Path,
    aims: tuple[Aim, ...],
    remark: str,
) -> Contest:
    as_one = len(sent) == 1
    work = f"64 B through OVS vhost-user, {ways}, sent and received by one core"
    contenders = (
        Contender("pinchpoint", lambda switch: ours(switch, sent, core, seconds)),
        Contender(
            "testpmd flowgen",
            lambda switch: theirs(switch, core, seconds, folder, as_one=as_one),
            missing("dpdk-testpmd"),
        ),
    )
    line = Line(work, "pinchpoint", "testpmd flowgen", aims, remark)
    return Contest(work, "frames", contenders, (line,), lambda: standing_switch(scenario))

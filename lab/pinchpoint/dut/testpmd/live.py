"""A running testpmd: its counters, from the telemetry socket of its DPDK (howto/telemetry in DPDK's documentation)."""

import json
import re
import time
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from typing import Any

from pinchpoint.bench.actions import daemon_pid
from pinchpoint.bench.resource import Daemon
from pinchpoint.dut.device import PlainLive
from pinchpoint.host.interface import Host
from pinchpoint.model.errors import DutError
from pinchpoint.observe.cpu import PacketThreads
from pinchpoint.observe.snapshot import Collector, Snapshot

_START_TIMEOUT_S = 20.0  # taking and clearing hugepages; more of them take longer
_ANSWER_TIMEOUT_S = 2.0
_LONGEST_BYTES = 16_384  # of an answer, as DPDK's greeting says
_WORKER = re.compile(r"(rte|dpdk|lcore)-worker-?\d+")  # of DPDK 22.11, and of later and earlier ones
_NO_THREAD = re.compile("(?!)")  # its main thread only waits
_COUNTED = ("ipackets", "opackets", "imissed", "ierrors", "oerrors", "rx_nombuf")


def ask(host: Host, path: str, command: str) -> Any:
    """The answer at a telemetry socket to `command`, e.g. `/ethdev/stats,0`. Raises DutError."""
    try:
        with closing(host.connect(path, packets=True)) as connection:
            connection.settimeout(_ANSWER_TIMEOUT_S)
            connection.recv(_LONGEST_BYTES)  # the greeting
            connection.sendall(command.encode())
            return json.loads(connection.recv(_LONGEST_BYTES))[command.partition(",")[0]]
    except (OSError, ValueError, KeyError) as error:
        raise DutError(f"testpmd does not answer {command} at {path}: {error}", "see its log") from error


class Ports:
    """Frames in and out of both ports, and those that each forwarding thread received."""

    name = "testpmd ports"

    def __init__(self, host: Host, telemetry: str, names: Sequence[str], cpus: Sequence[int]) -> None:
        """`names` in the order of DPDK's port numbers."""
        self._host, self._telemetry, self._names, self._cpus = host, telemetry, names, cpus
        self._refused = dict.fromkeys(names, 0)

    def can_run(self) -> str | None:
        """Always: the bench stands once the socket answers."""
        return None

    def snapshot(self) -> Snapshot:
        """`testpmd/port/NAME/COUNTER` and `testpmd/core/CPU/received`: frames.

        Neither driver counts what its ring refused. `.../refused` are the frames that the other port received and
        this one did not send: testpmd drops what a ring does not take, and nothing else. They are too few while
        frames are on their way, and exact once they have ended.
        """
        at_s, counters = time.monotonic(), dict[str, int]()
        ports = [self._read(number) for number in range(len(self._names))]
        for number, (name, port) in enumerate(zip(self._names, ports, strict=True)):
            counters |= {f"testpmd/port/{name}/{counter}": int(port[counter]) for counter in _COUNTED}
            # Streams are dealt to the cores in the order of their ports.
            thread = f"testpmd/core/{self._cpus[number % len(self._cpus)]}/received"
            counters[thread] = counters.get(thread, 0) + int(port["ipackets"])
        for number, name in enumerate(self._names):
            # What left is read after what came: a frame between the two makes the difference too small, never too big.
            refused = int(ports[1 - number]["ipackets"]) - int(self._read(number)["opackets"])
            counters[f"testpmd/port/{name}/refused"] = self._refused[name] = max(self._refused[name], refused)
        return Snapshot(at_s, counters)

    def _read(self, number: int) -> Any:
        return ask(self._host, self._telemetry, f"/ethdev/stats,{number}")


class TestpmdLive(PlainLive):
    """A testpmd that stands."""

    words = "testpmd"

    def __init__(self, host: Host, daemon: Daemon, telemetry: str, ports: Ports) -> None:
        """Wait until it forwards. Raises DutError; where it has ended, with the end of its log."""
        self._host, self._daemon, self._telemetry, self._ports = host, daemon, telemetry, ports
        deadline = time.monotonic() + _START_TIMEOUT_S
        while not self._forwards():
            daemon_pid(daemon, host)
            if time.monotonic() > deadline:
                raise DutError(f"testpmd does not forward after {_START_TIMEOUT_S:g} s", f"see {daemon.log}")
            time.sleep(0.02)

    def collectors(self) -> list[Collector]:
        """Its threads and its ports."""
        return [*self.witnesses(), self._ports]

    def witnesses(self) -> list[Collector]:
        return [PacketThreads(self._host, self._daemon.pidfile, _WORKER, _NO_THREAD)]

    def versions(self) -> Mapping[str, str]:
        return {"testpmd dpdk_version": ask(self._host, self._telemetry, "/info")["version"]}

    def log(self) -> tuple[str, str] | None:
        """What it printed, as far as it is written: it prints late."""
        with suppress(OSError):
            return "testpmd.log", self._host.read(self._daemon.log)
        return None

    def _forwards(self) -> bool:
        """Whether its ports are started; forwarding begins at once."""
        with suppress(DutError):
            return all(
                ask(self._host, self._telemetry, f"/ethdev/info,{number}").get("dev_started") for number in (0, 1)
            )
        return False

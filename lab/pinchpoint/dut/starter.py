"""What a kind of device may offer for `pinchpoint init`: plain scenarios of it. A kind without them offers none."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from pinchpoint.dut.device import Device
from pinchpoint.engine.protocol import BackendName


@dataclass(frozen=True)
class Starter:
    """A plain scenario of a kind, between the ports left and right."""

    rank: int  # lower ones are preferred
    kind: str
    words: str  # what it is, a noun phrase
    why: str  # why one would begin with it, after a colon
    title: str  # of the scenario
    dut: str  # the keys of [dut], TOML; `{cpus}` stands for a list of one CPU
    polls: bool  # whether its CPU is busy without traffic
    backend: BackendName  # of the engine's ends
    ring: int = 0  # descriptors of each port; 0: it has none to choose


@runtime_checkable
class Starting(Protocol):
    """A device that has starters."""

    def starters(self) -> Iterator[Starter]:
        """Plain scenarios of it."""


def starters(device: Device) -> Iterator[Starter]:
    """Those of a device; none where it offers none."""
    if isinstance(device, Starting):
        yield from device.starters()

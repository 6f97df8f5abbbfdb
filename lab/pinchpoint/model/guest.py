"""Guests: what a scenario says of one, when there is one, what it has of a bench, and what its processor is."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class When(StrEnum):
    """When there is a guest."""

    ALWAYS = "always"
    NEEDED = "needed"  # where the machine lacks what the device needs; no longer once that is known (dut/placement.py)


class Holds(StrEnum):
    """What a guest has of a bench."""

    DEVICE = "device"  # the engine is outside, each port a tap
    BENCH = "bench"  # everything: device, engine, ends; CPUs are the guest's


@dataclass(frozen=True)
class Guest:
    """A kernel of its own on this machine, on which the device runs, or the whole bench."""

    kernel: str  # "uml", "qemu", "auto": host/guest_kernels.py
    memory_mb: int
    release: str | None = None  # of the kernel, or the beginning of it: "6.12"; None: the kernel's own choice
    numa_nodes: int = 1
    holds: Holds = Holds.DEVICE
    cpus: int | None = None  # virtual CPUs, dealt to the nodes evenly; None: one for each node
    when: When = When.ALWAYS

    @property
    def virtual_cpus(self) -> int:
        """How many it has."""
        return self.cpus or self.numa_nodes


PROCESSOR: Final = "guest.processor"
"""Among the settings in force, of a bench with a kernel of its own: EMULATED, or REAL with user-mode Linux and KVM."""
EMULATED: Final = "emulated"
REAL: Final = "real"

"""Words of guests: when there is one, what it has of a bench, and what its processor is."""

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


PROCESSOR: Final = "guest.processor"
"""Among the settings in force: EMULATED, or REAL with user-mode Linux and KVM."""
EMULATED: Final = "emulated"
REAL: Final = "real"

"""Words of guests: what one has of a bench, and what its processor is."""

from enum import StrEnum
from typing import Final


class Holds(StrEnum):
    """What a guest has of a bench."""

    DEVICE = "device"  # the engine is outside, each port a tap
    BENCH = "bench"  # everything: device, engine, ends; CPUs are the guest's


PROCESSOR: Final = "guest.processor"
"""Among the settings in force: EMULATED, or REAL with user-mode Linux and KVM."""
EMULATED: Final = "emulated"
REAL: Final = "real"

"""Whether hardware forwards, as the conservation of frames says; a flag is only a claim."""

from dataclasses import dataclass
from enum import StrEnum


class Offload(StrEnum):
    """What is true of an offload that a device claims."""

    PROVEN = "proven"
    PARTIAL = "partial"
    CLAIMED = "claimed, not real"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class OffloadTruth:
    """The word, with what it rests on."""

    word: Offload
    claimed: float  # share of the datapath's flows that are said to be offloaded
    hardware: float | None  # share of the frames that software did not see; None: unknown
    missing: str = ""  # what could not be counted; empty unless it is unknown

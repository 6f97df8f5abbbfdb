"""Whether hardware forwards, as the conservation of frames says; a flag is only a claim."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from pinchpoint.model import units


class Offload(StrEnum):
    """What is true of an offload that a device claims."""

    PROVEN = "proven"
    PARTIAL = "partial"
    CLAIMED = "claimed, not real"
    UNKNOWN = "unknown"


class OffloadLimit(StrEnum):
    """What is known to keep a flow in software, whatever its flag says. The value is its words."""

    ONE_WAY = "UDP whose connection saw no reply"
    NOT_ESTABLISHED = "TCP that is not established"
    TRACKED_ICMP = "ICMP under connection tracking"
    FRAGMENTS = "fragments"
    TTL = "a TTL of 1 or less"
    TRACKING = "connection tracking, which the userspace datapath does not offload"
    RECIRCULATED = "recirculation, which the userspace datapath does not offload"
    USERSPACE = "an action that hands frames to user space"
    TUNNEL = "a tunnel, which the userspace datapath offloads only in part"
    NORMAL = "the action NORMAL in table 0"


@dataclass(frozen=True)
class OffloadTruth:
    """The word, with what it rests on."""

    word: Offload
    claimed: float  # share of the datapath's flows that are said to be offloaded
    hardware: float | None  # share of the frames that software did not see; None: unknown
    missing: str = ""  # what could not be counted; empty unless it is unknown
    limits: Mapping[OffloadLimit, float] = field(default_factory=dict)  # share of the frames that each keeps

    @property
    def sentence(self) -> str:
        """What is true, with the claim beside it; where hardware is proven to forward, nothing kept the frames."""
        claim = f"{units.share(self.claimed)} of the flows are said to be offloaded"
        kept = [f"{limit} ({units.share(share)} of the frames)" for limit, share in self.limits.items()]
        is_kept = kept and self.word is not Offload.PROVEN
        limits = f"; known to stay in software: {', '.join(kept)}" if is_kept else ""
        seen = f"{claim}, and {self.missing}"
        if self.hardware is not None:
            seen = f"hardware forwarded {units.share(self.hardware)} of the frames, and {claim}"
        return f"{self.word}: {seen}{limits}"

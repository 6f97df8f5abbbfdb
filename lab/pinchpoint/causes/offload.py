"""Whether a claimed offload is real: frames that entered against frames that software saw. Pure."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from pinchpoint.model.causes import Sign
from pinchpoint.model.offload import Offload, OffloadLimit, OffloadTruth

REST: Final = 0.01
"""Share of the frames: the first of every flow are software's, and counters are read at different times."""


def truth(signs: Mapping[Sign, float], limits: Mapping[OffloadLimit, float]) -> OffloadTruth | None:
    """What is true of the offload; None where no flow is said to be offloaded.

    `limits`: the share of the frames that each known limit keeps in software. They explain what is true and never
    decide it.
    """
    known = _truth(signs)
    return known and replace(known, limits=limits)


def _truth(signs: Mapping[Sign, float]) -> OffloadTruth | None:
    claimed = signs.get(Sign.CLAIMED)
    if not claimed:
        return None
    software = signs.get(Sign.SOFTWARE)
    if software is None:
        return OffloadTruth(Offload.UNKNOWN, claimed, None, "no counter tells which frames software handled")
    hardware = min(1.0, max(0.0, 1 - software))
    if hardware >= 1 - REST:
        return OffloadTruth(Offload.PROVEN, claimed, hardware)
    return OffloadTruth(Offload.CLAIMED if hardware <= REST else Offload.PARTIAL, claimed, hardware)

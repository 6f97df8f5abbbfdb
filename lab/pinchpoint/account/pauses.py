"""How long a pause the rings bear at a rate, and what a longer ring would gain. Pure.

A device that stands still for t seconds loses nothing while its ring takes up load x t frames. Where it forwards more
under overload than it carries without loss, half of the trials meet a pause that is longer than that, or a burst.
"""

from pinchpoint.model.levels import FAR_BELOW_MRR
from pinchpoint.model.result import PauseGap, Rate, RateStatus, ReceiveRate


def pause_gap(ndr: Rate, mrr: ReceiveRate | None, ring: int) -> PauseGap | None:
    """The gap between an NDR and the MRR as a pause against a ring of `ring` frames; None where they lie near.

    Twice the ring bears the same pause at twice the load, up to what the device forwards.
    """
    if mrr is None or ndr.status is not RateStatus.FOUND or not ndr.quoted_fps:
        return None
    if (ndr.upper_fps or ndr.quoted_fps) >= FAR_BELOW_MRR * mrr.lower_fps:
        return None
    return PauseGap(
        ring=ring,
        pause_s=ring / ndr.quoted_fps,
        longer_ring=2 * ring,
        longer_ring_fps=min(2 * ndr.quoted_fps, mrr.estimate_fps),
    )

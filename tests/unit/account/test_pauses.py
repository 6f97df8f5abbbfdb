"""An NDR far below the MRR is told as the pause that the rings bear."""

import pytest

from pinchpoint.causes.bounds import pause_gap
from pinchpoint.model.result import Band, PauseGap, Rate, RateStatus, ReceiveRate


def ndr(fps, status=RateStatus.FOUND):
    return Rate(0.0, status, 0.99 * fps, 1.01 * fps, 0.2, 0.0, "", estimate_fps=fps)


def mrr(fps):
    return ReceiveRate(12e6, fps, 0.99 * fps, 1.01 * fps, Band(0.98 * fps, 1.02 * fps), 7, 0.2, 0.95)


def test_the_pause_is_what_the_ring_holds_at_the_ndr_and_twice_the_ring_bears_it_at_twice_the_load() -> None:
    gap = pause_gap(ndr(4e6), mrr(10e6), ring=4096)
    assert gap == PauseGap(4096, pytest.approx(1.024e-3), 8192, 8e6)


def test_no_ring_gives_more_than_the_device_forwards() -> None:
    gap = pause_gap(ndr(6.8e6), mrr(10e6), ring=4096)
    assert gap is not None and gap.longer_ring_fps == 10e6


@pytest.mark.parametrize(
    ("rate", "overloaded"),
    [(ndr(9.5e6), mrr(10e6)), (ndr(4e6), None), (ndr(4e6, RateStatus.AT_LEAST), mrr(10e6))],
    ids=["near", "no MRR", "no NDR"],
)
def test_without_a_gap_there_is_no_pause(rate, overloaded) -> None:
    assert pause_gap(rate, overloaded, ring=4096) is None

"""How far apart the cores were."""

import pytest
from trials import trial

from pinchpoint.account.facts import core_distances


def test_no_probe_no_distance():
    assert core_distances([trial()]) is None


def test_one_mode_has_no_far_side():
    distances = core_distances([trial(cache_line=(30.0, 33.0)), trial(cache_line=(38.0, None))])
    assert distances is not None
    assert (distances.median_ns, distances.min_ns, distances.max_ns, distances.probes) == (33.0, 30.0, 38.0, 3)
    assert (distances.far_share, distances.note) == (0.0, "")


def test_two_modes_are_told_apart_and_noted():
    distances = core_distances(
        [trial(cache_line=(30.0, 33.0)), trial(cache_line=(140.0, 150.0)), trial(cache_line=(31.0, 34.0))]
    )
    assert distances is not None
    assert distances.far_share == pytest.approx(1 / 3)
    assert "mixed" in distances.note

"""How far apart the cores were."""

import pytest
from trials import trial

from pinchpoint.account.facts import core_distances


def test_no_probe_no_distance():
    assert core_distances([trial()]) is None


def test_one_mode_has_no_far_side():
    found = core_distances([trial(cache_line=(30.0, 33.0)), trial(cache_line=(38.0, None))])
    assert found is not None
    assert (found.median_ns, found.min_ns, found.max_ns, found.probes) == (33.0, 30.0, 38.0, 3)
    assert (found.far_share, found.note) == (0.0, "")


def test_two_modes_are_told_apart_and_noted():
    found = core_distances(
        [trial(cache_line=(30.0, 33.0)), trial(cache_line=(140.0, 150.0)), trial(cache_line=(31.0, 34.0))]
    )
    assert found is not None
    assert found.far_share == pytest.approx(1 / 3)
    assert "mixed" in found.note

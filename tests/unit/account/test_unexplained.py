"""Lost frames that no counter names: their share of a search, and between which places they vanish."""

from dataclasses import replace

import pytest
from trials import stream_counts, trial

from pinchpoint.account.ledger import unexplained_place, unexplained_share, unexplained_words
from pinchpoint.model.trial import Drop, Hop, Ledger, TrialValidity


def lossy(lost, named=0, hops=(), resets=(), **options):
    """1,000,000 frames offered, some lost, some of these with a name."""
    drop = Drop("receive ring of left full", named, "a counter", "dut")
    counts = stream_counts(offered=1_000_000, received=1_000_000 - lost)
    made = trial(1e6, counts=counts, **options)
    ledger = Ledger(counts.offered, counts.received, (Hop("engine sends", None, None, (drop,)), *hops), resets)
    return replace(made, ledger=ledger)


def test_the_share_is_of_all_frames_that_valid_trials_offered():
    trials = [lossy(100, named=40), lossy(0), lossy(900_000, validity=TrialValidity.GENERATOR_LIMITED)]
    assert unexplained_share(trials) == pytest.approx(60 / 2_000_000)


def test_without_valid_trials_nothing_is_unexplained():
    assert unexplained_share([]) == 0.0
    assert unexplained_share([lossy(5, validity=TrialValidity.ABORTED)]) == 0.0


def test_counters_that_overbook_one_trial_do_not_make_up_for_another():
    assert unexplained_share([lossy(0, named=60), lossy(60)]) == pytest.approx(60 / 2_000_000)


def test_the_place_is_where_most_frames_vanish_between_two_counts():
    hops = (
        Hop("switch receives", 1_000_000, 1_000_000),
        Hop("datapath", 999_990, None),
        Hop("switch sends", 999_990, 999_990),
        Hop("engine receives", 999_000, 999_000),
    )
    assert unexplained_place([lossy(1000, hops=hops)]) == 'between "switch sends" and "engine receives"'
    assert "1,000 of 1,000 lost frames (0.10 % of 1,000,000 offered)" in unexplained_words([lossy(1000, hops=hops)])


def test_frames_may_vanish_within_a_hop_beyond_the_drops_that_it_names():
    inside = Drop("a full queue", 10, "a counter", "dut")
    assert (
        unexplained_place([lossy(1000, hops=(Hop("switch sends", 1_000_000, 999_000, (inside,)),))])
        == 'in "switch sends"'
    )


def test_where_no_two_counts_tell_that_is_said():
    assert unexplained_place([lossy(1000)]) == "at a place that no counter shows"


def test_counters_that_went_back_are_named_with_the_place():
    place = unexplained_place(
        [lossy(1000, resets=("ovs/port/left/rx_drop",)), lossy(5, resets=("ovs/port/left/rx_drop",))]
    )
    assert place.count("ovs/port/left/rx_drop") == 1
    assert place.endswith("ovs/port/left/rx_drop went back: what it counted meanwhile is not known"), "no restart"
    both = unexplained_place([lossy(5, resets=("ovs/port/left/rx_drop", "ovs/port/left/rx_pkts"))])
    assert "rx_drop, ovs/port/left/rx_pkts: a port or the device was restarted" in both

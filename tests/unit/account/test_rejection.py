"""Which trials of a search were discarded and why, and what the engine's gaps held back."""

from dataclasses import replace

import pytest
from trials import stream_counts, trial

from pinchpoint.account.validity import discarded, held_back
from pinchpoint.model.trial import Cause, TrialValidity


def invalid(cause, validity=TrialValidity.NOISY_HOST):
    return replace(trial(validity=validity), cause=cause, reason="a sentence that nothing depends on")


def test_the_share_and_its_causes_are_reported_from_a_quarter_on():
    still = [invalid(Cause.SENDER_STOOD_STILL)] * 2
    assert discarded([trial() for _ in range(9)] + still)[1] is None
    others = [invalid(Cause.RECEIVER_STOOD_STILL), invalid(Cause.CONTRADICTION, TrialValidity.COUNTER_MISMATCH)]
    (metric,), warning = discarded([trial() for _ in range(6)] + still + others)
    assert str(warning) == (
        "40.0 % of 10 trials discarded: 2 the engine's core stood still, "
        "1 the engine's core stood still while others sent, 1 counters contradict each other"
    )
    assert (metric.name, metric.unit, metric.value) == ("trials discarded", "share", pytest.approx(0.4))
    assert discarded([]) == ((), None)


def test_where_the_device_chose_which_trials_count_the_warning_says_so():
    """A switch whose other threads have the engine's core when it is busy leaves its quieter trials."""
    _, warning = discarded([trial(), invalid(Cause.RECEIVER_TAKEN)])
    assert "50.0 % of 2 trials discarded: 1 the device's threads had the engine's core" in str(warning)
    assert "the other trials may be its quieter ones" in str(warning)


def test_trials_stored_without_a_cause_are_counted_by_their_validity():
    (metric,), _ = discarded([invalid(None)])
    assert metric.note == "1 noisy host"


def test_every_cause_has_its_words():
    assert all(" " in cause.words for cause in Cause)


def test_loads_near_the_rate_that_gaps_held_back_by_more_than_a_search_distinguishes_are_reported():
    near = [trial(counts=stream_counts(offered=1000 - short, shortfall=short)) for short in (40, 20, 30)]
    far = [trial(2000.0, counts=stream_counts(offered=500, shortfall=500))] * 9
    assert "for 3.00 % of the trials near the rate (median)" in str(held_back(near + far, 1000.0, 0.005))
    assert held_back(near + far, 1000.0, 0.05) is None
    assert held_back(far, 1000.0, 0.005) is None
    assert held_back(near, None, 0.005) is None

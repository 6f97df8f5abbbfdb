"""Near and far cores are never mixed in one search."""

import pytest
from trials import trial

from pinchpoint.model.trial import TrialValidity
from pinchpoint.sweep.mode import Mode

NEAR = (26.0, 30.0)
FAR = (215.0, 225.0)


def test_the_first_judged_trial_names_the_mode_and_the_other_is_set_aside():
    mode = Mode()
    near = trial(cache_line=NEAR)
    assert mode.set_aside(near) == near
    aside = mode.set_aside(trial(cache_line=FAR))
    assert aside.validity is TrialValidity.NOISY_HOST
    assert aside.reason == "the cores were 220 ns apart, those of this search 28.0 ns"
    assert mode.set_aside(near) == near


def test_a_mode_may_as_well_be_the_far_one():
    mode = Mode()
    far = trial(cache_line=FAR)
    assert mode.set_aside(far) == far
    assert mode.set_aside(trial(cache_line=NEAR)).validity is TrialValidity.NOISY_HOST


def test_a_move_during_a_trial_belongs_to_neither():
    mode = Mode()
    mode.set_aside(trial(cache_line=NEAR))
    assert mode.set_aside(trial(cache_line=(26.0, 220.0))).validity is TrialValidity.NOISY_HOST


def test_the_mode_has_left_only_after_patience_in_a_row():
    mode = Mode()
    mode.set_aside(trial(cache_line=NEAR))
    for _ in range(3):
        mode.set_aside(trial(cache_line=FAR))
    assert not mode.has_left(3)
    mode.set_aside(trial(cache_line=FAR))
    assert mode.has_left(3)
    mode.set_aside(trial(cache_line=NEAR))
    assert not mode.has_left(3)
    mode.forget()
    assert mode.set_aside(trial(cache_line=FAR)).validity is TrialValidity.VALID


@pytest.mark.parametrize("cache_line", [(None, None), NEAR])
def test_without_probes_or_when_already_invalid_a_trial_stays_as_it_is(cache_line):
    mode = Mode()
    mode.set_aside(trial(cache_line=FAR))
    given = trial(cache_line=cache_line, validity=TrialValidity.COUNTER_MISMATCH)
    assert mode.set_aside(given) == given
    assert mode.set_aside(trial(cache_line=(None, None))).validity is TrialValidity.VALID

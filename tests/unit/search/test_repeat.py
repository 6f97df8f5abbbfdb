"""Invalid trials are repeated, within a bound, and a limited generator is only confirmed."""

from dataclasses import replace

import pytest
from simulated import Truth
from support import Bench

from pinchpoint.model.trial import Cause, Trial, TrialValidity
from pinchpoint.search import until_valid

VALID, LIMITED = TrialValidity.VALID, TrialValidity.GENERATOR_LIMITED
NOISY, MISMATCH, ABORTED = TrialValidity.NOISY_HOST, TrialValidity.COUNTER_MISMATCH, TrialValidity.ABORTED


class Script:
    """A Measure whose trials have the given validities, one after the other."""

    def __init__(self, *validities: TrialValidity) -> None:
        self.validities = list(validities)
        self.asked: list[tuple[float, float]] = []
        self.good = Bench(Truth(5e6)).measure(1.0, 1e6)

    def __call__(self, duration_s: float, load_fps: float) -> Trial:
        self.asked.append((duration_s, load_fps))
        return replace(self.good, id=str(len(self.asked)), validity=self.validities[len(self.asked) - 1])


@pytest.mark.parametrize(
    ("validities", "max_repeats", "measured"),
    [
        ((VALID, VALID), 8, 1),
        ((NOISY, VALID, VALID), 8, 2),
        ((NOISY, MISMATCH, ABORTED, VALID), 8, 4),
        ((NOISY, NOISY, NOISY, VALID), 2, 3),
        ((NOISY, VALID), 0, 1),
        ((LIMITED, VALID), 8, 2),
        ((LIMITED, LIMITED, VALID), 8, 2),
        ((LIMITED, NOISY, LIMITED, VALID), 8, 4),
        ((LIMITED, VALID), 0, 1),
    ],
)
def test_trials_are_repeated_until_one_is_valid_or_the_bound_is_reached(
    validities: tuple[TrialValidity, ...], max_repeats: int, measured: int
) -> None:
    script = Script(*validities)
    trial = until_valid(script, 1.0, 4e6, max_repeats)
    assert script.asked == [(1.0, 4e6)] * measured
    assert trial.id == str(measured)
    assert trial.validity is validities[measured - 1]


@pytest.mark.parametrize(
    ("validity", "cause", "usable"),
    [
        (VALID, None, True),
        (LIMITED, Cause.GENERATOR, True),
        (NOISY, Cause.SENDER_STOOD_STILL, True),
        (NOISY, Cause.RECEIVER_STOOD_STILL, False),
        (MISMATCH, Cause.CONTRADICTION, False),
        (ABORTED, Cause.DEVICE_DIED, False),
    ],
)
def test_a_trial_of_which_too_little_was_offered_counts_with_what_was(validity, cause, usable):
    trial = replace(Script().good, validity=validity, cause=cause)
    assert trial.is_usable is usable
    assert not replace(trial, offered=0).is_usable

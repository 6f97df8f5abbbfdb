"""Only valid trials may be judged: the others are repeated, within a bound."""

from collections.abc import Callable

from pinchpoint.model.trial import Trial, TrialValidity

Measure = Callable[[float, float], Trial]
"""measure(duration_s, load_fps): runs one trial, valid or not."""

GENERATOR_TRIES = 2  # a generator at its ceiling stays there: one repeat tells it from a slow moment


def until_valid(
    measure: Measure,
    duration_s: float,
    load_fps: float,
    max_repeats: int,
) -> Trial:
    """The first valid trial of at most 1 + `max_repeats`, else the last one.

    A trial limited by the generator is confirmed once; more repeats would not mend it.
    """
    limited_in_a_row = 0
    for repeats_left in range(max_repeats, -1, -1):
        trial = measure(duration_s, load_fps)
        is_limited = trial.validity is TrialValidity.GENERATOR_LIMITED
        limited_in_a_row = limited_in_a_row + 1 if is_limited else 0
        is_believed = limited_in_a_row == GENERATOR_TRIES
        if trial.validity is TrialValidity.VALID or is_believed or not repeats_left:
            break
    return trial

"""The trials of the MRR: the highest load that the engine offers on this bench, after everything else.

They are a phase of their own. The search tries its highest loads when it takes the device for fast, so that its
overloaded trials would bias the figure; and an overload before the search may change what the device carries next.
"""

from collections.abc import Sequence

from pinchpoint.measure.trial import Measurer, OverTime
from pinchpoint.model import units
from pinchpoint.model.result import Ceiling
from pinchpoint.model.scenario import Search
from pinchpoint.model.trial import Trial, TrialValidity
from pinchpoint.search.slices import slice_s
from pinchpoint.stats.receive_rate import USABLE, receive_rate

OVERLOADS = 7  # usable trials: the fewest but one that have a 95 % interval by ranks
MOST_OVERLOADS = 12


def highest_load_fps(search: Search, ceiling: Ceiling | None, searched: Sequence[Trial]) -> float:
    """What to ask of the engine: the most that it is known to offer, at most search.max_load_fps."""
    limited = [trial.offered_fps for trial in searched if trial.validity is TrialValidity.GENERATOR_LIMITED]
    if not limited and ceiling is None:
        return search.max_load_fps
    offered = [trial.offered_fps for trial in searched if trial.validity in USABLE]
    known_fps = max([*offered, *([ceiling.fps] if ceiling else [])])
    return max(search.min_load_fps, min(search.max_load_fps, known_fps))


def overloaded(measurer: Measurer, search: Search, load_fps: float) -> list[Trial]:
    """Trials at this load until seven have a usable account, or twelve were made. Raises what a trial raises."""
    over_time = OverTime(slice_s(search.trial_duration_s))
    made: list[Trial] = []
    while len(made) < MOST_OVERLOADS and sum(trial.validity in USABLE for trial in made) < OVERLOADS:
        made.append(measurer.trial("mrr", search.trial_duration_s, load_fps, over_time))
    return made


def without_rate(made: Sequence[Trial]) -> str:
    """Why these trials give no MRR; empty if they do, or none was made."""
    if not made or receive_rate(made) is not None:
        return ""
    usable = sum(trial.validity in USABLE for trial in made)
    return (
        f"no MRR: {usable} of {len(made)} trials at {units.fps(made[0].load_fps)} had a usable account; the last one: "
        f"{made[-1].reason}"
    )

"""A run in progress, from its files: what is done, what is left, where its search is."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pinchpoint.model.campaign import Progress
from pinchpoint.model.errors import PinchpointError
from pinchpoint.model.result import RunInfo, RunResult
from pinchpoint.model.trial import Trial
from pinchpoint.report import rate_figures
from pinchpoint.report.figures import Figure
from pinchpoint.run.budget import Forecast
from pinchpoint.scenario.plain import from_plain
from pinchpoint.store.campaign import CampaignFolder, is_campaign
from pinchpoint.store.folder import RunFolder, owner

MOST_TRIALS = 12  # the newest ones, of the table


@dataclass(frozen=True)
class Live:
    """The state of a run that has not finished."""

    pid: int | None  # of the process that measures; None: none does
    done: int
    units: int
    left_s: float | None  # None: not known
    current: str  # the scenario being measured
    trials: tuple[Trial, ...]  # the newest first
    made: int
    bounds: rate_figures.Bounds | None  # of its search, as it stands; None: it says nothing yet
    figure: Figure | None  # loads tried by the current scenario
    campaign: Progress | None = None  # of a campaign: its machines; its trials lie with its attempts


def live(folder: RunFolder, info: RunInfo, result: RunResult | None) -> Live:
    """What the files say now."""
    if is_campaign(folder.path):
        return _campaign(folder, info, result)
    done = {scenario.scenario: scenario.wall_s for scenario in result.scenarios} if result else {}
    names = [str(scenario.get("name", "")) for scenario in info.scenarios]
    trials = folder.read_trials()
    current = trials[-1].scenario if trials and trials[-1].scenario not in done else ""
    current = current or next((name for name in names if name not in done), "")
    own = [trial for trial in trials if trial.scenario == current]
    allowed = _allowed(info, current)
    bounds = rate_figures.narrowing(own, allowed)
    return Live(
        pid=owner(folder.path),
        done=sum(name in done for name in names),
        units=len(names),
        left_s=_left_s(info, done, own),
        current=current,
        trials=tuple(reversed(trials[-MOST_TRIALS:])),
        made=len(trials),
        bounds=bounds[-1] if bounds else None,
        figure=rate_figures.search_figure(None, own, bounds, allowed) if own else None,
    )


def _campaign(folder: RunFolder, info: RunInfo, result: RunResult | None) -> Live:
    """Many machines measure at once, so that there is no current scenario."""
    progress = CampaignFolder(folder).read_progress()
    return Live(
        pid=owner(folder.path),
        done=len(result.scenarios) if result else 0,
        units=len(info.scenarios),
        left_s=progress.left_s if progress else None,
        current="",
        trials=(),
        made=0,
        bounds=None,
        figure=None,
        campaign=progress,
    )


def _allowed(info: RunInfo, scenario: str) -> float:
    """The lowest loss ratio that a scenario's search asks for; 0 where it does not say."""
    plain = next((plain for plain in info.scenarios if plain.get("name") == scenario), {})
    search = plain.get("search")
    ratios = search.get("loss_ratios") if isinstance(search, Mapping) else None
    asked = (
        [float(ratio) for ratio in ratios if isinstance(ratio, int | float)] if isinstance(ratios, list | tuple) else []
    )
    return min(asked, default=0.0)


def _left_s(info: RunInfo, done: dict[str, float], own: Sequence[Trial]) -> float | None:
    """Estimated time of what is not done, less what its trials have taken; as the run itself corrects it."""
    try:
        units = [from_plain(plain) for plain in info.scenarios]
    except PinchpointError:
        return None
    forecast = Forecast()
    for unit in units:
        if unit.name in done:
            forecast.finished(unit, done[unit.name])
    left = forecast.left_s(unit for unit in units if unit.name not in done)
    return max(0.0, left - math.fsum(trial.duration_s for trial in own))

"""A whole run: scenarios one after the other into one run folder, resumable at any trial."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from pinchpoint.model.result import RunInfo, RunResult, ScenarioResult
from pinchpoint.model.scenario import Scenario
from pinchpoint.observe import facts
from pinchpoint.store.codec import SCHEMA
from pinchpoint.store.folder import RunFolder
from pinchpoint.sweep.listener import Listener
from pinchpoint.sweep.scenario import run_scenario
from pinchpoint.sweep.standing import Record, Recorded, Stoppable

RunOne = Callable[..., ScenarioResult]


def describe_run(
    run_id: str,
    argv: Sequence[str],
    scenarios: Sequence[Mapping[str, object]],
    sources: Mapping[str, str],
) -> RunInfo:
    """What `run.json` says before the first scenario starts."""
    return RunInfo(
        schema=SCHEMA,
        run_id=run_id,
        started=datetime.now(UTC).isoformat(),
        argv=tuple(argv),
        scenarios=tuple(scenarios),
        sweeps=(),
        study=None,
        sources=dict(sources),
        plans={},
        versions=facts.versions(),
        host=facts.host_facts(),
    )


def run_all(
    scenarios: Sequence[Scenario],
    folder: RunFolder,
    listener: Listener,
    on_stoppable: Callable[[Stoppable], None],
    run_one: RunOne = run_scenario,
) -> RunResult:
    """Run what `folder` does not hold yet; its result.json grows scenario by scenario.

    Trials of a scenario that was interrupted are answered from the record.
    """
    done = {found.scenario: found for found in so_far(folder).scenarios}
    trials, measurements = folder.read_trials(), folder.read_measurements()
    for number, scenario in enumerate(scenarios, start=1):
        if scenario.name in done:
            continue
        listener.scenario_begins(scenario, number, len(scenarios))
        mine = Recorded(
            [trial for trial in trials if trial.scenario == scenario.name],
            [one for one in measurements if one.scenario == scenario.name],
        )
        done[scenario.name] = run_one(scenario, _record(folder), listener, mine, on_stoppable)
        found = tuple(done[s.name] for s in scenarios if s.name in done)
        folder.write_result(RunResult(SCHEMA, folder.run_id, len(found) == len(scenarios), found, (), ()))
    return so_far(folder)


def so_far(folder: RunFolder) -> RunResult:
    """What a run has found; nothing yet, if no scenario has finished."""
    return folder.read_result() or RunResult(SCHEMA, folder.run_id, False, (), (), ())


def _record(folder: RunFolder) -> Record:
    def note_plan(scenario: str, plan: tuple[str, ...]) -> None:
        info = folder.read_info()
        folder.write_info(replace(info, plans={**info.plans, scenario: plan}))

    def note_facts(found: Mapping[str, str]) -> None:
        info = folder.read_info()
        folder.write_info(replace(info, versions={**info.versions, **found}))

    def attach(name: str, text: str) -> None:
        folder.attach(name, text)

    return Record(
        folder.append_trial,
        folder.append_measurement,
        note_plan,
        note_facts,
        attach,
        folder.path / "engine.log",
    )

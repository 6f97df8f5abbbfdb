"""The time of a saturated forwarding thread by function, and why the kernel drops: a sampled trial of each, after all
that a run measures.

Sampling takes time from what it samples. So it has a bench and a trial of its own, which is in no record: no number of
the run comes from it.
"""

import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

from pinchpoint.dut.registry import device_of
from pinchpoint.dut.setup import Setup, planned_ends, prepare
from pinchpoint.engine.process import find_engine
from pinchpoint.host.machines import Machines
from pinchpoint.host.priority import kept_off, preferred
from pinchpoint.measure.frames import measuring
from pinchpoint.measure.standing import Interrupted, Listener, Record, Standing, Stoppable, Undoable
from pinchpoint.measure.trial import Measurer, OverTime
from pinchpoint.measure.warm_up import first_round, warm_up
from pinchpoint.model import units
from pinchpoint.model.errors import PinchpointError, StoreError
from pinchpoint.model.profile import Profile
from pinchpoint.model.result import Outcome
from pinchpoint.model.scenario import Scenario
from pinchpoint.observe.drop_reasons import DropReasons
from pinchpoint.observe.functions import Functions, Stacks
from pinchpoint.observe.snapshot import Forwards
from pinchpoint.run.bench import standing_bench
from pinchpoint.run.explaining import experiment_of
from pinchpoint.run.host_recovery import AWAITED_S, outliving
from pinchpoint.run.run import so_far
from pinchpoint.store.folder import RunFolder

PHASE = "profile"
SAMPLED_S = 2.0
TRIAL_S = 5.0  # perf takes a moment to start on a busy core, and must end before the load does
BEGINS_S = 0.25  # after the first frame, when the load is there
PERF_S = 5.0  # for perf to start, and to look up the symbols

ProfileOne = Callable[[Machines, Scenario, RunFolder, Listener, Callable[[Stoppable], None]], Profile]


def profile_all(
    machines: Machines,
    scenarios: Sequence[Scenario],
    folder: RunFolder,
    listener: Listener,
    on_stoppable: Callable[[Stoppable], None],
    profile_one: ProfileOne | None = None,
    awaited_s: float = AWAITED_S,
) -> None:
    """Sample the unchanged bench of each scenario that the run explains; its result gets the profiles.

    A host that is lost is awaited for `awaited_s`; then the bench is built anew.

    What cannot be sampled is said in the profile and ends nothing. Raises Interrupted and StoreError.
    """
    one_profile, result, info = profile_one or profiled, so_far(folder), folder.read_info()
    if not info.explains:
        return
    measured = {
        unit_result.scenario
        for unit_result in result.scenarios
        if unit_result.outcome is Outcome.MEASURED and unit_result.verdict
    }
    done = {profile.scenario for profile in result.profiles if not profile.reason}
    spent_s = math.fsum(unit_result.wall_s for unit_result in result.scenarios)
    for unit in scenarios:
        if experiment_of(unit) is not None or unit.name not in measured - done:
            continue
        left_s = None if info.budget_s is None else info.budget_s - spent_s
        began_s = time.monotonic()
        if unit.guest:
            profile = Profile(unit.name, "the device runs in a guest, whose functions are not seen from outside")
        elif left_s is not None and left_s < expected_s(unit):
            profile = Profile(
                unit.name, f"no time of the budget was left: give --budget more than {units.duration(spent_s)}"
            )
        else:
            attempt = partial(one_profile, machines, unit, folder, listener, on_stoppable)
            profile = _whatever_happens(machines, unit, attempt, on_stoppable, awaited_s)
        spent_s += time.monotonic() - began_s
        profiles = (*(other for other in result.profiles if other.scenario != unit.name), profile)
        result = replace(result, profiles=profiles)
        folder.write_result(result)


def expected_s(scenario: Scenario) -> float:
    """Seconds that the sampled trials take, their bench included, about."""
    return device_of(scenario).standing_s(scenario) + first_round(scenario)[0] + 2 * (TRIAL_S + PERF_S)


def _whatever_happens(
    machines: Machines,
    unit: Scenario,
    attempt: Callable[[], Profile],
    on_stoppable: Callable[[Stoppable], None],
    awaited_s: float,
) -> Profile:
    on_stoppable(Undoable())
    try:
        return outliving(machines, [unit], attempt, on_stoppable, awaited_s=awaited_s)
    except (Interrupted, StoreError):
        raise
    except PinchpointError as error:
        return Profile(unit.name, f"{error.message} ({error.hint})" if error.hint else error.message)


def profiled(
    machines: Machines,
    scenario: Scenario,
    folder: RunFolder,
    listener: Listener,
    on_stoppable: Callable[[Stoppable], None],
) -> Profile:
    """Build the bench, sample it under its highest load, remove it. Raises what building and a trial raise."""
    engine, began_s = [find_engine(machines.opened(scenario.remote))], time.monotonic()
    setup = prepare(scenario, machines)
    with preferred(), standing_bench(setup, listener):
        live = setup.bench.open()
        try:
            record = _record(folder)
            bench = Standing(setup, live, engine, record, listener, began_s, on_stoppable=on_stoppable)
            profile, stacks = _sampled(bench)
        finally:
            live.close()
    if stacks is None:
        return profile
    return replace(profile, file=folder.attach(f"{scenario.name}.folded", stacks.folded()).name)


def _record(folder: RunFolder) -> Record:
    """Nothing is kept of the bench but what the engine says."""
    return Record(
        keep=lambda trial: None,
        keep_measurement=lambda measurement: None,
        note_plan=lambda scenario, plan: None,
        note_facts=lambda facts: None,
        attach=lambda name, text: None,
        engine_log=folder.path / "engine.log",
    )


def _sampled(bench: Standing) -> tuple[Profile, Stacks | None]:
    """One trial on a bench that stands; what perf cannot do is the reason of a profile."""
    scenario, none = bench.scenario, Profile(bench.scenario.name)
    with measuring(bench) as measurer, kept_off(scenario.dut.cpus, bench.host):
        bench.listener.phase(PHASE, 1)
        warm_up(scenario, measurer)
        if any(end.backend != "dpdk" for end in planned_ends(scenario, bench.host)):
            none = _with_drops(none, bench, measurer)
        functions = _functions(bench.setup, bench)
        if (why := functions.can_run()) is not None:
            return replace(none, reason=why), None
        try:
            over_time = OverTime(BEGINS_S, heard=lambda _: functions.start(SAMPLED_S))
            trial = measurer.trial(PHASE, TRIAL_S, scenario.search.max_load_fps, over_time)
            bench.on_stoppable(Undoable())
            stacks = functions.read()
        finally:
            with suppress(PinchpointError):  # what failed first is what counts; the bench ends what is left
                functions.stop()
    profile = replace(
        none,
        event=functions.event,
        load_fps=trial.load_fps,
        offered=trial.offered,
        received=trial.received,
        threads=functions.threads,
        samples=stacks.samples,
        unnamed=stacks.unnamed,
        elsewhere=stacks.elsewhere,
        functions=stacks.functions(),
    )
    return profile, stacks


def _with_drops(profile: Profile, bench: Standing, measurer: Measurer) -> Profile:
    """The same with the kernel's reasons for what it drops at the highest load, or why there are none."""
    scenario, places = bench.scenario, bench.setup.places
    reasons = DropReasons(
        places.host, str(places.directory), (*scenario.dut.cpus, *scenario.engine.cpus), places.environment
    )
    if (why := reasons.can_run()) is not None:
        return replace(profile, no_drops=why)
    try:
        over_time = OverTime(BEGINS_S, heard=lambda _: reasons.start(SAMPLED_S))
        measurer.trial(PHASE, TRIAL_S, scenario.search.max_load_fps, over_time)
        bench.on_stoppable(Undoable())
        drops = reasons.read()
        return replace(profile, drops=drops, no_drops="" if drops else "the kernel dropped no frame in that trial")
    except PinchpointError as error:
        return replace(profile, no_drops=error.message)
    finally:
        with suppress(PinchpointError):
            reasons.stop()


def _functions(setup: Setup, bench: Standing) -> Functions:
    forwarding = [witness.forwarding() for witness in bench.live.witnesses() if isinstance(witness, Forwards)]
    places = setup.places
    return Functions(places.host, str(places.directory), forwarding, places.environment)

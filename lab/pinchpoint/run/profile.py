"""The time of a saturated forwarding thread by function, and why the kernel drops: a sampled trial of each, after all
that a run measures.

Sampling takes time from what it samples. So it has a bench and a trial of its own, which is in no record: no number of
the run comes from it.
"""

import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace

from pinchpoint.causes.signs import Diagnosed
from pinchpoint.causes.verdict import likely
from pinchpoint.dut.registry import device_of
from pinchpoint.dut.setup import planned_ends
from pinchpoint.measure.frames import measuring
from pinchpoint.measure.session import OverTime, Session, first_round
from pinchpoint.measure.standing import Interrupted, Standing, Task, Undoable
from pinchpoint.model import units
from pinchpoint.model.causes import Sign, Signs, Suspicion
from pinchpoint.model.errors import PinchpointError, StoreError
from pinchpoint.model.hops import DropKind
from pinchpoint.model.measurement import DropReason, Profile
from pinchpoint.model.result import Outcome
from pinchpoint.model.scenario import Scenario
from pinchpoint.model.trial import Trial
from pinchpoint.observe.perf import DropReasons, Functions, Stacks, kind_of
from pinchpoint.observe.snapshot import Forwards
from pinchpoint.run.checkpoint import RunContext
from pinchpoint.run.explaining import experiment_of
from pinchpoint.run.scenario import built_bench

PHASE = "profile"
SAMPLED_S = 2.0
TRIAL_S = 5.0  # perf takes a moment to start on a busy core, and must end before the load does
BEGINS_S = 0.25  # after the first frame, when the load is there
PERF_S = 5.0  # for perf to start, and to look up the symbols

ProfileOne = Callable[[Scenario, RunContext], Profile]


def profiled(scenario: Scenario, context: RunContext) -> Profile:
    """Build the bench, sample it under its highest load, remove it. Raises what building and a trial raise."""
    task = Task(context.listener, context.on_stoppable, engine_log=context.folder.path / "engine.log")
    with built_bench(context.machines, scenario, task) as bench:
        profile, stacks = _sampled(bench)
    if stacks is None:
        return profile
    return replace(profile, file=context.folder.attach(f"{scenario.name}.folded", stacks.folded()).name)


def profile_all(context: RunContext, scenarios: Sequence[Scenario], profile_one: ProfileOne = profiled) -> None:
    """Sample the unchanged bench of each scenario that the run explains; its result gets the profiles.

    What cannot be sampled is said in the profile and ends nothing. Raises Interrupted and StoreError.
    """
    result, info = context.folder.so_far(), context.folder.read_info()
    if not info.explains:
        return
    explained = {
        of_unit.scenario for of_unit in result.scenarios if of_unit.outcome is Outcome.MEASURED and of_unit.verdict
    }
    done = {profile.scenario for profile in result.profiles if not profile.reason}
    spent_s = math.fsum(of_unit.wall_s for of_unit in result.scenarios)
    for unit in scenarios:
        if experiment_of(unit) is not None or unit.name not in explained - done:
            continue
        began_s = time.monotonic()
        if unit.guest:
            profile = Profile(unit.name, "the device runs in a guest, whose functions are not seen from outside")
        elif info.budget_s is not None and info.budget_s - spent_s < expected_s(unit):
            told = f"no time of the budget was left: give --budget more than {units.duration(spent_s)}"
            profile = Profile(unit.name, told)
        else:
            profile = _whatever_happens(unit, profile_one, context)
        spent_s += time.monotonic() - began_s
        profiles = (*(other for other in result.profiles if other.scenario != unit.name), profile)
        result = replace(result, profiles=profiles)
        context.folder.write_result(result)


def expected_s(scenario: Scenario) -> float:
    """Seconds that the sampled trials take, their bench included, about."""
    return device_of(scenario).standing_s(scenario) + first_round(scenario)[0] + 2 * (TRIAL_S + PERF_S)


def _whatever_happens(unit: Scenario, profile_one: ProfileOne, context: RunContext) -> Profile:
    context.on_stoppable(Undoable())
    try:
        for attempt in context.attempts([unit]):
            with attempt:
                profile = profile_one(unit, context)
    except (Interrupted, StoreError):
        raise
    except PinchpointError as error:
        return Profile(unit.name, f"{error.message} ({error.hint})" if error.hint else error.message)
    return profile


def _sampled(bench: Standing) -> tuple[Profile, Stacks | None]:
    """One trial on a bench that stands; what perf cannot do is the reason of a profile."""
    scenario, profile = bench.scenario, Profile(bench.scenario.name)
    with measuring(bench) as session:
        session.warm_up()
        bench.task.listener.phase(PHASE, 1)
        if any(end.backend != "dpdk" for end in planned_ends(scenario, bench.host)):
            profile = _with_drops(profile, bench, session)
        forwarding = [witness.forwarding() for witness in bench.live.witnesses() if isinstance(witness, Forwards)]
        places = bench.setup.places
        functions = Functions(places.host, str(places.directory), forwarding, places.environment)
        if (why := functions.can_run()) is not None:
            return replace(profile, reason=why), None
        with _trial(bench, session, functions) as trial:
            stacks = functions.read()
    profile = replace(
        profile,
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


def _with_drops(profile: Profile, bench: Standing, session: Session) -> Profile:
    """The same with the kernel's reasons for what it drops at the highest load, or why there are none."""
    scenario, places = bench.scenario, bench.setup.places
    here = tuple(scenario.cpus_at(scenario.site))
    reasons = DropReasons(places.host, str(places.directory), here, places.environment)
    if (why := reasons.can_run()) is not None:
        return replace(profile, no_drops=why)
    try:
        with _trial(bench, session, reasons):
            drops = reasons.read()
    except PinchpointError as error:
        return replace(profile, no_drops=error.message)
    if not drops:
        return replace(profile, no_drops="the kernel dropped no frame in that trial")
    return replace(profile, drops=drops, suspicions=suspected(drops, device_of(scenario)))


def suspected(drops: Sequence[DropReason], device: Diagnosed | None = None) -> tuple[Suspicion, ...]:
    """The causes of the catalogue that the kernel's reasons name, where no counter does."""
    lost = defaultdict[DropKind, float](float)
    for drop in drops:
        lost[kind_of(drop.reason)] += drop.share
    values = {Sign.NEIGHBOURS: 1.0} if DropKind.NEIGHBOUR in lost else {}
    return likely(Signs(values, lost), device)


@contextmanager
def _trial(bench: Standing, session: Session, sampler: Functions | DropReasons) -> Iterator[Trial]:
    """Inside, a trial at the highest load is over, a part of which was sampled."""
    try:
        over_time = OverTime(BEGINS_S, heard=lambda _: sampler.start(SAMPLED_S))
        trial = session.trial(PHASE, TRIAL_S, bench.scenario.search.max_load_fps, over_time)
        bench.task.on_stoppable(Undoable())
        yield trial
    finally:
        with suppress(PinchpointError):  # what failed first is what counts; the bench ends what is left
            sampler.stop()

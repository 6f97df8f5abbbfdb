"""One scenario from its file to its result: build, measure, take down."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

from pinchpoint.bench.builder import describe, plan
from pinchpoint.dut import nics, vm_ends
from pinchpoint.dut.captures import capture_facts
from pinchpoint.dut.registry import device_of
from pinchpoint.dut.setup import EngineEnd, Setup, prepare
from pinchpoint.engine.process import find_engine
from pinchpoint.host import facts
from pinchpoint.host.machines import Machines
from pinchpoint.host.numa import read_topology
from pinchpoint.measure.rates.run import Rates
from pinchpoint.measure.registry import measure_of
from pinchpoint.measure.standing import Standing, Task, live_bench
from pinchpoint.model import units
from pinchpoint.model.errors import PinchpointError
from pinchpoint.model.guest import EMULATED, PROCESSOR
from pinchpoint.model.offload import Offload, OffloadTruth
from pinchpoint.model.result import Ceiling, ScenarioResult
from pinchpoint.model.scenario import Scenario
from pinchpoint.model.site import Remote, Site
from pinchpoint.model.study import Need
from pinchpoint.model.trial import Trial
from pinchpoint.model.warning import ResultWarning, Warn
from pinchpoint.run.ceiling import CeilingTest

PlanBench = Callable[[Scenario, Machines], Setup]
MOST_ATTACHED = 1_000_000  # characters
_CLOCKS_AGREE_S = 1.0  # a round trip over a slow link, and then some


def run_scenario(
    machines: Machines,
    scenario: Scenario,
    task: Task,
    ceiling_test: CeilingTest | None = None,
    plan_bench: PlanBench = prepare,
    measure: Callable[[Standing], ScenarioResult] | None = None,
) -> ScenarioResult:
    """Everything about one scenario. Whatever goes wrong, finished trials are kept and the bench is removed.

    What measures is handed to the task's `on_stoppable`, so that a signal handler can stop it. With a `ceiling_test`,
    rates are compared with the generator's own ceiling. `measure` replaces the scenario's own.
    """
    setup, engine = planned(machines, scenario, task, plan_bench)
    ceilings, no_ceiling = ceilings_of(setup.scenario, task, ceiling_test)
    if isinstance(scenario.measure, Rates):
        task.note_ceilings(scenario.name, ceilings)
    with live_bench(setup, engine, task) as stood:
        bench = replace(stood, ceilings=ceilings)
        try:
            machines_settings = vm_ends.settings(setup.scenario, setup.places)
            settings = {**bench.live.settings(), **machines_settings, **_engine_settings(setup)}
            result = (measure or measure_of(scenario).run)(bench)
            result = replace(result, settings=settings, bench=bench_of(setup, result.offload))
            result = as_emulated(result) if settings.get(PROCESSOR) == EMULATED else result
            _attach_dumps(bench)
        except PinchpointError:
            _attach_log(bench)
            raise
    if ceiling_test and not _why_no_ceiling(setup.scenario):
        result = ceiling_test.after(setup.scenario, result, task.listener, task.on_stoppable)
    if no_ceiling:
        result = replace(result, warnings=(*result.warnings, no_ceiling))
    task.listener.scenario_ends(result)
    return result


def planned(
    machines: Machines, scenario: Scenario, task: Task, plan_bench: PlanBench = prepare
) -> tuple[Setup, list[str]]:
    """The bench of a scenario and what starts its engine, before anything is built; what is known of them is noted.

    Raises what `prepare` raises, and EngineError without an engine.
    """
    for remote in filter(None, (site.remote for site in scenario.sites)):
        task.note_facts(host_facts_of(machines, remote))
    here = scenario.site
    engine = [find_engine(machines.opened(here))] if scenario.has_engine_at(here) else []
    setup = plan_bench(scenario, machines)
    task.note_plan(scenario.name, tuple(planned_lines(setup)))
    task.note_facts({**setup.facts, **setup.bench.facts(), **capture_facts(scenario, machines.opened(here))})
    return setup, engine


@contextmanager
def built_bench(
    machines: Machines, scenario: Scenario, task: Task, plan_bench: PlanBench = prepare
) -> Iterator[Standing]:
    """The bench of a scenario stands inside the block. Raises what `planned` and building raise."""
    setup, engine = planned(machines, scenario, task, plan_bench)
    with live_bench(setup, engine, task) as bench:
        yield bench


def bench_of(setup: Setup, offload: OffloadTruth | None) -> dict[Need, int]:
    """What a bench has of that on which a conclusion may rest. CPUs and NUMA nodes of a guest are emulated."""
    scenario, host = setup.scenario, setup.places.outside
    guest, topology = scenario.guest, read_topology(host)
    return {
        Need.CPUS: 1 if guest else len(host.cpus()),
        Need.NUMA_NODES: 1 if guest else len(topology.with_cpus),
        Need.KERNEL_DATAPATH: int(device_of(scenario).is_in_kernel(scenario)),
        Need.NIC: int(any(link.device.nics or link.device.interface for link in scenario.links)),
        Need.HARDWARE_OFFLOAD: int(offload is not None and offload.word is Offload.PROVEN),
    }


def as_emulated(result: ScenarioResult) -> ScenarioResult:
    """The same, each number with what to mind of it."""
    told = Warn.EMULATED.of()
    marked = (replace(metric, cautions=(*metric.cautions, str(told))) for metric in result.metrics)
    return replace(result, metrics=tuple(marked), warnings=(told, *result.warnings))


def _engine_settings(setup: Setup) -> dict[str, str]:
    """The NICs of engines on other hosts than the device's, as read back there."""
    ends = (end for end in setup.engines if end.resources)
    by_end = (nics.settings(end.host, nics.at(setup.scenario, end.site)) for end in ends)
    return {key: words for settings in by_end for key, words in settings.items()}


def planned_lines(setup: Setup) -> Iterator[str]:
    """The plan of a bench, as people read it; of one on several machines, machine by machine."""
    for end in setup.engines:
        if end.resources:
            yield f"on {end.site.name}: {_what_of(setup.scenario, end)}"
            yield from describe(plan((), end.resources))
    if setup.scenario.is_multi_host:
        here = [_what_of(setup.scenario, end) for end in setup.engines if not end.resources]
        yield f"on {setup.scenario.site.name}: {', '.join(('device', *here))}"
    yield from describe(plan((), setup.resources))


def _what_of(scenario: Scenario, end: EngineEnd) -> str:
    ends = ", ".join(host.name for host in scenario.ends_at(end.site))
    return f"engine towards {', '.join(end.ports)}" if end.ports else f"host {ends}"


def host_facts_of(machines: Machines, remote: Remote) -> dict[str, str]:
    """What the other machine is, for the record: `run.json` has the lab's own."""
    shown = ("processor", "cpus", "kernel", "system", "numa nodes", "virtual machine")
    host_facts = facts.host_facts(machines.opened(Site(remote)))
    told = {f"host {remote.name}": "; ".join((remote.address, *(f"{key} {host_facts[key]}" for key in shown)))}
    others = host_facts.keys() - {*shown, "memory", "kernel options"}
    told |= {f"{key} of {remote.name}": words for key, words in host_facts.items() if key in others}
    if abs(ahead_s := machines.ssh(remote).clock_ahead_s) > _CLOCKS_AGREE_S:
        # Nothing that is measured depends on it. Not under "host": a clock that is put right may be resumed on.
        which = "ahead of" if ahead_s > 0 else "behind"
        told[f"clock of {remote.name}"] = f"{abs(ahead_s):.0f} s {which} the lab's; logs from there have that time"
    return told


def ceilings_of(
    scenario: Scenario, task: Task, ceiling_test: CeilingTest | None
) -> tuple[tuple[Ceiling, ...], ResultWarning | None]:
    """What is known of the generator as the search begins; and why nothing is, None if something is.

    A search that an earlier run began continues with what it knew then: its recorded trials answer
    no other questions than it asked with that.
    """
    if task.recorded(Trial) and task.ceilings is not None:
        unknown = ceiling_test is not None and isinstance(scenario.measure, Rates) and not task.ceilings
        return task.ceilings, Warn.CEILING_UNKNOWN_BEFORE.of() if unknown else None
    if ceiling_test and (why := _why_no_ceiling(scenario)):
        return (), why.of()
    return ceiling_test.before(scenario, task.listener) if ceiling_test else ((), None)


def _why_no_ceiling(scenario: Scenario) -> Warn | None:
    """Where nothing but the engine can be built; None if it can."""
    if scenario.is_cabled:
        return Warn.CEILING_AT_LINKS
    is_searched = isinstance(scenario.measure, Rates)
    return Warn.CEILING_IN_GUEST if scenario.holds_bench and is_searched else None


def _attach_dumps(bench: Standing) -> None:
    """What the device shows of itself as it stands; the result does not depend on it."""
    with suppress(PinchpointError):
        for name, text in bench.live.dumps().items():
            bench.task.attach(f"{bench.scenario.name}.{name}", first_lines(text, MOST_ATTACHED))


def first_lines(text: str, most: int) -> str:
    """The whole lines among the first `most` characters; where some are left out, a last line says how much."""
    if len(text) <= most:
        return text
    kept = text[: text.rfind("\n", 0, most) + 1]
    left_out = text[len(kept) :]
    lines = units.counted(len(left_out.splitlines()), "more line")
    return f"{kept}(cut here: {lines}, {len(left_out):,} characters)\n"


def _attach_log(bench: Standing) -> None:
    """The device's log, which is removed with the bench; what failed is reported either way."""
    with suppress(PinchpointError, OSError):
        if log := bench.live.log():
            name, text = log
            bench.task.attach(f"{bench.scenario.name}.{name}", text[-MOST_ATTACHED:])

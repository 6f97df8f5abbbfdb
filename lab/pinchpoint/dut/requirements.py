"""Whether this machine can run a scenario: what its device, its engine and its hosts need."""

from pinchpoint.bench import requirements
from pinchpoint.bench.requirements import Probe
from pinchpoint.dut.registry import device_of
from pinchpoint.host.machines import standing_on
from pinchpoint.model.errors import RequirementError
from pinchpoint.model.scenario import Scenario

_LESS = "use less: --set dut.memory_mb=512 --set engine.memory_mb=256"


def require_together(a: Scenario, b: Scenario) -> None:
    """As `require`, of two benches at once. Raises RequirementError."""
    require(a)
    require(b)
    if lacking := lacking_together(a, b):
        raise lacking


def lacking_together(a: Scenario, b: Scenario) -> RequirementError | None:
    """What is missing for two benches at once, where each alone could be built; None if there is memory for both."""
    pages = device_of(a).pages(a) + device_of(b).pages(b)
    if not pages or (found := requirements.hugepages(pages, _LESS)).ok:
        return None
    return RequirementError(f"not enough memory for both benches at once: {found.detail}", found.hint)


def require(scenario: Scenario) -> None:
    """Raises RequirementError naming all that is missing, each with its remedy, on the host of its bench."""
    if missing := lacking(scenario):
        where = f"on {scenario.remote.address}" if scenario.remote else "on this machine"
        lines = "".join(f"\n  {p.name}: {p.detail}" + (f"\n    hint: {p.hint}" if p.hint else "") for p in missing)
        raise RequirementError(f"{scenario.path} cannot run {where}:{lines}")


def lacking(scenario: Scenario) -> list[Probe]:
    """All that the host of its bench lacks for a scenario."""
    with standing_on(scenario.remote):
        return _lacking(scenario)


def _lacking(scenario: Scenario) -> list[Probe]:
    hosts = (cpu for host in scenario.hosts for cpu in host.cpus)
    cpus = (*scenario.engine.cpus, *scenario.dut.cpus, *hosts)
    least = 2 if scenario.ports or scenario.dut.polls else 1  # whether anything polls: an engine with ports, a device
    probes = (
        requirements.root(),
        *device_of(scenario).needs(scenario),
        requirements.cpus(cpus, least),
        *requirements.queues(scenario),
    )
    return [probe for probe in probes if not probe.ok]

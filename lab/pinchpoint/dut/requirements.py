"""Whether this machine can run a scenario: what its device, its engine and its hosts need."""

from dataclasses import replace

from pinchpoint.bench import requirements
from pinchpoint.bench.requirements import Probe
from pinchpoint.dut import elsewhere
from pinchpoint.dut.guest_choice import chosen
from pinchpoint.dut.hosted import engine
from pinchpoint.dut.registry import device_of
from pinchpoint.dut.setup import host_cpus
from pinchpoint.host.machines import standing_on
from pinchpoint.model.errors import RequirementError
from pinchpoint.model.scenario import EngineSite, Scenario

_LESS = "use less: --set dut.memory_mb=512 --set engine.memory_mb=256"


def require_together(a: Scenario, b: Scenario) -> None:
    """As `require`, of two benches at once. Raises RequirementError."""
    require(a)
    require(b)
    if lacking := lacking_together(a, b):
        raise lacking


def lacking_together(a: Scenario, b: Scenario) -> RequirementError | None:
    """What one host lacks for two benches at once, where each alone could be built; None if it has memory for both."""
    pages = device_of(a).pages(a) + device_of(b).pages(b)
    with standing_on(a.remote):
        if not pages or (found := requirements.hugepages(pages, _LESS)).ok:
            return None
    return RequirementError(f"not enough memory for both benches at once: {found.detail}", found.hint)


def require(scenario: Scenario) -> None:
    """Raises RequirementError naming all that is missing, each with its remedy, on the host of its bench."""
    if missing := lacking(scenario):
        hosts = (one.address if one else "this machine" for one in scenario.remotes)
        where = f"on {', '.join(hosts)}"
        lines = "".join(f"\n  {p.name}: {p.detail}" + (f"\n    hint: {p.hint}" if p.hint else "") for p in missing)
        raise RequirementError(f"{scenario.path} cannot run {where}:{lines}")


def lacking(scenario: Scenario) -> list[Probe]:
    """All that the hosts of its bench lack for a scenario."""
    (scenario,) = chosen([scenario])
    with standing_on(scenario.remote):
        found = _lacking(scenario)
    return found + [probe for site in scenario.engines for probe in _lacking_engine(scenario, site)]


def _lacking_engine(scenario: Scenario, site: EngineSite) -> list[Probe]:
    """What the host of an engine lacks, each named with that host."""
    with standing_on(site.remote):
        own = scenario.engine.cpus[: sum(port.queues for port in scenario.ports if port.name in site.ports)]
        ends = (cpu for host in scenario.hosts if host.name in site.ends for cpu in host.cpus)
        cpus = requirements.cpus((*own, *ends), 1)
        ip = requirements.command("ip", "iproute2")
        there = (
            () if site.remote == scenario.remote else elsewhere.needs(scenario, site)
        )  # the device's probes have them
        probes = (requirements.root(), engine(), ip, cpus, *there)
        return [replace(probe, name=f"{probe.name} on {site.host}") for probe in probes if not probe.ok]


def _lacking(scenario: Scenario) -> list[Probe]:
    hosts = host_cpus(scenario)
    engines = () if scenario.engines else scenario.engine.cpus
    cpus = (*engines, *scenario.dut.cpus, *hosts)
    least = (
        2 if (scenario.ports and not scenario.engines) or scenario.dut.polls else 1
    )  # whether anything polls: an engine with ports, a device
    probes = (
        requirements.root(),
        *device_of(scenario).needs(scenario),
        requirements.cpus(cpus, least),
        *requirements.queues(scenario),
    )
    return [probe for probe in probes if not probe.ok]

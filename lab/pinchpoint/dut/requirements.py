"""Whether this machine can run a scenario: what its device, its engine and its hosts need."""

from dataclasses import replace

from pinchpoint.bench import requirements
from pinchpoint.bench.requirements import Probe
from pinchpoint.dut import remote_endpoints
from pinchpoint.dut.placement import chosen
from pinchpoint.dut.registry import device_of
from pinchpoint.dut.setup import host_cpus
from pinchpoint.host.interface import Host as Machine
from pinchpoint.host.machines import Machines
from pinchpoint.model.errors import RequirementError
from pinchpoint.model.scenario import EngineSite, Scenario

_LESS = "use less: --set dut.memory_mb=512 --set engine.memory_mb=256"


def require_together(a: Scenario, b: Scenario, machines: Machines) -> None:
    """As `require`, of two benches at once. Raises RequirementError."""
    require(a, machines)
    require(b, machines)
    if lacking := lacking_together(a, b, machines):
        raise lacking


def lacking_together(a: Scenario, b: Scenario, machines: Machines) -> RequirementError | None:
    """What one host lacks for two benches at once, where each alone could be built; None if it has memory for both."""
    pages = device_of(a).pages(a) + device_of(b).pages(b)
    if not pages or (probe := requirements.hugepages(machines.opened(a.remote), pages, _LESS)).ok:
        return None
    return RequirementError(f"not enough memory for both benches at once: {probe.detail}", probe.hint)


def require(scenario: Scenario, machines: Machines) -> None:
    """Raises RequirementError naming all that is missing, each with its remedy, on the host of its bench."""
    if missing := lacking(scenario, machines):
        hosts = (remote.address if remote else "this machine" for remote in scenario.remotes)
        where = f"on {', '.join(hosts)}"
        lines = "".join(f"\n  {p.name}: {p.detail}" + (f"\n    hint: {p.hint}" if p.hint else "") for p in missing)
        raise RequirementError(f"{scenario.path} cannot run {where}:{lines}")


def lacking(scenario: Scenario, machines: Machines) -> list[Probe]:
    """All that the hosts of its bench lack for a scenario."""
    (scenario,) = chosen([scenario], machines.lab)
    probes = _lacking(scenario, machines.opened(scenario.remote))
    sites = ((site, machines.opened(site.remote)) for site in scenario.engines)
    return probes + [probe for site, host in sites for probe in _lacking_engine(scenario, site, host)]


def _lacking_engine(scenario: Scenario, site: EngineSite, host: Machine) -> list[Probe]:
    """What the host of an engine lacks, each named with that host."""
    own = scenario.engine.cpus[: sum(port.queues for port in scenario.ports if port.name in site.ports)]
    ends = (cpu for end in scenario.hosts if end.name in site.ends for cpu in end.cpus)
    cpus = requirements.cpus(host, (*own, *ends), 1)
    ip = requirements.command(host, "ip", "iproute2")
    # The device's probes have those of its own host.
    there = () if site.remote == scenario.remote else remote_endpoints.needs(scenario, site, host)
    probes = (requirements.root(host), remote_endpoints.engine(host), ip, cpus, *there)
    return [replace(probe, name=f"{probe.name} on {site.host}") for probe in probes if not probe.ok]


def _lacking(scenario: Scenario, host: Machine) -> list[Probe]:
    hosts = host_cpus(scenario)
    engines = () if scenario.engines else scenario.engine.cpus
    cpus = (*engines, *scenario.dut.cpus, *hosts)
    least = 2 if (scenario.ports and not scenario.engines) or scenario.dut.polls else 1  # an engine with ports polls
    probes = (
        requirements.root(host),
        *device_of(scenario).needs(scenario, host),
        requirements.cpus(host, cpus, least),
        *requirements.queues(scenario),
    )
    return [probe for probe in probes if not probe.ok]

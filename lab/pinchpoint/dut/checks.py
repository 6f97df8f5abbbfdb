"""Checks across keys that several kinds of devices make; each notes its problems in the source."""

from pinchpoint.dut.device import RawScenario
from pinchpoint.keys.reader import Element
from pinchpoint.keys.source import Source
from pinchpoint.model.scenario import LAB, SPLIT, Batch, Between


def between_ports(
    raw: RawScenario, source: Source, kind: str, *, polls: bool, ringless: str = "", are_two: bool = True
) -> None:
    """A device that stands between ports of one queue alone; `ringless`: why they have no vhost-user rings."""
    why = f'dut.kind is "{kind}"'
    own_cpus(raw, source, "cpus", polls)
    if ringless:
        no_vhost(raw, source, ringless)
    else:
        no_nics(raw, source, why)
    no_hosts(raw, source, kind)
    names(raw, source)
    if are_two:
        two_ports(raw, source)
    one_queue(raw, source, why)


def own_cpus(raw: RawScenario, source: Source, key: str, polls: bool) -> None:
    """The engine has CPUs of its own; it polls only where it sends frames, so that others may share one otherwise."""
    if not polls and raw.measure and issubclass(raw.measure, Batch | Between):
        return
    if raw.ports and not any(is_beside(port, raw) for port in raw.ports):  # no engine is on the device's host
        return
    shared = sorted(set(raw.dut.get(key, ())) & set(raw.tables["engine"].get("cpus", ())))
    if shared:
        cpus = ", ".join(str(cpu) for cpu in shared)
        source.problem(("engine", "cpus"), f"expected CPUs other than dut.{key}, found {cpus} in both")


def device_on(raw: RawScenario) -> str:
    """The name of the device's host."""
    return raw.tables[""].get("runs_on") or LAB


def engine_on(port: Element, raw: RawScenario) -> str:
    """The name of the host of the engine at a port's other end."""
    return port.values.get("engine_runs_on") or raw.tables["engine"].get("runs_on") or device_on(raw)


def is_beside(port: Element, raw: RawScenario) -> bool:
    """Whether that is the device's host."""
    return engine_on(port, raw) == device_on(raw)


def backend(raw: RawScenario, source: Source, key: str, dpdk: str) -> None:
    """The engine's ports are DPDK's where the device's are, with `dut.KEY` at `dpdk`; not so at a kernel interface."""
    asked = raw.tables["engine"].get("backend", "auto")
    if all(port.values.get("engine_interface") for port in raw.ports):
        return
    if raw.dut.get(key) == dpdk and asked != "auto":
        source.mismatch(("engine", "backend"), f'"auto" where dut.{key} is "{dpdk}"', asked)


def one_queue(raw: RawScenario, source: Source, why: str) -> None:
    """Every port has one queue; `why` completes "1 where ..."."""
    for port in raw.ports:
        if port.values.get("queues", 1) > 1:
            source.mismatch((*port.at, "queues"), f"1 where {why}", port.values["queues"])


def no_nics(raw: RawScenario, source: Source, why: str) -> None:
    """No port is a NIC of the device; `why` completes "expected no NIC where ..."."""
    for port in raw.ports:
        is_cable = bool(port.values.get("interface")) and not is_beside(port, raw)
        for key in ("pci",) if is_cable else ("pci", "engine_pci"):
            if address := port.values.get(key):
                source.problem((*port.at, key), f'expected no NIC where {why}, found "{address}"')
        if port.values.get("no_iommu") and not (is_cable and port.values.get("engine_pci")):
            source.mismatch((*port.at, "no_iommu"), f"false where {why}", True)


def no_vhost(raw: RawScenario, source: Source, why: str) -> None:
    """No port has vhost-user rings, nor is it a NIC; `why` completes "... where ..."."""
    no_nics(raw, source, why)
    for port in raw.ports:
        if port.values.get("ring_layout", SPLIT) != SPLIT:
            problem = f'"{SPLIT}" where {why}: only vhost-user ports have another layout'
            source.mismatch((*port.at, "ring_layout"), problem, port.values["ring_layout"])


def no_hosts(raw: RawScenario, source: Source, kind: str) -> None:
    """The device has ports alone."""
    if raw.hosts:
        source.problem(
            ("host",), f'expected no [[host]] where dut.kind is "{kind}": socket workloads need another kind'
        )


def two_ports(raw: RawScenario, source: Source) -> None:
    """The device joins two ports."""
    if len(raw.ports) != 2:
        source.problem(("port",), f"expected two [[port]], found {len(raw.ports) or 'none'}")


def names(raw: RawScenario, source: Source) -> None:
    """Ports and hosts have names of their own."""
    seen = set[str]()
    for element in (*raw.ports, *raw.hosts):
        name = element.values.get("name")
        if name in seen:
            source.problem((*element.at, "name"), f'expected a unique name, found "{name}" again')
        seen.add(name or "")

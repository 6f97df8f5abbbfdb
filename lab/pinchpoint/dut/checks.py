"""Checks across keys; each notes its problems.

First those that several kinds of devices make; then, for all kinds, what a file may say of machines and cables: where
the device, its engines and its ends are, what joins them. A port or a `[[host]]` is at a cable where it names
interfaces or NICs that are there already: one end is on the device's machine, the other on that of the engine, or of
the end of a socket workload, which may be another one.
"""

import math
from collections.abc import Mapping

from pinchpoint.dut.device import Device, RawScenario
from pinchpoint.keys import kinds
from pinchpoint.keys.lexical import Path
from pinchpoint.keys.reader import Element, Values, refuse_doubles
from pinchpoint.model.groups import grouped
from pinchpoint.model.scenario import SPLIT, Batch, Between
from pinchpoint.model.site import LAB, Remote, Site

_OF_DEVICE = ("pci", "interface")  # a NIC that DPDK drives; an interface that the kernel drives
_OF_ENGINE = ("engine_pci", "engine_interface")
_OF_HOST = (("interface", "end_interface"), ("end_interface", "interface"))
_ONLY_KERNEL = "only what forwards between kernel interfaces has cables"


def between_ports(raw: RawScenario, kind: str, *, polls: bool, ringless: str = "", are_two: bool = True) -> None:
    """A device that stands between ports of one queue alone; `ringless`: why they have no vhost-user rings."""
    why = f'dut.kind is "{kind}"'
    own_cpus(raw, "cpus", polls)
    if ringless:
        no_vhost(raw, ringless)
    else:
        no_nics(raw, why)
    no_hosts(raw, kind)
    names(raw)
    if are_two:
        two_ports(raw)
    one_queue(raw, why)


def own_cpus(raw: RawScenario, key: str, polls: bool) -> None:
    """The engine has CPUs of its own; it polls only where it sends frames, so that others may share one otherwise."""
    if not polls and raw.measure and issubclass(raw.measure, Batch | Between):
        return
    if raw.ports and not any(is_beside(port, raw) for port in raw.ports):  # no engine is on the device's host
        return
    shared = sorted(set(raw.dut.get(key, ())) & set(raw.tables["engine"].get("cpus", ())))
    if shared:
        cpus = ", ".join(str(cpu) for cpu in shared)
        raw.problem(("engine", "cpus"), f"expected CPUs other than dut.{key}, found {cpus} in both")


def device_on(raw: RawScenario) -> str:
    """The name of the device's host."""
    return raw.tables[""].get("runs_on") or LAB


def engine_on(port: Element, raw: RawScenario) -> str:
    """The name of the host of the engine at a port's other end."""
    return port.values.get("engine_runs_on") or raw.tables["engine"].get("runs_on") or device_on(raw)


def end_on(host: Element, raw: RawScenario) -> str:
    """The name of the machine of an end of a socket workload."""
    return host.values.get("runs_on") or device_on(raw)


def is_beside(port: Element, raw: RawScenario) -> bool:
    """Whether that is the device's host."""
    return engine_on(port, raw) == device_on(raw)


def backend(raw: RawScenario, key: str, dpdk: str) -> None:
    """The engine's ports are DPDK's where the device's are, with `dut.KEY` at `dpdk`; not so at a kernel interface."""
    if raw.dut.get(key) != dpdk or all(port.values.get("engine_interface") for port in raw.ports):
        return
    for name, only in (("backend", "auto"), ("latency_clock", "engine")):
        if (asked := raw.tables["engine"].get(name, only)) != only:
            raw.mismatch(("engine", name), f'"{only}" where dut.{key} is "{dpdk}"', asked)


def one_queue(raw: RawScenario, why: str) -> None:
    """Every port has one queue; `why` completes "1 where ..."."""
    for port in raw.ports:
        if port.values.get("queues", 1) > 1:
            raw.mismatch((*port.at, "queues"), f"1 where {why}", port.values["queues"])


def no_nics(raw: RawScenario, why: str) -> None:
    """No port is a NIC of the device; `why` completes "expected no NIC where ..."."""
    for port in raw.ports:
        is_cable = bool(port.values.get("interface")) and not is_beside(port, raw)
        for key in ("pci",) if is_cable else ("pci", "engine_pci"):
            if address := port.values.get(key):
                raw.problem((*port.at, key), f'expected no NIC where {why}, found "{address}"')
        if port.values.get("no_iommu") and not (is_cable and port.values.get("engine_pci")):
            raw.mismatch((*port.at, "no_iommu"), f"false where {why}", True)


def no_vhost(raw: RawScenario, why: str) -> None:
    """No port has vhost-user rings, nor is it a NIC; `why` completes "... where ..."."""
    no_nics(raw, why)
    for port in raw.ports:
        if port.values.get("ring_layout", SPLIT) != SPLIT:
            problem = f'"{SPLIT}" where {why}: only vhost-user ports have another layout'
            raw.mismatch((*port.at, "ring_layout"), problem, port.values["ring_layout"])


def no_hosts(raw: RawScenario, kind: str) -> None:
    """The device has ports alone."""
    if raw.hosts:
        raw.problem(("host",), f'expected no [[host]] where dut.kind is "{kind}": socket workloads need another kind')


def whole_seconds(raw: RawScenario, key: str, least: int = 0, most: float = math.inf, which: str = "") -> None:
    """A time of the [service], if it is given, is kept in seconds; `which` of them, in words."""
    value = raw.tables["service"].get(key)
    if value is not None and (value != int(value) or not least <= value <= most):
        raw.mismatch(("service", key), f"whole seconds{which}", value)


def two_ports(raw: RawScenario) -> None:
    """The device joins two ports."""
    if len(raw.ports) != 2:
        raw.problem(("port",), f"expected two [[port]], found {len(raw.ports) or 'none'}")


def names(raw: RawScenario) -> None:
    """Ports and hosts have names of their own."""
    refuse_doubles(raw.source, (*raw.ports, *raw.hosts))


def check_machines(
    raw: RawScenario, machines: Mapping[str, Values], device: Device, *, over_engines: bool, by_any_engine: bool
) -> None:
    """Whether machines and cables fit the device and each other; problems are noted.

    `over_engines`: whether the measure's trials may be sent by one engine and received by another; `by_any_engine`:
    whether they may at least be made by one engine on another host than the device.
    """
    _check_bench_host(raw, machines)
    _check_ends(raw, device)
    _check_doubles(raw)
    if raw.hosts and raw.tables["engine"].get("runs_on"):
        told = "expected nothing where there are [[host]]s: where each is, its own runs_on says"
        raw.problem(("engine", "runs_on"), told)
        return
    _check_cables(raw, device)
    _check_engine_hosts(raw, machines)
    hosts = {port.values["name"]: engine_on(port, raw) for port in raw.ports if "name" in port.values}
    if set(hosts.values()) <= {device_on(raw)}:
        return
    _check_engines(raw, over_engines or (by_any_engine and len(set(hosts.values())) == 1), by_any_engine)
    _check_streams(raw, hosts)


def _check_bench_host(raw: RawScenario, machines: Mapping[str, Values]) -> None:
    """Whether the file puts its bench on a host that it names, and can."""
    if not (name := raw.tables[""].get("runs_on")):
        return
    if name not in machines:
        known = ", ".join(machines) or "none"
        raw.problem(("runs_on",), f'expected the NAME of a [host.NAME], found "{name}"; this file has {known}')
    if raw.tables["guest"].get("kernel"):
        told = "expected no [guest] where there is runs_on: a guest's line ends on the lab's machine"
        raw.problem(("guest",), told)
    build = raw.tables.get("build", {}) if raw.measure and issubclass(raw.measure, Batch) else {}
    if build.get("method") == "transaction":
        told = "expected another method than transaction where there is runs_on: its one request is as long as what it "
        raw.problem(("build", "method"), f"{told}makes, and would go over the line to the host within its time")


def _check_engine_hosts(raw: RawScenario, machines: Mapping[str, Values]) -> None:
    """The hosts of engines have names; and one machine has one name: its parts of a bench would have one journal."""
    places: list[tuple[Path, str | None]] = [(("engine", "runs_on"), raw.tables["engine"].get("runs_on"))]
    places += [((*port.at, "engine_runs_on"), port.values.get("engine_runs_on")) for port in raw.ports]
    for place, name in places:
        if name == LAB and LAB in machines:
            told = f'expected another name than [host.{LAB}], since "{LAB}" is the lab\'s own machine'
            raw.problem(place, told)
        elif name and name != LAB and name not in machines:
            known = ", ".join(machines) or "none"
            told = f'expected the NAME of a [host.NAME] or "{LAB}", found "{name}"; this file has {known}'
            raw.problem(place, told)
    taken: dict[str, str] = {}
    every = dict.fromkeys((raw.tables[""].get("runs_on"), *(name for _, name in places)))
    for name in (str(name) for name in every if name in machines):
        address = machines[name].get("address") or name
        if taken.setdefault(address, name) != name:
            told = f'expected another machine than that of [host.{taken[address]}], found "{address}" again'
            raw.problem(("host", name, "address"), told)


def _check_ends(raw: RawScenario, device: Device) -> None:
    """Whether the machines and cables of the ends of a socket workload fit the device and each other."""
    _check_end_cables(raw, device)
    apart = [host for host in raw.hosts if end_on(host, raw) != device_on(raw)]
    for host in raw.hosts:
        if host.values.get("runs_on") == LAB == raw.tables[""].get("runs_on"):
            told = f'expected another machine than runs_on has, which is a Host of ssh_config here, found "{LAB}" again'
            raw.problem((*host.at, "runs_on"), told)
        if host in apart and host.values.get("cpus") == ():
            told = "a list of CPU numbers where the end is on another machine than the device"
            raw.mismatch((*host.at, "cpus"), told, kinds.ALL)
        if host in apart and _is_missing(host, "interface"):
            told = "missing: this end is on another machine than the device, so that a cable joins the two"
            raw.problem((*host.at, "interface"), told)
    if apart and raw.measure and not issubclass(raw.measure, Between):
        told = "expected a socket workload where a [[host]] is on another machine than the device"
        raw.problem((*apart[0].at, "runs_on"), told)
    if apart and raw.tables[""].get("numa", "any") != "any":
        told = 'expected "any" where a [[host]] is on another machine: the ends share no node'
        raw.problem(("numa",), told)


def _check_end_cables(raw: RawScenario, device: Device) -> None:
    for host in raw.hosts:
        _check_device(host, raw, device, "interface", "end_interface")
        for key, other in _OF_HOST:
            if _has(host, key) and _is_missing(host, other):
                raw.problem((*host.at, other), f"missing; with {key} both ends of the cable are interfaces")


def _check_doubles(raw: RawScenario) -> None:
    """Each NIC and each interface of a machine is one end of one cable."""
    taken, here = set[tuple[str, str]](), device_on(raw)
    ends = [(port, key, here) for port in raw.ports for key in _OF_DEVICE]
    ends += [(port, key, engine_on(port, raw)) for port in raw.ports for key in _OF_ENGINE]
    ends += [(host, "interface", here) for host in raw.hosts]
    ends += [(host, "end_interface", end_on(host, raw)) for host in raw.hosts]
    for element, key, machine in ends:
        if name := element.values.get(key):
            if (machine, name) in taken:
                told = f'expected one of {machine} that nothing else of this file has, found "{name}" again'
                raw.problem((*element.at, key), told)
            taken.add((machine, name))


def _check_cables(raw: RawScenario, device: Device) -> None:
    """Whether each cable of a port has two ends that fit the device."""
    for port in raw.ports:
        _check_port_ends(port, raw)
        _check_device(port, raw, device, "interface", *(() if _has(port, "pci") else ("engine_interface",)))
        if port.values.get("no_iommu") and all(_is_missing(port, key) for key in ("pci", "engine_pci")):
            raw.mismatch((*port.at, "no_iommu"), "false where the port is no NIC", True)
        if _has(port, "pci", "engine_pci") and port.values.get("ring_layout", SPLIT) != SPLIT:
            problem = f'"{SPLIT}" where the port is a NIC: its rings are its driver\'s'
            raw.mismatch((*port.at, "ring_layout"), problem, port.values["ring_layout"])
    if raw.tables["guest"].get("kernel") and any(_has(port, "interface") for port in raw.ports):
        raw.problem(("guest",), "expected no [guest] where a [[port]] has an interface: a guest's ports are taps")


def _has(element: Element, *keys: str) -> bool:
    return any(element.values.get(key) for key in keys)


def _is_missing(element: Element, key: str) -> bool:
    """Whether it has no such value; one that was refused is a problem of its own."""
    return key in element.values and not element.values[key]


def _check_port_ends(port: Element, raw: RawScenario) -> None:
    """A cable has one end on either side; on one host both ends are of one kind."""
    for own, others in ((_OF_DEVICE, _OF_ENGINE), (_OF_ENGINE, _OF_DEVICE)):
        named = [(key, other) for key, other in zip(own, others, strict=True) if _has(port, key)]
        if len(named) > 1:
            told = f"expected either {own[0]} or {own[1]} as this end of the cable, found both"
            raw.problem((*port.at, own[1]), told)
            continue
        for key, other in named:
            if is_beside(port, raw):
                if _is_missing(port, other):
                    kind = "NICs" if own.index(key) == 0 else "interfaces"
                    raw.problem((*port.at, other), f"missing; with {key} both ends of the cable are {kind}")
            elif all(_is_missing(port, end) for end in others):
                (or_else,) = set(others) - {other}
                raw.problem((*port.at, other), f"missing, as is {or_else}: the cable of {key} has no other end")
                return
    if not is_beside(port, raw) and all(_is_missing(port, key) for key in _OF_DEVICE):
        told = "missing, as is pci: its engine is on another host, so that the port is the end of a cable to it"
        raw.problem((*port.at, "interface"), told)


def _check_device(element: Element, raw: RawScenario, device: Device, *keys: str) -> None:
    """Whether the device forwards between kernel interfaces, where an end is one."""
    cabled = device.keys.cabled
    for key in keys if cabled is None or not cabled(raw.dut) else ():
        if name := element.values.get(key):
            told = f'expected no {key} where dut.kind is "{device.kind}" with these ports, found "{name}"'
            raw.problem((*element.at, key), f"{told}: {_ONLY_KERNEL}")


def _check_engines(raw: RawScenario, is_fit: bool, by_any_engine: bool) -> None:
    """What cannot be done yet where an engine is elsewhere than the device; `is_fit`: the measure can."""
    if not is_fit and by_any_engine:
        told = "expected all ports at one engine for this measure: when frames are lost within a trial, an engine that "
        raw.problem(("measure",), f"{told}has both ends knows")
    elif not is_fit:
        told = "expected a measure of plain trials of frames where an engine is on another host than the device"
        raw.problem(("measure",), told)
    if raw.tables[""].get("numa", "any") != "any":
        raw.problem(("numa",), 'expected "any" where an engine is on another host: the ends share no node')
    if raw.tables.get("service") or raw.tables.get("established"):
        told = "expected no [service] where an engine is on another host: it opens connections on the device's host"
        raw.problem(("service",), f"{told} only")
    is_split = len({engine_on(port, raw) for port in raw.ports}) > 1
    for port in raw.ports:
        is_whole = not is_split and _has(port, "pci") and _has(port, "engine_pci")
        if port.values.get("queues", 1) > 1 and not is_whole:
            told = "1 where several engines, or an interface on another host, have the ports: a stream in several parts"
            told += " has one receiver only at one engine, and the queues of an interface stay as they are"
            raw.mismatch((*port.at, "queues"), told, port.values["queues"])


def _check_streams(raw: RawScenario, hosts: Mapping[str, str]) -> None:
    """Each engine has something to do; `hosts` of the engines are by port."""
    ports = [(stream.values.get("tx_port"), stream.values.get("rx_port")) for stream in raw.arrays.get("stream", ())]
    busy = {hosts[port] for pair in ports if set(pair) <= hosts.keys() for port in pair if port}
    for port in raw.ports:
        host = hosts.get(port.values.get("name", ""))
        if host and busy and host not in busy:
            told = f'expected a stream from or to a port of the engine on "{host}": it would do nothing'
            raw.problem((*port.at, "engine_runs_on"), told)


def sites(raw: RawScenario, machines: Mapping[str, Values]) -> tuple[Site, ...]:
    """The machines of a checked file's bench: the device's first, then others in the order of their ports and ends."""
    here = device_on(raw)
    ports = grouped((engine_on(port, raw), port.values["name"]) for port in raw.ports)
    ends = grouped((end_on(host, raw), host.values["name"]) for host in raw.hosts)
    others = (name for name in dict.fromkeys((*ports, *ends)) if name != here)
    away = (Site(_remote(name, machines), tuple(ports.get(name, ())), tuple(ends.get(name, ()))) for name in others)
    return (Site(_remote(raw.tables[""].get("runs_on"), machines)), *away)


def _remote(name: str | None, machines: Mapping[str, Values]) -> Remote | None:
    """The machine of that name; None: the one on which the lab runs."""
    if name is None or (values := machines.get(name)) is None:
        return None
    return Remote(name, values.get("address", name), values["sudo"], values["lease_s"])

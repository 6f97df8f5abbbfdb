"""A bench that spans hosts: its ports are cables, and engines run elsewhere than the device."""

from collections.abc import Mapping, Sequence

from pinchpoint.bench.resource import LentInterface
from pinchpoint.dut import physical_links
from pinchpoint.dut.checks import engine_on
from pinchpoint.dut.device import Device, RawScenario
from pinchpoint.dut.places import Places
from pinchpoint.host import interfaces
from pinchpoint.host.interface import Host
from pinchpoint.keys.lexical import Path
from pinchpoint.keys.reader import Element, Values
from pinchpoint.keys.source import Source
from pinchpoint.model.scenario import LAB, EngineSite, Remote, Scenario
from pinchpoint.observe.printed import Links


def check(
    raw: RawScenario,
    source: Source,
    machines: Mapping[str, Values],
    device: Device,
    *,
    over_engines: bool,
    by_any_engine: bool,
) -> None:
    """Whether cables and hosts of engines fit the device and each other; problems are noted in `source`.

    `over_engines`: whether the measure's trials may be sent by one engine and received by another; `by_any_engine`:
    whether they may at least be made by one engine on another host than the device.
    """
    if raw.hosts and raw.tables["engine"].get("runs_on"):
        told = "expected nothing where there are [[host]]s: where each is, its own runs_on says"
        source.problem(("engine", "runs_on"), told)
        return
    physical_links.check(raw, source, device)
    _check_names(raw, source, machines)
    _check_addresses(raw, source, machines)
    device_on = raw.tables[""].get("runs_on") or LAB
    hosts = {port.values["name"]: engine_on(port, raw) for port in raw.ports if "name" in port.values}
    if set(hosts.values()) <= {device_on}:
        return
    _check_bench(raw, source, over_engines or (by_any_engine and len(set(hosts.values())) == 1), by_any_engine)
    streams = [
        stream.values for stream in raw.arrays.get("stream", ()) if {"tx_port", "rx_port"} <= stream.values.keys()
    ]
    ends = [(hosts[stream["tx_port"]], hosts[stream["rx_port"]]) for stream in streams if _known(stream, hosts)]
    _check_ends(source, raw.ports, hosts, ends)


def _known(stream: Values, hosts: Mapping[str, str]) -> bool:
    return stream["tx_port"] in hosts and stream["rx_port"] in hosts


def _check_names(raw: RawScenario, source: Source, machines: Mapping[str, Values]) -> None:
    places: list[tuple[Path, str | None]] = [(("engine", "runs_on"), raw.tables["engine"].get("runs_on"))]
    places += [((*port.at, "engine_runs_on"), port.values.get("engine_runs_on")) for port in raw.ports]
    for place, name in places:
        if not name or (name == LAB and LAB not in machines):
            continue
        if name == LAB:
            source.problem(place, f'expected another name than [host.{LAB}], since "{LAB}" is the lab\'s own machine')
        elif name not in machines:
            known = ", ".join(machines) or "none"
            told = f'expected the NAME of a [host.NAME] or "{LAB}", found "{name}"; this file has {known}'
            source.problem(place, told)


def _check_addresses(raw: RawScenario, source: Source, machines: Mapping[str, Values]) -> None:
    """One machine has one name in a file: its parts of a bench would have one journal."""
    keys = [raw.tables[""].get("runs_on"), raw.tables["engine"].get("runs_on")]
    keys += [port.values.get("engine_runs_on") for port in raw.ports]
    names = [str(name) for name in dict.fromkeys(keys) if name in machines]
    taken: dict[str, str] = {}
    for name in names:
        address = machines[name].get("address") or name
        if taken.setdefault(address, name) != name:
            told = f'expected another machine than that of [host.{taken[address]}], found "{address}" again'
            source.problem(("host", name, "address"), told)


def _check_bench(raw: RawScenario, source: Source, is_fit: bool, by_any_engine: bool) -> None:
    """What cannot be done yet where an engine is elsewhere than the device; `is_fit`: the measure can."""
    if not is_fit and by_any_engine:
        told = "expected all ports at one engine for this measure: when frames are lost within a trial, an engine that "
        source.problem(("measure",), f"{told}has both ends knows")
    elif not is_fit:
        told = "expected a measure of plain trials of frames where an engine is on another host than the device"
        source.problem(("measure",), told)
    if raw.tables[""].get("numa", "any") != "any":
        source.problem(("numa",), 'expected "any" where an engine is on another host: the ends share no node')
    if raw.tables.get("service") or raw.tables.get("established"):
        told = (
            "expected no [service] where an engine is on another host: it opens connections on the device's host only"
        )
        source.problem(("service",), told)
    is_split = len({engine_on(port, raw) for port in raw.ports}) > 1
    for port in raw.ports:
        if port.values.get("queues", 1) > 1 and (
            is_split or not (port.values.get("pci") and port.values.get("engine_pci"))
        ):
            told = (
                "1 where several engines, or an interface on another host, have the ports: a stream in several parts "
            )
            told += "has one receiver only at one engine, and the queues of an interface stay as they are"
            source.mismatch((*port.at, "queues"), told, port.values["queues"])


def _check_ends(
    source: Source, ports: Sequence[Element], hosts: Mapping[str, str], ends: Sequence[tuple[str, str]]
) -> None:
    """Each engine has something to do."""
    for port in ports:
        host = hosts.get(port.values.get("name", ""))
        if host and ends and not any(host in pair for pair in ends):
            told = f'expected a stream from or to a port of the engine on "{host}": it would do nothing'
            source.problem((*port.at, "engine_runs_on"), told)


def engines_of(scenario: Scenario, remotes: Mapping[str, Remote]) -> tuple[EngineSite, ...]:
    """The engines of a checked file, none if there is one, on the device's host; `remotes` are by name."""
    device_on = scenario.remote.name if scenario.remote else LAB
    ports: dict[str, list[str]] = {}
    for port in scenario.ports:
        host = port.engine_runs_on or scenario.engine.runs_on or device_on
        ports.setdefault(host, []).append(port.name)
    if set(ports) <= {device_on}:
        return ()
    return tuple(EngineSite(remotes.get(host), tuple(names)) for host, names in ports.items())


def engine_links(scenario: Scenario, places: Places) -> list[Links]:
    """The counters of the engine's ends of the ports, each read on its own host.

    None where an end is a NIC, which the kernel does not count: the sum over the other ends would be wrong.
    """
    if any(port.engine_pci for port in scenario.ports):
        return []
    ports = [port.name for port in scenario.ports]
    if not scenario.engines:
        return [Links(places.machine, places.engine_netns, "engine", ports)]
    return [
        Links(places.at(site), places.engine_netns, "engine", site.ports, site.host)
        for site in scenario.engines
        if site.ports
    ]


def lent(interface: str, netns: str, name: str, mtu: int, host: Host) -> LentInterface:
    """An interface as it is now. Raises RequirementError where it cannot be lent."""
    state = interfaces.look(host, interface)
    before = (state.mtu, state.is_up, state.addresses, state.steering, state.mac, state.is_promiscuous, state.offloads)
    return LentInterface(interface, netns, name, max(mtu, state.mtu), *before)

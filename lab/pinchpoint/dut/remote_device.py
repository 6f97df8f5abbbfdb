"""A bench on another machine: which scenarios can have one, and what its device then cannot do."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, cast

from pinchpoint.bench.requirements import Probe
from pinchpoint.dut.device import Device, Freezing, RawScenario
from pinchpoint.engine.process import find_engine
from pinchpoint.host.interface import CommandFailed, Host
from pinchpoint.keys.reader import Values
from pinchpoint.keys.source import Source
from pinchpoint.model.hops import DropKind, HopGraph, Party, Refused
from pinchpoint.model.scenario import Batch, Remote, Scenario

_FULL = Refused("transmit queue of the cable at {port} full", Party.ENGINE, DropKind.TRANSMIT_RING)
_MISSING = "apt-get install dpdk"  # the engine's only libraries that a system may lack
_NOT_RUN = "a file system there that is not mounted noexec; an engine for the host's architecture"


def check(raw: RawScenario, source: Source, machines: Mapping[str, Values]) -> None:
    """Whether the file puts its bench on a host that it names, and can; problems are noted in `source`."""
    name = raw.tables[""].get("runs_on")
    if not name:
        return
    if name not in machines:
        known = ", ".join(machines) or "none"
        source.problem(("runs_on",), f'expected the NAME of a [host.NAME], found "{name}"; this file has {known}')
    if raw.tables["guest"].get("kernel"):
        source.problem(
            ("guest",), "expected no [guest] where there is runs_on: a guest's line ends on the lab's machine"
        )
    build = raw.tables.get("build", {}) if raw.measure and issubclass(raw.measure, Batch) else {}
    if build.get("method") == "transaction":
        told = "expected another method than transaction where there is runs_on: its one request is as long as what it "
        source.problem(("build", "method"), f"{told}makes, and would go over the line to the host within its time")


def remote_of(name: str | None, machines: Mapping[str, Values]) -> Remote | None:
    """The host that a checked file names; None: this machine."""
    if not name:
        return None
    values = machines[name]
    return Remote(name, values.get("address", name), values["sudo"], values["lease_s"])


def on_host(device: Device, scenario: Scenario) -> Device:
    """The device as it is on the scenario's hosts and cables."""
    plain = scenario.remote is None and not scenario.is_cabled
    return device if plain else cast(Device, _HostedDevice(device))


class _HostedDevice:
    """A kind of device on another machine, or at cables; what is not said here is as the kind says it."""

    def __init__(self, device: Device) -> None:
        self._device = device

    def __getattr__(self, name: str) -> Any:
        return getattr(self._device, name)

    def needs(self, scenario: Scenario, host: Host) -> Iterator[Probe]:
        """The engine's libraries, and what the device needs."""
        if scenario.remote and not scenario.engines:
            yield engine(host)
        yield from self._device.needs(scenario, host)

    def freezing(self, scenario: Scenario) -> Freezing:
        """As the kind says, but at cables, which two benches cannot share."""
        if scenario.is_cabled:
            return Freezing(why_not="both benches would need the interfaces at the cables")
        return self._device.freezing(scenario)

    def graph(self, scenario: Scenario) -> HopGraph:
        """As the kind says; what an interface at a cable refuses, it has no room for itself."""
        graph = self._device.graph(scenario)
        return replace(graph, refused=_FULL) if scenario.is_cabled else graph


def engine(host: Host) -> Probe:
    """Whether the engine's file runs on the host."""
    program = find_engine(host)
    try:
        detail = host.run([program, "--version"]).strip()
    except CommandFailed as error:
        return Probe("pinchpoint-engine", False, error.output, _MISSING)
    except OSError as error:
        return Probe("pinchpoint-engine", False, f"{program}: {error.strerror}", _NOT_RUN)
    return Probe("pinchpoint-engine", True, f"{program}: {detail}")

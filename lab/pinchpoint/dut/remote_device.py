"""A device on another machine or at cables: what it then needs, and what it cannot do."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

from pinchpoint.bench.requirements import Probe
from pinchpoint.dut.device import Device, Freezing
from pinchpoint.engine.process import find_engine
from pinchpoint.host.interface import CommandFailed, Host
from pinchpoint.model.hops import DropKind, HopGraph, Party, Refused
from pinchpoint.model.scenario import Scenario

_FULL = Refused("transmit queue of the cable at {port} full", Party.ENGINE, DropKind.TRANSMIT_RING)
_MISSING = "apt-get install dpdk"  # the engine's only libraries that a system may lack
_NOT_RUN = "a file system there that is not mounted noexec; an engine for the host's architecture"


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

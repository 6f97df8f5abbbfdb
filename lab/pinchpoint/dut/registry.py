"""The kinds of devices that there are: the packages of this folder, and those that other distributions bring."""

import pkgutil
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from pinchpoint.dut.device import Device
from pinchpoint.dut.remote_endpoints import at_cables
from pinchpoint.dut.vm_bench import in_guest
from pinchpoint.model.errors import InputError, choices
from pinchpoint.model.scenario import Scenario

GROUP = "pinchpoint.devices"


def kinds() -> tuple[str, ...]:
    """Every kind by its name, those of this folder first."""
    return (*_own(), *sorted(_foreign().keys() - set(_own())))


@cache
def device(kind: str) -> Device:
    """The device of that kind.

    Raises InputError naming the kinds if there is none, or what went wrong while it declared itself.
    """
    if kind not in kinds():
        raise InputError(f"no device of kind {kind!r}", choices(kind, kinds()))
    try:
        package = import_module(f"pinchpoint.dut.{kind}") if kind in _own() else _foreign()[kind].load()
        declared: Device = package.DEVICE
    except Exception as error:
        raise InputError(f"device {kind!r} cannot be used: {type(error).__name__}: {error}") from error
    return declared


@cache
def default() -> str:
    """The kind of a scenario that names none."""
    return next(kind for kind in kinds() if device(kind).is_default)


def device_of(scenario: Scenario) -> Device:
    """The device of the scenario's kind, in a guest or at cables where the scenario has one or the other."""
    return at_cables(in_guest(device(scenario.dut.kind), scenario), scenario)


@cache
def _own() -> tuple[str, ...]:
    return tuple(sorted(module.name for module in pkgutil.iter_modules([str(Path(__file__).parent)]) if module.ispkg))


@cache
def _foreign() -> dict[str, EntryPoint]:
    """Read once: the scan of all installed distributions takes 20 ms, and each point of a sweep would ask for it."""
    return {declared.name: declared for declared in entry_points(group=GROUP)}

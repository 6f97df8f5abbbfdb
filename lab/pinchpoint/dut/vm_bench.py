"""A whole bench in a guest: device, ends and engine, on another kernel, more CPUs or more nodes than this machine has.

What the kind plans is made in the guest as it is, its veth pairs too. All CPUs of such a scenario are virtual ones;
the machine's scheduler places them, since there may be more of them than it has CPUs. The engine's process is reached
over the line to the guest (`host/guest_program.py`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Final, cast

import msgspec

from pinchpoint.bench.resource import (
    AnyResource,
    Command,
    Inside,
    MarkedProcesses,
    Namespace,
    TextFile,
    folder_of_copies,
)
from pinchpoint.dut import vm
from pinchpoint.dut.attach import foundation
from pinchpoint.dut.device import Attachment, Bench, Device, Live, Pages
from pinchpoint.dut.places import Places
from pinchpoint.host.guest import BenchGuest
from pinchpoint.host.guest_kernels import BootPlan
from pinchpoint.host.numa import Topology, read_topology
from pinchpoint.model.errors import BenchError
from pinchpoint.model.scenario import Guest, Port, Scenario

_MOST_BY_LINE: Final = 10_000  # lines of a file


def in_guest(device: Device, scenario: Scenario) -> Device:
    """The device as the scenario wants it: itself, alone in a guest, or there with its whole bench."""
    if scenario.guest is None or not scenario.holds_bench:
        return vm.in_guest(device, scenario)
    return cast(Device, BenchGuestedDevice(device, vm.named(scenario.guest)))


def topology(guest: Guest) -> Topology:
    """The nodes that a guest will have, before it boots: its virtual CPUs dealt to them evenly, in order."""
    each = guest.virtual_cpus // guest.numa_nodes
    return Topology({node: tuple(range(node * each, (node + 1) * each)) for node in range(guest.numa_nodes)})


class BenchGuestedDevice(vm.Guested):
    """A kind of device with its whole bench in a guest."""

    def bench(self, scenario: Scenario, places: Places) -> Bench:
        """The device's, on a guest that has not been started."""
        bench = self._device.bench(scenario, replace(places, host=BenchGuest(places.outside), sites={}))
        return BenchInGuest(scenario, bench.places, bench, self._guest)


class BenchInGuest(vm.GuestedBench):
    """A bench in a guest, planned; the host of its places is the guest."""

    def resources(self, pages: Pages, engine: Sequence[str]) -> list[AnyResource]:
        """The guest, and all of the bench within it."""
        places, there = self.places, self.device.resources(pages, engine)
        outside, inside = _copied([resource for resource in there if not isinstance(resource, MarkedProcesses)], places)
        before = (*foundation(places, pages), Namespace(places.engine_netns), *outside)
        return [*before, *self.booted(()), *map(Inside, inside)]

    def attachment(self, number: int, port: Port) -> Attachment:
        """As of the device."""
        return self.device.attachment(number, port)

    def cpus_outside(self) -> tuple[int, ...]:
        """All that may be used."""
        return tuple(sorted(self.places.outside.cpus()))

    def threads(self) -> tuple[tuple[str, int], ...]:
        """None is kept to one CPU."""
        return ()

    def boot_plan(self, taps: Sequence[str]) -> BootPlan:
        """With several virtual CPUs on each node, which take turns where the machine has fewer CPUs."""
        guest = self.guest
        each, nodes = guest.virtual_cpus // guest.numa_nodes, (None,) * guest.numa_nodes
        shares_cpu = guest.virtual_cpus > len(self.cpus_outside())
        return replace(super().boot_plan(taps), nodes=nodes, shares_cpu=shares_cpu, cpus_each=each)

    def open(self) -> Live:
        """The device, and its guest."""
        return cast(Live, LiveInGuest(self.device.open(), self.places, self.guest))


def _copied(resources: Sequence[AnyResource], places: Places) -> tuple[Sequence[AnyResource], Sequence[AnyResource]]:
    """What of these is on the machine before its guest boots, and what is made in the guest.

    Long files are copied from a folder of the machine that the guest sees: over the line they would take minutes.
    """
    folder, outside, inside = folder_of_copies(places.bench_id), list[AnyResource](), list[AnyResource]()
    for resource in resources:
        if isinstance(resource, TextFile) and sum(count for _, count, _ in resource.series) > _MOST_BY_LINE:
            copy = f"{folder.path}/{PurePosixPath(resource.path).name}"
            outside.append(msgspec.structs.replace(resource, path=copy))
            inside.append(Command(("cp", copy, resource.path)))
        else:
            inside.append(resource)
    return [folder, *outside] if outside else [], inside


class LiveInGuest(vm.LiveGuested):
    """A bench that stands in a guest: the CPUs that its collectors name are the guest's."""

    def settings(self) -> Mapping[str, str]:
        """The device's and the guest's. Raises BenchError where it has other CPUs than it was given."""
        nodes, wanted = read_topology(self._places.host).cpus, topology(self._guest).cpus
        if nodes != wanted:
            told = f"guest.cpus: {vm.told(wanted)} was asked for, the guest has {vm.told(nodes)}"
            raise BenchError(told, "name another guest.release, or give every node more memory (guest.memory_mb)")
        return {**super().settings(), "guest.cpus": str(self._guest.virtual_cpus)}

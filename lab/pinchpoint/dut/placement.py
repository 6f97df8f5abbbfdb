"""Where a scenario's parts run: on which kernel, where its guest leaves that open, and on which NUMA nodes."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from pinchpoint.bench import numa
from pinchpoint.bench.requirements import Probe
from pinchpoint.dut.registry import device_of
from pinchpoint.dut.vm import suited
from pinchpoint.host.guest_kernels import AUTO, KERNELS, GuestKernels, booted
from pinchpoint.host.interface import Host
from pinchpoint.host.machines import Machines
from pinchpoint.host.numa import Topology
from pinchpoint.model.scenario import Scenario

_BUSY_S = 120.0  # what a boot may take on a busy machine: a kernel that does not boot says so sooner
_LOOK_S = 30.0  # what the doctor awaits


def chosen(scenarios: Sequence[Scenario], lab: Host) -> tuple[Scenario, ...]:
    """The same, each with a kernel for its guest, which stands on the lab's own machine.

    Where files leave it open all get the same, if one suits them all.

    It is the first that boots here and has what the devices need; where there is none, the one that lacks least.
    """
    left_open = [scenario for scenario in scenarios if scenario.guest and scenario.guest.kernel == AUTO]
    if not left_open:
        return tuple(scenarios)
    guests = [scenario.guest for scenario in left_open if scenario.guest]
    words = [word for word in KERNELS if all(word in suited(guest) for guest in guests)]
    if not words:
        return tuple(chosen([scenario], lab)[0] for scenario in scenarios)
    word = _best(words, left_open, lab)
    return tuple(_with_kernel(scenario, word) if scenario in left_open else scenario for scenario in scenarios)


def _best(words: Sequence[str], scenarios: Sequence[Scenario], lab: Host) -> str:
    """The last is not booted to find out: nothing else is left, and its bench shows it."""
    lacks = dict[str, int]()
    for word in words:
        lacks[word] = sum(_lacking(_with_kernel(scenario, word), lab) for scenario in scenarios)
        if not lacks[word] and (word == words[-1] or not booted(lab, word, _BUSY_S).why_not):
            return word
    return min(words, key=lambda word: lacks[word] or 1)


def _lacking(scenario: Scenario, lab: Host) -> int:
    return sum(not probe.ok for probe in device_of(scenario).needs(scenario, lab))


def _with_kernel(scenario: Scenario, word: str) -> Scenario:
    assert scenario.guest is not None
    guest = replace(scenario.guest, kernel=word)
    return replace(scenario, guest=guest, defaulted=scenario.defaulted - {"guest.kernel"})


def boots(machine: Host) -> Iterator[Probe]:
    """Whether the kernels that are here boot; all are booted at once."""
    here = {word: kernel for word, kernel in KERNELS.items() if _is_here(machine, kernel)}
    with ThreadPoolExecutor() as pool:
        attempts = pool.map(lambda word: booted(machine, word, _LOOK_S), here)
    for (word, kernel), boot in zip(here.items(), attempts, strict=True):
        detail = boot.why_not or f"{kernel.TITLE} boots, {kernel.runs_on(machine)}: {boot.took_s:.1f} s"
        if boot.is_late:
            why = "this machine is busy, or emulates it slowly; a run awaits it longer"
            detail = f"not booted after {_LOOK_S:g} s: {why}"
        hint = "" if boot.is_late else kernel.mended_by()
        yield Probe(f'guest.kernel = "{word}"', not boot.why_not, detail, hint, needed=False)


def _is_here(machine: Host, kernel: GuestKernels) -> bool:
    programs = all(machine.which(name) for name, _ in kernel.PROGRAMS)
    return programs and all(machine.exists(path) for _, path in kernel.files())


def placed(scenario: Scenario, topology: Topology) -> tuple[Scenario, dict[str, str]]:
    """As `numa.placed`, with the device's memory on the nodes of its CPUs. Raises RequirementError."""
    device = device_of(scenario)
    moved, facts = numa.placed(scenario, topology, device.moved, relays=bool(device.relayed(scenario)))
    return device.on_nodes(moved, topology), facts


def alike(units: Sequence[Scenario], topology: Topology) -> dict[str, str]:
    """Units that need not be measured on this machine, by name, with the reason; see `numa.alike`."""
    return numa.alike(units, topology, lambda unit: placed(unit, topology))


def alike_there(units: Sequence[Scenario], machines: Machines) -> dict[str, str]:
    """The same, on the host of each unit's bench; where that is not connected, none are alike."""
    reasons: dict[str, str] = {}
    for remote in dict.fromkeys(unit.remote for unit in units):
        if (topology := machines.topology(remote)) is not None:
            reasons |= alike([unit for unit in units if unit.remote == remote], topology)
    return reasons

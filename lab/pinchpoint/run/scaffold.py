"""The first scenario on a machine: which CPUs, which device, and the file with its reasons. Pure."""

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pinchpoint.dut.device import Starter
from pinchpoint.host.facts import Machine
from pinchpoint.model import units
from pinchpoint.model.errors import RequirementError

WIDTH = 100  # of a comment


@dataclass(frozen=True)
class Placement:
    """The CPU of the engine and that of the device, and why these."""

    engine: int
    dut: int
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class Choice:
    """A form of a device that was considered."""

    starter: Starter
    lacks: tuple[str, ...] = ()  # what keeps it from running here; empty: it runs


def place(machine: Machine, polls: bool) -> Placement:
    """Two CPUs of one node on two cores, if there are. Raises RequirementError if there are not two CPUs.

    Isolated cores serve whatever polls; a device in softirqs must not be there, since the kernel steers none to them.
    """
    nodes = {node: machine.cores(node) for node in machine.topology.with_cpus}
    node = max(nodes, key=lambda number: (len(nodes[number]), -number), default=None)
    every = [cpu for cores in nodes.values() for core in cores for cpu in core]
    if node is None or len(every) < 2:
        raise RequirementError(
            f"a device and its traffic engine need two CPUs; usable here: {', '.join(map(str, every)) or 'none'}",
            "use a machine with two CPUs, or allow this process more of them (taskset, cpuset)",
        )
    cores, reasons = nodes[node], []
    isolated = [core for core in cores if machine.isolated.issuperset(core)]
    if polls and len(isolated) >= 2:
        cores = isolated
        reasons.append("both cores are isolated from the scheduler, so that nothing else runs on them")
    elif not polls and isolated and len(cores) - len(isolated) >= 2:
        cores = [core for core in cores if core not in isolated]
        reasons.append("not on isolated cores: receive packet steering leaves those out")
    if len(cores) >= 3 and 0 in cores[0]:
        cores = cores[1:]
        reasons.append("CPU 0 is left to the kernel, which has most interrupts there")
    if len(cores) >= 2:
        engine, dut = cores[0][0], cores[1][0]
        several = len(machine.topology.with_cpus) > 1
        reasons.append(f"two cores of NUMA node {node}" if several else "two cores")
    elif len(cores[0]) >= 2:
        engine, dut = cores[0][:2]
        reasons.append("they are threads of one core, as there is no second one: rates are lower than on two")
    else:
        engine, dut = every[:2]
        reasons.append("they are on two NUMA nodes, as no node has two: rates are lower than on one")
    return Placement(engine, dut, tuple(reasons))


def text(
    machine: Machine, facts: Mapping[str, str], running: Sequence[str], chosen: Choice, others: Iterable[Choice]
) -> str:
    """The scenario file. `facts`: of the machine, for people; `running`: sentences on what runs there already."""
    starter = chosen.starter
    placed = place(machine, starter.polls)
    why = f"The engine on CPU {placed.engine}, the device on CPU {placed.dut}: {'; '.join(placed.reasons)}."
    return _FILE.format(
        machine="\n".join(_machine(machine, facts, running)),
        device="\n".join(_device(chosen, others)),
        title=starter.title,
        dut=starter.dut.replace("{cpus}", f"[{placed.dut}]").strip(),
        ports="\n".join(_ports(starter)),
        engine="\n".join((*_comment(why), f"cpus = [{placed.engine}]")),
    )


def _comment(sentence: str, first: str = "# ", rest: str = "# ") -> list[str]:
    return textwrap.wrap(
        sentence, WIDTH, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False, break_long_words=False
    )


def _machine(machine: Machine, facts: Mapping[str, str], running: Sequence[str]) -> Iterator[str]:
    nodes = machine.topology.with_cpus
    cores = sum(len(machine.cores(node)) for node in nodes)
    yield "# The machine:"
    places = f"{units.counted(cores, 'core')} and {units.counted(len(nodes), 'NUMA node')}"
    rows = [
        f"{facts['processor']}; CPUs {facts['cpus']} on {places}",
        f"{facts['memory']} of memory; {machine.free_pages} of {machine.pages} hugepages of 2 MiB free "
        "(a run reserves and returns its own)",
        f"{facts['system']}, kernel {facts['kernel']}",
        *(f"NIC {link.name} ({nic.driver}, {nic.address}{', up' if link.has_link else ''}): not used, "
          "it may be in service" for nic in machine.nics for link in nic.interfaces),
        *running,
    ]  # fmt: skip
    for row in rows:
        yield from _comment(row, "#   ", "#     ")


def _device(chosen: Choice, others: Iterable[Choice]) -> Iterator[str]:
    yield from _comment(f"The device: {chosen.starter.words}: {chosen.starter.why}. Everything that it needs is here.")
    for choice in others:
        other = f": --kind {choice.starter.kind}" if choice.starter.kind != chosen.starter.kind else ""
        says = f"lacks {'; '.join(choice.lacks)}" if choice.lacks else f"would run, too{other}"
        yield from _comment(f"{choice.starter.words}: {says}", "#   ", "#     ")


def _ports(starter: Starter) -> Iterator[str]:
    if starter.ring:
        yield from _comment(f"{starter.ring:,} descriptors hold what arrives while a shared host pauses for a moment.")
    for name in ("left", "right"):
        yield "[[port]]"
        yield f'name = "{name}"'
        if starter.ring:
            yield f"ring = {starter.ring}"
        yield ""


_FILE = """\
# A first scenario, written by `pinchpoint init` for the machine on which it ran.
#
{machine}
#
{device}

title = "{title}"

[dut]
{dut}

{ports}
[engine]
{engine}

# One five-tuple of the smallest frames: the cost is per frame, not per byte. For many five-tuples
# give a range: ipv4_dst = "48.0.0.1-48.0.255.255" makes 65,535.
[[stream]]
from = "left"
to = "right"
frame_bytes = 64
ipv4_src = "16.0.0.1"
ipv4_dst = "48.0.0.1"
udp_src = 1025
udp_dst = 12

# A first look of about half a minute. For numbers to publish leave this table out: by default trials
# are 1 s long. The length of trials is part of a rate's definition.
[search]
loss_ratios = [0, 0.005]
trial_duration_s = 0.2
initial_trial_duration_s = 0.2
duration_sum_s = 2
relative_width = 0.01
max_traffic_s = 16
max_repeats = 15
drain_s = 0.05

[latency]
duration_s = 1
"""

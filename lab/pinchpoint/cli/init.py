"""`pinchpoint init`: a first scenario for this machine, with its reasons as comments."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path

import click

from pinchpoint.dut import registry, requirements
from pinchpoint.dut.device import Starter
from pinchpoint.engine import process
from pinchpoint.host.facts import host_facts
from pinchpoint.host.interface import Host
from pinchpoint.host.local import Local
from pinchpoint.host.machine import Machine, look
from pinchpoint.host.machines import Machines
from pinchpoint.model import units
from pinchpoint.model.errors import InputError, PinchpointError, RequirementError, StoreError
from pinchpoint.run import scaffold
from pinchpoint.run.scaffold import Choice
from pinchpoint.scenario import load_sweep


@click.command(short_help="Write a first scenario that runs on this machine.")
@click.argument("file", default="first.toml", type=click.Path(dir_okay=False, path_type=Path), metavar="[FILE]")
@click.option("--kind", metavar="KIND", help="The kind of device, e.g. bridge; otherwise the first that can run.")
@click.option("--stdout", "to_stdout", is_flag=True, help="Print the scenario instead of writing FILE.")
def init(file: Path, kind: str | None, to_stdout: bool) -> int:
    """Look at this machine and write FILE (scaffold.toml), a scenario that runs here, with the reasons as comments.

    It looks at cores, NUMA nodes, NICs, hugepages, programs, kernel modules and a switch in service; it changes
    nothing, and never overwrites a file.
    """
    if not to_stdout and file.exists():
        raise InputError(f"{file}: exists, and init overwrites nothing", "name another file: pinchpoint init FILE")
    machines = Machines(Local())
    machine = look(machines.lab)
    choices = [_choice(machine, starter, machines) for starter in _starters(kind)]
    chosen = next((choice for choice in choices if not choice.lacks), None)
    if chosen is None:
        lines = "".join(f"\n  {choice.starter.words}: {'; '.join(choice.lacks)}" for choice in choices)
        raise RequirementError(f"no device can run on this machine:{lines}", "pinchpoint doctor --fix")
    others = [choice for choice in choices if choice is not chosen]
    written = scaffold.text(machine, host_facts(machines.lab), list(_in_service(machines.lab)), chosen, others)
    if to_stdout:
        click.echo(written, nl=False)
        return 0
    try:
        with file.open("x", encoding="utf-8") as made:
            made.write(written)
    except OSError as error:
        raise StoreError(f"{file}: {error.strerror}", "name a file in a folder that you may write") from error
    click.echo(f"{file}: {chosen.starter.words}\nnext: pinchpoint check {file}, then pinchpoint run {file}")
    return 0


def _starters(kind: str | None) -> list[Starter]:
    """Of one kind, or of all, best first. Raises InputError where there is none."""
    if kind is not None:
        offered = list(registry.device(kind).starters())
    else:
        offered = sorted(
            (starter for name in registry.kinds() for starter in registry.device(name).starters()), key=_rank
        )
    if not offered:
        able = [name for name in registry.kinds() if any(True for _ in registry.device(name).starters())]
        raise InputError(f"init has no plain scenario of {kind}", f"--kind with one of {', '.join(able)}")
    return offered


def _rank(starter: Starter) -> int:
    return starter.rank


def _choice(machine: Machine, starter: Starter, machines: Machines) -> Choice:
    """Whether the scenario that would be written runs here: asked of the scenario itself."""
    facts = dict.fromkeys(("processor", "cpus", "memory", "system", "kernel"), "")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "first.toml")
        path.write_text(scaffold.text(machine, facts, (), Choice(starter), ()), encoding="utf-8")
        (scenario,) = load_sweep(path).scenarios
    lacking = (probe for probe in requirements.lacking(scenario, machines) if probe.name != "root")
    lacks = [f"{probe.name} ({probe.detail})" for probe in lacking]
    return Choice(starter, (*lacks, *_backend_lacks(starter, machines.lab)))


def _backend_lacks(starter: Starter, lab: Host) -> Iterator[str]:
    try:
        backends = {backend.name: backend for backend in process.backends(lab)}
    except PinchpointError as error:
        yield error.message
        return
    backend = backends.get(starter.backend)
    if backend is None or not backend.available:
        yield f"engine backend {starter.backend} ({(backend.why if backend else None) or 'not built in'})"


def _in_service(lab: Host) -> Iterator[str]:
    """What devices run here on their own; they are looked at and left alone."""
    for kind in registry.kinds():
        device = registry.device(kind)
        with suppress(PinchpointError), closing(device.attach(None, lab)) as attached:
            ports: Sequence[str] = attached.ports
            yield (
                f"{device.title} is in service at {attached.place} with {units.counted(len(ports), 'port')}: "
                "left alone, a run builds its own; `pinchpoint watch` looks at it"
            )

"""`pinchpoint doctor`: what this machine lacks, and, with --fix, providing it."""

import sys
from collections.abc import Sequence
from dataclasses import replace

import click
import msgspec
from rich.console import Console
from rich.table import Table

from pinchpoint.bench import requirements
from pinchpoint.bench.requirements import Probe, Remedy
from pinchpoint.cli.hosts import host_at, host_option
from pinchpoint.cli.mending import Step, carry_out, remove_left, services_stay, steps
from pinchpoint.cli.terminal import PIPED_WIDTH
from pinchpoint.dut import guest_choice, guested, nics, registry
from pinchpoint.engine import process
from pinchpoint.engine.protocol import Backend
from pinchpoint.host.hugepages import pool
from pinchpoint.host.interface import Host
from pinchpoint.model import units
from pinchpoint.model.errors import InputError, NoLibrariesError, PinchpointError, RequirementError

_COMMON_BACKENDS = ("dpdk", "af_packet")
"""Backends without which the quickstart, or the same over veth, cannot run; others are asked for by name only."""
_REMEDIES = {"dpdk": Remedy(packages=process.LIBRARIES)}  # of a backend: its libraries


@click.command(short_help="What this machine lacks, and how to fix it.")
@click.option("--fix", is_flag=True, help="Provide what is missing: print the commands, ask, run them.")
@click.option("--all", "everything", is_flag=True, help="With --fix: also what only some devices need.")
@click.option(
    "--hugepages",
    type=click.IntRange(1, 1 << 20),
    metavar="N",
    help="With --fix: also have N hugepages of 2 MiB until the next boot; a larger pool stays as it is. A run reserves "
    "and returns its own: this is for memory that is too fragmented for that.",
)
@click.option("--yes", is_flag=True, help="With --fix: do not ask.")
@click.option("--json", "as_json", is_flag=True, help="For machines.")
@host_option
def doctor(fix: bool, everything: bool, hugepages: int | None, yes: bool, as_json: bool, address: str | None) -> int:
    """Probe everything a run needs. Exit code 3 if the quickstart cannot run here.

    Each kernel that a guest can have is booted, which takes some seconds.

    With --fix, what Debian packages, Python packages and kernel modules can provide is provided, once you agree.
    """
    if not fix and (everything or hugepages or yes):
        raise InputError("--all, --hugepages and --yes need --fix", "pinchpoint doctor --fix")
    if fix and as_json:
        raise InputError("--fix asks questions, so it prints no JSON", "pinchpoint doctor --json, without --fix")
    if fix and address:
        raise InputError("--fix changes only the machine that it runs on", f"ssh -t {address} pinchpoint doctor --fix")
    return _look(host_at(address), fix, everything, hugepages, yes, as_json, away=address is not None)


def _look(
    host: Host, fix: bool, everything: bool, hugepages: int | None, yes: bool, as_json: bool, *, away: bool
) -> int:
    probes = _probes(host, away)
    if as_json:
        click.echo(msgspec.json.encode(probes))
        return _code(probes)
    _print_probes(probes)
    wanted = steps(probes, everything, hugepages, pool(host)[0])
    if fix:
        return _fix(host, probes, wanted, yes)
    if wanted and not away:
        click.echo(f"\npinchpoint doctor --fix provides what is missing: {_words(wanted)}; it asks first")
    return _code(probes)


def _probes(host: Host, away: bool = False) -> list[Probe]:
    guests = () if away else (replace(one, needed=False) for one in (*guested.probes(host), *guest_choice.boots(host)))
    return [
        requirements.root(host),
        requirements.cpus(host, (), 2),
        *_device_probes(host),
        *guests,
        *nics.probes(host),
        *_engine_probes(host),
    ]


def _code(probes: Sequence[Probe]) -> int:
    return 0 if all(probe.ok for probe in probes if probe.needed) else RequirementError.exit_code


def _fix(host: Host, probes: Sequence[Probe], wanted: Sequence[Step], yes: bool) -> int:
    """Show, ask, do, look again. Raises InputError where nobody can be asked, RequirementError where a step fails."""
    left = [one for one in probes if one.needed and not one.ok and one.remedy is None]
    if not wanted:
        if requirements.root(host).ok and (removed := remove_left(host)):
            click.echo(removed)
        click.echo("\n" + ("nothing that --fix could provide; see the hints" if left else "nothing is missing"))
        return _code(probes)
    click.echo("\nTo do:")
    for step in wanted:
        click.echo(f"  {step}")
    if note := services_stay(host, wanted):
        click.echo(note)
    if not requirements.root(host).ok:
        raise RequirementError("only root can install and reserve", "sudo pinchpoint doctor --fix")
    if not yes:
        if not _asks():
            raise InputError("--fix asks before it changes anything, and there is no terminal", "add --yes to agree")
        if not click.confirm("Run these commands?", default=False):
            click.echo("nothing was changed")
            return _code(probes)
    carry_out(host, wanted, lambda step: click.echo(f"running: {step}", err=True))
    after = _probes(host)
    lacking = [one for one in after if one.needed and not one.ok]
    click.echo("done; " + ("everything that the quickstart needs is here" if not lacking else "still missing:"))
    if lacking:
        _print_probes(lacking)
    return _code(after)


def _asks() -> bool:
    """Whether there is somebody to ask."""
    return sys.stdin.isatty()


def _words(wanted: Sequence[Step]) -> str:
    return units.counted(sum(step.items for step in wanted), "item")


def _device_probes(host: Host) -> list[Probe]:
    """What devices need; only the default kind, which the quickstart measures, must be there."""
    found: dict[str, Probe] = {}
    for kind in sorted(registry.kinds(), key=lambda kind: kind != registry.default()):
        for one in registry.device(kind).probes(host):
            found.setdefault(one.name, replace(one, needed=one.needed and kind == registry.default()))
    return list(found.values())


def _engine_probes(host: Host) -> list[Probe]:
    try:
        backends = process.backends(host)
    except NoLibrariesError as error:
        remedy = Remedy(packages=process.LIBRARIES)
        return [Probe("pinchpoint-engine", False, error.message, error.hint or "", remedy=remedy)]
    except PinchpointError as error:
        return [Probe("pinchpoint-engine", False, error.message, error.hint or "")]
    return [Probe("pinchpoint-engine", True, process.find_engine(host)), *map(_backend_probe, backends)]


def _backend_probe(backend: Backend) -> Probe:
    detail = (backend.detail if backend.available else backend.why) or ""
    needed = backend.name in _COMMON_BACKENDS
    remedy = _REMEDIES.get(backend.name)
    return Probe(f"engine backend {backend.name}", backend.available, detail, backend.hint or "", needed, remedy)


def _print_probes(probes: Sequence[Probe]) -> None:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for probe in probes:
        lacking = "[red]missing[/red]" if probe.needed else "not here"
        mark = "[green]ok[/green]" if probe.ok else lacking
        detail = probe.detail if probe.ok or not probe.hint else f"{probe.detail}\n  hint: {probe.hint}"
        table.add_row(mark, probe.name, detail)
    Console(highlight=False, width=None if sys.stdout.isatty() else PIPED_WIDTH).print(table)

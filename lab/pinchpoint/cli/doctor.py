"""`pinchpoint doctor`: what this machine lacks, and, with --fix, providing it."""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

import click
import msgspec
from rich.table import Table

from pinchpoint.bench import requirements
from pinchpoint.bench.requirements import Probe, Remedy
from pinchpoint.cli.options import host_at, host_option, json_option
from pinchpoint.cli.run import stop_on_signals
from pinchpoint.cli.terminal import console, next_step
from pinchpoint.dut import nics, placement, registry, vm
from pinchpoint.dut.device import Flavour
from pinchpoint.engine import process
from pinchpoint.engine.protocol import Backend
from pinchpoint.host.guest_kernels import KERNELS
from pinchpoint.host.hugepages import NR_HUGEPAGES, pool
from pinchpoint.host.interface import CommandFailed, Host, shell_line
from pinchpoint.model import units
from pinchpoint.model.errors import InputError, NoLibrariesError, PinchpointError, RequirementError
from pinchpoint.model.scenario import Guest

STEP_TIMEOUT_S = 1800.0  # packages come over the network
_POLICY: Final = "/usr/sbin/policy-rc.d"
_MARK: Final = "# Written by pinchpoint doctor --fix, which removes it again."
_QUIET: Final = (("DEBIAN_FRONTEND", "noninteractive"),)


@dataclass(frozen=True)
class Step:
    """One command as root."""

    argv: tuple[str, ...]
    installs: bool = False  # Debian packages, whose services Debian would start

    def __str__(self) -> str:
        return shell_line(self.argv, None, None)


def steps(probes: Iterable[Probe], everything: bool = False, hugepages: int | None = None, pool: int = 0) -> list[Step]:
    """What to run for all that is missing and has a remedy; `everything`: also for what no common scenario needs.

    The pool of hugepages is never made smaller: others may count on it.
    """
    remedies = [probe.remedy for probe in probes if probe.remedy and not probe.ok and (probe.needed or everything)]
    needed = []
    if packages := _every(remedies, "packages"):
        needed.append(Step(("apt-get", "update")))
        words = ("apt-get", "install", "--yes", "--no-remove", "--no-install-recommends", *packages)
        needed.append(Step(words, installs=True))
    elif names := _every(remedies, "dnf"):
        needed.append(Step(("dnf", "install", "--assumeyes", *names)))
    if distributions := _every(remedies, "distributions"):
        needed.append(Step((sys.executable, "-m", "pip", "install", *distributions)))
    needed += [Step(("modprobe", name)) for name in _every(remedies, "modules")]
    if hugepages is not None and hugepages > pool:
        needed.append(Step(("sysctl", "-w", f"vm.nr_hugepages={hugepages}")))
    return needed


def _every(remedies: Sequence[Remedy], what: str) -> list[str]:
    """Each once, in the order of the probes."""
    return list(dict.fromkeys(name for remedy in remedies for name in getattr(remedy, what)))


def services_stay(host: Host, wanted: Sequence[Step]) -> str:
    """What is also done while packages are installed; empty: nothing."""
    if any(step.installs for step in wanted) and (not host.exists(_POLICY) or _is_left(host)):
        return f"Meanwhile {_POLICY} keeps the new packages' services from starting; it is removed afterwards."
    return ""


def remove_left(host: Host) -> str:
    """Remove what a `doctor --fix` that was killed has left; returns what that was, empty: nothing."""
    if not _is_left(host):
        return ""
    host.run(["rm", "-f", _POLICY])
    return f"removed {_POLICY}, which kept services from starting: an earlier doctor --fix was killed"


def _is_left(host: Host) -> bool:
    return host.exists(_POLICY) and _MARK in host.read(_POLICY).splitlines()


def carry_out(host: Host, wanted: Sequence[Step], begins: Callable[[Step], None]) -> None:
    """Run them in order. Raises RequirementError at the first that fails; what was done before it stays."""
    _require_what_it_takes(host, wanted)
    with _services_stopped(host, wanted):
        for step in wanted:
            begins(step)
            try:
                host.run(step.argv, environment=_QUIET, timeout_s=STEP_TIMEOUT_S)
            except CommandFailed as error:
                hint = f"fix that, then repeat: pinchpoint doctor --fix ({step})"
                raise RequirementError(error.message, hint) from error
    _require_reserved(host, wanted)


def _require_what_it_takes(host: Host, wanted: Sequence[Step]) -> None:
    for program in dict.fromkeys(step.argv[0] for step in wanted):
        if host.which(program) is None:
            hint = "--fix knows apt-get and dnf only: install these programs with your system's package manager"
            raise RequirementError(f"{program}: not installed, so --fix cannot work here", hint)


@contextmanager
def _services_stopped(host: Host, wanted: Sequence[Step]) -> Iterator[None]:
    """The system's own switch is not ours to start (policy-rc.d, /usr/share/doc/init-system-helpers)."""
    if not services_stay(host, wanted):
        remove_left(host)
        yield
        return
    with stop_on_signals():
        try:
            host.write(_POLICY, f"#!/bin/sh\n{_MARK}\nexit 101\n")
            host.run(["chmod", "755", _POLICY])
            yield
        finally:
            host.run(["rm", "-f", _POLICY])


def _require_reserved(host: Host, wanted: Sequence[Step]) -> None:
    """The kernel may reserve fewer pages than it was asked for, and says nothing."""
    for step in wanted:
        if step.argv[0] == "sysctl":
            asked, reserved = int(step.argv[-1].partition("=")[2]), int(host.read(NR_HUGEPAGES))
            if reserved < asked:
                hint = "free memory, or boot with hugepages=N on the kernel's command line"
                raise RequirementError(f"the kernel reserved {reserved} of {asked} hugepages of 2 MiB", hint)


_COMMON_BACKENDS = ("dpdk", "af_packet")
"""Backends without which the quickstart, or the same over veth, cannot run; others are asked for by name only."""
_LIBRARIES = Remedy(packages=process.LIBRARIES)
_ENGINE: Final = "pinchpoint-engine"
ByName = Mapping[str, Probe]


@click.command(short_help="What this machine lacks, and how to fix it.")
@click.option("--fix", is_flag=True, help="Provide what is missing: print the commands, ask, run them.")
@click.option("--all", "everything", is_flag=True,
              help="Also print checks that are ok; with --fix, also provide what only some devices need.")  # fmt: skip
@click.option("--hugepages", type=click.IntRange(1, 1 << 20), metavar="N",
              help="With --fix: also reserve N hugepages of 2 MiB until the next boot; a larger pool is left alone. A "
                   "run reserves and returns its own; this helps where memory is too fragmented for that.")  # fmt: skip
@click.option("--yes", is_flag=True, help="With --fix: do not ask.")
@json_option
@host_option
def doctor(fix: bool, everything: bool, hugepages: int | None, yes: bool, as_json: bool, address: str | None) -> int:
    """Probe everything that a run needs; the last lines say which devices can run. Exit code 3: the quickstart cannot.

    Each kernel that a guest can have is booted, which takes some seconds.

    --fix asks, then installs missing Debian, Fedora and Python packages and loads kernel modules.
    """
    if not fix and (hugepages or yes):
        raise InputError("--hugepages and --yes need --fix", "pinchpoint doctor --fix")
    if fix and as_json:
        raise InputError("--fix asks questions, so it prints no JSON", "pinchpoint doctor --json, without --fix")
    if fix and address:
        raise InputError("--fix changes only the machine that it runs on", f"ssh -t {address} pinchpoint doctor --fix")
    host, away = host_at(address), address is not None
    probes, devices = _diagnosis(host, away)
    if as_json:
        click.echo(msgspec.json.encode(probes))
        return _code(probes)
    _print_probes(probes, everything)
    click.echo("\n".join(("", *devices)))
    wanted = steps(probes, fix and everything, hugepages, pool(host)[0])
    if fix:
        return _fix(host, probes, wanted, yes)
    if not away and (wanted or not _code(probes)):
        next_step(*(("doctor", "--fix") if wanted else ("init",)))
    return _code(probes)


def _diagnosis(host: Host, away: bool = False) -> tuple[list[Probe], list[str]]:
    """All findings, and a sentence for each flavour of a device."""
    boots = None if away else placement.boots(host)
    guests = () if boots is None else (*vm.probes(host), *boots.values())
    optional = (replace(requirements.as_here(probe, host), needed=False) for probe in guests)
    machine = (requirements.root(host), requirements.cpus(host, (), 2), *requirements.steadiness(host))
    flavours, engine = _flavours(host), engine_probes(host)
    probes = [*machine, *_device_probes(flavours), *optional, *nics.probes(host), *engine.values()]
    return probes, [_sentence(kind, own, host, engine, boots) for kind, each in flavours.items() for own in each]


def _flavours(host: Host) -> Mapping[str, Sequence[Flavour]]:
    """Of each kind, the default one first."""

    def as_here(flavour: Flavour) -> Flavour:
        return replace(flavour, probes=tuple(requirements.as_here(probe, host) for probe in flavour.probes))

    kinds = sorted(registry.kinds(), key=lambda kind: kind != registry.default())
    return {kind: tuple(map(as_here, registry.device(kind).flavours(host))) for kind in kinds}


def _sentence(kind: str, flavour: Flavour, host: Host, engine: ByName, boots: ByName | None) -> str:
    """Whether it can run here or in a guest, or what it needs first; `boots`: of each kernel here. None: no guests."""
    words, lacks = flavour.words[:1].upper() + flavour.words[1:], lacking(flavour, engine)
    if not lacks:
        return f"{words}: ready"
    needs = f"{words}: needs {lacks[0].name}{f' and {len(lacks) - 1} more' if lacks[1:] else ''}"
    if flavour.fits_guest and boots is not None:
        for word in (word for word, probe in boots.items() if probe.ok):
            inside = registry.device(kind).flavours(host, Guest(word, KERNELS[word].LEAST_MB))
            if any(own.words == flavour.words and not lacking(own, engine) for own in inside):
                return f'{words}: ready in a guest, guest.kernel = "{word}"'
        absent = [kernel.provided_by() for word, kernel in KERNELS.items() if word not in boots]
        if absent and lacks[0] in flavour.probes and lacks[0].remedy is None:
            return f"{needs}, here or in a guest: {' or '.join(absent)}"
    return f"{needs}: {lacks[0].hint}" if lacks[0].hint else needs


def _code(probes: Sequence[Probe]) -> int:
    return 0 if all(probe.ok for probe in probes if probe.needed) else RequirementError.exit_code


def _fix(host: Host, probes: Sequence[Probe], wanted: Sequence[Step], yes: bool) -> int:
    """Show, ask, do, look again. Raises InputError where nobody can be asked, RequirementError where a step fails."""
    left = [probe for probe in probes if probe.needed and not probe.ok and probe.remedy is None]
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
    after, _ = _diagnosis(host)
    lacking = [probe for probe in after if probe.needed and not probe.ok]
    click.echo("done; " + ("everything that the quickstart needs is here" if not lacking else "still missing:"))
    if lacking:
        _print_probes(lacking)
    return _code(after)


def _asks() -> bool:
    """Whether there is somebody to ask."""
    return sys.stdin.isatty()


def _device_probes(flavours: Mapping[str, Sequence[Flavour]]) -> list[Probe]:
    """What devices need; only the default kind, which the quickstart measures, must be there."""
    probes: dict[str, Probe] = {}
    for kind, probe in ((kind, probe) for kind, own in flavours.items() for each in own for probe in each.probes):
        probes.setdefault(probe.name, replace(probe, needed=probe.needed and kind == registry.default()))
    return list(probes.values())


def lacking(flavour: Flavour, engine: ByName) -> list[Probe]:
    """What a machine with that engine lacks for a flavour."""
    absent = Probe(f"engine backend {flavour.backend}", not engine[_ENGINE].ok, "not built in")
    probes = (engine[_ENGINE], engine.get(flavour.backend, absent), *flavour.probes)
    return [probe for probe in probes if not probe.ok]


def engine_probes(host: Host) -> ByName:
    """The engine, and if it runs each of its backends by its name."""
    try:
        backends = process.backends(host)
    except PinchpointError as error:
        remedy = _LIBRARIES if isinstance(error, NoLibrariesError) else None
        return {_ENGINE: Probe(_ENGINE, False, error.message, error.hint or "", remedy=remedy)}
    here = Probe(_ENGINE, True, process.find_engine(host))
    return {_ENGINE: here, **{backend.name: _backend_probe(backend) for backend in backends}}


def _backend_probe(backend: Backend) -> Probe:
    detail = (backend.detail if backend.available else backend.why) or ""
    needed = backend.name in _COMMON_BACKENDS
    remedy = _LIBRARIES if backend.name == "dpdk" else None
    return Probe(f"engine backend {backend.name}", backend.available, detail, backend.hint or "", needed, remedy)


def _print_probes(probes: Sequence[Probe], everything: bool = False) -> None:
    """Print the checks; those that are ok only as a count, unless `everything` is asked for."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for probe in (probe for probe in probes if everything or not probe.ok):
        mark = "[green]ok[/green]" if probe.ok else "[red]missing[/red]" if probe.needed else probe.mark
        detail = probe.detail if probe.ok or not probe.hint else f"{probe.detail}\n  hint: {probe.hint}"
        table.add_row(mark, probe.name, detail)
    console().print(table)
    if (folded := sum(probe.ok for probe in probes)) and not everything:
        click.echo(f"{units.counted(folded, 'check')} ok: pinchpoint doctor --all shows them")

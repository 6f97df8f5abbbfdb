"""Commands that look or tidy: check, show, report, doctor, clean."""

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import click
import msgspec
from rich.console import Console
from rich.table import Table

from pinchpoint.bench import builder, requirements
from pinchpoint.bench.requirements import Probe
from pinchpoint.cli import program
from pinchpoint.cli.run import print_stored, write_report
from pinchpoint.dut import guested, registry
from pinchpoint.dut.registry import device_of
from pinchpoint.engine import process
from pinchpoint.engine.protocol import Backend
from pinchpoint.host.machines import standing_on
from pinchpoint.model import units
from pinchpoint.model.errors import BenchError, InputError, PinchpointError, RequirementError
from pinchpoint.model.scenario import Factor, Remote, Sweep, is_destination
from pinchpoint.store.folder import RunFolder

MOST_LEVELS_SHOWN = 6
LEASE_S = 60.0  # of a connection that builds nothing


@click.command(short_help="Check scenario files without running them.")
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path), metavar="SCENARIO...")
@click.option("--quick", is_flag=True, help="The short form.")
def check(paths: tuple[Path, ...], quick: bool) -> int:
    """Read SCENARIO files, folders of them or studies; report every problem with its file, line and key.

    Of a sweep, also print the points and their estimated time.
    """
    for form in _forms(paths, quick):
        for sweep in form.sweeps:
            click.echo(f"{sweep.scenarios[0].path}: ok. {_sweep(sweep) if sweep.factors else _scenario(sweep)}")
        if not form.plain:
            click.echo(f"{form.name}: {form.describe()}")
    return 0


def _forms(paths: Sequence[Path], quick: bool) -> list[program.Program]:
    """Each study for itself, everything else together."""
    studies = [path for path in paths if (path / program.STUDY_FILE).is_file()]
    others = [path for path in paths if path not in studies]
    found = [program.of_study(path, quick) for path in studies]
    return [*found, program.of_paths(others, quick)] if others else found


def _scenario(sweep: Sweep) -> str:
    (scenario,) = sweep.scenarios
    device = device_of(scenario)
    contents = [f"{count:,} {what}" for what, count in device.contents(scenario).items() if count]
    five_tuples = f"{sum(stream.flows for stream in scenario.streams):,} five-tuples"
    pages = f"{device.pages(scenario)} hugepages of 2 MiB"
    return ", ".join((f"{len(scenario.ports)} ports", *contents, five_tuples, pages))


def _sweep(sweep: Sweep) -> str:
    factors = " x ".join(f"{factor.name} {_levels(factor)}" for factor in sweep.factors)
    repeats = f", {sweep.repeats} repeats" if sweep.repeats > 1 else ""
    return f"{units.counted(len(sweep.scenarios), 'point')}: {factors}{repeats}"


def _levels(factor: Factor) -> str:
    """The levels if they are few, else the first and the last."""
    shown = [units.level(level) for level in factor.levels]
    few = ", ".join(shown) if len(shown) <= MOST_LEVELS_SHOWN else f"{shown[0]} to {shown[-1]}"
    return f"{few} {factor.unit}".rstrip()


@click.command(short_help="Print a stored run again.")
@click.argument("run_folder", type=click.Path(exists=True, file_okay=False, path_type=Path), metavar="RUN")
@click.option("--json", "as_json", is_flag=True, help="Print result.json, or comparison.json.")
def show(run_folder: Path, as_json: bool) -> int:
    """Print the results of the run folder RUN as `pinchpoint run` did."""
    folder = RunFolder.open(run_folder)
    if folder.read_result() is None:
        raise InputError(f"{run_folder}: no scenario has finished", f"pinchpoint run --resume {run_folder}")
    print_stored(folder, as_json)
    return 0


@click.command(short_help="Write a stored run's report again.")
@click.argument("run_folder", type=click.Path(exists=True, file_okay=False, path_type=Path), metavar="RUN")
def report(run_folder: Path) -> int:
    """Make report.html and report.md of the run folder RUN anew, e.g. with a newer pinchpoint."""
    click.echo(f"Report: {write_report(RunFolder.open(run_folder))}")
    return 0


def _at(address: str | None) -> AbstractContextManager[None]:
    """Inside, that machine is at hand. Raises InputError if it is no destination."""
    if address is None:
        return standing_on(None)
    if not is_destination(address):
        raise InputError(
            f"--host: expected a destination of ssh(1), found {address!r}", "USER@HOST, or a Host of ssh_config"
        )
    return standing_on(Remote(address, address, sudo=True, lease_s=LEASE_S))


@click.command(short_help="What this machine can run, and how to fix the rest.")
@click.option("--json", "as_json", is_flag=True, help="For machines.")
@click.option("--host", "address", metavar="HOST", help="Another machine, by the name that ssh(1) knows it by.")
def doctor(as_json: bool, address: str | None) -> int:
    """Probe everything a run needs. Exit code 3 if the quickstart cannot run here."""
    with _at(address):
        guests = (replace(one, needed=False) for one in guested.probes()) if address is None else ()
        probes = [requirements.root(), requirements.cpus((), 2), *_device_probes(), *guests, *_engine_probes()]
    if as_json:
        click.echo(msgspec.json.encode(probes))
    else:
        _print_probes(probes)
    return 0 if all(probe.ok for probe in probes if probe.needed) else RequirementError.exit_code


_COMMON_BACKENDS = ("dpdk", "af_packet")
"""Backends without which the quickstart, or the same over veth, cannot run; others are asked for by name only."""


def _device_probes() -> list[Probe]:
    """What devices need; only the default kind, which the quickstart measures, must be there."""
    found: dict[str, Probe] = {}
    for kind in sorted(registry.kinds(), key=lambda kind: kind != registry.default()):
        for one in registry.device(kind).probes():
            found.setdefault(one.name, replace(one, needed=one.needed and kind == registry.default()))
    return list(found.values())


def _engine_probes() -> list[Probe]:
    try:
        backends = process.backends()
    except PinchpointError as error:
        return [Probe("pinchpoint-engine", False, error.message, error.hint or "")]
    return [Probe("pinchpoint-engine", True, process.find_engine()), *map(_backend_probe, backends)]


def _backend_probe(backend: Backend) -> Probe:
    detail = (backend.detail if backend.available else backend.why) or ""
    needed = backend.name in _COMMON_BACKENDS
    return Probe(f"engine backend {backend.name}", backend.available, detail, backend.hint or "", needed)


def _print_probes(probes: list[Probe]) -> None:
    table = Table(box=None, show_header=False, pad_edge=False)
    for probe in probes:
        lacking = "[red]missing[/red]" if probe.needed else "not here"
        mark = "[green]ok[/green]" if probe.ok else lacking
        detail = probe.detail if probe.ok or not probe.hint else f"{probe.detail}\n  hint: {probe.hint}"
        table.add_row(mark, probe.name, detail)
    Console(highlight=False).print(table)


@click.command(short_help="Remove what a killed run left behind.")
@click.option("--host", "address", metavar="HOST", help="On another machine, by the name that ssh(1) knows it by.")
def clean(address: str | None) -> int:
    """Remove every namespace, link, process, folder and hugepage that a journal of a dead run names."""
    if address is None and os.geteuid() != 0:
        raise RequirementError("only root can remove what a run left behind", "sudo pinchpoint clean")
    with _at(address):
        removed, alive, failures = builder.clean()
    for line in removed:
        click.echo(f"removed {line}")
    for bench in alive:
        click.echo(f"left alone: bench {bench} belongs to a run that is still going on", err=True)
    for line in failures:
        click.echo(f"not removed: {line}", err=True)
    if not removed and not alive and not failures:
        click.echo("nothing to remove")
    return BenchError.exit_code if failures else 0

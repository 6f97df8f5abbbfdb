"""`pinchpoint ceiling`: what the traffic engine itself reaches on a bench, without the device."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import msgspec

from pinchpoint.bench.journal import machine_lock
from pinchpoint.cli import program
from pinchpoint.cli.options import FILE, duration, json_option, quiet_option
from pinchpoint.cli.progress import progress
from pinchpoint.cli.run import stop_on_signals
from pinchpoint.dut import requirements
from pinchpoint.engine import process
from pinchpoint.host.local import Local
from pinchpoint.host.machines import Machines
from pinchpoint.measure.standing import Listener
from pinchpoint.model import units
from pinchpoint.model.errors import InputError
from pinchpoint.model.measurement import Foreign
from pinchpoint.model.result import Ceiling
from pinchpoint.model.scenario import Scenario
from pinchpoint.report.observed import generator_lines
from pinchpoint.run import external_generator
from pinchpoint.run.ceiling import CeilingTest

FOREIGN_S = 5.0  # another generator runs


@click.command(short_help="What the engine itself reaches, without the device.")
@click.argument("path", type=FILE, metavar="SCENARIO")
@click.option("--fresh", is_flag=True, help="Measure it anew, also if it was measured within the last day.")
@click.option("--generator", metavar="COMMAND", help="Watch this command instead of the engine; {PORT} is replaced.")
@click.option("--for", "duration_s", type=duration, metavar="TIME", help="How long it may run. [default: 5s]")
@json_option
@quiet_option
def ceiling(
    path: Path, fresh: bool, generator: str | None, duration_s: float | None, as_json: bool, quiet: bool
) -> int:
    """The highest rate that the engine offers on the bench of SCENARIO with its ports joined to each other.

    `pinchpoint run` does the same before a search; a rate within its reach is reported as "at least". Of a file
    that sweeps, the first point is taken. What was measured is kept for a day, by the distance of the cores.

    With `--generator` another generator takes the engine's place, and what it really sends is reported: rate,
    bursts, sizes, flows, checksums, one way or two. COMMAND is run without a shell on the engine's CPUs. Its
    {PORT} is the interface of that port in a namespace of its own or, where the device polls, the path of the
    vhost-user socket that the command has to serve: `--generator "trafgen --dev {left} --conf udp.cfg"`.
    """
    scenario = program.of_paths([path]).units[0]
    if scenario.remote or scenario.engines:
        what = "its bench stands on another host, where the ceiling is measured by the run itself"
        raise InputError(f"{path}: runs_on: {what}", f"pinchpoint run {path}")
    if generator is not None and fresh:
        raise InputError("--fresh: another generator's rate is never kept", "leave it out")
    if generator is None and duration_s is not None:
        raise InputError("--for: the engine's own ceiling takes ten short trials", "use it with --generator")
    machines = Machines(Local())
    test = CeilingTest(machines, process.version)
    measured: Foreign | tuple[Ceiling, ...]
    lines: Iterable[str]
    if generator is not None:
        with _measuring(machines, external_generator.wire_of(scenario, machines.lab), quiet) as listener:
            measured = external_generator.watched(machines, scenario, generator, duration_s or FOREIGN_S, listener)
        lines = generator_lines(measured, max((known.fps for known in test.known(scenario)), default=None))
    else:
        measured = () if fresh else test.known(scenario)
        if not measured:
            with _measuring(machines, scenario, quiet) as listener:
                measured = test.measured_now(scenario, listener)
        lines = [_line(ceiling) for ceiling in measured]
    click.echo(msgspec.json.encode(measured) if as_json else "\n".join(lines))
    return 0


@contextmanager
def _measuring(machines: Machines, scenario: Scenario, quiet: bool) -> Iterator[Listener]:
    """Alone on this machine, which has what the bench needs."""
    requirements.require(scenario, machines)
    with machine_lock(machines.lab), progress(quiet) as listener, stop_on_signals():
        yield listener


def _line(ceiling: Ceiling) -> str:
    back = "" if ceiling.received_fps is None else f", {units.fps(ceiling.received_fps)} of it came back"
    apart = "" if ceiling.distance_ns is None else f" cores {units.nanoseconds(ceiling.distance_ns)} apart,"
    return f"{units.fps(ceiling.fps)} offered{back};{apart} measured {ceiling.measured}\n  {ceiling.key}"

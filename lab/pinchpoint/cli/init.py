"""Commands that write a scenario: `pinchpoint init` a first one for this machine, with its reasons as comments;
`pinchpoint import` a traffic profile of another program.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pinchpoint.cli.doctor import engine_probes, lacking
from pinchpoint.cli.options import FILE, NEW_FILE, pair_of_words
from pinchpoint.cli.terminal import next_step
from pinchpoint.dut import registry
from pinchpoint.dut.watching import watchable
from pinchpoint.host.facts import host_facts, look
from pinchpoint.host.interface import Host
from pinchpoint.host.local import Local
from pinchpoint.model import units
from pinchpoint.model.errors import InputError, PinchpointError, RequirementError
from pinchpoint.run import scaffold
from pinchpoint.run.scaffold import Choice
from pinchpoint.store.folder import storing

if TYPE_CHECKING:
    from pinchpoint.profiles.streams import Wanted


@click.command(short_help="Write a first scenario that runs on this machine.")
@click.argument("file", default="first.toml", type=NEW_FILE, metavar="[FILE]")
@click.option("--kind", metavar="KIND", help="Kind of device, e.g. bridge. [default: the first that can run here]")
@click.option("--stdout", "to_stdout", is_flag=True, help="Print the scenario instead of writing FILE.")
def init(file: Path, kind: str | None, to_stdout: bool) -> int:
    """Look at this machine and write FILE (first.toml), a scenario that runs here, with the reasons as comments.

    It looks at cores, NUMA nodes, NICs, hugepages, programs, kernel modules and a switch in service; it changes
    nothing, and never overwrites a file.
    """
    target = None if to_stdout else file
    _require_new(target, "init", "name another file: pinchpoint init FILE")
    lab = Local()
    machine, choices = look(lab), _choices(kind, lab)
    chosen = next((choice for choice in choices if not choice.lacks), None)
    if chosen is None:
        lines = "".join(f"\n  {choice.starter.words}: {'; '.join(choice.lacks)}" for choice in choices)
        raise RequirementError(f"no device can run on this machine:{lines}", "pinchpoint doctor --fix")
    others = [choice for choice in choices if choice is not chosen]
    written = scaffold.text(machine, host_facts(lab), list(_in_service(lab)), chosen, others)
    _write(target, written, chosen.starter.words)
    return 0


def _require_new(file: Path | None, command: str, hint: str) -> None:
    if file is not None and file.exists():
        raise InputError(f"{file}: exists, and {command} overwrites nothing", hint)


def _write(file: Path | None, text: str, what: str) -> None:
    """Into a new file, and say what it is; None: on standard output. Raises StoreError."""
    if file is None:
        click.echo(text, nl=False)
        return
    with storing(file, "name a file in a writable folder"), file.open("x", encoding="utf-8") as made:
        made.write(text)
    click.echo(f"{file}: {what}")
    next_step("check", str(file))


def _choices(kind: str | None, lab: Host) -> list[Choice]:
    """What can be begun with, of one kind or of all, best first. Raises InputError where a kind has nothing."""
    able = [name for name in registry.kinds() if registry.device(name).starters]
    if kind is not None and not registry.device(kind).starters:
        raise InputError(f"init has no plain scenario of {kind}", f"--kind with one of {', '.join(able)}")
    devices = map(registry.device, able if kind is None else (kind,))
    starting = [(own.starter, own) for device in devices for own in device.flavours(lab) if own.starter]
    engine = engine_probes(lab)
    return [
        Choice(starter, tuple(f"{probe.name} ({probe.detail})" for probe in lacking(flavour, engine)))
        for starter, flavour in sorted(starting, key=lambda pair: pair[0].rank)
    ]


def _in_service(lab: Host) -> Iterator[str]:
    """What devices run here on their own; they are looked at and left alone."""
    for device in map(registry.device, registry.kinds()):
        with suppress(PinchpointError), closing(watchable(device).attach(None, lab)) as attached:
            ports: Sequence[str] = attached.ports
            place = f"{attached.place} with {units.counted(len(ports), 'port')}"
            left_alone = "a run leaves it alone and builds its own; `pinchpoint watch` reads it"
            yield f"{device.title} is in service at {place}: {left_alone}"


MOST_BENCH_BYTES = 1 << 20
EXAMPLE = """\b
Example:
  pinchpoint import stl/imix.py -o imix.toml --bench 1-forward.toml
  pinchpoint run imix.toml
"""


@click.command("import", short_help="Write a TRex profile (Python or YAML) as a scenario.", epilog=EXAMPLE)
@click.argument("profile", type=click.Path(exists=True, dir_okay=False))
@click.option("-o", "--out", "output", type=NEW_FILE, metavar="FILE", help="A new file.  [default: stdout]")
@click.option("--tunable", "tunables", type=pair_of_words("NAME=VALUE, e.g. packet_len=128", may_be_empty=True),
              multiple=True, metavar="NAME=VALUE", help="An argument of a Python profile.")  # fmt: skip
@click.option("--both-ways", is_flag=True,
              help="Also the streams of direction 1, or the servers' frames of captures, from the second "
                   "port.")  # fmt: skip
@click.option("--bench", type=FILE, metavar="SCENARIO",
              help="Take all but the [[stream]] tables from this file.  [default: two joined ports]")  # fmt: skip
@click.option("--ports", nargs=2, default=("left", "right"), show_default=True, metavar="FIRST SECOND",
              help="Names of the two [[port]] tables.")  # fmt: skip
def import_profile(
    profile: str, output: Path | None, tunables: tuple[tuple[str, str], ...], both_ways: bool, bench: Path | None,
    ports: tuple[str, str],
) -> int:  # fmt: skip
    """Write the streams of PROFILE as [[stream]] tables of a scenario.

    PROFILE is a stateless profile in Python (register, get_streams), or one of captures in YAML. A Python profile is
    run without privileges: no network, no files to write, no processes, 3 s of CPU time, 512 MiB. Captures are
    searched for next to the profile, in the current directory, and in the profile's parent directories. What a
    [[stream]] cannot express is refused, with its name and line. Rates become shares of the load, which the measure
    chooses.
    """
    _require_new(output, "import", "-o with another name")
    text = _scenario(profile, dict(tunables), both_ways, bench, ports)
    streams = units.counted(text.count("\n[[stream]]\n"), "stream")
    _write(output, text, streams)
    return 0


def _scenario(
    profile: str, tunables: Mapping[str, str], both_ways: bool, bench: Path | None, ports: tuple[str, str]
) -> str:
    from pinchpoint.profiles import captured, tables

    left, right = ports
    if profile.endswith(".py"):
        directed = _of_python(profile, tunables, both_ways, ports)
    elif tunables:
        raise InputError(f"{profile}: --tunable is for Python profiles (.py)")
    else:
        streams = captured.of_profile(profile, Local(), both_ways=both_ways)
        directed = [(stream, *((right, left) if is_back else (left, right))) for stream, is_back in streams]
    taken = tables.BENCH.format(left=left, right=right) if bench is None else _bench(bench)
    return tables.scenario(profile, taken, directed)


def _of_python(
    profile: str, tunables: Mapping[str, str], both_ways: bool, ports: tuple[str, str]
) -> "list[tuple[Wanted, str, str]]":
    """The streams of a Python profile with their ports. Tells where it has others for the way back."""
    from pinchpoint.profiles import captured, declared, streams

    (left, right), first_frame = ports, captured.first_frame(profile, Local())
    there = declared.streams(profile, 0, tunables)
    directed = [(stream, left, right) for stream in streams.wanted(profile, there, first_frame)]
    if both_ways:
        back = declared.streams(profile, 1, tunables)
        return [*directed, *((stream, right, left) for stream in streams.wanted(profile, back, first_frame))]
    with suppress(InputError):  # of a direction that nobody asked for
        back = declared.streams(profile, 1, tunables)
        if back != there and (count := sum(stream.enabled for stream in back)):
            own = f"direction 1 has {units.counted(count, 'stream')} of its own; --both-ways imports them too"
            click.echo(f"{profile}: {own}", err=True)
    return directed


def _bench(path: Path) -> str:
    try:
        with path.open("rb") as file:
            read = file.read(MOST_BENCH_BYTES)
        return read.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: {error}", "--bench with a scenario file") from error

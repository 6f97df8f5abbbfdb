"""`pinchpoint import`: a traffic profile of another program as a scenario."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from pinchpoint.host.local import Local
from pinchpoint.model.errors import InputError, StoreError

MOST_BENCH_BYTES = 1 << 20
EXAMPLE = """\b
Example:
  pinchpoint import stl/imix.py -o imix.toml --bench 1-forward.toml
  pinchpoint run imix.toml
"""


@click.command("import", short_help="Write a TRex profile (Python or YAML) as a scenario.", epilog=EXAMPLE)
@click.argument("profile", type=click.Path(exists=True, dir_okay=False))
@click.option(
    "-o",
    "--out",
    "output",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="A new file.  [default: stdout]",
)
@click.option("--tunable", "tunables", multiple=True, metavar="NAME=VALUE", help="An argument of a Python profile.")
@click.option("--both-ways", is_flag=True, help="Also the streams of direction 1, from the second port.")
@click.option(
    "--bench",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="SCENARIO",
    help="Take all but its [[stream]] tables from here.  [default: ports that are joined]",
)
@click.option(
    "--ports",
    nargs=2,
    default=("left", "right"),
    show_default=True,
    metavar="FIRST SECOND",
    help="Names of the two [[port]] tables.",
)
def import_profile(
    profile: str, output: Path | None, tunables: tuple[str, ...], both_ways: bool, bench: Path | None,
    ports: tuple[str, str],
) -> int:  # fmt: skip
    """Write the streams of PROFILE as [[stream]] tables of a scenario.

    PROFILE is a stateless profile in Python (register, get_streams), or one of captures in YAML. A Python profile is
    run without privileges: no network, no files to write, no processes, 3 s of CPU time, 512 MiB. What a [[stream]]
    does not do is refused with its name and line. Rates become shares of the load, which the measure chooses.
    """
    if output is not None and output.exists():
        raise InputError(f"{output}: exists, and import overwrites nothing", "-o with another name")
    text = _scenario(profile, _pairs(tunables), both_ways, bench, ports)
    if output is None:
        click.echo(text, nl=False)
        return 0
    try:
        with output.open("x", encoding="utf-8") as made:
            made.write(text)
    except OSError as error:
        raise StoreError(f"{output}: {error.strerror}", "name a file in a folder that you may write") from error
    count = text.count("\n[[stream]]\n")
    click.echo(f"{output}: {count} stream{'s' * (count != 1)}\nnext: pinchpoint check {output}")
    return 0


def _pairs(tunables: Sequence[str]) -> dict[str, str]:
    pairs = {}
    for tunable in tunables:
        name, sign, value = tunable.partition("=")
        if not sign or not name.isidentifier():
            raise InputError(f"--tunable {tunable}: expected NAME=VALUE", "--tunable packet_len=128")
        pairs[name] = value
    return pairs


def _scenario(
    profile: str, tunables: Mapping[str, str], both_ways: bool, bench: Path | None, ports: tuple[str, str]
) -> str:
    from pinchpoint.profiles import declared, streams, text

    left, right = ports
    if profile.endswith(".py"):
        directed = [
            (stream, *ends)
            for direction, ends in enumerate(((left, right), (right, left))[: 1 + both_ways])
            for stream in streams.wanted(profile, declared.streams(profile, direction, tunables))
        ]
    elif tunables or both_ways:
        raise InputError(f"{profile}: --tunable and --both-ways are for Python profiles (.py)")
    else:
        directed = [(stream, left, right) for stream in streams.of_captures(profile, Local())]
    taken = text.BENCH.format(left=left, right=right) if bench is None else _bench(bench)
    return text.scenario(profile, taken, directed)


def _bench(path: Path) -> str:
    try:
        with path.open("rb") as file:
            read = file.read(MOST_BENCH_BYTES)
        return read.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: {error}", "--bench with a scenario file") from error

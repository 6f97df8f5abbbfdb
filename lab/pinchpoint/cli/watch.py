"""`pinchpoint watch`: a switch in service, read and never changed; live, recorded, or replayed from a recording."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import click
import msgspec
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from pinchpoint.cli.parameters import Duration
from pinchpoint.cli.terminal import PIPED_WIDTH
from pinchpoint.dut import registry
from pinchpoint.dut.device import Attached, Device
from pinchpoint.host.local import LOCAL
from pinchpoint.model.errors import DutError, InputError
from pinchpoint.model.watch import Reading, RecordHead, Watched
from pinchpoint.report.terminal import draw
from pinchpoint.report.watch_view import WatchView, watch_view
from pinchpoint.run.watch import head_of, readings, watched
from pinchpoint.store.recording import Recorder, read

EXAMPLE = "pinchpoint watch --for 30s --record switch.jsonl"


@click.command(short_help="Watch a switch in service, without changing it.")
@click.argument("place", required=False, metavar="[PLACE|RECORD]")
@click.option("--kind", metavar="KIND", help="Of device, as a scenario's dut.kind. [default: that of a scenario]")
@click.option("--for", "for_s", type=Duration(), metavar="TIME", help="End after TIME. [default: when interrupted]")
@click.option(
    "--every",
    "every_s",
    type=Duration(),
    default="1s",
    show_default=True,
    metavar="TIME",
    help="Read the counters this often.",
)
@click.option(
    "--record",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Keep every reading in FILE, which `pinchpoint watch FILE` replays on any machine.",
)
@click.option("--json", "as_json", is_flag=True, help="Print what the whole time says as JSON.")  # fmt: skip
def watch(
    place: str | None, kind: str | None, for_s: float | None, every_s: float, record: Path | None, as_json: bool
) -> int:
    """Show the path of frames through a running switch: rates, drops, threads, tables, and the likely causes.

    PLACE is the run directory of the switch; without it, the system's is watched. A RECORD is replayed. Counters are
    only read: nothing is changed or cleared.
    """
    if place is not None and Path(place).is_file():
        if record is not None or for_s is not None:
            raise InputError(
                "--record and --for belong to a running switch, and a recording is given", f"leave them out: {EXAMPLE}"
            )
        return _replay(Path(place), as_json)
    if place is not None and not Path(place).exists():
        raise InputError(f"{place}: no such run directory or recording", EXAMPLE)
    device = registry.device(kind or registry.default())
    attached = device.attach(place, LOCAL)
    try:
        return _watch(device, attached, for_s, every_s, record, as_json)
    finally:
        attached.close()


def _watch(
    device: Device, attached: Attached, for_s: float | None, every_s: float, record: Path | None, as_json: bool
) -> int:
    """Read until the time is over, the user interrupts or the device does not answer; then show the whole."""
    head = head_of(device, attached, LOCAL)
    recorder = Recorder(record, head) if record else None
    ends_s = None if for_s is None else time.monotonic() + for_s
    seen, died = list[Reading](), None
    try:
        with _shown(as_json) as show, suppress(KeyboardInterrupt):
            for reading in readings(attached, every_s, lambda: ends_s is not None and time.monotonic() >= ends_s):
                seen.append(reading)
                if recorder is not None:
                    recorder.keep(reading)
                show(watched(device, head, [reading]))
    except DutError as error:
        died = error
    finally:
        if recorder is not None:
            recorder.close()
    _conclude(device, head, seen, as_json)
    if died is not None:
        click.echo(f"pinchpoint: {died}", err=True)
        return died.exit_code
    return 0


def _replay(path: Path, as_json: bool) -> int:
    head, kept = read(path)
    _conclude(registry.device(head.kind), head, list(kept), as_json)
    return 0


def _conclude(device: Device, head: RecordHead, seen: list[Reading], as_json: bool) -> None:
    """What all readings say together. Raises InputError if there is none."""
    if not seen:
        raise InputError("nothing was read: the watch ended before its first reading", "watch for longer: --for 30s")
    found = watched(device, head, seen)
    if as_json:
        click.echo(msgspec.json.encode({"head": head, "watched": found}))
        return
    facts = ", ".join(f"{name} {value}" for name, value in head.facts.items())
    console = _console()
    console.print(Text(f"{device.title} at {head.place} ({facts})", style="bold"))
    console.print(_drawn(watch_view(found)))


def _console() -> Console:
    """As wide as the terminal; piped, as wide as other tables."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else PIPED_WIDTH)


@contextmanager
def _shown(as_json: bool) -> Iterator[Callable[[Watched], None]]:
    """What shows a reading: a live table on a terminal, nothing when piped."""
    console = Console(stderr=True, highlight=False)
    if as_json or not console.is_terminal:
        yield lambda found: None
        return
    with Live(console=console, auto_refresh=False, transient=True) as live:
        yield lambda found: live.update(_drawn(watch_view(found)), refresh=True)


def _drawn(view: WatchView) -> RenderableType:
    lines = [Text(line, style="dim") for line in (view.about, *view.figures)]
    causes = [Text(line, style="yellow") for line in view.causes]
    return Group(draw(view.path), draw(view.threads), *lines, *causes)

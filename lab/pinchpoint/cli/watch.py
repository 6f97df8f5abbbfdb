"""`pinchpoint watch`: a switch in service, read and never changed; live, recorded, or replayed from a recording."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import click
import msgspec
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from pinchpoint.cli.parameters import Duration, Wire
from pinchpoint.cli.terminal import PIPED_WIDTH
from pinchpoint.dut import registry
from pinchpoint.dut.device import Attached, Device
from pinchpoint.export.openmetrics import WatchTotals
from pinchpoint.host.interface import Host
from pinchpoint.host.local import Local
from pinchpoint.model.errors import DutError, InputError
from pinchpoint.model.watch import Joined, Reading, RecordHead, Watched
from pinchpoint.report.observed import WatchView, joined_view, watch_view
from pinchpoint.report.terminal import caution, draw
from pinchpoint.run.watch import Recording, head_of, readings, watched
from pinchpoint.store.recording import Recorder, read, replace_text

EXAMPLE = "pinchpoint watch --for 30s --record switch.jsonl"
_GONE = (
    "a bench's run directory goes when its run ends: watch while it measures, "
    "or `pinchpoint show RUN` for what it measured"
)


@click.command(short_help="Watch a switch in service, without changing it.")
@click.argument("places", nargs=-1, metavar="[PLACE|RECORD...]")
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
@click.option(
    "--wire",
    "wires",
    type=Wire(),
    multiple=True,
    metavar="PORT=PORT",
    help="The ports that join two hosts; once for each two RECORDs. [default: by the rates]",
)
@click.option(
    "--openmetrics",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write OpenMetrics text to FILE at each reading, e.g. for node_exporter's textfile collector.",
)
@click.option("--json", "as_json", is_flag=True, help="Print what the whole time says as JSON.")  # fmt: skip
def watch(
    places: tuple[str, ...],
    kind: str | None,
    for_s: float | None,
    every_s: float,
    record: Path | None,
    wires: tuple[tuple[str, str], ...],
    openmetrics: Path | None,
    as_json: bool,
) -> int:
    """Show the path of frames through a running switch: rates, drops, threads, tables, and the likely causes.

    PLACE is the run directory of the switch; without it, the system's is watched. A RECORD is replayed. Several, in the
    order in which frames pass their hosts, are joined into one path: clocks are aligned by the rates, and where frames
    vanish between two hosts is named. Counters are only read: nothing is changed or cleared.
    """
    if len(places) > 1 or any(Path(place).is_file() for place in places):
        if record is not None or for_s is not None or openmetrics is not None:
            raise InputError(
                "--record, --for and --openmetrics belong to a running switch, and a recording is given",
                f"leave them out: {EXAMPLE}",
            )
        return _replay([_recording(Path(place)) for place in places], wires, as_json)
    if wires:
        raise InputError("--wire joins the recordings of several hosts", f"{EXAMPLE} --wire uplink=uplink")
    place = places[0] if places else None
    if place is not None and not Path(place).exists():
        raise InputError(f"{place}: no such run directory or recording", _GONE)
    device = registry.device(kind or registry.default())
    lab = Local()
    attached = device.attach(place, lab)
    try:
        return _watch(device, attached, lab, for_s, every_s, record, openmetrics, as_json)
    finally:
        attached.close()


def _watch(
    device: Device,
    attached: Attached,
    lab: Host,
    for_s: float | None,
    every_s: float,
    record: Path | None,
    openmetrics: Path | None,
    as_json: bool,
) -> int:
    """Read until the time is over, the user interrupts or the device does not answer; then show the whole."""
    head = head_of(device, attached, lab)
    recorder = Recorder(record, head) if record else None
    ends_s = None if for_s is None else time.monotonic() + for_s
    seen, died, totals = list[Reading](), None, WatchTotals(head)
    try:
        with _shown(as_json) as show, suppress(KeyboardInterrupt):
            for reading in readings(attached, every_s, lambda: ends_s is not None and time.monotonic() >= ends_s):
                seen.append(reading)
                if recorder is not None:
                    recorder.keep(reading)
                seen_now = watched(device, head, [reading])
                if openmetrics is not None:
                    totals.add(seen_now)
                    replace_text(openmetrics, totals.text())
                show(seen_now)
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


def _recording(path: Path) -> Recording:
    if not path.is_file():
        raise InputError(f"{path}: expected a recording: several switches are joined by their recordings", EXAMPLE)
    head, kept = read(path)
    return Recording(registry.device(head.kind), head, tuple(kept))


def _replay(recordings: Sequence[Recording], wires: Sequence[tuple[str, str]], as_json: bool) -> int:
    first, *others = recordings
    if wires and len(wires) != len(others):
        raise InputError(f"{len(recordings)} recordings and {len(wires)} --wire", f"give {len(others)} or none")
    if others:
        from pinchpoint.run.joined import joined  # numpy is not to be imported by `pinchpoint --help`

        _conclude_joined(joined(recordings, wires), as_json)
    else:
        _conclude(first.device, first.head, first.readings, as_json)
    return 0


def _conclude_joined(joined: Joined, as_json: bool) -> None:
    """The wires between the hosts, then what each host says."""
    if as_json:
        click.echo(msgspec.json.encode({"joined": joined}))
        return
    view, console = joined_view(joined), _console()
    lines = [*(Text(line, style="dim") for line in (view.about, *view.clocks)), *map(caution, view.losses)]
    console.print(Group(draw(view.path), *lines))
    for host, of_host in view.hosts:
        console.print(Text(f"\n{host}", style="bold"))
        console.print(_drawn(of_host))


def _conclude(device: Device, head: RecordHead, seen: Sequence[Reading], as_json: bool) -> None:
    """What all readings say together. Raises InputError if there is none."""
    if not seen:
        raise InputError("nothing was read: the watch ended before its first reading", "watch for longer: --for 30s")
    whole = watched(device, head, seen)
    if as_json:
        click.echo(msgspec.json.encode({"head": head, "watched": whole}))
        return
    facts = ", ".join(f"{name} {value}" for name, value in head.facts.items())
    console = _console()
    console.print(Text(f"{device.title} at {head.place} ({facts})", style="bold"))
    console.print(_drawn(watch_view(whole)))


def _console() -> Console:
    """As wide as the terminal; piped, as wide as other tables."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else PIPED_WIDTH)


@contextmanager
def _shown(as_json: bool) -> Iterator[Callable[[Watched], None]]:
    """What shows a reading: a live table on a terminal, nothing when piped."""
    console = Console(stderr=True, highlight=False)
    if as_json or not console.is_terminal:
        yield lambda watched: None
        return
    with Live(console=console, auto_refresh=False, transient=True) as live:
        yield lambda watched: live.update(_drawn(watch_view(watched)), refresh=True)


def _drawn(view: WatchView) -> RenderableType:
    lines = [Text(line, style="dim") for line in (view.about, *view.figures)]
    causes = [Text(line, style="yellow") for line in view.causes]
    return Group(draw(view.path), draw(view.threads), *lines, *causes)

"""`pinchpoint watch`: a switch in service, read and never changed; live, recorded, or replayed from a recording."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import click
import msgspec
from rich.console import Group, RenderableType
from rich.text import Text

from pinchpoint.cli.options import NEW_FILE, duration, gathered, pair_of_words
from pinchpoint.cli.terminal import Terminal, console, redrawn, tell
from pinchpoint.dut import registry
from pinchpoint.dut.watching import Attached, Watchable, watchable
from pinchpoint.export.openmetrics import WatchTotals
from pinchpoint.host.interface import Host
from pinchpoint.host.local import Local
from pinchpoint.host.priority import beside
from pinchpoint.model.errors import DutError, InputError, NothingRunsError
from pinchpoint.model.watch import Joined, Reading, Watched
from pinchpoint.report.observed import WatchView, joined_view, watch_view
from pinchpoint.report.terminal import caution, draw
from pinchpoint.run.watch import Recording, begun, of_texts, readings, watched
from pinchpoint.store.recording import Recorder, is_recording, read, replace_text
from pinchpoint.store.texts import Texts, read_texts

EXAMPLE = "pinchpoint watch --for 30s --record switch.jsonl"
_GONE = "a bench's run directory is removed when its run ends: watch during the run, or see `pinchpoint show RUN`"
_WIRES = "--wire joins the recordings of several hosts"
EVERY_S = 1.0


@dataclass(frozen=True)
class Watching:
    """What is watched, how, and where it goes."""

    kind: str | None
    for_s: float | None
    every_s: float | None
    record: Path | None
    wires: tuple[tuple[str, str], ...]
    openmetrics: Path | None
    as_json: bool


@click.command(short_help="Watch a switch in service, without changing it.")
@click.argument("places", nargs=-1, metavar="[PLACE|FOLDER|RECORD...]")
@gathered(
    Watching,
    "how",
    click.option("--kind", metavar="KIND", help="Kind of device, as dut.kind of a scenario, with the same default."),
    click.option("--for", "for_s", type=duration, metavar="TIME", help="End after TIME. [default: when interrupted]"),
    click.option("--every", "every_s", type=duration, metavar="TIME",
                 help="Read the counters this often. [default: 1s]"),
    click.option("--record", type=NEW_FILE, metavar="FILE",
                 help="Keep every reading in FILE, which `pinchpoint watch FILE` replays on any machine."),
    click.option("--wire", "wires", type=pair_of_words("PORT=PORT, e.g. uplink=uplink"), multiple=True,
                 metavar="PORT=PORT",
                 help="The ports that join two hosts; once for each pair of RECORDs. [default: found by their rates]"),
    click.option("--openmetrics", type=NEW_FILE, metavar="FILE",
                 help="Write OpenMetrics text to FILE at each reading, e.g. for node_exporter's textfile collector."),
    click.option("--json", "as_json", is_flag=True, help="Print the summary of the whole time as JSON."),
)  # fmt: skip
def watch(places: tuple[str, ...], how: Watching) -> int:
    """Show the path of frames through a running switch: rates, drops, threads, tables, and the likely causes.

    PLACE is the run directory of the switch; without it, the system's is watched. A RECORD is replayed. Several, in
    the order in which frames pass their hosts, are joined into one path: clocks are aligned by the rates, and
    frames that vanish between two hosts are located. A FOLDER or file holds saved output of a switch's commands,
    such as an unpacked sosreport. Counters are only read: nothing is changed or cleared.
    """
    if len(places) > 1 or any(Path(place).is_file() for place in places):
        _refuse_live(how, places[0])
        if len(places) == 1 and not is_recording(Path(places[0])):
            return _read_texts(_device(how.kind), Path(places[0]), how)
        return _replay([_recording(Path(place)) for place in places], how)
    if how.wires:
        raise InputError(_WIRES, f"{EXAMPLE} --wire uplink=uplink")
    place = places[0] if places else None
    if place is not None and not Path(place).exists():
        raise InputError(f"{place}: no such folder, file or run directory", _GONE)
    device, lab = _device(how.kind), Local()
    try:
        attached = device.attach(place, lab)
    except NothingRunsError as error:
        if place is None or not Path(place).is_dir():
            raise
        if Path(place, "run.json").is_file():
            raise InputError(f"{place} is a stored run: nothing runs there", f"pinchpoint show {place}") from None
        texts = read_texts(Path(place), device.text_marks)
        if not texts.texts and _live_options(how):
            raise
        if not texts.texts:
            expected = f"nor output of {device.title} commands; expected e.g. {device.text_example}"
            raise InputError(f"{error.message}, {expected}", error.hint) from None
        _refuse_live(how, place)
        return _read_texts(device, Path(place), how, texts)
    with closing(attached), beside(attached.process):
        return _watch(device, attached, lab, how)


def _device(kind: str | None) -> Watchable:
    """Raises InputError where there is none of that kind, or it cannot be watched."""
    return watchable(registry.device(kind or registry.default()))


def _live_options(how: Watching) -> list[str]:
    options = {"--record": how.record, "--for": how.for_s, "--every": how.every_s, "--openmetrics": how.openmetrics}
    return [option for option, value in options.items() if value is not None]


def _refuse_live(how: Watching, place: str) -> None:
    if options := _live_options(how):
        raise InputError(f"{', '.join(options)}: only for a running switch; {place} is saved output", EXAMPLE)


def _read_texts(device: Watchable, path: Path, how: Watching, texts: Texts | None = None) -> int:
    """What a device printed elsewhere. Raises InputError where none of it is known."""
    if how.wires:
        raise InputError(_WIRES, f"{EXAMPLE} --wire uplink=uplink")
    texts = texts or read_texts(path, device.text_marks)
    recording = of_texts(device, str(path), texts.texts, texts.truncated)
    if recording is None:
        expected = f"expected a recording of `pinchpoint watch --record`, or what commands of {device.title} print"
        is_archive = ".tar" in path.suffixes or path.suffix in (".tgz", ".txz")
        hint = f"unpack it first: tar xf {path}" if is_archive else "pinchpoint watch --help"
        raise InputError(f"{path}: {expected}", hint)
    _conclude(recording, how.as_json)
    return 0


def _watch(device: Watchable, attached: Attached, lab: Host, how: Watching) -> int:
    """Read until the time is over, the user interrupts or the device does not answer; then show the whole."""
    head, bracket = begun(device, attached, lab)
    recorder = Recorder(how.record, head) if how.record else None
    ends_s = None if how.for_s is None else time.monotonic() + how.for_s
    every_s = EVERY_S if how.every_s is None else how.every_s
    seen, died, totals = list[Reading](), None, WatchTotals(head)
    try:
        with _shown(how.as_json) as show, suppress(KeyboardInterrupt):
            for reading in readings(bracket, every_s, lambda: ends_s is not None and time.monotonic() >= ends_s):
                seen.append(reading)
                if recorder is not None:
                    recorder.keep(reading)
                seen_now = watched(device, head, [reading])
                if how.openmetrics is not None:
                    totals.add(seen_now)
                    replace_text(how.openmetrics, totals.text())
                show(seen_now)
    except DutError as error:
        died = error
    finally:
        if recorder is not None:
            recorder.close()
    has_ended = died is not None and not Path(head.place).exists()
    if died is not None and not seen:
        raise DutError(f"{head.place}: the switch ended before the first reading", _GONE) if has_ended else died
    _conclude(Recording(device, head, tuple(seen)), how.as_json)
    if has_ended:
        tell(f"{head.place}: the run has ended, and its switch with it: this is what was read until then")
        return 0
    if died is not None:
        tell(str(died))
        return died.exit_code
    return 0


def _recording(path: Path) -> Recording:
    if not path.is_file():
        raise InputError(f"{path}: expected a recording: several switches are joined by their recordings", EXAMPLE)
    if not is_recording(path):
        raise InputError(f"{path}: not a recording of `pinchpoint watch --record`", EXAMPLE)
    head, kept = read(path)
    return Recording(watchable(registry.device(head.kind)), head, tuple(kept))


def _replay(recordings: Sequence[Recording], how: Watching) -> int:
    first, *others = recordings
    if how.wires and not others:
        raise InputError(f"{_WIRES}, and {first.head.place} is the only one", "leave out --wire, or give them all")
    if how.wires and len(how.wires) != len(others):
        raise InputError(
            f"expected {len(others)} --wire for {len(recordings)} recordings, found {len(how.wires)}",
            "give one for each pair of neighbouring hosts, or none",
        )
    if others:
        from pinchpoint.run.joined import joined  # numpy is not to be imported by `pinchpoint --help`

        _conclude_joined(joined(recordings, how.wires), how.as_json)
    else:
        _conclude(first, how.as_json)
    return 0


def _conclude_joined(joined: Joined, as_json: bool) -> None:
    """The wires between the hosts, then what each host says."""
    if as_json:
        click.echo(msgspec.json.encode({"joined": joined}))
        return
    view, out = joined_view(joined), console()
    lines = [*(Text(line, style="dim") for line in (view.about, *view.clocks)), *map(caution, view.losses)]
    out.print(Group(draw(view.path), *lines))
    for host, of_host in view.hosts:
        out.print(Text(f"\n{host}", style="bold"))
        out.print(_drawn(of_host))


def _conclude(recording: Recording, as_json: bool) -> None:
    """What all readings say together. Raises InputError if there is none."""
    if not recording.readings:
        raise InputError("nothing was read: the watch ended before its first reading", "watch for longer: --for 30s")
    device, head = recording.device, recording.head
    whole = watched(device, head, recording.readings)
    if as_json:
        click.echo(msgspec.json.encode({"head": head, "watched": whole}))
        return
    facts = ", ".join(f"{name} {value}" for name, value in head.facts.items())
    out = console()
    out.print(Text(f"{device.title} at {head.place} ({facts})", style="bold"))
    out.print(_drawn(watch_view(whole)))


@contextmanager
def _shown(as_json: bool) -> Iterator[Callable[[Watched], None]]:
    """What shows a reading: a live table on a terminal, nothing when piped."""
    on = Terminal(stderr=True, highlight=False)
    if as_json or not on.is_terminal:
        yield lambda watched: None
        return
    with redrawn(on) as show:
        yield lambda watched: show(_drawn(watch_view(watched)))


def _drawn(view: WatchView) -> RenderableType:
    lines = [Text(line, style="dim") for line in (view.about, *view.figures)]
    causes = [Text(line, style="yellow") for line in view.causes]
    return Group(draw(view.path), draw(view.threads), *lines, *causes)

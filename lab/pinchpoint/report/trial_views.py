"""What is shown of trials, as plain values: the path of their frames, the threads, what the host did; and settings.

The path leads from the engine's sending over the device's places to the engine's receiving.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Final

from pinchpoint.measure.forwarding import figures_of
from pinchpoint.model import units
from pinchpoint.model.effective import defaulted, flat, table_in, within
from pinchpoint.model.trial import Drop, Hop, Ledger, ThreadFigure, ThreadLoad, Trial, TrialValidity
from pinchpoint.report import words

UNKNOWN: Final = "unknown"
UNEXPLAINED: Final = "unexplained"
FOREIGN: Final = "foreign"  # frames that the trial did not send, or that were counted twice

SIZE: Final = {"width": 440, "box": 150, "line": 15, "mark": 174, "label": 188}
"""The picture's width, a place's, the height of a line, and where marks and their words stand; about pixels."""
_PADDING: Final = 8
_LINK: Final = 28  # least height between two places
_WIDEST: Final = 14  # line, which stands for all offered frames
_THINNEST: Final = 1.5
_IN_BOX, _SAID, _ABOUT = 20, 34, 40  # characters of a line


@dataclass(frozen=True)
class Loss:
    """Frames that leave the path, or join it, at one place."""

    frames: int
    kind: str  # the responsible party's word, UNEXPLAINED, FOREIGN, or "other"
    reason: str
    about: str  # who is responsible, and which counter says so


@dataclass(frozen=True)
class Place:
    """A place on the path; counts are None where they are unknown."""

    name: str
    arrived: int | None
    left: int | None
    on_the_way: tuple[Loss, ...]  # between the place before and this one
    inside: tuple[Loss, ...]


@dataclass(frozen=True)
class Box:
    """A place as it is drawn: a box from `y` down."""

    y: int
    height: int
    name: tuple[str, ...]  # lines
    counts: tuple[str, ...]


@dataclass(frozen=True)
class Link:
    """The line from one place to the next; its width is the share of the offered frames that pass."""

    y: int
    end: int
    width: float
    known: bool


@dataclass(frozen=True)
class Mark:
    """A loss as it is drawn: an arrow to the right at `y`, a symbol of its kind, and its words."""

    y: int
    inside: bool  # a place; else between two
    width: float
    kind: str
    said: tuple[str, ...]  # lines: how many frames, and why
    about: tuple[str, ...]  # lines: who is responsible


@dataclass(frozen=True)
class PathView:
    """The path of one trial's frames: its places, and the picture of them."""

    title: str
    trial: Trial
    places: tuple[Place, ...]
    boxes: tuple[Box, ...]
    links: tuple[Link, ...]
    marks: tuple[Mark, ...]
    height: int
    line: str  # the whole path on one line


def paths(trials: Sequence[Trial]) -> tuple[PathView, ...]:
    """Of the valid trials, the highest load without loss and the lowest with loss; without any, the last trial."""
    sent = [trial for trial in trials if trial.offered]
    judged = [trial for trial in sent if trial.validity is TrialValidity.VALID]
    clean = max((t for t in judged if t.lost <= 0), key=lambda t: t.load_fps, default=None)
    losing = min((t for t in judged if t.lost > 0), key=lambda t: t.load_fps, default=None)
    last = sent[-1] if sent and not judged else None
    last_title = f"Last trial, {last.validity.words}" if last else ""
    named = (("Highest load without loss", clean), ("Lowest load with loss", losing), (last_title, last))
    return tuple(path_of(trial, title) for title, trial in named if trial)


def path_of(trial: Trial, title: str = "") -> PathView:
    """The path with its picture. A ledger without places still has its two ends."""
    account = trial.ledger
    ends = Hop("engine sends", account.offered, None), Hop("engine receives", None, account.received)
    places = tuple(_places(account.hops or ends, account))
    return PathView(title, trial, places, *_picture(places, account.offered), line=_line(places, account.offered))


def _places(hops: Sequence[Hop], account: Ledger) -> Iterator[Place]:
    """What is missing beyond the named drops is drawn where counters first miss it."""
    balance = _Balance(account.offered)
    for number, hop in enumerate(hops):
        on_the_way = tuple(balance.against(hop.frames_in, "on the way to", hop.name))
        balance.frames -= sum(drop.frames for drop in hop.drops)
        inside = tuple(balance.against(hop.frames_out, "in", hop.name))
        if number == len(hops) - 1:
            inside += tuple(balance.against(account.received, "after", hop.name))
        dropped = (_dropped(drop) for drop in hop.drops if drop.frames)
        yield Place(hop.name, hop.frames_in, hop.frames_out, on_the_way, (*dropped, *inside))


class _Balance:
    """The frames that should be where the path has come to, by the counts until there."""

    def __init__(self, frames: int) -> None:
        self.frames = frames
        self.missed = 0  # unexplained
        self.foreign = 0  # more than the trial sent: their end is no loss of the trial

    def against(self, counted: int | None, where: str, place: str) -> Iterator[Loss]:
        """What a count has less or more than there should be; nothing where it is unknown."""
        if counted is None:
            return
        missing, self.frames = self.frames - counted, counted
        if missing < 0:
            back = min(-missing, self.missed)
            self.missed, self.foreign = self.missed - back, self.foreign - missing - back
            about = "as many as were missing before" if back == -missing else "not sent in this trial, or counted twice"
            yield Loss(-missing, FOREIGN, f"more {where} {place}", about)
            return
        ended = min(missing, self.foreign)
        self.missed, self.foreign = self.missed + missing - ended, self.foreign - ended
        if ended:
            yield Loss(ended, FOREIGN, f"fewer {where} {place}", "as many as were more before")
        if missing > ended:
            yield Loss(missing - ended, UNEXPLAINED, f"{UNEXPLAINED}: vanish {where} {place}", "no counter names them")


def _dropped(drop: Drop) -> Loss:
    kind, about = drop.limits if drop.limits in words.SIDES else "other", words.SIDES.get(drop.limits, drop.limits)
    return Loss(drop.frames, kind, drop.name, f"{about}; {drop.counter}")


def _line(places: Sequence[Place], offered: int) -> str:
    parts = [f"{units.frames(offered)} offered"]
    for place in places:
        parts += [_bracket(place.on_the_way), f"{place.name} {_count(place.left)} {_bracket(place.inside)}".rstrip()]
    return " → ".join(filter(None, parts))


def _bracket(losses: Sequence[Loss]) -> str:
    return f"({', '.join(f'{units.frames(loss.frames)} {loss.reason}' for loss in losses)})" if losses else ""


def _count(frames: int | None, noun: str = "") -> str:
    return UNKNOWN if frames is None else f"{units.frames(frames)}{noun}"


def _picture(places: Sequence[Place], offered: int) -> tuple[tuple[Box, ...], tuple[Link, ...], tuple[Mark, ...], int]:
    """Boxes one below the other with a link between two; losses stand to the right of where they happen."""
    boxes: list[Box] = []
    links: list[Link] = []
    marks: list[Mark] = []
    y = 0
    for place in places:
        if boxes:
            beside, end = _marks(place.on_the_way, False, y + _PADDING, offered)
            end = max(end, y + _LINK)
            passed = place.arrived if place.arrived is not None else places[len(boxes) - 1].left
            links.append(Link(y, end, _width(passed, offered), passed is not None))
            marks += beside
            y = end
        name = tuple(wrap(place.name, _IN_BOX))
        came, left = (_count(count, " frames") for count in (place.arrived, place.left))
        counts = (f"in {came}", f"out {left}")
        beside, end = _marks(place.inside, True, y + _PADDING, offered)
        height = max(SIZE["line"] * len([*name, *counts]) + 2 * _PADDING, end - y)
        boxes.append(Box(y, height, name, counts))
        marks += beside
        y += height
    return tuple(boxes), tuple(links), tuple(marks), y


def _marks(losses: Sequence[Loss], inside: bool, y: int, offered: int) -> tuple[list[Mark], int]:
    """Losses one below the other from `y` down, and where they end."""
    made = []
    for loss in losses:
        said = tuple(wrap(f"{units.frames(loss.frames)} {loss.reason}", _SAID))
        about = tuple(wrap(loss.about, _ABOUT))
        made.append(Mark(y, inside, _width(loss.frames, offered), loss.kind, said, about))
        y += SIZE["line"] * len([*said, *about]) + _PADDING
    return made, y


def _width(frames: int | None, offered: int) -> float:
    share = min(1.0, max(0, frames or 0) / offered) if offered else 0.0
    return round(max(_THINNEST, _WIDEST * share), 1)


@dataclass(frozen=True)
class Share:
    """One part of a bar: its share of the whole, 0..1."""

    figure: ThreadFigure
    count: str
    share: float

    @property
    def text(self) -> str:
        """The share in words."""
        if not self.share:
            return "0"
        return units.share(self.share) if self.share >= 1e-4 else "under 0.01 %"


@dataclass(frozen=True)
class ThreadView:
    """One forwarding thread; who answered its lookups as parts of a bar."""

    name: str
    rows: tuple[tuple[str, str], ...]
    hits: tuple[Share, ...]
    uncounted: str  # the names of what could not be counted


def thread_views(loads: Sequence[ThreadLoad], scenario: Mapping[str, object]) -> tuple[ThreadView, ...]:
    """Each thread's, in the words of the device of an effective scenario."""
    figures = figures_of(str(table_in(scenario, "dut").get("kind", "")))
    return tuple(thread_view(load, figures) for load in loads)


def thread_view(load: ThreadLoad, figures: Mapping[str, ThreadFigure]) -> ThreadView:
    """The thread's load, and the device's own figures of it, called as `figures` says; others by their keys."""
    passes = None if load.recirculated is None or not load.received else 1 + load.recirculated / load.received
    cycles = words.NOT_COUNTABLE if load.cycles_per_packet is None else f"{load.cycles_per_packet:,.0f} cycles"
    every = {**{key: ThreadFigure(key.replace("_", " "), "") for key in load.detail}, **figures}
    counted = [(figure, load.detail[key]) for key, figure in every.items() if key in load.detail]
    rows = (
        ("Busy", words.NOT_COUNTABLE if load.busy_share is None else units.share(load.busy_share)),
        *((("Busy by", load.busy_by.words),) if load.busy_by else ()),
        ("Per packet", cycles),
        ("Clock", words.NOT_MEASURED if load.clock_hz is None else f"{load.clock_hz / 1e9:.2f} GHz"),
        ("Received", units.counted(load.received, "frame")),
        ("Passes per packet", words.NOT_COUNTABLE if passes is None else f"{passes:.2f}"),
        *((figure.title, f"{value:,.10g}") for figure, value in counted if not figure.answers),
    )
    uncounted = ", ".join(figure.title for key, figure in figures.items() if key not in load.detail)
    return ThreadView(load.name, rows, _hits(load, figures), uncounted)


def _hits(load: ThreadLoad, figures: Mapping[str, ThreadFigure]) -> tuple[Share, ...]:
    """Of its lookups, in the device's order."""
    counted = [(figure, load.detail[key]) for key, figure in figures.items() if figure.answers and key in load.detail]
    total = math.fsum(count for _, count in counted) or 1.0
    return tuple(Share(figure, units.frames(round(count)), count / total) for figure, count in counted)


def witness_rows(trials: Sequence[Trial]) -> tuple[tuple[str, str], ...]:
    """What the host did to the trials: each quantity, and where it was worst."""
    workers = [(trial, worker) for trial in trials for worker in trial.witness.workers]
    threads = [(trial, thread) for trial in trials for thread in trial.witness.dut_threads]
    gaps = sum(worker.gaps for _, worker in workers)
    threshold = max((worker.gap_threshold_ns for _, worker in workers), default=0)
    longest = [(float(worker.gap_max_ns), trial.id) for trial, worker in workers]
    stolen = [(math.fsum(t.witness.steal_s.values()) * 1e9, t.id) for t in trials if t.witness.steal_s]
    delays = [(float(th.run_delay_ns), t.id) for t, th in threads if th.run_delay_ns is not None]
    return (
        (f"Engine loop gaps over {units.nanoseconds(threshold)}", words.count(gaps if workers else None)),
        ("Longest engine loop gap", _worst(longest)),
        ("Time stolen from the bench's CPUs, worst trial", _worst(stolen)),
        ("Clock of the engine's cores", _clock([worker.frequency_hz for _, worker in workers])),
        ("Engine cores descheduled", _sum([worker.involuntary_switches for _, worker in workers], "times")),
        ("DUT threads descheduled", _sum([thread.involuntary_switches for _, thread in threads], "times")),
        ("DUT thread waiting to run, worst trial", _worst(delays)),
    )


def _clock(clocks: Sequence[int | None]) -> str:
    known = [value / 1e9 for value in clocks if value is not None]
    if not known:
        return words.NOT_COUNTABLE
    low, high = f"{min(known):.2f}", f"{max(known):.2f}"
    return f"{low} GHz" if low == high else f"{low} to {high} GHz"


def _worst(gaps: Sequence[tuple[float, str]]) -> str:
    if not gaps:
        return words.NOT_COUNTABLE
    value, trial_id = max(gaps)
    return f"{units.nanoseconds(value)} ({trial_id})" if value else "none"


def _sum(counts: Sequence[int | None], unit: str) -> str:
    known = [value for value in counts if value is not None]
    blind = len(counts) - len(known)
    note = f" ({words.NOT_COUNTABLE} in {blind} of {len(counts)} trials)" if blind else ""
    return f"{units.frames(sum(known))} {unit}{note}" if known else words.NOT_COUNTABLE


def settings(scenario: Mapping[str, object]) -> tuple[tuple[str, str, bool], ...]:
    """The effective scenario, one row a key in the file's words: key, value, and whether the file left it out.

    Array elements count from 1, as in the file's errors.
    """
    rest = {key: value for key, value in scenario.items() if key != "defaulted"}
    unset = defaulted(scenario)
    return tuple((key, value, within(key, unset)) for key, value in flat(rest))

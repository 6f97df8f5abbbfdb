"""The path of a trial's frames, from the engine's sending over the device's places to the engine's receiving."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Final

from pinchpoint.model import units
from pinchpoint.model.trial import Drop, Hop, Ledger, Trial, TrialValidity
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
    named = [("Highest load without loss", clean), ("Lowest load with loss", losing)]
    if sent and not judged:
        named = [(f"Last trial, {words.VALIDITIES[sent[-1].validity]}", sent[-1])]
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
        balance.take(sum(drop.frames for drop in hop.drops))
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

    def take(self, dropped: int) -> None:
        """Named drops leave the path."""
        self.frames -= dropped

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
    known = drop.limits in words.SIDES
    about = f"{words.SIDES.get(drop.limits, drop.limits)}; {drop.counter}"
    return Loss(drop.frames, drop.limits if known else "other", drop.name, about)


def _line(places: Sequence[Place], offered: int) -> str:
    parts = [f"{units.frames(offered)} offered"]
    for place in places:
        if place.on_the_way:
            parts.append(_bracket(place.on_the_way))
        parts.append(f"{place.name} {_count(place.left)} {_bracket(place.inside)}".rstrip())
    return " → ".join(parts)


def _bracket(losses: Sequence[Loss]) -> str:
    return f"({', '.join(f'{units.frames(loss.frames)} {loss.reason}' for loss in losses)})" if losses else ""


def _count(frames: int | None) -> str:
    return UNKNOWN if frames is None else units.frames(frames)


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
        counts = tuple(
            f"{which} {_count(frames)}{' frames' if frames is not None else ''}"
            for which, frames in (("in", place.arrived), ("out", place.left))
        )
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

"""What a scenario says of the measure `change`.

What a change of its backends or of its configuration does to the connections through a balancer.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Final

from pinchpoint.dut.device import Keys
from pinchpoint.dut.services import Reconfiguration
from pinchpoint.keys import kinds
from pinchpoint.keys.key import Key, Table
from pinchpoint.keys.reader import Values
from pinchpoint.keys.source import Source
from pinchpoint.measure.kind import Arrays


class Event(StrEnum):
    """What happens while connections are opened."""

    SILENT = "silent"
    RESET = "reset"
    REMOVE = "remove"
    ADD = "add"
    RELOAD = "reload"

    @property
    def asks(self) -> Reconfiguration | None:
        """What the balancer has to be able to do; None: it happens to a backend."""
        return None if self in (Event.SILENT, Event.RESET) else Reconfiguration(self)

    @property
    def returns(self) -> bool:
        """Whether the backend comes back after `for_s`."""
        return self in (Event.SILENT, Event.RESET, Event.REMOVE)


_DOES: Final = {
    Event.SILENT: "the backend answers nothing for a time, as a machine without power",
    Event.RESET: "it answers everything by a reset, as a machine on which nothing listens",
    Event.REMOVE: "the balancer is made to remove it, and to add it again",
    Event.ADD: "the balancer begins without it and is made to add it",
    Event.RELOAD: "the balancer is made to load its configuration again",
}


@dataclass(frozen=True)
class Changed:
    """What happens, and the connections that see it."""

    kind: ClassVar[str] = "change"
    event: str
    backend: int
    at_s: float
    for_s: float
    after_s: float
    rate_cps: float
    requests: int
    hold_s: float
    timeout_s: float

    @property
    def happens(self) -> Event:
        """The event as a value of `Event`."""
        return Event(self.event)

    @property
    def opening_s(self) -> float:
        """For how long connections are opened."""
        return self.at_s + (self.for_s if self.happens.returns else 0.0) + self.after_s


CHANGE: Final = Table("change",
    "Connections are opened at a steady rate while something happens to the balancer or to a backend: which break, and "
    "how long it takes until the others are dealt as the scheduler promises. "
    + " ".join(f'"{word}": {does}.' for word, does in _DOES.items()), (
    Key("event", kinds.word(*Event), "What happens.", Event.SILENT.value),
    Key("backend", kinds.integer(0, 255), "The backend that it happens to: its number, from 0.", 0),
    Key("at_s", kinds.number(1, 3600), "When it happens, seconds since the first connection.", 2.0),
    Key("for_s", kinds.number(1, 3600), "How long the backend is away, seconds; not with add and reload.", 3.0),
    Key("after_s", kinds.number(1, 3600), "How long connections are opened after the last change, seconds.", 3.0),
    Key("rate_cps", kinds.number(10, 100_000), "Connections per second.", 500.0),
    Key("requests", kinds.integer(1, 100), "Requests of each, which one backend has to answer.", 2),
    Key("hold_s", kinds.number(0, 60), "How long each is open before its first request, seconds.", 0.0),
    Key("timeout_s", kinds.number(0.01, 60), "A connection that waits longer has failed, seconds.", 1.0),
), measures=("change",))  # fmt: skip


def check_keys(source: Source, changed: Values, arrays: Arrays, keys: Keys) -> None:
    """The backend is there, and the device can do what is asked of it."""
    backends = len(arrays["backend"])
    if (backend := changed.get("backend")) is not None and backends and backend >= backends:
        source.mismatch(("change", "backend"), f"a number from 0 to {backends - 1}", backend)
    if "event" not in changed or keys.services is None:
        return
    asked, can = Event(changed["event"]).asks, keys.services.changes
    if asked and asked not in can:
        words = [f'"{event}"' for event in Event if event.asks is None or event.asks in can]
        source.mismatch(("change", "event"), f"{' or '.join(words)} of this device", changed["event"])

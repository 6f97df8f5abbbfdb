"""What a scenario says of the measure `blocked`.

How long forwarding stands still while the DUT is changed.
"""

from dataclasses import dataclass
from typing import ClassVar, Final

from pinchpoint.dut.device import Keys
from pinchpoint.keys import kinds
from pinchpoint.keys.key import Key, Table
from pinchpoint.keys.reader import Values
from pinchpoint.keys.source import Source
from pinchpoint.measure.kind import Arrays
from pinchpoint.model.scenario import Change

NO_ACTION: Final = {"none": "nothing, as a baseline of the method"}


@dataclass(frozen=True)
class Blocked(Change):
    """What happens to the DUT while frames are sent."""

    kind: ClassVar[str] = "blocked"
    load_fps: float
    before_s: float
    after_s: float
    repeats: int


def table(keys: Keys) -> Table:
    """`[blocked]` of a device with these keys."""
    actions = {**NO_ACTION, **keys.actions}
    settings = keys.settings or kinds.nothing()
    changes = " ".join(f'"{word}": {does}.' for word, does in actions.items())
    return Table("blocked", f"A change made to the DUT while frames are sent. {changes}", (
        Key("action", kinds.word(*actions), "The change."),
        Key("count", kinds.integer(1, 1_000_000), "Number of items of an action that has many.", 1000),
        Key("settings", settings, 'What is set; with action = "settings" only.', {}),
        Key("load_fps", kinds.number(1, 1e9), "Frames per second, all streams together.", 100_000.0),
        Key("before_s", kinds.number(0.1, 60), "Traffic before the change, seconds.", 1.0),
        Key("after_s", kinds.number(0.1, 600), "Traffic after the change, seconds.", 2.0),
        Key("repeats", kinds.integer(1, 1000), "How often the change is made.", 5),
    ), measures=("blocked",))  # fmt: skip


def check_keys(source: Source, blocked: Values, _: Arrays, __: Keys) -> None:
    """Settings are there where they are changed, and only there."""
    action = blocked.get("action")
    if action == "settings" and not blocked.get("settings", True):
        source.problem(("blocked", "settings"), 'missing; with action = "settings" it says what to set')
    if action and action != "settings" and blocked.get("settings"):
        source.problem(("blocked", "settings"), f'expected none where the action is "{action}"')

"""The links of NICs in a trial's record: how fast they are, and how full they were. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from pinchpoint.model.trial import Trial

_BEGIN: Final = "engine/port/"
_SHARE, _SPEED = "/line_share", "/speed_bps"


@dataclass(frozen=True)
class Link:
    """Of one port whose ends are NICs."""

    port: str
    share: float  # of its line rate, in the direction that was fuller
    speed_bps: float


def links(trial: Trial) -> Iterator[Link]:
    """Those whose speed is known; ports without a NIC have none."""
    for name, share in trial.observed.items():
        if name.startswith(_BEGIN) and name.endswith(_SHARE):
            port = name[len(_BEGIN) : -len(_SHARE)]
            yield Link(port, share, trial.observed.get(f"{_BEGIN}{port}{_SPEED}", 0.0))


def fullest(trial: Trial) -> Link | None:
    """The fullest of them."""
    return max(links(trial), key=lambda link: link.share, default=None)

"""The links of NICs in a trial's record: how fast they are, and how full each direction was. Pure."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final

from pinchpoint.model.hops import DropKind
from pinchpoint.model.trial import Trial

_BEGIN: Final = "engine/port/"
_SPEED: Final = "/speed_bps"
_SENT, _RECEIVED = "/tx_share", "/rx_share"
_FULLER: Final = "/line_share"  # in runs before each direction had its own: that of the fuller one


@dataclass(frozen=True)
class Way:
    """One direction of the link of a port whose ends are NICs."""

    port: str
    is_sent: bool  # by the engine; else by the device
    share: float  # of its line rate
    speed_bps: float


def ways(trial: Trial) -> Iterator[Way]:
    """Both directions of the links whose speed is known; ports without a NIC have none."""
    seen = trial.observed
    for name, speed_bps in seen.items():
        if name.startswith(_BEGIN) and name.endswith(_SPEED):
            port = name[len(_BEGIN) : -len(_SPEED)]
            for is_sent, end in ((True, _SENT), (False, _RECEIVED)):
                share = seen.get(f"{_BEGIN}{port}{end}", seen.get(f"{_BEGIN}{port}{_FULLER}"))
                if share is not None:
                    yield Way(port, is_sent, share, speed_bps)


def pinched(trial: Trial, names: Collection[str] | None = None) -> Way | None:
    """The direction before which most frames found no room, of the drops with these names, or of all.

    None: they were lost elsewhere, or nothing is known of that link. What the engine had no room for came over the
    link, however full it was.
    """
    hops = trial.ledger.hops
    lost = [
        (drop.frames, place, drop.port)
        for place, hop in enumerate(hops)
        for drop in hop.drops
        if drop.kind is DropKind.TRANSMIT_RING and (names is None or drop.name in names)
    ]
    if not lost:
        return None
    _, place, port = max(lost)
    if place == len(hops) - 1:
        return None
    return next((way for way in ways(trial) if way.port == port and way.is_sent == (place == 0)), None)

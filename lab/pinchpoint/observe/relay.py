"""What programs of the engine print of the frames that they carried, or looked at, and a collector of relays.

A relay is between hosts and vhost-user ports: what it carried, and what it lost where. `pinchpoint-engine inspect`
looks at the frames that come to its ports.
"""

from collections.abc import Sequence
from typing import TypeVar

import msgspec

from pinchpoint.bench.actions import ask_relay
from pinchpoint.bench.resource import Relay
from pinchpoint.host.interface import PROC, Host
from pinchpoint.host.processes import stat, ticks_and_cpu
from pinchpoint.model.errors import DutError
from pinchpoint.observe.snapshot import Collector, Snapshot

_Account = TypeVar("_Account")


class RelayDirection(msgspec.Struct, frozen=True):
    """What is counted of it, in frames: received = sent + dropped + too_long + waiting."""

    received: int
    sent: int
    dropped: int  # the sending port took them too late
    too_long: int  # for the sending port
    waiting: int  # between the two ports
    held_bursts: int  # not taken at once


class RelayPort(msgspec.Struct, frozen=True):
    """One port of a relay."""

    name: str
    rx_missed: int | None  # frames that found the receive ring full; None: the port cannot tell
    down_s: float  # without a link


class RelayAccount(msgspec.Struct, frozen=True, tag="relay"):
    """A relay's account since it started; shares are of the elapsed time."""

    elapsed_s: float
    busy_share: float  # moving frames
    longest_away_s: float  # for which the core was given away, as nothing came
    ports: tuple[RelayPort, ...]  # the two of a pair in a row
    directions: tuple[RelayDirection, ...]  # likewise; the first is from the first port


class InspectedPort(msgspec.Struct, frozen=True):
    """How the port of an inspector was."""

    name: str
    rx_missed: int | None  # frames that found the receive ring full; None: the port cannot tell


class SeenAtPort(msgspec.Struct, frozen=True):
    """What came to one port; frames and bytes, seconds since the inspector began."""

    port: str
    frames: int
    bytes: int
    shortest: int
    longest: int
    first_s: float | None  # None before the first frame
    last_s: float | None
    longest_silence_s: float
    most_in_short_period: int
    dispersion: float | None  # variance over mean of the frames in a short period
    long_period_s: float
    by_long_period: tuple[int, ...]  # frames in each period that has ended, from the first frame on
    checked: int  # frames that were looked into
    wrong_checksums: int
    not_ip: int
    flows: int  # five-tuples
    flows_at_least: bool
    answered_flows: int  # five-tuples whose reverse came to another port


class Gaps(msgspec.Struct, frozen=True):
    """Times in which the program's loop stood still against its will."""

    total_s: float


class Inspected(msgspec.Struct, frozen=True, tag="inspect"):
    """All of it; by port, in the order of the ports."""

    elapsed_s: float
    busy_share: float  # of the elapsed time
    gaps: Gaps
    ports: tuple[InspectedPort, ...]
    seen: tuple[SeenAtPort, ...]


def parse_account(line: str, kind: type[_Account], whose: str) -> _Account:
    """A line that the program printed; `whose` names it in errors. Raises DutError."""
    try:
        return msgspec.json.decode(line, type=kind)
    except msgspec.DecodeError as error:
        raise DutError(f"the {whose}'s account cannot be read: {error}: {line[:200]}") from error


class Relays(Collector):
    """Counters of running relays, by direction."""

    name = "relays"

    def __init__(self, host: Host, relays: Sequence[Relay]) -> None:
        self._host, self._relays = host, tuple(relays)

    def read(self, at_s: float) -> Snapshot:
        """`host/relay/FROM/TO/{received,sent,dropped,too_long}` and, where known, `rx_missed`: frames.

        `host/relay/FROM/TO/down_ns`: nanoseconds in which FROM's port had no link, to a millisecond.
        `host/relay/NAME/busy_ns`: nanoseconds in which it moved frames, those included in which another
        had its core meanwhile; `.../ticks`: its own processor time; gauge `.../cpu`.
        """
        counters: dict[str, int] = {}
        gauges: dict[str, float] = {}
        for relay in self._relays:
            account = parse_account(ask_relay(relay, self._host), RelayAccount, "relay")
            # Its processor time alone says nothing: it asks for frames also when none come.
            counters |= self._ticks(relay)
            counters[f"host/relay/{relay.name}/busy_ns"] = round(account.busy_share * account.elapsed_s * 1e9)
            gauges[f"host/relay/{relay.name}/cpu"] = relay.cpu
            gauges[f"host/relay/{relay.name}/busy_share"] = account.busy_share
            gauges[f"host/relay/{relay.name}/longest_away_s"] = account.longest_away_s
            for (source, target), port, lane in zip(relay.directions, account.ports, account.directions, strict=True):
                place = f"host/relay/{source}/{target}"
                for name in ("received", "sent", "dropped", "too_long", "held_bursts"):
                    counters[f"{place}/{name}"] = getattr(lane, name)
                counters[f"{place}/down_ns"] = round(port.down_s * 1e9)
                if port.rx_missed is not None:
                    counters[f"{place}/rx_missed"] = port.rx_missed
        return Snapshot(at_s, counters, gauges)

    def _ticks(self, relay: Relay) -> dict[str, int]:
        try:
            pid = int(self._host.read(relay.pidfile))
            return {f"host/relay/{relay.name}/ticks": ticks_and_cpu(stat(self._host, f"{PROC}/{pid}"))[0]}
        except (OSError, ValueError, IndexError):
            return {}  # it has ended since it answered

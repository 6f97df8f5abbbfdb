"""Collector of the relays between hosts and vhost-user ports: what each carried, and what it lost where."""

import time
from collections.abc import Sequence

import msgspec

from pinchpoint.bench.actions import ask_relay
from pinchpoint.bench.resource import Relay
from pinchpoint.host.interface import PROC, Host
from pinchpoint.model.errors import DutError
from pinchpoint.observe.cpu import process_ticks
from pinchpoint.observe.snapshot import Snapshot


class RelayDirection(msgspec.Struct, frozen=True):
    """received = sent + dropped + too_long + waiting, in frames."""

    received: int
    sent: int
    dropped: int  # the sending port took them too late
    too_long: int  # for the sending port
    waiting: int  # between the two ports
    held_bursts: int  # not taken at once
    largest_burst: int


class RelayPort(msgspec.Struct, frozen=True):
    """One port of a relay."""

    name: str
    rx_missed: int | None  # frames that found the receive ring full; None: the port cannot tell
    down_s: float  # without a link


class RelayAccount(msgspec.Struct, frozen=True, tag="relay"):
    """A relay's account since it started; shares are of the elapsed time."""

    elapsed_s: float
    busy_share: float  # moving frames
    away_share: float  # the core given away, as nothing came
    longest_away_s: float
    ports: tuple[RelayPort, ...]  # the two of a pair in a row
    directions: tuple[RelayDirection, ...]  # likewise; the first is from the first port


def parse_account(line: str) -> RelayAccount:
    """A line of the account file. Raises DutError."""
    try:
        return msgspec.json.decode(line, type=RelayAccount)
    except msgspec.DecodeError as error:
        raise DutError(f"the relay's account cannot be read: {error}: {line[:200]}") from error


class Relays:
    """Counters of running relays, by direction."""

    name = "relays"

    def __init__(self, host: Host, relays: Sequence[Relay]) -> None:
        self._host, self._relays = host, tuple(relays)

    def can_run(self) -> str | None:
        """Always: a relay that is part of the bench answers."""
        return None

    def snapshot(self) -> Snapshot:
        """`host/relay/FROM/TO/{received,sent,dropped,too_long}` and, where known, `rx_missed`: frames.

        `host/relay/FROM/TO/down_ns`: nanoseconds in which FROM's port had no link, to a millisecond.
        `host/relay/NAME/busy_ns`: nanoseconds in which it moved frames, those included in which another
        had its core meanwhile; `.../ticks`: its own processor time; gauge `.../cpu`.
        """
        at_s = time.monotonic()
        counters: dict[str, int] = {}
        gauges: dict[str, float] = {}
        for relay in self._relays:
            account = parse_account(ask_relay(relay, self._host))
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
            return {f"host/relay/{relay.name}/ticks": process_ticks(self._host.read(f"{PROC}/{pid}/stat"))[0]}
        except (OSError, ValueError, IndexError):
            return {}  # it has ended since it answered

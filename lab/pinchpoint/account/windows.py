"""One window of a socket workload, from its measurement: what was counted, and who worked how hard. Pure.

A window is what all pairs of client and server counted together; the account of each is the
engine's `sockets_result` as plain data, in `Measurement.account["pairs"]`.
"""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from pinchpoint.account.cpus import CpuShare, foreign, shares
from pinchpoint.engine.sockets import SocketsResult, SocketsRun
from pinchpoint.model import units
from pinchpoint.model.groups import total
from pinchpoint.model.measurement import LevelChange, Measurement
from pinchpoint.model.result import Limit
from pinchpoint.model.trial import ThreadLoad

MOST_FAILED = 1e-5  # failed transactions (RFC 9411, section 7.1.3.3 and others: less than 0.001 %)
# observe/relay.py has these counters for each way.
_RELAY_DROPS: Mapping[str, str] = {
    "dropped": "taken too late by the port",
    "too_long": "too long for the port",
    "rx_missed": "its receive ring was full",
}


@dataclass(frozen=True)
class Thread:
    """One thread that moved the bytes."""

    name: str  # "client", "server 2", "main thread", "relay", or as the device calls it
    limit: Limit  # what it is called when it is what pinched
    cpu: int | None
    busy: float  # share of the window
    polls: bool = False  # its CPU is never idle, which says nothing
    host: str = ""  # the machine that it is on; empty: the switch's, whose CPUs are watched
    stolen: float = 0.0  # share of the window, from its CPU, as its engine saw it
    is_moved: bool = False  # by the kernel, among the CPUs watched


@dataclass(frozen=True)
class Window:
    """A measurement of sockets, read again."""

    id: str
    results: tuple[SocketsResult, ...]
    threads: tuple[Thread, ...]
    cpus: Mapping[int, CpuShare]
    foreign: float | None  # CPUs' worth of time that processes outside the bench took; None: not known
    forwarding: tuple[ThreadLoad, ...]
    down: Mapping[str, float]  # relay's ports that had no link for a time: seconds
    relay_drops: Mapping[str, int] | None = None  # frames by way and cause; None: no relay, or none that tells

    @property
    def runs(self) -> tuple[SocketsRun, ...]:
        """The first run of each pair of client and server that has one."""
        return tuple(result.runs[0] for result in self.results if result.runs)

    @property
    def has_answers(self) -> bool:
        """Whether requests were answered; otherwise bytes went one way."""
        return any(run.transactions is not None for run in self.runs)

    @property
    def goodput_bps(self) -> float:
        """Payload bits per second of all pairs together."""
        return math.fsum(run.goodput_bps or 0.0 for run in self.runs)

    @property
    def transactions_per_s(self) -> float:
        """Transactions per second that succeeded, of all pairs together."""
        return math.fsum(run.transactions_per_s or 0.0 for run in self.runs)

    @property
    def change(self) -> LevelChange | None:
        """From the rate before to the rate after a change of level, of all pairs together; None if no pair saw one.

        Transactions per second, of streams bits per second. A pair without a change counts with its mean rate.
        """
        changes = [run.trend.change for run in self.runs if run.trend is not None and run.trend.change is not None]
        if not changes:
            return None
        before, after = (math.fsum(_level(run, side) for run in self.runs) for side in ("before_per_s", "after_per_s"))
        return LevelChange(min(change.at_s for change in changes), before, after)

    @property
    def failed_share(self) -> float:
        """Failed of all that ended; 0 if none ended."""
        failed = sum(run.failed or 0 for run in self.runs)
        ended = failed + sum(run.transactions or 0 for run in self.runs)
        return failed / ended if ended else 0.0

    @property
    def failures(self) -> str:
        """Why the rate is no rate that the bench carries, by RFC 9411's rule; empty if it is."""
        if self.failed_share < MOST_FAILED:
            return ""
        first = next((run.failures.first for run in self.runs if run.failures.first), "of no reported kind")
        failed, share = sum(run.failed or 0 for run in self.runs), units.loss(self.failed_share)
        return f"{failed:,} transactions failed ({share}; RFC 9411 allows less than 0.001 %), the first: {first}"

    @property
    def relay_losses(self) -> str:
        """What the relay lost, by way and cause; empty if nothing."""
        lost = {where: count for where, count in (self.relay_drops or {}).items() if count}
        parts = ", ".join(f"{count:,} {where}" for where, count in lost.items())
        told = f"the relay lost {units.counted(sum(lost.values()), 'frame')} between host and switch: {parts}"
        return told if lost else ""

    @property
    def retransmits(self) -> int | None:
        """Segments that the clients' connections sent again; None if no kernel tells."""
        return total(connection.retransmits for run in self.runs for connection in run.connections)

    @property
    def without_port(self) -> int:
        """Transactions that found every pair of source address and port in use."""
        return sum(run.failures.address_unavailable for run in self.runs)


def window_of(measurement: Measurement) -> Window:
    """The window that a measurement holds."""
    seen, account = measurement.observed, measurement.account
    results = tuple(msgspec.convert(_with_trends(account["pairs"]), list[SocketsResult]))
    elsewhere = msgspec.convert(account.get("elsewhere", {}), dict[str, str])  # machines of ends off the switch's
    moving = msgspec.convert(account.get("moving", ()), tuple[str, ...])  # ends whose threads have no CPU of their own
    traffic_s = msgspec.convert(account["traffic_s"], float)
    ticks_per_s = msgspec.convert(account["ticks_per_s"], float)
    as_share = 1 / (ticks_per_s * traffic_s) if traffic_s > 0 else 0.0
    cpus = shares(seen, as_share)
    # Those of the relay, by port or way and counter.
    relay = {tuple(key.split("/")[2:]): seen[key] for key in sorted(seen) if key.startswith("host/relay/")}
    lost = {words: int(count) for words, count in relay.items() if len(words) == 3 and words[2] in _RELAY_DROPS}
    return Window(
        id=measurement.id,
        results=results,
        threads=(*_ends(results, elsewhere, moving), *_switch(measurement), *_relays(relay, traffic_s, as_share)),
        cpus=cpus,
        foreign=foreign(seen, cpus, as_share),
        forwarding=measurement.threads,
        down={words[0]: ns / 1e9 for words, ns in relay.items() if words[-1] == "down_ns" and ns > 0},
        relay_drops={f"from {a} to {b} ({_RELAY_DROPS[kind]})": count for (a, b, kind), count in lost.items()} or None,
    )


def _with_trends(stored: object) -> list[dict[str, object]]:
    """The pairs' accounts; those stored before engines reported a trend have none."""
    pairs = msgspec.convert(stored, list[dict[str, object]])
    return [
        {**pair, "runs": [{"trend": None, **run} for run in msgspec.convert(pair["runs"], list[dict[str, object]])]}
        for pair in pairs
    ]


def _ends(results: Sequence[SocketsResult], elsewhere: Mapping[str, str], moving: Collection[str]) -> Iterator[Thread]:
    """Each end's thread: "client" or "server 2"."""
    for number, result in enumerate(results, start=1):
        which = f" {number}" if len(results) > 1 else ""
        for run in result.runs[:1]:
            for side, limit in (("client", Limit.SENDER_CORE), ("server", Limit.RECEIVER_CORE)):
                witness, place = getattr(run, side), getattr(result, side)
                used_s, stolen_s = witness.user_s + witness.system_s, witness.steal_s or 0.0
                busy, stolen = (s / run.duration_s if run.duration_s else 0.0 for s in (used_s, stolen_s))
                host = elsewhere.get(side, "")
                is_moved = side in moving
                cpu = None if is_moved else place.core
                yield Thread(f"{side}{which}", limit, cpu, min(1.0, busy), False, host, stolen, is_moved)


def _switch(measurement: Measurement) -> Iterator[Thread]:
    for load in measurement.threads:
        if load.busy_share is not None and load.received:
            cpu = measurement.observed.get("host/thread/main/cpu") if load.cpu is None else load.cpu
            place = None if cpu is None else int(cpu)
            yield Thread(load.name, Limit.FORWARDING_CORE, place, load.busy_share, polls=load.cpu is not None)


def _relays(relay: Mapping[tuple[str, ...], float], traffic_s: float, as_share: float) -> Iterator[Thread]:
    """By the time in which they moved frames: a relay asks for more also when none come, which is no load.

    That holds the time in which others had its core while it moved some: its own processor time bounds it.
    """
    for (name, *counter), busy_ns in relay.items():
        if counter == ["busy_ns"] and traffic_s > 0:
            cpu, own = relay.get((name, "cpu")), relay.get((name, "ticks"))
            busy = min(1.0, busy_ns / 1e9 / traffic_s, 1.0 if own is None else own * as_share)
            yield Thread(name, Limit.RELAY_CORE, None if cpu is None else int(cpu), busy, polls=True)


def _level(run: SocketsRun, side: Literal["before_per_s", "after_per_s"]) -> float:
    change = None if run.trend is None else run.trend.change
    if run.transactions is None:
        return run.goodput_bps or 0.0 if change is None else 8 * float(getattr(change, side))
    return run.transactions_per_s or 0.0 if change is None else float(getattr(change, side))


def together(results: Sequence[SocketsResult]) -> float | None:
    """The share of the longest window in which all pairs ran; None if there was no window."""
    spans = [(run.began_ns, run.began_ns + run.duration_s * 1e9) for result in results for run in result.runs]
    longest = max((end - begin for begin, end in spans), default=0.0)
    if not longest:
        return None
    shared = min(end for _, end in spans) - max(begin for begin, _ in spans)
    return max(0.0, shared) / longest

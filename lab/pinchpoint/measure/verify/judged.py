"""What the account of connections says about a service. Pure."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from pinchpoint.engine.connections import Account, Client
from pinchpoint.model.addresses import number
from pinchpoint.model.scenario import Mode, Scheduler, Service

_POOLS: Final = {Mode.FULL_NAT: "local addresses", Mode.DNAT: "clients", Mode.DIRECT: "clients"}
CHANCE = 1e-3  # of a fair hash that deals as unevenly as this, below which it is not called fair


@dataclass(frozen=True)
class Check:
    """One thing that the service has to do."""

    name: str
    share: float  # of what was looked at, in order; of the backends, the busiest one's
    is_right: bool
    words: str  # with the figures


def checks(service: Service, client: Client, turns: int = 1) -> Iterator[Check]:
    """All of them; `turns`: in how many turns of their own connections are dealt to the backends with round-robin."""
    yield _completed(client)
    yield _answers("payload intact", client.wrong_payload, client, "not to the request that was sent")
    yield _dealt(service, client, turns)
    yield _answers("one backend", client.wrong_backend, client, "by another backend than the one before")
    yield _source(service, client)
    if client.reused is not None:
        yield _used_once(client.reused, client)
    if told := client.toa_right + client.toa_wrong:
        words = f"{client.toa_right:,} of {told:,} answers name the client"
        yield Check("TOA option", client.toa_right / told, not client.toa_wrong, words)


def direct(account: Account, entered: int | None) -> Check:
    """Whether answers took the way past the device.

    `entered`: frames that the device received from the backends' side, as it counts them; None: it does not say.
    Answers to questions where a backend is may be among them, a segment may not.
    """
    sides = [port.segments for port in account.others]
    through, asked = (sides[0] if sides else 0), sum(port.answered for port in account.others[1:])
    passed, returned = max(0, (entered or 0) - asked), account.returned or 0
    words = f"{returned:,} segments reached the clients past the device, {through:,} through it"
    if entered is not None:
        words += f"; it received {entered:,} frames from the backends, {asked:,} of them answers where one is"
    right = bool(returned) and not through and not passed
    return Check("direct return", returned / max(1, returned + max(through, passed)), right, words)


def forgotten(opened: int, left: int, waited_s: float) -> Check:
    """Whether the balancer has forgotten the connections that closed so long ago; it still remembers `left`."""
    kept = min(left, opened)
    words = f"{kept:,} of {opened:,} remembered {waited_s:g} s after the last one closed"
    return Check("forgotten", 1 - kept / max(1, opened), not kept, words)


def _used_once(reused: int, client: Client) -> Check:
    """No two open connections look the same to a backend."""
    words = f"{reused:,} from an address and port that an open one had at the same backend"
    return Check("source used once", max(0.0, 1 - reused / max(1, client.established)), not reused, words)


def _completed(client: Client) -> Check:
    failed = "".join(f", {count:,} {words}" for words, count in client.failures.items())
    words = f"{client.completed:,} of {client.opened:,}{failed}"
    is_right = bool(client.opened) and client.completed == client.opened
    return Check("completed", client.completed / max(1, client.opened), is_right, words)


def _answers(name: str, wrong: int, client: Client, words: str) -> Check:
    answers = max(1, client.answered)
    return Check(name, max(0.0, 1 - wrong / answers), not wrong, f"{wrong:,} answers {words}")


def _dealt(service: Service, client: Client, turns: int) -> Check:
    counts = [*client.backends, *[0] * (len(service.backends) - len(client.backends))]
    shown = " / ".join(f"{count:,}" for count in counts)
    if not sum(counts):
        return Check("busiest backend", 0.0, False, "no backend answered")
    busiest = max(counts) / sum(counts)
    if service.scheduler is Scheduler.ROUND_ROBIN:
        in_turn = max(counts) - min(counts) <= turns  # each turn is at most one connection ahead with each backend
        words = "in turn" if turns == 1 else f"in {turns} turns, one of each worker"
        return Check("busiest backend", busiest, in_turn, f"{shown}, {'' if in_turn else 'not '}{words}")
    chance = _chance(counts)
    odds = f"{shown}, as uneven by a fair hash with a chance of {chance:.2g}"
    return Check("busiest backend", busiest, chance >= CHANCE, odds)


def _chance(counts: Sequence[int]) -> float:
    """That chance alone deals so unevenly or worse: Pearson's chi-square test of equal shares."""
    from scipy.special import chdtrc  # half a second that only this check needs

    if len(counts) < 2:
        return 1.0
    mean = sum(counts) / len(counts)
    return float(chdtrc(len(counts) - 1, math.fsum((count - mean) ** 2 for count in counts) / mean))


def _source(service: Service, client: Client) -> Check:
    """Where backends saw the connections come from."""
    wanted = service.local if service.mode is Mode.FULL_NAT else service.clients
    assert wanted is not None, "full-NAT has local addresses"
    seen, last = client.local.listed, wanted.first + wanted.count - 1
    foreign = [source for source in seen if not wanted.first <= number(source.address) <= last]
    words = f"{len(seen) - len(foreign):,} of {wanted.count:,} {_POOLS[service.mode]} seen"
    if foreign:
        named = ", ".join(source.address for source in foreign[:3])
        words += f", and {named}{' and others' if len(foreign) > 3 else ''}"
    share = 1 - sum(source.count for source in foreign) / max(1, sum(source.count for source in seen))
    return Check("expected source", share, bool(seen) and not foreign, words)

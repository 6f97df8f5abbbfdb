"""What the account of connections says about a service, and what a real client got through it. Pure."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from pinchpoint.engine.connections import Account, Client
from pinchpoint.measure.served import equal_by_chance
from pinchpoint.measure.verify.turns import ONE_TURN, Dealing, Followed, Order, followed, in_cycles
from pinchpoint.model.addresses import number as number_of
from pinchpoint.model.scenario import Mode, Scheduler, Service

_POOLS: Final = {Mode.FULL_NAT: "local addresses", Mode.DNAT: "clients", Mode.DIRECT: "clients"}
CHANCE = 1e-3  # of a fair hash that deals as unevenly as this, below which it is not called fair
OVERTAKEN = 0.05  # of the connections may be out of turn where several CPUs deal in the same one
REQUESTS = 3  # of a real client
_SAID = re.compile(r"server (\d+)\s*")


@dataclass(frozen=True)
class Assertion:
    """One thing that the service has to do."""

    name: str
    share: float  # of what was looked at, in order; of the backends, the busiest one's
    is_right: bool
    words: str  # with the figures


def checks(service: Service, client: Client, dealing: Dealing = ONE_TURN) -> Iterator[Assertion]:
    """All that something is known of; `dealing`: how connections are dealt to the backends with round-robin."""
    yield _completed(client)
    if client.answered:
        yield _answers("payload intact", client.wrong_payload, client, "not to the request that was sent")
    yield _dealt(service, client, dealing)
    if service.scheduler is Scheduler.SOURCE and (reached := _by_client(service, client.order or ())):
        kept = sum(len(backends) == 1 for backends in reached.values())
        words = f"{kept:,} of {len(reached):,} clients reached one backend with all their connections"
        yield Assertion("client kept", kept / len(reached), kept == len(reached), words)
    if client.answered:
        yield _answers("one backend", client.wrong_backend, client, "by another backend than the one before")
    yield _source(service, client)
    if client.answered and (reused := client.reused) is not None:  # no two open ones look the same to a backend
        words = f"{reused:,} from an address and port that an open one had at the same backend"
        yield Assertion("source used once", max(0.0, 1 - reused / max(1, client.established)), not reused, words)
    told = client.toa_right + client.toa_wrong
    if service.proxy_protocol:
        told = max(told, client.answered)  # each has a header
    if told:
        words = f"{client.toa_right:,} of {told:,} answers name the client"
        name = "PROXY header" if service.proxy_protocol else "TOA option"
        yield Assertion(name, client.toa_right / told, client.toa_right == told, words)


def direct(account: Account, entered: int | None) -> Assertion:
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
    return Assertion("direct return", returned / max(1, returned + max(through, passed)), right, words)


def forgotten(opened: int, left: int, waited_s: float) -> Assertion:
    """Whether the balancer has forgotten the connections that closed so long ago; it still remembers `left`."""
    kept = min(left, opened)
    words = f"{kept:,} of {opened:,} remembered {waited_s:g} s after the last one closed"
    return Assertion("forgotten", 1 - kept / max(1, opened), not kept, words)


def repeated(before: Client, again: Client) -> Iterator[Assertion]:
    """Whether a hash takes each tuple to its backend again; nothing where no right answer came `before`.

    Connections that the engine did not open `again` are not told from those without a right answer: no backend is
    blamed for as many.
    """
    reached = [
        (backend, then)
        for backend, then in zip(before.order or (), again.order or (), strict=False)
        if backend is not None
    ]
    unanswered = sum(then is None for _, then in reached)
    missing = min(unanswered, again.shortfall)
    opened, silent = len(reached) - missing, unanswered - missing
    if opened:
        kept = sum(backend == then for backend, then in reached)
        words = f"{kept:,} of {opened:,} tuples reached the backend again that they had reached"
        words += f", {silent:,} got no right answer" if silent else ""
        words += f"; the engine did not open {missing:,} again" if missing else ""
        yield Assertion("tuples kept", kept / opened, kept == opened, words)


def _completed(client: Client) -> Assertion:
    failed = "".join(f", {count:,} {words}" for words, count in client.failures.items())
    words = f"{client.completed:,} of {client.opened:,}{failed}"
    is_right = bool(client.opened) and client.completed == client.opened
    return Assertion("completed", client.completed / max(1, client.opened), is_right, words)


def _answers(name: str, wrong: int, client: Client, words: str) -> Assertion:
    return Assertion(name, max(0.0, 1 - wrong / client.answered), not wrong, f"{wrong:,} answers {words}")


def _dealt(service: Service, client: Client, dealing: Dealing) -> Assertion:
    counts = [*client.backends, *[0] * (len(service.backends) - len(client.backends))]
    if not sum(counts):
        return Assertion("busiest backend", 0.0, False, "no backend answered")
    if service.scheduler is Scheduler.ROUND_ROBIN:
        order = client.order or ()
        check = _in_turn("busiest backend", counts, order, dealing, service.weights)
        if not 0 < len(order) < client.opened:
            return check
        return replace(check, words=f"{check.words}; the first {len(order):,} connections were followed")
    what = "a fair hash" if service.scheduler.is_hash else "equal shares"
    if service.scheduler is Scheduler.SOURCE and (reached := _by_client(service, client.order or ())):
        counts = [sum(number in backends for backends in reached.values()) for number in range(len(counts))]
        what = "a fair hash of clients"
    chance = equal_by_chance(counts, service.weights)
    odds = f"{_shown(counts)}, as uneven by {what} with a chance of {chance:.2g}"
    return Assertion("busiest backend", max(counts) / sum(counts), chance >= CHANCE, odds)


def _by_client(service: Service, order: Order) -> Mapping[int, set[int]]:
    """Client -> the backends that it reached: connections are opened from one client after the other."""
    reached = defaultdict[int, set[int]](set)
    for number, backend in enumerate(order):
        if backend is not None:
            reached[number % service.clients.count].add(backend)
    return reached


def _in_turn(name: str, counts: Sequence[int], order: Order, dealing: Dealing, weights: Sequence[int]) -> Assertion:
    """Each turn is at most one ahead with each backend, and each connection reaches the next one."""
    if len(set(weights)) > 1:
        return _in_cycles(name, counts, order, dealing, weights)
    is_even, along = max(counts) - min(counts) <= dealing.turns, followed(order, len(counts), dealing.turns)
    is_right = is_even and along.astray <= (OVERTAKEN * along.due if dealing.at_once > 1 else 0)
    words = "in turn" if dealing.turns == 1 else f"in {dealing.turns} turns, one of each worker"
    if not is_right:
        words = f"not {words}" + (_astray(along) if is_even else "")
    elif along.astray:
        words += f" but for {along.astray:,} of {along.due:,}: {dealing.at_once} CPUs deal at the same time"
    elif not along.due:
        words = "as even as turns are; no two connections in a row were answered"
        if dealing.turns > 1:
            words = f"the order is not known: {dealing.turns} turns, and no more connections in a row were answered"
    return Assertion(name, max(counts) / sum(counts), is_right, f"{_shown(counts)}, {words}")


def _in_cycles(name: str, counts: Sequence[int], order: Order, dealing: Dealing, weights: Sequence[int]) -> Assertion:
    """Each cycle has as many connections of a backend as its weight, and is like the one before.

    Where each line of a backend has a share of its own, each of them may be one connection off.
    """
    total, length = sum(counts), sum(weights)
    words, pairs = f"{_shown(counts)} with the weights {_shown(weights)}", list(zip(counts, weights, strict=True))
    share = max(counts) / total
    if dealing.lines:
        off = max(abs(count - total * weight / length) for count, weight in pairs)
        return Assertion(name, share, off <= dealing.lines, f"{words}, {off:.1f} off where {dealing.lines} may be")
    along, cycles = in_cycles(order, weights), total // length
    is_even = all(cycles * weight <= count <= (cycles + 1) * weight for count, weight in pairs)
    if is_even and along.astray <= (OVERTAKEN * along.due if dealing.at_once > 1 else 0):
        return Assertion(name, share, True, f"{words}, in cycles of {length:,}")
    return Assertion(name, share, False, f"{words}, not in cycles of {length:,}{_astray(along) if is_even else ''}")


def _astray(along: Followed) -> str:
    """How many connections reached another backend than the next, and which was the first."""
    if (first := along.first) is None:
        return ""
    due = " or ".join(dict.fromkeys(map(label, first.due)))
    where = f"number {first.number:,} reached backend {label(first.backend)} where {due} was due"
    return f": {along.astray:,} of {along.due:,} reached another backend than the next; {where}"


def _shown(counts: Sequence[int]) -> str:
    return " / ".join(f"{count:,}" for count in counts)


def _source(service: Service, client: Client) -> Assertion:
    """Where backends saw the connections come from."""
    sources, wanted = client.local.listed, service.local or service.clients
    foreign = [source for source in sources if not _is_expected(service, source.address)]
    own = len(sources) - len(foreign)
    words = f"{own:,} of {wanted.count:,} {_POOLS[service.mode]} seen"
    if foreign:
        named = ", ".join(source.address for source in foreign[:3])
        words += f", and {named}{' and others' if len(foreign) > 3 else ''}"
    elif sources and own < wanted.count and _leaves_none_out(service, client):
        return Assertion("expected source", own / wanted.count, False, f"{words}, the others never")
    count = sum(source.count for source in sources)
    share = 1 - sum(source.count for source in foreign) / count if count else 0.0
    return Assertion("expected source", share, bool(sources) and not foreign, words)


def _leaves_none_out(service: Service, client: Client) -> bool:
    """Whether every local address is used but for a small chance, where client and backend choose it by a fair hash."""
    if service.local is None or client.local.others:
        return False
    backends = 1 if service.scheduler is Scheduler.SOURCE else len(service.backends)
    count, choices = service.local.count, min(client.answered, service.clients.count * backends)
    return count * (1 - 1 / count) ** choices < CHANCE


def _is_expected(service: Service, address: str) -> bool:
    """Whether a backend may see it: one of the balancer's local addresses, or without any the client's."""
    wanted = service.local or service.clients
    try:
        return wanted.first <= number_of(address) <= wanted.last
    except ValueError:
        return False


@dataclass(frozen=True)
class Got:
    """What a real client has of one request."""

    said: str  # the answer; empty where there is none
    failed: str = ""  # what the client said instead


def path(number: int) -> str:
    """What request `number` asks for, so that logs name it."""
    return f"/request-{number}"


def label(backend: int) -> str:
    """What the server of a backend, numbered from 0, calls itself."""
    return f"{backend + 1:02d}"


def seen(logs: Sequence[str], number: int) -> Mapping[int, tuple[str, ...]]:
    """Backend -> the addresses from which it saw request `number`, one for each line of its log."""
    by_backend = {}
    for backend, log in enumerate(logs):
        lines = (line.split() for line in log.splitlines())
        if addresses := tuple(words[0] for words in lines if words[1:] == [path(number)]):
            by_backend[backend] = addresses
    return by_backend


def program_checks(
    service: Service, got: Sequence[Got], logs: Sequence[str], dealing: Dealing = ONE_TURN
) -> Iterator[Assertion]:
    """One for each request of a real client, and whether they were dealt in turn; `logs` of the servers, by backend."""
    order = list[int | None]()
    for number, reply in enumerate(got, start=1):
        backend, is_right, words = _request(service, reply, seen(logs, number))
        order.append(backend)
        yield Assertion(f"request {number}", float(is_right), is_right, words)
    counts = [order.count(number) for number in range(len(service.backends))]
    if service.scheduler is Scheduler.ROUND_ROBIN and any(counts):
        yield _in_turn("busiest server", counts, order, dealing, service.weights)


def _request(service: Service, got: Got, where: Mapping[int, tuple[str, ...]]) -> tuple[int | None, bool, str]:
    """The backend that answered, whether that is right, and what to say of it."""
    logged = "; ".join(f"{_name(service, number)} saw {', '.join(who)}" for number, who in where.items())
    said = _SAID.fullmatch(got.said)
    number = int(said[1]) - 1 if said else -1
    if not 0 <= number < len(service.backends):
        answer = got.failed.strip() or f"an answer that no server gives: {got.said.strip()[:60]!r}"
        return None, False, f"{answer}; {logged or 'no server saw it'}"
    answered, wanted = f"{_name(service, number)} answered", "a local address" if service.local else "the client"
    if list(where) != [number] or len(where[number]) != 1:
        return number, False, f"{answered}; {logged or 'no server saw it'}"
    (address,) = where[number]
    if not _is_expected(service, address):
        return number, False, f"{answered} and saw {address}, which is not {wanted}"
    return number, True, f"{answered} and saw {address}, {wanted}"


def _name(service: Service, backend: int) -> str:
    return f"server {label(backend)} ({service.backends[backend].end})"

"""Which resource ended a load of connections: from counters, gauges, threads and the engine's own account. Pure.

In order of what is believed: a backend that answers less than others, since connections that wait for it occupy
whatever else there is; a counter that rises when no place is free; a gauge that stands at the size of its resource; the
backends' own refusals; a forwarding thread without idle time; the generator. An accept queue overflows behind a program
that accepts nothing: where that has no place left, its place is what ended the load, and where its worker has no time
left, the worker. A queue that overflows in front of a worker with idle time is the limit itself.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import zip_longest

from pinchpoint.engine.connections import Account
from pinchpoint.model import units
from pinchpoint.model.limits import SATURATED, Limit, Resource
from pinchpoint.model.trial import ThreadLoad

TELLING = 0.1  # of the failed connections: fewer refusals than this share are not their reason
FULL = 0.97  # of a size: a gauge read after the load stands a little below it
BUSY = 0.7  # of the engine's time: what it does to frames it takes from the rest
KNOWN = 10  # connections of a typical backend, before one without any is more than chance
SILENT = 0.1  # of what a typical backend answered
DEVIATIONS = 5  # of a count (Poisson): what a backend answers less by chance, where connections are dealt by a hash
OWN = 0.5  # of what a backend did not answer has to have failed, or it was never asked
PUSHED = 0.01  # refused sends to a connection that was not opened: each may have been of a whole burst


@dataclass(frozen=True)
class Exhausted:
    """What ended a load. `resource` None: nothing that was read explains it."""

    resource: Resource | None
    evidence: tuple[str, ...]  # sentences with their figures, the decisive one first


@dataclass(frozen=True)
class Seen:
    """What was read of one load."""

    account: Account
    observed: Mapping[str, float]  # counter differences and gauges
    threads: Sequence[ThreadLoad]
    traffic_s: float  # for which connections were opened and held

    @property
    def busy_share(self) -> float:
        """Of that time, in which the engine's core moved frames; what it did later counts as well."""
        return min(1.0, self.account.busy_share * self.account.elapsed_s / self.traffic_s) if self.traffic_s else 0.0

    @property
    def is_generator_full(self) -> bool:
        """Whether the engine's core had hardly time for more."""
        return self.busy_share >= BUSY


def exhausted(limits: Sequence[Limit], loads: Sequence[Seen], every: Sequence[Seen] = ()) -> Exhausted:
    """What ended these loads, of which connections failed or were not opened.

    `every`: all of which some failed, where `loads` are the least ones. How many connections each backend answers shows
    in many only.
    """
    failed = sum(map(_failed, loads))
    refused, full = _refusals(limits, loads, failed), list(_full(limits, loads))
    places = [*full, *refused] if refused and refused[0][0] is Resource.ACCEPT_QUEUE else [*refused, *full]
    resets = sum(seen.account.client.refused for seen in loads if seen.account.client)
    if resets and resets >= TELLING * failed:
        places.append((Resource.BACKEND, f"{resets:,} of {failed:,} failed connections were refused by a reset"))
    threads = list(_threads(limits, loads))
    is_behind = bool(threads) and all(map(_is_worker_full, _overflowed(limits, loads)))
    waiting = [place for place in places if is_behind and place[0] is Resource.ACCEPT_QUEUE]
    places = [place for place in places if place not in waiting]
    resources = [*_silent(every or loads), *places, *threads, *waiting, *_generator(loads)]
    if not resources:
        return Exhausted(None, (f"{units.counted(failed, 'connection')} failed, and no counter accounts for them",))
    return Exhausted(resources[0][0], tuple(words for _, words in resources))


def _failed(seen: Seen) -> int:
    client = seen.account.client
    return client.opened - client.completed + client.shortfall if client else 0


def counted(patterns: Iterable[str], observed: Mapping[str, float]) -> dict[str, float]:
    """The counters that patterns name, those that rose."""
    wanted = tuple(patterns)
    return {name: n for name, n in observed.items() if n > 0 and any(fnmatchcase(name, pattern) for pattern in wanted)}


def _refusals(limits: Sequence[Limit], loads: Sequence[Seen], failed: int) -> list[tuple[Resource, str]]:
    """The counters of refusals, the greatest first."""
    sums: list[tuple[float, Resource, str]] = []
    for limit in limits:
        rose = [counted(limit.refused, seen.observed) for seen in loads]
        total = sum(sum(counts.values()) for counts in rose)
        if total >= max(1.0, TELLING * failed):
            named, lost = ", ".join(sorted(set[str]().union(*rose))), units.counted(failed, "connection")
            words = f"{limit.resource}: {total:,.0f} refused ({named}), {lost} failed"
            sums.append((total, limit.resource, words))
    return [(resource, words) for _, resource, words in sorted(sums, key=lambda refusal: -refusal[0])]


def _full(limits: Sequence[Limit], loads: Sequence[Seen]) -> Iterator[tuple[Resource, str]]:
    for limit in limits:
        used = max((seen.observed[limit.used] for seen in loads if limit.used in seen.observed), default=None)
        if used is not None and limit.size and FULL * limit.size <= used:
            yield limit.resource, f"{limit.resource}: {used:,.0f} of {limit.size:,} places in use ({limit.used})"


def _silent(loads: Sequence[Seen]) -> Iterator[tuple[Resource, str]]:
    """Backends that answered fewer connections than others, while about as many failed as were missing of theirs."""
    counts = [sum(interval) for interval in zip_longest(*(seen.account.answered for seen in loads), fillvalue=0)]
    failed = sum(map(_failed, loads))
    typical = sorted(counts)[len(counts) // 2] if len(counts) > 1 else 0
    silent, slow = SILENT * typical, typical - DEVIATIONS * typical**0.5
    behind = [number for number, count in enumerate(counts) if count <= max(silent, slow)]
    missing = sum(typical - counts[number] for number in behind)
    # One that answers nothing may stop the others as well: connections that wait for it occupy their places.
    most = missing / OWN if any(counts[number] > silent for number in behind) else failed
    if typical >= KNOWN and behind and OWN * missing <= failed <= most:
        of = ", ".join(map(str, behind))
        shown = " / ".join(f"{count:,}" for count in counts)
        yield Resource.BACKEND, f"backend: {of} (from 0) answered fewer than others: {shown}; {failed:,} failed"


def _threads(limits: Sequence[Limit], loads: Sequence[Seen]) -> Iterator[tuple[Resource, str]]:
    is_kernel = any(limit.resource is Resource.SOFTIRQ for limit in limits)
    resource = Resource.SOFTIRQ if is_kernel else Resource.WORKER
    by_load = [[(thread.busy_share or 0.0, thread.name) for thread in seen.threads] for seen in loads]
    for busy, name in max(by_load, key=lambda threads: max(threads, default=(0.0, ""))[0], default=[]):
        if busy >= SATURATED:
            yield resource, f"{resource}: {name} was {units.share(busy)} busy"


def _overflowed(limits: Sequence[Limit], loads: Sequence[Seen]) -> Iterator[Seen]:
    """The loads that failed for want of a place in an accept queue."""
    queues = [limit for limit in limits if limit.resource is Resource.ACCEPT_QUEUE]
    return (seen for seen in loads if _refusals(queues, [seen], _failed(seen)))


def _is_worker_full(seen: Seen) -> bool:
    return any((thread.busy_share or 0.0) >= SATURATED for thread in seen.threads)


def _generator(loads: Sequence[Seen]) -> Iterator[tuple[Resource, str]]:
    full = [seen for seen in loads if seen.is_generator_full and not pushed_back(seen.account)]
    if full:
        core = f"generator: its core was {units.share(max(seen.busy_share for seen in full))} busy"
        late = units.counted(sum(seen.account.client.shortfall for seen in full if seen.account.client), "connection")
        missed = units.frames(sum(seen.account.missed for seen in full))
        yield Resource.GENERATOR, f"{core}; {late} not opened in time, {missed} that its full rings dropped"


def pushed_back(account: Account) -> bool:
    """Whether connections were not opened since what is behind the client's port did not take their SYNs."""
    client = account.client
    cuts = sum(port.not_taken for port in account.ports[:1])
    return client is not None and client.shortfall > 0 and cuts >= PUSHED * client.shortfall

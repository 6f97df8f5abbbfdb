"""Which resource ended a load of connections: from counters, gauges, threads and the engine's own account. Pure.

In order of what is believed: a backend that answers less than others, since connections that wait for it occupy
whatever else there is; a counter that rises when no place is free; a gauge that stands at the size of its resource; the
backends' own refusals; a forwarding thread without idle time; the generator. An accept queue overflows behind a program
that accepts nothing: where that has no place left, its place is what ended the load, and where its worker has no time
left, the worker. A queue that overflows in front of a worker with idle time is the limit itself.
"""

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from itertools import zip_longest

from pinchpoint.account.validity import Seen, pushed_back
from pinchpoint.causes.catalogue import OF_RESOURCE, UNEXPLAINED
from pinchpoint.causes.signature import Candidate, fitting
from pinchpoint.model import units
from pinchpoint.model.causes import Sign
from pinchpoint.model.limits import Limit, Resource

KNOWN = 10  # connections of a typical backend, before one without any is more than chance
SILENT = 0.1  # of what a typical backend answered
DEVIATIONS = 5  # of a count (Poisson): what a backend answers less by chance, where connections are dealt by a hash
OWN = 0.5  # of what a backend did not answer has to have failed, or it was never asked


def exhausted(limits: Sequence[Limit], loads: Sequence[Seen], every: Sequence[Seen] = ()) -> list[Candidate]:
    """What ended these loads, of which connections failed or were not opened, the decisive one first.

    `every`: all of which some failed, where `loads` are the least ones. How many connections each backend answers shows
    in many only.
    """
    failed = sum(seen.failed for seen in loads)
    refused, full = _refused(limits, loads), list(fitting(_full(limits, loads)))
    queue, threads = OF_RESOURCE[Resource.ACCEPT_QUEUE], list(fitting(_threads(limits, loads)))
    places = [*full, *refused] if refused and refused[0].cause is queue else [*refused, *full]
    overflowed = (seen for seen in loads if queue in (place.cause for place in _refused(limits, [seen])))
    is_behind = bool(threads) and all(any(fitting(_threads(limits, [seen]))) for seen in overflowed)
    waiting = [place for place in places if is_behind and place.cause is queue]
    places = [*(place for place in places if place not in waiting), *fitting(_resets(loads, failed))]
    ended = [*fitting(_silent(every or loads)), *places, *threads, *waiting, *fitting(_generator(loads))]
    unknown = f"{units.counted(failed, 'connection')} failed, and no counter accounts for them"
    return ended or [Candidate(UNEXPLAINED, Sign.REFUSED, 0.0, unknown)]


def _refused(limits: Sequence[Limit], loads: Sequence[Seen]) -> list[Candidate]:
    """The counters of refusals that tell, the greatest first."""
    refusals, failed = list[Candidate](), sum(seen.failed for seen in loads)
    for limit in limits:
        every = ((name, n) for seen in loads for name, n in seen.observed.items() if n > 0)
        rose = [(name, n) for name, n in every if any(fnmatchcase(name, pattern) for pattern in limit.refused)]
        total, named = sum(n for _, n in rose), ", ".join(sorted({name for name, _ in rose}))
        words = f"{limit.resource}: {total:,.0f} refused ({named}), {units.counted(failed, 'connection')} failed"
        refusals.append(Candidate(OF_RESOURCE[limit.resource], Sign.REFUSED, total / max(1, failed), words))
    return sorted(fitting(refusals), key=lambda refusal: -refusal.value)


def _resets(loads: Sequence[Seen], failed: int) -> Iterator[Candidate]:
    resets = sum(seen.account.client.refused for seen in loads if seen.account.client)
    words = f"{resets:,} of {failed:,} failed connections were refused by a reset"
    yield Candidate(OF_RESOURCE[Resource.BACKEND], Sign.REFUSED, resets / max(1, failed), words)


def _full(limits: Sequence[Limit], loads: Sequence[Seen]) -> Iterator[Candidate]:
    for limit in limits:
        used = max((seen.observed[limit.used] for seen in loads if limit.used in seen.observed), default=None)
        if used is not None and limit.size:
            words = f"{limit.resource}: {used:,.0f} of {limit.size:,} places in use ({limit.used})"
            yield Candidate(OF_RESOURCE[limit.resource], Sign.USED, used / limit.size, words)


def _silent(loads: Sequence[Seen]) -> Iterator[Candidate]:
    """Backends that answered fewer connections than others, while about as many failed as were missing of theirs."""
    counts = [sum(interval) for interval in zip_longest(*(seen.account.answered for seen in loads), fillvalue=0)]
    failed = sum(seen.failed for seen in loads)
    typical = sorted(counts)[len(counts) // 2] if len(counts) > 1 else 0
    silent, slow = SILENT * typical, typical - DEVIATIONS * typical**0.5
    behind = [number for number, count in enumerate(counts) if count <= max(silent, slow)]
    missing = sum(typical - counts[number] for number in behind)
    # One that answers nothing may stop the others as well: connections that wait for it occupy their places.
    most = missing / OWN if any(counts[number] > silent for number in behind) else failed
    if typical >= KNOWN and behind and OWN * missing <= failed <= most:
        of = ", ".join(map(str, behind))
        shown = " / ".join(f"{count:,}" for count in counts)
        words = f"backend: {of} (from 0) answered fewer than others: {shown}; {failed:,} failed"
        yield Candidate(OF_RESOURCE[Resource.BACKEND], Sign.BEHIND, len(behind), words)


def _threads(limits: Sequence[Limit], loads: Sequence[Seen]) -> Iterator[Candidate]:
    is_kernel = any(limit.resource is Resource.SOFTIRQ for limit in limits)
    resource = Resource.SOFTIRQ if is_kernel else Resource.WORKER
    by_load = [[(thread.busy_share or 0.0, thread.name) for thread in seen.threads] for seen in loads]
    for busy, name in max(by_load, key=lambda threads: max(threads, default=(0.0, ""))[0], default=[]):
        words = f"{resource}: {name} was {units.share(busy)} busy"
        yield Candidate(OF_RESOURCE[resource], Sign.FULLEST, busy, words)


def _generator(loads: Sequence[Seen]) -> Iterator[Candidate]:
    if full := [seen for seen in loads if seen.is_generator_full and not pushed_back(seen.account)]:
        busy = max(seen.busy_share for seen in full)
        late = units.counted(sum(seen.account.client.shortfall for seen in full if seen.account.client), "connection")
        missed = units.frames(sum(seen.account.missed for seen in full))
        core = f"generator: its core was {units.share(busy)} busy"
        words = f"{core}; {late} not opened in time, {missed} that its full rings dropped"
        yield Candidate(OF_RESOURCE[Resource.GENERATOR], Sign.FULLEST, busy, words)

"""What pinched a socket workload: a thread, a full CPU, the plan, or the waiting of a round trip.

A thread is known by its own processor time, so a CPU that client, server and switch share is
recognised where no single thread is saturated. What the kernel does in softirqs belongs to the
CPU, not always to a thread, and is reported beside it.
"""

import math
from collections.abc import Iterator, Sequence
from statistics import median_low

from pinchpoint.account.windows import Thread, Window
from pinchpoint.causes.catalogue import OF_LIMIT, UNEXPLAINED, by_name
from pinchpoint.causes.signature import Candidate, fitting
from pinchpoint.causes.signs import Diagnosed, what_to_do
from pinchpoint.model import units
from pinchpoint.model.causes import Sign
from pinchpoint.model.limits import SATURATED
from pinchpoint.model.result import Limit, Verdict

TELLING = 0.01  # share of softirq time worth a word
HEADROOM = 0.8  # a thread less busy than this is ruled out


def verdict(
    windows: Sequence[Window], rate_tps: float | None, connections: int, device: Diagnosed | None = None
) -> Verdict:
    """What limited the workload, from the window with the median rate; `rate_tps` is the plan, if there was one.

    `device` is asked what its user can set. The window is not the best and not the worst: one outlier does not speak
    for all.
    """
    rates = [window.transactions_per_s or window.goodput_bps for window in windows]
    window = windows[rates.index(median_low(rates))]
    first = next(fitting(_candidates(window, rate_tps, connections)))
    limit, lines = first.cause.limit, (*_evidence(window), *what_to_do(first.cause, device))
    return Verdict(limit, first.words, lines, _ruled_out(window, limit), (window.id,))


def source_ports(windows: Sequence[Window]) -> Verdict | None:
    """That the client ran out of source ports, from the windows in which it did; None: in none of them.

    Such a window has no rate of the device: connections waited for ports that its kernel kept in TIME_WAIT.
    """
    short = [window for window in windows if window.without_port]
    failed = sum(window.without_port for window in short)
    ports = next((result.source_ports for window in short for result in window.results if result.source_ports), None)
    of = "" if ports is None else f" of {ports:,} for each address"
    headline = f"the client ran out of source ports: {failed:,} connections found none{of}"
    hints = {result.hint for window in short for result in window.results if result.hint}
    told = fitting([Candidate(by_name("source-ports"), Sign.PORTLESS, failed, headline)])
    ids = tuple(window.id for window in short)
    lines = tuple(sorted(hints)) or what_to_do(by_name("source-ports"), None)
    return next((Verdict(each.cause.limit, each.words, lines, (), ids) for each in told), None)


def moved(window: Window) -> str:
    """That the window's rate was not one rate; empty if no change of level was seen."""
    if (change := window.change) is None:
        return ""
    rate = _per_s if window.has_answers else _bits
    verb = "fell" if change.after < change.before else "rose"
    return (
        f"{window.id}: not stationary: the rate {verb} from {rate(change.before)} to {rate(change.after)} "
        f"{change.at_s:.1f} s after the window began"
    )


def _candidates(window: Window, rate_tps: float | None, connections: int) -> Iterator[Candidate]:
    """What may have limited it, in the order in which it is believed; the last is what remains."""
    if rate_tps is not None and not window.failures:
        kept = window.transactions_per_s / rate_tps
        words = f"the plan of {_per_s(rate_tps)} was kept{_busiest_words(window)}"
        yield Candidate(OF_LIMIT[Limit.PLANNED_RATE], Sign.PLAN_KEPT, kept, words)
    if first := max(window.threads, key=lambda thread: thread.busy, default=None):
        others = [thread for thread in window.threads if thread.busy >= SATURATED and thread is not first]
        beside = f"; so {'is' if len(others) == 1 else 'are'} {_listed(others)}" if others else ""
        words = f"{_named(first)} is saturated: {units.share(first.busy)} busy{_where(first)}{beside}"
        yield Candidate(OF_LIMIT[first.limit], Sign.FULLEST, first.busy, words)
    if window.foreign is not None:  # of a disturbed window only the disturbance is known
        words = f"the host: processes outside the bench took {units.share(window.foreign)} of one CPU"
        yield Candidate(by_name("other-processes"), Sign.OUTSIDE, window.foreign, words)
    for busy, cpus, here in sorted(_full_cpus(window), key=lambda full: -full[0]):
        yield _full(window, busy, cpus, here)
    yield from _waiting(window, connections)


def _full(window: Window, busy: float, cpus: tuple[int, ...], here: Sequence[Thread]) -> Candidate:
    """CPUs without idle time though no thread on them is saturated alone: of the busiest thread, or of the bench.

    Ends without CPUs of their own share by design; threads that were given the same one do not.
    """
    here = sorted(here, key=lambda thread: -thread.busy)
    several, cause = len(cpus) > 1, OF_LIMIT[here[0].limit]
    softirq = math.fsum(window.cpus[cpu].softirq for cpu in cpus if cpu in window.cpus) / len(cpus)
    shares = ", ".join(f"{thread.name} {units.share(thread.busy)}" for thread in here)
    if softirq >= TELLING:
        shares += f"; {units.share(softirq)} of {'their' if several else 'its'} time was in softirq"
    numbers, full = ", ".join(map(str, cpus)), f"{'are' if several else 'is'} full ({units.share(busy)})"
    if len({thread.limit for thread in here}) == 1:
        words = f"the CPU{'s' * several} of {cause.title}, {numbers}, {full}: {shares}"
    else:
        words = f"CPU{'s' * several} {numbers} {full}: {_listed(here)} share {'them' if several else 'it'} ({shares})"
        cause = cause if all(thread.is_moved for thread in here) else by_name("shared-cpu")
    return Candidate(cause, Sign.FULLEST, busy, words)


def _full_cpus(window: Window) -> Iterator[tuple[float, tuple[int, ...], Sequence[Thread]]]:
    """(busy share, CPUs, threads on them) where threads of the workload fill them, by the CPUs' own count or by theirs.

    A thread has a CPU of its own, or is moved by the kernel among all that were watched: these are full together.
    Only threads on the switch's machine count: CPUs of others have the same numbers.
    """
    threads = [thread for thread in window.threads if not thread.host]
    own = sorted({thread.cpu for thread in threads if thread.cpu is not None})
    groups = [((cpu,), [thread for thread in threads if thread.cpu == cpu]) for cpu in own]
    alike = [(tuple(window.cpus), threads)] if window.cpus and any(thread.is_moved for thread in threads) else []
    for cpus, here in (*groups, *alike):
        worked = math.fsum(thread.busy for thread in here) / len(cpus)
        # A thread that polls leaves no idle time: there only the work of all counts.
        is_counted = not any(thread.polls for thread in here) and all(cpu in window.cpus for cpu in cpus)
        counted = math.fsum(window.cpus[cpu].busy for cpu in cpus) / len(cpus) if is_counted else 0.0
        if max(worked, counted) >= SATURATED:
            yield min(1.0, max(worked, counted)), cpus, here


def _waiting(window: Window, connections: int) -> Iterator[Candidate]:
    """Latency where all connections were under way all the time, by Little's law; otherwise unexplained."""
    busiest, mean_ns, per_s = _busiest_words(window), _mean_latency_ns(window), window.transactions_per_s
    under_way, words = 0.0, f"unexplained: no thread and no CPU is saturated{busiest}"
    if mean_ns is not None:
        under_way, mean = per_s * mean_ns / 1e9, units.nanoseconds(mean_ns)
        who = "1 connection waits" if connections == 1 else f"{connections} connections wait"
        yield Candidate(OF_LIMIT[Limit.LATENCY], Sign.UNDER_WAY, under_way / connections, (
            f"latency bound: no thread is saturated; {who} {mean} (mean) for each answer, "
            f"which makes {_per_s(per_s)}; work for each: {_work(window)}"
        ))  # fmt: skip
        words = (
            f"unexplained: no thread is saturated, and {_per_s(per_s)} x {mean} keep only "
            f"{under_way:.1f} of {connections} connections under way{busiest}"
        )
    yield Candidate(UNEXPLAINED, Sign.UNDER_WAY, under_way, words)


def _mean_latency_ns(window: Window) -> float | None:
    """Of all transactions, from begin to end; None for a stream."""
    times = [run.service or run.latency for run in window.runs]
    known = [time for time in times if time is not None and time.count]
    count = sum(time.count for time in known)
    return math.fsum(time.mean_ns * time.count for time in known) / count if count else None


def _evidence(window: Window) -> Iterator[str]:
    rate = _per_s(window.transactions_per_s) if window.has_answers else _bits(window.goodput_bps)
    yield f"{window.id}: {rate}" + (f" by {len(window.runs)} pairs of threads" if len(window.runs) > 1 else "")
    yield from filter(None, (moved(window),))
    for thread in sorted(window.threads, key=lambda thread: -thread.busy):
        yield f"{thread.name}{_where(thread)} was {units.share(thread.busy)} busy"
    if work := _work(window):
        yield f"processor time for each transaction: {work}"
    for cpu, share in window.cpus.items():
        yield f"CPU {cpu} was {units.share(share.busy)} busy, {units.share(share.softirq)} in softirq"
    for load in window.forwarding:
        if load.cycles_per_packet:
            yield f"{load.name} spent {load.cycles_per_packet:.0f} cycles per packet"
    yield from filter(None, (window.failures, _sent_again(window), window.relay_losses))
    distances = [ns for run in window.runs for ns in run.cache_line_ns if ns is not None]
    if distances:
        near, far = units.nanoseconds(min(distances)), units.nanoseconds(max(distances))
        yield f"a cache line took {near} to {far} between the CPUs of client and server"


def _sent_again(window: Window) -> str:
    """Segments, with how many they are a second; empty if there are none, or none is known."""
    seconds = max((run.duration_s for run in window.runs), default=0.0)
    if not window.retransmits or not seconds:
        return ""
    return f"{window.retransmits:,} segments were sent again, {_per_s(window.retransmits / seconds)}"


def _work(window: Window) -> str:
    """Processor time of each thread per transaction, the most first; empty for a stream."""
    rate = window.transactions_per_s
    if not rate:
        return ""
    threads = sorted(window.threads, key=lambda thread: -thread.busy)
    return ", ".join(f"{thread.name} {units.nanoseconds(thread.busy / rate * 1e9)}" for thread in threads)


def _ruled_out(window: Window, limit: Limit) -> tuple[str, ...]:
    if limit is Limit.HOST:
        return ()
    # What shares a full CPU is not busy, but could not be busier.
    bound = [thread for _, _, here in _full_cpus(window) for thread in here]
    others = [thread for thread in window.threads if thread.limit is not limit and thread not in bound]
    idle = [thread for thread in others if thread.busy < HEADROOM]
    return tuple(f"{_named(thread)}: {units.share(1 - thread.busy)} of the window idle" for thread in idle)


def _busiest_words(window: Window) -> str:
    busiest = max(window.threads, key=lambda thread: thread.busy, default=None)
    return "" if busiest is None else f" (the busiest: {busiest.name}, {units.share(busiest.busy)})"


def _named(thread: Thread) -> str:
    role = OF_LIMIT[thread.limit].title
    if thread.limit is Limit.FORWARDING_CORE:
        return thread.name
    return f"{role} ({thread.name})" if " " in thread.name else role


def _listed(threads: Sequence[Thread]) -> str:
    names = [thread.name for thread in threads]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _where(thread: Thread) -> str:
    if thread.cpu is None or thread.name.endswith(f" {thread.cpu}"):  # its name says it already
        return ""
    return f" on CPU {thread.cpu} of {thread.host}" if thread.host else f" on CPU {thread.cpu}"


def _per_s(rate: float) -> str:
    return f"{rate:,.0f}/s"


def _bits(rate: float) -> str:
    return f"{rate / 1e9:.2f} Gbit/s" if rate >= 1e9 else f"{rate / 1e6:.1f} Mbit/s"

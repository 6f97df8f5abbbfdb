"""How loaded each PMD thread and the main thread were, from counter differences."""

from collections.abc import Mapping
from typing import Final

from pinchpoint.model.trial import BusyBy, ThreadFigure, ThreadLoad

Seen = Mapping[str, float]

FIGURES: Final[Mapping[str, ThreadFigure]] = {
    "simple_match_hits": ThreadFigure("simple match", "lookups that a simple match by port answered", "simple match"),
    "emc_hits": ThreadFigure("EMC", "lookups that the exact-match cache answered", "EMC"),
    "smc_hits": ThreadFigure("SMC", "lookups that the signature-match cache answered", "SMC"),
    "megaflow_hits": ThreadFigure("megaflow", "lookups that the classifier answered", "megaflow classifier"),
    "upcalls": ThreadFigure("upcall", "lookups that an upcall answered", "upcalls"),
    "lost_upcalls": ThreadFigure("lost upcall", "lookups whose upcall failed", "upcalls"),
}
"""A thread's own figures, the fastest cache first."""
_COUNTERS: Final = {"upcalls": "miss_with_success_upcall", "lost_upcalls": "miss_with_failed_upcall"}


def loads(seen: Seen, traffic_s: float) -> tuple[ThreadLoad, ...]:
    """The load of each thread that received frames, the PMDs first.

    Snapshots bracket more than the traffic (drain, reading), so a busy share of
    all cycles would be too low: busy cycles are set against the cycles of
    `traffic_s` seconds, with the core's clock taken from the counters' own growth.
    """
    thread_loads = [_load(thread, seen, traffic_s) for thread in _threads(seen)]
    return tuple(load for load in thread_loads if load.received > 0 or load.cpu is not None)


def _threads(seen: Seen) -> list[str]:
    threads = {name.split("/")[2] for name in seen if name.startswith("ovs/pmd/")}
    return sorted(threads, key=lambda thread: (thread == "main", len(thread), thread))


def _load(thread: str, seen: Seen, traffic_s: float) -> ThreadLoad:
    def count(name: str) -> int | None:
        value = seen.get(f"ovs/pmd/{thread}/{name}")
        return None if value is None else int(value)

    cpu = int(thread.removeprefix("core")) if thread != "main" else None
    received = count("packets_received") or 0
    busy, idle = count("processing_cycles"), count("idle_cycles")
    elapsed_s = seen.get("elapsed_s/pmd")
    clock_hz = (busy + idle) / elapsed_s if busy is not None and idle is not None and elapsed_s else None
    share, by = _busy(thread, busy, clock_hz, seen, traffic_s)
    lookups = {key: count(_COUNTERS.get(key, key)) for key in FIGURES}
    detail = {key: hits for key, hits in lookups.items() if hits is not None}
    return ThreadLoad(
        name="main thread" if cpu is None else f"PMD core {cpu}",
        cpu=cpu,
        received=received,
        recirculated=count("packet_recirculations"),
        busy_share=share,
        busy_by=by,
        cycles_per_packet=busy / received if busy is not None and received else None,
        clock_hz=clock_hz,
        ports=_polled(thread, seen),
        slow_path=detail["upcalls"] + detail.get("lost_upcalls", 0) if "upcalls" in detail else None,
        detail=detail,
    )


def _polled(thread: str, seen: Seen) -> tuple[str, ...]:
    """The ports of which it polls a queue, as `ovs/rxq/THREAD/PORT/QUEUE/enabled` says."""
    queues = [name.split("/") for name, value in seen.items() if name.startswith(f"ovs/rxq/{thread}/") and value]
    return tuple(sorted({port for *_, port, _, word in queues if word == "enabled"}))


def _busy(
    thread: str, busy: int | None, clock_hz: float | None, seen: Seen, traffic_s: float
) -> tuple[float | None, BusyBy | None]:
    """The busy share, and how it is known."""
    if traffic_s <= 0:
        return None, None
    if busy is not None and clock_hz:
        return min(1.0, busy / (clock_hz * traffic_s)), BusyBy.CYCLES
    # The main thread counts no cycles; it sleeps when idle, so its CPU time is its load.
    run_ns = seen.get("host/thread/main/run_ns") if thread == "main" else None
    return (None, None) if run_ns is None else (min(1.0, run_ns / 1e9 / traffic_s), BusyBy.PROCESSOR_TIME)

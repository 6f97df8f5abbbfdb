"""How loaded each PMD thread and the main thread were, from counter differences."""

from collections.abc import Mapping

from pinchpoint.model.trial import PmdLoad

Seen = Mapping[str, float]


def loads(seen: Seen, traffic_s: float) -> tuple[PmdLoad, ...]:
    """The load of each thread that received frames, the PMDs first.

    Snapshots bracket more than the traffic (drain, reading), so a busy share of
    all cycles would be too low: busy cycles are set against the cycles of
    `traffic_s` seconds, with the core's clock taken from the counters' own growth.
    """
    thread_loads = [_load(thread, seen, traffic_s) for thread in _threads(seen)]
    return tuple(load for load in thread_loads if load.received > 0 or load.core is not None)


def _threads(seen: Seen) -> list[str]:
    threads = {name.split("/")[2] for name in seen if name.startswith("ovs/pmd/")}
    return sorted(threads, key=lambda thread: (thread == "main", len(thread), thread))


def _load(thread: str, seen: Seen, traffic_s: float) -> PmdLoad:
    def count(name: str) -> int | None:
        value = seen.get(f"ovs/pmd/{thread}/{name}")
        return None if value is None else int(value)

    core = int(thread.removeprefix("core")) if thread != "main" else None
    received = count("packets_received") or 0
    busy, idle = count("processing_cycles"), count("idle_cycles")
    elapsed_s = seen.get("elapsed_s/pmd")
    clock_hz = (busy + idle) / elapsed_s if busy is not None and idle is not None and elapsed_s else None
    return PmdLoad(
        name="main thread" if core is None else f"PMD core {core}",
        core=core,
        received=received,
        recirculated=count("packet_recirculations"),
        busy_share=_busy_share(thread, busy, clock_hz, seen, traffic_s),
        cycles_per_packet=busy / received if busy is not None and received else None,
        simple_match_hits=count("simple_match_hits"),
        emc_hits=count("emc_hits"),
        smc_hits=count("smc_hits"),
        megaflow_hits=count("megaflow_hits"),
        upcalls=count("miss_with_success_upcall"),
        lost_upcalls=count("miss_with_failed_upcall"),
        clock_hz=clock_hz,
        ports=_polled(thread, seen),
    )


def _polled(thread: str, seen: Seen) -> tuple[str, ...]:
    """The ports of which it polls a queue, as `ovs/rxq/THREAD/PORT/QUEUE/enabled` says."""
    queues = [name.split("/") for name, value in seen.items() if name.startswith(f"ovs/rxq/{thread}/") and value]
    return tuple(sorted({port for *_, port, _, word in queues if word == "enabled"}))


def _busy_share(thread: str, busy: int | None, clock_hz: float | None, seen: Seen, traffic_s: float) -> float | None:
    if traffic_s <= 0:
        return None
    if busy is not None and clock_hz:
        return min(1.0, busy / (clock_hz * traffic_s))
    # The main thread counts no cycles; it sleeps when idle, so its CPU time is its load.
    run_ns = seen.get("host/thread/main/run_ns") if thread == "main" else None
    return None if run_ns is None else min(1.0, run_ns / 1e9 / traffic_s)

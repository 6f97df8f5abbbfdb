"""What a time's CPUs did: busy, stolen by the hypervisor, taken by others; how threads had to wait for them. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pinchpoint.model import units
from pinchpoint.model.trial import ThreadLoad, ThreadWitness

STOLEN = 0.01  # share of the time that the hypervisor may take from a CPU in use
FOREIGN = 0.05  # share of one CPU that processes outside the bench may take
Seen = Mapping[str, float]
_THREADS = "host/thread/"  # of this machine


@dataclass(frozen=True)
class CpuShare:
    """What one CPU did in the window; shares of it."""

    busy: float
    softirq: float
    stolen: float


def noise(observed: Seen, seconds: float, ticks_per_s: float) -> str:
    """What the host did within `seconds` of these differences of counters; empty if nothing worth a word."""
    as_share = 1 / (ticks_per_s * seconds)
    cpus = shares(observed, as_share)
    return taken(cpus, foreign(observed, cpus, as_share))


def taken(cpus: Mapping[int, CpuShare], foreign: float | None) -> str:
    """What was stolen from these CPUs, or else taken from the bench on them; empty if nothing worth a word."""
    worst = max(cpus.items(), key=lambda item: item[1].stolen, default=None)
    if worst is not None and worst[1].stolen > STOLEN:
        return f"{units.share(worst[1].stolen)} of the window were stolen from CPU {worst[0]}"
    if foreign is None or foreign <= FOREIGN:
        return ""
    names = f"CPU{'s' * (len(cpus) > 1)} {', '.join(map(str, sorted(cpus)))}"
    return f"processes outside the bench took {units.share(foreign)} of one CPU's window on {names}"


def shares(seen: Seen, as_share: float) -> dict[int, CpuShare]:
    """Of every CPU watched; `as_share` is one tick as a share of the time."""
    numbers = {
        int(name.split("/")[2]) for name in seen if name.startswith("host/cpu/") and name.endswith("/busy_ticks")
    }

    def part(cpu: int, state: str) -> float:
        return min(1.0, seen.get(f"host/cpu/{cpu}/{state}_ticks", 0) * as_share)

    return {cpu: CpuShare(part(cpu, "busy"), part(cpu, "softirq"), part(cpu, "steal")) for cpu in sorted(numbers)}


def foreign(seen: Seen, cpus: Mapping[int, CpuShare], as_share: float) -> float | None:
    """Busy time of the bench's CPUs that neither its processes nor, where apart, interrupts account for."""
    names = (name for name in seen if name.startswith("host/process/") and name.endswith("/ticks"))
    own = [seen[name] for name in names if not _elsewhere(name, seen, cpus)]
    if not own or not cpus:
        return None
    busy = sum(seen[f"host/cpu/{cpu}/busy_ticks"] for cpu in cpus)
    if seen.get("host/irq_time_separate", 1.0):
        busy -= sum(seen.get(f"host/cpu/{cpu}/{kind}_ticks", 0) for cpu in cpus for kind in ("irq", "softirq"))
    return max(0.0, busy - sum(own)) * as_share


def _elsewhere(name: str, seen: Seen, cpus: Mapping[int, CpuShare]) -> bool:
    """Whether these are the ticks of a relay on a CPU that was not watched.

    It polls there all the time, which would hide as much work of others on the CPUs that were. Of
    processes that are not bound to one CPU, nothing like it is known.
    """
    if not name.startswith("host/process/relay"):
        return False
    bound = {int(cpu) for place, cpu in seen.items() if place.startswith("host/relay/") and place.endswith("/cpu")}
    return bool(bound) and bound.isdisjoint(cpus)


def dut_threads(seen: Seen, probe_occupied_ns: Mapping[int, int]) -> tuple[ThreadWitness, ...]:
    """How each thread that forwards had to wait: those that poll, or the main thread where none does.

    The engine's own probes, which take the core before and after the traffic, are taken out. A wait counts as the
    DUT's own doing as far as other threads of the DUT used that core meanwhile.
    """
    own_s = siblings_s(seen)
    return tuple(_thread(name, seen, probe_occupied_ns, own_s) for name in _forwarding(seen))


def siblings_s(seen: Seen) -> dict[int, float]:
    """By CPU, the time that threads of the DUT used there that forward no frames."""
    main = [] if "main" in _forwarding(seen) else [f"{_THREADS}main"]
    return _used_s(seen, (*_siblings(seen), *main))


def waited_shares(seen: Seen, loads: Sequence[ThreadLoad]) -> dict[str, float]:
    """By forwarding thread, the main thread among them: the share of the time for which others had its core.

    Threads of the device that forward nothing are none of these others. What was not observed is absent.
    """
    elapsed_s, own_s = seen.get("elapsed_s/threads"), _used_s(seen, _siblings(seen))
    polling = {_whole(seen, f"{_THREADS}{name}/cpu"): name for name in _threads(seen) if name != "main"}
    shares: dict[str, float] = {}
    for load in loads:
        name = "main" if load.cpu is None else polling.get(load.cpu)
        waits = _thread(name, seen, {}, own_s) if name else None
        if waits and elapsed_s and waits.run_delay_ns is not None:
            shares[load.name] = min(1.0, (waits.run_delay_ns - waits.own_delay_ns) / 1e9 / elapsed_s)
    return shares


def _siblings(seen: Seen) -> list[str]:
    return [name.removesuffix("/run_ns") for name in seen if name.startswith("host/sibling/")]


def _used_s(seen: Seen, places: Iterable[str]) -> dict[int, float]:
    """By CPU, the time that these threads used there."""
    used: dict[int, float] = {}
    for place in dict.fromkeys(places):
        cpu, run_ns = _whole(seen, f"{place}/cpu"), seen.get(f"{place}/run_ns")
        if cpu is not None and run_ns:
            used[cpu] = used.get(cpu, 0.0) + run_ns / 1e9
    return used


def _threads(seen: Seen) -> list[str]:
    """All that may forward."""
    threads = (name.removeprefix(_THREADS) for name in seen if name.startswith(_THREADS))
    return sorted({name.rpartition("/")[0] for name in threads if name.endswith("/run_delay_ns")})


def _forwarding(seen: Seen) -> list[str]:
    names = _threads(seen)
    return [name for name in names if name != "main"] or names


def _thread(name: str, seen: Seen, probe_occupied_ns: Mapping[int, int], own_s: Mapping[int, float]) -> ThreadWitness:
    core = _whole(seen, f"host/thread/{name}/cpu")
    delay_ns = _whole(seen, f"host/thread/{name}/run_delay_ns")
    own_ns = 0
    if delay_ns is not None and core is not None:
        delay_ns = max(0, delay_ns - probe_occupied_ns.get(core, 0))
        own_ns = min(delay_ns, round(own_s.get(core, 0.0) * 1e9))
    switches = _whole(seen, f"host/thread/{name}/involuntary_switches")
    return ThreadWitness(name, core, delay_ns, switches, own_ns)


def _whole(seen: Seen, name: str) -> int | None:
    value = seen.get(name)
    return None if value is None else int(value)

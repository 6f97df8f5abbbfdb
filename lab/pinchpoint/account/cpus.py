"""What a time's CPUs did: busy, stolen by the hypervisor, taken by processes outside the bench. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from pinchpoint.model import units

STOLEN = 0.01  # share of the time that the hypervisor may take from a CPU in use
FOREIGN = 0.05  # share of one CPU that processes outside the bench may take


@dataclass(frozen=True)
class CpuShare:
    """What one CPU did in the window; shares of it."""

    busy: float
    softirq: float
    stolen: float


def noise(observed: Mapping[str, float], seconds: float, ticks_per_s: float) -> str:
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
    names = ", ".join(map(str, sorted(cpus)))
    many = "CPUs" if len(cpus) > 1 else "CPU"
    return f"processes outside the bench took {units.share(foreign)} of one CPU's window on {many} {names}"


def shares(seen: Mapping[str, float], as_share: float) -> dict[int, CpuShare]:
    """Of every CPU watched; `as_share` is one tick as a share of the time."""
    numbers = {
        int(name.split("/")[2]) for name in seen if name.startswith("host/cpu/") and name.endswith("/busy_ticks")
    }

    def part(cpu: int, state: str) -> float:
        return min(1.0, seen.get(f"host/cpu/{cpu}/{state}_ticks", 0) * as_share)

    return {cpu: CpuShare(part(cpu, "busy"), part(cpu, "softirq"), part(cpu, "steal")) for cpu in sorted(numbers)}


def foreign(seen: Mapping[str, float], cpus: Mapping[int, CpuShare], as_share: float) -> float | None:
    """Busy time of the bench's CPUs that neither its processes nor, where apart, interrupts account for."""
    own = [
        ticks
        for name, ticks in seen.items()
        if name.startswith("host/process/") and name.endswith("/ticks") and not _elsewhere(name, seen, cpus)
    ]
    if not own or not cpus:
        return None
    busy = sum(seen[f"host/cpu/{cpu}/busy_ticks"] for cpu in cpus)
    if seen.get("host/irq_time_separate", 1.0):
        busy -= sum(seen.get(f"host/cpu/{cpu}/{kind}_ticks", 0) for cpu in cpus for kind in ("irq", "softirq"))
    return max(0.0, busy - sum(own)) * as_share


def _elsewhere(name: str, seen: Mapping[str, float], cpus: Mapping[int, CpuShare]) -> bool:
    """Whether these are the ticks of a relay on a CPU that was not watched.

    It polls there all the time, which would hide as much work of others on the CPUs that were. Of
    processes that are not bound to one CPU, nothing like it is known.
    """
    if not name.startswith("host/process/relay"):
        return False
    bound = {int(cpu) for place, cpu in seen.items() if place.startswith("host/relay/") and place.endswith("/cpu")}
    return bool(bound) and bound.isdisjoint(cpus)

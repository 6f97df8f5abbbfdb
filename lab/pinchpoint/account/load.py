"""How the forwarding threads of a device had to wait for their cores, from counter differences."""

from collections.abc import Mapping

from pinchpoint.model.trial import ThreadWitness

Seen = Mapping[str, float]
_THREADS = "host/thread/"  # of this machine


def dut_threads(seen: Seen, probe_occupied_ns: Mapping[int, int]) -> tuple[ThreadWitness, ...]:
    """How each thread that forwards had to wait: those that poll, or the main thread where none does.

    The engine's own probes, which take the core before and after the traffic, are taken out. A wait counts as the
    DUT's own doing as far as other threads of the DUT used that core meanwhile.
    """
    own_s = siblings_s(seen)
    return tuple(_thread(name, seen, probe_occupied_ns, own_s) for name in _forwarding(seen))


def siblings_s(seen: Seen) -> dict[int, float]:
    """By CPU, the time that threads of the DUT used there that forward no frames."""
    forwarding = _forwarding(seen)
    places = [name.removesuffix("/run_ns") for name in seen if name.startswith("host/sibling/")]
    if "main" not in forwarding:
        places.append("host/thread/main")
    used: dict[int, float] = {}
    for place in dict.fromkeys(places):
        cpu, run_ns = _whole(seen, f"{place}/cpu"), seen.get(f"{place}/run_ns")
        if cpu is not None and run_ns:
            used[cpu] = used.get(cpu, 0.0) + run_ns / 1e9
    return used


def _forwarding(seen: Seen) -> list[str]:
    threads = (name.removeprefix(_THREADS) for name in seen if name.startswith(_THREADS))
    names = sorted({name.rpartition("/")[0] for name in threads if name.endswith("/run_delay_ns")})
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

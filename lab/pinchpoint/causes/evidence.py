"""What stands beside a verdict: how loaded the threads were, which link was full, what was ruled out. Pure."""

import math
from collections.abc import Iterator, Sequence
from typing import Final

from pinchpoint.account import facts
from pinchpoint.account.links import Way
from pinchpoint.causes.overload import Overload
from pinchpoint.model import units
from pinchpoint.model.limits import SATURATED
from pinchpoint.model.trial import ThreadLoad, Trial, TrialValidity
from pinchpoint.model.units import FULL

IDLE_HOST: Final = 0.01  # of a trial: a thread that waited for its core no longer was not held up
COMPLETE: Final = 0.001  # of what was asked for: an engine that sent all but this kept up


def loads(trials: Sequence[Trial], over: Overload | None = None) -> tuple[str, ...]:
    """How busy the device's busiest thread and the engine's cores were."""
    median = _median_trial(trials)
    device = () if median is None else (_load_line(*median, over),)
    return (*device, *filter(None, [_engine_load(trials)]))


def busiest(trial: Trial, port: str = "") -> ThreadLoad | None:
    """Of the threads that poll the port, where they are known; else of all."""
    polling = [load for load in trial.threads if port in load.ports] or trial.threads
    return max(polling, key=lambda load: (load.busy_share or 0.0, load.received), default=None)


def busiest_of(trials: Sequence[Trial], port: str = "") -> ThreadLoad | None:
    """The busiest thread of the trial with the median busy share: one outlier does not speak for all."""
    median = _median_trial(trials, port)
    return median[0] if median else None


def headroom(trial: Trial) -> str:
    """How idle the device's busiest thread was; empty if it was not."""
    load = busiest(trial)
    if load is None or load.busy_share is None or load.busy_share >= SATURATED:
        return ""
    return f": {load.name} still had {units.share(1 - load.busy_share)} idle"


def full(ways: Sequence[Way]) -> Way | None:
    """The fullest of these directions of links, if it was full."""
    way = max(ways, key=lambda way: way.share, default=None)
    return way if way and way.share >= FULL else None


def wire(way: Way) -> str:
    """The sentence about a full link."""
    speed, end = f"{way.speed_bps / 1e9:g} Gbit/s", "towards" if way.is_sent else "from"
    share = units.share(way.share)
    return f"the wire, not the switch: the link of {way.port}, {speed}, is at {share} of its line rate {end} the switch"


def saturated(load: ThreadLoad | None, over: Overload | None) -> str:
    """The sentence about a thread that forwards no more, whatever is offered."""
    name = load.name if load else "the device"
    if over is None:
        return f"{name} is saturated"
    cycles = over.cycles.get(name)
    cost = f", {cycles:.0f} cycles per packet" if cycles else ""
    return f"{name} is saturated: it forwards {units.fps(over.forwarded_fps)} however much is offered{cost}"


def ruled_out(losing: Sequence[Trial], trials: Sequence[Trial]) -> Iterator[str]:
    """What did not hold the device up: the generator, another process."""
    shortfall = sum(stream.shortfall or 0 for trial in losing for stream in trial.streams)
    intended = sum(trial.intended for trial in losing)
    if intended and shortfall <= COMPLETE * intended:
        share = units.share(1 - shortfall / intended)
        yield f"generator sending: it offered {share} of what was asked for in these trials"
    stolen = [(facts.of(trial), trial.sent_duration_s) for trial in losing]
    waits = [(waited_s, traffic_s) for seen, traffic_s in stolen for waited_s in seen.waited_s.values()]
    had_core = all(waited_s <= IDLE_HOST * traffic_s for waited_s, traffic_s in waits)
    if waits and had_core and not any(seen.stolen_s for seen, _ in stolen):
        discarded = sum(trial.validity is TrialValidity.NOISY_HOST for trial in trials)
        yield (
            "another process on the switch's core, as far as the kernel can see: its threads waited at most "
            f"{units.nanoseconds(max(waits)[0] * 1e9)} for others in these trials, and no time was stolen "
            f"({units.counted(discarded, 'trial')} discarded since the engine's core stood still)"
        )


def _median_trial(trials: Sequence[Trial], port: str = "") -> tuple[ThreadLoad, Trial] | None:
    """The trial with the median busy share of its busiest thread, and that thread."""
    by_load = [(load, trial) for trial in trials if (load := busiest(trial, port)) is not None]
    by_load.sort(key=lambda pair: pair[0].busy_share or 0.0)
    return by_load[len(by_load) // 2] if by_load else None


def _load_line(load: ThreadLoad, trial: Trial, over: Overload | None) -> str:
    needed = over.busy_share(load, trial.sent_duration_s) if over else load.busy_share
    if needed is None:
        return f"this kernel does not tell how busy {load.name} was"
    cycles = over.cycles.get(load.name) if over else None
    if over and cycles:
        here = f" ({load.cycles_per_packet:.0f} here)" if load.cycles_per_packet else ""
        share = units.share(needed)
        line = f"{load.name} needed {share} of its time, at the {cycles:.0f} cycles per packet of overloads{here}"
    else:
        line, cycles = f"{load.name} was {units.share(needed)} busy", load.cycles_per_packet
        line += f" at {cycles:.0f} cycles per packet" if cycles else ""
    if cycles and load.clock_hz:
        line += f"; at {load.clock_hz / 1e9:.2f} GHz that is room for {units.fps(load.clock_hz / cycles)}"
    return line


def _engine_load(trials: Sequence[Trial]) -> str:
    """How busy each of the engine's cores was, on average; empty if none was seen."""
    by_core: dict[tuple[str, int], list[float]] = {}
    for trial in trials:
        for worker in trial.witness.workers:
            by_core.setdefault((worker.host, worker.core), []).append(worker.busy_share)
    busy = {core: units.share(math.fsum(shares) / len(shares)) for core, shares in sorted(by_core.items())}
    if len(busy) <= 1:
        return "".join(f"the engine's core was {share} busy" for share in busy.values())
    each = (
        f"{share} (core {core} on {host})" if host else f"{share} (core {core})" for (host, core), share in busy.items()
    )
    return f"the engine's cores were {', '.join(each)} busy"

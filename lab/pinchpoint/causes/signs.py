"""What losing trials show, as typed signs; what they say of a claimed offload. Pure."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median
from typing import Final, Protocol

from pinchpoint.account.facts import waited_s
from pinchpoint.account.ledger import PAUSES, nic_count, unexplained_frames
from pinchpoint.account.validity import receivers
from pinchpoint.causes.bounds import Overload
from pinchpoint.causes.evidence import by_reason, pinched, ways
from pinchpoint.causes.signature import Cause
from pinchpoint.model.causes import Sign, Signs
from pinchpoint.model.groups import total
from pinchpoint.model.hops import DROPPED_BY, DropKind, Party
from pinchpoint.model.offload import Offload, OffloadLimit, OffloadTruth
from pinchpoint.model.trial import Hop, StreamCounts, ThreadLoad, Trial

REST: Final = 0.01
"""Share of the frames: the first of every flow are software's, and counters are read at different times."""
Seen = Mapping[str, float]
"""Counter differences and gauges of one trial, or of some seconds of a watched device."""
_PORT: Final = "engine/port/"


class Diagnosed(Protocol):
    """A device as its diagnosis knows it: its own signs, and what its user can set."""

    def signs(self, seen: Seen) -> Mapping[Sign, float]:
        """What its own counters say of causes, beside drops and the threads' load."""

    def advice(self, cause: str, seen: Seen) -> Sequence[str]:
        """What its user can set against a cause of the catalogue, without what is set already."""

    def commands(self, cause: str, seen: Seen) -> Sequence[str]:
        """The same of a device that no scenario built."""


def what_to_do(cause: Cause, device: Diagnosed | None) -> tuple[str, ...]:
    """The line of a verdict that says what mends its cause, by the device's own keys; none where nothing is known."""
    advice = cause.advice(device.advice(cause.name, {}) if device else ())
    return (f"what to do: {advice}",) if advice else ()


def of_trials(
    trials: Sequence[Trial], ring: int, device: Diagnosed | None = None, over: Overload | None = None
) -> Signs:
    """The signs of trials that lost frames near the limit; `ring` is the smallest between engine and device, in frames.

    `over` is what the device does under overload: what its threads would need for these loads follows from it.
    `device` reads its own counters; None: nothing is known of them.
    """
    seen, port = defaultdict[Sign, list[float]](list), _losing_port(trials)
    for trial in trials:
        threads = _of_threads(trial.threads, port, over, trial.sent_duration_s)
        own: Mapping[Sign, float] = device.signs(trial.observed) if device else {}
        counted = (*threads, *_of_frames(trial.ledger.hops[1:-1]), *own.items(), *_of_streams(trial.streams))
        for sign, value in (*counted, *_of_engine(trial), *_of_time(trial, ring)):
            seen[sign].append(value)
    values = {sign: median(of_sign) for sign, of_sign in seen.items()}
    if over is not None:
        values[Sign.NDR_OF_MRR] = over.ndr_of_mrr
    if lost := sum(trial.lost for trial in trials):
        values[Sign.UNNAMED] = unexplained_frames(trials) / lost
    hops = [hop for trial in trials for hop in trial.ledger.hops]
    return Signs(values, _shares_of_loss(hops, lost), rule_of(trial.observed for trial in trials))


def _losing_port(trials: Sequence[Trial]) -> str:
    """The port at which the device lost most for want of time; empty where no port is known."""
    leading = next((group for group in by_reason(trials) if group.limits == Party.DUT), None)
    return leading.port if leading else ""


def rule_of(observed: Iterable[Seen]) -> str:
    """The rule that dropped most; empty where none can be named."""
    frames = Counter[str]()
    for name, count in (pair for seen in observed for pair in seen.items()):
        if name.startswith(DROPPED_BY) and count:
            frames[name.removeprefix(DROPPED_BY)] += round(count)
    return next((name for name, _ in frames.most_common(1)), "")


def of_device(
    hops: Sequence[Hop], threads: Sequence[ThreadLoad], own: Mapping[Sign, float], waited: Mapping[str, float]
) -> Signs:
    """The signs of a device that runs without an engine: what is lost is what its counters name.

    `waited`: the share of the time for which each thread waited for its core. The thread that speaks for the device is
    the one that serves the port which loses most.
    """
    drops = [drop for hop in hops for drop in hop.drops]
    dropped, by_device = sum(drop.frames for drop in drops), Counter[str]()
    for drop in drops:
        by_device[drop.port] += drop.frames if drop.limits == Party.DUT else 0
    port = next((name for name, frames in by_device.most_common(1) if frames), "")
    values = dict((*_of_threads(threads, port), *_of_frames(hops), *own.items()))
    waits = [(load.busy_share or 0.0, waited[load.name]) for load in _serving(threads, port) if load.name in waited]
    if waits:
        values[Sign.WAITED_SHARE] = max(waits)[1]
    of_main = {name for load in threads if load.cpu is None for name in load.ports}
    if of_main and dropped:
        values[Sign.LOST_ON_MAIN] = sum(by_device[name] for name in of_main) / dropped
    return Signs(values, _shares_of_loss(hops, dropped))


def _serving(loads: Sequence[ThreadLoad], port: str) -> list[ThreadLoad]:
    """The threads that serve the port; where none is known to, those that poll, or the main thread if it has more."""
    if at_port := [load for load in loads if port in load.ports]:
        return at_port
    polling, main = ([load for load in loads if (load.cpu is None) is of_main] for of_main in (False, True))
    most = sum(load.received for load in main) > sum(load.received for load in polling)
    return main if main and (most or not polling) else polling


def _shares_of_loss(hops: Sequence[Hop], lost: int) -> dict[DropKind, float]:
    """By kind of drop. Of frames that the device copies, more may be dropped than are lost: then of the dropped."""
    return by_kind(hops, max(lost, sum(drop.frames for hop in hops for drop in hop.drops)))


def by_kind(hops: Iterable[Hop], whole: int) -> dict[DropKind, float]:
    """Dropped frames by kind of drop, as shares of `whole` frames."""
    shares = defaultdict[DropKind, float](float)
    for drop in (drop for hop in hops for drop in hop.drops):
        shares[drop.kind] += drop.frames / max(1, whole)
    return dict(shares)


def _of_threads(
    loads: Sequence[ThreadLoad], port: str = "", over: Overload | None = None, traffic_s: float = 0.0
) -> Iterator[tuple[Sign, float]]:
    """Of those that poll the port, the busiest; of all of its kind the idlest: a main thread is none that polls."""
    shares = ((over.busy_share(load, traffic_s) if over else load.busy_share, load) for load in loads)
    if known := [(share, load) for share, load in shares if share is not None]:
        serving = _serving([load for _, load in known], port)
        share, busiest = max((pair for pair in known if pair[1] in serving), key=lambda pair: pair[0])
        yield Sign.BUSY, share
        yield Sign.IDLEST, min(share for share, load in known if (load.cpu is None) is (busiest.cpu is None))
        cycles = over.cycles.get(busiest.name) if over else busiest.cycles_per_packet
        if cycles is not None:
            yield Sign.CYCLES, cycles
    if received := sum(load.received for load in loads):
        if (recirculated := total(load.recirculated for load in loads)) is not None:
            yield Sign.PASSES, 1 + recirculated / received
        yield Sign.ON_MAIN_THREAD, sum(load.received for load in loads if load.cpu is None) / received
        if (missed := total(load.slow_path for load in loads)) is not None:
            yield Sign.SLOW_PATH, missed / received


def _of_streams(streams: Sequence[StreamCounts]) -> Iterator[tuple[Sign, float]]:
    answered = {(counts.rx_port, counts.tx_port) for counts in streams if counts.sent}
    alone = sum(counts.sent for counts in streams if (counts.tx_port, counts.rx_port) not in answered)
    if sent := sum(counts.sent for counts in streams):
        yield Sign.ONE_WAY, alone / sent


def _of_engine(trial: Trial) -> Iterator[tuple[Sign, float]]:
    """Of links, those of NICs alone at which frames were lost: other ports have none that could be full."""
    if engine := [worker.busy_share for worker in receivers(trial.witness.workers, trial.streams)]:
        yield Sign.ENGINE_BUSY, max(engine)
    if way := pinched(trial):
        yield Sign.LINE_SHARE, way.share
    losing = {drop.port for hop in trial.ledger.hops for drop in hop.drops if drop.kind is DropKind.RECEIVE_RING}
    if ports := losing & {way.port for way in ways(trial)}:
        yield Sign.PAUSES, float(sum(_pauses(trial.observed, f"{_PORT}{port}/") for port in ports))


def _pauses(observed: Seen, begin: str) -> int:
    own = {name.removeprefix(begin): int(value) for name, value in observed.items() if name.startswith(begin)}
    return nic_count(own, PAUSES)


def _of_frames(hops: Sequence[Hop]) -> Iterator[tuple[Sign, float]]:
    """Copies: at the place of the device that gives out most for what came in."""
    if copies := [hop.frames_out / hop.frames_in for hop in hops if hop.frames_in and hop.frames_out is not None]:
        yield Sign.COPIES, max(copies)


def _of_time(trial: Trial, ring: int) -> Iterator[tuple[Sign, float]]:
    """What happened for how long, set against the time for which the ring holds what is sent meanwhile."""
    yield Sign.RING, float(ring)
    if trial.load_fps <= 0 or trial.sent_duration_s <= 0:
        return
    ring_s = ring / trial.load_fps
    yield Sign.RING_S, ring_s
    if waits := waited_s(trial).values():
        yield Sign.WAITED, max(waits) / ring_s
        yield Sign.WAITED_SHARE, max(waits) / trial.sent_duration_s
    gap_s = max((worker.gap_max_ns for worker in trial.witness.workers), default=0) / 1e9
    if gap_s:
        yield Sign.ENGINE_GAP, gap_s / ring_s
    end = "/longest_silence_s"
    if silences := [n for name, n in trial.observed.items() if name.startswith(_PORT) and name.endswith(end)]:
        yield Sign.SILENCE, max(0.0, min(silences) - max(waits, default=0.0)) / ring_s
        if gap_s:
            yield Sign.SILENCE_OF_GAP, min(silences) / gap_s
    if (burst := trial.observed.get("engine/pacing/largest_burst")) is not None:
        yield Sign.BURST_OF_RING, burst / ring


def offload_truth(signs: Mapping[Sign, float], limits: Mapping[OffloadLimit, float]) -> OffloadTruth | None:
    """What is true of the offload: frames that entered against frames that software saw.

    None where no flow is said to be offloaded. `limits`: the share of the frames that each known limit keeps in
    software. They explain what is true and never decide it.
    """
    claimed, software = signs.get(Sign.CLAIMED), signs.get(Sign.SOFTWARE)
    if not claimed:
        return None
    if software is None:
        missing = "no counter tells which frames software handled"
        return OffloadTruth(Offload.UNKNOWN, claimed, None, missing, limits)
    hardware = min(1.0, max(0.0, 1 - software))
    some = Offload.CLAIMED if hardware <= REST else Offload.PARTIAL
    return OffloadTruth(Offload.PROVEN if hardware >= 1 - REST else some, claimed, hardware, limits=limits)

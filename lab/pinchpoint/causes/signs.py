"""What losing trials show, as typed signs. Pure."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from statistics import median

from pinchpoint.account import facts, ledger
from pinchpoint.account.links import pinched, ways
from pinchpoint.account.unexplained import unexplained_frames
from pinchpoint.account.workers import receivers
from pinchpoint.causes.diagnosed import UNKNOWN, Diagnosed
from pinchpoint.causes.losses import by_reason
from pinchpoint.causes.overload import Overload
from pinchpoint.model.causes import Sign, Signs
from pinchpoint.model.hops import DROPPED_BY, DropKind, Party
from pinchpoint.model.trial import Hop, StreamCounts, ThreadLoad, Trial


def of_trials(trials: Sequence[Trial], ring: int, device: Diagnosed = UNKNOWN, over: Overload | None = None) -> Signs:
    """The signs of trials that lost frames near the limit; `ring` is the smallest between engine and device, in frames.

    `over` is what the device does under overload: what its threads would need for these loads follows from it.
    """
    seen, port = defaultdict[Sign, list[float]](list), _losing_port(trials)
    for trial in trials:
        threads = _of_threads(trial.threads, port, over, trial.sent_duration_s)
        counted = (*threads, *_of_frames(trial.ledger.hops[1:-1]), *device.signs(trial.observed).items())
        engine = (*_of_engine(trial), *_of_links(trial))
        for sign, value in (*counted, *_of_streams(trial.streams), *engine, *_of_time(trial, ring)):
            seen[sign].append(value)
    values = {sign: median(each) for sign, each in seen.items()}
    if over is not None:
        values[Sign.NDR_OF_MRR] = over.ndr_of_mrr
    if lost := sum(trial.lost for trial in trials):
        values[Sign.UNNAMED] = unexplained_frames(trials) / lost
    hops = [hop for trial in trials for hop in trial.ledger.hops]
    return Signs(values, _shares_of_loss(hops, lost), _rule(trials))


def _losing_port(trials: Sequence[Trial]) -> str:
    """The port at which the device lost most for want of time; empty where no port is known."""
    leading = next((group for group in by_reason(trials) if group.limits == Party.DUT), None)
    return leading.port if leading else ""


def _rule(trials: Sequence[Trial]) -> str:
    frames = Counter[str]()
    for name, count in (pair for trial in trials for pair in trial.observed.items()):
        if name.startswith(DROPPED_BY) and count:
            frames[name.removeprefix(DROPPED_BY)] += round(count)
    return next((name for name, _ in frames.most_common(1)), "")


def of_device(hops: Sequence[Hop], threads: Sequence[ThreadLoad], own: Mapping[Sign, float]) -> Signs:
    """The signs of a device that runs without an engine: what is lost is what its counters name."""
    values = dict((*_of_threads(threads), *_of_frames(hops), *own.items()))
    return Signs(values, _shares_of_loss(hops, sum(drop.frames for hop in hops for drop in hop.drops)))


def _shares_of_loss(hops: Sequence[Hop], lost: int) -> dict[DropKind, float]:
    """By kind of drop. Of frames that the device copies, more may be dropped than are lost: then of the dropped."""
    drops = [drop for hop in hops for drop in hop.drops]
    whole = max(lost, sum(drop.frames for drop in drops))
    shares = defaultdict[DropKind, float](float)
    for drop in drops:
        shares[drop.kind] += drop.frames / whole if whole > 0 else 0.0
    return dict(shares)


def _of_threads(
    loads: Sequence[ThreadLoad], port: str = "", over: Overload | None = None, traffic_s: float = 0.0
) -> Iterator[tuple[Sign, float]]:
    """Of those that poll the port, the busiest; of all of them the idlest."""

    def busy(load: ThreadLoad) -> float | None:
        return over.busy_share(load, traffic_s) if over else load.busy_share

    known = [(share, load) for load in loads if (share := busy(load)) is not None]
    if known:
        polling = [pair for pair in known if port in pair[1].ports] or known
        share, busiest = max(polling, key=lambda pair: pair[0])
        yield Sign.BUSY, share
        yield Sign.IDLEST, min(share for share, _ in known)
        cycles = over.cycles.get(busiest.name) if over else busiest.cycles_per_packet
        if cycles is not None:
            yield Sign.CYCLES, cycles
    received = sum(load.received for load in loads)
    recirculated = _sum(load.recirculated for load in loads)
    if received and recirculated is not None:
        yield Sign.PASSES, 1 + recirculated / received
    if received:
        yield Sign.ON_MAIN_THREAD, sum(load.received for load in loads if load.cpu is None) / received
        if (missed := _sum(load.slow_path for load in loads)) is not None:
            yield Sign.SLOW_PATH, missed / received


def _of_streams(streams: Sequence[StreamCounts]) -> Iterator[tuple[Sign, float]]:
    ways = {(counts.rx_port, counts.tx_port) for counts in streams if counts.sent}
    if sent := sum(counts.sent for counts in streams):
        yield (
            Sign.ONE_WAY,
            sum(counts.sent for counts in streams if (counts.tx_port, counts.rx_port) not in ways) / sent,
        )


def _of_engine(trial: Trial) -> Iterator[tuple[Sign, float]]:
    engine = [worker.busy_share for worker in receivers(trial.witness.workers, trial.streams)]
    if engine:
        yield Sign.ENGINE_BUSY, max(engine)


def _of_links(trial: Trial) -> Iterator[tuple[Sign, float]]:
    """Of NICs alone, and of those at which frames were lost: other ports have no link that could be full."""
    if way := pinched(trial):
        yield Sign.LINE_SHARE, way.share
    losing = {drop.port for hop in trial.ledger.hops for drop in hop.drops if drop.kind is DropKind.RECEIVE_RING}
    if ports := losing & {way.port for way in ways(trial)}:
        yield Sign.PAUSES, float(sum(_pauses(trial.observed, f"engine/port/{port}/") for port in ports))


def _pauses(observed: Mapping[str, float], begin: str) -> int:
    own = {name[len(begin) :]: int(value) for name, value in observed.items() if name.startswith(begin)}
    return ledger.nic_counts(own).pauses_received


def _of_frames(hops: Sequence[Hop]) -> Iterator[tuple[Sign, float]]:
    """Copies: at the place of the device that gives out most for what came in."""
    copies = [copied for hop in hops if (copied := _copies(hop)) is not None]
    if copies:
        yield Sign.COPIES, max(copies)


def _copies(hop: Hop) -> float | None:
    if not hop.frames_in or hop.frames_out is None:
        return None
    return hop.frames_out / hop.frames_in


def _of_time(trial: Trial, ring: int) -> Iterator[tuple[Sign, float]]:
    """What happened for how long, set against the time for which the ring holds what is sent meanwhile."""
    yield Sign.RING, float(ring)
    if trial.load_fps <= 0 or trial.sent_duration_s <= 0:
        return
    ring_s = ring / trial.load_fps
    yield Sign.RING_S, ring_s
    waits = facts.of(trial).waited_s.values()
    if waits:
        yield Sign.WAITED, max(waits) / ring_s
        yield Sign.WAITED_SHARE, max(waits) / trial.sent_duration_s
    gap_s = max((worker.gap_max_ns for worker in trial.witness.workers), default=0) / 1e9
    if gap_s:
        yield Sign.ENGINE_GAP, gap_s / ring_s
    begin, end = "engine/port/", "/longest_silence_s"
    silences = [value for name, value in trial.observed.items() if name.startswith(begin) and name.endswith(end)]
    if silences:
        yield Sign.SILENCE, max(0.0, min(silences) - max(waits, default=0.0)) / ring_s
        if gap_s:
            yield Sign.SILENCE_OF_GAP, min(silences) / gap_s
    if (burst := trial.observed.get("engine/pacing/largest_burst")) is not None:
        yield Sign.BURST_OF_RING, burst / ring


def _sum(values: Iterator[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None

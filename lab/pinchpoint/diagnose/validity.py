"""Whether a trial may be judged: a loss that the host or the engine caused is not the DUT's.

The engine does not make up for a gap of its own core with a burst: what fell due
meanwhile is never offered (shortfall). So such a gap can cost frames only behind the
DUT, in the ring that the same core empties, and a rate is quoted by what was really
offered. A pause of the DUT's core costs frames before the DUT; a trial with one that
the rings cannot absorb is set aside also if it lost nothing, since a rule that looked
at the loss would favour lossless trials.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pinchpoint.diagnose.workers import receiving_fps, sending_fps
from pinchpoint.model import units
from pinchpoint.model.scenario import Validity
from pinchpoint.model.trial import Ledger, StreamCounts, TrialValidity, Witness, WorkerWitness

GAP_MAJORITY = 0.5  # share of the missing time that the engine's own gaps must cover to be the cause
DISTANCE_CHANGE = 2.0  # factor: near and far modes of two cores lie further apart than this


def judge(
    *,
    completed: bool,
    aborted: str | None = None,
    streams: tuple[StreamCounts, ...],
    ledger: Ledger,
    witness: Witness,
    load_fps: float,
    duration_s: float,
    ring: int,
    rules: Validity,
) -> tuple[TrialValidity, str]:
    """The trial's validity and, unless it is valid, the reason with its figures.

    `aborted` is why the engine could not go on; of a trial that is not completed, None means
    that it was told to stop. `ring` is the smallest ring between engine and DUT, in frames; `load_fps` that
    of all streams together, as intended. In order: aborted, counter mismatch, offered too few
    frames, a host so disturbed that all lost frames may be its doing.
    A loss larger than the disturbance explains is the DUT's, and so is valid.
    """
    if not completed:
        return TrialValidity.ABORTED, _ended(aborted, streams, duration_s)
    if abs(ledger.unexplained) > rules.unexplained_frames:
        return TrialValidity.COUNTER_MISMATCH, _mismatch(ledger, rules)
    shortfall = _shortfall(streams, witness, load_fps, duration_s, rules)
    if shortfall:
        return shortfall
    noise = _disturbance(streams, ledger, witness, load_fps, ring) or _distance_change(ledger, witness)
    return (TrialValidity.NOISY_HOST, noise) if noise else (TrialValidity.VALID, "")


def _ended(aborted: str | None, streams: tuple[StreamCounts, ...], duration_s: float) -> str:
    if aborted is None:
        return f"stopped after {duration_s:.2f} s"
    ports = {port for stream in streams for port in (stream.tx_port, stream.rx_port)}
    where = "port " if aborted.partition(":")[0] in ports else ""
    return f"{where}{aborted}, after {duration_s:.2f} s"


def _mismatch(ledger: Ledger, rules: Validity) -> str:
    missing = ledger.unexplained
    what = "sent more than was received or dropped" if missing > 0 else "counted more received and dropped than sent"
    return (
        f"{what}: {units.frames(abs(missing))} frames unexplained, "
        f"validity.unexplained_frames allows {units.frames(rules.unexplained_frames)}"
    )


def _shortfall(
    streams: tuple[StreamCounts, ...], witness: Witness, load_fps: float, duration_s: float, rules: Validity
) -> tuple[TrialValidity, str] | None:
    """Why too few frames were offered; None if enough were, or if the load was unpaced."""
    intended = sum(stream.intended or 0 for stream in streams)
    missing = sum(stream.shortfall or 0 for stream in streams)
    if missing <= rules.shortfall_ratio * intended:
        return None
    rates = [(worker, sending_fps(worker, witness.workers, streams, load_fps)) for worker in witness.workers]
    in_gaps = sum(worker.gap_total_ns / 1e9 * rate_fps for worker, rate_fps in rates)  # frames that fell due in them
    figures = f"offered {units.share(missing / intended)} too few of {units.frames(intended)} frames"
    if missing - in_gaps > rules.shortfall_ratio * intended and in_gaps < GAP_MAJORITY * missing:
        offered_fps = (intended - missing) / duration_s if duration_s else 0.0
        reached = f"the engine reached {units.fps(offered_fps)} of {units.fps(load_fps)}"
        return TrialValidity.GENERATOR_LIMITED, f"{figures}: {reached}"
    if missing > rules.gap_shortfall_ratio * intended:
        return TrialValidity.NOISY_HOST, f"{figures}: {_stood_still([worker for worker, rate in rates if rate])}"
    return None


def _stood_still(senders: Sequence[WorkerWitness]) -> str:
    stood = units.nanoseconds(sum(worker.gap_total_ns for worker in senders))
    return f"the engine's core{'s' * (len(senders) > 1)} stood still for {stood} in all"


def _disturbance(
    streams: tuple[StreamCounts, ...], ledger: Ledger, witness: Witness, load_fps: float, ring: int
) -> str:
    """What the host did that could have cost all of the lost frames; empty if nothing.

    A source counts only if it lasted longer than the rings absorb: a shorter one
    cannot overflow them. Run delay and steal are known only as totals.
    """
    lost = ledger.offered - ledger.received
    behind_dut = sum(drop.frames for hop in ledger.hops for drop in hop.drops if drop.limits == "engine")
    dut_side = list(_dut_side(witness, load_fps, ring))
    sources = dut_side + (list(_engine_side(streams, witness, load_fps, ring)) if behind_dut else [])
    cost_dut, cost = (sum(source.frames for source in side) for side in (dut_side, sources))
    if not sources or lost - behind_dut > cost_dut or lost > cost:
        return ""
    told = f"lost {units.frames(lost)} frames" if lost else "lost nothing, but not for certain,"
    return f"{told} during " + " and ".join(source.words for source in sources)


@dataclass(frozen=True)
class _Source:
    """A disturbance that lasted longer than the rings absorb."""

    frames: float  # that it can have cost at most
    words: str


def _dut_side(witness: Witness, load_fps: float, ring: int) -> Iterator[_Source]:
    delay_s = sum(thread.run_delay_ns or 0 for thread in witness.dut_threads) / 1e9
    if delay_s * load_fps > ring:
        names = ", ".join(thread.name for thread in witness.dut_threads if thread.run_delay_ns)
        waited = f"{units.nanoseconds(delay_s * 1e9)} in which {names} waited for a core"
        yield _Source(delay_s * load_fps, waited)
    engine_cores = {worker.core for worker in witness.workers}
    steal_s = sum(lost_s for core, lost_s in witness.steal_s.items() if core not in engine_cores)
    if steal_s * load_fps > ring:
        yield _Source(steal_s * load_fps, _stolen(steal_s))


def _engine_side(streams: tuple[StreamCounts, ...], witness: Witness, load_fps: float, ring: int) -> Iterator[_Source]:
    """Gaps of, and time stolen from, the cores that receive: each can have cost only what was to come to it."""
    rates = [(worker, receiving_fps(worker, witness.workers, streams, load_fps)) for worker in witness.workers]
    for worker, rate_fps in rates:
        if worker.gap_max_ns / 1e9 * rate_fps > ring:
            at = "" if worker.gap_max_at_s is None else f" at {worker.gap_max_at_s:.2f} s"
            longest = f"a {units.nanoseconds(worker.gap_max_ns)} gap of the engine's core {worker.core}{at}"
            yield _Source(worker.gap_total_ns / 1e9 * rate_fps, longest)
    # The engine and the lab read the same counter of a core: it counts once.
    stolen = [(witness.steal_s.get(worker.core, worker.steal_s or 0.0), rate_fps) for worker, rate_fps in rates]
    stolen = [(steal_s, rate_fps) for steal_s, rate_fps in stolen if steal_s * rate_fps > ring]
    if stolen:
        cost = sum(steal_s * rate_fps for steal_s, rate_fps in stolen)
        yield _Source(cost, _stolen(sum(steal_s for steal_s, _ in stolen)))


def _stolen(steal_s: float) -> str:
    return f"{units.nanoseconds(steal_s * 1e9)} of stolen time"


def _distance_change(ledger: Ledger, witness: Witness) -> str:
    before, after = witness.cache_line_before_ns, witness.cache_line_after_ns
    if not before or not after or max(before, after) <= DISTANCE_CHANGE * min(before, after):
        return ""
    moved = f"from {units.nanoseconds(before)} to {units.nanoseconds(after)}"
    lost = ledger.offered - ledger.received
    return f"lost {units.frames(lost)} frames while the distance of the cores changed {moved}"

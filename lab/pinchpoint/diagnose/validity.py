"""Whether a trial may be judged: a loss that the host or the engine caused is not the DUT's.

The engine does not make up for a gap of its own core with a burst: what fell due
meanwhile is never offered (shortfall). So such a gap can cost frames only behind the
DUT, in the ring that the engine empties, and a rate is quoted by what was really
offered. A pause of the DUT's core costs frames before the DUT; a trial with one that
the rings cannot absorb is set aside also if it lost nothing, since a rule that looked
at the loss would favour lossless trials.
"""

from pinchpoint.model import units
from pinchpoint.model.scenario import Validity
from pinchpoint.model.trial import Ledger, StreamCounts, TrialValidity, Witness

GAP_MAJORITY = 0.5  # share of the missing time that the engine's own gaps must cover to be the cause
DISTANCE_CHANGE = 2.0  # factor: near and far modes of two cores lie further apart than this


def judge(
    *,
    completed: bool,
    streams: tuple[StreamCounts, ...],
    ledger: Ledger,
    witness: Witness,
    load_fps: float,
    duration_s: float,
    ring: int,
    rules: Validity,
) -> tuple[TrialValidity, str]:
    """The trial's validity and, unless it is valid, the reason with its figures.

    `ring` is the smallest ring between engine and DUT, in frames; `load_fps` that
    of all streams together, as intended. In order: aborted, counter mismatch, offered too few
    frames, a host so disturbed that all lost frames may be its doing.
    A loss larger than the disturbance explains is the DUT's, and so is valid.
    """
    if not completed:
        return TrialValidity.ABORTED, f"stopped after {duration_s:.2f} s"
    if abs(ledger.unexplained) > rules.unexplained_frames:
        return TrialValidity.COUNTER_MISMATCH, _mismatch(ledger, rules)
    shortfall = _shortfall(streams, witness, load_fps, duration_s, rules)
    if shortfall:
        return shortfall
    noise = _disturbance(ledger, witness, load_fps, ring) or _distance_change(ledger, witness)
    return (TrialValidity.NOISY_HOST, noise) if noise else (TrialValidity.VALID, "")


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
    gap_s = _gap_total_s(witness)
    figures = f"offered {units.share(missing / intended)} too few of {units.frames(intended)} frames"
    own = missing - gap_s * load_fps  # fell due while the engine's core was running
    if own > rules.shortfall_ratio * intended and gap_s * load_fps < GAP_MAJORITY * missing:
        offered_fps = (intended - missing) / duration_s if duration_s else 0.0
        reached = f"the engine reached {units.fps(offered_fps)} of {units.fps(load_fps)}"
        return TrialValidity.GENERATOR_LIMITED, f"{figures}: {reached}"
    if missing > rules.gap_shortfall_ratio * intended:
        stood = units.nanoseconds(gap_s * 1e9)
        return TrialValidity.NOISY_HOST, f"{figures}: the engine's core stood still for {stood} in all"
    return None


def _disturbance(ledger: Ledger, witness: Witness, load_fps: float, ring: int) -> str:
    """What the host did that could have cost all of the lost frames; empty if nothing.

    A source counts only if it lasted longer than the rings absorb: a shorter one
    cannot overflow them. Run delay and steal are known only as totals.
    """
    lost = ledger.offered - ledger.received
    behind_dut = sum(drop.frames for hop in ledger.hops for drop in hop.drops if drop.limits == "engine")
    absorbed_s = ring / load_fps
    dut_side = [source for source in (_delay(witness), _steal(witness, False)) if source[0] > absorbed_s]
    engine_side = [source for source in (_gaps(witness), _steal(witness, True)) if source[0] > absorbed_s]
    sources = dut_side + (engine_side if behind_dut else [])
    dut_s, any_s = (sum(lasted for _, lasted, _ in side) for side in (dut_side, sources))
    if not sources or lost - behind_dut > dut_s * load_fps or lost > any_s * load_fps:
        return ""
    told = f"lost {units.frames(lost)} frames" if lost else "lost nothing, but not for certain,"
    return f"{told} during " + " and ".join(words for _, _, words in sources)


# Each source: longest known (or total, where only that is known), total, in words; seconds.
_Source = tuple[float, float, str]


def _gaps(witness: Witness) -> _Source:
    worker = max(witness.workers, key=lambda worker: worker.gap_max_ns, default=None)
    if worker is None:
        return 0.0, 0.0, ""
    at = "" if worker.gap_max_at_s is None else f" at {worker.gap_max_at_s:.2f} s"
    longest = f"a {units.nanoseconds(worker.gap_max_ns)} gap of the engine's core {worker.core}{at}"
    return worker.gap_max_ns / 1e9, _gap_total_s(witness), longest


def _delay(witness: Witness) -> _Source:
    delay_s = sum(thread.run_delay_ns or 0 for thread in witness.dut_threads) / 1e9
    names = ", ".join(thread.name for thread in witness.dut_threads if thread.run_delay_ns)
    return delay_s, delay_s, f"{units.nanoseconds(delay_s * 1e9)} in which {names} waited for a core"


def _steal(witness: Witness, engine_side: bool) -> _Source:
    """Time stolen from the engine's cores, or from the others that the bench uses."""
    engine_cores = {worker.core: worker.steal_s or 0.0 for worker in witness.workers}
    by_core = (engine_cores if engine_side else {}) | {
        core: steal_s for core, steal_s in witness.steal_s.items() if (core in engine_cores) is engine_side
    }
    steal_s = sum(by_core.values())
    return steal_s, steal_s, f"{units.nanoseconds(steal_s * 1e9)} of stolen time"


def _distance_change(ledger: Ledger, witness: Witness) -> str:
    before, after = witness.cache_line_before_ns, witness.cache_line_after_ns
    if not before or not after or max(before, after) <= DISTANCE_CHANGE * min(before, after):
        return ""
    moved = f"from {units.nanoseconds(before)} to {units.nanoseconds(after)}"
    lost = ledger.offered - ledger.received
    return f"lost {units.frames(lost)} frames while the distance of the cores changed {moved}"


def _gap_total_s(witness: Witness) -> float:
    return sum(worker.gap_total_ns for worker in witness.workers) / 1e9

"""Whether a trial may be judged: what the host or the engine disturbed says nothing about the DUT.

The rule looks at the disturbance and at the load, never at the loss. A rule that asked
whether the disturbance explains the loss would keep what lost much and set aside what
lost nothing (or the other way round), and so move the load at which half of the trials lose.
Every disturbance longer than the rings absorb sets its trial aside, whatever came of it;
diagnose/rejection.py checks over the trials of a search that it did no more than that.

The engine does not make up for a gap of its own core with a burst: what fell due
meanwhile is never offered (shortfall), and rates are quoted by what was really offered. So a gap of a
core that sends costs no frame. One of a core that receives costs what other cores
send meanwhile, beyond the ring that it empties.
"""

import math
from collections.abc import Iterator, Sequence
from enum import StrEnum

from pinchpoint.diagnose.workers import from_others_fps, sending_fps
from pinchpoint.model import units
from pinchpoint.model.scenario import Validity
from pinchpoint.model.trial import Ledger, StreamCounts, Trial, TrialValidity, Witness, WorkerWitness

GAP_MAJORITY = 0.5  # share of the missing time that the engine's own gaps must cover to be the cause
DISTANCE_CHANGE = 2.0  # factor: near and far modes of two cores lie further apart than this


class Cause(StrEnum):
    """What disturbed a trial: words that its reason contains, by which rejected trials are counted."""

    STOOD_STILL = "stood still"
    RECEIVER_GAP = "gap of the engine's core"
    WAITED = "waited for a core"
    STOLEN = "of stolen time"
    MOVED = "the distance of the cores changed"
    OTHER_MODE = "those of this search"


def cause(trial: Trial) -> str:
    """Why a trial was set aside, in words that many share; the validity itself where that says it."""
    if trial.validity is not TrialValidity.NOISY_HOST:
        return trial.validity.value.replace("_", " ")
    return next((_CAUSES[cause] for cause in Cause if cause in trial.reason), "noisy host")


_CAUSES = {
    Cause.STOOD_STILL: "the engine's core stood still",
    Cause.RECEIVER_GAP: "the engine's core stood still while others sent",
    Cause.WAITED: "the switch's thread waited for its core",
    Cause.STOLEN: "time was stolen from the switch's core",
    Cause.MOVED: "the distance of the cores changed",
    Cause.OTHER_MODE: "the cores were in another mode",
}


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
    frames, a host that disturbed the DUT or the receiver for longer than the rings absorb.
    """
    if not completed:
        return TrialValidity.ABORTED, _ended(aborted, streams, duration_s)
    if abs(ledger.unexplained) > rules.unexplained_frames:
        return TrialValidity.COUNTER_MISMATCH, _mismatch(ledger, rules)
    if short := _shortfall(streams, witness, load_fps, duration_s, rules):
        return short
    noise = [*_disturbances(streams, witness, load_fps, ring), *_distance_change(witness)]
    if not noise:
        return TrialValidity.VALID, ""
    lost = ledger.offered - ledger.received
    told = f"lost {units.frames(lost)} frames" if lost else "lost nothing, but not for certain,"
    return TrialValidity.NOISY_HOST, f"{told} during " + " and ".join(noise)


_TOLD = "stopped after"


def told_to_stop(trial: Trial) -> bool:
    """Whether a trial was aborted because somebody wanted it, and not because it could not go on."""
    return trial.validity is TrialValidity.ABORTED and trial.reason.startswith(_TOLD)


def _ended(aborted: str | None, streams: tuple[StreamCounts, ...], duration_s: float) -> str:
    if aborted is None:
        return f"{_TOLD} {duration_s:.2f} s"
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


def frames_in_gaps(streams: Sequence[StreamCounts], workers: Sequence[WorkerWitness], load_fps: float) -> float:
    """How many frames fell due while the core that was to send them stood still."""
    return sum(worker.gap_total_ns / 1e9 * sending_fps(worker, workers, streams, load_fps) for worker in workers)


def _shortfall(
    streams: tuple[StreamCounts, ...], witness: Witness, load_fps: float, duration_s: float, rules: Validity
) -> tuple[TrialValidity, str] | None:
    """Why too few frames were offered; None if enough were, or if the load was unpaced."""
    intended = sum(stream.intended or 0 for stream in streams)
    missing = sum(stream.shortfall or 0 for stream in streams)
    if missing <= rules.shortfall_ratio * intended:
        return None
    in_gaps = frames_in_gaps(streams, witness.workers, load_fps)
    figures = f"offered {units.share(missing / intended)} too few of {units.frames(intended)} frames"
    if missing - in_gaps > rules.shortfall_ratio * intended and in_gaps < GAP_MAJORITY * missing:
        offered_fps = (intended - missing) / duration_s if duration_s else 0.0
        reached = f"the engine reached {units.fps(offered_fps)} of {units.fps(load_fps)}"
        return TrialValidity.GENERATOR_LIMITED, f"{figures}: {reached}"
    if missing > rules.gap_shortfall_ratio * intended:
        return TrialValidity.NOISY_HOST, f"{figures}: {_stood_still(streams, witness)}"
    return None


def _stood_still(streams: Sequence[StreamCounts], witness: Witness) -> str:
    senders = [worker for worker in witness.workers if sending_fps(worker, witness.workers, streams, 1.0)]
    stood = units.nanoseconds(sum(worker.gap_total_ns for worker in senders))
    return f"the engine's core{'s' * (len(senders) > 1)} {Cause.STOOD_STILL} for {stood} in all"


def explained_frames(trial: Trial) -> float:
    """How many lost frames the disturbances of a trial can have cost at most; infinite if the cores moved meanwhile."""
    witness = trial.witness
    if next(_distance_change(witness), ""):
        return math.inf
    at_dut = (_waited_s(witness) + _stolen_s(witness)) * trial.load_fps
    rates = [
        (worker, from_others_fps(worker, witness.workers, trial.streams, trial.load_fps)) for worker in witness.workers
    ]
    return at_dut + sum(worker.gap_total_ns / 1e9 * rate_fps for worker, rate_fps in rates)


def _waited_s(witness: Witness) -> float:
    return sum(thread.run_delay_ns or 0 for thread in witness.dut_threads) / 1e9


def _stolen_s(witness: Witness) -> float:
    """From cores that are not the engine's: time stolen from one of those is a gap of its loop."""
    engine_cores = {worker.core for worker in witness.workers}
    return sum(lost_s for core, lost_s in witness.steal_s.items() if core not in engine_cores)


def _disturbances(streams: tuple[StreamCounts, ...], witness: Witness, load_fps: float, ring: int) -> Iterator[str]:
    """What the host did that may have cost frames: whatever lasted longer than the rings absorb.

    Run delay and steal are known only as totals.
    """
    waited_s, stolen_s = _waited_s(witness), _stolen_s(witness)
    if waited_s * load_fps > ring:
        names = ", ".join(thread.name for thread in witness.dut_threads if thread.run_delay_ns)
        yield f"{units.nanoseconds(waited_s * 1e9)} in which {names} {Cause.WAITED}"
    if stolen_s * load_fps > ring:
        yield f"{units.nanoseconds(stolen_s * 1e9)} {Cause.STOLEN}"
    for worker in witness.workers:
        if worker.gap_max_ns / 1e9 * from_others_fps(worker, witness.workers, streams, load_fps) > ring:
            at = "" if worker.gap_max_at_s is None else f" at {worker.gap_max_at_s:.2f} s"
            yield f"a {units.nanoseconds(worker.gap_max_ns)} {Cause.RECEIVER_GAP} {worker.core}{at}"


def _distance_change(witness: Witness) -> Iterator[str]:
    before, after = witness.cache_line_before_ns, witness.cache_line_after_ns
    if before and after and max(before, after) > DISTANCE_CHANGE * min(before, after):
        moved = f"from {units.nanoseconds(before)} to {units.nanoseconds(after)}"
        yield f"the time in which {Cause.MOVED} {moved}"

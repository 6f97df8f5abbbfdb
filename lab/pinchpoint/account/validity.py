"""Whether the account of a trial can be used.

A trial is discarded only where it says nothing about the device under test:

* the generator did not offer the load, or the host took the core that was to send it;
* a core of the engine that receives stood still for longer than its rings absorb, so
  frames may have been lost at the engine's side of the wire;
* counters saw more frames than were sent;
* several engines that send did not send together, or one that sends back lost frames;
* the trial ended before its time: the device died, a link went down, or it was stopped.

Everything else that the host does to the device (a thread that waits for its core,
stolen time, cores that move apart, a neighbour on the core) is part of what the bench
carries at that time. It is a fact of the trial (account/facts.py), and the trial counts.
Frames that no counter names are lost frames: the trial counts, and their share is
published (account/unexplained.py).

The engine does not make up for a gap of its own core with a burst: what fell due
meanwhile is never offered (shortfall), and rates are offered rates. So a gap of a
core that sends costs no frame. One of a core that receives costs what other cores
send meanwhile, beyond the ring that it empties.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pinchpoint.account.workers import from_others_fps, sending_fps
from pinchpoint.engine.instrument import Noise
from pinchpoint.model import units
from pinchpoint.model.scenario import Validity
from pinchpoint.model.trial import Cause, Ledger, StreamCounts, TrialValidity, Witness, WorkerWitness

GAP_MAJORITY = 0.5  # share of the missing time that the engine's own gaps must cover to be the cause


@dataclass(frozen=True)
class Judgement:
    """Whether a trial's account can be used; `cause` for the program, `reason` for people."""

    validity: TrialValidity
    cause: Cause | None = None
    reason: str = ""


VALID = Judgement(TrialValidity.VALID)


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
    noise: Noise | None = None,
) -> Judgement:
    """The first that applies: ended early, too little offered, a contradiction, a receiver that stood still, noise.

    `aborted` is why the engine could not continue; of a trial that is not completed, None means
    that it was stopped on request. `ring` is the smallest ring between engine and DUT, in frames;
    `load_fps` that of all streams together, as intended.
    """
    if not completed:
        return _ended(aborted, duration_s)
    return (
        _shortfall(streams, witness, load_fps, duration_s, rules)
        or _contradiction(streams, ledger, rules)
        or _receiver_stood_still(streams, ledger, witness, load_fps, ring)
        or (Judgement(TrialValidity.NOISY_HOST, noise.cause, noise.reason) if noise else VALID)
    )


def _ended(aborted: str | None, duration_s: float) -> Judgement:
    if aborted is None:
        return Judgement(TrialValidity.ABORTED, Cause.STOPPED, f"stopped after {duration_s:.2f} s")
    return Judgement(TrialValidity.ABORTED, Cause.ENDED, f"{aborted}, after {duration_s:.2f} s")


def _contradiction(streams: Sequence[StreamCounts], ledger: Ledger, rules: Validity) -> Judgement | None:
    """More frames came back or were dropped than were sent; None if not."""
    for stream in streams:
        if (stream.received or 0) > stream.sent:
            numbers = f"{units.frames(stream.received or 0)} frames received of {units.frames(stream.sent)} sent"
            reason = f"the engine's account contradicts itself: stream {stream.stream}: {numbers}"
            return Judgement(TrialValidity.COUNTER_MISMATCH, Cause.CONTRADICTION, reason)
    excess = -ledger.unexplained
    if excess <= rules.unexplained_ratio * ledger.offered:
        return None
    lost = ledger.offered - ledger.received
    reason = (
        f"the account contradicts itself: {units.frames(ledger.dropped)} frames dropped by name, "
        f"{units.frames(lost)} lost; the difference may be {units.share(rules.unexplained_ratio)} of the offered "
        "frames (validity.unexplained_ratio)"
    )
    return Judgement(TrialValidity.COUNTER_MISMATCH, Cause.CONTRADICTION, reason)


def frames_in_gaps(streams: Sequence[StreamCounts], workers: Sequence[WorkerWitness], load_fps: float) -> float:
    """How many frames fell due while the core that was to send them stood still."""
    return math.fsum(worker.gap_total_ns / 1e9 * sending_fps(worker, workers, streams, load_fps) for worker in workers)


def _shortfall(
    streams: tuple[StreamCounts, ...], witness: Witness, load_fps: float, duration_s: float, rules: Validity
) -> Judgement | None:
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
        return Judgement(TrialValidity.GENERATOR_LIMITED, Cause.GENERATOR, f"{figures}: {reached}")
    if missing > rules.gap_shortfall_ratio * intended:
        reason = f"{figures}: {_stood_still(streams, witness)}"
        return Judgement(TrialValidity.NOISY_HOST, Cause.SENDER_STOOD_STILL, reason)
    return None


def _stood_still(streams: Sequence[StreamCounts], witness: Witness) -> str:
    senders = [worker for worker in witness.workers if sending_fps(worker, witness.workers, streams, 1.0)]
    stood = units.nanoseconds(sum(worker.gap_total_ns for worker in senders))
    text = f"the engine's core{'s' * (len(senders) > 1)} stood still for {stood} in all"
    return text + _siblings(senders, witness)


def _receiver_stood_still(
    streams: Sequence[StreamCounts], ledger: Ledger, witness: Witness, load_fps: float, ring: int
) -> Judgement | None:
    """A core of the engine did not receive for longer than its ring absorbs; None if none did.

    Judged by the gap alone, whatever was lost: a rule that looked at the loss would favour one side.
    """
    still = [
        worker
        for worker in witness.workers
        if worker.gap_max_ns / 1e9 * from_others_fps(worker, witness.workers, streams, load_fps) > ring
    ]
    if not still:
        return None
    lost = units.frames(ledger.offered - ledger.received)
    gaps = " and ".join(_gap(worker) + _siblings([worker], witness) for worker in still)
    reason = f"{gaps}, longer than its rings absorb: the engine may have missed frames ({lost} lost)"
    stood_s = math.fsum(worker.gap_total_ns / 1e9 for worker in still)
    is_taken = _taken_s(still, witness) >= GAP_MAJORITY * stood_s
    cause = Cause.RECEIVER_TAKEN if is_taken else Cause.RECEIVER_STOOD_STILL
    return Judgement(TrialValidity.NOISY_HOST, cause, reason)


def _gap(worker: WorkerWitness) -> str:
    at = "" if worker.gap_max_at_s is None else f" at {worker.gap_max_at_s:.2f} s"
    where = f" on {worker.host}" if worker.host else ""
    return f"the engine's core {worker.core}{where} stood still for {units.nanoseconds(worker.gap_max_ns)}{at}"


def _taken_s(workers: Sequence[WorkerWitness], witness: Witness) -> float:
    """How long the device's own threads had the cores of these workers."""
    return math.fsum(witness.siblings_s.get(core, 0.0) for core in {worker.core for worker in workers})


def _siblings(workers: Sequence[WorkerWitness], witness: Witness) -> str:
    """The same in words; empty if they did not."""
    used_s = _taken_s(workers, witness)
    if not used_s:
        return ""
    return f" (other threads of the switch ran there for {units.nanoseconds(used_s * 1e9)} of the trial)"

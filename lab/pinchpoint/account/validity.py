"""Whether the account of a trial can be used, and which trials of a search were discarded. Pure.

The only judge: of frames, of loads of connections, of windows of sockets. A trial is
discarded only where it says nothing about the device under test:

* the generator did not offer the load, or the host took the core that was to send it;
* a core of the engine that receives stood still for longer than its rings absorb, so
  frames may have been lost at the engine's side of the wire;
* counters contradict each other, e.g. saw more frames than were sent;
* several engines that send did not send together, or one that sends back lost frames;
* the trial ended before its time: the device died, a link went down, or it was stopped.

Everything else that the host does to the device (a thread that waits for its core,
stolen time, cores that move apart, a neighbour on the core) is part of what the bench
carries at that time. It is a fact of the trial (account/facts.py), and the trial counts.
Frames that no counter names are lost frames: the trial counts, and their share is
published (account/ledger.py).

The engine does not make up for a gap of its own core with a burst: what fell due
meanwhile is never offered (shortfall), and rates are offered rates. So a gap of a
core that sends costs no frame. One of a core that receives costs what other cores
send meanwhile, beyond the ring that it empties.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from pinchpoint.account.connections import contradiction
from pinchpoint.account.cpus import STOLEN, taken
from pinchpoint.account.overload import is_overload, paused
from pinchpoint.account.windows import Window, together
from pinchpoint.engine.connections import RING, Account
from pinchpoint.engine.instrument import EngineResult
from pinchpoint.engine.sockets import SocketsResult
from pinchpoint.engine.streams import Step
from pinchpoint.model import units
from pinchpoint.model.measurement import Metric
from pinchpoint.model.scenario import Validity
from pinchpoint.model.trial import Cause, Ledger, StreamCounts, ThreadLoad, Trial, TrialValidity, Witness, WorkerWitness
from pinchpoint.model.warning import ResultWarning, Warn

GAP_MAJORITY = 0.5  # share of the missing time that the engine's own gaps must cover to be the cause
CAUGHT_UP = 0.05  # share of a burst that the DUT may have forwarded while the engine stood still within it
FIRST_TURN_S = 1e-6  # a pause that begins before is the first turn of the engine's loop
MANY = 0.25  # share of discarded trials from which there is a warning
NEAR_RATE = 0.1  # relative distance of a load from a rate
ENGINE_FULL = 0.7  # of its time for connections: what it does to frames it takes from the rest
PUSHED = 0.01  # refused sends to a connection that was not opened: each may have been of a whole burst
TOGETHER = 0.98  # of a window that all pairs must share, or their sum is of different loads
Streams = Sequence[StreamCounts]
Workers = Sequence[WorkerWitness]


@dataclass(frozen=True)
class Judgement:
    """Whether a trial's account can be used; `cause` for the program, `reason` for people."""

    validity: TrialValidity
    cause: Cause | None = None
    reason: str = ""


VALID = Judgement(TrialValidity.VALID)


def judge(
    result: EngineResult,
    ledger: Ledger,
    witness: Witness,
    load_fps: float,
    ring: int,
    rules: Validity,
    *,
    died: str = "",
) -> Judgement:
    """The first that applies: ended early, too little offered, a contradiction, a receiver that stood still, noise.

    `ring` is the smallest ring between engine and DUT, in frames; `load_fps` that of all streams together, as intended;
    `died` how the device did before the end, which applies before all others.
    """
    judged = _of_frames(result, ledger, witness, load_fps, ring, rules)
    if not died:
        return judged
    # What the engine saw of it, if it saw something, and what the switch's silence says.
    reason = died if result.reason is None else f"{judged.reason}; {died}"
    return Judgement(TrialValidity.ABORTED, Cause.DEVICE_DIED, reason)


def _of_frames(
    result: EngineResult, ledger: Ledger, witness: Witness, load_fps: float, ring: int, rules: Validity
) -> Judgement:
    lasted, noise = f"after {result.sent_duration_s:.2f} s", result.noise
    if not result.completed:
        cause, why = (Cause.STOPPED, "stopped") if result.reason is None else (Cause.ENDED, f"{result.reason},")
        return Judgement(TrialValidity.ABORTED, cause, f"{why} {lasted}")
    return (
        _shortfall(result, witness, load_fps, rules)
        or _contradiction(result.streams, ledger, rules)
        or _receiver_stood_still(result.streams, ledger, witness, load_fps, ring)
        or (Judgement(TrialValidity.NOISY_HOST, noise.cause, noise.reason) if noise else VALID)
    )


def _contradiction(streams: Streams, ledger: Ledger, rules: Validity) -> Judgement | None:
    """More frames came back or were dropped than were sent; None if not."""
    for stream in streams:
        if (stream.received or 0) > stream.sent:
            numbers = f"{units.frames(stream.received or 0)} frames received of {units.frames(stream.sent)} sent"
            reason = f"the engine's account contradicts itself: stream {stream.stream}: {numbers}"
            return Judgement(TrialValidity.COUNTER_MISMATCH, Cause.CONTRADICTION, reason)
    if -ledger.unexplained <= rules.unexplained_ratio * ledger.offered:
        return None
    reason = (
        f"the account contradicts itself: {units.frames(ledger.dropped)} frames dropped by name, "
        f"{units.frames(ledger.offered - ledger.received)} lost; the difference may be "
        f"{units.share(rules.unexplained_ratio)} of the offered frames (validity.unexplained_ratio)"
    )
    return Judgement(TrialValidity.COUNTER_MISMATCH, Cause.CONTRADICTION, reason)


def frames_in_gaps(streams: Streams, workers: Workers, load_fps: float) -> float:
    """How many frames fell due while the core that was to send them stood still."""
    return math.fsum(worker.gap_total_ns / 1e9 * sending_fps(worker, workers, streams, load_fps) for worker in workers)


def _shortfall(result: EngineResult, witness: Witness, load_fps: float, rules: Validity) -> Judgement | None:
    """Why too few frames were offered; None if enough were, or if the load was unpaced."""
    streams, duration_s = result.streams, result.sent_duration_s
    intended = sum(stream.intended or 0 for stream in streams)
    missing = sum(stream.shortfall or 0 for stream in streams)
    if missing <= rules.shortfall_ratio * intended:
        return None
    in_gaps = frames_in_gaps(streams, witness.workers, load_fps)
    figures = f"offered {units.share(missing / intended)} too few of {units.frames(intended)} frames"
    if missing - in_gaps > rules.shortfall_ratio * intended and in_gaps < GAP_MAJORITY * missing:
        offered_fps = (intended - missing) / duration_s if duration_s else 0.0
        wanted_fps = intended / duration_s if duration_s else load_fps  # of a load that changes, its mean
        reached = f"the engine reached {units.fps(offered_fps)} of {units.fps(wanted_fps)}"
        return Judgement(TrialValidity.GENERATOR_LIMITED, Cause.GENERATOR, f"{figures}: {reached}")
    if missing <= rules.gap_shortfall_ratio * intended:
        return None
    senders = [worker for worker in witness.workers if sending_fps(worker, witness.workers, streams, 1.0)]
    stood = units.nanoseconds(sum(worker.gap_total_ns for worker in senders))
    still = f"the engine's core{'s' * (len(senders) > 1)} stood still for {stood} in all{_siblings(senders, witness)}"
    return Judgement(TrialValidity.NOISY_HOST, Cause.SENDER_STOOD_STILL, f"{figures}: {still}")


def _receiver_stood_still(
    streams: Streams, ledger: Ledger, witness: Witness, load_fps: float, ring: int
) -> Judgement | None:
    """A core of the engine did not receive for longer than its ring absorbs; None if none did.

    Judged by the gap alone, whatever was lost: a rule that looked at the loss would favour one side.
    """
    from_others = ((worker, from_others_fps(worker, witness.workers, streams, load_fps)) for worker in witness.workers)
    still = [worker for worker, others_fps in from_others if worker.gap_max_ns / 1e9 * others_fps > ring]
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
    return f"the engine's {worker.where} stood still for {units.nanoseconds(worker.gap_max_ns)}{at}"


def _taken_s(workers: Workers, witness: Witness) -> float:
    """How long the device's own threads had the cores of these workers."""
    cores = {worker.core for worker in workers if not worker.host}  # one elsewhere has the same number
    return math.fsum(witness.siblings_s.get(core, 0.0) for core in cores)


def _siblings(workers: Workers, witness: Witness) -> str:
    """The same in words; empty if they did not."""
    used_s = _taken_s(workers, witness)
    ran = f" (other threads of the switch ran there for {units.nanoseconds(used_s * 1e9)} of the trial)"
    return ran if used_s else ""


def sending_fps(worker: WorkerWitness, workers: Workers, streams: Streams, load_fps: float) -> float:
    """The part of `load_fps`, that of all streams together, that `worker` was to send.

    A core's gap costs no other core's frames. A port that several workers drive is divided among them evenly, as the
    engine does it.
    """
    return load_fps * _mean(streams, lambda stream: _part(worker, workers, stream.tx_port))


def from_others_fps(worker: WorkerWitness, workers: Workers, streams: Streams, load_fps: float) -> float:
    """The part of `load_fps` that still arrives at `worker` while it stands still: what others send."""

    def from_others(stream: StreamCounts) -> float:
        return _part(worker, workers, stream.rx_port) * (1 - _part(worker, workers, stream.tx_port))

    return load_fps * _mean(streams, from_others)


@dataclass(frozen=True)
class Seen:
    """What was read of one load."""

    account: Account
    observed: Mapping[str, float]  # counter differences and gauges
    threads: Sequence[ThreadLoad]
    traffic_s: float  # for which connections were opened and held

    @property
    def failed(self) -> int:
        """Connections that were not completed, or not opened in time."""
        client = self.account.client
        return client.opened - client.completed + client.shortfall if client else 0

    @property
    def busy_share(self) -> float:
        """Of that time, in which the engine's core moved frames; what it did later counts as well."""
        return min(1.0, self.account.busy_share * self.account.elapsed_s / self.traffic_s) if self.traffic_s else 0.0

    @property
    def is_generator_full(self) -> bool:
        """Whether the engine's core had hardly time for more."""
        return self.busy_share >= ENGINE_FULL


@dataclass(frozen=True, kw_only=True)
class LoadJudgement(Judgement):
    """Whether the account of a load of connections can be used."""

    due: int  # connections that it was to bear: those that the device did not let in are among them


def judge_load(seen: Seen, rules: Validity, changed: str = "") -> LoadJudgement:
    """Whether a load's account can be used. Raises EngineError where there is none.

    Connections that were not opened in time are the device's failures where it did not take their SYNs, the generator's
    where its core was busy, and else nobody's: the host gave the core to others. `changed`: of the device, meanwhile.
    """
    judged, counted = _of_load(seen, rules), by_account(seen.account, changed)
    if counted is VALID:
        return judged
    return replace(judged, validity=counted.validity, cause=counted.cause, reason=counted.reason)


def _of_load(seen: Seen, rules: Validity) -> LoadJudgement:
    client = seen.account.of_client()
    opened, missing = client.opened, client.shortfall
    due = opened + missing
    if pushed_back(seen.account):
        return LoadJudgement(TrialValidity.VALID, due=due)
    busy = f"its core was {units.share(seen.busy_share)} busy"
    figures = f"{missing:,} of {due:,} connections were not opened in time: {busy}"
    if missing > rules.shortfall_ratio * due and seen.is_generator_full:
        return LoadJudgement(TrialValidity.GENERATOR_LIMITED, Cause.GENERATOR, figures, due=opened)
    if missing > rules.gap_shortfall_ratio * due:
        return LoadJudgement(TrialValidity.NOISY_HOST, reason=f"{figures}, and others had it", due=opened)
    missed = seen.account.missed
    if missed and opened > client.completed:
        words = f"the engine's rings of {RING:,} frames had no place for {missed:,}: {busy}"
        if seen.is_generator_full:
            return LoadJudgement(TrialValidity.GENERATOR_LIMITED, Cause.GENERATOR, words, due=opened)
        return LoadJudgement(TrialValidity.NOISY_HOST, reason=words, due=opened)
    return LoadJudgement(TrialValidity.VALID, due=opened)


def pushed_back(account: Account) -> bool:
    """Whether connections were not opened since what is behind the client's port did not take their SYNs."""
    client = account.client
    cuts = sum(port.not_taken for port in account.ports[:1])
    return client is not None and client.shortfall > 0 and cuts >= PUSHED * client.shortfall


def judge_window(window: Window, died: str = "") -> Judgement:
    """Whether a window of sockets may be judged as the bench's own doing; `died`: how the device did meanwhile."""
    judged = _of_window(window)
    if not died:
        return judged
    return Judgement(TrialValidity.ABORTED, Cause.DEVICE_DIED, f"{judged.reason}; {died}" if judged.reason else died)


def _of_window(window: Window) -> Judgement:
    if window.without_port:
        hint = next((result.hint for result in window.results if result.hint), "")
        reason = f"{window.without_port:,} transactions found no source port: {hint}"
        return Judgement(TrialValidity.GENERATOR_LIMITED, Cause.GENERATOR, reason)
    broken = [result for result in window.results if result.status != "completed" or not result.runs]
    if broken:
        # Where one was aborted, the others were stopped for its sake.
        return _ended(min(broken, key=lambda result: result.status != "aborted"))
    return by_host(next(_noise(window)))


def _ended(result: SocketsResult) -> Judgement:
    after = f" after {result.runs[0].duration_s:.2f} s" if result.runs else " before its window"
    if result.status == "stopped":
        return Judgement(TrialValidity.ABORTED, Cause.STOPPED, f"stopped{after}")
    reason = f"{result.reason or 'ended'}{after}" + (f"; {result.hint}" if result.hint else "")
    return Judgement(TrialValidity.ABORTED, Cause.ENDED, reason)


def _noise(window: Window) -> Iterator[str]:
    """What the host did to the window."""
    if window.down:
        told = ", ".join(f"of {name} for {units.nanoseconds(seconds * 1e9)}" for name, seconds in window.down.items())
        yield f"the relay had no link at the port {told}"
    shared = together(window.results)
    if shared is not None and shared < TOGETHER:
        yield f"the {len(window.results)} pairs ran together for only {units.share(shared)} of the window"
    for thread in window.threads:
        if thread.host and thread.stolen > STOLEN:  # as its engine saw it: CPUs of the switch's machine are watched
            yield f"{units.share(thread.stolen)} of the window were stolen from CPU {thread.cpu} of {thread.host}"
    yield taken(window.cpus, window.foreign)


def by_host(noise: str) -> Judgement:
    """Of what the host disturbed in these words; empty: in nothing."""
    return Judgement(TrialValidity.NOISY_HOST, reason=noise) if noise else VALID


def by_account(account: Account, changed: str = "") -> Judgement:
    """Of a load: the device was `changed` meanwhile, in these words (empty: it was not), or its counts contradict."""
    if changed:
        return Judgement(TrialValidity.CHANGED, reason=changed)
    wrong = contradiction(account)
    return Judgement(TrialValidity.COUNTER_MISMATCH, Cause.CONTRADICTION, wrong) if wrong else VALID


def receivers(workers: Workers, streams: Streams) -> list[WorkerWitness]:
    """Those with a port to which some stream was to come back."""
    return [worker for worker in workers if any(_drives(worker, stream.rx_port) for stream in streams)]


def _mean(streams: Streams, share: Callable[[StreamCounts], float]) -> float:
    """Of a share of every stream, weighted with its part of the load."""
    weights = [float(stream.offered if stream.intended is None else stream.intended) for stream in streams]
    weights = weights if any(weights) else [1.0 for _ in streams]
    shares = math.fsum(weight * share(stream) for stream, weight in zip(streams, weights, strict=True))
    return shares / math.fsum(weights) if weights else 0.0


def _part(worker: WorkerWitness, workers: Workers, port: str | None) -> float:
    """Of the frames at `port` that are the worker's."""
    return 1 / sum(_drives(other, port) for other in workers) if _drives(worker, port) else 0.0


def _drives(worker: WorkerWitness, port: str | None) -> bool:
    return port is not None and (not worker.ports or port in worker.ports)


def from_first_frame(trial: Trial, *, paced: bool) -> Trial:
    """The burst, timed from its first frames; discarded if the engine stood still too long after them.

    Frames leave at the end of a turn of the engine's loop, and its first turn, through cold caches, takes as long
    as several others: before it ends there is no burst. In a later pause the DUT catches up, at most with what was
    sent before it: what such a burst shows may be longer by as much than the truth. That is judged by the pauses
    alone, whatever was lost, so that discarding favours neither answer.
    """
    length_s = trial.sent_duration_s
    gaps = [(at_s, ns / 1e9) for worker in trial.witness.workers for at_s, ns in worker.gaps_longest if at_s < length_s]
    before_s = max((gap_s for at_s, gap_s in gaps if at_s < FIRST_TURN_S), default=0.0)
    if before_s < length_s:
        trial = replace(trial, sent_duration_s=length_s - before_s)
        if not paced:  # nobody intended that load: it is as high as it is
            trial = replace(trial, load_fps=trial.intended / trial.sent_duration_s)
    if trial.validity is not TrialValidity.VALID:
        return trial
    later = [(at_s - before_s, gap_s) for at_s, gap_s in gaps if at_s >= FIRST_TURN_S]
    caught_up = math.fsum(max(0.0, min(at_s, gap_s)) * trial.offered_fps for at_s, gap_s in later)
    if caught_up <= CAUGHT_UP * trial.offered:
        return trial
    stood = units.seconds(math.fsum(gap_s for _, gap_s in later))
    reason = f"the engine's core stood still for {stood} within the {units.seconds(length_s)} of the burst"
    return replace(trial, validity=TrialValidity.NOISY_HOST, cause=Cause.BURST_INTERRUPTED, reason=reason)


def after_step(trial: Trial, step: Step, throughput_fps: float, ring: int) -> Trial:
    """A trial whose load fell: valid where it was an overload all the same, discarded where the engine paused after it.

    A generator that exceeded the throughput has overloaded, though it fell short of the load.
    """
    if trial.validity is TrialValidity.GENERATOR_LIMITED and is_overload(trial, step, throughput_fps):
        trial = replace(trial, validity=TrialValidity.VALID, cause=None, reason="")
    noise = paused(trial, step, ring)
    if not noise or trial.validity is not TrialValidity.VALID:
        return trial
    return replace(trial, validity=TrialValidity.NOISY_HOST, cause=Cause.RECEIVER_STOOD_STILL, reason=noise)


def discarded(trials: Sequence[Trial]) -> tuple[tuple[Metric, ...], ResultWarning | None]:
    """The share of a search's trials that were discarded, with its causes, and a warning if many were; none of none."""
    if not trials:
        return (), None
    invalid = [trial for trial in trials if trial.validity is not TrialValidity.VALID]
    # In words that many trials share; the validity where the cause was not stored.
    causes = ((trial.cause or trial.validity).words for trial in invalid)
    told = ", ".join(f"{count} {words}" for words, count in Counter(causes).most_common())
    share = len(invalid) / len(trials)
    many = Warn.MANY_DISCARDED.of(told, discarded=share, trials=len(trials)) if share > MANY else None
    return (Metric("trials discarded", "share", share, note=told),), many


def held_back(trials: Sequence[Trial], rate_fps: float | None, relative_width: float) -> ResultWarning | None:
    """A warning if gaps of the engine's core held back more of the load than a search distinguishes; None if not.

    It looks at the valid trials whose loads are near `rate_fps`. Between two gaps the device met the whole
    load, and rates are offered rates: they may be too low by as much as was held back.
    """
    valid = [trial for trial in trials if trial.validity is TrialValidity.VALID and rate_fps]
    near = [trial for trial in valid if abs(trial.load_fps / (rate_fps or 1.0) - 1) <= NEAR_RATE]
    held = median(1 - trial.offered / trial.intended for trial in near) if near else 0.0
    return Warn.CORE_STOOD_STILL.of(held=held) if held > relative_width else None

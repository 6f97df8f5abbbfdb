"""Traffic through the switch while something is built: what building blocks, and when a rule takes its first frame.

The engine sends two kinds of streams until it is stopped: the scenario's, at a
steady rate, and one of probes, whose five-tuples are those of sampled rules. A probe
is dropped until its rule takes it, so the number of a flow's lost probes is
the time until its first frame came through.

`Carried` is what became of the steady traffic, `Disturbance` what making did to it.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, replace

import msgspec

from pinchpoint.account import cpus
from pinchpoint.account.validity import GAP_MAJORITY, VALID, by_host
from pinchpoint.engine import protocol
from pinchpoint.engine.instrument import TrialRequest
from pinchpoint.engine.process import ProcessInstrument, Progress
from pinchpoint.engine.streams import FieldProgram, Increment, Op, StreamRequest, stream_request
from pinchpoint.engine.trials import run_message
from pinchpoint.host.interface import TICKS_PER_S
from pinchpoint.measure.frames import opened
from pinchpoint.measure.standing import Standing, engine_process
from pinchpoint.model import units
from pinchpoint.model.addresses import number as number_of
from pinchpoint.model.errors import EngineError, LinkDownError
from pinchpoint.model.measurement import Measurement
from pinchpoint.model.scenario import Range, Scenario, Stream
from pinchpoint.model.trial import TrialValidity

QUIET_S = 1.0  # the same traffic before anything is built
LOOK_S = 0.05
DRAIN_S = 0.2
SAMPLE_S = 0.1
STARTS_WITHIN_S = 30.0  # of being asked: links may have to come up
LONGEST_S = 3600.0  # of a build that traffic goes through
RENEWED_S = 120.0  # of what is sent once links are up again
STOPPED_AGAIN_S = 0.2
PROBE_EACH_FPS = 100.0  # of every probed rule, if they are few
PROBES_FPS = 10_000.0  # of all together, at most
PROBE_SOURCE = "198.18.0.1"  # of the block that RFC 2544 reserves for benchmarks
SETTLE_S = 2.0  # after the command's return, for probes of the last rules: four of the switch's revalidations
QUIET_LOSS = 0.001  # share of the load lost before anything happened: more of it is not its doing
SHORTEST_S = 1.0  # of what the host's part is a share: of less time, a tick of 10 ms would be a large one


@dataclass(frozen=True)
class Carried:
    """What became of steady traffic, as the engine counted it."""

    offered: int
    received: int
    duration_s: float  # of the sending
    longest_gap_s: float | None  # in the received sequence of any one stream; None: nothing was received
    missed: int  # frames that came and that the engine's own ports dropped
    engine_gaps_s: float  # in which cores of the engine stood still, those for longer than their rings absorb
    longest_silence_s: float | None = None  # in which a port delivered nothing; None: not countable
    engine_longest_s: float = 0.0  # the longest pause of a core of the engine
    parts: int = 1  # transmissions that follow each other

    @property
    def lost(self) -> int:
        """Frames that did not come back; a duplicate makes up for none."""
        return max(0, self.offered - self.received)

    @property
    def loss(self) -> float | None:
        """Share of the offered; None if nothing was offered."""
        return self.lost / self.offered if self.offered else None


@dataclass(frozen=True)
class Disturbance:
    """What making did to traffic."""

    blocked_s: float  # lost frames / offered rate, less what was lost as well while nothing was made
    engine_s: float  # of it, at most so much is the engine's own doing
    longest_gap_s: float | None


def disturbance(quiet: Carried, building: Carried) -> Disturbance | str:
    """From the traffic before and while all is made; or why nothing can be said of it."""
    if quiet.loss is None or not building.offered or building.duration_s <= 0:
        return "no blocked time: the engine could offer no frame"
    if quiet.loss > QUIET_LOSS:
        return (
            f"no blocked time: {units.loss(quiet.loss)} of the load was lost before anything happened; "
            "check that the rules forward it, or lower load_fps"
        )
    rate_fps = building.offered / building.duration_s
    lost = max(0.0, building.lost - quiet.loss * building.offered)
    own = min(lost, max(float(building.missed), building.engine_gaps_s * rate_fps))
    if own and own >= GAP_MAJORITY * lost:
        return (
            f"no blocked time: {units.frames(round(lost))} frames were lost, and the engine itself missed "
            f"{units.frames(building.missed)} and stood still for {units.nanoseconds(building.engine_gaps_s * 1e9)}"
        )
    return Disturbance(lost / rate_fps, own / rate_fps, building.longest_gap_s)


def joined(parts: Sequence[tuple[float, Carried]]) -> Carried:
    """Transmissions that follow each other as one, each with when it began, in seconds of one clock.

    Between two of them there was no link to send to: what fell due then, at the rate of the first, counts as
    offered and lost. Silence goes on to the first frame of the later one, which is as late as frames before it are
    missing.
    """
    (began_s, whole), *later = parts
    rate_fps = whole.offered / whole.duration_s if whole.duration_s else 0.0
    for next_s, part in later:
        away_s = max(0.0, next_s - began_s - whole.duration_s)
        silent_s = away_s + (part.duration_s if part.longest_gap_s is None else part.longest_gap_s)
        whole = Carried(
            offered=whole.offered + round(rate_fps * away_s) + part.offered,
            received=whole.received + part.received,
            duration_s=whole.duration_s + away_s + part.duration_s,
            longest_gap_s=max(silent_s, whole.longest_gap_s or 0.0),
            missed=whole.missed + part.missed,
            engine_gaps_s=whole.engine_gaps_s + part.engine_gaps_s,
            longest_silence_s=max(silent_s, whole.longest_silence_s or 0.0, part.longest_silence_s or 0.0),
            engine_longest_s=max(whole.engine_longest_s, part.engine_longest_s),
            parts=whole.parts + part.parts,
        )
    return whole


def judged(measurement: Measurement, made_s: float) -> Measurement:
    """The measurement with its validity: noisy if the host disturbed the making, as windows of sockets are.

    `made_s` is the time over which `measurement.observed` was read; there is no repeat to put in its
    place, so its metrics stay, with a caution.
    """
    if measurement.validity is not TrialValidity.VALID:
        return measurement
    noisy = by_host(cpus.noise(measurement.observed, max(made_s, SHORTEST_S), TICKS_PER_S))
    if noisy is VALID:
        return measurement
    told = ((metric, (*metric.cautions, "the host was disturbed")) for metric in measurement.metrics)
    metrics = tuple(replace(metric, cautions=cautions, disturbed=True) for metric, cautions in told)
    return replace(measurement, metrics=metrics, validity=noisy.validity, reason=noisy.reason, cause=noisy.cause)


@dataclass(frozen=True)
class Probes:
    """Destinations of sampled rules: `count` addresses from `first`, `step` apart."""

    first: int
    step: int
    count: int

    @property
    def rate_fps(self) -> float:
        """Frames per second of all probes together."""
        return min(PROBES_FPS, PROBE_EACH_FPS * self.count)

    @property
    def interval_s(self) -> float:
        """Between two probes of one rule: how finely its time is known."""
        return self.count / self.rate_fps


@dataclass(frozen=True)
class Traffic:
    """What the engine saw meanwhile."""

    load: tuple[Carried, Carried] | None  # before anything was built, and until SETTLE_S after it; None: none was sent
    taken_s: tuple[float | None, ...]  # of each probe, since building began; None: it never came through


class Background:
    """The engine's trial in a thread of its own, while the bench is changed."""

    def __init__(
        self,
        bench: Standing,
        instrument: ProcessInstrument,
        probes: Probes | None,
        load_fps: float,
        *,
        renewed: bool = False,
    ) -> None:
        """`renewed`: what ends because a link went down is sent anew once all links are up."""
        self._bench, self._instrument, self._renewed = bench, instrument, renewed
        self._probes, self._load_fps = probes, load_fps
        self._pool = ThreadPoolExecutor(1, "engine")
        self._ended: list[tuple[float, protocol.Result]] = []  # by links, each with its beginning
        self._ending = False
        self._began_s: float | None = None  # of the trial, on the monotonic clock
        self._future: Future[protocol.Result] | None = None
        self._quiet: Carried | None = None

    def warm_up(self, duration_s: float, check: Callable[[], None]) -> None:
        """The load for a while, not accounted for: so that the switch has learnt its five-tuples."""
        self._wait(self._send("warm-up", duration_s, with_probes=False), check)
        self._began_s = None

    def start(self, check: Callable[[], None]) -> None:
        """Send for a quiet second, then for good; returns when frames flow."""
        if self._load_fps:
            self._quiet = self._carried(self._wait(self._send("quiet", QUIET_S, with_probes=False), check))
        self._began_s = None
        self._future = self._send("building", LONGEST_S, with_probes=True)
        deadline = time.monotonic() + STARTS_WITHIN_S
        while self._began_s is None and not self._ended:  # a link may already have gone down again
            check()
            if self._future.done():
                self._future.result()  # raises what ended it
            if time.monotonic() > deadline:
                raise EngineError("the engine was asked to send and did not begin", "see engine.log in the run folder")
            time.sleep(LOOK_S)

    def finish(self, began_s: float, check: Callable[[], None]) -> Traffic:
        """End the sending and account for it; `began_s` is when building began, on the monotonic clock."""
        assert self._future is not None
        if self._probes:
            pause(SETTLE_S, check)
        self._end(self._future, check)
        result = self._future.result()
        parts = [*self._ended, (self._beginning(result), result)]
        taken = first_taken(result.streams[-1], self._probes, parts[-1][0] - began_s) if self._probes else ()
        carried = [(part_s, self._carried(part)) for part_s, part in parts]
        return Traffic((self._quiet, joined(carried)) if self._quiet else None, taken)

    def abandon(self) -> None:
        """End it whatever it does; may be called twice."""
        if self._future is not None:
            self._end(self._future, lambda: None)
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _send(self, trial: str, duration_s: float, *, with_probes: bool) -> "Future[protocol.Result]":
        scenario = self._bench.scenario
        request = TrialRequest(
            trial_id=f"{scenario.name}-{trial}",
            epoch=int(with_probes),
            duration_s=duration_s,
            drain_s=DRAIN_S,
            load_fps=self._load_fps,
            streams=scenario.streams if self._load_fps else (),
            probe_cores=(),
            sample_s=SAMPLE_S,  # so that its start is known on the lab's clock
        )
        message = msgspec.structs.replace(run_message(request), loopback=False)
        if with_probes and self._probes:
            probing = probe_stream(len(message.streams), scenario, self._probes)
            message = msgspec.structs.replace(message, streams=(*message.streams, probing))
        work = self._transmit_anew if self._renewed and with_probes else self._instrument.transmit
        self._future = self._pool.submit(work, message, self._heard)
        return self._future

    def _transmit_anew(self, message: protocol.Run, heard: Callable[[Progress], None]) -> protocol.Result:
        """The last of as many transmissions as links allow: before each the engine waits until all are up.

        Raises LinkDownError if they stay down after the traffic was asked to end.
        """
        while True:
            try:
                result = self._instrument.transmit(message, heard)
            except LinkDownError:
                if self._ending:
                    raise
                continue  # what happens to the DUT takes longer than the engine waits for a link
            if result.status != "aborted" or self._ending:
                return result
            self._ended.append((self._beginning(result), result))
            self._began_s = None
            # Frames of the one before that are left in a ring are recognised by the epoch.
            message = msgspec.structs.replace(message, epoch=message.epoch + 1, duration_s=RENEWED_S)

    def _beginning(self, result: protocol.Result) -> float:
        """Of a transmission that has ended, on the monotonic clock; one too short for a sample began so long ago."""
        if self._began_s is not None:
            return self._began_s
        return time.monotonic() - result.drain_s - result.duration_s

    def _heard(self, sample: Progress) -> None:
        if isinstance(sample, protocol.Sample):
            began_s = time.monotonic() - sample.elapsed_s
            self._began_s = began_s if self._began_s is None else min(self._began_s, began_s)

    def _end(self, future: "Future[protocol.Result]", check: Callable[[], None]) -> None:
        """Stop what is being sent; asked again until it has ended, since what is sent anew may begin just after."""
        self._ending = True
        while not future.done():
            self._instrument.stop()
            wait([future], timeout=STOPPED_AGAIN_S)
            check()

    def _wait(self, future: "Future[protocol.Result]", check: Callable[[], None]) -> protocol.Result:
        while not future.done():
            check()
            time.sleep(LOOK_S)
        return future.result()

    def _carried(self, result: protocol.Result) -> Carried:
        scenario = self._bench.scenario
        return carried(result, len(scenario.streams), scenario.smallest_ring)


@contextmanager
def background(
    bench: Standing, probes: Probes | None, load_fps: float, *, renewed: bool = False
) -> Iterator[Background]:
    """The engine with its ports open; whatever it sends ends with the block. `renewed`: see Background."""
    instrument = engine_process(bench, bench.setup.engine, bench.host, bench.engine)
    with opened(bench, instrument):
        sending = Background(bench, instrument, probes, load_fps, renewed=renewed)
        try:
            yield sending
        finally:
            sending.abandon()


def pause(for_s: float, check: Callable[[], None]) -> None:
    """Wait for `for_s` seconds, calling `check`, which may raise."""
    until = time.monotonic() + for_s
    while (left_s := until - time.monotonic()) > 0:
        check()
        time.sleep(min(LOOK_S, left_s))


def carried(result: protocol.Result, streams: int, ring: int) -> Carried:
    """What became of the first `streams` streams, the steady ones; what the engine did is of its whole trial.

    `ring` is the smallest ring between engine and switch, in frames: shorter gaps cost none.
    """
    steady = result.streams[:streams]
    came = [stream for stream in steady if stream.offered and stream.received]
    jumps = ((stream.largest_jump.frames if stream.largest_jump else 0, stream.offered) for stream in came)
    offered = sum(stream.offered for stream in steady)
    ends = {stream.rx_port for stream in steady}
    silences_s = [port.longest_silence.ns / 1e9 for port in result.ports if port.name in ends and port.longest_silence]
    workers = result.witness.workers
    still = [worker for worker in workers if worker.gap_max_ns / 1e9 * offered > ring * result.duration_s]
    return Carried(
        offered=offered,
        received=sum(stream.received or 0 for stream in steady),
        duration_s=result.duration_s,
        longest_gap_s=max((frames * result.duration_s / sent for frames, sent in jumps), default=None),
        missed=sum(port.rx_missed or 0 for port in result.ports),
        engine_gaps_s=sum(worker.gap_total_ns for worker in still) / 1e9,
        longest_silence_s=max(silences_s, default=None),
        engine_longest_s=max((worker.gap_max_ns for worker in workers), default=0) / 1e9,
    )


def probe_stream(number: int, scenario: Scenario, probes: Probes) -> StreamRequest:
    """One five-tuple a probed rule, round robin, each of them counted by itself."""
    first, last = scenario.ports[0].name, scenario.ports[-1].name
    template = scenario.streams[0]
    stream = Stream(
        tx_port=first,
        rx_port=last,
        frame_bytes=template.frame_bytes,
        share=1.0,
        eth_src=template.eth_src,
        eth_dst=template.eth_dst,
        ipv4_src=Range(number_of(PROBE_SOURCE), 1),
        ipv4_dst=Range(probes.first, 1),
        udp_src=Range(1025, 1),
        udp_dst=Range(9, 1),
        order=("ipv4_dst",),
        flows=probes.count,
    )
    fields = (FieldProgram("ipv4.dst", Op(increment=Increment(probes.step, probes.count))),) if probes.count > 1 else ()
    request = stream_request(number, stream, probes.rate_fps)
    return msgspec.structs.replace(request, fields=fields, tracked_flows=probes.count)


def first_taken(stream: protocol.StreamResult, probes: Probes, offset_s: float) -> tuple[float | None, ...]:
    """When each probed rule took its first frame; `offset_s` is the trial's start on the clock that is wanted.

    A flow's losses are taken to lie before its first frame: later ones, of a switch that was
    blocked, make the time longer than it was, by as long as it was blocked.
    """
    lossy = {flow: (sent, received) for flow, sent, received in (stream.flows.losses if stream.flows else ())}
    times: list[float | None] = []
    for flow in range(probes.count):
        sent, received = lossy.get(flow, (1, 1))
        phase_s = flow / probes.rate_fps
        times.append(offset_s + phase_s + (sent - received) * probes.interval_s if received else None)
    return tuple(times)

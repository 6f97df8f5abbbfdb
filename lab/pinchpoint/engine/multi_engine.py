"""Several engines as one Instrument: what one sends, another one receives, and their accounts are joined.

All receive before one of them sends, and until all have sent: so no instant has to be agreed on. What would need both
ends at one engine is unknown, never zero.
"""

import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, Unpack

import msgspec

from pinchpoint.engine import protocol
from pinchpoint.engine.instrument import EngineResult, Heard, Noise, PortCounts, TrialRequest
from pinchpoint.engine.process import GRACE_S, SAME_WHEEL, EngineProcess, ProcessInstrument, Start, named
from pinchpoint.engine.trials import run_message
from pinchpoint.host.interface import Host
from pinchpoint.host.priority import session_preferred
from pinchpoint.model import units
from pinchpoint.model.errors import EngineError
from pinchpoint.model.trial import Cause, Sample, StreamCounts, WorkerWitness

MOST_APART = 0.5  # of a trial in which one engine may have sent alone: for the other half, all sent together
_READY = b"ready"
# What only the engine at which a stream arrives counts of it.
_ARRIVED = (
    "received", "duplicated", "reordered", "corrupt", "late", "reorder_distance_max", "reordered_in_flow", "jitter",
)  # fmt: skip


class _Reflected(msgspec.Struct):
    dropped: int


class _Port(msgspec.Struct):
    rx_missed: int | None


class _Account(msgspec.Struct):
    """What is read of the reflector's own."""

    reflected: list[_Reflected]
    ports: list[_Port]


_STAMPS = re.compile(r",stamps=\w+")


class Reflector(EngineProcess):
    """`pinchpoint-engine reflect` on the ports that one worker of an engine had: Ethernet and IP addresses swapped.

    Whoever sent a frame can so time the way there and back: two hosts have two clocks (RFC 2681, 2.1).
    """

    _BYE = b""  # it ends at the end of its stdin

    def __init__(
        self, request: protocol.Open, worker: protocol.WorkerRequest, host: Host, **start: Unpack[Start]
    ) -> None:
        own = [port for port in request.ports if port.name in worker.ports]
        rings = ("--rx-ring", str(own[0].rx_ring), "--tx-ring", str(own[0].tx_ring))
        how = ["--core", str(worker.core), "--idle", "spin", "--link-timeout", f"{request.link_timeout_s}s"]
        how += [f"--eal={' '.join(_eal(request, own))}"] if any(port.backend == "dpdk" for port in own) else []
        plain = [msgspec.structs.replace(port, device=_STAMPS.sub("", port.device)) for port in own]  # it times nothing
        words = ("reflect", *map(_port_word, plain), *how, *rings, "--swap", "ip", "--until-eof", "--json")
        super().__init__(host, **start)
        self._command += words
        self._ready_s = request.link_timeout_s

    def open(self) -> None:
        """Start it and wait for its links. Raises EngineError."""
        self._start()
        if (line := self._read_line(time.monotonic() + self._ready_s + GRACE_S)).strip() != _READY:
            raise EngineError(f"the reflector said {line[:200]!r} where {_READY!r} was expected", SAME_WHEEL)

    def lost(self) -> int:
        """Frames that its ports had no room for, or that it could not send. Raises EngineError."""
        self._write(b"counters")
        line = self._read_line(time.monotonic() + GRACE_S)
        try:
            account = msgspec.json.decode(line, type=_Account)
        except msgspec.DecodeError as error:
            raise EngineError(f"the reflector's account cannot be read: {error}: {line[:200]!r}", SAME_WHEEL) from error
        return sum(port.dropped for port in account.reflected) + sum(port.rx_missed or 0 for port in account.ports)


def _eal(request: protocol.Open, own: Sequence[protocol.PortRequest]) -> Iterator[str]:
    """The engine's arguments of DPDK with the NICs and the share of the memory that these ports have."""
    devices = {port.device for port in own}
    words = iter(request.eal_args)
    for word in words:
        if word == "-a":
            address = next(words)
            yield from (word, address) if address in devices else ()
        elif word == "-m":
            yield from (word, str(int(next(words)) * len(own) // len(request.ports)))
        else:
            yield word


def _port_word(request: protocol.PortRequest) -> str:
    """A port as the commands have it."""
    return f"{request.backend}:{request.device}" + (f"@{request.netns}" if request.netns else "")


@dataclass(frozen=True)
class End:
    """One of the engines, and the ports that it has."""

    host: str  # for people
    is_device: bool  # whether that is the device's
    ports: tuple[str, ...]
    engine: ProcessInstrument
    reflectors: tuple[Reflector, ...] = ()  # that take the same ports while the engine is closed

    @property
    def where(self) -> str:
        """For people, beside an error."""
        return f"the engine on {self.host}"


@dataclass(frozen=True)
class Part:
    """What one engine does of a trial."""

    end: End
    message: protocol.Run

    @property
    def receives(self) -> bool:
        """Whether it waits for what another engine sends."""
        return any(stream.tx_port is None for stream in self.message.streams)

    @property
    def sends(self) -> bool:
        """Whether it sends anything."""
        return any(stream.tx_port for stream in self.message.streams)


class JoinedInstrument:
    """An Instrument that owns several engines."""

    def __init__(self, ends: Sequence[End], clock_error_ns: float | None) -> None:
        """`clock_error_ns`: by which the clocks of the hosts may be apart; None: that is not known."""
        self._ends, self._clock_error_ns = tuple(ends), clock_error_ns
        self._parts: Sequence[Part] = ()  # of the running trial

    def open(self) -> Mapping[str, str]:
        """Open each; facts with the name of the host. Raises what an engine raises, naming the host."""
        facts = dict[str, str]()
        for end in self._ends:
            own = named(end.where, end.engine.open)
            facts |= {f"{name} on {end.host}": value for name, value in own.items()}
        return facts

    def run(self, request: TrialRequest, heard: Heard | None = None) -> EngineResult:
        """One trial over all engines. `heard` gets the samples of a single sender, which knows nothing of losses."""
        if request.there_and_back:
            return self._there_and_back(request)
        is_heard = sum(any(stream.tx_port in end.ports for stream in request.streams) for end in self._ends) == 1
        asked = request if is_heard else replace(request, sample_s=None)
        self._parts = parts = tuple(divided(asked, self._ends, self._clock_error_ns is not None))
        told = _sender_only(heard, len(parts) > 1) if is_heard else None
        with session_preferred():
            for part in parts:
                named(part.end.where, part.end.engine.begin, part.message)
            began_s = time.monotonic()
            for part in sorted(parts, key=lambda part: part.sends):  # whoever only receives hears what is sent
                named(part.end.where, part.end.engine.go)
                if part.sends and not request.live:
                    part.end.engine.let_run(part.message, part.message.duration_s)
            for part in parts:
                named(part.end.where, part.end.engine.await_sent, part.message, told if part.sends else None)
            sent_s = time.monotonic() - began_s
            for part in parts:
                named(part.end.where, part.end.engine.stop)
            accounts = [(part, named(part.end.where, part.end.engine.finish, part.message)) for part in parts]
        noise = _apart(sent_s, request.duration_s) if sum(part.sends for part in parts) > 1 else None
        return replace(joined(request, accounts, self._clock_error_ns), noise=noise)

    def _there_and_back(self, request: TrialRequest) -> EngineResult:
        """One trial whose sender receives what it sent. The engines that receive otherwise are closed meanwhile."""
        (sender,) = (end for end in self._ends if any(stream.tx_port in end.ports for stream in request.streams))
        others = [end for end in self._ends if end is not sender]
        whole = run_message(request)
        streams = tuple(msgspec.structs.replace(stream, rx_port=stream.tx_port) for stream in whole.streams)
        part = Part(sender, msgspec.structs.replace(whole, streams=streams))
        self._parts = (part,)
        with session_preferred(), ExitStack() as stack:
            for end in others:
                end.engine.close()
            back = [(end, reflector) for end in others for reflector in end.reflectors]
            for end, reflector in back:
                stack.callback(reflector.close)
                named(end.where, reflector.open)
            named(sender.where, sender.engine.begin, part.message)
            result = named(sender.where, sender.engine.finish, part.message)
            lost = Counter[str]()
            for end, reflector in back:
                lost[end.host] += named(end.where, reflector.lost)
        for end in others:
            named(end.where, end.engine.open)
        return replace(_returned(request, part, result), noise=_not_sent_back(lost))

    def stop(self) -> None:
        """End the running trial early."""
        for part in self._parts:
            part.end.engine.stop()

    def close(self) -> None:
        """Release all of them, whatever one of them does."""
        with ExitStack() as stack:
            for end in self._ends:
                stack.callback(end.engine.close)


def _sender_only(heard: Heard | None, is_split: bool) -> Heard | None:
    """Samples of an engine that does not see what arrives."""
    if heard is None or not is_split:
        return heard

    def told(sample: Sample) -> None:
        heard(replace(sample, lost=None, received=None))

    return told


def divided(request: TrialRequest, ends: Sequence[End], is_timed: bool) -> Iterator[Part]:
    """What each engine is asked for: the streams of which it has an end. `is_timed`: the hosts' clocks agree."""
    whole = run_message(request)
    for end in ends:
        streams = []
        for stream in whole.streams:
            sends, receives = stream.tx_port in end.ports, stream.rx_port in end.ports
            if sends or receives:
                tx_port, rx_port = stream.tx_port if sends else None, stream.rx_port if receives else None
                streams.append(msgspec.structs.replace(stream, tx_port=tx_port, rx_port=rx_port))
        if not streams:
            continue
        message = msgspec.structs.replace(whole, streams=tuple(streams), on_go=True)
        if not any(stream.tx_port for stream in streams):
            message = msgspec.structs.replace(message, sample_interval_s=None)  # nothing is said of what arrives
        if not any(stream.rx_port for stream in streams):
            message = msgspec.structs.replace(message, drain_s=0.0)  # nothing comes back here
        if is_timed and any(None in (stream.tx_port, stream.rx_port) for stream in streams):
            message = msgspec.structs.replace(message, wall_clock=True)
        yield Part(end, message)


def joined(
    request: TrialRequest, accounts: Sequence[tuple[Part, EngineResult]], clock_error_ns: float | None
) -> EngineResult:
    """One account of several. What one engine alone cannot know is None."""
    results = [result for _, result in accounts]
    senders = [result for part, result in accounts if part.sends]
    counts = [stream for result in results for stream in result.streams]
    reasons = [f"on {part.end.host}: {result.reason}" for part, result in accounts if result.reason]
    alone = results[0] if len(results) == 1 else None
    streams = (_stream(number, stream.rx_port, counts, clock_error_ns) for number, stream in enumerate(request.streams))
    return EngineResult(
        completed=all(result.completed for result in results),
        sent_duration_s=max((result.sent_duration_s for result in senders), default=0.0),
        streams=tuple(streams),
        ports=tuple(_port(port, part) for part, result in accounts for port in result.ports),
        workers=tuple(_worker(worker, part) for part, result in accounts for worker in result.workers),
        cache_line_before_ns=None,
        cache_line_after_ns=None,
        pacing=_pacing(senders),
        reason="; ".join(reasons) or None,
        loopback=alone.loopback if alone else None,
    )


def _apart(sent_s: float, duration_s: float) -> Noise | None:
    """Each has sent for the duration between the first `go` and the last `sent`: the rest bounds what lay between."""
    apart_s = sent_s - duration_s
    if apart_s <= MOST_APART * duration_s:
        return None
    began = f"the engines may have begun to send {units.nanoseconds(apart_s * 1e9)} apart"
    return Noise(Cause.APART, f"{began}, more than {MOST_APART:.0%} of the trial's {duration_s:g} s")


def _not_sent_back(lost: Mapping[str, int]) -> Noise | None:
    told = ", ".join(f"{units.frames(count)} on {host}" for host, count in lost.items() if count)
    return Noise(Cause.REFLECTOR, f"the engine that sends back lost frames: {told}") if told else None


def _returned(request: TrialRequest, part: Part, result: EngineResult) -> EngineResult:
    """What one engine counted of both ways. Spacings and the order are those of both, so of neither."""
    unknown: dict[str, Any] = dict.fromkeys(("latency", "jitter", "reordered", "reordered_in_flow"))
    streams = tuple(
        replace(
            counts,
            rx_port=request.streams[counts.stream].rx_port,
            round_trip=counts.latency,
            latency_histogram="",
            **unknown,
        )
        for counts in result.streams
    )
    return replace(result, streams=streams, workers=tuple(_worker(worker, part) for worker in result.workers))


def _pacing(senders: Sequence[EngineResult]) -> dict[str, float]:
    """The worst of them."""
    names = dict.fromkeys(name for result in senders for name in result.pacing)
    return {name: max(result.pacing[name] for result in senders if name in result.pacing) for name in names}


def _stream(
    number: int, rx_port: str | None, counts: Sequence[StreamCounts], clock_error_ns: float | None
) -> StreamCounts:
    """The sender's counts with those of the receiver, where these are two."""
    sent = next(side for side in counts if side.stream == number and side.tx_port)
    came = next((side for side in counts if side.stream == number and not side.tx_port), None)
    if came is None:
        return sent
    latency = came.latency if clock_error_ns is not None else None
    return replace(
        sent,
        rx_port=rx_port,
        **{name: getattr(came, name) for name in _ARRIVED},
        lost=None if came.received is None else sent.sent - came.received,
        latency=replace(latency, clock_error_ns=clock_error_ns) if latency else None,
        # By the time since the start of the trial, which two engines do not have in common.
        largest_jump=None,
        last_loss_s=None,
    )


def _port(port: PortCounts, part: Part) -> PortCounts:
    """A receiver also hears the silence before and after the trial."""
    return replace(port, longest_silence_s=None, longest_silence_at_s=None) if part.receives else port


def _worker(worker: WorkerWitness, part: Part) -> WorkerWitness:
    """With its host; when a receiver's gaps were, since the start of the sending, is not known."""
    placed = worker if part.end.is_device else replace(worker, host=part.end.host)
    return replace(placed, gap_max_at_s=None, gaps_longest=()) if part.receives else placed

"""A trial in the words of the seam, and its account in the lab's own terms."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TypeVar

import msgspec

from pinchpoint.engine import protocol
from pinchpoint.engine.instrument import EngineResult, PortCounts, SliceCounts, Slices, TrialRequest
from pinchpoint.engine.streams import Shape, StreamRequest, stream_request
from pinchpoint.model.trial import Loopback, Sample, StreamCounts, WorkerWitness
from pinchpoint.model.units import wire_bits

TX_BURST = 64  # frames handed to a port at once: the most that the engine takes
TX_BURST_IN_BURSTS = 32  # the first turn of its loop is slow: the fewer frames leave with it, the less their lead
_FULL = 1.01  # more than that passed: the speed is what a virtual card reports, and no line rate
_T = TypeVar("_T")


def run_of(trial: str, epoch: int, duration_s: float, drain_s: float, streams: Sequence[StreamRequest]) -> protocol.Run:
    """A trial of these streams and nothing beside: no samples, probes, slices or capture."""
    return protocol.Run(
        trial=trial, epoch=epoch, duration_s=duration_s, drain_s=drain_s, sample_interval_s=None, probe_cores=(),
        quiet_within_s=0.0, verify_checksums=True, tx_burst=TX_BURST, latency_every=1, loopback=False, capture=None,
        slices=None, streams=tuple(streams),
    )  # fmt: skip


def run_message(request: TrialRequest) -> protocol.Run:
    """The trial in the words of the seam; streams have the numbers of their places as ids."""
    streams = [
        stream_request(number, stream, load_fps, request.burst_frames)
        for number, (stream, load_fps) in enumerate(zip(request.streams, _loads_fps(request), strict=True))
    ]
    if request.step is not None:
        streams = [msgspec.structs.replace(stream, shape=Shape(step=request.step)) for stream in streams]
    return msgspec.structs.replace(
        run_of(request.trial_id, request.epoch, request.duration_s, request.drain_s, streams),
        # Where nobody listens there are none: writing one wakes a thread on a measuring core.
        sample_interval_s=request.sample_s,
        probe_cores=request.probe_cores,
        quiet_within_s=request.quiet_within_s,
        tx_burst=TX_BURST if request.burst_frames is None else TX_BURST_IN_BURSTS,
        loopback=True,
        slices=_slices_request(request.slices) if request.slices else None,
    )


def _loads_fps(request: TrialRequest) -> list[float]:
    """The load of each stream while it is sent."""
    everyone = tuple(range(len(request.streams)))
    loads_fps = [0.0] * len(everyone)
    for group in request.slices.groups if request.slices else (everyone,):
        shares = math.fsum(request.streams[number].share for number in group)
        for number in group:
            loads_fps[number] = request.load_fps * request.streams[number].share / shares
    return loads_fps


def _slices_request(slices: Slices) -> protocol.SlicesRequest:
    times_s = (slices.length_s, slices.settle_s, slices.discard_s)
    length_ns, settle_ns, discard_ns = (round(time_s * 1e9) for time_s in times_s)
    return protocol.SlicesRequest(slices.groups, slices.order, length_ns, settle_ns, discard_ns, slices.hold)


def sample_of(sample: protocol.Sample) -> Sample:
    """A trial's sample in the lab's own type."""
    gaps_s, gap_max_s = sample.gaps_ns / 1e9, sample.gap_max_ns / 1e9
    return Sample(sample.elapsed_s, sample.offered, sample.lost, gaps_s, gap_max_s, sample.received)


def engine_result(
    result: protocol.Result, workers: Sequence[protocol.WorkerRequest], speeds: Mapping[str, int] | None = None
) -> EngineResult:
    """The seam's message in the lab's own types; `workers` are those that the ports were opened with.

    `speeds` are those of the links of ports that are NICs, bits per second.
    """
    probes, loopback = result.witness.cache_lines, result.witness.loopback
    ports = {worker.core: worker.ports for worker in workers}
    streams = (_stream_counts(stream) for stream in result.streams)
    witnesses = (_as(WorkerWitness, worker, ports=ports.get(worker.core, ())) for worker in result.witness.workers)
    pacing = msgspec.structs.asdict(result.pacing)
    return EngineResult(
        completed=result.status == "completed",
        sent_duration_s=result.duration_s,
        streams=tuple(streams),
        ports=tuple(_port_counts(port, result, (speeds or {}).get(port.name)) for port in result.ports),
        workers=tuple(witnesses),
        cache_line_before_ns=_mean_ns([probe.before_ns for probe in probes]),
        cache_line_after_ns=_mean_ns([probe.after_ns for probe in probes]),
        pacing={name: float(value) for name, value in pacing.items() if value is not None},
        ipc=_ipc(probes),
        probe_occupied_ns=_occupied_ns(probes),
        reason=result.reason,
        loopback=_as(Loopback, loopback) if loopback else None,
        slices=tuple(_slice_counts(counts) for counts in result.slices or ()),
    )


def _as(kind: type[_T], message: msgspec.Struct, **own: object) -> _T:
    """The lab's own type of a message: the fields that both have, and `own` ones."""
    return msgspec.convert({**msgspec.structs.asdict(message), **own}, kind, from_attributes=True)


def _stream_counts(counts: protocol.StreamResult) -> StreamCounts:
    histogram = counts.latency.histogram if counts.latency else ""
    return _as(StreamCounts, counts, stream=counts.id, tx_port=counts.tx_port or "", latency_histogram=histogram)


def _slice_counts(counts: protocol.SliceResult) -> SliceCounts:
    start_s, length_s, gap_s = (ns / 1e9 for ns in (counts.start_ns, counts.length_ns, counts.gap_ns))
    switch_s = None if counts.switch_ns is None else counts.switch_ns / 1e9
    return _as(SliceCounts, counts, start_s=start_s, length_s=length_s, switch_s=switch_s, gap_s=gap_s)


def _port_counts(port: protocol.PortResult, result: protocol.Result, speed_bps: int | None) -> PortCounts:
    silence = port.longest_silence
    tx_share, rx_share = _line_shares(port.name, result, speed_bps) if speed_bps else (None, None)
    lasted_s, at_s = (silence.ns / 1e9, silence.at_s) if silence else (None, None)
    quiet = {"longest_silence_s": lasted_s, "longest_silence_at_s": at_s}
    return _as(PortCounts, port, speed_bps=speed_bps, tx_share=tx_share, rx_share=rx_share, **quiet)


def _line_shares(port: str, result: protocol.Result, speed_bps: int) -> tuple[float | None, float | None]:
    """Bits of the trial's frames each way, with what stands around each on the link, of those that it carries."""
    if result.duration_s <= 0:
        return None, None
    sent = math.fsum(stream.sent * wire_bits(stream.bytes_mean) for stream in result.streams if stream.tx_port == port)
    came = (stream for stream in result.streams if stream.rx_port == port)
    back = math.fsum((stream.received or 0) * wire_bits(stream.bytes_mean) for stream in came)
    carried = speed_bps * result.duration_s
    return (sent / carried, back / carried) if max(sent, back) <= _FULL * carried else (None, None)


def _mean_ns(distances: Sequence[float | None]) -> float | None:
    """Over all pairs of cores; None if one is not known, since the mean of the others is another figure."""
    known = [distance for distance in distances if distance is not None]
    return fmean(known) if known and len(known) == len(distances) else None


def _ipc(probes: Sequence[protocol.CacheLineResult]) -> dict[int, tuple[float | None, float | None]]:
    """Instructions a cycle before and after the trial, by core; of the engine's, which is in every pair, the first."""
    by_core = dict[int, tuple[float | None, float | None]]()
    for probe in probes:
        for core, before, after in zip(probe.cores, probe.ipc_before, probe.ipc_after, strict=True):
            by_core.setdefault(core, (before, after))
    return by_core


def _occupied_ns(probes: Sequence[protocol.CacheLineResult]) -> dict[int, int]:
    """Processor time of the probes by core; the engine's core is in every pair."""
    by_core = Counter[int]()
    for probe in probes:
        by_core.update(dict(zip(probe.cores, probe.occupied_ns, strict=True)))
    return dict(by_core)

"""What the engine answers, in the lab's own terms."""

import math
from collections.abc import Mapping, Sequence

from pinchpoint.engine import probed, protocol
from pinchpoint.engine.instrument import EngineResult, PortCounts, SliceCounts
from pinchpoint.engine.parts import Latency
from pinchpoint.model.trial import Jump, LatencySummary, Loopback, StreamCounts, WorkerWitness
from pinchpoint.model.units import wire_bits


def engine_result(
    result: protocol.Result, workers: Sequence[protocol.WorkerRequest], speeds: Mapping[str, int] | None = None
) -> EngineResult:
    """The seam's message in the lab's own types; `workers` are those that the ports were opened with.

    `speeds` are those of the links of ports that are NICs, bits per second.
    """
    probes, loopback = result.witness.cache_lines, result.witness.loopback
    ports = {worker.core: worker.ports for worker in workers}
    return EngineResult(
        completed=result.status == "completed",
        sent_duration_s=result.duration_s,
        streams=tuple(_stream_counts(stream) for stream in result.streams),
        ports=tuple(_port_counts(port, result, (speeds or {}).get(port.name)) for port in result.ports),
        workers=tuple(_worker(worker, ports.get(worker.core, ())) for worker in result.witness.workers),
        cache_line_before_ns=probed.mean_ns([probe.before_ns for probe in probes]),
        cache_line_after_ns=probed.mean_ns([probe.after_ns for probe in probes]),
        pacing=_pacing(result.pacing),
        ipc=probed.ipc(probes),
        probe_occupied_ns=probed.occupied_ns(probes),
        reason=result.reason,
        loopback=_loopback(loopback) if loopback else None,
        slices=tuple(_slice_counts(slice_result) for slice_result in result.slices or ()),
    )


def _slice_counts(result: protocol.SliceResult) -> SliceCounts:
    return SliceCounts(
        group=result.group,
        start_s=result.start_ns / 1e9,
        length_s=result.length_ns / 1e9,
        switch_s=None if result.switch_ns is None else result.switch_ns / 1e9,
        offered=result.offered,
        refused=result.refused,
        received=result.received,
        gap_s=result.gap_ns / 1e9,
    )


def _port_counts(port: protocol.PortResult, result: protocol.Result, speed_bps: int | None) -> PortCounts:
    silence = port.longest_silence
    tx_share, rx_share = _line_shares(port.name, result, speed_bps) if speed_bps else (None, None)
    return PortCounts(
        name=port.name,
        sent=port.sent,
        refused=port.refused,
        received=port.received,
        foreign=port.foreign,
        late=port.late,
        rx_missed=port.rx_missed,
        stats=port.stats,
        answered=port.answered,
        longest_silence_s=silence.ns / 1e9 if silence else None,
        longest_silence_at_s=silence.at_s if silence else None,
        speed_bps=speed_bps,
        tx_share=tx_share,
        rx_share=rx_share,
    )


def _line_shares(port: str, result: protocol.Result, speed_bps: int) -> tuple[float | None, float | None]:
    """Bits of the trial's frames each way, with what stands around each on the link, of those that it carries."""
    if result.duration_s <= 0:
        return None, None
    sent = math.fsum(stream.sent * wire_bits(stream.bytes_mean) for stream in result.streams if stream.tx_port == port)
    back = math.fsum(
        (stream.received or 0) * wire_bits(stream.bytes_mean) for stream in result.streams if stream.rx_port == port
    )
    carried = speed_bps * result.duration_s
    return (sent / carried, back / carried) if max(sent, back) <= _FULL * carried else (None, None)


_FULL = 1.01  # more than that passed: the speed is what a virtual card reports, and no line rate


def _pacing(pacing: protocol.Pacing) -> dict[str, float]:
    latest = {} if pacing.latest_ns is None else {"latest_ns": float(pacing.latest_ns)}
    return {"largest_burst": float(pacing.largest_burst), **latest}


def _stream_counts(stream: protocol.StreamResult) -> StreamCounts:
    return StreamCounts(
        stream=stream.id,
        tx_port=stream.tx_port or "",
        rx_port=stream.rx_port,
        intended=stream.intended,
        offered=stream.offered,
        refused=stream.refused,
        shortfall=stream.shortfall,
        sent=stream.sent,
        received=stream.received,
        lost=stream.lost,
        duplicated=stream.duplicated,
        reordered=stream.reordered,
        corrupt=stream.corrupt,
        latency=_distribution(stream.latency) if stream.latency else None,
        late=stream.late,
        reorder_distance_max=stream.reorder_distance_max,
        reordered_in_flow=stream.reordered_in_flow,
        largest_jump=Jump(stream.largest_jump.frames, stream.largest_jump.at_s) if stream.largest_jump else None,
        last_loss_s=stream.last_loss_s,
        jitter=_distribution(stream.jitter) if stream.jitter else None,
    )


def _distribution(latency: Latency) -> LatencySummary:
    return LatencySummary(
        count=latency.count,
        min_ns=latency.min_ns,
        mean_ns=latency.mean_ns,
        p50_ns=latency.p50_ns,
        p90_ns=latency.p90_ns,
        p99_ns=latency.p99_ns,
        p999_ns=latency.p999_ns,
        p9999_ns=latency.p9999_ns,
        max_ns=latency.max_ns,
        curve=latency.curve,
    )


def _loopback(loopback: protocol.LoopbackResult) -> Loopback:
    return Loopback(loopback.frames, loopback.min_ns, loopback.p50_ns, loopback.p99_ns, loopback.max_ns)


def _worker(worker: protocol.WorkerResult, ports: tuple[str, ...]) -> WorkerWitness:
    return WorkerWitness(
        core=worker.core,
        busy_share=worker.busy_share,
        gap_threshold_ns=worker.gap_threshold_ns,
        gaps=worker.gaps,
        gap_total_ns=worker.gap_total_ns,
        gap_max_ns=worker.gap_max_ns,
        gap_max_at_s=worker.gap_max_at_s,
        steal_s=worker.steal_s,
        voluntary_switches=worker.voluntary_switches,
        involuntary_switches=worker.involuntary_switches,
        ports=ports,
        gaps_longest=worker.gaps_longest,
        frequency_hz=worker.frequency_hz,
    )

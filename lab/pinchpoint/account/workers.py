"""Which part of a trial's load went through each engine core: a core's gap costs no other core's frames."""

import math
from collections.abc import Callable, Sequence

from pinchpoint.model.trial import StreamCounts, WorkerWitness

Streams = Sequence[StreamCounts]
Workers = Sequence[WorkerWitness]


def sending_fps(worker: WorkerWitness, workers: Workers, streams: Streams, load_fps: float) -> float:
    """The part of `load_fps`, that of all streams together, that `worker` was to send."""
    return load_fps * _share(worker, workers, streams, lambda stream: stream.tx_port)


def from_others_fps(worker: WorkerWitness, workers: Workers, streams: Streams, load_fps: float) -> float:
    """The part of `load_fps` that still arrives at `worker` while it stands still: what others send."""
    weights = _weights(streams)
    own = math.fsum(
        weight * _part(worker, workers, stream.rx_port) * (1 - _part(worker, workers, stream.tx_port))
        for stream, weight in zip(streams, weights, strict=True)
    )
    return load_fps * own / math.fsum(weights) if weights else 0.0


def receivers(workers: Workers, streams: Streams) -> list[WorkerWitness]:
    """Those with a port to which some stream was to come back."""
    return [worker for worker in workers if any(_drives(worker, stream.rx_port) for stream in streams)]


def _share(
    worker: WorkerWitness, workers: Workers, streams: Streams, port_of: Callable[[StreamCounts], str | None]
) -> float:
    """Of the load; a port that several workers drive is divided among them evenly, as the engine does it."""
    weights = _weights(streams)
    own = math.fsum(
        weight * _part(worker, workers, port_of(stream)) for stream, weight in zip(streams, weights, strict=True)
    )
    return own / math.fsum(weights) if weights else 0.0


def _weights(streams: Streams) -> list[float]:
    weights = [float(stream.offered if stream.intended is None else stream.intended) for stream in streams]
    return weights if any(weights) else [1.0 for _ in streams]


def _part(worker: WorkerWitness, workers: Workers, port: str | None) -> float:
    """Of the frames at `port` that are the worker's."""
    return 1 / sum(_drives(other, port) for other in workers) if _drives(worker, port) else 0.0


def _drives(worker: WorkerWitness, port: str | None) -> bool:
    return port is not None and (not worker.ports or port in worker.ports)

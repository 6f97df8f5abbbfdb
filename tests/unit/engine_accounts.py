"""Accounts of trials as the engine sends them, in which nothing happened but what a test says."""

from pinchpoint.engine import protocol

EMPTY = protocol.StreamResult(
    id=0,
    tx_port="left",
    rx_port="right",
    intended=None,
    offered=0,
    refused=0,
    shortfall=None,
    sent=0,
    bytes_mean=60.0,
    received=0,
    lost=0,
    duplicated=0,
    reordered=0,
    reorder_distance_max=0,
    reorder_histogram=(),
    corrupt=0,
    late=0,
    largest_jump=None,
    last_loss_s=None,
    latency=None,
    jitter=None,
    flows=None,
)


def worker(gap_max_ns, gap_total_ns):
    return protocol.WorkerResult(0, 1, 0.5, 10_000, 3, gap_total_ns, gap_max_ns, 0.1, (), (), 0.0, 0, 0, None)


def result(streams, missed=0, duration_s=10.0, workers=(), status="stopped"):
    return protocol.Result(
        trial="b",
        status=status,
        reason="left: its link went down" if status == "aborted" else None,
        duration_s=duration_s,
        drain_s=0.1,
        streams=tuple(streams),
        ports=(protocol.PortResult("left", 0, 0, 0, 0, 0, 0, missed, None, {}),),
        pacing=protocol.Pacing(1, None),
        witness=protocol.WitnessResult(tuple(workers), None, None),
        capture=None,
        slices=None,
    )

"""Whole frames for the simulated engine: how many of many are lost at random, shares of a total, ports of streams."""

import math
from collections.abc import Sequence
from random import Random

from pinchpoint.engine.instrument import PortCounts
from pinchpoint.model.scenario import Stream
from pinchpoint.model.trial import LatencySummary, StreamCounts


def poisson(mean: float, random: Random) -> int:
    """A Poisson variable; of a large mean, the normal one that it comes near to."""
    if mean > 100:
        return max(0, round(random.gauss(mean, math.sqrt(mean))))
    count, left = 0, mean - random.expovariate(1.0)
    while left > 0:
        count, left = count + 1, left - random.expovariate(1.0)
    return count


def divide(total: int, shares: Sequence[float]) -> list[int]:
    """Whole parts of `total` in proportion to `shares`, adding up to it."""
    parts = [math.floor(total * share / math.fsum(shares)) for share in shares]
    parts[0] += total - sum(parts)
    return parts


def stream_counts(
    number: int,
    stream: Stream,
    counts: Sequence[int],
    latency: LatencySummary | None = None,
    last_loss_s: float | None = None,
) -> StreamCounts:
    """The account of a stream; `counts` are its frames intended, offered, refused, and lost on the way."""
    intended, offered, refused, inside = counts
    return StreamCounts(
        stream=number,
        tx_port=stream.tx_port,
        rx_port=stream.rx_port,
        intended=intended,
        offered=offered,
        refused=refused,
        shortfall=intended - offered,
        sent=offered - refused,
        received=offered - refused - inside,
        lost=inside,
        duplicated=0,
        reordered=0,
        corrupt=0,
        latency=latency,
        last_loss_s=last_loss_s,
    )


def port_counts(streams: Sequence[StreamCounts]) -> tuple[PortCounts, ...]:
    """The account of every port that a stream names, if nothing else passed it."""
    names = dict.fromkeys(name for stream in streams for name in (stream.tx_port, stream.rx_port) if name is not None)
    return tuple(
        PortCounts(
            name=name,
            sent=sum(stream.sent for stream in streams if stream.tx_port == name),
            refused=sum(stream.refused for stream in streams if stream.tx_port == name),
            received=sum(stream.received or 0 for stream in streams if stream.rx_port == name),
            foreign=0,
            late=0,
            rx_missed=0,
            stats={},
        )
        for name in names
    )

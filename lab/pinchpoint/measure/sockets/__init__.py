"""Workloads over kernel sockets between two hosts."""

from typing import Final

from pinchpoint.measure.kind import TWO_HOSTS, Check, MeasureKind
from pinchpoint.measure.sockets.keys import (
    SOCKETS,
    Bandwidth,
    ConnectRequestResponse,
    RequestResponse,
    Sockets,
    check_requests,
    check_stream,
)
from pinchpoint.measure.sockets.run import expected_s, measure_sockets
from pinchpoint.model.terms import THREAD_BUSY

BUSY: Final = ("client busy", "server busy", "relay busy", THREAD_BUSY, "cycles per packet")
TRANSACTIONS: Final = ("transactions", "latency p50", "latency p99", "latency p99.9", "failed share", *BUSY)


def _kind(made: type[Sockets], finds: str, main: tuple[str, ...], check: Check) -> MeasureKind:
    return MeasureKind(
        made=made,
        finds=finds,
        table=lambda _: SOCKETS,
        run=measure_sockets,
        expected_s=expected_s,
        main=main,
        needs=TWO_HOSTS,
        check=check,
        made_of="window",
    )


MEASURES: Final = (
    _kind(Bandwidth, "TCP goodput between two hosts", ("goodput", "retransmits", *BUSY), check_stream),
    _kind(RequestResponse, "requests over standing connections", TRANSACTIONS, check_requests),
    _kind(ConnectRequestResponse, "a connection for each request", TRANSACTIONS, check_requests),
)

"""Builders of engine results and trials whose every number a test may set."""

from collections.abc import Mapping, Sequence
from typing import Any

from pinchpoint.engine.instrument import EngineResult, PortCounts
from pinchpoint.model.measurement import Measurement
from pinchpoint.model.trial import (
    BusyBy,
    Hop,
    Ledger,
    StreamCounts,
    ThreadLoad,
    ThreadWitness,
    Trial,
    TrialValidity,
    Witness,
    WorkerWitness,
)


def stream_counts(
    offered: int = 1000,
    refused: int = 0,
    received: int = 1000,
    corrupt: int = 0,
    shortfall: int = 0,
) -> StreamCounts:
    """One stream's account from left to right."""
    sent = offered - refused
    return StreamCounts(
        stream=0,
        tx_port="left",
        rx_port="right",
        intended=offered + shortfall,
        offered=offered,
        refused=refused,
        shortfall=shortfall,
        sent=sent,
        received=received,
        lost=sent - received,
        duplicated=0,
        reordered=0,
        corrupt=corrupt,
        latency=None,
    )


def port(name: str, sent: int = 0, refused: int = 0, received: int = 0, rx_missed: int | None = None) -> PortCounts:
    """One engine port's account."""
    return PortCounts(name, sent, refused, received, 0, 0, rx_missed, {})


def worker(busy_share: float = 0.5, gap_max_ns: int = 5000) -> WorkerWitness:
    """An engine core that noticed nothing."""
    return WorkerWitness(0, busy_share, 20000, 0, 0, gap_max_ns, None, 0.0, 0, 0)


def engine_result(
    streams: Sequence[StreamCounts],
    ports: Sequence[PortCounts] = (),
    workers: Sequence[WorkerWitness] = (),
) -> EngineResult:
    """A completed trial of one second."""
    return EngineResult(True, 1.0, tuple(streams), tuple(ports), tuple(workers), None, None)


def thread_load(busy_share: float = 0.5, cycles_per_packet: float = 500.0) -> ThreadLoad:
    """A core of Open vSwitch that polls, at 2.6 GHz; its exact-match cache answers."""
    hits = {"simple_match_hits": 0, "emc_hits": 1000, "smc_hits": 0, "megaflow_hits": 0, "upcalls": 0}
    return ThreadLoad(
        "PMD core 1", 1, 1000, 0, busy_share, BusyBy.CYCLES, cycles_per_packet, 2.6e9, slow_path=0, detail=hits
    )


def trial(
    load_fps: float = 1000.0,
    *,
    hops: Sequence[Hop] = (),
    counts: StreamCounts | None = None,
    threads: Sequence[ThreadLoad] = (),
    engine_busy: float = 0.5,
    validity: TrialValidity = TrialValidity.VALID,
    cache_line: tuple[float | None, float | None] = (None, None),
    steal_s: Mapping[int, float] | None = None,
    run_delay_ns: int | None = None,
    ipc: Mapping[int, tuple[float | None, float | None]] | None = None,
    number: int = 1,
) -> Trial:
    """A search trial of one second."""
    account = counts or stream_counts(offered=int(load_fps), received=int(load_fps))
    witnesses = () if run_delay_ns is None else (ThreadWitness("pmd-c01", 1, run_delay_ns, 0),)
    return Trial(
        id=f"t-{number:04d}",
        scenario="t",
        phase="search",
        repeat=0,
        started="2026-01-02T03:04:05+00:00",
        duration_s=1.0,
        load_fps=load_fps,
        sent_duration_s=1.0,
        wall_s=1.2,
        intended=account.intended or 0,
        offered=account.offered,
        received=account.received,
        streams=(account,),
        ledger=Ledger(account.offered, account.received, tuple(hops)),
        witness=Witness((worker(engine_busy),), witnesses, steal_s or {}, *cache_line, ipc=ipc or {}),
        threads=tuple(threads),
        observed={},
        validity=validity,
        reason="" if validity is TrialValidity.VALID else "made so",
    )


def measurement(
    kind: str = "rr", number: int = 1, validity: TrialValidity = TrialValidity.VALID, reason: str = "", **other: Any
) -> Measurement:
    """A record of anything but frames, of the scenario `m`; the rest of it as given, or empty."""
    about = {"id": f"m-{number:04d}", "scenario": "m", "started": "2026-01-02T03:04:05Z", "wall_s": 1.0}
    empty: dict[str, Any] = {"metrics": (), "account": {}, "observed": {}, "threads": ()}
    return Measurement(
        **{**about, **empty, "kind": kind, "repeat": number, "validity": validity, "reason": reason, **other}
    )

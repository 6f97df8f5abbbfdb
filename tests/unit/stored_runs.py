"""Stored runs of the shipped quickstart's first scenario, made up: for tests of trends."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
from sweeps import base, measured

from pinchpoint.model.result import CacheLine, RunInfo, RunResult
from pinchpoint.model.scenario import SearchMethod
from pinchpoint.scenario.plain import to_plain
from pinchpoint.store.codec import SCHEMA

HOST = {"kernel": "6.1.0", "memory": "15.6 GiB"}
VERSIONS = {"pinchpoint": "0.1.0", "switch br": "3.1.0"}
BEGIN = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)


def stored_run(
    number: int,
    ndr_fps: float,
    *,
    host: Mapping[str, str] = HOST,
    versions: Mapping[str, str] = VERSIONS,
    ring: int | None = None,
    method: SearchMethod = SearchMethod.MLRSEARCH,
    distance_ns: float = 30.0,
) -> tuple[RunInfo, RunResult]:
    """The run of day `number`."""
    scenario = base()
    if ring is not None:
        scenario = replace(scenario, ports=tuple(replace(port, ring=ring) for port in scenario.ports))
    run_id = f"forward-{number:03d}"
    info = RunInfo(
        schema=SCHEMA,
        run_id=run_id,
        started=(BEGIN + timedelta(days=number)).isoformat(),
        argv=("pinchpoint",),
        scenarios=(to_plain(scenario),),
        sources={},
        plans={},
        versions=versions,
        host=host,
    )
    result = measured(scenario, ndr_fps, low=ndr_fps * 0.999, high=ndr_fps * 1.001)
    cores = CacheLine(distance_ns, distance_ns, distance_ns, 10, 0.0, "")
    result = replace(result, rates=(replace(result.rates[0], method=method),), cache_line=cores)
    return info, RunResult(SCHEMA, run_id, True, (result,))


def history(levels: Sequence[float], first: int = 0) -> list[tuple[RunInfo, RunResult]]:
    """A run a day at these levels, with noise of 1 %."""
    noise = np.random.default_rng(7).normal(1, 0.01, 500)
    return [stored_run(first + i, float(level * noise[first + i])) for i, level in enumerate(levels)]

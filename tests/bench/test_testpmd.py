"""DPDK's testpmd as the device, over both of its kinds of rings."""

import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from bench_tools import PINCHPOINT, STATE, kill_lab, marked_processes, start, wait_for, what_is_there

from pinchpoint.dut.setup import prepare
from pinchpoint.engine.instrument import HIGHEST_FPS
from pinchpoint.engine.process import find_engine
from pinchpoint.host.local import Local
from pinchpoint.host.machines import Machines
from pinchpoint.host.priority import preferred
from pinchpoint.host.processes import freeze, thaw
from pinchpoint.measure.frames import measuring
from pinchpoint.measure.standing import Listener, Standing, Task, standing_bench
from pinchpoint.model.trial import TrialValidity
from pinchpoint.scenario.read import parse

pytestmark = [pytest.mark.tier2("device:testpmd"), pytest.mark.needs("testpmd", "dpdk")]

SCENARIO = """
measure = "rates"
[dut]
kind = "testpmd"
io = "{io}"
mode = "{mode}"
[[port]]
name = "left"
[[port]]
name = "right"
ring = 64
[engine]
cpus = [0]
[[stream]]
from = "left"
to = "right"
"""


@contextmanager
def bench(tmp_path, io, mode="io"):
    """A measurer of a bench that stands."""
    setup = prepare(parse(SCENARIO.replace("{io}", io).replace("{mode}", mode), "testpmd.toml"), Machines(Local()))
    task = Task(engine_log=tmp_path / "engine.log")
    with preferred(), standing_bench(setup, Listener()):
        live = setup.bench.open()
        try:
            standing = Standing(setup, live, [find_engine(Local())], task, time.monotonic())
            with measuring(standing) as measurer:
                yield measurer
        finally:
            live.close()


@pytest.mark.parametrize("mode", ["io", pytest.param("macswap", marks=pytest.mark.tier1("device:testpmd")), "mac"])
def test_every_frame_of_a_low_load_is_counted_at_each_place(tmp_path, nothing_left, mode):
    with bench(tmp_path, "vhost-user", mode) as measurer:
        trial = measurer.trial("load", 0.3, 10_000)
    assert trial.validity is not TrialValidity.ABORTED, trial.reason
    assert trial.ledger.unexplained == 0
    assert trial.ledger.received > 0
    places = [hop.name for hop in trial.ledger.hops]
    assert places[1:-1] == ["testpmd receives", "testpmd forwards", "testpmd sends"]
    assert all(hop.frames_out is not None for hop in trial.ledger.hops)


@pytest.mark.parametrize("io", ["vhost-user", "memif"])
def test_frames_that_either_ring_refuses_are_named(tmp_path, nothing_left, io):
    """Testpmd stands still until its ring is full, then the engine while testpmd moves that to a smaller ring."""
    with bench(tmp_path, io) as measurer, ThreadPoolExecutor() as beside:
        low = measurer.trial("load", 0.3, 10_000)
        stops = beside.submit(stop_in_turn)
        high = measurer.trial("load", 0.6, HIGHEST_FPS)
        stops.result()
    for trial in (low, high):
        assert trial.validity is not TrialValidity.ABORTED, trial.reason
        assert trial.ledger.unexplained == 0, trial.ledger
        assert trial.threads[0].received == trial.ledger.hops[1].frames_out
        assert trial.threads[0].busy_share is None
    named = {drop.reason for hop in high.ledger.hops for drop in hop.drops}
    assert {"receive ring of {port} full", "transmit ring of {port} full"} <= named


def stop_in_turn():
    """Stop testpmd, then the engine; each runs again at the end."""
    pids = {(Path("/proc") / str(pid) / "comm").read_text().strip(): pid for pid in marked_processes()}
    testpmd, engine = pids["dpdk-testpmd"], pids["pinchpoint-engine"[:15]]  # as the kernel shortens names
    time.sleep(0.25)
    try:
        freeze(Local(), testpmd)
        time.sleep(0.1)
        freeze(Local(), engine)
        thaw(Local(), testpmd)
        time.sleep(0.05)
    finally:
        thaw(Local(), testpmd)
        thaw(Local(), engine)


def test_clean_removes_what_a_killed_run_left(tmp_path, nothing_left):
    file = tmp_path / "killed.toml"
    file.write_text(SCENARIO.replace("{io}", "vhost-user").replace("{mode}", "io"))
    run = start("run", file, "--out", tmp_path / "out")
    try:
        wait_for(lambda: list(STATE.glob("*/dpdk/rte/dpdk_telemetry.v2")), "testpmd")
    finally:
        kill_lab(run)
    left = what_is_there()
    assert left.processes and left.state
    subprocess.run([PINCHPOINT, "clean"], check=True, timeout=60)

"""What the lab says of a device whose truth is known, with real frames: its rate, and who lost what where.

The reference device is paced by the clock, so its rate does not depend on how fast the host is. Whether frames arrive
evenly does: a core of the engine that stood still sends what was due in one burst.
"""

import os
import signal
import time
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import pytest
from bench_tools import pid_of

from pinchpoint.dut.setup import prepare
from pinchpoint.engine.process import find_engine
from pinchpoint.host.local import Local
from pinchpoint.host.machines import Machines
from pinchpoint.host.priority import preferred
from pinchpoint.measure.frames import measuring
from pinchpoint.measure.standing import Listener, Standing, Task, standing_bench
from pinchpoint.model.errors import DutError
from pinchpoint.model.trial import TrialValidity
from pinchpoint.scenario import parse
from pinchpoint.search.rates import find_rates

pytestmark = [pytest.mark.usefixtures("nothing_left"), pytest.mark.tier2("device:reference")]
TRIAL_S = 0.5
# The ring before the device holds what arrives at this load while its core is paused; a pause of the engine's core is a
# small part of a trial this long.
LOW_FPS, LOW_S = 2_000, 1.0
USABLE = (TrialValidity.VALID, TrialValidity.GENERATOR_LIMITED)
SCENARIO = """
[dut]
kind = "reference"
cpus = [1]
{dut}
[[port]]
name = "left"
[[port]]
name = "right"
[engine]
cpus = [0]
[[stream]]
from = "left"
to = "right"
[search]
initial_trial_duration_s = 0.2
trial_duration_s = {trial_s}
max_traffic_s = 5.0
max_load_fps = {most_fps}
[validity]
gap_shortfall_ratio = 0.5
"""


def scenario(dut, most_fps=10e6):
    return parse(SCENARIO.format(dut=dut, trial_s=TRIAL_S, most_fps=most_fps), "reference.toml")


@contextmanager
def standing(wanted):
    """The bench of `wanted` stands inside the block; hands out its device and what runs a trial at a load."""
    setup = prepare(wanted, Machines(Local()))
    with preferred(), standing_bench(setup, Listener()), closing(setup.bench.open()) as live:
        bench = Standing(setup, live, [find_engine(Local())], Task(), time.monotonic())
        with measuring(bench) as measurer:
            yield live, partial(measurer.trial, "search")


def drops(trial):
    return {drop.name: drop.frames for hop in trial.ledger.hops for drop in hop.drops if drop.frames}


@pytest.mark.parametrize(("rate_fps", "ring"), [(50_000, 4096), (500_000, 64), (2_000_000, 64)])
def test_no_published_interval_lies_above_the_truth_and_every_lost_frame_is_booked(rate_fps, ring):
    wanted = scenario(f"rate_fps = {rate_fps}\nring = {ring}", most_fps=4 * rate_fps)
    trials = []

    def kept(duration_s, load_fps):
        trials.append(measure(duration_s, load_fps))
        return trials[-1]

    with standing(wanted) as (_, measure):
        outcome = find_rates(kept, wanted.search, time.monotonic)
    true_fps = rate_fps + ring / TRIAL_S  # what the ring holds in the end is still forwarded
    assert outcome.rates
    for rate in outcome.rates:
        most_fps = 1.02 * true_fps / (1 - rate.loss_ratio)
        lowest_fps = rate.quoted_fps if rate.lower_fps is None else rate.lower_fps
        assert lowest_fps is None or lowest_fps <= most_fps
    for trial in trials:
        assert trial.ledger.unexplained == 0
    top = trials[0]
    assert top.load_fps > 2 * true_fps
    assert drops(top)["ring of the device behind left full"] > 0
    for trial in trials:
        if trial.lost and trial.offered_fps < 0.99 * true_fps:
            # A burst after the engine's core stood still, or the device's core that did.
            engine_ns = max(worker.gap_max_ns for worker in trial.witness.workers)
            stood_still_ns = max(engine_ns, trial.observed["reference/gaps_ns"])
            assert stood_still_ns > 1e9 * ring / 4 / rate_fps or "receive ring of left full" in drops(trial)


PLANTED = [
    pytest.param(
        "rx_loss = 0.02", "lost behind the ring of left", "dut", id="ring", marks=pytest.mark.tier1("device:reference")
    ),
    pytest.param("table_loss = 0.02", "lost in the table behind left", "dut", id="table"),
    pytest.param("tx_loss = 0.02", "lost before right", "dut", id="before"),
    pytest.param('drop = "protocol=udp,every=50"', "dropped by a rule behind left", "rules", id="rule"),
]


@pytest.mark.parametrize(("dut", "place", "party"), PLANTED)
def test_frames_lost_at_a_planted_place_are_booked_there_all_of_them(dut, place, party):
    with standing(scenario(dut)) as (live, measure):
        before = live.ports.account()
        trial = measure(LOW_S, LOW_FPS)
        after = live.ports.account()
    assert trial.validity in USABLE
    (true,) = {
        truth.received - truth.sent - (earlier.received - earlier.sent)
        for truth, earlier in zip(after.truth, before.truth, strict=True)
        if truth.received > earlier.received
    }
    assert true > 0
    named = {drop.name: (drop.frames, drop.limits) for hop in trial.ledger.hops for drop in hop.drops if drop.frames}
    assert named == {place: (true, party)}
    assert trial.ledger.unexplained == 0


@pytest.mark.parametrize("hides", ["rx", "table", "tx"])
def test_a_loss_that_no_counter_names_stays_unexplained_and_is_as_large_as_the_truth(hides):
    with standing(scenario(f'{hides}_loss = 0.02\nhides = "{hides}"')) as (live, measure):
        trial = measure(LOW_S, LOW_FPS)
        truth = live.ports.account().truth[0]
    assert not drops(trial)
    assert trial.ledger.unexplained == trial.lost == truth.received - truth.sent > 0


def test_a_flag_that_lies_is_recorded_beside_the_frames_that_software_served():
    with standing(scenario("offloaded = true")) as (live, measure):
        claimed = live.ready()["reference offloaded"]
        measure(LOW_S, LOW_FPS)
        served = live.ports.snapshot().counters["reference/port/left/software_frames"]
    assert (claimed, served > 0) == ("yes", True)


def test_a_device_that_is_killed_is_named_with_its_log_and_nothing_of_it_stays():
    with standing(scenario("ring = 64")) as (live, _), pytest.raises(DutError, match="reference is gone"):
        (process,) = (pid for pid in pid_of("bin/pinchpoint-engine") if "forward" in command_of(pid))
        os.kill(process, signal.SIGKILL)
        live.ports.account()


def command_of(pid):
    return Path(f"/proc/{pid}/cmdline").read_text().split("\0")

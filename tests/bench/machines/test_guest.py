"""Devices in a guest: their accounts close, and nothing stays of a guest that is killed, dies or never boots."""

import os
import signal
import threading
from contextlib import contextmanager
from dataclasses import replace

import pytest
from bench_tools import STATE, kill_lab, run, start_watched, wait_for, what_is_there
from standing_tools import standing

from pinchpoint.bench.resource import GuestKernel
from pinchpoint.host.guest_kernels import KERNELS
from pinchpoint.model.errors import BenchError, DutError, RequirementError
from pinchpoint.scenario import parse

pytestmark = [pytest.mark.usefixtures("nothing_left"), pytest.mark.tier2("guest:uml"), pytest.mark.needs("uml")]
ONLY_GUESTS = pytest.mark.subject(target="test-guests")
LOW_FPS = 2_000  # the queue of a tap (1,000 frames) holds what arrives while the guest is paused
SCENARIO = """
title = "a device in a guest"
[guest]
kernel = "uml"
memory_mb = 256
[dut]
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
ipv4_dst = "198.19.0.1-198.19.0.20"
"""
DUTS = {
    "bridge": 'kind = "bridge"\ncpus = [1]',
    "nft": 'kind = "nft"\ncpus = [1]',
    "ovs": 'kind = "ovs"\ndatapath = "kernel"\npmd_cpus = [1]\nrules = "in_port={left},actions=output:{right}"',
}


def scenario(kind):
    return parse(SCENARIO.format(dut=DUTS[kind]), "guest.toml")


@pytest.mark.parametrize(
    "kind", ["bridge", "nft", pytest.param("ovs", marks=pytest.mark.tier1("datapath:kernel", "guest:uml"))]
)
def test_every_frame_of_a_low_load_arrives_and_is_seen_at_every_place(kind):
    with standing(scenario(kind)) as (live, trial):
        facts, low = live.ready(), trial(LOW_FPS)
    account, seen = low.ledger, low.observed
    assert facts["guest's kernel"] != os.uname().release
    assert account.offered > 0
    assert account.unexplained == 0, account
    assert account.received == account.offered, account
    assert [hop.frames_in for hop in account.hops[1:-1]] == [account.offered] * (len(account.hops) - 2), account
    (load,) = low.threads
    assert (load.cpu, load.received) == (1, account.offered), "its kernel runs on the device's CPU"
    assert not [name for name in seen if name.startswith("host/softnet/")], "that would be this machine's"
    if kind != "ovs":
        assert seen["guest/softnet/0/processed"] >= account.offered


@pytest.mark.parametrize("kind", [pytest.param("bridge", marks=ONLY_GUESTS), "ovs"])
def test_frames_that_the_guest_has_no_time_for_are_the_devices_loss_and_are_counted(kind):
    waits = replace(scenario(kind).search, drain_s=2)  # longer than a busy host stretches a pause of the guest
    with standing(replace(scenario(kind), search=waits)) as (_, trial):
        trial(LOW_FPS)  # a switch has its flow then: its program, which has no time either, is asked for nothing
        with stopped_again_and_again(guests_kernel()):
            low = trial(100_000)
    lost = [drop for hop in low.ledger.hops for drop in hop.drops]
    assert lost, low.ledger
    assert {drop.limits for drop in lost} == {"dut"}, lost
    assert low.ledger.unexplained == 0, low.ledger


@contextmanager
def stopped_again_and_again(pid):
    """Most of the time, and each time for longer than a tap's queue lasts at 10,000 frames a second."""
    over = threading.Event()

    def stop():
        while not over.wait(0.05):
            os.kill(pid, signal.SIGSTOP)
            over.wait(0.1)
            os.kill(pid, signal.SIGCONT)

    thread = threading.Thread(target=stop)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def guests_kernel():
    """The process that is the guest's kernel."""
    (pidfile,) = STATE.glob("*/guest-kernel.pid")
    return int(pidfile.read_text())


def test_a_guest_that_does_not_boot_in_time_is_told_with_what_it_printed(monkeypatch):
    monkeypatch.setattr(GuestKernel, "BOOT_TIMEOUT_S", 0.1)
    with pytest.raises(BenchError, match=r"^the guest did not boot within 0.1 s"), standing(scenario("bridge")):
        pass


def test_a_guest_that_panics_is_given_up_at_once(monkeypatch):
    """As the first process of its namespace it would repeat SIGABRT for ever."""
    uml = KERNELS["uml"]
    boots = uml.command

    def without_init(*arguments):
        return tuple(word.replace("init=/bin/sh", "init=/nonexistent") for word in boots(*arguments))

    monkeypatch.setattr(uml, "command", without_init)
    panic = r"Kernel panic - not syncing: Requested init /nonexistent failed"
    with pytest.raises(RequirementError, match=panic) as error, standing(scenario("bridge")):
        pass
    (told, *printed) = error.value.message.splitlines()
    assert panic in told and panic in printed[-1], "nothing of the stack"


def test_a_guest_that_dies_is_told():
    with pytest.raises(DutError, match="the guest does not answer"), standing(scenario("bridge")) as (_, trial):
        os.kill(guests_kernel(), signal.SIGKILL)
        trial(LOW_FPS)


@pytest.mark.parametrize(
    "moment",
    [
        "linux.uml",
        *(pytest.param(later, marks=ONLY_GUESTS) for later in ("in the guest: ip netns add", "  ·  latency")),
    ],
)
def test_a_lab_killed_while_its_guest_boots_or_stands_is_cleaned_up_after(moment, tmp_path):
    path = tmp_path / "guest.toml"
    path.write_text(SCENARIO.format(dut=DUTS["bridge"]) + "[search]\nmax_traffic_s = 2\n")
    watched = start_watched(tmp_path / "stderr", "run", path, "--out", tmp_path / "runs")
    watched.wait_until_it_says(moment)
    wait_for(lambda: what_is_there().processes, "a process of the bench")
    kill_lab(watched.process)
    left = what_is_there()
    assert left.namespaces
    assert left.processes
    assert run("clean").returncode == 0

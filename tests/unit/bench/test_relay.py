"""A relay as a resource: started detached, ready before anything uses it, asked, ended, told when it fails."""

import os
import sys
from pathlib import Path, PurePosixPath

import pytest

from pinchpoint.bench import actions
from pinchpoint.bench.actions import ask_relay, create, remove
from pinchpoint.bench.resource import Relay
from pinchpoint.dut.attach import host_relay, plain_frames
from pinchpoint.dut.places import Places
from pinchpoint.host.local import Local
from pinchpoint.host.processes import ENVIRONMENT_MARK, marked_pids
from pinchpoint.model.errors import BenchError, DutError

READY = """
import signal, sys, time
signal.signal(signal.SIGUSR1, lambda *_: print('{"told": 1}', flush=True))
signal.signal(signal.SIGTERM, lambda *_: sys.exit(print('{"told": 2}', flush=True)))
print("ready", flush=True)
while True:
    time.sleep(60)
"""
FAILS = "import sys; sys.exit('no port is free')"


def running(tmp_path, program):
    return Relay(
        name="relay",
        argv=(sys.executable, "-c", program),
        directions=(("h", "p"), ("p", "h")),
        pidfile=f"{tmp_path}/relay.pid",
        account=f"{tmp_path}/relay.account",
        log=f"{tmp_path}/relay.log",
        bench_id=f"unit{os.getpid()}",
        cpu=min(os.sched_getaffinity(0)),
    )


def test_a_relay_is_ready_marked_and_alone_in_its_session_when_it_has_been_created(tmp_path):
    resource = running(tmp_path, READY)
    create(resource, Local())
    try:
        pid = int((tmp_path / "relay.pid").read_text())
        assert list(marked_pids(Local(), resource.bench_id)) == [pid]
        assert os.getsid(pid) == pid
        assert os.sched_getaffinity(pid) == {resource.cpu}
        assert ask_relay(resource, Local()) == '{"told": 1}'
    finally:
        remove(resource, Local())
    assert (tmp_path / "relay.account").read_text().splitlines()[-1] == '{"told": 2}'
    assert not Path(f"/proc/{pid}").exists(), "not even a zombie"
    remove(resource, Local())


def test_one_that_cannot_start_is_told_in_its_own_words(tmp_path):
    with pytest.raises(BenchError, match=r"relay did not start[\s\S]*no port is free"):
        create(running(tmp_path, FAILS), Local())


def test_one_that_is_never_ready_is_told_and_can_be_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(Relay, "LINK_TIMEOUT_S", 0.1)
    resource = running(tmp_path, "import time; time.sleep(60)")
    with pytest.raises(BenchError, match="not every link came up"):
        create(resource, Local())
    remove(resource, Local())
    assert not list(marked_pids(Local(), resource.bench_id))


def test_one_that_is_gone_cannot_be_asked(tmp_path):
    resource = running(tmp_path, READY)
    create(resource, Local())
    remove(resource, Local())
    with pytest.raises(DutError, match="relay is gone"):
        ask_relay(resource, Local())


def test_one_that_ends_between_being_found_and_being_asked_is_gone(tmp_path, monkeypatch):
    resource = running(tmp_path, READY)
    create(resource, Local())
    pid = int((tmp_path / "relay.pid").read_text())
    remove(resource, Local())
    monkeypatch.setattr(actions, "_named_pid", lambda *_: pid)
    with pytest.raises(DutError, match="relay is gone"):
        ask_relay(resource, Local())


def test_one_that_ends_once_it_is_asked_is_gone(tmp_path):
    resource = running(tmp_path, "import time; print('ready', flush=True); time.sleep(60)")
    create(resource, Local())
    with pytest.raises(DutError, match="relay is gone"):
        ask_relay(resource, Local())  # SIGUSR1 ends it
    remove(resource, Local())


def test_only_what_it_tells_after_being_asked_is_read(tmp_path):
    resource = running(tmp_path, READY)
    create(resource, Local())
    try:
        with (tmp_path / "relay.account").open("a") as account:
            account.write('{"told": "long ago"}\n' * 1000)
        assert [ask_relay(resource, Local()) for _ in range(3)] == ['{"told": 1}'] * 3
    finally:
        remove(resource, Local())


def test_a_link_is_a_packet_socket_and_a_vhost_user_server():
    places = Places("1", PurePosixPath("/d"), Local())
    made = host_relay(places, ("engine",), ["a", "b"], cpu=3)
    assert made.argv[:6] == (
        "engine",
        "relay",
        "af_packet:a@pp-1-dut",
        "dpdk:net_virtio_user0,path=/d/vhost-a.sock,server=1,queues=1,queue_size=1024",
        "af_packet:b@pp-1-dut",
        "dpdk:net_virtio_user1,path=/d/vhost-b.sock,server=1,queues=1,queue_size=1024",
    )
    assert made.argv[made.argv.index("--core") + 1] == "3"
    ways = [(host, f"{host} at the switch") for host in "ab"]
    assert made.directions == (ways[0], ways[0][::-1], ways[1], ways[1][::-1]), "no two have the same counters"
    assert plain_frames("eth0", "ns").describe().startswith("ip netns exec ns ethtool -K eth0 tx off tso off")


def test_the_mark_is_the_bench_s_own(tmp_path):
    resource = running(tmp_path, "import os, sys; sys.exit(os.environ['" + ENVIRONMENT_MARK + "'])")
    with pytest.raises(BenchError, match=resource.bench_id):
        create(resource, Local())

"""Other generators at a wire that is watched: what they sent is known, and is what is reported."""

import json
import re
import sys

import pytest
from bench_tools import ROOT, STATE, kill_lab, pid_of, run, start, wait_for

from pinchpoint.engine.process import find_engine
from pinchpoint.host.local import Local

pytestmark = [pytest.mark.usefixtures("nothing_left"), pytest.mark.tier2("generators of others")]

SENDER = """
import socket, struct, sys, time
def checksum(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    return ~(total + (total >> 16)) & 0xFFFF
def frame(flow, is_wrong):
    ip = bytearray(struct.pack("!BBHHHBBH4s4s", 0x45, 0, 86, 0, 0, 64, 17, 0, bytes([10, 0, 0, flow]), bytes(4)))
    ip[10:12] = struct.pack("!H", checksum(ip) ^ is_wrong)
    return bytes(12) + b"\\x08\\x00" + bytes(ip) + struct.pack("!HHHH", 1000, 53, 66, 0) + bytes(58)
out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
out.bind((sys.argv[1], 0))
for number in range(3000):
    out.send(frame(number % 7, number < 5))
    if number % 100 == 0:
        time.sleep(0.01)
time.sleep(float(sys.argv[2]))
"""


@pytest.fixture
def sender(tmp_path):
    """The path of a program: 3,000 frames of 7 flows into an interface, five of them with a wrong checksum."""
    path = tmp_path / "sender.py"
    path.write_text(SENDER)
    return f"{sys.executable} {path}"


@pytest.mark.tier1("generators of others")
def test_all_that_another_generator_sends_through_the_kernel_is_counted_and_looked_into(scenario, sender):
    done = run("ceiling", scenario(datapath="af_packet"), "--json", "--generator", f"{sender} {{left}} 0")
    assert done.returncode == 0, done.stderr
    ceiling = json.loads(done.stdout)
    left, right = ceiling["sent"]
    assert (left["port"], left["frames"] + left["missed"], right["frames"]) == ("left", 3000, 0)
    assert (left["shortest"], left["longest"], left["flows"]) == (100, 100, 7)
    assert left["missed"] > 0 or left["wrong_checksums"] == 5
    assert ceiling["ended"] == "ended by itself" and not ceiling["wire"]["carries"]


def test_a_generator_of_dpdk_serves_the_sockets_and_its_frames_are_carried(scenario):
    ports = [
        f"dpdk:net_virtio_user{number},path={{{port}}},server=1,queues=1,queue_size=1024"
        for number, port in enumerate(("left", "right"))
    ]
    traffic = "--rate 10k --time 1s --flows 8 --eal '--no-pci --in-memory --single-file-segments -m 128'"
    command = f"{find_engine(Local())} send --from {ports[0]} --to {ports[1]} {traffic} --rx-ring 1024 --tx-ring 1024"
    done = run("ceiling", scenario(), "--json", "--for", "30s", "--generator", command)
    assert done.returncode == 0, done.stderr
    ceiling = json.loads(done.stdout)
    left, right = ceiling["sent"]
    assert ceiling["ended"] == "ended by itself", "the account of the command was closed"
    assert 0 < left["frames"] <= 10_000 and right["frames"] == 0
    assert 0 < left["flows"] <= 8 and left["wrong_checksums"] == 0 and 0 < left["checked"] < left["frames"]
    assert ceiling["wire"]["carries"]


DOCUMENTED = re.compile(r'`--generator "(dpdk-testpmd [^"]+)"`')


def test_testpmd_as_docs_have_it_sends_through_the_wire(scenario):
    (command,) = DOCUMENTED.findall((ROOT / "docs" / "engine.md").read_text())
    done = run("ceiling", scenario(), "--json", "--for", "5s", "--generator", command)
    assert done.returncode == 0, done.stderr
    ceiling = json.loads(done.stdout)
    assert ceiling["ended"] == "stopped after 5 s" and ceiling["wire"]["carries"]
    assert {link["port"] for link in ceiling["sent"] if link["frames"] > 10_000} == {"left", "right"}


def test_testpmd_whose_memory_is_of_many_files_is_told_what_to_add(scenario):
    vdevs = " ".join(f"--vdev net_virtio_user{n},path={{{port}}},server=1" for n, port in enumerate(("left", "right")))
    command = f"dpdk-testpmd --in-memory --no-pci -m 256 {vdevs} -- --forward-mode=txonly --stats-period 1"
    done = run("ceiling", scenario(), "--for", "5s", "--generator", command)
    assert done.returncode == 4 and "--single-file-segments" in done.stderr


def test_a_generator_that_fails_is_an_error_with_its_own_words(scenario):
    command = f"{sys.executable} -c 'raise SystemExit(\"no such interface\")'"
    done = run("ceiling", scenario(datapath="af_packet"), "--generator", command)
    assert done.returncode == 4 and "ended with status 1: no such interface" in done.stderr


def test_a_generator_that_does_not_end_is_stopped_with_all_that_it_started(scenario, sender):
    command = f"sh -c '{sender} {{left}} 300 & {sender} {{right}} 300 & wait'"
    done = run("ceiling", scenario(datapath="af_packet"), "--json", "--for", "2s", "--generator", command)
    assert done.returncode == 0, done.stderr
    ceiling = json.loads(done.stdout)
    assert ceiling["ended"] == "stopped after 2 s"
    assert [link["frames"] + link["missed"] > 0 for link in ceiling["sent"]] == [True, True]
    assert not pid_of("sender.py")


def test_a_generator_whose_lab_is_killed_is_ended_by_clean(scenario, sender):
    command = f"{sender} {{left}} 300"
    process = start("ceiling", scenario(datapath="af_packet"), "--for", "300s", "--quiet", "--generator", command)
    wait_for(lambda: pid_of("sender.py") or process.poll() is not None, "the generator")
    kill_lab(process)
    assert pid_of("sender.py") and list(STATE.glob("*.journal"))
    done = run("clean")
    assert done.returncode == 0, done.stderr
    assert not pid_of("sender.py")

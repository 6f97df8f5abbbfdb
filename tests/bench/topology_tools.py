"""Benches that stand while a test looks at them, and what runs between their hosts."""

import subprocess
import sys
import time
from contextlib import closing, contextmanager
from dataclasses import replace

from pinchpoint.dut.ovs.places import Unixctl
from pinchpoint.dut.ovs.spec import Bridge, Datapath, OvsHost, Rule
from pinchpoint.dut.setup import prepare
from pinchpoint.engine.process import find_engine
from pinchpoint.host.local import Local
from pinchpoint.host.machines import Machines
from pinchpoint.host.priority import preferred
from pinchpoint.measure.frames import measuring
from pinchpoint.measure.standing import Listener, Standing, Task, standing_bench
from pinchpoint.scenario import parse

PLAIN = """
title = "a topology"
dut = { datapath = "af_packet", pmd_cpus = [1], rules = "actions=NORMAL" }
engine = { cpus = [0] }
port = [{ name = "left" }, { name = "right" }]
stream = [{ from = "left", to = "right" }]
"""
NORMAL = (Rule("actions=NORMAL"),)


def bridge(name, *rules):
    return Bridge(name, tuple(Rule(rule) for rule in rules) or NORMAL, ())


def host(name, address, on="br0", cpus=(0,)):
    return OvsHost(name, address, cpus, bridge=on)


def scenario(datapath="af_packet", *, bridges=(), ports=False, **changes):
    """A scenario of these parts; `ports` are left and right, with a stream from one to the other."""
    plain = parse(PLAIN, "topology.toml")
    of_dut = {name: changes.pop(name) for name in list(changes) if hasattr(plain.dut, name)}
    dut = replace(plain.dut, datapath=Datapath(datapath), bridges=tuple(bridges) or (bridge("br0"),), **of_dut)
    without = {} if ports else {"ports": (), "streams": ()}
    return replace(plain, dut=dut, **{**without, **changes})


@contextmanager
def stands(wanted):
    """The bench of `wanted` stands inside the block, preferred as in every run; hands out its Setup."""
    setup = prepare(wanted, Machines(Local()))
    with preferred(), standing_bench(setup, Listener()):
        yield setup


@contextmanager
def talking(setup):
    """The switch's control socket."""
    control = Unixctl(Local(), setup.places.control)
    try:
        yield control
    finally:
        control.close()


def within(netns, program, *arguments, timeout=20):
    """Run a Python program in a namespace; returns what it printed."""
    argv = ["ip", "netns", "exec", netns, sys.executable, "-c", program, *map(str, arguments)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=timeout, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


SERVER = """
import socket, sys
with socket.create_server((sys.argv[1], 7000)) as listening:
    listening.settimeout(15)
    print("listening", flush=True)
    connection, _ = listening.accept()
    connection.settimeout(15)
    received = 0
    while chunk := connection.recv(1 << 16):
        received += len(chunk)
    print(received, flush=True)
"""
CLIENT = """
import socket, sys
with socket.create_connection((sys.argv[1], 7000), timeout=15) as connection:
    connection.sendall(bytes(int(sys.argv[2])))
"""


def tcp_transfer(setup, client, server, count=3_000_000):
    """Bytes that arrived of `count` sent from one host to another over TCP."""
    address = server.address.split("/")[0]
    places = setup.places
    argv = ["ip", "netns", "exec", places.host_netns(server.name), sys.executable, "-c", SERVER, address]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as listening:
        try:
            assert listening.stdout.readline().strip() == "listening"
            within(places.host_netns(client.name), CLIENT, address, count)
            return int(listening.communicate(timeout=20)[0])
        finally:
            listening.kill()


# Sends to each address, so that the kernel asks for it, and prints those that were answered for.
NEIGHBOURS = """
import socket, sys, time
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sending:
    for address in sys.argv[1:]:
        sending.sendto(b"x", (address, 9))
time.sleep(1)
table = [line.split() for line in open("/proc/net/arp").readlines()[1:]]
known = {words[0]: words[3] for words in table if words[2] != "0x0"}
print(*(f"{address}={known[address]}" for address in sys.argv[1:] if address in known))
"""


def trial(setup, load_fps=20_000, duration_s=0.5):
    """One trial over the bench's ports, judged by nobody."""
    kept = []
    with (
        closing(setup.bench.open()) as live,
        measuring(Standing(setup, live, [find_engine(Local())], Task(keep=kept.append), time.monotonic())) as measurer,
    ):
        measurer.trial("search", 0.2, load_fps)  # the first frames go through upcalls
        return measurer.trial("search", duration_s, load_fps)


def asked(wanted, **tuning):
    """The scenario with these settings of its switch."""
    return replace(wanted, dut=replace(wanted.dut, tuning=replace(wanted.dut.tuning, **tuning)))

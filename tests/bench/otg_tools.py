"""`pinchpoint otg` on pairs of interfaces, and waiting for what it does."""

import subprocess
import time
from contextlib import contextmanager

import snappi
from bench_tools import PINCHPOINT

PORT = 18443
SPACES = ("pp-otg-a", "pp-otg-b")
WITHIN_S = 20.0


@contextmanager
def joined(pairs=1):
    """DEVICE@NETNS of the ends of `pairs` pairs of interfaces, in turn in two namespaces."""
    try:
        for space in SPACES:
            subprocess.run(["ip", "netns", "add", space], check=True)
        yield [place for number in range(pairs) for place in _pair(f"veth{number}")]
    finally:
        for space in SPACES:
            subprocess.run(["ip", "netns", "del", space], check=False)


def _pair(name):
    first, second = ends = [f"{name}-{side}" for side in "ab"]
    words = [first, "netns", SPACES[0], "type", "veth", "peer", "name", second, "netns", SPACES[1]]
    subprocess.run(["ip", "link", "add", *words], check=True)
    for space, end in zip(SPACES, ends, strict=True):
        for words in (["sysctl", "-qw", f"net.ipv6.conf.{end}.disable_ipv6=1"], ["ip", "link", "set", end, "up"]):
            subprocess.run(["ip", "netns", "exec", space, *words], check=True)
    return [f"{end}@{space}" for space, end in zip(SPACES, ends, strict=True)]


@contextmanager
def served(words):
    """The address of a server with these ports, which answers."""
    server = subprocess.Popen([PINCHPOINT, "otg", "--port", str(PORT), *words], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        address = server.stdout.readline().strip()
        assert address == f"http://127.0.0.1:{PORT}"
        wait_for(lambda: answers(snappi.api(location=address)))
        yield address
    finally:
        server.terminate()
        server.wait(WITHIN_S)
        server.stdout.close()


def answers(client):
    try:
        return client.get_version().app_version
    except OSError:  # it does not listen yet
        return None


def wait_for(condition, within_s=WITHIN_S):
    end = time.monotonic() + within_s
    while not (answer := condition()):
        assert time.monotonic() < end
        time.sleep(0.05)
    return answer


def lengths(capture):
    """How many bytes each frame of a pcap file has."""
    kept, at = [], 24
    while at < len(capture):
        kept.append(int.from_bytes(capture[at + 8 : at + 12], "little"))
        at += 16 + kept[-1]
    return kept

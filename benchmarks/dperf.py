"""dperf, a generator of connections on DPDK that does not come with Debian: a build of the user's own.

PINCHPOINT_DPERF names the program (packaging/build-dperf makes one that takes any port of DPDK's). Two of them, client
and server, have a core each. It is asked for more and more connections, a step each second, and its rate is the best
second of all: asked for more than it opens, it sends again what its full ring dropped, and completes fewer.
"""

import os
import re
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from contest import Sample
from peers import Peer, peer

VARIABLE = "PINCHPOINT_DPERF"
PAGES = 775  # of 2 MiB, for each of the two: 0.5 GB of sockets, and five pools of 65,536 buffers
RISE_S = 20  # in which it reaches what it is asked for; 10 are its least
_EAL = ("--no-pci", "--in-memory", "--single-file-segments", "-m", "1500")
_SOCKETS = 60_000  # that it makes for each client address, and a few more
_STEADY_S = 2
_LONGEST_S = 120  # of one sample
_SECOND = re.compile(r"skOpen\s+([\d,]+)\s+skClose\s+([\d,]+)\s+skCon\s+[\d,]+\s+skErr\s+([\d,]+)")
_COLOURS = re.compile(r"\x1b\[[\d;]*m")
_SERVER, _CLIENT = "10.0.0.100", "10.0.1.1"
_PORT = "000000000000"  # DPDK's port 0, in the twelve characters that it takes


def program() -> str:
    """Its path; empty where none is named."""
    return os.environ.get(VARIABLE, "")


def missing() -> str | None:
    """Why it cannot take part, and what mends it."""
    path = program()
    if not path:
        return f"{VARIABLE} names no program: packaging/build-dperf DPERF_TREE FOLDER builds one"
    return None if os.access(path, os.X_OK) else f"{VARIABLE}: not executable: {path}"


@dataclass(frozen=True)
class End:
    """One of the two: its core, its port as EAL takes it, and the namespace that the port needs."""

    core: int
    vdev: str
    netns: str | None = None


def measured(client: End, server: End, most_cps: int, folder: Path, listens: Callable[[], object]) -> Sample:
    """Whole connections a second: handshake, request, response, FINs. Raises RuntimeError where it opens none.

    `most_cps`: what it is asked for at last. `listens` returns once the server's port is there.
    """
    clients = -(-2 * most_cps // _SOCKETS)  # it wants room for two seconds of connections
    serving = _lines(server, "server", clients, _LONGEST_S, _SERVER, _CLIENT)
    rising = (f"cps {most_cps}", f"slow_start {RISE_S}", "launch_num 10")
    asking = [*_lines(client, "client", clients, _STEADY_S, _CLIENT, _SERVER), *rising]
    with _running(server, folder / "dperf-server.conf", serving) as answering:
        listens()
        with _running(client, folder / "dperf-client.conf", asking) as running:
            try:
                return Sample(best_second(running.ended(_LONGEST_S)))
            except subprocess.TimeoutExpired:
                last = " | ".join(answering.said().splitlines()[-2:])
                raise RuntimeError(f"dperf's client did not end in {_LONGEST_S} s; its server said: {last}") from None


def best_second(said: str) -> float:
    """The most connections that it closed without an error in one second. Raises RuntimeError if there were none."""
    seconds = _COLOURS.sub("", said).partition("Test Finished")[0]
    counts = [[int(number.replace(",", "")) for number in numbers] for numbers in _SECOND.findall(seconds)]
    best = max((closed - failed for _, closed, failed in counts), default=0)
    if best <= 0:
        raise RuntimeError(f"dperf completed no connection: {' | '.join(said.splitlines()[-3:])}")
    return float(best)


def _lines(end: End, mode: str, clients: int, seconds: int, own: str, other: str) -> list[str]:
    """What its configuration says for both; each is the other's gateway."""
    return [
        f"mode {mode}",
        f"cpu {end.core}",
        f"duration {seconds}s",
        "tx_burst 128",
        f"port {_PORT} {own} {other}",
        f"client {_CLIENT} {clients}",
        f"server {_SERVER} 1",
        "listen 80 1",
    ]


@contextmanager
def _running(end: End, path: Path, lines: Sequence[str]) -> Iterator[Peer]:
    """One of them."""
    path.write_text("".join(f"{line}\n" for line in lines))
    eal = " ".join((*_EAL, f"--vdev={end.vdev}"))
    command = ("env", f"DPERF_EAL={eal}", "stdbuf", "-oL", program(), "-c", str(path))
    with peer(command, end.core, path.with_suffix(".log"), end.netns) as running:
        yield running

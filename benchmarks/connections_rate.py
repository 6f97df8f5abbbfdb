"""How many TCP connections a second the engine opens: SYNs alone, and whole ones with request, answer and FINs.

More are asked for than one core opens, so that what is opened is what it can. No peer of Debian's main archive opens
connections over frames; SYNs are held against frames that need no address of their own, into the same port.
"""

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import null_rate
from contest import Aim, Contender, Contest, Line, Sample
from peers import EAL, PAGES, hugepages, peer

from pinchpoint.engine.process import find_engine

SERVICE = "10.0.0.100:80"
TOO_MANY = "60M"  # a second: more than any core opens
MOST_TUPLES = ("--clients", "16.0.0.0/22", "--client-ports", "1-65535")  # 66,976,770
ENDS_S = 60.0  # the longest that a command takes on a busy machine


def command(verb: str, *options: str) -> list[str]:
    """The engine, one command of it, with DPDK's memory as every benchmark has it, on a core of its own choice."""
    return [
        "taskset",
        "-c",
        f"0-{(os.cpu_count() or 1) - 1}",
        find_engine(),
        verb,
        *options,
        "--idle",
        "spin",
        "--eal",
        " ".join(EAL),
        "--json",
    ]


def account(argv: list[str]) -> Mapping[str, Any]:
    """What it says at its end. Raises RuntimeError if it failed."""
    done = subprocess.run(argv, capture_output=True, text=True, timeout=ENDS_S, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "it failed")
    found: Mapping[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def sample(found: Mapping[str, Any], counted: str) -> Sample:
    """Connections a second, and what became of the others."""
    client = found["client"]
    timed_out = sum(client[f"timed_out_{stage}"] for stage in ("connecting", "answering", "closing"))
    notes = {"timed out": float(timed_out)} if counted == "completed" else {}
    return Sample(client[counted] / found["elapsed_s"], found["busy_share"], None, notes)


def load(seconds: float, timeout: str) -> tuple[str, ...]:
    """More connections than can be opened, for so long."""
    return ("--to", SERVICE, "--rate", TOO_MANY, "--time", f"{seconds}s", "--timeout", timeout)


def syns(core: int, seconds: float, *tuples: str) -> Sample:
    """SYNs alone; nobody answers, so each is forgotten after a millisecond."""
    hop = ("--next-hop", "02:00:00:00:00:01", "--work", "syn")
    argv = command("connect", f"dpdk:{null_rate.NULL}", "--core", str(core), *load(seconds, "1ms"), *hop, *tuples)
    return sample(account(argv), "opened")


def whole(core: int, seconds: float) -> Sample:
    """Both ends on one core, through memory."""
    ports = ("mem:pair", "mem:pair", "--backend", SERVICE)
    return sample(account(command("connect", *ports, "--core", str(core), *load(seconds, "50ms"))), "completed")


def apart(core: int, other: int, seconds: float) -> Sample:
    """Client and server a core each, through shared memory."""
    with tempfile.TemporaryDirectory() as name:
        folder, socket = Path(name), Path(name, "memif")
        link = f"socket={socket},socket-abstract=no,rsize=12"
        serving = command("serve", f"dpdk:net_memif0,role=server,{link}", "--core", str(other), "--backend", SERVICE)
        with peer(serving, other, folder / "serve.log"):
            await_file(socket)
            argv = command("connect", f"dpdk:net_memif0,role=client,{link}", "--core", str(core))
            return sample(account([*argv, *load(seconds, "50ms")]), "completed")


def await_file(path: Path) -> None:
    """Until it is there. Raises RuntimeError."""
    deadline = time.monotonic() + ENDS_S
    while not path.exists():
        if time.monotonic() > deadline:
            raise RuntimeError(f"{path.name}: the server did not listen")
        time.sleep(0.01)


def contests(core: int, other: int, seconds: float) -> list[Contest]:
    """SYNs, with one five-tuple and with 64 million; whole connections on one core and on two."""
    pages = partial(hugepages, 2 * PAGES)
    frames = Contender("64 B frames", lambda _: null_rate.ours(core, seconds))
    few = Contender("SYNs", lambda _: syns(core, seconds))
    many = Contender("SYNs, 66 million five-tuples", lambda _: syns(core, seconds, *MOST_TUPLES))
    found = [
        Contest(
            "SYNs into net_null",
            "connections",
            (few, many, frames),
            (
                Line("a SYN each, into net_null, one core", few.name, frames.name, (Aim("rate", 20e6),)),
                Line("the same, of 66 million five-tuples", many.name, few.name, (Aim("ratio", 0.95),)),
            ),
            pages,
        ),
        Contest(
            "whole connections on one core",
            "connections",
            (Contender("both ends", lambda _: whole(core, seconds)),),
            (Line("handshake, request, answer, FINs; both ends on one core, through memory", "both ends"),),
        ),
    ]
    if other != core:
        work = "the same, client and server a core each, through memif"
        two = Contender("client and server", lambda _: apart(core, other, seconds))
        lines = (Line(work, two.name, aims=(Aim("rate", 1.5e6),)),)
        found.append(Contest("whole connections on two cores", "connections", (two,), lines, pages))
    return found

"""How many TCP connections a second the engine opens: SYNs alone, and whole ones with request, answer and FINs.

One core is asked for hardly more than it opened in a short probe, again where it opened all of that; two cores for
more and more. Connections count while
others are opened: what waits for time-outs afterwards is no part of a rate. No peer of Debian's main archive opens
connections over frames; dperf is compared if the user has built it. SYNs are compared with frames of fixed addresses,
sent into the same port.
"""

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import dperf
import null_rate
from contest import Aim, Contender, Contest, Line, Sample
from peers import EAL, PAGES, cores_apart, hugepages, peer
from veth import FAR, NEAR, Link, standing

from pinchpoint.engine.process import find_engine
from pinchpoint.host.local import Local

SERVICE = "10.0.0.100:80"
PROBED_CPS, PROBE_S = 60_000_000, 0.2  # more than any core opens
ASKED = 1.1  # of what the probe opened
NOT_OPENED = 3.0  # per cent of what was asked for, at least: with fewer the rate asked for was the limit
MOST_PROBES = 6
SAMPLES = 10  # of the time in which connections are opened
MOST_TUPLES = ("--clients", "16.0.0.0/22", "--client-ports", "1-65535")  # 66,976,770
MOST_OVER_MEMIF, MOST_OVER_VETH = 3_000_000, 400_000  # a second that is asked for at last: more than are opened
PATIENCE = "2s"  # as long as dperf waits for an answer before it sends again
RISE = 10  # times as long as other samples it takes to get there
_RING = "blocksz=4096,framesz=2048,framecnt=512,qpairs=1,qdisc_bypass=1"
ENDS_S = 60.0  # the longest that a command takes on a busy machine


def command(verb: str, *options: str) -> list[str]:
    """The engine, one command of it, with DPDK's memory as every benchmark has it, on a core of its own choice."""
    return [
        "taskset",
        "-c",
        f"0-{(os.cpu_count() or 1) - 1}",
        find_engine(Local()),
        verb,
        *options,
        "--idle",
        "spin",
        "--eal",
        " ".join(EAL),
        "--json",
    ]


def said(argv: list[str]) -> list[Mapping[str, Any]]:
    """Its samples and its account, which is the last. Raises RuntimeError if it failed."""
    done = subprocess.run(argv, capture_output=True, text=True, timeout=ENDS_S, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "it failed")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def steady(argv: list[str], counted: str, seconds: float, timeout: str) -> Sample:
    """`connect` with `argv`, asked for hardly more than it can have. Raises RuntimeError if it always had all of it."""

    def connecting(cps: int, opening_s: float) -> list[Mapping[str, Any]]:
        load = ("--to", SERVICE, "--rate", str(cps), "--time", f"{opening_s}s", "--timeout", timeout)
        return said([*argv, *load, "--sample", f"{opening_s / SAMPLES}s"])

    asked = 0
    for _ in range(MOST_PROBES):
        probed = while_opening(connecting(PROBED_CPS, PROBE_S), counted, PROBE_S)
        asked = round(ASKED * max(probed, asked))
        measured = sample(connecting(asked, seconds), counted, seconds)
        if measured.notes["not opened %"] >= NOT_OPENED:
            return measured
    raise RuntimeError(f"hardly a connection was not opened at {asked:,} a second: its rate is higher")


def while_opening(lines: Sequence[Mapping[str, Any]], counted: str, opening_s: float) -> float:
    """Those `counted` a second, by the samples of the time in which connections were opened. Raises RuntimeError."""
    counts = [(at_s, count) for at_s, count in samples(lines, counted) if at_s <= opening_s]
    if len(counts) < 2 or counts[-1][1] <= counts[0][1]:
        raise RuntimeError(f"no connection was {counted} in {opening_s} s")
    (began_s, first), (ended_s, last) = counts[0], counts[-1]
    return (last - first) / (ended_s - began_s)


def samples(lines: Sequence[Mapping[str, Any]], counted: str) -> list[tuple[float, int]]:
    """Seconds since the first connection was due, and those `counted` until then."""
    return [(line["elapsed_s"], line[counted]) for line in lines if line.get("type") == "sample"]


def sample(lines: Sequence[Mapping[str, Any]], counted: str, opening_s: float) -> Sample:
    """Connections a second while they were opened, and what became of the others."""
    account = lines[-1]
    client = account["client"]
    timed_out = sum(client[f"timed_out_{stage}"] for stage in ("connecting", "answering", "closing"))
    notes = {"not opened %": 100 * client["shortfall"] / (client["opened"] + client["shortfall"])}
    notes |= {"timed out": float(timed_out)} if counted == "completed" else {}
    busy_s = account["busy_share"] * account["elapsed_s"]  # it moves nothing while it waits for time-outs
    return Sample(while_opening(lines, counted, opening_s), min(1.0, busy_s / opening_s), None, notes)


def syns(core: int, seconds: float, *tuples: str) -> Sample:
    """SYNs alone; nobody answers, so each is forgotten after a millisecond."""
    hop = ("--next-hop", "02:00:00:00:00:01", "--work", "syn")
    argv = command("connect", f"dpdk:{null_rate.NULL}", "--core", str(core), *hop, *tuples)
    return steady(argv, "opened", seconds, "1ms")


def whole(core: int, seconds: float) -> Sample:
    """Both ends on one core, through memory."""
    argv = command("connect", "mem:pair", "mem:pair", "--backend", SERVICE, "--core", str(core))
    return steady(argv, "completed", seconds, "50ms")


def apart(core: int, other: int, seconds: float) -> Sample:
    """Client and server a core each, through shared memory: the best second."""
    with tempfile.TemporaryDirectory() as name:
        socket = Path(name, "memif")
        server, client = (f"dpdk:{_memif(socket, role)}" for role in ("server", "client"))
        return _both(core, other, seconds, (client, server), MOST_OVER_MEMIF, Path(name), partial(await_file, socket))


def apart_over_veth(core: int, other: int, seconds: float, link: Link) -> Sample:
    """The same over a veth pair, by packet sockets."""
    with tempfile.TemporaryDirectory() as name:
        ends = (f"af_packet:{NEAR}@{link.near}", f"af_packet:{FAR}@{link.far}")
        return _both(core, other, seconds, ends, MOST_OVER_VETH, Path(name))


def _both(
    core: int,
    other: int,
    seconds: float,
    ends: tuple[str, str],
    most_cps: int,
    folder: Path,
    listens: Callable[[], None] = lambda: None,
) -> Sample:
    """The client's best second; `ends`: its port and the server's."""
    rise_s, second_s = RISE * seconds, seconds / 2
    rising = ("--rate", str(most_cps), "--ramp", f"{rise_s}s", "--time", f"{rise_s + seconds}s", "--timeout", PATIENCE)
    serving = command("serve", ends[1], "--core", str(other), "--backend", SERVICE)
    asking = command("connect", ends[0], "--core", str(core), "--to", SERVICE, *rising, "--sample", f"{second_s}s")
    with peer(serving, other, folder / "serve.log"):
        listens()
        best = best_second(said(asking))
    return Sample(best, notes=cores_apart(core, other))


def best_second(lines: Sequence[Mapping[str, Any]]) -> float:
    """The most connections that were completed from one sample to the next, as a rate. Raises RuntimeError."""
    counts = samples(lines, "completed")
    best = max(((b - a) / (then - now) for (now, a), (then, b) in pairwise(counts) if then > now), default=0.0)
    if best <= 0:
        raise RuntimeError("no connection was completed")
    return best


def _memif(socket: Path, role: str) -> str:
    return f"net_memif0,role={role},socket={socket},socket-abstract=no,rsize=12"


def dperf_apart(core: int, other: int) -> Sample:
    """Two dperf through shared memory."""
    with tempfile.TemporaryDirectory() as name:
        socket = Path(name, "memif")
        server, client = (_memif(socket, role) for role in ("server", "client"))
        ends = (dperf.End(core, client), dperf.End(other, server))
        measured = dperf.measured(*ends, MOST_OVER_MEMIF, Path(name), partial(await_file, socket))
    return replace(measured, notes=cores_apart(core, other))


def dperf_over_veth(core: int, other: int, link: Link) -> Sample:
    """Two dperf over a veth pair."""
    with tempfile.TemporaryDirectory() as name:
        ends = [
            dperf.End(cpu, f"net_af_packet0,iface={device},{_RING}", netns)
            for cpu, device, netns in ((core, NEAR, link.near), (other, FAR, link.far))
        ]
        measured = dperf.measured(ends[0], ends[1], MOST_OVER_VETH, Path(name), lambda: None)
    return replace(measured, notes=cores_apart(core, other))


def await_file(path: Path) -> None:
    """Until it is there. Raises RuntimeError."""
    deadline = time.monotonic() + ENDS_S
    while not path.exists():
        if time.monotonic() > deadline:
            raise RuntimeError(f"{path.name}: the server did not listen")
        time.sleep(0.01)


def contests(core: int, other: int, seconds: float) -> list[Contest]:
    """SYNs, with one five-tuple and with 64 million; whole connections on one core, on two, and over veth."""
    pages = partial(hugepages, 2 * PAGES)
    frames = Contender("64 B frames", lambda _: null_rate.ours(core, seconds))
    few = Contender("SYNs", lambda _: syns(core, seconds))
    many = Contender("SYNs, 66 million five-tuples", lambda _: syns(core, seconds, *MOST_TUPLES))
    contests = [
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
    return [*contests, *_on_two_cores(core, other, seconds)] if other != core else contests


def _on_two_cores(core: int, other: int, seconds: float) -> list[Contest]:
    """Client and server a core each, beside dperf."""
    absent = dperf.missing()
    ours, theirs = "client and server", "dperf"
    return [
        Contest(
            "whole connections on two cores",
            "connections",
            (
                Contender(ours, lambda _: apart(core, other, seconds)),
                Contender(theirs, lambda _: dperf_apart(core, other), absent),
            ),
            (
                Line(
                    "the same, client and server a core each, through memif",
                    ours,
                    theirs,
                    (Aim("rate", 2.5e6), Aim("ratio", 1.5)),
                    "the best second while more and more are asked for",
                ),
            ),
            partial(hugepages, 2 * PAGES if absent else 2 * dperf.PAGES),
        ),
        Contest(
            "whole connections over veth",
            "connections",
            (
                Contender(ours, lambda link: apart_over_veth(core, other, seconds, link)),
                Contender(theirs, lambda link: dperf_over_veth(core, other, link), absent),
            ),
            (
                Line(
                    "the same over veth, by packet sockets",
                    ours,
                    theirs,
                    (Aim("ratio", 1.0),),
                    "the best second while more and more are asked for",
                ),
            ),
            partial(_veth, not absent),
        ),
    ]


@contextmanager
def _veth(with_pages: bool) -> Iterator[Link]:
    """A veth pair, with hugepages for those that need some."""
    with hugepages(2 * dperf.PAGES) if with_pages else nullcontext(), standing() as link:
        yield link

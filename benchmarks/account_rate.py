"""How many received frames one core accounts: loss, reordering, latency and jitter of every frame.

Once in isolation, from memory, and once as a worker: one core sends into a pair of
ports in memory, another receives. Against what one core sends into net_null, because a
receiver that is slower than a sender would need more cores than it.
"""

import re
import subprocess
from functools import partial

import null_rate
from contest import Aim, Contender, Contest, Line, Sample
from peers import PAGES, cores_apart, engine, hugepages, stream, trial
from veth import EXAMPLES

from pinchpoint.engine import protocol

_ACCOUNT = EXAMPLES / "account"
ALL, CHECKED = "all of these", "all, checksums, 1,518 B"  # items of the example
RING = 1024
DRAIN_S = 0.05
EXAMPLE_S = 120.0  # the longest that the example takes, on a busy machine


def isolated(core: int, item: str) -> Sample:
    """One item of the example, its median over rounds of its own; both are with 65,536 flows one by one."""
    command = ["taskset", "-c", str(core), str(_ACCOUNT), item]
    done = subprocess.run(command, capture_output=True, text=True, timeout=EXAMPLE_S, check=True)
    return Sample(accounted(done.stdout, item), 1.0, 0.0)


def accounted(table: str, item: str) -> float:
    """Frames a second of an item in the example's table. Raises RuntimeError if it is not there."""
    line = re.search(rf"^{re.escape(item)}\s+[\d.]+\s+[\d.]+\s+([\d.]+)$", table, re.MULTILINE)
    if line is None:
        raise RuntimeError(f"{_ACCOUNT}: no line '{item}': build it anew (make bench-engine does)")
    return float(line[1]) * 1e6


def pair(sender: int, receiver: int, seconds: float, *, verify_checksums: bool) -> Sample:
    """Frames received for each second of sending; cycles are the receiver's busy ones."""
    ports = [protocol.PortRequest(name, "mem", "pair", None, RING, RING, ()) for name in ("left", "right")]
    workers = [protocol.WorkerRequest(sender, ("left",)), protocol.WorkerRequest(receiver, ("right",))]
    sent = [stream(0, "left", "right")]
    with engine(ports, workers) as running:
        running.run(trial(sent, 0.2, DRAIN_S, verify_checksums=verify_checksums))
        result = running.run(trial(sent, seconds, DRAIN_S, verify_checksums=verify_checksums))
    (account,) = result.streams
    busy = {worker.core: worker.busy_share for worker in result.witness.workers}
    notes = {"sender busy %": 100 * busy[sender], "receiver busy %": 100 * busy[receiver]}
    notes |= {"lost": float(account.lost or 0)} | cores_apart(sender, receiver)
    return Sample((account.received or 0) / result.duration_s, busy[receiver], None, notes)


def contests(core: int, other: int, seconds: float) -> list[Contest]:
    """In isolation, and as a worker where there are two cores."""
    absent = None if _ACCOUNT.exists() else f"not built: {_ACCOUNT} (make bench-engine does)"
    sending = Contender("sending into net_null", lambda _: null_rate.ours(core, seconds))
    aims = (Aim("ratio", 1.0),)
    pages = partial(hugepages, PAGES)
    alone = "receive accounting from memory: loss, reordering, latency, jitter, 65,536 flows"
    own_rounds = "one run, the median of 15 rounds of its own"
    contests = [
        Contest(
            "receive accounting from memory",
            "frames",
            (
                Contender("account", lambda _: isolated(core, ALL), absent),
                Contender("account, 1,518 B", lambda _: isolated(core, CHECKED), absent),
                sending,
            ),
            (
                Line(alone, "account", sending.name, aims, own_rounds),
                Line(
                    f"{alone}; 1,518 B, checksums verified, in the core's second-level cache",
                    "account, 1,518 B",
                    aims=(Aim("rate", 10e6),),
                    remark=own_rounds,
                ),
            ),
            pages,
            1,
        )
    ]
    if other != core:
        checked = Contender("and checksums", lambda _: pair(core, other, seconds, verify_checksums=True))
        work = "a mem pair, sender and receiver a core each: loss, reordering, latency, jitter"
        lines = (
            Line(work, "receiver", sending.name, aims),
            Line(f"{work}, checksums verified", checked.name, sending.name),
        )
        receiver = Contender("receiver", lambda _: pair(core, other, seconds, verify_checksums=False))
        contests.append(Contest("a mem pair", "frames", (receiver, checked, sending), lines, pages))
    return contests

"""TCP transactions over a veth pair: one connection, one question at a time (rr), or a connection for each (crr).

Client and server share a core, or have one each; with two, waking the other core is
most of a transaction.
"""

import re
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from contest import Aim, Contender, Contest, Line, Sample
from cpu import CpuMeter
from peers import cores_apart, missing, peer
from veth import EXAMPLES, FAR_IP, Link, standing

RUN_S = 1.0
SETTLE_S = 0.3
_RR = EXAMPLES / "rr"
_SOCKPERF_RATE = re.compile(r"\[Valid Duration\] RunTime=([\d.]+) sec; SentMessages=\d+; ReceivedMessages=(\d+)")

Cores = tuple[int, int]  # of client and server
_OURS = "pinchpoint"
_CLOSING = "pinchpoint, the server closes"  # as netperf's does once it has answered, without waiting for the client


def ours(link: Link, kind: str, cores: Cores, folder: Path, closes: str = "client") -> Sample:
    """One byte there, one back; in crr this side `closes` first."""
    command = [str(_RR), kind, "--client", link.near, "--server", link.far, "--listen", FAR_IP, "--close", closes]
    command += ["--cores", f"{cores[0]},{cores[1]}", "--duration", str(RUN_S), "--warm-up", str(SETTLE_S)]
    with peer(command, cores[0], folder / "rr.log") as running:
        time.sleep(2 * SETTLE_S)
        with CpuMeter(running.members(), _distinct(cores)) as meter:
            time.sleep(RUN_S - 2 * SETTLE_S)
        said = running.ended(10)
    return Sample(
        _number(r"(\d+) transactions/s", said), meter.share, meter.kernel_share, _percentiles(said) | _apart(cores)
    )


def _percentiles(said: str) -> dict[str, float]:
    return {f"p{name} us": _number(rf"latency us:.* p{name} ([\d.]+)", said) for name in ("50", "99")}


def sockperf(link: Link, cores: Cores, folder: Path) -> Sample:
    """14 bytes, its least; the rate of the part of the run that it holds valid."""
    server = ["sockperf", "server", "-i", FAR_IP, "--tcp"]
    client = ["sockperf", "ping-pong", "-i", FAR_IP, "--tcp", "-t", str(round(RUN_S)), "-m", "14", "--full-rtt"]
    said, meter = _pair(link, server, client, cores, folder, "Starting test")  # seconds after its warm-up
    if not (rate := _SOCKPERF_RATE.search(said)):
        raise RuntimeError("sockperf told no rate")
    notes = {f"p{name} us": _number(rf"percentile {name}\.000 =\s+([\d.]+)", said) for name in ("50", "99")}
    return Sample(int(rate[2]) / float(rate[1]), meter.share, meter.kernel_share, notes | _apart(cores))


def iperf(link: Link, cores: Cores, folder: Path) -> Sample:
    """100 bytes, as it is made for; it tells no percentiles below 100 us."""
    server = ["iperf", "-s", "-B", FAR_IP]
    client = ["iperf", "-c", FAR_IP, "--bounceback", "-t", str(round(RUN_S)), "--bounceback-period", "0"]
    said, meter = _pair(link, server, client, cores, folder)
    return Sample(_number(r"(\d+) rps", said), meter.share, meter.kernel_share, _apart(cores))


def netperf(link: Link, kind: str, cores: Cores, folder: Path) -> Sample:
    """1 byte each way; it tells no percentiles."""
    server = ["netserver", "-D", "-4", "-L", FAR_IP]
    client = ["netperf", "-4", "-H", FAR_IP, "-l", str(round(RUN_S)), "-t", f"TCP_{kind.upper()}", "-P", "0"]
    said, meter = _pair(link, server, [*client, "--", "-r", "1,1"], cores, folder)
    return Sample(
        _number(r"(?m)^\d+ +\d+ +1 +1 +[\d.]+ +([\d.]+)", said), meter.share, meter.kernel_share, _apart(cores)
    )


def neper(link: Link, kind: str, cores: Cores, folder: Path) -> Sample:
    """1 byte each way; in crr the client closes and waits, as ours does, where neper alone would reset."""
    program, length = f"tcp_{kind}", ["-l", str(round(RUN_S)), "--nolog"]
    graceful = ["--time-wait"] if kind == "crr" else []
    client = [program, "-c", "-H", FAR_IP, *length, *graceful, "-p", "50,99"]
    said, meter = _pair(link, [program, *length, *graceful], client, cores, folder)
    notes = {f"p{name} us": 1e6 * _number(rf"(?m)^latency_p{name}=([\d.]+)", said) for name in ("50", "99")}
    return Sample(_number(r"(?m)^throughput=([\d.]+)", said), meter.share, meter.kernel_share, notes | _apart(cores))


def _pair(
    link: Link, server: Sequence[str], client: Sequence[str], cores: Cores, folder: Path, begins: str = ""
) -> tuple[str, CpuMeter]:
    """What the client said, and the CPU time of both."""
    with peer(server, cores[1], folder / "server.log", link.far) as serving:
        time.sleep(SETTLE_S)
        with peer(client, cores[0], folder / "client.log", link.near) as asking:
            asking.wait_for(begins)
            time.sleep(SETTLE_S)
            with CpuMeter([*serving.members(), *asking.members()], _distinct(cores)) as meter:
                time.sleep(RUN_S - 2 * SETTLE_S)
            return asking.ended(15), meter


def _number(pattern: str, said: str) -> float:
    if not (match := re.search(pattern, said)):
        raise RuntimeError(f"told nothing like {pattern!r}")
    return float(match[1])


def _apart(cores: Cores) -> dict[str, float]:
    return cores_apart(*cores) if cores[0] != cores[1] else {}


def _distinct(cores: Cores) -> tuple[int, ...]:
    return tuple(sorted(set(cores)))


def contests(core: int, other: int, folder: Path) -> list[Contest]:
    """Both kinds, on one core and on two."""
    absent = None if _RR.exists() else f"not built: {_RR} (make bench-engine does, where engine/sockets is)"
    places = {"one core": (core, core)} | ({"two cores": (core, other)} if other != core else {})
    return [_contest(kind, where, cores, folder, absent) for kind in ("rr", "crr") for where, cores in places.items()]


def _contest(kind: str, where: str, cores: Cores, folder: Path, absent: str | None) -> Contest:
    work = f"TCP {kind} over veth, client and server on {where}"
    contenders = [Contender(_OURS, lambda link: ours(link, kind, cores, folder), absent)]
    if kind == "crr":
        contenders.append(Contender(_CLOSING, lambda link: ours(link, kind, cores, folder, "server"), absent))
    lines = []
    for name, (run, programs, remark) in _peers(kind).items():
        contenders.append(Contender(name, lambda link, run=run: run(link, cores, folder), missing(*programs)))  # type: ignore[misc]
        same = _CLOSING if kind == "crr" and name == "netperf" else _OURS
        lines.append(Line(work, same, name, (Aim("ratio", 1.0),), remark))
    return Contest(work, "transactions", tuple(contenders), tuple(lines), partial(standing, with_addresses=True))


Run = Callable[[Link, Cores, Path], Sample]


def _peers(kind: str) -> dict[str, tuple[Run, tuple[str, ...], str]]:
    """Those that have `kind`: how each is run, the programs that it needs, and what differs from ours."""
    both: dict[str, tuple[Run, tuple[str, ...], str]] = {
        "netperf": (lambda link, cores, folder: netperf(link, kind, cores, folder), ("netperf", "netserver"), ""),
        "neper": (lambda link, cores, folder: neper(link, kind, cores, folder), (f"tcp_{kind}",), ""),
    }
    if kind == "crr":
        return both
    return {
        "sockperf": (sockperf, ("sockperf",), "ours: 1 byte each way; sockperf: 14"),
        "iperf": (iperf, ("iperf",), "ours: 1 byte each way; iperf 2: 100"),
    } | both

"""How many frames one core builds and sends into net_null, a device that takes everything and does nothing.

What is measured is the sender alone: ours with checksums and a signature in every
frame, testpmd's without a signature.
"""

import time
from functools import partial
from pathlib import Path

from contest import Aim, Contender, Contest, Line, Sample
from peers import (
    ETHERNET,
    IPV4,
    PAGES,
    UDP,
    WARM_UP_S,
    engine,
    hugepages,
    increments,
    missing,
    one_worker,
    peer,
    stream,
    testpmd,
    testpmd_reported,
    watched,
)
from peers import TESTPMD_STARTED as STARTED

from pinchpoint.engine import protocol, streams

NULL = "net_null0,no-rx=1"
PORT = protocol.PortRequest("null", "dpdk", NULL, None, 1024, 1024, ())
FLOWS = stream(0, "null", None)


def ours(core: int, seconds: float, sent: streams.StreamRequest = FLOWS) -> Sample:
    """The engine, unpaced."""
    with engine([PORT], one_worker(core, [PORT]), dpdk=True) as running:
        result, meter = running.during([sent], seconds, lambda: watched([running.pid], core, seconds))
    rate = result.streams[0].sent / result.duration_s
    return Sample(rate, meter.share, meter.kernel_share)


def theirs(core: int, seconds: float, folder: Path, mode: str) -> Sample:
    """Testpmd: the median of its own reports."""
    with peer(testpmd([NULL], core, mode), core, folder / "testpmd.log") as running:
        running.wait_for(STARTED)
        time.sleep(WARM_UP_S)
        meter = watched(running.members(), core, seconds + 1)  # two whole reports
        return Sample(testpmd_reported(running), meter.share, meter.kernel_share)


def contests(core: int, folder: Path, seconds: float) -> list[Contest]:
    """Five-tuples, a constant frame, and frames other than UDP over IPv4 of one size."""
    absent = missing("dpdk-testpmd")
    constant = {stamped: stream(0, "null", None, fields=(), stamped=stamped) for stamped in (True, False)}
    pages = partial(hugepages, PAGES)
    return [
        Contest(
            "64 B, 65,536 five-tuples, into net_null",
            "frames",
            (
                Contender("pinchpoint", lambda _: ours(core, seconds)),
                Contender("testpmd flowgen", lambda _: theirs(core, seconds, folder, "flowgen"), absent),
            ),
            (
                Line(
                    "64 B, 65,536 five-tuples, stamped, into net_null, one core",
                    "pinchpoint",
                    "testpmd flowgen",
                    (Aim("ratio", 1.6),),
                ),
            ),
            pages,
        ),
        Contest(
            "64 B constant into net_null",
            "frames",
            (
                Contender("pinchpoint, stamped", lambda _: ours(core, seconds, constant[True])),
                Contender("pinchpoint", lambda _: ours(core, seconds, constant[False])),
                Contender("testpmd txonly", lambda _: theirs(core, seconds, folder, "txonly"), absent),
            ),
            (
                Line("64 B constant into net_null", "pinchpoint", "testpmd txonly", (Aim("ratio", 1.0),)),
                Line("the same, ours stamped", "pinchpoint, stamped", "testpmd txonly"),
            ),
            pages,
        ),
        _general(core, seconds),
    ]


def _general(core: int, seconds: float) -> Contest:
    ipv6 = streams.Layer(ipv6=streams.Ipv6("2001:db8::1", "2001:db8:1::1"))
    outer = (ETHERNET, IPV4, streams.Layer(udp=streams.Udp(49_152, 4789)), streams.Layer(vxlan=streams.Vxlan(42)))
    kinds = {
        "TCP SYN, 76 B": stream(
            0, "null", None, layers=(ETHERNET, IPV4, streams.Layer(tcp=streams.Tcp(1025, 80))), size=_fixed(76)
        ),
        "IPv6 and UDP, 84 B": stream(
            0,
            "null",
            None,
            layers=(ETHERNET, ipv6, UDP),
            size=_fixed(84),
            fields=increments("ipv6.src", "ipv6.dst"),
        ),
        "VXLAN, 114 B, inner five-tuples": stream(
            0,
            "null",
            None,
            layers=(*outer, ETHERNET, IPV4, UDP),
            size=_fixed(114),
            fields=increments("ipv4[1].src", "ipv4[1].dst"),
        ),
        "IMIX of 64 B x 7, 594 B x 4, 1518 B": stream(0, "null", None, size=streams.Size(imix="simple")),
    }
    contenders = [Contender("64 B UDP", lambda _: ours(core, seconds))]
    contenders += [Contender(name, lambda _, sent=sent: ours(core, seconds, sent)) for name, sent in kinds.items()]  # type: ignore[misc]
    lines = tuple(
        Line(f"{name}, 65,536 five-tuples, stamped, into net_null", name, "64 B UDP", remark="both ours")
        for name in kinds
    )
    return Contest("other frames into net_null", "frames", tuple(contenders), lines, partial(hugepages, PAGES))


def _fixed(size: int) -> streams.Size:
    return streams.Size(fixed=size)

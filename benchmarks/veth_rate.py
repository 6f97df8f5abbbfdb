"""How many frames one core sends over a veth pair into a namespace that drops them, by backend.

The sending core also does the far end's work: frames are dropped in the soft interrupt
that follows the sending. Rates are the sink's count.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

from contest import Aim, Contender, Contest, Line, Sample
from peers import TESTPMD_STARTED as STARTED
from peers import WARM_UP_S, Peer, engine, missing, one_worker, peer, stream, testpmd
from veth import EXAMPLES, NEAR, Count, Link, counted, nft_sink, standing, xdp_sink

from pinchpoint.engine import protocol

# Without hugepages, which AF_XDP and packet sockets do not need; net_af_xdp wants its socket for other processes.
_PLAIN = ("--no-pci", "--no-huge", "-m", "256")
_AF_PACKET = f"net_af_packet0,iface={NEAR},blocksz=4096,framesz=2048,framecnt=512,qpairs=1,qdisc_bypass=1"
# 60 bytes: the check sequence is the device's. Addresses, IPv4 with its checksum, UDP without one.
_TRAFGEN = """{
  0x02, 0, 0, 0, 0, 2, 0x02, 0, 0, 0, 0, 1, const16(0x0800),
  0x45, 0, const16(46), const16(0), const16(0x4000), 64, 17, csumip(14, 33),
  16, 0, 0, 1, 48, 0, 0, 1,
  const16(1025), const16(12), const16(26), const16(0),
  fill(0, 18)
}
"""
LIVE_AIM_FPS = 6.0e6

Sink = Callable[[Link], AbstractContextManager[Count]]


def ours(core: int, seconds: float, backend: protocol.BackendName, sink: Sink) -> Sample:
    """The engine, unpaced: 65,536 five-tuples, stamped."""
    with standing() as link, sink(link) as count:
        port = protocol.PortRequest("near", backend, NEAR, link.near, 1024, 1024, ())
        with engine([port], one_worker(core, [port])) as running:
            sent = [stream(0, "near", None)]
            watch = partial(counted, count, [running.pid], core, seconds)
            _, (rate, meter) = running.during(sent, seconds, watch)
    return Sample(rate, meter.share, meter.kernel_share)


def theirs(
    core: int, seconds: float, command: Sequence[str], sink: Sink, log: Path, ready: Callable[[Peer], None]
) -> Sample:
    """A peer in the near namespace."""
    with standing() as link, sink(link) as count, peer(command, core, log, link.near) as running:
        ready(running)
        time.sleep(WARM_UP_S)
        rate, meter = counted(count, running.members(), core, seconds)
    if rate == 0:
        raise RuntimeError("nothing arrived at the sink")
    return Sample(rate, meter.share, meter.kernel_share)


def contests(core: int, folder: Path, seconds: float) -> list[Contest]:
    """AF_XDP, live frames, packet sockets."""
    sink = None if (EXAMPLES / "drop_sink").exists() else f"not built: {EXAMPLES}/drop_sink (make bench-engine does)"
    return [_af_xdp(core, seconds, folder, sink), _live(core, seconds, sink), _af_packet(core, seconds, folder)]


def _af_xdp(core: int, seconds: float, folder: Path, sink: str | None) -> Contest:
    command = testpmd([f"net_af_xdp0,iface={NEAR}"], core, eal=_PLAIN)
    contenders = (
        Contender("pinchpoint", lambda _: ours(core, seconds, "af_xdp", xdp_sink), sink),
        Contender(
            "testpmd net_af_xdp, flowgen",
            lambda _: theirs(core, seconds, command, xdp_sink, folder / "af_xdp.log", _testpmd_started),
            missing("dpdk-testpmd") or sink,
        ),
    )
    work = "64 B, 65,536 five-tuples, over veth, AF_XDP, into XDP_DROP"
    lines = (Line(work, "pinchpoint", "testpmd net_af_xdp, flowgen", (Aim("ratio", 1.2),)),)
    return Contest(work, "frames", contenders, lines)


def _live(core: int, seconds: float, sink: str | None) -> Contest:
    work = "64 B, 65,536 five-tuples, over veth, XDP live frames, into XDP_DROP"
    published = "no peer here: Debian's xdp-trafficgen 1.3 does not run on this kernel; version 1.6 got 6.0 Mpps"
    contenders = (Contender("pinchpoint", lambda _: ours(core, seconds, "xdp_live", xdp_sink), sink),)
    return Contest(
        work, "frames", contenders, (Line(work, "pinchpoint", None, (Aim("rate", LIVE_AIM_FPS),), published),)
    )


def _af_packet(core: int, seconds: float, folder: Path) -> Contest:
    config = folder / "trafgen.cfg"
    config.write_text(_TRAFGEN)
    trafgen = ["trafgen", "--conf", str(config), "--dev", NEAR, "--cpus", "1"]
    packet = testpmd([_AF_PACKET], core, "txonly", (*_PLAIN, "--no-shconf"))
    no_nft = missing("nft")
    contenders = (
        Contender("pinchpoint", lambda _: ours(core, seconds, "af_packet", nft_sink), no_nft),
        Contender(
            "trafgen",
            lambda _: theirs(core, seconds, trafgen, nft_sink, folder / "trafgen.log", _nothing),
            missing("trafgen") or no_nft,
        ),
        Contender(
            "testpmd net_af_packet, txonly",
            lambda _: theirs(core, seconds, packet, nft_sink, folder / "af_packet.log", _testpmd_started),
            missing("dpdk-testpmd") or no_nft,
        ),
    )
    work = "64 B over veth, AF_PACKET, into nft ingress drop"
    remark = "ours: 65,536 five-tuples, stamped; peers: one constant frame"
    lines = tuple(
        Line(work, "pinchpoint", against, (Aim("ratio", 1.2),), remark)
        for against in ("trafgen", "testpmd net_af_packet, txonly")
    )
    return Contest(work, "frames", contenders, lines)


def _testpmd_started(running: Peer) -> None:
    running.wait_for(STARTED)


def _nothing(_running: Peer) -> None:
    time.sleep(WARM_UP_S)

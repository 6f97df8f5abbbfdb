"""A veth pair between two namespaces, and what drops and counts frames at its far end.

What the far end counted is the truth about how much was sent.
"""

import json
import secrets
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cpu import CpuMeter

from pinchpoint.bench.builder import Builder
from pinchpoint.bench.resource import AnyResource, Command, Namespace, Veth
from pinchpoint.host.local import Local

NEAR, FAR = "near", "far"  # the interfaces
NEAR_IP, FAR_IP = "10.255.0.1", "10.255.0.2"
EXAMPLES = Path(__file__).parents[1] / "engine" / "target" / "release" / "examples"
_TABLE = "pinchpoint"
_PORTS = ("tcp_tw_reuse=1", "ip_local_port_range=1024 65000")
_CHAIN = f"add chain netdev {_TABLE} ingress {{ type filter hook ingress device {FAR} priority 0; }}"


@dataclass(frozen=True)
class Link:
    """The two namespaces of a standing pair."""

    near: str
    far: str


@contextmanager
def standing(with_addresses: bool = False) -> Iterator[Link]:
    """A pair, journalled like any bench, so that `pinchpoint clean` finds it."""
    bench = f"bench-{secrets.token_hex(3)}"
    link = Link(f"pp-{bench}-a", f"pp-{bench}-b")
    resources: list[AnyResource] = [Namespace(link.near), Namespace(link.far)]
    resources.append(Veth(NEAR, link.near, FAR, link.far, mtu=1500))
    if with_addresses:
        for netns, device, address in ((link.near, NEAR, NEAR_IP), (link.far, FAR, FAR_IP)):
            resources.append(Command(("ip", "addr", "add", f"{address}/24", "dev", device), netns))
            # For all who close a connection for each transaction: their ports are many, and return after a second.
            resources += [Command(("sysctl", "-q", "-w", f"net.ipv4.{setting}"), netns) for setting in _PORTS]
    builder = Builder(bench, Local())
    builder.apply(resources)
    try:
        yield link
    finally:
        builder.undo()


Count = Callable[[], int]


@contextmanager
def xdp_sink(link: Link) -> Iterator[Count]:
    """An XDP program that drops and counts; on a veth it also lets the near end send XDP frames."""
    command = [str(EXAMPLES / "drop_sink"), FAR, link.far]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        question, answer = process.stdin, process.stdout

        def count() -> int:
            question.write("\n")
            question.flush()
            return int(answer.readline())

        mode = answer.readline().strip()  # the block's end closes stdin, which ends the sink
        if mode != "native":
            raise RuntimeError(f"the sink's program does not run in the driver: {mode or 'it did not start'}")
        yield count


@contextmanager
def nft_sink(link: Link) -> Iterator[Count]:
    """Nftables at the device's ingress hook: an XDP program would cost senders of socket buffers more."""
    words = ("nft", f"add table netdev {_TABLE}; add counter netdev {_TABLE} frames; {_CHAIN}")
    Local().run(words, link.far)
    Local().run(("nft", f"add rule netdev {_TABLE} ingress counter name frames drop"), link.far)

    def count() -> int:
        listed = json.loads(Local().run(("nft", "-j", "list", "counter", "netdev", _TABLE, "frames"), link.far))
        (packets,) = (entry["counter"]["packets"] for entry in listed["nftables"] if "counter" in entry)
        return int(packets)

    try:
        yield count
    finally:
        Local().run(("nft", f"delete table netdev {_TABLE}"), link.far)


def counted(count: Count, members: list[int], core: int, seconds: float) -> tuple[float, CpuMeter]:
    """(frames per second at the sink, CPU time of `members`) over the next `seconds`."""
    first, began = count(), time.monotonic()
    with CpuMeter(members, (core,)) as meter:
        time.sleep(seconds)
    last, ended = count(), time.monotonic()
    return (last - first) / (ended - began), meter
